//! One pod on a hollow node: where it is in its life, in some hundred bytes.
//!
//! [`life`] moves it on as time passes, [`gates`] holds it to what others say of it,
//! [`adopt`] takes it up where a former process left it, [`status`] tells the API server
//! about it, and [`drift`] notices when somebody else told it otherwise. Nothing here knows
//! which node it is on, beyond a number, or how anything is sent.

mod adopt;
mod drift;
mod gates;
mod life;
mod status;

use gates::Gated;
pub(crate) use status::Surroundings;

use std::fmt;
use std::sync::Arc;

use api::Pod;
use api::pod::PodPhase;
use api::priority::PriorityBand;
use api::qos::QosClass;
use chassis::key::Key;

use crate::shape::Shape;
use crate::time::Stamp;

/// A pod and the state of its containers.
#[derive(Debug)]
pub(crate) struct PodRun {
    pub(crate) key: Key,
    pub(crate) uid: Uid,
    pub(crate) shape: Arc<Shape>,
    /// A change of amounts that the node has no room for.
    pub(crate) resize: Option<Box<Resize>>,
    /// Why the pod failed, where it was not a container.
    verdict: Option<Box<Verdict>>,
    containers: Box<[ContainerRun]>,
    /// Its readiness gates; most pods have none.
    gated: Option<Box<Gated>>,
    /// When creating, or stopping, is done.
    stage_ms: u64,
    /// When the timer is set for; zero for none.
    pub(crate) wake_ms: u64,
    pub(crate) node: u32,
    /// Number of its address among those of the node; zero for none.
    pub(crate) address: u8,
    /// What the status speaks of.
    pub(crate) generation: u32,
    /// Counts what the API server should be told.
    revision: u32,
    /// What it was told last.
    written: u32,
    /// Version that the object got from the last write about it.
    told_version: u64,
    /// Version at which the watch last showed another status than ours; zero for none.
    drift_version: u64,
    /// When another's status may be overwritten again, and whether a timer is set for it.
    pub(crate) mend_ms: u64,
    pub(crate) mend_waits: bool,
    start: Stamp,
    sandbox: Since,
    initialized: Since,
    containers_ready: Since,
    pub(crate) stage: Stage,
    /// The phase under which it is counted.
    pub(crate) counted: PodPhase,
    pub(crate) band: Option<PriorityBand>,
    pub(crate) qos: QosClass,
    pub(crate) going: Going,
    pub(crate) writing: Writing,
    /// How often in a row writing failed.
    pub(crate) failures: u8,
    /// Whether the node has set aside what the pod asks for.
    pub(crate) charged: bool,
    /// Whether the condition `PodScheduled` is there.
    scheduled: bool,
    /// Whether a resize that waits was told, so that its end must be too.
    resize_told: bool,
}

/// Where a pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The sandbox and the images are being prepared.
    Creating,
    /// The annotations make no sense; somebody must change them.
    Stuck,
    /// Containers run, one after another or all at once.
    Started,
    /// The containers were asked to end; `killed` when they will not in time.
    Stopping {
        /// Whether the grace period ends before they do.
        killed: bool,
    },
    /// It is over.
    Finished(Final),
}

/// How a pod ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Final {
    Succeeded,
    Failed,
}

/// How far the deletion of a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Going {
    /// Nobody asked for it.
    Not,
    /// It is asked for; the pod stops, and the last status is written.
    Asked,
    /// The API server agreed to remove the object.
    Done,
}

/// How far the next write about a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writing {
    /// There is nothing to write.
    Idle,
    /// It waits for a free writer.
    Queued,
    /// A status is under way, with the revision that it tells.
    Telling(u32),
    /// The deletion is under way.
    Deleting,
    /// It failed, and waits to be tried again.
    Resting,
}

/// A fact and since when it is so.
#[derive(Debug, Clone, Copy, Default)]
struct Since {
    on: bool,
    at: Stamp,
}

/// A change of amounts that the node has no room for.
#[derive(Debug)]
pub(crate) struct Resize {
    pub(crate) wanted: Arc<Shape>,
    pub(crate) reason: NoRoom,
    pub(crate) message: Box<str>,
    pub(crate) since: Stamp,
}

/// Why a change of amounts waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// Others have what it needs.
    Deferred,
    /// The node does not have it at all.
    Infeasible,
}

impl NoRoom {
    /// The reason that the pod's condition gives.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Deferred => "Deferred",
            Self::Infeasible => "Infeasible",
        }
    }
}

/// Why a pod failed as a whole.
#[derive(Debug)]
struct Verdict {
    reason: Box<str>,
    message: Box<str>,
}

/// One container.
#[derive(Debug, Default)]
struct ContainerRun {
    /// When its state changes next; zero for never.
    due_ms: u64,
    /// How it ended before it was last started.
    last: Option<Box<Ended>>,
    started: Stamp,
    finished: Stamp,
    exit_code: i32,
    restarts: u32,
    state: State,
    ready: bool,
    /// Grows with each restart, and so does the wait.
    backoff: u8,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Waiting,
    Running,
    /// Over; to be started again at once where something is due.
    Ended,
    /// Over, and to be started again after a while.
    BackingOff,
}

