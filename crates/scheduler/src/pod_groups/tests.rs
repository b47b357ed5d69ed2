use serde_json::{Value, json};

use super::*;
use api::pod_group::PodGroupPhase;

/// A pod as words tell it: `bound`, `going`, `disrupted`, a phase, and owners by name.
fn member(words: &str) -> Member {
    let mut own = json!({
        "metadata": { "namespace": "n", "name": "p", "ownerReferences": [],
                      "labels": { "pod-group.scheduling.sigs.k8s.io": "g" } },
        "spec": {}, "status": { "phase": "Pending" },
    });
    for word in words.split(' ').filter(|word| !word.is_empty()) {
        match word {
            "bound" => own["spec"]["nodeName"] = json!("node"),
            "going" => own["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z"),
            "disrupted" | "undisturbed" => {
                let status = if word == "disrupted" { "True" } else { "False" };
                let told = json!([{ "type": "DisruptionTarget", "status": status }]);
                own["status"]["conditions"] = told;
            }
            "Running" | "Succeeded" | "Failed" => {
                own["spec"]["nodeName"] = json!("node");
                own["status"]["phase"] = json!(word);
            }
            owner => {
                let owners = own["metadata"]["ownerReferences"].as_array_mut().unwrap();
                owners.push(json!({ "name": owner, "kind": "Job", "uid": owner }));
            }
        }
    }
    serde_json::from_value(own).unwrap()
}

fn members(words: &[&str]) -> Vec<Member> {
    words.iter().map(|words| member(words)).collect()
}

fn status(value: Value) -> PodGroupStatus {
    serde_json::from_value(value).unwrap()
}

