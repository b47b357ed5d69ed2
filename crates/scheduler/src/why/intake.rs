//! Objects that are listed become facts of a ledger, as far as the scheduler that runs would take them in.
//!
//! A ledger of objects alone has no queue. What a queue would say of quotas is taken from what is written on pods: for one
//! that nodes refused, and that none would take whoever left it, nothing is divided that others could use.

use std::sync::Arc;

use api::ElasticQuota;
use engine::decide::Decider;
use engine::fact::{Fact, PodFact, Uid};
use engine::ledger::Ledger;
use engine::profile::Profile;
use engine::quota::QuotaRefusal;

use crate::config::Configuration;
use crate::core::REFUSALS;
use crate::gangs;
use crate::message::{Message, PodNews, Written};
use crate::quotas;

/// What is listed, on its way into a ledger.
pub(super) struct Intake<'a> {
    configuration: &'a Configuration,
    /// Pods that may not be tried: nothing is divided for them.
    resting: Vec<Uid>,
    /// Pods that nodes refused.
    refused: Vec<Uid>,
    unread: Vec<String>,
}

impl<'a> Intake<'a> {
    pub(super) fn new(configuration: &'a Configuration) -> Self {
        Self { configuration, resting: Vec::new(), refused: Vec::new(), unread: Vec::new() }
    }

    /// Has a ledger know of an object; of a pod, what this makes of it.
    pub(super) fn take(
        &mut self,
        ledger: &mut Ledger,
        message: Message,
        noted: impl FnOnce(&mut PodFact),
    ) {
        match message {
            Message::Fact(fact) => ledger.apply(fact),
            Message::Reservation(news) => ledger.apply(news.fact),
            Message::Quota(own) => self.quota(ledger, &own),
            Message::Group(own) => ledger.apply(gangs::fact(&own)),
            Message::Pod(news) => {
                let PodNews { mut fact, written } = *news;
                noted(&mut fact);
                if self.waits_alone(&fact, &written) {
                    let all = match fact.gates.is_empty() {
                        true if is_refused(&written) => Some(&mut self.refused),
                        true => None,
                        false => Some(&mut self.resting),
                    };
                    all.into_iter().for_each(|all| all.push(fact.uid.clone()));
                }
                ledger.apply(Fact::Pod(Box::new(fact)));
            }
            Message::Unreadable(what) => {
                self.unread.push(format!("{:?} {}: {}", what.kind, what.key, what.error));
            }
            _ => {}
        }
    }

    fn quota(&self, ledger: &mut Ledger, own: &Arc<ElasticQuota>) {
        let namespace = self.configuration.quota_args().map(|args| &*args.namespace);
        if let (Some(fact), _) = quotas::read(own, namespace) {
            ledger.apply(Fact::Quota(Box::new(fact)));
        }
    }

    /// Whether a pod is ours and waits, with no room made for it. A member of a gang waits with the others, and something
    /// is divided for it all along.
    fn waits_alone(&self, fact: &PodFact, written: &Written) -> bool {
        let mut own = self.configuration.profiles.iter();
        let is_own = own.any(|profile| *profile.scheduler_name == *fact.scheduler);
        let waits = fact.node.is_none() && !fact.deleting && written.nominated.is_empty();
        is_own && waits && fact.gang.is_none()
    }

    /// All are told: what could not be read, in words.
    pub(super) fn end(self, ledger: &mut Ledger) -> Vec<String> {
        if ledger.quotas.are_kept() && !self.refused.is_empty() {
            // Of what else a profile reads nothing may be known here.
            let decider = Decider::new(Profile::kubernetes(), ledger, 0);
            let hopeless = self.refused.iter().filter(|uid| decider.is_hopeless(ledger, uid));
            let hopeless: Vec<&Uid> = hopeless.collect();
            hopeless.into_iter().for_each(|uid| ledger.rest(uid));
        }
        self.resting.iter().for_each(|uid| ledger.rest(uid));
        self.unread
    }
}

/// Whether a pod waits for something that is not its quota, by what is written on it.
fn is_refused(written: &Written) -> bool {
    let told = written.scheduled.as_ref().filter(|told| told.is_false);
    told.is_some_and(|told| {
        REFUSALS.contains(&&*told.reason) && !QuotaRefusal::is_told_by(&told.message)
    })
}

