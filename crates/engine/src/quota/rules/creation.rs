//! How many pods may be made that are charged to a quota, whether they get a node or not.
//!
//! Who asks for more than a quota lets be asked for is refused when the pod is made, and need not wait
//! for ever. Pods that are made at once are judged in one [`Batch`], and what they ask for is written
//! once. Where somebody else has written meanwhile, the batch is held against that.
//!
//! Nothing in the product calls this yet: a webhook is to, which comes with the manager.

use std::fmt;

use api::ElasticQuota;
use api::elastic_quota::QuotaTerms;

use super::is_reserved;
use crate::needs::Amounts;
use crate::quota::{ByResource, Excess, amounts, quantity};

/// Resources for which pods are counted when they are made. A quota of which the ceiling names none of
/// them lets all pods be made.
const COUNTED: [&str; 7] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "kubernetes.io/batch-cpu",
    "kubernetes.io/batch-memory",
    "kubernetes.io/mid-cpu",
    "kubernetes.io/mid-memory",
];
/// The same, by how their names begin.
const COUNTED_PREFIXES: [&str; 3] = ["requests.", "koordinator.sh/gpu", "nvidia.com/"];

/// What may be asked for by pods that are charged to a quota, and what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    namespace: Box<str>,
    quota: Box<str>,
    /// The resources that the quota counts.
    counted: Vec<Box<str>>,
    /// Up to how much may be asked for; what is not named has no limit.
    limit: ByResource,
    asked: ByResource,
}

impl Allowance {
    /// What a quota lets be asked for; none where it lets all pods be made.
    #[must_use]
    pub fn read(quota: &ElasticQuota) -> Option<Self> {
        let metadata = &quota.metadata;
        let max = &quota.spec.max;
        if is_reserved(&metadata.name) || !max.keys().any(|name| is_counted(name)) {
            return None;
        }
        let admission = QuotaTerms::of(quota).admission;
        let asked = quota.child_request();
        Some(Self {
            namespace: metadata.namespace.as_str().into(),
            quota: metadata.name.as_str().into(),
            counted: max.keys().map(|name| name.as_str().into()).collect(),
            limit: amounts(admission.as_ref().unwrap_or(max)),
            asked: asked.as_ref().map(amounts).unwrap_or_default(),
        })
    }

    /// What of a request counts.
    fn counted(&self, request: &Amounts) -> ByResource {
        let own = self.counted.iter().map(|name| (name.clone(), request.of(name)));
        own.filter(|(_, amount)| *amount > 0).collect()
    }

    /// Of what there would be too much with this request.
    fn excesses(&self, more: &ByResource) -> Vec<Excess> {
        let excesses = more.iter().filter_map(|(resource, asked)| {
            let limit = *self.limit.get(resource)?;
            let used = self.asked.get(resource).copied().unwrap_or(0);
            let excess = Excess { resource: resource.clone(), limit, used, asked: *asked };
            (used.saturating_add(*asked) > limit).then_some(excess)
        });
        excesses.collect()
    }

    fn add(&mut self, more: &ByResource) {
        add(&mut self.asked, more);
    }
}

/// Whether pods are counted for a resource when they are made.
fn is_counted(resource: &str) -> bool {
    let is_one_of = |prefix: &&str| resource.starts_with(*prefix);
    COUNTED.contains(&resource) || COUNTED_PREFIXES.iter().any(is_one_of)
}

fn add(sum: &mut ByResource, more: &ByResource) {
    for (resource, amount) in more {
        let own = sum.entry(resource.clone()).or_default();
        *own = own.saturating_add(*amount);
    }
}

/// Why a pod is not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreationRefusal {
    /// Where the quota lives.
    pub namespace: Box<str>,
    /// The quota.
    pub quota: Box<str>,
    /// Of what there would be too much: at least one.
    pub excesses: Vec<Excess>,
}

impl fmt::Display for CreationRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, quota, excesses } = self;
        let of = |amount: fn(&Excess) -> i64| {
            let own = excesses.iter();
            let own =
                own.map(|own| format!("{}={}", own.resource, quantity(&own.resource, amount(own))));
            own.collect::<Vec<_>>().join(",")
        };
        let (asked, used) = (of(|own| own.asked), of(|own| own.used));
        let limit = of(|own| own.limit);
        write!(
            f,
            "exceeded quota: {namespace}/{quota}, requested: {asked}, used: {used}, limited: {limit}"
        )
    }
}

/// Pods of one quota that are to be made at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// What becomes of each, in their order.
    pub verdicts: Vec<Result<(), CreationRefusal>>,
    /// What all ask for that are made.
    more: ByResource,
    /// What is asked for with them.
    asked: ByResource,
}

impl Batch {
    /// Judges one after the other: each counts for those that follow.
    #[must_use]
    pub fn judge(allowance: &Allowance, requests: &[Amounts]) -> Self {
        let mut allowance = allowance.clone();
        let mut more = ByResource::new();
        let mut verdict = |request: &Amounts| {
            let own = allowance.counted(request);
            let excesses = allowance.excesses(&own);
            if !excesses.is_empty() {
                let (namespace, quota) = (allowance.namespace.clone(), allowance.quota.clone());
                return Err(CreationRefusal { namespace, quota, excesses });
            }
            allowance.add(&own);
            add(&mut more, &own);
            Ok(())
        };
        let verdicts = requests.iter().map(&mut verdict).collect();
        Self { verdicts, more, asked: allowance.asked }
    }

