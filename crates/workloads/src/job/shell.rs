//! Carries out what the core decides for jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::{Condition, Job, PodTemplate, Resource as _};
use chassis::client::{Client, DeleteOptions, Propagation, ResourceType};
use chassis::controller::{Reconciler, Requeue};
use chassis::events::{Recorder, Subject};
use chassis::key::Key;
use chassis::store::{IndexId, SharedStore};
use serde_json::{Value, json};

use super::{
    Actions, Backoff, Facts, Outcome, Place, Tally, backoff, decide, delete_at, is_finished,
    is_ours, orphans, tally,
};
use crate::claims::{self, ClaimBook, Watched};
use crate::facts::{FAILURES, IGNORED_FAILURES, INDEX, Packed, PodFact, TRACKING_FINALIZER};
use crate::failure::{Failure, all_of, unless_gone};
use crate::informer::orphans_of;
use crate::ownership::{self, Candidate, Claimant, Ownership};
use crate::pods::{Order, PodHand};
use crate::server;
use crate::start::Start;
use crate::write::{self, NewPod};

/// How many jobs are looked at side by side.
const WORKERS: usize = 5;
/// The variable that gives it to the containers.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

struct Shell {
    client: Client,
    jobs: SharedStore<Packed<Job>>,
    pods: SharedStore<PodFact>,
    pods_by_owner: IndexId,
    claims: Arc<ClaimBook>,
    hand: PodHand,
    events: Recorder,
    memory: Mutex<BTreeMap<Key, Memory>>,
}

/// What is remembered of a job from look to look.
#[derive(Debug, Clone, Default)]
struct Memory {
    backoff: Backoff,
    /// The version that we have changed since: whoever still sees it sees the past.
    outdated: String,
}

/// Subscribes the controller and starts its loops.
pub fn start(start: &mut Start<'_>) {
    let events = start.recorder("job-controller");
    let mailbox = start.mailbox("job");
    let informers = &mut *start.informers;
    let Watched { workloads: jobs, pods, claims, synced } =
        claims::watch(&mut informers.jobs, &mut informers.pods, &mailbox);
    let pods_by_owner = informers.pods_by_owner;
    let hand = PodHand::new(start.client, pods.clone(), &claims, events.clone());
    orphans::start(start, &hand);
    let client = start.client.clone();
    let memory = Mutex::default();
    let shell = Shell { client, jobs, pods, pods_by_owner, claims, hand, events, memory };
    start.run(mailbox, synced, WORKERS, Arc::new(shell));
}

impl Reconciler for Shell {
    type Failure = Failure;

    async fn reconcile(&self, key: Key) -> Result<Requeue, Failure> {
        let Some(job) = self.jobs.get(&key) else {
            self.forget(&key);
            return Ok(Requeue::OnChange);
        };
        if is_finished(&job) {
            self.forget(&key);
            return self.expire(&key, &job).await;
        }
        let memory = self.remember(&key, |memory| memory.clone());
        // The change of the version that we made is on its way, and asks for a look.
        if !is_ours(&job) || memory.outdated == job.metadata.resource_version {
            return Ok(Requeue::OnChange);
        }
        let Some(pods) = self.own_pods(&job).await? else {
            // Its end is on its way through the watch; nothing is done for it until then.
            return Ok(Requeue::OnChange);
        };
        let refs: Vec<&PodFact> = pods.iter().map(|pod| &**pod).collect();
        let now = self.client.clock().now();
        let claims = self.claims.with(&key, |claims| {
            claims.settle(refs.iter().copied(), now);
            claims.clone()
        });
        let facts = Facts { job: &job, pods: &refs, claims: &claims, backoff: memory.backoff, now };
        let actions = decide(&facts);
        let (outcome, trouble) = self.act(&key, &job, &actions).await;
        let tally = tally(&facts, &actions, &outcome);
        let failures = backoff(&facts);
        if let Some(patch) = write::difference(&job.status, &tally.status) {
            let is_changed = self.report(&job, patch).await?;
            self.remember(&key, |memory| {
                memory.backoff = failures;
                if is_changed {
                    memory.outdated.clone_from(&job.metadata.resource_version);
                }
            });
        }
        self.tell(&job, &tally);
        let releases = tally.release.iter().map(|pod| self.hand.untrack(Some(&key), pod));
        all_of(releases.collect()).await?;
        let next = [actions.look_again, self.hand.next_expiry(&key)].into_iter().flatten().min();
        trouble.map_or(Ok(next.into()), Err)
    }
}

impl Shell {
    fn remember<R>(&self, key: &Key, change: impl FnOnce(&mut Memory) -> R) -> R {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        change(memory.entry(key.clone()).or_default())
    }

