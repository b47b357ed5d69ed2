//! Decisions that last too long.

use super::*;

fn seconds(count: u64) -> Moment {
    START.after(Duration::from_secs(count))
}

/// Lets time pass until then, as the engine's thread does: it looks when something is due.
fn pass(core: &mut Core, from: u64, until: u64) {
    let mut now = seconds(from);
    while let Some(due) = core.next_due(now).filter(|due| *due <= seconds(until)) {
        assert!(due > now, "time stands still");
        now = due;
        core.look_after(now);
    }
}

#[track_caller]
fn check_timeouts(metrics: &Metrics, expected: Option<u32>) {
    let shown = metrics.render();
    let mut lines = shown.lines().filter(|line| line.starts_with("scheduler_scheduling_timeout"));
    let own = format!("scheduler_scheduling_timeout{{profile=\"{NAME}\"}}");
    let expected = expected.map(|count| format!("{own} {count}"));
    assert_eq!(lines.next().map(str::to_owned), expected);
}

#[test]
fn s10_74_a_binding_that_is_not_answered_in_time_is_counted() {
    let metrics = Metrics::new();
    let mut core = begun(counted(&[], &metrics), 4);
    tell(&mut core, [pod("slow", "1", json!({})), pod("quick", "1", json!({}))]);
    assert_eq!(decisions(&mut core, START).len(), 2);
    let bound = answer(&core, "quick", Outcome::Bound);
    assert_eq!(core.take(bound, seconds(1)), None);
    assert_eq!(core.next_due(seconds(1)), Some(seconds(10)));
    pass(&mut core, 1, 29);
    check_timeouts(&metrics, None);
    pass(&mut core, 29, 35);
    check_timeouts(&metrics, Some(1));
    // It is counted once more when it ends, and then no longer.
    let bound = answer(&core, "slow", Outcome::Bound);
    assert_eq!(core.take(bound, seconds(35)), None);
    check_timeouts(&metrics, Some(2));
    assert_eq!(core.next_due(seconds(35)), None);
    core.look_after(seconds(100));
    check_timeouts(&metrics, Some(2));
}

#[test]
fn with_no_room_for_more_it_is_still_looked_for_those_that_last() {
    let metrics = Metrics::new();
    let patience = Patience { period: Duration::from_secs(2), timeout: Duration::from_secs(3) };
    let mut core = begun(counted(&[], &metrics).with_patience(patience), 1000);
    let pods = u32::try_from(BINDS_MAX).unwrap();
    tell(&mut core, (0..pods).map(|n| pod(&format!("p{n}"), "1", json!({}))));
    assert_eq!(decisions(&mut core, START).len(), BINDS_MAX);
    assert!(!core.has_room());
    pass(&mut core, 0, 5);
    check_timeouts(&metrics, Some(pods));
}

#[test]
fn each_is_new_once_however_many_last_already() {
    let metrics = Metrics::new();
    let mut core = begun(counted(&[], &metrics), 1000);
    tell(&mut core, (0..17).map(|n| pod(&format!("p{n}"), "1", json!({}))));
    assert_eq!(decisions(&mut core, START).len(), 17);
    assert_eq!(core.count_newly_late(seconds(30)), 17);
    tell(&mut core, [pod("last", "1", json!({}))]);
    assert_eq!(decisions(&mut core, seconds(31)).len(), 1);
    assert_eq!(core.count_newly_late(seconds(60)), 0);
    assert_eq!(core.count_newly_late(seconds(70)), 1);
    assert_eq!(core.count_newly_late(seconds(80)), 0);
    check_timeouts(&metrics, Some(17 + 17 + 18 + 18));
}

#[test]
fn so_is_who_waits_for_extenders_or_volumes() {
    let lines = "[{urlPrefix: 'http://e', filterVerb: f}]";
    let metrics = Metrics::new();
    let mut core = begun(counted(&configured(lines), &metrics), 4);
    tell(&mut core, [pod("asked", "1", json!({}))]);
    let orders = decisions(&mut core, START);
    let [Order::Consult(order)] = &orders[..] else { panic!("{orders:?}") };
    pass(&mut core, 0, 30);
    check_timeouts(&metrics, Some(1));
    let failed = turn::Advice::Failed("down".into());
    assert_eq!(core.take(Message::Advised(order.ticket, failed), seconds(31)), None);
    assert_eq!(decisions(&mut core, seconds(31)).len(), 1);
    check_timeouts(&metrics, Some(2));

    let metrics = Metrics::new();
    let mut core = begun(counted(&[], &metrics), 4);
    let class = json!({ "metadata": { "name": "late" }, "provisioner": "somebody",
                        "volumeBindingMode": "WaitForFirstConsumer" });
    let volumes = json!({ "spec": { "volumes": [
        { "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] } });
    tell(&mut core, [stored::<api::StorageClass>(class), data(None), pod("p", "1", volumes)]);
    let Some(Order::Prepare(_)) = core.next_order(START) else { panic!("it has no volume yet") };
    let written = Message::Answered(errand(&core, "p"), Answer::Prepared([0].into()));
    assert_eq!(core.take(written, seconds(1)), None);
    // What was asked for is written, and the volume is not there yet.
    pass(&mut core, 1, 30);
    check_timeouts(&metrics, Some(1));
    tell(&mut core, [Message::Fact(Fact::PodGone(Uid::new("p")))]);
    assert_eq!(core.next_look(), None, "nobody waits for one that is gone");
}
