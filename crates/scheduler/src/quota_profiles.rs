//! Root quotas that ElasticQuotaProfiles make of groups of nodes: specification 12, 4.2.10.
//!
//! What quota there is to be follows from the profile and from its nodes, and what is to be done for that
//! from the quota that is there ([`root`], without I/O). It is looked at when the profile or one of the nodes
//! changes, at the pace of `pace`, and every ten seconds whatever happens. What is wrong with a profile, or cannot be written, is told in Events of the profile.

mod pool;
mod root;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::{ElasticQuota, ElasticQuotaProfile, Node};
use chassis::client::{Client, Error, Patch};
use chassis::controller::{Mailbox, Reconciler, Requeue, Worker};
use chassis::events::{Recorder, Subject};
use chassis::key::Key;
use chassis::store::SharedStore;
use tokio_util::sync::CancellationToken;

use crate::caretaker::{Caretaker, Failure, Kept, now};
use crate::message::Wrote;
use crate::pace::{Outcome, Rest};
use pool::PoolNode;
use root::{Root, Step};

/// How many requests are under way at once: two for the watches, one for a profile, and one for Events.
pub(crate) const IN_FLIGHT_MAX: usize = 4;
/// How often a profile is looked at though nothing has changed.
const PERIOD: Duration = Duration::from_secs(10);
/// How long until what failed is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// Reason of Events about what a profile says that cannot be meant.
const INVALID: &str = "InvalidProfile";
/// Reason of Events about a quota that is not there.
const CREATE_FAILED: &str = "CreateQuotaFailed";
/// Reason of Events about a quota that is not as it should be.
const UPDATE_FAILED: &str = "UpdateQuotaFailed";

/// Makes root quotas while this process leads, until it is to stop. Events are told in this name.
pub(crate) async fn run(own: Caretaker, name: String) {
    let Some(own) = own.leading().await else { return };
    let mut profiles = own.watch::<ElasticQuotaProfile, ElasticQuotaProfile>("");
    let mut nodes = own.watch::<Node, PoolNode>("");
    let (client, clock) = (&own.client, own.client.clock());
    let (events, writer) = Recorder::new(&name, client, own.seed, &own.metrics);
    let mailbox = Mailbox::new("elasticquotaprofile", clock, own.seed, &own.metrics);
    let mut synced = Vec::new();
    let shell = Arc::new(Shell {
        client: client.clone(),
        profiles: profiles.store(&mut synced),
        nodes: nodes.store(&mut synced),
        events,
        looks: Kept::default(),
    });
    // Without a profile nobody asks for nodes.
    let is_wanted = CancellationToken::new();
    let (inbox, wanted) = (mailbox.clone(), is_wanted.clone());
    profiles.subscribe(move |change| {
        wanted.cancel();
        inbox.add(change.key.clone());
    });
    let (inbox, known) = (mailbox.clone(), shell.profiles.clone());
    nodes.subscribe(move |change| {
        if !PoolNode::are_alike(change.old.map(|own| &**own), change.new.map(|own| &**own)) {
            known.read().iter().for_each(|(key, _)| inbox.add(key.clone()));
        }
    });
    let worker = Worker { mailbox, synced, workers: 1 };
    let nodes = async {
        is_wanted.cancelled().await;
        nodes.run(own.how()).await;
    };
    let work = async {
        let working = worker.run(own.stop.clone(), shell);
        let telling = writer.run(own.stop.clone());
        tokio::join!(profiles.run(own.how()), nodes, working, telling);
    };
    own.work(work).await;
}

struct Shell {
    client: Client,
    profiles: SharedStore<ElasticQuotaProfile>,
    nodes: SharedStore<PoolNode>,
    events: Recorder,
    /// The last looks at profiles that are there.
    looks: Kept<Look>,
}

/// A look at a profile.
#[derive(Debug, Clone, Default)]
struct Look {
    /// Until when it is left alone: what happens meanwhile becomes one look.
    rest: Rest,
    /// What was told then; it is told once.
    told: Vec<Trouble>,
}

/// What is wrong, as Events tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Trouble {
    reason: &'static str,
    words: String,
}

