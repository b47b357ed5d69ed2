//! Which question is answered, written or ended when: without I/O, and at a given time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::ScheduleExplanation;
use api::schedule_explanation::ScheduleExplanationStatus;
use engine::fact::Uid;
use engine::moment::Moment;
use jiff::Timestamp;
use object::time::Time;
use serde_json::{Value, json};

use super::answer::Content;

/// How often it is looked whether an answer is still so.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How long an answer may stand that is still so before it is confirmed: a minute, less the 40 seconds
/// that pass until each of a thousand questions has had its turn, and what a write may take.
pub(super) const CONFIRM_AFTER: Duration = Duration::from_secs(15);
/// How long nothing is done after each step, so that any number of questions takes no more than a
/// bounded part of what this process and the server can do.
pub(super) const PAUSE: Duration = Duration::from_millis(40);

/// Where an explanation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// A pod is to be asked about.
    Ask {
        /// Which explanation wants to know.
        uid: Uid,
        namespace: String,
        pod: String,
    },
    /// This is to be written.
    Write(Write),
    /// An explanation has lived its time.
    Delete { uid: Uid, name: Name },
}

/// A status, where the object is still of this version.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Write {
    pub(super) name: Name,
    /// As a merge patch.
    pub(super) patch: Value,
}

#[derive(Debug)]
struct Question {
    object: ScheduleExplanation,
    due: Moment,
}

/// All questions, and when each is looked at next.
#[derive(Debug, Default)]
pub(super) struct Questions {
    all: BTreeMap<Uid, Question>,
    soonest: BTreeSet<(Moment, Uid)>,
    /// Until when nothing is done.
    rests_until: Moment,
}

impl Questions {
    /// A question is there, or is now this. One whose spec is new is answered at once.
    pub(super) fn put(&mut self, object: ScheduleExplanation, now: Moment) {
        let uid = Uid::new(&object.metadata.uid);
        let known = self.all.get(&uid);
        let same = known.filter(|own| own.object.spec == object.spec);
        let due = same.map_or(now, |own| own.due);
        self.plan(uid.clone(), due);
        self.all.insert(uid, Question { object, due });
    }

    /// A question is gone.
    pub(super) fn remove(&mut self, uid: &Uid) {
        if let Some(old) = self.all.remove(uid) {
            self.soonest.remove(&(old.due, uid.clone()));
        }
    }

    fn plan(&mut self, uid: Uid, due: Moment) {
        if let Some(own) = self.all.get_mut(&uid) {
            self.soonest.remove(&(own.due, uid.clone()));
            own.due = due;
        }
        self.soonest.insert((due, uid));
    }

    /// When something is to be done.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.soonest.first().map(|(due, _)| (*due).max(self.rests_until))
    }

    /// What is to be done now, if anything.
    pub(super) fn next(&mut self, now: Moment) -> Option<Step> {
        while self.next_due().is_some_and(|due| due <= now) {
            let (_, uid) = self.soonest.first()?.clone();
            let own = self.all.get(&uid)?;
            let step = own.step(&uid, now);
            let end = own.end().filter(|end| *end > now);
            let again = now.after(LOOK_AGAIN);
            self.plan(uid, end.map_or(again, |end| end.min(again)));
            if step.is_some() {
                self.rests_until = now.after(PAUSE);
                return step;
            }
        }
        None
    }

    /// A pod was asked about: what is to be written of it, if anything. Where nobody could answer, it is
    /// asked again later.
    pub(super) fn answered(
        &mut self,
        uid: &Uid,
        content: Option<Content>,
        now: Moment,
    ) -> Option<Write> {
        self.all.get(uid)?.write(content?, now)
    }
}

impl Question {
    fn step(&self, uid: &Uid, now: Moment) -> Option<Step> {
        let meta = &self.object.metadata;
        if meta.is_going() {
            return None;
        }
        if self.end().is_some_and(|end| end <= now) {
            return Some(Step::Delete { uid: uid.clone(), name: self.name() });
        }
        let spec = &self.object.spec;
        match spec.lifetime().and_then(|_| self.object.pod()) {
            Ok((namespace, pod)) => Some(Step::Ask {
                uid: uid.clone(),
                namespace: namespace.to_owned(),
                pod: pod.to_owned(),
            }),
            Err(malformed) => {
                self.write(Content::refused(malformed.to_string()), now).map(Step::Write)
            }
        }
    }

    fn name(&self) -> Name {
        let meta = &self.object.metadata;
        Name { namespace: meta.namespace.clone(), name: meta.name.clone() }
    }

    /// When it has lived its time; none where it never has.
    fn end(&self) -> Option<Moment> {
        let created = self.object.metadata.creation_timestamp?;
        Some(Moment::from(created).after(self.object.spec.lifetime().ok().flatten()?))
    }

    /// What is to be written where this is so; nothing where it is written already, and not long ago.
    fn write(&self, content: Content, now: Moment) -> Option<Write> {
        let written = &self.object.status;
        let told = ScheduleExplanationStatus { last_update_time: None, ..written.clone() };
        let is_same = told == content.status;
        let confirmed = written.last_update_time.map(Moment::from);
        let is_lately = confirmed.is_some_and(|at| now.since(at) < CONFIRM_AFTER);
        // The scheduler whose pod it is may answer as well, and knows better.
        let is_of_another = content.is_foreign && confirmed.is_some() && !is_same;
        if (is_same && is_lately) || is_of_another {
            return None;
        }
        let meta = &self.object.metadata;
        let mut status = json!(content.status);
        status["lastUpdateTime"] = json!(time(now));
        // What is empty is not left over from before.
        for field in ["failedMessage", "detailedExplanation"] {
            if status.get(field).is_none() {
                status[field] = Value::Null;
            }
        }
        let patch = json!({
            "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
            "status": status,
        });
        Some(Write { name: self.name(), patch })
    }
}

fn time(moment: Moment) -> Time {
    let stamp = Timestamp::from_nanosecond(i128::from(moment.0)).unwrap_or(Timestamp::UNIX_EPOCH);
    Time::from(stamp)
}