fn now() -> Time {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// What is written of a group that says this, needs so many and has these members.
fn written(told: Value, least: i32, words: &[&str]) -> Value {
    let (told, members) = (status(told), members(words));
    let owners = || status::owners(members.iter());
    let next = status::next(&told, least, &members.iter().collect(), owners, now());
    let patch = status::patch("u-1", &told, &next);
    patch.map_or(Value::Null, |mut patch| {
        assert_eq!(patch["metadata"], json!({ "uid": "u-1" }));
        // What is written is not written again, and says what was meant.
        let mut own = json!(told);
        own = object::patch::merge::apply(own, patch["status"].clone()).unwrap();
        assert_eq!(status(own), next);
        assert_eq!(status::patch("u-1", &next, &next), None);
        patch["status"].take()
    })
}

#[track_caller]
fn check(told: Value, least: i32, members: &[&str], expected: Value) {
    assert_eq!(written(told.clone(), least, members), expected, "{told} of {members:?}");
}

#[test]
fn s12_g32_a_group_runs_when_enough_of_it_run() {
    let told = json!({ "phase": "Scheduled", "scheduled": 2 });
    check(told.clone(), 2, &["Running"; 2], json!({ "phase": "Running", "running": 2 }));
    check(told.clone(), 2, &["Running", "bound"], json!({ "running": 1 }));
    let ended = json!({ "phase": "Running", "running": 1, "succeeded": 1 });
    check(told, 2, &["Running", "Succeeded"], ended);
}

#[test]
fn s12_g33_a_group_has_failed_when_one_has_and_no_others_are_to_come() {
    let told = json!({ "phase": "Scheduled", "scheduled": 2 });
    check(told.clone(), 2, &["Failed"; 2], json!({ "phase": "Failed", "failed": 2 }));
    let mixed = json!({ "phase": "Failed", "failed": 1, "running": 1 });
    check(told.clone(), 2, &["Failed", "Running"], mixed);
    check(told, 2, &["Failed", "bound"], json!({ "failed": 1 }));
}

#[test]
fn s12_g34_a_group_has_finished_when_enough_ended_well() {
    let told = json!({ "phase": "Running", "scheduled": 2, "running": 2 });
    let finished = json!({ "phase": "Finished", "running": 0, "succeeded": 2 });
    check(told.clone(), 2, &["Succeeded"; 2], finished);
    // It does not matter what became of those that were not needed.
    let more = json!({ "phase": "Finished", "scheduled": 3, "running": 0, "succeeded": 2,
                       "failed": 1 });
    check(told, 2, &["Succeeded", "Succeeded", "Failed"], more);
}

#[test]
fn a_group_whose_pods_somebody_has_go_has_not_finished_or_failed() {
    let told = json!({ "phase": "Running", "scheduled": 2, "running": 2 });
    let waits = json!({ "phase": "Scheduled", "running": 0 });
    for going in ["Succeeded going", "Succeeded disrupted", "Failed going disrupted"] {
        check(told.clone(), 2, &[going; 2], waits.clone());
    }
    let failed = json!({ "phase": "Failed", "running": 0, "failed": 2 });
    check(told.clone(), 2, &["Failed disrupted"; 2], failed);
    let finished = json!({ "phase": "Finished", "running": 0, "succeeded": 2 });
    check(told, 2, &["Succeeded undisturbed"; 2], finished);
}

#[test]
fn s12_g35_a_group_whose_pods_are_gone_waits_again_and_counts_none() {
    let told = json!({ "phase": "Running", "scheduled": 2, "running": 2, "occupiedBy": "n/a" });
    check(told, 2, &[], json!({ "phase": "Pending", "scheduled": 0, "running": 0 }));
    check(json!({ "phase": "PreScheduling" }), 2, &[], json!({ "phase": "Pending" }));
}

#[test]
fn s12_g36_a_group_that_lacks_members_waits() {
    check(json!({ "phase": "Pending" }), 3, &["", ""], Value::Null);
    check(json!({ "phase": "Pending" }), 3, &["bound", "Running"], Value::Null);
    check(json!({}), 3, &["", ""], json!({ "phase": "Pending" }));
    check(json!({}), 3, &[], json!({ "phase": "Pending" }));
}

#[test]
fn s12_g37_a_group_that_is_complete_names_its_owners_and_is_counted_then() {
    let told = json!({ "phase": "Pending" });
    let complete = json!({ "phase": "PreScheduling", "occupiedBy": "n/a,n/b" });
    check(told.clone(), 2, &["b a", "b a"], complete.clone());
    check(told.clone(), 2, &["b", "a"], complete.clone());
    check(json!({}), 2, &["b", "a"], complete);
    check(told.clone(), 0, &["b", "a"], Value::Null);
    check(told.clone(), -1, &["b", "a"], Value::Null);
    let start = json!("2026-01-01T12:00:00Z");
    let counted = json!({ "phase": "Scheduling", "scheduleStartTime": start });
    check(json!({ "phase": "PreScheduling" }), 2, &["", ""], counted);
    // Who is under way already is not told to be about to begin.
    let counted = json!({ "phase": "Running", "scheduled": 2, "running": 2, "occupiedBy": "n/a" });
    check(told, 2, &["Running a", "Running a"], counted);
}

#[test]
fn a_group_is_scheduled_when_enough_have_a_node_and_its_start_is_written_once() {
    let start = "2026-01-01T11:00:00Z";
    let told = json!({ "phase": "Scheduling", "scheduleStartTime": start });
    check(told.clone(), 2, &["bound", ""], json!({ "scheduled": 1 }));
    check(told.clone(), 2, &["bound", "bound"], json!({ "phase": "Scheduled", "scheduled": 2 }));
    // Fewer than needed have a node again.
    let told = json!({ "phase": "Scheduled", "scheduled": 2, "scheduleStartTime": start });
    check(told, 2, &["bound", ""], json!({ "phase": "Scheduling", "scheduled": 1 }));
}

#[test]
fn what_has_finished_is_left_as_it_is_and_what_has_failed_until_enough_are_well() {
    for phase in ["Finished", "Failed"] {
        check(json!({ "phase": phase, "succeeded": 2 }), 2, &[], Value::Null);
        check(json!({ "phase": phase }), 2, &["Running", "bound"], Value::Null);
        check(json!({ "phase": phase }), 2, &["Running", "Failed", "bound"], Value::Null);
        check(json!({ "phase": phase }), 0, &["Running", "Running"], Value::Null);
    }
    check(json!({ "phase": "Finished" }), 2, &["Running"; 2], Value::Null);
    let failed = json!({ "phase": "Failed", "scheduled": 2, "running": 1, "failed": 1 });
    let again = json!({ "phase": "Running", "scheduled": 3, "running": 2 });
    check(failed.clone(), 2, &["Running", "Failed", "Running"], again);
    let others = json!({ "phase": "Running", "running": 2, "failed": 0 });
    check(failed.clone(), 2, &["Running", "Running"], others);
    let all = ["Succeeded", "Failed", "Succeeded"];
    let finished = json!({ "phase": "Finished", "scheduled": 3, "running": 0, "succeeded": 2 });
    check(failed, 2, &all, finished);
}

#[test]
fn one_that_failed_is_not_missed_where_enough_others_are_well() {
    let told = json!({ "phase": "Running", "scheduled": 2, "running": 2 });
    let more = json!({ "scheduled": 3, "failed": 1 });
    check(told, 2, &["Running", "Running", "Failed"], more);
}

#[test]
fn a_group_that_needs_nobody_by_now_is_counted_and_keeps_its_phase() {
    check(json!({ "phase": "Running" }), 0, &["bound"], json!({ "scheduled": 1 }));
}

#[test]
fn only_so_many_owners_are_named() {
    let owners: Vec<String> = (10..99).map(|number| format!("job-{number}")).collect();
    let expected: Vec<String> = owners[..16].iter().map(|name| format!("n/{name}")).collect();
    let check = |words: &[String]| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(status::owners(members(&words).iter()), expected.join(","));
    };
    check(&[owners.join(" ")]);
    check(&owners);
    let turned: Vec<String> = owners.iter().chain(&owners).rev().cloned().collect();
    check(&turned);
    assert_eq!(status::owners([].iter()), "");
}

