//! QoS classes: Koordinator's five, Kubernetes' three, and how one follows from the
//! other. Which class allows what is decided elsewhere.

use std::collections::BTreeMap;
use std::fmt;

use object::quantity::Quantity;

use crate::malformed::Malformed;
use crate::pod::{Pod, PodSpec, ResourceList};

/// Pod label that carries the [`QosClass`].
pub const QOS_CLASS_LABEL: &str = "koordinator.sh/qosClass";

/// How sensitive a pod is to its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QosClass {
    /// Latency sensitive, with CPUs that nobody shares.
    Lse,
    /// Latency sensitive, with reserved CPUs that only best-effort pods share.
    Lsr,
    /// Latency sensitive, on the shared CPUs.
    Ls,
    /// Best effort, on what the others leave.
    Be,
    /// A daemon of the node itself.
    System,
}

impl QosClass {
    /// Every class.
    pub const ALL: [Self; 5] = [Self::Lse, Self::Lsr, Self::Ls, Self::Be, Self::System];

    /// The value of the label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lse => "LSE",
            Self::Lsr => "LSR",
            Self::Ls => "LS",
            Self::Be => "BE",
            Self::System => "SYSTEM",
        }
    }

    /// Reads the value of the label; upper case counts.
    ///
    /// # Errors
    /// When the value is none of the five.
    pub fn parse(value: &str) -> Result<Self, Malformed> {
        Self::ALL.into_iter().find(|class| class.as_str() == value).ok_or_else(|| {
            Malformed::new(QOS_CLASS_LABEL, value, "use one of LSE, LSR, LS, BE or SYSTEM")
        })
    }

    /// The class that the labels of a pod state, if they state one. Schedulers and
    /// node agents take a malformed value for none; admission refuses it.
    ///
    /// # Errors
    /// When the label has an unknown value.
    pub fn of_labels(labels: &BTreeMap<String, String>) -> Result<Option<Self>, Malformed> {
        labels.get(QOS_CLASS_LABEL).map(|value| Self::parse(value)).transpose()
    }

    /// The class of a pod: what its label says, else what its Kubernetes class implies.
    #[must_use]
    pub fn of_pod(pod: &Pod) -> Self {
        match Self::of_labels(&pod.metadata.labels) {
            Ok(Some(class)) => class,
            Ok(None) | Err(_) => Self::from(NativeQos::of_pod(pod)),
        }
    }
}

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<NativeQos> for QosClass {
    fn from(native: NativeQos) -> Self {
        match native {
            NativeQos::Guaranteed => Self::Lsr,
            NativeQos::Burstable => Self::Ls,
            NativeQos::BestEffort => Self::Be,
        }
    }
}

/// QoS class of a pod as Kubernetes derives it from requests and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NativeQos {
    /// Limits for CPU and memory on every container, equal to the requests.
    Guaranteed,
    /// Some request or limit for CPU or memory.
    Burstable,
    /// No request or limit for CPU or memory.
    BestEffort,
}

impl NativeQos {
    /// Every class.
    pub const ALL: [Self; 3] = [Self::Guaranteed, Self::Burstable, Self::BestEffort];

    /// The value of `status.qosClass`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }

    /// Reads `status.qosClass`.
    ///
    /// # Errors
    /// When the value is none of the three.
    pub fn parse(value: &str) -> Result<Self, Malformed> {
        Self::ALL.into_iter().find(|class| class.as_str() == value).ok_or_else(|| {
            let fix = "use one of Guaranteed, Burstable or BestEffort";
            Malformed::new("status.qosClass", value, fix)
        })
    }

    /// The class in the status of a pod, else the one its spec implies.
    #[must_use]
    pub fn of_pod(pod: &Pod) -> Self {
        Self::parse(&pod.status.qos_class).unwrap_or_else(|_| Self::of_spec(&pod.spec))
    }

    /// Derives the class as kube-apiserver does. Resources of the pod as a whole,
    /// where given, count instead of those of its containers.
    #[must_use]
    pub fn of_spec(spec: &PodSpec) -> Self {
        let mut tally = Tally { all_limited: true, ..Tally::default() };
        if let Some(resources) = &spec.resources {
            // Without any limit the requests below find no equal: no need to look here.
            let limited = resources.limits.is_empty() || limits_both(&resources.limits);
            tally.count(&resources.requests, &resources.limits, limited);
        } else {
            for container in spec.containers.iter().chain(&spec.init_containers) {
                let resources = &container.resources;
                let limited = limits_both(&resources.limits);
                tally.count(&resources.requests, &resources.limits, limited);
            }
        }
        tally.class()
    }
}

impl fmt::Display for NativeQos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Sums of the requests and limits that count for QoS.
#[derive(Default)]
struct Tally {
    requests: BTreeMap<&'static str, Quantity>,
    limits: BTreeMap<&'static str, Quantity>,
    all_limited: bool,
}

