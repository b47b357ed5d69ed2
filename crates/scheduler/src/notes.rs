//! Events for users, in kube-scheduler's words.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Lease, Node, Pod, PodGroup, Reservation};
use chassis::client::{Client, Nameplate, Object as _};
use chassis::election::News;
use chassis::events::{Note, Options, Recorder, Repeats, Subject, Tone, Writer};
use chassis::key::Key;
use chassis::metrics::Metrics;
use engine::fact::{DEFAULT_SCHEDULER, PodRef};
use engine::ledger::Stale;
use jiff::Timestamp;

use crate::dismissals::DismissOrder;
use crate::gangs::{GroupNote, GroupOrder};
use crate::message::{BindOrder, ReportOrder, TellOrder};

/// How many events are written side by side: as many as what they tell of, since those that come
/// while pods are bound are late.
pub(crate) const IN_FLIGHT_MAX: usize = 64;
/// How many events may wait to be written: all of a burst that fills a large cluster.
const WAITING_MAX: usize = 100_000;

/// Takes notes in the name of each profile.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes(Arc<BTreeMap<Arc<str>, Recorder>>);

impl Notes {
    /// A recorder for each name, told from `host`, and the writer that must run for anything to be
    /// written.
    pub(crate) fn new(
        names: &[Arc<str>],
        host: &str,
        (client, seed, metrics): (&Client, u64, &Metrics),
    ) -> (Self, Writer) {
        let first = names.first().map_or("", |name| &**name);
        let options = Options {
            in_flight_max: IN_FLIGHT_MAX,
            waiting_max: WAITING_MAX,
            ..Options::series(first, host, seed)
        };
        let (recorder, writer) = Recorder::with(&options, client, metrics);
        let named = |name: &Arc<str>| (name.clone(), recorder.named(name));
        (Self(Arc::new(names.iter().map(named).collect())), writer)
    }

    /// How many events wait behind those that are being written.
    pub(crate) fn waiting(&self) -> usize {
        // They share one line.
        self.0.values().next().map_or(0, Recorder::waiting)
    }

    fn tell(&self, scheduler: &Arc<str>, note: Note) {
        if let Some(recorder) = self.0.get(scheduler) {
            recorder.tell(note);
        }
    }