impl Trouble {
    fn of(reason: &'static str, doing: &str, error: &Error) -> Self {
        Self { reason, words: format!("cannot {doing}: {}", error.told()) }
    }
}

impl Reconciler for Shell {
    type Failure = Failure;

    // A look never fails: what is wrong is told, and looked at again soon.
    async fn reconcile(&self, key: Key) -> Result<Requeue, Failure> {
        let profile = self.profiles.get(&key).filter(|own| !own.metadata.is_going());
        let Some(profile) = profile else {
            self.looks.with(|looks| looks.remove(&key));
            return Ok(Requeue::OnChange);
        };
        let now = now(&self.client);
        let last = self.looks.with(|looks| looks.get(&key).cloned()).unwrap_or_default();
        if let Some(left) = last.rest.left(now) {
            return Ok(Requeue::After(left));
        }
        let root = {
            let nodes = self.nodes.read();
            root::of(&profile, nodes.iter().map(|(_, node)| &**node))
        };
        let (told, outcome, again) = match root {
            Ok(root) => {
                let mut told: Vec<Trouble> = root.complaints.iter().map(invalid).collect();
                let applied = self.apply(&profile, &root).await;
                let again = if applied.is_err() { RETRY } else { PERIOD };
                let outcome = applied.unwrap_or_else(|trouble| {
                    told.push(trouble);
                    Outcome::Failed
                });
                (told, outcome, again)
            }
            Err(complaint) => (vec![invalid(&complaint)], Outcome::Kept, PERIOD),
        };
        let before = last.told;
        let subject = Subject::of::<ElasticQuotaProfile>((&profile.metadata).into());
        for trouble in told.iter().filter(|trouble| !before.contains(trouble)) {
            let Trouble { reason, words } = trouble;
            tracing::warn!(profile = %key, reason, "{words}");
            self.events.warning(&subject, *reason, words.clone());
        }
        self.looks
            .with(|looks| looks.insert(key, Look { rest: last.rest.after(outcome, now), told }));
        Ok(Requeue::After(again))
    }
}

fn invalid(complaint: &root::Complaint) -> Trouble {
    Trouble { reason: INVALID, words: complaint.to_string() }
}

impl Shell {
    /// Has the quota be as it is to be, and the profile name its tree; what came of it.
    async fn apply(&self, profile: &ElasticQuotaProfile, root: &Root) -> Result<Outcome, Trouble> {
        let meta = &profile.metadata;
        let wanted = &root.quota.metadata;
        if let Some(patch) = root::naming(profile, root) {
            let profiles = self.client.within::<ElasticQuotaProfile>(&meta.namespace);
            let answer = profiles.patch(&meta.name, &Patch::Merge(patch)).await;
            let doing = "write the tree on the profile";
            answer.map_err(|error| Trouble::of(UPDATE_FAILED, doing, &error))?;
        }
        let quotas = self.client.within::<ElasticQuota>(&wanted.namespace);
        let found = quotas.find(&wanted.name).await;
        let doing = format!("read ElasticQuota {}", wanted.name);
        let found = found.map_err(|error| Trouble::of(UPDATE_FAILED, &doing, &error))?;
        let other = |name: &str| self.profiles.get(&Key::namespaced(&meta.namespace, name));
        let (reason, doing, answer) = match root::step(profile, root, found.as_ref(), other) {
            Step::Nothing => return Ok(Outcome::Kept),
            Step::Taken(other) => {
                let name = &wanted.name;
                let words = format!(
                    "ElasticQuota {name} is made from profile {other} already; name another quota in \
                     spec.quotaName of one of them"
                );
                return Err(Trouble { reason: UPDATE_FAILED, words });
            }
            Step::Create => (CREATE_FAILED, "create", self.client.create(&root.quota).await),
            Step::Patch(patch) => {
                let answer = quotas.patch(&wanted.name, &Patch::Merge(patch)).await;
                (UPDATE_FAILED, "update", answer)
            }
        };
        let doing = format!("{doing} ElasticQuota {}", wanted.name);
        let own = answer.map_err(|error| Trouble::of(reason, &doing, &error))?;
        Ok(Outcome::of(Wrote::All, || root::patch(&own, &root.quota).is_none()))
    }
}
