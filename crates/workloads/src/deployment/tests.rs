use api::deployment::DeploymentStatus;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::facts::testing::{at, controller, meta, text};

/// A deployment of template `v`, from words such as `replicas=3 surge=1 paused`.
fn deployment(words: &str, v: u32) -> Packed<Deployment> {
    let mut spec = json!({
        "replicas": 3, "selector": { "matchLabels": { "app": "web" } },
        "template": template(v), "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
        "strategy": { "type": "RollingUpdate",
                      "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } }
    });
    let mut metadata = meta("web", "dep");
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let amount = || -> Value { serde_json::from_str(value).unwrap_or(value.into()) };
        match key {
            "replicas" => spec["replicas"] = amount(),
            "surge" => spec["strategy"]["rollingUpdate"]["maxSurge"] = amount(),
            "missing" => spec["strategy"]["rollingUpdate"]["maxUnavailable"] = amount(),
            "recreate" => spec["strategy"] = json!({ "type": "Recreate" }),
            "paused" => spec["paused"] = true.into(),
            "history" => spec["revisionHistoryLimit"] = amount(),
            "deadline" => spec["progressDeadlineSeconds"] = amount(),
            "minready" => spec["minReadySeconds"] = amount(),
            "revision" => {
                metadata.annotations.insert(revision::REVISION.to_owned(), value.to_owned());
            }
            "note" => {
                metadata.annotations.insert("note".to_owned(), value.to_owned());
            }
            "going" => metadata.deletion_timestamp = Some(at(50).into()),
            other => panic!("{other} means nothing"),
        }
    }
    let status = DeploymentStatus::default();
    Packed::new(Deployment { metadata, spec: serde_json::from_value(spec).unwrap(), status })
}

fn template(v: u32) -> Value {
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "v": v } })
}

/// A replica set of template `v` with `size/pods/available`, made for a deployment that
/// asked for `desired` and at most `max`.
fn set(v: u32, sizes: &str, desired: i32, max: i32) -> Packed<ReplicaSet> {
    let sizes: Vec<i32> = sizes.split('/').map(|n| n.parse().unwrap()).collect();
    let mut metadata = meta(&format!("web-{v}"), &format!("rs-{v}"));
    metadata.owner_references = vec![controller("Deployment", "web", "dep")];
    metadata.creation_timestamp = Some(at(i64::from(v)).into());
    for (key, value) in [
        ("revision", v.to_string()),
        ("desired-replicas", desired.to_string()),
        ("max-replicas", max.to_string()),
    ] {
        metadata.annotations.insert(format!("deployment.kubernetes.io/{key}"), value);
    }
    let spec = json!({ "replicas": sizes[0], "selector": {}, "template": template(v) });
    let status = json!({ "replicas": sizes[1], "readyReplicas": sizes[2], "observedGeneration": 1,
                         "availableReplicas": sizes[2], "terminatingReplicas": 0 });
    Packed::new(ReplicaSet {
        metadata,
        spec: serde_json::from_value(spec).unwrap(),
        status: serde_json::from_value(status).unwrap(),
    })
}

fn planned(deployment: &Packed<Deployment>, sets: &[Packed<ReplicaSet>], old_pods: bool) -> Plan {
    let sets: Vec<&Packed<ReplicaSet>> = sets.iter().collect();
    plan(&Facts { deployment, sets: &sets, old_pods_run: old_pods, now: at(100) })
}

/// The plan in short: `make N`, `web-1>2`, `note web-1`, `drop web-1`.
fn told(plan: &Plan) -> String {
    let mut words = Vec::new();
    if let Some(new) = &plan.create {
        words.push(format!("make {}", new.body["spec"]["replicas"]));
    }
    words.extend(plan.change.iter().map(|change| match change.replicas {
        Some(size) => format!("{}>{size}", change.name),
        None => format!("note {}", change.name),
    }));
    words.extend(plan.delete.iter().map(|set| format!("drop {}", set.name)));
    words.join(" ")
}

