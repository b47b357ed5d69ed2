//! Empties namespaces that are going.

use std::sync::Arc;
use std::time::Duration;

use api::Namespace;
use chassis::client::{Client, DeleteOptions, ListOptions, Propagation, ResourceType};
use chassis::controller::{Reconciler, Requeue};
use chassis::key::Key;
use chassis::store::SharedStore;
use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use super::{Remains, conditions};
use crate::discovery::{Resources, Served};
use crate::facts::MetadataOnly;
use crate::failure::{Failure, unless_gone};
use crate::server;
use crate::start::Start;

/// How many namespaces are emptied side by side.
const WORKERS: usize = 4;
/// How many resources of one namespace are looked at side by side.
const RESOURCES_AT_ONCE: usize = 8;
/// How long until what is left is looked at again: nobody tells when the last object of
/// any kind is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// The same when something has held up the deletion for a while.
const LOOK_AGAIN_LATER: Duration = Duration::from_secs(5);
/// How long that is.
const SLOW: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);
/// The finalizer that is ours to remove.
const FINALIZER: &str = "kubernetes";

/// Subscribes the controller and starts its loop.
pub fn start(start: &mut Start<'_>) {
    let mailbox = start.mailbox("namespace");
    let mut synced = Vec::new();
    let namespaces = start.informers.namespaces.store(&mut synced);
    let inbox = mailbox.clone();
    start.informers.namespaces.subscribe(move |change| {
        if change.new.is_some_and(|namespace| namespace.metadata.is_going()) {
            inbox.add(change.key.clone());
        }
    });
    let client = start.client.clone();
    start.run(mailbox, synced, WORKERS, Arc::new(Shell { client, namespaces }));
}

struct Shell {
    client: Client,
    namespaces: SharedStore<Namespace>,
}

impl Reconciler for Shell {
    type Failure = Failure;

    async fn reconcile(&self, key: Key) -> Result<Requeue, Failure> {
        let client = &self.client;
        let is_ours = |namespace: &Arc<Namespace>| {
            namespace.metadata.is_going()
                && namespace.spec.finalizers.iter().any(|own| own == FINALIZER)
        };
        let Some(namespace) = self.namespaces.get(&key).filter(is_ours) else {
            return Ok(Requeue::OnChange);
        };
        let name = namespace.metadata.name.as_str();
        let remains = empty(client, name).await;
        report(client, &namespace, &remains).await?;
        if !remains.is_empty() {
            let going_since = namespace.metadata.deletion_timestamp.map(jiff::Timestamp::from);
            let now = client.clock().now();
            let is_slow = going_since.is_some_and(|since| now.duration_since(since) > SLOW);
            return Ok(Requeue::After(if is_slow { LOOK_AGAIN_LATER } else { LOOK_AGAIN }));
        }
        finalize(client, name, &namespace.metadata.uid).await?;
        Ok(Requeue::OnChange)
    }
}

/// Removes our finalizer. The subresource takes whole objects only, so that the namespace
/// is read first: what else it carries, such as finalizers of others, has to stay.
async fn finalize(client: &Client, name: &str, uid: &str) -> Result<(), Failure> {
    let access = client.access::<Value>(ResourceType::of::<Namespace>(), "");
    let doing = format!("finalize namespace {name}");
    let found = access.find(name).await.map_err(Failure::of(doing.as_str()))?;
    let Some(mut namespace) = found.filter(|found| found["metadata"]["uid"] == uid) else {
        return Ok(());
    };
    if let Some(finalizers) = namespace["spec"]["finalizers"].as_array_mut() {
        finalizers.retain(|own| own != FINALIZER);
    }
    unless_gone(access.update_sub(name, "finalize", &namespace).await, doing).map(|_| ())
}

/// Deletes what can be deleted, pods first, and says what is left.
async fn empty(client: &Client, namespace: &str) -> Remains {
    let mut remains = Remains::default();
    let resources = match Resources::discover(client).await {
        Ok(resources) => resources,
        Err(error) => {
            remains.undiscovered = Some(error.to_string());
            return remains;
        }
    };
    if !resources.unknown.is_empty() {
        let (count, list) = (resources.unknown.len(), resources.unknown.join(", "));
        remains.undiscovered =
            Some(format!("Discovery failed for some groups, {count} failing: {list}"));
    }
    let content = resources
        .served
        .into_iter()
        .filter(|served| served.resource.namespaced && served.can(&["delete", "list"]));
    let is_pods =
        |served: &Served| served.resource.group.is_empty() && served.resource.plural == "pods";
    let (pods, others): (Vec<Served>, Vec<Served>) = content.partition(is_pods);
    for batch in [pods, others] {
        let sweeps =
            batch.into_iter().map(|served| sweep(client.clone(), served, namespace.to_owned()));
        let mut swept = stream::iter(sweeps).buffer_unordered(RESOURCES_AT_ONCE);
        while let Some(left) = swept.next().await {
            remains.failures.extend(left.failures);
            remains.objects.extend(left.objects);
            for (finalizer, count) in left.finalizers {
                *remains.finalizers.entry(finalizer).or_insert(0) += count;
            }
        }
        if !remains.objects.is_empty() || !remains.failures.is_empty() {
            break;
        }
    }
    remains
}

/// Deletes the objects of one resource, and says what is left of them.
async fn sweep(client: Client, served: Served, namespace: String) -> Remains {
    let mut remains = Remains::default();
    let access = client.access::<MetadataOnly>(served.resource.clone(), &namespace).metadata_only();
    let list = ListOptions { limit: 500, ..ListOptions::default() };
    let name = format!("{}.{}", served.resource.plural, served.resource.group);
    let mut objects = match access.list_all(&list).await {
        Ok(objects) => objects,
        Err(error) if is_absent(&error) => return remains,
        Err(error) => {
            remains.failures.push(format!("{name}: {error}"));
            return remains;
        }
    };
    if objects.iter().any(|object| !object.metadata.is_going()) {
        let options = DeleteOptions::default().leaving(Propagation::Background);
        let mut deleted = Ok(());
        if served.can(&["deletecollection"]) {
            deleted = access.delete_all(&ListOptions::default(), &options).await;
        } else {
            for object in &objects {
                if let Err(error) = access.delete(&object.metadata.name, &options).await
                    && !error.is_not_found()
                {
                    deleted = Err(error);
                }
            }
        }
        if let Err(error) = deleted {
            remains.failures.push(format!("{name}: {error}"));
        }
        objects = access.list_all(&list).await.unwrap_or(objects);
    }
    for finalizer in objects.iter().flat_map(|object| &object.metadata.finalizers) {
        *remains.finalizers.entry(finalizer.clone()).or_insert(0) += 1;
    }
    if !objects.is_empty() {
        remains.objects.insert(name, objects.len());
    }
    remains
}

/// Whether a resource went away between discovery and the list.
fn is_absent(error: &chassis::client::Error) -> bool {
    use chassis::client::Reason;
    matches!(error.reason(), Some(Reason::NotFound | Reason::MethodNotAllowed))
}

async fn report(client: &Client, namespace: &Namespace, remains: &Remains) -> Result<(), Failure> {
    // A namespace that is emptied at the first look goes without a word.
    if remains.is_empty() && namespace.status.conditions.is_empty() {
        return Ok(());
    }
    let told = conditions(&namespace.status.conditions, remains, client.clock().now());
    if told == namespace.status.conditions {
        return Ok(());
    }
    let patch = json!({ "status": { "phase": "Terminating", "conditions": told } });
    let who = (&namespace.metadata).into();
    server::report::<Namespace>(client, who, patch).await.map(|_| ())
}
