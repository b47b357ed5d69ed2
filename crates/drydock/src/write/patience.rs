//! A write that waits a moment for what others are about to make.

use std::time::Duration;

use crate::answer::Failure;
use crate::deadline::Deadline;
use crate::store::{Store, Tail};

/// How long a create waits for what a controller is about to make.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tries again while all that is missing is an object that a controller makes on its own, such
/// as the service account of a namespace that is a moment old.
///
/// # Errors
/// With what the last attempt was refused for.
pub(crate) async fn patiently<T>(
    store: &Store,
    mut attempt: impl FnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let ends = Deadline::after(PATIENCE);
    let mut follows: Option<(&'static str, Tail)> = None;
    while !ends.has_passed() {
        let result = attempt();
        let Err(Failure { awaits: Some(resource), .. }) = &result else { return result };
        match &mut follows {
            Some((known, tail)) if known == resource => {
                if ends.bound(tail.changed()).await.is_none() {
                    return result;
                }
            }
            // What was made during the attempt is not heard of: it is looked for again first.
            _ => {
                let table = store.table(resource);
                let Ok(tail) = table.tail(table.revision()) else { return result };
                follows = Some((resource, tail));
            }
        }
    }
    attempt()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::env::ManualEnv;
    use crate::request::Identity;
    use crate::write::{Writer, create};
    use crate::{Config, Drydock};

    #[tokio::test(start_paused = true)]
    async fn what_is_made_while_a_create_is_tried_is_found() {
        let check = async |made_in_attempt: usize, want: Result<usize, ()>| {
            let env = ManualEnv::new(Timestamp::UNIX_EPOCH, 1);
            let server = Drydock::new(Config::default(), env).server;
            let found = server.registry().find("", "v1", "serviceaccounts").unwrap();
            let (mut attempts, ends) = (0, Deadline::after(PATIENCE));
            let made = patiently(server.store(), || {
                attempts += 1;
                if found.kind.table.get("default/made").is_some() {
                    return Ok(attempts);
                }
                // It was not there; now it is, and this attempt fails all the same.
                if attempts == made_in_attempt {
                    let account = json!({"metadata": {"name": "made"}});
                    let identity = Identity::apiserver();
                    let writer = Writer { identity: &identity, dry_run: false };
                    let namespace = Some("default");
                    assert!(create(&server, &found, namespace, writer, &account).is_ok());
                }
                Err(Failure::no_such_path().awaiting("serviceaccounts"))
            });
            assert_eq!(made.await.map_err(|_| ()), want);
            assert_eq!(ends.has_passed(), want.is_err(), "nobody waits in vain");
        };
        check(1, Ok(2)).await;
        check(2, Ok(3)).await;
        check(usize::MAX, Err(())).await;
    }
}