#[cfg(test)]
mod tests {
    use api::Node;
    use engine::fact::NodeFact;
    use engine::quota::Settings;
    use serde_json::json;

    use super::*;
    use crate::message::Scheduled;

    fn quota(namespace: &str, name: &str, min: i64) -> Message {
        let own = json!({ "metadata": { "name": name, "namespace": namespace },
                          "spec": { "min": { "cpu": min }, "max": { "cpu": 8 } } });
        Message::Quota(Arc::new(serde_json::from_value(own).unwrap()))
    }

    fn pod(name: &str, quota: &str, node: Option<&str>, told: Option<(&str, &str)>) -> PodNews {
        let mut fact = PodFact::new(name, "ns", name);
        fact.quota = Some(quota.into());
        fact.scheduler = "koord-scheduler".into();
        fact.node = node.map(Into::into);
        fact.needs.requests.charged.cpu_millis = 6000;
        fact.needs.taken = fact.needs.requests.clone();
        let scheduled = told.map(|(reason, message)| Scheduled {
            is_false: true,
            reason: reason.into(),
            message: message.into(),
        });
        PodNews { fact, written: Written { scheduled, ..Written::default() } }
    }

    /// How much of 8 CPUs quota `b` may use, which asks for 6, beside `a`, of which one pod waits.
    fn runtime(waiting: PodNews) -> i64 {
        let configuration = Configuration::of_koordinator();
        let mut ledger = Ledger::default();
        ledger.keep_quotas(Settings::default());
        let node =
            json!({ "metadata": { "name": "n" }, "status": { "allocatable": { "cpu": "8" } } });
        let node = serde_json::from_value::<Node>(node).unwrap();
        let mut intake = Intake::new(&configuration);
        let all = [
            Message::Fact(Fact::Node(NodeFact::from(&node))),
            quota("ns", "a", 2),
            quota("ns", "b", 2),
            Message::Pod(Box::new(waiting)),
            Message::Pod(Box::new(pod("runs", "b", Some("n"), None))),
        ];
        all.into_iter().for_each(|message| intake.take(&mut ledger, message, |_| ()));
        assert_eq!(intake.end(&mut ledger), [""; 0]);
        let view = ledger.quotas.forest_mut().view("").unwrap();
        view.standing("b").unwrap().runtime["cpu"]
    }

    #[test]
    fn of_quotas_pods_that_no_node_would_take_ask_for_nothing_that_others_could_use() {
        let check = |told: Option<(&str, &str)>, change: fn(&mut PodNews), expected: i64| {
            let mut waiting = pod("waits", "a", None, told);
            change(&mut waiting);
            assert_eq!(runtime(waiting), expected, "{told:?}");
        };
        let full = "0/1 nodes are available: 1 Insufficient cpu.";
        let no_quota = "0/1 nodes are available: Insufficient quotas, quotaName: a, runtime: cpu 4, \
                        used: cpu 0, pod's request: cpu 6, exceedDimensions: [cpu]";
        check(Some(("Unschedulable", full)), |_| (), 4000);
        let too_large = |own: &mut PodNews| own.fact.needs.requests.charged.cpu_millis = 9000;
        check(Some(("Unschedulable", full)), too_large, 6000);
        check(Some(("Unschedulable", no_quota)), |_| (), 4000);
        check(Some(("SchedulerError", full)), |_| (), 4000);
        check(None, |_| (), 4000);
        check(None, |own| own.fact.gates = ["wait".into()].into(), 6000);
        check(Some(("Unschedulable", full)), |own| own.written.nominated = "n".into(), 4000);
        check(Some(("Unschedulable", full)), |own| own.fact.scheduler = "other".into(), 4000);
    }

    #[test]
    fn quotas_of_every_cluster_count_in_the_namespace_that_the_configuration_names() {
        let configuration = Configuration::of_koordinator();
        let namespace = &configuration.quota_args().unwrap().namespace;
        let check = |namespace: &str, expected: usize| {
            let mut ledger = Ledger::default();
            ledger.keep_quotas(Settings::default());
            let mut intake = Intake::new(&configuration);
            let own = quota(namespace, api::elastic_quota::DEFAULT_QUOTA, 0);
            intake.take(&mut ledger, own, |_| ());
            let register = ledger.quotas.forest().register();
            assert_eq!(register.iter().count(), expected, "{namespace}");
        };
        check(namespace, 1);
        check("elsewhere", 0);
    }
}