#[test]
fn a_rolling_update_moves_step_by_step_within_its_bounds() {
    let check = |words: &str, old: &str, new: &str, want: &str| {
        let deployment = deployment(words, 2);
        let (desired, max) = (
            deployment.spec.replicas.unwrap(),
            Rollout::new(&Facts {
                deployment: &deployment,
                sets: &[],
                old_pods_run: false,
                now: at(0),
            })
            .size_max(),
        );
        let mut sets = Vec::new();
        if !old.is_empty() {
            sets.push(set(1, old, desired, max));
        }
        if !new.is_empty() {
            sets.push(set(2, new, desired, max));
        }
        assert_eq!(told(&planned(&deployment, &sets, false)), want, "{words} {old} {new}");
    };
    check("", "", "", "make 3");
    check("replicas=0", "", "", "make 0");
    // 25 % of 3 are one too many and none too few.
    check("", "3/3/3", "", "make 1");
    check("", "3/3/3", "1/1/0", "");
    check("", "3/3/3", "1/1/1", "web-1>2");
    check("", "2/2/2", "1/1/1", "web-2>2");
    check("", "0/0/0", "3/3/3", "");
    check("replicas=10", "10/10/10", "", "make 3");
    check("replicas=10", "10/10/10", "3/3/0", "web-1>8");
    check("replicas=10", "8/8/8", "3/3/0", "web-2>5");
    check("replicas=10", "8/8/8", "5/5/0", "");
    check("replicas=10", "8/8/8", "5/5/2", "web-1>6");
    // No surge: old ones go first.
    check("surge=0 missing=1", "3/3/3", "", "make 0");
    check("surge=0 missing=1", "3/3/3", "0/0/0", "web-1>2");
    check("surge=0 missing=1", "2/2/2", "0/0/0", "web-2>1");
    // Both none would never move: one may be missing.
    check("surge=0 missing=0", "3/3/3", "0/0/0", "web-1>2");
    // Old pods that do not run are taken first, however many may be missing.
    check("replicas=4 surge=1 missing=0", "4/4/1", "1/1/0", "");
    check("replicas=4 surge=2 missing=1", "4/4/1", "2/2/2", "web-1>1");
    // A new set that is too large shrinks.
    check("replicas=2", "", "3/3/3", "web-2>2");
}

#[test]
fn recreation_waits_until_the_last_old_pod_is_gone() {
    let check = |sets: &[Packed<ReplicaSet>], old_pods, want: &str| {
        assert_eq!(told(&planned(&deployment("recreate", 2), sets, old_pods)), want);
    };
    check(&[set(1, "3/3/3", 3, 3)], true, "web-1>0");
    check(&[set(1, "0/3/3", 3, 3)], true, "");
    check(&[set(1, "0/0/0", 3, 3)], false, "make 3");
    check(&[set(1, "0/0/0", 3, 3), set(2, "3/1/1", 3, 3)], false, "");
    check(&[set(1, "0/0/0", 3, 3), set(2, "0/0/0", 3, 3)], false, "web-2>3");
}

#[test]
fn a_change_of_size_is_shared_by_the_sets_in_proportion() {
    let check = |words: &str, sets: &[Packed<ReplicaSet>], want: &str| {
        assert_eq!(told(&planned(&deployment(words, 9), sets, false)), want, "{words}");
    };
    // Sets made when 10 were asked for, with up to 13.
    let sets = |sizes: [&str; 2]| [set(1, sizes[0], 10, 13), set(9, sizes[1], 10, 13)];
    check("replicas=20", &sets(["8/8/8", "5/5/5"]), "web-1>15 web-9>10");
    check("replicas=5", &sets(["8/8/8", "5/5/5"]), "web-1>4 web-9>3");
    check("replicas=0", &sets(["8/8/8", "5/5/5"]), "web-1>0 web-9>0");
    // One set takes all of it.
    check("replicas=4", &[set(9, "3/3/3", 3, 4)], "web-9>4");
    // Once the new set is complete, the old ones have nothing to share.
    check("replicas=3", &[set(1, "1/1/1", 2, 3), set(9, "3/3/3", 3, 4)], "web-1>0");
    check("replicas=4 paused", &[set(1, "3/3/3", 3, 4)], "web-1>4");
}

#[test]
fn a_paused_deployment_rolls_nothing_out() {
    let sets = [set(1, "3/3/3", 3, 4)];
    let plan = planned(&deployment("paused", 2), &sets, false);
    assert_eq!(told(&plan), "");
    let told = api::condition::find(&plan.status.conditions, "Progressing").unwrap();
    assert_eq!((told.status.as_str(), told.reason.as_str()), ("Unknown", "DeploymentPaused"));
    let going = planned(&deployment("going", 2), &sets, false);
    assert_eq!((super::tests::told(&going).as_str(), going.status.replicas), ("", 3));
}