    /// The same after somebody else has written: where there is room for all that were to be made they
    /// are, and otherwise each is judged again.
    #[must_use]
    pub fn again(self, allowance: &Allowance, requests: &[Amounts]) -> Self {
        if !allowance.excesses(&self.more).is_empty() {
            return Self::judge(allowance, requests);
        }
        let mut asked = allowance.asked.clone();
        add(&mut asked, &self.more);
        Self { asked, ..self }
    }

    /// What is to be written of the quota before its pods are made; none where none of them asks for
    /// anything that counts.
    #[must_use]
    pub fn child_request(&self) -> Option<&ByResource> {
        (!self.more.is_empty()).then_some(&self.asked)
    }
}

#[cfg(test)]
mod tests {
    use api::elastic_quota::{ADMISSION, CHILD_REQUEST, DEFAULT_QUOTA};
    use serde_json::{Value, json};

    use super::*;

    fn quota(name: &str, max: Value, annotations: Value) -> ElasticQuota {
        let metadata = json!({ "name": name, "namespace": "n", "annotations": annotations });
        serde_json::from_value(json!({ "metadata": metadata, "spec": { "max": max } })).unwrap()
    }

    /// A quota of four CPUs of which this is asked for.
    fn asked(cpu: i64) -> Allowance {
        let asked = json!({ "cpu": cpu }).to_string();
        let own = quota("q", json!({ "cpu": 4 }), json!({ CHILD_REQUEST: asked }));
        Allowance::read(&own).unwrap()
    }

    fn pods(cpus: &[i64]) -> Vec<Amounts> {
        let pod = |cpu: &i64| Amounts { cpu_millis: cpu * 1_000, ..Amounts::default() };
        cpus.iter().map(pod).collect()
    }

    /// Who is made, and what is asked for then.
    fn outcome(batch: &Batch) -> (Vec<bool>, Option<i64>) {
        let made = batch.verdicts.iter().map(Result::is_ok).collect();
        (made, batch.child_request().map(|asked| asked["cpu"]))
    }

    #[test]
    fn s12_e1_who_asks_for_more_than_may_be_asked_for_is_not_made() {
        let batch = Batch::judge(&asked(3), &pods(&[2]));
        assert_eq!(outcome(&batch), (vec![false], None));
        let words = "exceeded quota: n/q, requested: cpu=2, used: cpu=3, limited: cpu=4";
        assert_eq!(batch.verdicts[0].as_ref().unwrap_err().to_string(), words);
    }

    #[test]
    fn s12_e2_who_asks_for_what_is_left_is_made_and_counted() {
        assert_eq!(outcome(&Batch::judge(&asked(3), &pods(&[1]))), (vec![true], Some(4_000)));
    }

    #[test]
    fn s12_e3_pods_that_are_made_at_once_are_written_once() {
        let batch = Batch::judge(&asked(0), &pods(&[2, 2, 2]));
        assert_eq!(outcome(&batch), (vec![true, true, false], Some(4_000)));
    }

    #[test]
    fn s12_e4_where_others_have_written_and_not_all_fit_any_longer_each_is_judged_again() {
        let requests = pods(&[2, 2]);
        let batch = Batch::judge(&asked(0), &requests);
        assert_eq!(outcome(&batch), (vec![true, true], Some(4_000)));
        let fits = batch.clone().again(&asked(0), &requests);
        assert_eq!(fits, batch, "whoever wrote has counted nothing");
        let again = batch.again(&asked(2), &requests);
        assert_eq!(outcome(&again), (vec![true, false], Some(4_000)));
        // Who was refused is not made though others ask for less by now: he was told so.
        let refused = Batch::judge(&asked(2), &requests);
        let again = refused.again(&asked(1), &requests);
        assert_eq!(outcome(&again), (vec![true, false], Some(3_000)));
    }

    #[test]
    fn s12_e5_quotas_that_the_scheduler_keeps_let_all_pods_be_made() {
        let read = |name: &str, max: Value| Allowance::read(&quota(name, max, json!({}))).is_some();
        assert!(read("q", json!({ "cpu": 1 })));
        assert!(!read(DEFAULT_QUOTA, json!({ "cpu": 1 })));
        // So do those that count nothing of which pods are counted when they are made.
        assert!(!read("q", json!({ "example.com/licence": 1 })));
        assert!(read("q", json!({ "example.com/licence": 1, "nvidia.com/gpu": 1 })));
    }

    #[test]
    fn what_may_be_asked_for_can_be_another_amount_than_the_ceiling() {
        let admission = json!({ ADMISSION: r#"{"cpu":"6"}"#, CHILD_REQUEST: "[" });
        let own = quota("q", json!({ "cpu": 4, "memory": 1 }), admission);
        let allowance = Allowance::read(&own).unwrap();
        let batch = Batch::judge(&allowance, &pods(&[6, 1]));
        assert_eq!(outcome(&batch), (vec![true, false], Some(6_000)));
        // What it does not name has no limit, and what the quota does not count is not written.
        let amounts = Amounts { memory_bytes: 2, storage_bytes: 3, ..Amounts::default() };
        let batch = Batch::judge(&allowance, &[amounts]);
        let asked: ByResource = [("memory".into(), 2)].into();
        assert_eq!((&*batch.verdicts, batch.child_request()), (&[Ok(())][..], Some(&asked)));
        let batch = Batch::judge(&allowance, &[Amounts::default()]);
        assert_eq!((&*batch.verdicts, batch.child_request()), (&[Ok(())][..], None));
    }

    #[test]
    fn amounts_that_no_number_holds_are_too_many() {
        let huge = Amounts { cpu_millis: i64::MAX, ..Amounts::default() };
        let batch = Batch::judge(&asked(3), &[huge.clone(), huge]);
        assert_eq!(outcome(&batch), (vec![false, false], None));
    }
}
