//! Quotas: pods wait for them, and how they stand is written beside decisions.

use std::sync::Arc;

use api::elastic_quota::QUOTA_NAME_LABEL;
use engine::quota::Settings;

use super::*;
use crate::message::Receipt;

/// A scheduler that heeds quotas, on a node with so many CPUs.
fn sharing(cpu: u32) -> Core {
    let profile = Profile { quota: Some(Settings::default()), ..Profile::kubernetes() };
    let engine = Engine::new(turn::Settings::default(), vec![(NAME.into(), profile)], START);
    begun(Core::new(engine, [NAME.into()], Meters::register(&Metrics::new())), cpu)
}

fn quota(name: &str, min: u32, max: u32) -> Message {
    let own = json!({ "metadata": { "name": name, "namespace": "ns", "uid": name },
                      "spec": { "min": { "cpu": min }, "max": { "cpu": max } } });
    Message::Quota(Arc::new(serde_json::from_value(own).unwrap()))
}

fn of(quota: &str, more: Value) -> Value {
    let own = json!({ "metadata": { "labels": { QUOTA_NAME_LABEL: quota } } });
    object::patch::merge::apply(own, more).unwrap()
}

/// What is decided of pods.
fn of_pods(core: &mut Core, now: Moment) -> Vec<String> {
    let orders = decisions(core, now).into_iter();
    orders.filter(|order| !matches!(order, Order::Quota(_))).map(|order| shown(&order)).collect()
}

#[test]
fn a_pod_over_its_quota_is_told_and_gets_its_node_when_another_of_it_is_gone() {
    let mut core = sharing(10);
    tell(
        &mut core,
        [quota("a", 4, 8), pod("one", "5", of("a", json!({ "spec": { "nodeName": "n1" } })))],
    );
    tell(&mut core, [pod("two", "3", of("a", json!({ "spec": { "nodeName": "n1" } })))]);
    tell(&mut core, [pod("late", "1", of("a", json!({})))]);
    let words = "0/1 nodes are available: Insufficient quotas, quotaName: a, runtime: cpu 8, used: cpu 8, pod's \
                 request: cpu 1, exceedDimensions: [cpu].";
    assert_eq!(of_pods(&mut core, START), [format!("late: {words} (now Unschedulable of 1)")]);
    let told = json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words }]);
    tell(&mut core, [Message::Told(Uid::new("late"))]);
    tell(&mut core, [pod("late", "1", of("a", json!({ "status": { "conditions": told } })))]);
    let later = START.after(Duration::from_secs(5));
    assert_eq!(of_pods(&mut core, later), [""; 0]);
    tell(&mut core, [Message::Fact(Fact::PodGone(Uid::new("two")))]);
    assert_eq!(core.next_due(later), Some(later));
    assert_eq!(of_pods(&mut core, later), ["late to n1"]);
}

#[test]
fn how_quotas_stand_is_written_once_everything_is_known_and_waited_for_at_the_end() {
    let profile = Profile { quota: Some(Settings::default()), ..Profile::kubernetes() };
    let engine = Engine::new(turn::Settings::default(), vec![(NAME.into(), profile)], START);
    let mut core = Core::new(engine, [NAME.into()], Meters::register(&Metrics::new()));
    tell(&mut core, [node("n1", 10), quota("a", 4, 8)]);
    assert_eq!(decisions(&mut core, START), [], "not everything is known");
    tell(&mut core, Kind::ALL.map(Message::Synced));
    let orders = decisions(&mut core, START);
    let [Order::Quota(order)] = &orders[..] else { panic!("{orders:?}") };
    let key = order.key.clone();
    tell(&mut core, [Message::Stop]);
    assert!(!core.is_over());
    let written = Receipt { key, object: None, wrote: Wrote::All };
    tell(&mut core, [Message::QuotaWritten(Box::new(written))]);
    assert!(core.is_over());
}
