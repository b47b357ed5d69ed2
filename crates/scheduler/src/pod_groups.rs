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
        own: Kept::default(),
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
    own: Kept<Own>,
}

/// What is kept of a group that is there.
#[derive(Debug, Default)]
struct Own {
    /// Which group of that name.
    uid: String,
    /// Until when it is left alone. A look takes as long as its group has pods, and shares a thread with whoever binds: one
    /// whose pods change all the time is looked at once a second, as often as it may be written.
    rest: Rest,
    /// What was last written of it.
    written: Option<Written>,
}

impl Own {
    /// Begins a look at the group of this uid: what was last written of it. How long it is still left alone, where it is.
    fn begin(&mut self, uid: &str, now: Moment) -> Result<Option<Written>, Duration> {
        if self.uid != uid {
            *self = Self { uid: uid.to_owned(), ..Self::default() };
        }
        if let Some(left) = self.rest.left(now) {
            return Err(left);
        }
        self.rest = self.rest.looked(now);
        Ok(self.written.clone())
    }

    /// The group was seen like this and was to become `next`, and this is what the server answers. How long it is left
    /// alone.
    fn write(
        &mut self,
        answer: PodGroup,
        seen: &PodGroup,
        next: &PodGroupStatus,
        now: Moment,
    ) -> Option<Duration> {
        let is_kept = || status::patch("", &answer.status, next).is_none();
        self.rest = self.rest.after(Outcome::of(Wrote::All, is_kept), now);
        let seen = seen.metadata.resource_version.clone();
        self.written = Some(Written { seen, status: answer.status });
        self.rest.left(now)
    }
}

/// What was last written of a group.
#[derive(Debug, Clone)]
struct Written {
    /// The version that was seen then.
    seen: String,
    /// What is there now.
    status: PodGroupStatus,
}

impl Written {
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

impl Shell {
    fn with_own<R>(&self, key: &Key, look: impl FnOnce(&mut Own) -> R) -> R {
        self.own.with(|all| look(all.entry(key.clone()).or_default()))
    }
}

impl Reconciler for Shell {
    type Failure = Failure;

    async fn reconcile(&self, key: Key) -> Result<Requeue, Failure> {
        let group = self.groups.get(&key).filter(|own| !own.metadata.is_going());
        let Some(group) = group else {
            self.own.with(|all| all.remove(&key));
            return Ok(Requeue::OnChange);
        };
        let metadata = &group.metadata;
        let begun = self.with_own(&key, |own| own.begin(&metadata.uid, now(&self.client)));
        let last = match begun {
            Ok(last) => last,
            Err(left) => return Ok(Requeue::After(left)),
        };
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
                let now = now(&self.client);
                let left = self.with_own(&key, |own| own.write(answer, &group, &next, now));
                Ok(left.into())
            }
            Err(error) if error.is_not_found() => Ok(Requeue::OnChange),
            Err(error) => {
                // Whoever fails is tried again when the mailbox says so.
                self.with_own(&key, |own| own.rest = own.rest.over());
                Err(Failure::of(format!("write the status of PodGroup {key}"))(error))
            }
        }
    }
}