impl Tally {
    fn count(&mut self, requests: &ResourceList, limits: &ResourceList, limited: bool) {
        add_positive(&mut self.requests, requests);
        add_positive(&mut self.limits, limits);
        self.all_limited &= limited;
    }

    fn class(&self) -> NativeQos {
        if self.requests.is_empty() && self.limits.is_empty() {
            NativeQos::BestEffort
        } else if self.all_limited && self.requests == self.limits {
            NativeQos::Guaranteed
        } else {
            NativeQos::Burstable
        }
    }
}

/// The resources that Kubernetes looks at for QoS.
const COUNTED: [&str; 2] = ["cpu", "memory"];

fn add_positive(sums: &mut BTreeMap<&'static str, Quantity>, list: &ResourceList) {
    for name in COUNTED {
        let Some(amount) = list.get(name).filter(|amount| amount.sign() > 0) else { continue };
        let sum = match sums.get(name) {
            // A sum beyond any machine's size stays where it is.
            Some(sum) => sum.checked_add(amount).unwrap_or_else(|| sum.clone()),
            None => amount.clone(),
        };
        sums.insert(name, sum);
    }
}

fn limits_both(limits: &ResourceList) -> bool {
    COUNTED.iter().all(|name| limits.get(*name).is_some_and(|amount| amount.sign() > 0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_label_wins_and_kubernetes_fills_in() {
        let check = |labels: serde_json::Value, status: &str, class: QosClass| {
            let pod = json!({ "metadata": { "labels": labels }, "status": { "qosClass": status } });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(QosClass::of_pod(&pod), class, "{labels} {status}");
        };
        check(json!({ "koordinator.sh/qosClass": "LSE" }), "BestEffort", QosClass::Lse);
        check(json!({ "koordinator.sh/qosClass": "SYSTEM" }), "Guaranteed", QosClass::System);
        check(json!({}), "Guaranteed", QosClass::Lsr);
        check(json!({}), "Burstable", QosClass::Ls);
        check(json!({}), "BestEffort", QosClass::Be);
        check(json!({}), "", QosClass::Be);
        check(json!({ "koordinator.sh/qosClass": "be" }), "Burstable", QosClass::Ls);
    }

    #[test]
    fn kubernetes_class_follows_from_requests_and_limits() {
        let check = |spec: serde_json::Value, class: NativeQos| {
            let parsed: PodSpec = serde_json::from_value(spec.clone()).unwrap();
            assert_eq!(NativeQos::of_spec(&parsed), class, "{spec}");
        };
        let container = |requests: serde_json::Value, limits: serde_json::Value| json!({ "name": "c", "resources": { "requests": requests, "limits": limits } });
        let both = || json!({ "cpu": "1", "memory": "1Gi" });
        let none = || json!({});
        check(none(), NativeQos::BestEffort);
        check(json!({ "containers": [container(none(), none())] }), NativeQos::BestEffort);
        check(json!({ "containers": [container(both(), both())] }), NativeQos::Guaranteed);
        check(json!({ "containers": [container(both(), none())] }), NativeQos::Burstable);
        // The server defaults requests from limits; without that they are not equal.
        check(json!({ "containers": [container(none(), both())] }), NativeQos::Burstable);
        let spelled = json!({ "cpu": "1000m", "memory": "1024Mi" });
        check(json!({ "containers": [container(spelled, both())] }), NativeQos::Guaranteed);
        let zero = json!({ "cpu": "0", "memory": "0" });
        check(json!({ "containers": [container(zero.clone(), zero)] }), NativeQos::BestEffort);
        let gpu = json!({ "nvidia.com/gpu": "1" });
        check(json!({ "containers": [container(gpu.clone(), gpu)] }), NativeQos::BestEffort);
        check(
            json!({ "containers": [container(both(), both()), container(none(), none())] }),
            NativeQos::Burstable,
        );
        check(
            json!({ "containers": [container(both(), both())],
                    "initContainers": [container(json!({ "cpu": "1" }), none())] }),
            NativeQos::Burstable,
        );
        check(
            json!({ "resources": { "requests": both(), "limits": both() },
                    "containers": [container(none(), none())] }),
            NativeQos::Guaranteed,
        );
        check(json!({ "resources": { "requests": both() } }), NativeQos::Burstable);
        check(json!({ "resources": { "limits": { "cpu": "1" } } }), NativeQos::Burstable);
    }

    proptest! {
        #[test]
        fn any_text_is_a_class_or_an_error_that_repeats_it(value in "\\PC*|L?S?[ERB]?|SYSTEM") {
            match QosClass::parse(&value) {
                Ok(class) => prop_assert_eq!(class.as_str(), value),
                Err(error) => prop_assert_eq!(error.value(), value),
            }
        }

        #[test]
        fn every_class_is_read_back(class in proptest::sample::select(&QosClass::ALL[..])) {
            prop_assert_eq!(QosClass::parse(class.as_str()), Ok(class));
        }
    }
}
