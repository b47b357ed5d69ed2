//! Events for users, in kube-scheduler's words.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Pod, Resource as _};
use chassis::client::{Client, Nameplate, Object as _};
use chassis::events::{Recorder, Subject, Writer};
use chassis::key::Key;
use chassis::metrics::Metrics;
use engine::turn::PodRef;

use crate::core::note;
use crate::message::{BindOrder, TellOrder};

/// Takes notes in the name of each profile.
#[derive(Debug, Clone)]
pub(crate) struct Notes(Arc<BTreeMap<Arc<str>, Recorder>>);

impl Notes {
    /// A recorder for each name, and the writers that must run for anything to be written.
    pub(crate) fn new(
        names: impl Iterator<Item = Arc<str>>,
        client: &Client,
        seed: u64,
        metrics: &Metrics,
    ) -> (Self, Vec<Writer>) {
        let mut recorders = BTreeMap::new();
        let mut writers = Vec::new();
        for name in names {
            // As many as there are profiles, for as long as the process lives.
            let told_by: &'static str = Box::leak(name.to_string().into_boxed_str());
            let (recorder, writer) = Recorder::new(told_by, client, seed, metrics);
            recorders.insert(name, recorder);
            writers.push(writer);
        }
        (Self(Arc::new(recorders)), writers)
    }

    pub(crate) fn scheduled(&self, order: &BindOrder) {
        let BindOrder { pod, node, scheduler } = order;
        if let Some(recorder) = self.0.get(scheduler) {
            let words = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
            recorder.normal(&subject(pod), "Scheduled", words);
        }
    }

    pub(crate) fn waits(&self, order: &TellOrder) {
        if let Some(recorder) = self.0.get(&order.scheduler) {
            recorder.warning(&subject(&order.pod), "FailedScheduling", note(&order.message));
        }
    }

    pub(crate) fn unreadable(&self, plate: &Nameplate, error: &str) {
        // Whose it is cannot be read either.
        if let Some(recorder) = self.0.values().next() {
            let words = format!("the pod cannot be read: {error}; correct it or create it anew");
            let subject = Subject::of::<Pod>(plate.identity());
            recorder.warning(&subject, "FailedScheduling", note(&words));
        }
    }
}

fn subject(pod: &PodRef) -> Subject {
    Subject {
        api_version: Pod::api_version(),
        kind: Pod::KIND,
        key: Key::namespaced(&pod.namespace, &pod.name),
        uid: (*pod.uid.0).into(),
        resource_version: Box::default(),
    }
}