#[test]
fn owners_are_asked_for_only_where_they_are_named() {
    let check = |phase: &str, least: i32, expected: usize| {
        let (told, members) = (status(json!({ "phase": phase })), members(&["bound a"]));
        let mut asked = 0;
        let owners = || {
            asked += 1;
            status::owners(members.iter())
        };
        status::next(&told, least, &members.iter().collect(), owners, now());
        assert_eq!(asked, expected, "{phase} {least}");
    };
    check("Pending", 1, 1);
    check("Pending", 2, 0);
    check("Pending", 0, 0);
    for phase in ["PreScheduling", "Scheduling", "Scheduled", "Running", "Finished"] {
        check(phase, 1, 0);
    }
}

#[test]
fn a_group_is_looked_at_once_a_second() {
    let mut own = Own::default();
    let mut left = |uid: &str, millis: u64| {
        let begun = own.begin(uid, Moment(7).after(Duration::from_millis(millis)));
        begun.err().map(|left| left.as_millis())
    };
    assert_eq!(left("u-1", 0), None);
    assert_eq!(left("u-1", 300), Some(700));
    assert_eq!(left("u-1", 1_000), None);
    assert_eq!(left("u-1", 1_001), Some(999));
    // Another one has its name by now.
    assert_eq!(left("u-2", 1_001), None);
    own.rest = own.rest.over();
    assert!(own.begin("u-2", Moment(8)).is_ok(), "who could not be written is tried again");
}

#[test]
fn what_was_written_counts_until_the_watch_shows_it() {
    let group = |version: &str, told: Value| -> PodGroup {
        let meta = json!({ "name": "g", "resourceVersion": version });
        serde_json::from_value(json!({ "metadata": meta, "status": told })).unwrap()
    };
    let start = "2026-01-01T11:00:00Z";
    let own = Written {
        seen: "7".to_owned(),
        status: status(json!({ "phase": "Scheduling", "scheduleStartTime": start })),
    };
    let told = json!({ "phase": "PreScheduling" });
    assert_eq!(own.over(&group("7", told.clone())), own.status);
    // Somebody else wrote in between: only the start is kept.
    let over = own.over(&group("8", told));
    assert_eq!(over.phase, PodGroupPhase::PreScheduling);
    assert_eq!(over.schedule_start_time, own.status.schedule_start_time);
}

#[test]
fn a_member_is_read_with_what_it_lacks() {
    let bare: Member = serde_json::from_value(json!({
        "metadata": { "namespace": "n", "name": "p",
                      "labels": { "app": "x", "pod-group.scheduling.sigs.k8s.io": "g" } },
        "spec": { "containers": [] },
    }))
    .unwrap();
    assert_eq!(bare.group(), Key::namespaced("n", "g"));
    assert_eq!((bare.owners().count(), bare.spec.node_name.len()), (0, 0));
}

#[test]
fn a_group_that_does_not_keep_what_is_written_is_written_less_and_less_often() {
    let group = |told: &Value| -> PodGroup {
        serde_json::from_value(json!({ "metadata": { "name": "g" }, "status": told })).unwrap()
    };
    let next = status(json!({ "phase": "Running", "running": 2 }));
    let check = |answer: Value, expected: &[u64]| {
        let (mut own, mut now) = (Own::default(), Moment(7));
        let found = expected.iter().map(|_| {
            // A look does not make up for what was written in vain.
            assert!(own.begin("u-1", now).is_ok());
            let left = own.write(group(&answer), &group(&answer), &next, now).unwrap_or_default();
            now = now.after(left);
            left.as_secs()
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{answer}");
    };
    check(json!({ "phase": "Running", "running": 2 }), &[1, 1, 1]);
    // What is not ours may be as it wants.
    check(json!({ "phase": "Running", "running": 2, "conditions": [] }), &[1, 1, 1]);
    check(json!({ "phase": "Pending", "running": 2 }), &[1, 2, 4, 8]);
    check(json!({}), &[1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
}
