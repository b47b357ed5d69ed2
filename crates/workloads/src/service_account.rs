//! A service account called `default` in every namespace, since pods that name none get it.

use std::sync::Arc;

use api::{Namespace, ServiceAccount};
use chassis::client::{Client, ResourceType};
use chassis::controller::{Reconciler, Requeue};
use chassis::key::Key;
use chassis::store::SharedStore;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::pods::is_namespace_going;
use crate::start::Start;

/// The name of the account.
const NAME: &str = "default";

/// Whether a namespace gets what every namespace has: not when it is going.
#[must_use]
pub fn is_served(namespace: Option<&Namespace>) -> bool {
    namespace.is_some_and(|namespace| {
        !namespace.metadata.is_going() && namespace.status.phase != "Terminating"
    })
}

/// Subscribes the controller and starts its loop. A key is the name of a namespace.
pub fn start(start: &mut Start<'_>) {
    let mailbox = start.mailbox("service-account");
    let informers = &mut *start.informers;
    let mut synced = Vec::new();
    let namespaces = informers.namespaces.store(&mut synced);
    let accounts = informers.accounts.store(&mut synced);
    let inbox = mailbox.clone();
    informers.namespaces.subscribe(move |change| inbox.add(change.key.clone()));
    let inbox = mailbox.clone();
    informers.accounts.subscribe(move |change| {
        if change.key.name() == NAME && change.new.is_none() {
            inbox.add(Key::cluster(change.key.namespace()));
        }
    });
    let shell = Shell { client: start.client.clone(), namespaces, accounts };
    start.run(mailbox, synced, 1, Arc::new(shell));
}

struct Shell {
    client: Client,
    namespaces: SharedStore<Namespace>,
    accounts: SharedStore<ServiceAccount>,
}

impl Reconciler for Shell {
    type Failure = Failure;

    async fn reconcile(&self, key: Key) -> Result<Requeue, Failure> {
        let namespace = key.name();
        let has_it = self.accounts.get(&Key::namespaced(namespace, NAME)).is_some();
        if has_it || !is_served(self.namespaces.get(&key).as_deref()) {
            return Ok(Requeue::OnChange);
        }
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount",
                              "metadata": { "name": NAME, "namespace": namespace } });
        let access = self.client.access::<Value>(ResourceType::of::<ServiceAccount>(), namespace);
        match access.create(&account).await {
            Ok(_) => Ok(Requeue::OnChange),
            Err(error)
                if error.is_already_exists()
                    || error.is_not_found()
                    || is_namespace_going(&error) =>
            {
                Ok(Requeue::OnChange)
            }
            Err(error) => {
                Err(Failure::of(format!("make the default service account of {namespace}"))(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_is_going_gets_nothing_new() {
        let check = |namespace: Value, want| {
            let namespace: Namespace = serde_json::from_value(namespace).unwrap();
            assert_eq!(is_served(Some(&namespace)), want);
        };
        check(json!({ "metadata": { "name": "a" } }), true);
        check(json!({ "metadata": { "name": "a" }, "status": { "phase": "Active" } }), true);
        check(json!({ "metadata": { "name": "a" }, "status": { "phase": "Terminating" } }), false);
        check(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), false);
        assert!(!is_served(None));
    }
}