#[test]
fn a_new_set_carries_hash_revision_sizes_and_annotations() {
    let deployment = deployment("note=x revision=7 replicas=4", 8);
    let plan = planned(&deployment, &[set(7, "4/4/4", 4, 5)], false);
    let new = plan.create.unwrap();
    let hash = deployment.template.hash(0);
    assert_eq!((new.name.as_str(), new.revision.as_str()), (format!("web-{hash}").as_str(), "8"));
    assert_eq!(
        new.body["metadata"]["annotations"],
        json!({ "deployment.kubernetes.io/desired-replicas": "4",
                "deployment.kubernetes.io/max-replicas": "5",
                "deployment.kubernetes.io/revision": "8", "note": "x" })
    );
    let labels = json!({ "app": "web", "pod-template-hash": hash });
    assert_eq!(new.body["metadata"]["labels"], labels);
    assert_eq!(new.body["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(new.body["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(new.body["metadata"]["ownerReferences"][0]["uid"], "dep");
    let made = api::condition::find(&plan.status.conditions, "Progressing").unwrap();
    assert_eq!(made.reason, "NewReplicaSetCreated");
}

#[test]
fn going_back_to_an_old_template_makes_its_set_the_newest_again() {
    let deployment = deployment("", 1);
    let sets = [set(1, "0/0/0", 3, 4), set(2, "3/3/3", 3, 4)];
    let plan = planned(&deployment, &sets, false);
    assert_eq!(told(&plan), "note web-1");
    let annotations = &plan.change[0].annotations;
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
}

#[test]
fn the_deployment_learns_the_revision_of_its_newest_set() {
    let check = |words: &str, want: Option<&str>| {
        let plan = planned(&deployment(words, 2), &[set(2, "3/3/3", 3, 4)], false);
        assert_eq!(plan.revision.as_deref(), want);
    };
    check("", Some("2"));
    check("revision=1", Some("2"));
    check("revision=2", None);
}

#[test]
fn old_sets_beyond_the_history_are_dropped_when_the_rollout_is_complete() {
    let sets: Vec<_> =
        (1..=5).map(|v| set(v, if v == 5 { "3/3/3" } else { "0/0/0" }, 3, 4)).collect();
    let check = |words: &str, want: &str| {
        assert_eq!(told(&planned(&deployment(words, 5), &sets, false)), want);
    };
    check("history=10", "");
    check("history=2", "drop web-1 drop web-2");
    check("history=0", "drop web-1 drop web-2 drop web-3 drop web-4");
}

/// Plays status after status and compares the conditions.
#[test]
fn conditions_tell_how_a_rollout_goes() {
    let mut deployment = deployment("deadline=60", 2);
    let mut step = |seconds: i64, old: &str, new: &str, want: &str| {
        let sets = [set(1, old, 3, 4), set(2, new, 3, 4)];
        let refs: Vec<&Packed<ReplicaSet>> = sets.iter().collect();
        let facts =
            Facts { deployment: &deployment, sets: &refs, old_pods_run: false, now: at(seconds) };
        let plan = plan(&facts);
        let condition = |kind: &str| {
            let told = api::condition::find(&plan.status.conditions, kind).unwrap();
            let time = |time: Option<object::time::Time>| {
                time.unwrap().timestamp().as_second() - at(0).as_second()
            };
            let (updated, moved) = (time(told.last_update_time), time(told.last_transition_time));
            format!("{} {} @{updated}/{moved}", told.status, told.reason)
        };
        let got = format!(
            "{} | {} | {:?}",
            condition("Progressing"),
            condition("Available"),
            plan.look_again.map(|wait| wait.as_secs())
        );
        assert_eq!(got, want, "at {seconds}");
        deployment.object.status = plan.status;
    };
    let enough = "True MinimumReplicasAvailable @0/0";
    step(0, "3/3/3", "1/0/0", &format!("True ReplicaSetUpdated @0/0 | {enough} | Some(61)"));
    step(10, "3/3/3", "1/1/0", &format!("True ReplicaSetUpdated @10/0 | {enough} | Some(61)"));
    // Nothing moves: the time of the last move stays, until the deadline.
    step(40, "3/3/3", "1/1/0", &format!("True ReplicaSetUpdated @10/0 | {enough} | Some(31)"));
    step(70, "3/3/3", "1/1/0", &format!("True ReplicaSetUpdated @10/0 | {enough} | Some(1)"));
    step(71, "3/3/3", "1/1/0", &format!("False ProgressDeadlineExceeded @71/71 | {enough} | None"));
    step(80, "3/3/3", "1/1/1", &format!("True ReplicaSetUpdated @80/80 | {enough} | Some(61)"));
    let short = "False MinimumReplicasUnavailable @90/90";
    step(90, "0/0/0", "3/3/2", &format!("True ReplicaSetUpdated @90/80 | {short} | Some(61)"));
    let well = "True MinimumReplicasAvailable @95/95";
    step(95, "0/0/0", "3/3/3", &format!("True NewReplicaSetAvailable @95/80 | {well} | None"));
    // A pod that fails later is no rollout.
    let short = "False MinimumReplicasUnavailable @99/99";
    step(99, "0/0/0", "3/3/2", &format!("True NewReplicaSetAvailable @95/80 | {short} | None"));
}

#[test]
fn the_status_adds_up_the_sets() {
    let sets = [set(1, "2/2/1", 3, 4), set(2, "2/1/1", 3, 4)];
    let status = planned(&deployment("", 2), &sets, false).status;
    let counts = (
        status.replicas,
        status.updated_replicas,
        status.ready_replicas,
        status.available_replicas,
        status.unavailable_replicas,
        status.terminating_replicas,
        status.observed_generation,
    );
    assert_eq!(counts, (3, 1, 2, 2, 2, Some(0), 1));
}

#[test]
fn a_failure_of_a_set_shows_on_the_deployment() {
    let mut failing = set(2, "3/0/0", 3, 4);
    let condition = json!({ "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                            "message": "quota", "lastTransitionTime": text(9) });
    failing.object.status.conditions = vec![serde_json::from_value(condition).unwrap()];
    let plan = planned(&deployment("", 2), &[failing], false);
    let told = api::condition::find(&plan.status.conditions, "ReplicaFailure").unwrap();
    assert_eq!((told.message.as_str(), told.last_update_time), ("quota", Some(at(9).into())));
}

/// Plays a rollout to its end: sets take their size at once, and pods become available
/// some at a time.
fn play(words: &str, start: i32, per_step: i32) -> Result<usize, String> {
    let deployment = deployment(words, 2);
    let wanted = deployment.spec.replicas.unwrap();
    let bounds = bounds(&deployment);
    let recreates = deployment.spec.recreates();
    let mut sets = vec![set(1, &format!("{start}/{start}/{start}"), wanted, wanted + bounds.surge)];
    for step in 0..500 {
        let old_pods = recreates && sets[0].status.replicas > 0;
        let plan = planned(&deployment, &sets, old_pods);
        if let Some(new) = &plan.create {
            let size = new.body["spec"]["replicas"].as_i64().unwrap();
            sets.push(set(2, &format!("{size}/0/0"), wanted, wanted + bounds.surge));
        }
        for change in &plan.change {
            let set = sets.iter_mut().find(|set| set.metadata.name == change.name).unwrap();
            set.object.spec.replicas = change.replicas.or(set.spec.replicas);
            set.object.metadata.annotations.extend(change.annotations.clone());
        }
        let total: i32 = sets.iter().map(|set| replicas(set)).sum();
        if !recreates && total > (wanted + bounds.surge).max(start) {
            return Err(format!("{total} replicas at step {step}"));
        }
        for set in &mut sets {
            let size = replicas(set);
            let status = &mut set.object.status;
            status.replicas = size;
            status.available_replicas = (status.available_replicas + per_step).min(size);
            status.ready_replicas = status.available_replicas;
        }
        let available: i32 = sets.iter().map(|set| set.status.available_replicas).sum();
        if !recreates && start >= wanted && available < wanted - bounds.unavailable {
            return Err(format!("{available} available at step {step}"));
        }
        let done = sets.len() == 2 && replicas(&sets[0]) == 0 && replicas(&sets[1]) == wanted;
        if done && available == wanted {
            return Ok(step);
        }
    }
    Err("no end".to_owned())
}

proptest! {
    /// A rollout ends, never has more pods than the surge allows, and never fewer
    /// available ones than it may.
    #[test]
    fn every_rollout_ends_within_its_bounds(
        replicas in 0..25i32,
        surge in 0..110u8,
        missing in 0..100u8,
        per_step in 1..5i32,
        recreate in any::<bool>(),
    ) {
        let bounds = if recreate { "recreate".to_owned() } else { format!("surge={surge}% missing={missing}%") };
        let words = format!("replicas={replicas} {bounds}");
        prop_assert_eq!(play(&words, replicas, per_step).map(|_| ()), Ok(()));
    }

    /// Sharing a change of size never exceeds the new bound.
    #[test]
    fn shares_add_up(first in 0..60i32, second in 0..60i32, before in 2..60i32, now in 0..60i32) {
        let deployment = deployment(&format!("replicas={now}"), 9);
        let max = before + (before + 3) / 4;
        let first = 1 + first % (max - 1);
        let second = 1 + second % (max - first);
        let sets = [
            set(1, &format!("{first}/{first}/0"), before, max),
            set(9, &format!("{second}/{second}/0"), before, max),
        ];
        let plan = planned(&deployment, &sets, false);
        prop_assume!(now != before);
        let size = |v: usize| {
            let name = &sets[v].metadata.name;
            let change = plan.change.iter().find(|change| change.name == *name);
            change.and_then(|change| change.replicas).unwrap_or(replicas(&sets[v]))
        };
        let allowed = if now == 0 { 0 } else { now + bounds(&deployment).surge };
        prop_assert_eq!(size(0) + size(1), allowed);
        prop_assert!(size(0) >= 0 && size(1) >= 0);
    }
}