#[derive(Debug, Clone, Copy)]
struct Ended {
    started: Stamp,
    finished: Stamp,
    exit_code: i32,
    restarts: u32,
}

impl PodRun {
    /// A pod that was just bound. `create_ms` is when its first container can start.
    pub(crate) fn new(pod: &Pod, shape: Arc<Shape>, node: u32, create_ms: u64) -> Self {
        let meta = &pod.metadata;
        let containers = shape.containers.iter().map(|_| ContainerRun::default()).collect();
        let stuck = shape.fault().is_some();
        Self {
            key: Key::new(&meta.namespace, &meta.name),
            uid: Uid::new(&meta.uid),
            gated: Gated::of(&shape, &pod.status.conditions),
            shape,
            resize: None,
            verdict: None,
            containers,
            stage_ms: create_ms,
            wake_ms: 0,
            node,
            address: 0,
            generation: generation_of(pod),
            revision: 0,
            written: 0,
            told_version: 0,
            drift_version: 0,
            mend_ms: 0,
            mend_waits: false,
            start: Stamp::NONE,
            sandbox: Since::default(),
            initialized: Since::default(),
            containers_ready: Since::default(),
            stage: if stuck { Stage::Stuck } else { Stage::Creating },
            counted: PodPhase::Pending,
            band: PriorityBand::stated_by(pod),
            qos: QosClass::of_pod(pod),
            going: Going::Not,
            writing: Writing::Idle,
            failures: 0,
            charged: false,
            scheduled: api::condition::find(&pod.status.conditions, "PodScheduled")
                .is_some_and(api::Condition::is_true),
            resize_told: api::condition::find(&pod.status.conditions, "PodResizePending").is_some(),
        }
    }

    /// What the API server shows as phase.
    pub(crate) fn phase(&self) -> PodPhase {
        match self.stage {
            Stage::Creating | Stage::Stuck => PodPhase::Pending,
            Stage::Started | Stage::Stopping { .. } if self.has_started_mains() => {
                PodPhase::Running
            }
            Stage::Started | Stage::Stopping { .. } => PodPhase::Pending,
            Stage::Finished(Final::Succeeded) => PodPhase::Succeeded,
            Stage::Finished(Final::Failed) => PodPhase::Failed,
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.stage, Stage::Finished(_))
    }

    /// Whether the API server has not been told all there is to tell.
    pub(crate) fn is_dirty(&self) -> bool {
        self.revision != self.written
    }

    pub(crate) fn revision(&self) -> u32 {
        self.revision
    }

    /// Notes that there is something to tell.
    pub(crate) fn touch(&mut self) {
        self.revision = self.revision.wrapping_add(1);
    }

    /// Notes what the API server was told.
    pub(crate) fn told(&mut self, revision: u32) {
        self.written = revision;
    }
}

pub(crate) fn generation_of(pod: &Pod) -> u32 {
    u32::try_from(pod.metadata.generation.max(0)).unwrap_or(u32::MAX)
}

/// A uid: sixteen bytes where it has the usual form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Uid {
    Usual([u8; 16]),
    Other(Box<str>),
}

impl Uid {
    pub(crate) fn new(text: &str) -> Self {
        let bytes = usual(text).map(Self::Usual);
        bytes.filter(|uid| uid.to_string() == text).unwrap_or_else(|| Self::Other(text.into()))
    }
}

fn usual(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut digits = text.bytes().filter(|byte| *byte != b'-');
    for byte in &mut bytes {
        for _ in 0..2 {
            let digit = char::from(digits.next()?).to_digit(16)?;
            *byte = (*byte << 4) | u8::try_from(digit).ok()?;
        }
    }
    Some(bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(text) => f.write_str(text),
            Self::Usual(bytes) => {
                for (index, byte) in bytes.iter().enumerate() {
                    if matches!(index, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_reads_back_whatever_its_form() {
        for text in [
            "0f3c8a52-6e5b-4f0e-9d5a-0123456789ab",
            "0F3C8A52-6E5B-4F0E-9D5A-0123456789AB",
            "0f3c8a526e5b4f0e9d5a0123456789ab",
            "0f3c8a52-6e5b-4f0e-9d5a-0123456789abcd",
            "",
            "uid-1",
            "é",
        ] {
            assert_eq!(Uid::new(text).to_string(), text);
        }
        assert!(matches!(Uid::new("0f3c8a52-6e5b-4f0e-9d5a-0123456789ab"), Uid::Usual(_)));
    }

    #[test]
    fn a_pod_of_one_container_takes_less_than_three_hundred_bytes() {
        // Beside it: the text of its key, and its place in the map of pods.
        let own = size_of::<PodRun>() + size_of::<ContainerRun>();
        assert!(own + 16 + "namespace/deployment-5d59d67564-abcde".len() < 300, "{own}");
    }
}
