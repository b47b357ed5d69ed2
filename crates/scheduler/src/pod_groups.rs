//! How far PodGroups have come, as their status says it: specification 12, 4.1.10.
//!
//! What is to be written follows from the group and from its members as they are seen ([`status`], without
//! I/O). Members are the pods that name the group by its label, in whatever phase: the engine's own watch
//! leaves out those that have ended, so there is one more here, of these pods alone. A group is written at
//! the pace of `pace`, only by who leads, only where something differs, and only fields that nobody else
//! writes: what happens between two writes becomes one.

mod member;
mod status;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::pod_group::{POD_GROUP_LABEL, PodGroupStatus};
use api::{Pod, PodGroup};
use chassis::client::{Client, Patch};
use chassis::controller::{Mailbox, Reconciler, Requeue, Worker};
use chassis::key::Key;
use chassis::store::{IndexId, SharedStore};
use engine::moment::Moment;
use object::time::Time;

use crate::caretaker::{Caretaker, Failure, Kept, now};
use crate::message::Wrote;
use crate::pace::{Outcome, Rest};
use member::Member;
use status::Seen;

/// How many groups are looked at side by side.
const WORKERS: usize = 4;
/// How many requests are under way at once: two for the watches, and one for each group.
pub(crate) const IN_FLIGHT_MAX: usize = 2 + WORKERS;

/// Writes how far groups have come while this process leads, until it is to stop.
pub(crate) async fn run(own: Caretaker) {
    let Some(own) = own.leading().await else { return };
    let mut groups = own.watch::<PodGroup, PodGroup>("");
    let mut members = own.watch::<Pod, Member>(POD_GROUP_LABEL);
    let by_group = members.add_index(|member| vec![member.group().to_string()]);
    let mut synced = Vec::new();
    let clock = own.client.clock();
    let mailbox = Mailbox::new("podgroup", clock, own.seed, &own.metrics);
    let shell = Arc::new(Shell {
        client: own.client.clone(),
        groups: groups.store(&mut synced),
        members: members.store(&mut synced),
        by_group,
        written: Kept::default(),
        looks: Looks::default(),
    });
    let inbox = mailbox.clone();
    groups.subscribe(move |change| inbox.add(change.key.clone()));
    let inbox = mailbox.clone();
    // A pod may change its group.
    members.subscribe(move |change| change.states().for_each(|own| inbox.add(own.group())));
    let worker = Worker { mailbox, synced, workers: WORKERS };
    let watches = async { tokio::join!(groups.run(own.how()), members.run(own.how())) };
    let work = async {
        tokio::join!(watches, worker.run(own.stop.clone(), shell));
    };
    own.work(work).await;
}

struct Shell {
    client: Client,
    groups: SharedStore<PodGroup>,
    members: SharedStore<Member>,
    by_group: IndexId,
    /// What was last written of groups that are there.
    written: Kept<Written>,
    looks: Looks,
}

/// When groups were looked at that are there. A look takes as long as its group has pods, and shares a thread with whoever
/// binds: one whose pods change all the time is looked at once a second, as often as it may be written.
#[derive(Default)]
struct Looks(Kept<Rest>);

impl Looks {
    /// Begins a look; how long the group is still left alone, where it is.
    fn begin(&self, key: &Key, now: Moment) -> Result<(), Duration> {
        self.0.with(|looks| {
            let rest = looks.entry(key.clone()).or_default();
            match rest.left(now) {
                Some(left) => Err(left),
                None => {
                    *rest = rest.after(Outcome::Kept, now);
                    Ok(())
                }
            }
        })
    }

    /// A group is gone, or is to be looked at again as soon as that was not in vain.
    fn forget(&self, key: &Key) {
        self.0.with(|looks| looks.remove(key));
    }
}

/// What was last written of a group.
#[derive(Debug, Clone)]
struct Written {
    /// Which group of that name.
    uid: String,
    /// The version that was seen then.
    seen: String,
    /// What is there now.
    status: PodGroupStatus,
    rest: Rest,
}

impl Written {
    /// What a group is after a write that was to make it `next`, as the server answers it.
    fn of(
        answer: PodGroup,
        seen: &PodGroup,
        next: &PodGroupStatus,
        rest: Rest,
        now: Moment,
    ) -> Self {
        let is_kept = || status::patch("", &answer.status, next).is_none();
        let rest = rest.after(Outcome::of(Wrote::All, is_kept), now);
        let (uid, seen) = (answer.metadata.uid, seen.metadata.resource_version.clone());
        Self { uid, seen, status: answer.status, rest }
    }

    /// What a group says, of which the watch may not show yet what was written.
    fn over(&self, group: &PodGroup) -> PodGroupStatus {
        if self.seen == group.metadata.resource_version {
            return self.status.clone();
        }
        let own = group.status.clone();
        // It is written once, whatever the watch has shown of that.
        let start = own.schedule_start_time.or(self.status.schedule_start_time);
        PodGroupStatus { schedule_start_time: start, ..own }
    }
}

impl Reconciler for Shell {
    type Failure = Failure;

    async fn reconcile(&self, key: Key) -> Result<Requeue, Failure> {
        let group = self.groups.get(&key).filter(|own| !own.metadata.is_going());
        let Some(group) = group else {
            self.written.with(|written| written.remove(&key));
            self.looks.forget(&key);
            return Ok(Requeue::OnChange);
        };
        let metadata = &group.metadata;
        let last = self.written.with(|written| written.get(&key).cloned());
        let last = last.filter(|last| last.uid == metadata.uid);
        let rest = last.as_ref().map_or_else(Rest::default, |last| last.rest);
        if let Some(left) = rest.left(now(&self.client)) {
            return Ok(Requeue::After(left));
        }
        if let Err(left) = self.looks.begin(&key, now(&self.client)) {
            return Ok(Requeue::After(left));
        }
        let told = last.map_or_else(|| group.status.clone(), |last| last.over(&group));
        let time = Time::from(self.client.clock().now());
        let next = {
            let members = self.members.read();
            let own = || members.find(self.by_group, key.as_str()).map(|(_, member)| &**member);
            let (seen, owners) = (own().collect::<Seen>(), || status::owners(own()));
            status::next(&told, group.spec.min_member, &seen, owners, time)
        };
        let Some(patch) = status::patch(&metadata.uid, &told, &next) else {
            return Ok(Requeue::OnChange);
        };
        let groups = self.client.within::<PodGroup>(&metadata.namespace);
        let answer = groups.patch(&metadata.name, &Patch::Merge(patch)).await;
        match answer {
            Ok(answer) => {
                let own = Written::of(answer, &group, &next, rest, now(&self.client));
                let left = own.rest.left(now(&self.client));
                self.written.with(|written| written.insert(key, own));
                Ok(left.into())
            }
            Err(error) if error.is_not_found() => Ok(Requeue::OnChange),
            Err(error) => {
                // Whoever fails is tried again when the mailbox says so.
                self.looks.forget(&key);
                Err(Failure::of(format!("write the status of PodGroup {key}"))(error))
            }
        }
    }
}