    fn forget(&self, key: &Key) {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// The pods of a job, after it has taken and let go what it must; `None` when the job turns
    /// out to be gone or going.
    async fn own_pods(&self, job: &Packed<Job>) -> Result<Option<Vec<Arc<PodFact>>>, Failure> {
        let candidates: Vec<Arc<PodFact>> = {
            let pods = self.pods.read();
            let orphans = orphans_of(&job.metadata.namespace);
            let own = pods.find(self.pods_by_owner, &job.metadata.uid);
            own.chain(pods.find(self.pods_by_owner, &orphans)).map(|(_, pod)| pod.clone()).collect()
        };
        let claimant = Claimant { uid: &job.metadata.uid, going: job.metadata.is_going() };
        let (mut own, mut alive) = (Vec::new(), None);
        for pod in candidates {
            let candidate = Candidate {
                controller: pod.meta.controller(),
                matches: pod.meta.labels.match_selector(&job.selector),
                going: pod.is_going(),
            };
            match ownership::decide(claimant, &candidate) {
                Ownership::Ours => own.push(pod),
                Ownership::Adopt => {
                    if !self.is_alive(job, &mut alive).await? {
                        return Ok(None);
                    }
                    let owner = job.controller_reference();
                    // It counts at once: another in its place would be one too many.
                    let adopted = self.hand.adopt(&pod, &owner, Some(TRACKING_FINALIZER)).await?;
                    own.extend(adopted.map(Arc::new));
                }
                Ownership::Release => self.hand.release(&pod, &job.metadata.uid).await?,
                Ownership::Foreign => {}
            }
        }
        Ok(Some(own))
    }

    /// Asks the server, and asks it once.
    async fn is_alive(&self, job: &Job, known: &mut Option<bool>) -> Result<bool, Failure> {
        if known.is_none() {
            let who = (&job.metadata).into();
            *known = Some(server::is_alive::<Job>(&self.client, who).await?);
        }
        Ok(*known == Some(true))
    }

    async fn act(
        &self,
        key: &Key,
        job: &Packed<Job>,
        actions: &Actions<'_>,
    ) -> (Outcome, Option<Failure>) {
        let subject = Subject::of::<Job>((&job.metadata).into());
        if !actions.delete.is_empty() {
            if !actions.counts_deleted()
                && let Err(failure) = self.let_go(key, &actions.delete).await
            {
                return (Outcome::default(), Some(failure));
            }
            let (gone, refused) = self.hand.delete(&subject, &actions.delete).await;
            let outcome =
                Outcome { deleted: gone.into_iter().collect::<BTreeSet<_>>(), created: 0 };
            return (outcome, refused.map(Failure::of(format!("delete pods of job {key}"))));
        }
        if actions.create.is_empty() {
            return (Outcome::default(), None);
        }
        if let Some(pod) = self.hand.never_read(&job.metadata.uid).first() {
            let told = format!("pod {pod} is there and cannot be read");
            return (Outcome::default(), Some(Failure::Unknown(told)));
        }
        let template = job.template.unpack();
        let orders = actions.create.iter().map(|place| order(job, &template, *place)).collect();
        let made = self.hand.create(&subject, orders).await;
        let outcome = Outcome { created: made.count, deleted: BTreeSet::new() };
        (outcome, made.refused.map(Failure::of(format!("make pods of job {key}"))))
    }

    /// Takes the finalizer off pods that nobody will count.
    async fn let_go(&self, key: &Key, pods: &[&PodFact]) -> Result<(), Failure> {
        let held = pods.iter().filter(|pod| pod.meta.has_finalizer(TRACKING_FINALIZER));
        all_of(held.map(|pod| self.hand.untrack(Some(key), pod)).collect()).await
    }

    /// Tells users what the status that was written says and the one before did not.
    fn tell(&self, job: &Job, tally: &Tally<'_>) {
        let subject = Subject::of::<Job>((&job.metadata).into());
        let is_news = |new: &&Condition| {
            let old = api::condition::find(&job.status.conditions, &new.r#type);
            old.is_none_or(|old| old.status != new.status)
        };
        for told in tally.status.conditions.iter().filter(is_news) {
            match (told.r#type.as_str(), told.is_true()) {
                ("Suspended", true) => {
                    self.events.normal(&subject, "Suspended", "Job suspended".to_owned());
                }
                ("Suspended", false) => {
                    self.events.normal(&subject, "Resumed", "Job resumed".to_owned());
                }
                ("Complete", true) => {
                    self.events.normal(&subject, "Completed", "Job completed".to_owned());
                }
                ("Failed", true) => {
                    self.events.warning(&subject, told.reason.clone(), told.message.clone());
                }
                _ => {}
            }
        }
    }

    /// Writes the status, and says whether that made a new version of the job.
    async fn report(&self, job: &Job, patch: Value) -> Result<bool, Failure> {
        let (meta, patch) = (&job.metadata, json!({ "status": patch }));
        let written = server::report::<Job>(&self.client, meta.into(), patch).await?;
        Ok(written.is_some_and(|new| new.metadata.resource_version != meta.resource_version))
    }

    /// Deletes a job whose time after its end is over.
    async fn expire(&self, key: &Key, job: &Job) -> Result<Requeue, Failure> {
        let Some(due) = delete_at(job).filter(|_| !job.metadata.is_going()) else {
            return Ok(Requeue::OnChange);
        };
        let left = due.duration_since(self.client.clock().now());
        if let Ok(wait) = Duration::try_from(left)
            && !wait.is_zero()
        {
            return Ok(Requeue::After(wait));
        }
        // At this version: its time may have been changed since.
        let options = DeleteOptions::of(&job.metadata.uid)
            .at(&job.metadata.resource_version)
            .leaving(Propagation::Foreground);
        let access = self.client.access::<Value>(ResourceType::of::<Job>(), key.namespace());
        let answer = access.delete(key.name(), &options).await;
        unless_gone(answer, format!("delete job {key}, which ended"))?;
        Ok(Requeue::OnChange)
    }
}

/// A pod of a job.
fn order(job: &Packed<Job>, template: &PodTemplate, place: Place) -> Order {
    let owner = job.controller_reference();
    let name = &job.metadata.name;
    let Some(index) = place.index else {
        let generate_name = write::name_prefix(name);
        let new =
            NewPod { generate_name, finalizer: Some(TRACKING_FINALIZER), ..NewPod::default() };
        return Order { body: new.build(template, &owner), index: None };
    };
    let mark = || BTreeMap::from([(INDEX.to_owned(), index.to_string())]);
    let mut annotations = mark();
    if let Some(failures) = place.failures {
        annotations.insert(FAILURES.to_owned(), failures.counted.to_string());
        if failures.ignored > 0 {
            annotations.insert(IGNORED_FAILURES.to_owned(), failures.ignored.to_string());
        }
    }
    let new = NewPod {
        generate_name: write::indexed_name_prefix(name, index),
        labels: mark(),
        annotations,
        finalizer: Some(TRACKING_FINALIZER),
        hostname: Some(format!("{name}-{index}")),
    };
    let mut body = new.build(template, &owner);
    for list in ["initContainers", "containers"] {
        for container in body["spec"][list].as_array_mut().into_iter().flatten() {
            give_index(container);
        }
    }
    if body["spec"]["initContainers"].is_null()
        && let Some(spec) = body["spec"].as_object_mut()
    {
        spec.remove("initContainers");
    }
    Order { body, index: Some(index) }
}

/// Adds the variable with the index to a container that has none of its name.
fn give_index(container: &mut Value) {
    let Some(container) = container.as_object_mut() else { return };
    let env = container.entry("env").or_insert_with(|| json!([]));
    if let Some(env) = env.as_array_mut()
        && !env.iter().any(|own| own["name"] == INDEX_VARIABLE)
    {
        let field = json!({ "fieldRef": { "fieldPath": format!("metadata.labels['{INDEX}']") } });
        env.push(json!({ "name": INDEX_VARIABLE, "valueFrom": field }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_with_an_index_carries_it_everywhere() {
        let spec = json!({ "template": { "spec": { "containers": [{ "name": "a" },
            { "name": "b", "env": [{ "name": "JOB_COMPLETION_INDEX", "value": "x" }] }] } } });
        let job = Packed::new(Job {
            metadata: crate::facts::testing::meta("pi", "u"),
            spec: serde_json::from_value(spec).unwrap(),
            status: api::job::JobStatus::default(),
        });
        let template = job.template.unpack();
        let seventh = Place { index: Some(7), failures: None };
        let body = order(&job, &template, seventh).body;
        assert_eq!(body["metadata"]["generateName"], "pi-7-");
        assert_eq!(body["metadata"]["labels"][INDEX], "7");
        assert_eq!(body["metadata"]["annotations"][INDEX], "7");
        assert_eq!(body["metadata"]["finalizers"], json!([TRACKING_FINALIZER]));
        assert_eq!(body["spec"]["hostname"], "pi-7");
        let containers = &body["spec"]["containers"];
        let path = &containers[0]["env"][0]["valueFrom"]["fieldRef"]["fieldPath"];
        assert_eq!(*path, format!("metadata.labels['{INDEX}']"));
        assert_eq!(containers[1]["env"], json!([{ "name": INDEX_VARIABLE, "value": "x" }]));
        assert!(body["spec"].get("initContainers").is_none());
        assert_eq!(body["metadata"]["annotations"].as_object().map(|all| all.len()), Some(1));
        for (counted, ignored, want) in [(0, 0, ("0", None)), (2, 1, ("2", Some("1")))] {
            let failures = Some(crate::facts::IndexFailures { counted, ignored });
            let body = order(&job, &template, Place { failures, ..seventh }).body;
            let annotations = &body["metadata"]["annotations"];
            assert_eq!(
                (&annotations[FAILURES], annotations[IGNORED_FAILURES].as_str()),
                (&json!(want.0), want.1)
            );
        }
        let plain = order(&job, &template, Place::default()).body;
        assert_eq!(plain["metadata"]["generateName"], "pi-");
        assert!(plain["spec"].get("hostname").is_none());
    }
}
