//! A new object.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use super::Ask;
use crate::answer::{Answer, Failure};
use crate::deadline::Deadline;
use crate::kinds::reviews::Asker;
use crate::request::{OptionsKind, WriteOptions};
use crate::store::{Store, Tail};
use crate::write::{self, Decoded, Written, meta_text};

/// Stores the object in the body.
///
/// # Errors
/// When the body is not such an object, or it is refused, or its name is taken.
pub async fn create(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let options = WriteOptions::parse(&ask.query, OptionsKind::Create)?;
    let media_type = write::media_type(&ask.headers);
    let kind = &ask.found.kind;
    let decoded = ask.apart(|| ask.decode(&media_type, options.field_validation));
    let Decoded { value, mut warnings } = decoded?;
    check_namespace(ask, &value)?;
    let asker = Asker { identity: ask.identity, credentials: &ask.server.config().credentials };
    if let Some(status) = kind.strategy.answer(&asker, &value) {
        let mut answered = value;
        answered["status"] = status?;
        return Ok(ask.written(StatusCode::CREATED, &Written::Rehearsed(answered), &warnings));
    }
    if ask.found.version().verbs.len() == 1 {
        // All that is left of what is created and not stored is a binding.
        return crate::subresources::create_unstored(ask);
    }
    let store = ask.server.store();
    let written = patiently(store, || ask.apart(|| ask.create(&value, options.dry_run))).await;
    let written = match written {
        Ok(written) => written,
        Err(failure) => return super::refused(failure, &warnings),
    };
    warnings.extend(kind.strategy.warnings(&value, None));
    Ok(ask.written(StatusCode::CREATED, &written, &warnings))
}

/// How long a create waits for what a controller is about to make.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tries again while all that is missing is an object that a controller makes on its own, such
/// as the service account of a namespace that is a moment old.
async fn patiently<T>(
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

/// Refuses an object that says it is elsewhere than the path says.
pub(crate) fn check_namespace(ask: &Ask<'_>, object: &Value) -> Result<(), Failure> {
    let given = meta_text(object, "namespace");
    let expected = ask.namespace().unwrap_or_default();
    // What lives in no namespace loses the one it names.
    if given.is_empty() || given == expected || !ask.found.kind.namespaced {
        return Ok(());
    }
    let why =
        "the namespace of the provided object does not match the namespace sent on the request";
    Err(Failure::bad_request(why))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::store::{Draft, Expect, Write};

    #[tokio::test(start_paused = true)]
    async fn what_is_made_while_a_create_is_tried_is_found() {
        let check = async |made_in_attempt: usize, want: Result<usize, ()>| {
            let store = Store::default();
            let table = store.table("serviceaccounts");
            let (mut attempts, ends) = (0, Deadline::after(PATIENCE));
            let made = patiently(&store, || {
                attempts += 1;
                if table.get("default").is_some() {
                    return Ok(attempts);
                }
                // It was not there; now it is, and this attempt fails all the same.
                if attempts == made_in_attempt {
                    let write = Write::Put(Draft::new(&json!({"metadata": {}}), Box::default()));
                    let (key, now) = ("default".into(), Timestamp::UNIX_EPOCH);
                    store.commit(&table, &key, Expect::Absent, write, now).unwrap();
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
