use std::sync::Arc;
use std::time::Duration;

use crate::fact::{DEFAULT_SCHEDULER, Fact, LoadReport, NodeUsage, PodFact, Uid};
use crate::ledger::{LoadSettings, Stale};
use crate::moment::Moment;
use crate::needs::Amounts;
use crate::plugins::load_aware::LoadAware;
use crate::profile::Profile;
use crate::turn::tests::{START, decided, node, pod, told};
use crate::turn::{Engine, Settings};

/// An engine that looks at loads, and believes what is reported for five minutes.
fn heeding_loads() -> Engine {
    let settings = LoadSettings { stale: Stale::Forgotten, ..LoadSettings::default() };
    let plugin = LoadAware { settings: Arc::new(settings) };
    let profiles = vec![(DEFAULT_SCHEDULER.into(), Profile::kubernetes().filter(plugin))];
    Engine::new(Settings::default(), profiles, START)
}

fn reports(node: &str, cpu_millis: i64) -> Fact {
    reports_at(START, node, cpu_millis)
}

fn reports_at(at: Moment, node: &str, cpu_millis: i64) -> Fact {
    let now = Amounts { cpu_millis, ..Amounts::default() };
    let report = LoadReport {
        at: Some(at),
        interval: Duration::from_secs(60),
        node: Some(NodeUsage { now, ..NodeUsage::default() }),
        ..LoadReport::default()
    };
    Fact::Load { node: node.into(), report: Some(Arc::new(report)) }
}

#[test]
fn whoever_was_refused_for_load_wakes_when_a_node_has_room_for_him_and_not_before() {
    let later = START.after(Duration::from_secs(20));
    let cured = |happens: &dyn Fn(&mut Engine)| {
        let mut engine = heeding_loads();
        engine.apply(node("a", 10_000), START);
        engine.apply(reports("a", 6_000), START);
        let there = PodFact { node: Some("a".into()), ..pod("there", 500) };
        engine.apply(told(there), START);
        engine.apply(told(pod("one", 1_000)), START);
        let hot =
            "one waits, try 1: 0/1 nodes are available: 1 node(s) cpu usage exceed threshold.";
        assert_eq!(decided(&mut engine, START), [hot]);
        happens(&mut engine);
        let told = decided(&mut engine, later);
        // Nobody wakes in vain.
        assert!(told.iter().all(|told| told.starts_with("one to")), "{told:?}");
        !told.is_empty()
    };
    let apply = |fact: Fact| move |engine: &mut Engine| engine.apply(fact.clone(), START);
    assert!(!cured(&|_| ()));
    assert!(cured(&apply(reports("a", 1_000))), "the node has cooled");
    assert!(!cured(&apply(reports("a", 5_900))), "it has, but not enough");
    assert!(!cured(&apply(reports("a", 9_000))), "it is hotter");
    assert!(cured(&apply(Fact::Load { node: "a".into(), report: None })), "nobody reports");
    assert!(cured(&apply(node("b", 10_000))), "another node comes");
    assert!(cured(&apply(node("a", 90_000))), "the node is larger");
    // What it was estimated by: 425 of 6,425 go, and 850 more would be 6,850 of 6,500 still.
    assert!(!cured(&apply(Fact::PodGone(Uid::new("there")))), "somebody goes who used little");
}

#[test]
fn whoever_was_refused_for_an_old_report_wakes_when_it_is_forgotten() {
    // Also where the clock of the node is a year ahead.
    for at in [START, START.after(Duration::from_secs(365 * 24 * 3600))] {
        let mut engine = heeding_loads();
        engine.apply(node("a", 10_000), START);
        engine.apply(reports_at(at, "a", 9_000), START);
        engine.apply(told(pod("one", 1_000)), START);
        assert_eq!(decided(&mut engine, START).len(), 1);
        let expiry = START.after(LoadSettings::default().expires_after);
        let due = engine.next_due(START).unwrap();
        assert!(due <= expiry, "somebody has to look when it is old");
        assert_eq!(decided(&mut engine, expiry), ["one to a, try 2"]);
    }
}