    pub(crate) fn scheduled(&self, order: &BindOrder) {
        let BindOrder { pod, version, node, scheduler, .. } = order;
        let message = match pod.is_reservation {
            true => format!("Successfully assigned {} to {node}", pod.name),
            false => format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name),
        };
        self.tell(
            scheduler,
            Note {
                subject: subject(pod, version),
                related: None,
                tone: Tone::Normal,
                reason: "Scheduled".into(),
                action: "Binding",
                message,
                repeats: Repeats::Never,
            },
        );
    }

    pub(crate) fn waits(&self, order: &TellOrder) {
        self.tell(
            &order.scheduler,
            failed(subject(&order.pod, &order.version), order.message.to_string()),
        );
        if let Some(words) = &order.reservations {
            let note = failed(subject(&order.pod, &order.version), words.to_string());
            let reason = "FailedScheduling-Reservation".into();
            self.tell(&order.scheduler, Note { reason, ..note });
        }
    }

    /// It is not clear whether a pod is bound.
    pub(crate) fn unclear(&self, order: &BindOrder, words: &str) {
        let BindOrder { pod, version, node, scheduler, .. } = order;
        let words = format!(
            "it is not clear whether the pod is bound to {node}, which is asked for again until it \
             is: {words}"
        );
        self.tell(scheduler, failed(subject(pod, version), words));
    }

    /// A pod has to go for another one.
    pub(crate) fn preempted(
        &self,
        order: &TellOrder,
        (victim, version): (&PodRef, &str),
        node: &str,
    ) {
        let message = format!("Preempted by pod {} on node {node}", order.pod.uid.0);
        self.tell(
            &order.scheduler,
            Note {
                subject: subject(victim, version),
                related: Some(subject(&order.pod, &order.version)),
                tone: Tone::Normal,
                reason: "Preempted".into(),
                action: "Preempting",
                message,
                repeats: Repeats::Never,
            },
        );
    }

    /// Something else than before is said of a gang.
    pub(crate) fn group(&self, order: &GroupOrder) {
        let Some(GroupNote { state, words }) = &order.note else { return };
        let Some(scheduler) = self.0.keys().next() else { return };
        self.tell(
            scheduler,
            Note {
                subject: Subject::named::<PodGroup>(order.key.clone(), (*order.uid).into()),
                related: None,
                tone: if state.is_fine() { Tone::Normal } else { Tone::Warning },
                reason: state.word().into(),
                action: "Scheduling",
                message: words.clone(),
                repeats: Repeats::Never,
            },
        );
    }

    /// A node does not report its load, or does again.
    pub(crate) fn reports(&self, order: &ReportOrder) {
        let (node, tone, reason, message) = match order {
            ReportOrder::Silent { node, since, stale } => {
                let then = match stale {
                    Stale::Refused => "pods are kept off the node until it reports again",
                    Stale::Forgotten => "the node is taken as one that never reported",
                    Stale::Believed => "what it said last still counts",
                };
                let words = match since {
                    Some(since) => {
                        let at = Timestamp::from_nanosecond(since.0.into()).unwrap_or_default();
                        let at = at.strftime("%Y-%m-%dT%H:%M:%SZ");
                        format!("NodeMetric was last updated at {at}, too long ago: {then}")
                    }
                    None => format!("NodeMetric was never updated: {then}"),
                };
                (node, Tone::Warning, "NodeMetricExpired", words)
            }
            ReportOrder::Reported { node } => {
                let words = "NodeMetric is updated again".to_owned();
                (node, Tone::Normal, "NodeMetricReported", words)
            }
        };
        // As the kubelet does: who describes a node looks for events by its name.
        let subject = Subject::named::<Node>(Key::cluster(node), (**node).into());
        let (action, repeats) = ("Scheduling", Repeats::Never);
        let reason = reason.into();
        if let Some(recorder) = self.0.values().next() {
            let note = Note { subject, related: None, tone, reason, action, message, repeats };
            recorder.tell(note);
        }
    }

    /// A pod has to go for what it is part of.
    pub(crate) fn dismissed(&self, order: &DismissOrder) {
        let DismissOrder { pod, cause, object, words } = order;
        let Some(recorder) = self.0.values().next() else { return };
        let whole = cause.subject(object);
        let note = |subject, related, message| Note {
            subject,
            related: Some(related),
            tone: Tone::Warning,
            reason: cause.reason().into(),
            action: "Evicting",
            message,
            repeats: Repeats::Never,
        };
        let own = subject(pod, "");
        let (what, name, fault) = (cause.word(), object.0.name(), cause.fault());
        let message = format!("Evicted: its {what} {name} {fault}: {words}");
        recorder.tell(note(own.clone(), whole.clone(), message));
        let message = format!("Pod {}/{} is evicted: {words}", pod.namespace, pod.name);
        recorder.tell(note(whole, own, message));
    }

    pub(crate) fn unreadable(&self, plate: &Nameplate, error: &str) {
        let words = format!("the pod cannot be read: {error}; correct it or create it anew");
        // In whose name it is cannot be read either.
        if let Some(recorder) = self.0.values().next() {
            recorder.tell(failed(Subject::of::<Pod>(plate.identity()), words));
        }
    }
}

/// Tells of the lease who leads, as core `v1` Events in the name of the first profile.
pub(crate) struct LeaseNotes {
    recorder: Recorder,
    /// Who contends.
    identity: String,
}

impl LeaseNotes {
    /// A recorder, and the writer that must run for anything to be written.
    pub(crate) fn new(options: &crate::Options, client: &Client) -> (Self, Writer) {
        let first = options.configuration.profiles.first();
        let name = first.map_or(DEFAULT_SCHEDULER, |profile| &profile.scheduler_name);
        let (recorder, writer) = Recorder::new(name, client, options.seed, &options.metrics);
        (Self { recorder, identity: options.identity.clone() }, writer)
    }

    pub(crate) fn tell(&self, news: &News, lease: &Lease) {
        let what = match news {
            News::BecameLeader => "became leader",
            News::StoppedLeading(_) => "stopped leading",
            News::Holder(_) => return,
        };
        let subject = Subject::of::<Lease>(lease.identity());
        self.recorder.normal(&subject, "LeaderElection", format!("{} {what}", self.identity));
    }
}

fn failed(subject: Subject, message: String) -> Note {
    Note {
        subject,
        related: None,
        tone: Tone::Warning,
        reason: "FailedScheduling".into(),
        action: "Scheduling",
        message,
        repeats: Repeats::Perhaps,
    }
}

fn subject(pod: &PodRef, version: &str) -> Subject {
    let uid = pod.uid.0.clone();
    let own = match pod.is_reservation {
        true => Subject::named::<Reservation>(Key::cluster(&pod.name), uid),
        false => Subject::named::<Pod>(Key::namespaced(&pod.namespace, &pod.name), uid),
    };
    Subject { resource_version: version.into(), ..own }
}
