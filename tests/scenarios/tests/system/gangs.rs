//! Gangs: pods that start together or not at all.

use anyhow::{Result, ensure};
use api::pod_group::{
    BIND_GROUP_ID, BIND_MEMBER_COUNT, GANG_GROUPS, GANG_MATCH_POLICY, GANG_MIN_AVAILABLE,
    GANG_NAME, INCOMPLETE_START, POD_GROUP_LABEL,
};
use scheduler::State;
use serde_json::{Value, json};

use crate::way::{Asked, Fate, Way};
use crate::yard::{Yard, configured, merge, on_both};

const DEFINITION: &str = "podgroups.scheduling.sigs.k8s.io";

/// A profile with gangs.
fn with_gangs() -> Value {
    with_gangs_and(&json!({}))
}

/// The same, and what else it says.
fn with_gangs_and(more: &Value) -> Value {
    let enabled = json!({ "enabled": [{ "name": "Coscheduling" }] });
    let mut profile = json!({ "schedulerName": "default-scheduler",
                              "plugins": { "preEnqueue": enabled, "permit": enabled } });
    merge(&mut profile, more);
    json!({ "profiles": [profile] })
}

fn all(yard: &Yard) -> String {
    format!("/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{}/podgroups", yard.namespace)
}

async fn group(yard: &Yard, name: &str, least: u32, annotations: Value) -> Result<()> {
    let own = json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": { "name": name, "annotations": annotations }, "spec": { "minMember": least },
    });
    yard.create(&all(yard), &own).await
}

async fn member(yard: &Yard, group: &str, name: &str, cpu: &str) -> Result<()> {
    member_like(yard, group, name, cpu, &json!({})).await
}

/// The same with more fields.
async fn member_like(yard: &Yard, group: &str, name: &str, cpu: &str, more: &Value) -> Result<()> {
    let mut own = json!({ "metadata": { "labels": { POD_GROUP_LABEL: group } } });
    merge(&mut own, more);
    yard.pod_like(name, cpu, own).await
}

/// Waits until a group says so, and returns in which words.
async fn until_says(yard: &Yard, name: &str, reason: &str) -> Result<String> {
    until_condition(yard, name, "Scheduled", reason).await
}

/// The same of another condition.
async fn until_condition(yard: &Yard, name: &str, kind: &str, reason: &str) -> Result<String> {
    let says = |own: &Value| {
        let conditions = own["status"]["conditions"].as_array()?;
        let own = conditions.iter().find(|own| own["type"] == kind)?;
        (own["reason"] == reason).then(|| own["message"].as_str().unwrap_or_default().to_owned())
    };
    yard.until_object(&format!("{}/{name}", all(yard)), says).await
}

async fn annotation(yard: &Yard, pod: &str, key: &str) -> Result<String> {
    let path = format!("/api/v1/namespaces/{}/pods/{pod}", yard.namespace);
    let text = |own: &Value| own["metadata"]["annotations"][key].as_str().map(str::to_owned);
    yard.until_object(&path, text).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_waits_for_its_members_and_for_room_and_starts_whole() {
    on_both("gang", async |yard| {
        yard.define(DEFINITION, &all(yard)).await?;
        yard.node("home", 2).await?;
        let own = yard.schedule(configured(&with_gangs())?).await?;
        group(yard, "train", 3, json!({})).await?;
        member(yard, "train", "a", "1").await?;
        member(yard, "train", "b", "1").await?;
        let words = until_says(yard, "train", "WaitingForMembers").await?;
        ensure!(words.contains("waits for members: collected"), "{words}");
        let words = yard.until_waits("a", "WaitingForGang").await?;
        ensure!(words.ends_with("/3"), "{words}");
        member(yard, "train", "c", "1").await?;
        for name in ["a", "b", "c"] {
            let words = yard.until_waits(name, "Unschedulable").await?;
            ensure!(words.contains("gets rejected due to member Pod"), "{words}");
            ensure!(words.contains("alreadyWaitForBound: 2"), "{words}");
        }
        until_says(yard, "train", "Unschedulable").await?;
        ensure!(yard.seen(|seen| ["a", "b", "c"].iter().all(|name| seen.node(name).is_empty())));
        yard.node("away", 1).await?;
        for name in ["a", "b", "c"] {
            yard.until_bound(name).await?;
            let gangs = annotation(yard, name, BIND_GROUP_ID).await?;
            ensure!(gangs == format!("{}/train", yard.namespace), "{gangs}");
            ensure!(annotation(yard, name, BIND_MEMBER_COUNT).await? == "3");
        }
        let words = until_says(yard, "train", "Placed").await?;
        ensure!(words.starts_with("3 members have a node"), "{words}");
        // Who comes once it has started is by itself.
        yard.node("more", 1).await?;
        member(yard, "train", "d", "1").await?;
        yard.until_on("d", "more").await?;
        own.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_gangs_that_need_the_same_nodes_one_starts_and_then_the_other() {
    on_both("gangs", async |yard| {
        yard.define(DEFINITION, &all(yard)).await?;
        for name in ["x", "y"] {
            group(yard, name, 2, json!({})).await?;
        }
        for name in ["x1", "y1", "x2", "y2"] {
            member(yard, &name[..1], name, "1").await?;
        }
        yard.node("home", 3).await?;
        let own = yard.schedule(configured(&with_gangs())?).await?;
        let whole = |yard: &Yard, gang: &str| {
            let count = |seen: &crate::yard::Seen| {
                let members = ["1", "2"].map(|number| format!("{gang}{number}"));
                members.iter().filter(|name| !seen.node(name).is_empty()).count()
            };
            yard.seen(count)
        };
        yard.until("one gang has started", |seen| {
            let has = |name: &str| !seen.node(name).is_empty();
            has("x1") && has("x2") || has("y1") && has("y2")
        })
        .await?;
        let (first, second) = if whole(yard, "x") == 2 { ("x", "y") } else { ("y", "x") };
        for number in ["1", "2"] {
            yard.until_waits(&format!("{second}{number}"), "Unschedulable").await?;
        }
        ensure!(whole(yard, second) == 0, "nobody of it has a node");
        for number in ["1", "2"] {
            yard.delete_pod(&format!("{first}{number}")).await?;
        }
        for number in ["1", "2"] {
            yard.until_bound(&format!("{second}{number}")).await?;
        }
        own.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gangs_that_their_pods_describe_start_and_gangs_of_a_group_wait_for_each_other() {
    on_both("gang-groups", async |yard| {
        yard.define(DEFINITION, &all(yard)).await?;
        yard.node("home", 9).await?;
        let own = yard.schedule(configured(&with_gangs())?).await?;
        let light = |min: &str| {
            json!({ "metadata": { "annotations": { GANG_NAME: "light", GANG_MIN_AVAILABLE: min } } })
        };
        yard.pod_like("l1", "1", light("2")).await?;
        yard.until_waits("l1", "WaitingForGang").await?;
        yard.pod_like("l2", "1", light("2")).await?;
        yard.until_bound("l1").await?;
        yard.until_bound("l2").await?;
        let named = format!("[\"{0}/a\",\"{0}/b\"]", yard.namespace);
        group(yard, "a", 1, json!({ GANG_GROUPS: named })).await?;
        member(yard, "a", "a1", "1").await?;
        let words = yard.until_waits("a1", "WaitingForGang").await?;
        ensure!(words.starts_with("waiting for gang "), "{words}");
        until_says(yard, "a", "WaitingForGang").await?;
        group(yard, "b", 1, json!({ GANG_GROUPS: named })).await?;
        member(yard, "b", "b1", "1").await?;
        yard.until_bound("a1").await?;
        yard.until_bound("b1").await?;
        own.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_has_as_many_go_as_it_needs_and_every_member_waits_for_its_own_node() {
    on_both("gang-room", async |yard| {
        yard.define(DEFINITION, &all(yard)).await?;
        let class = format!("{}-urgent", yard.namespace);
        let urgent = json!({ "metadata": { "name": class }, "value": 1000 });
        yard.create("/apis/scheduling.k8s.io/v1/priorityclasses", &urgent).await?;
        // Whoever has to go stays until somebody lets it.
        let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
        let low = ["n1-a", "n1-b", "n2-a", "n2-b"];
        for node in ["n1", "n2"] {
            yard.node(node, 32).await?;
        }
        for name in low {
            yard.pod_like(name, "16", held.clone()).await?;
            yard.bind(name, &name[..2]).await?;
        }
        let preempting = json!({
            "plugins": { "postFilter": { "disabled": [{ "name": "*" }],
                                         "enabled": [{ "name": "Coscheduling" }] } },
            "pluginConfig": [{ "name": "Coscheduling", "args": { "enablePreemption": true } }],
        });
        let own = yard.schedule(configured(&with_gangs_and(&preempting))?).await?;
        // One that is too large for any node has nobody go, however many would.
        group(yard, "large", 3, json!({})).await?;
        let of = json!({ "spec": { "priorityClassName": class } });
        for name in ["l1", "l2", "l3"] {
            member_like(yard, "large", name, "32", &of).await?;
        }
        let words = yard.until_waits("l1", "Unschedulable").await?;
        ensure!(words.contains("preemption not helpful"), "{words}");
        group(yard, "train", 2, json!({})).await?;
        for name in ["t1", "t2"] {
            member_like(yard, "train", name, "16", &of).await?;
        }
        for name in ["t1", "t2"] {
            let words = yard.until_waits(name, "Unschedulable").await?;
            ensure!(words.ends_with("preempt success, alreadyWaitingForBound: 0/2"), "{words}");
            let nominated = |own: &Value| own["status"]["nominatedNodeName"].as_str().map(drop);
            let path = format!("/api/v1/namespaces/{}/pods/{name}", yard.namespace);
            yard.until_object(&path, nominated).await?;
        }
        let going = |seen: &crate::yard::Seen| -> Vec<String> {
            let goes = |name: &&&str| {
                let pod = seen.pods.get(**name);
                pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some())
            };
            low.iter().filter(goes).map(|name| (*name).to_owned()).collect()
        };
        yard.until("two are asked to go", |seen| going(seen).len() == 2).await?;
        let victims = yard.seen(going);
        for victim in &victims {
            yard.until_told(victim, "Preempted").await?;
        }
        ensure!(yard.seen(|seen| seen.node("t1").is_empty() && seen.node("t2").is_empty()));
        for victim in &victims {
            yard.patch_pod(victim, json!({ "metadata": { "finalizers": null } })).await?;
        }
        for name in ["t1", "t2"] {
            yard.until_bound(name).await?;
        }
        ensure!(yard.seen(|seen| going(seen).is_empty()), "nobody else goes");
        for name in low.iter().filter(|name| !victims.iter().any(|own| own == *name)) {
            yard.patch_pod(name, json!({ "metadata": { "finalizers": null } })).await?;
        }
        own.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_left_of_a_start_that_was_cut_short_follows_under_the_next_scheduler() {
    on_both("gang-cut", async |yard| {
        yard.define(DEFINITION, &all(yard)).await?;
        yard.node("home", 3).await?;
        // A member counts with those only that wait as it does, but for those of its own start.
        group(yard, "train", 3, json!({ GANG_MATCH_POLICY: "only-waiting" })).await?;
        for name in ["a", "b", "c"] {
            member(yard, "train", name, "1").await?;
        }
        let lost = |asked: &Asked| if asked.binds("b") { Fate::Lost } else { Fate::Fine };
        let way = Way::to(yard, lost).await?;
        let mut first = yard.schedule_through(&way, configured(&with_gangs())?);
        first.until(State::Deciding).await?;
        yard.until_on("a", "home").await?;
        yard.until_on("c", "home").await?;
        yard.until("b is tried", |_| way.bindings().iter().any(|(pod, _)| pod == "b")).await?;
        // Whoever comes meanwhile does not get the room that is b's.
        yard.pod("other", "1").await?;
        yard.until_waits("other", "Unschedulable").await?;
        first.end().await?;
        ensure!(yard.seen(|seen| seen.node("b").is_empty()), "nobody has bound it");
        yard.delete_pod("other").await?;
        let next = yard.schedule(configured(&with_gangs())?).await?;
        yard.until_on("b", "home").await?;
        next.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_left_of_a_start_that_was_cut_short_goes_where_its_group_says_so() {
    on_both("gang-undone", async |yard| {
        yard.define(DEFINITION, &all(yard)).await?;
        yard.node("home", 9).await?;
        for (name, says) in [("undone", "Delete"), ("left", "Keep")] {
            group(yard, name, 3, json!({ INCOMPLETE_START: says })).await?;
            let soon = json!({ "spec": { "scheduleTimeoutSeconds": 3 } });
            yard.patch(&format!("{}/{name}", all(yard)), soon).await?;
            for member in ["a", "b", "c"] {
                self::member(yard, name, &format!("{name}-{member}"), "1").await?;
            }
        }
        let lost = |asked: &Asked| match asked.binds("undone-b") || asked.binds("left-b") {
            true => Fate::Lost,
            false => Fate::Fine,
        };
        let way = Way::to(yard, lost).await?;
        let own = yard.schedule_through(&way, configured(&with_gangs())?);
        for name in ["left-a", "left-c"] {
            yard.until_on(name, "home").await?;
        }
        for name in ["undone-a", "undone-c"] {
            yard.until_told(name, "GangIncomplete").await?;
            yard.until("it goes", |seen| !seen.pods.contains_key(name)).await?;
        }
        let words = until_condition(yard, "undone", "Started", "Ahead").await?;
        ensure!(words == "no member is bound, and 3 have to be", "{words}");
        let stays = |seen: &crate::yard::Seen| {
            ["left-a", "left-c"].iter().all(|name| seen.node(name) == "home")
        };
        ensure!(yard.seen(stays), "nobody has asked for that");
        own.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_77_s10_78_a_batch_that_cannot_be_leaves_nothing_behind_and_one_that_can_is_told_as_placed()
 {
    on_both("gang-batch", async |yard| {
        yard.define(DEFINITION, &all(yard)).await?;
        for node in ["m", "n"] {
            yard.node(node, 2).await?;
        }
        let own = yard.schedule(configured(&with_gangs())?).await?;
        group(yard, "cannot", 4, json!({})).await?;
        for (name, cpu) in [("c1", "1"), ("c2", "1"), ("c3", "3"), ("c4", "1")] {
            member(yard, "cannot", name, cpu).await?;
        }
        for name in ["c1", "c2", "c3", "c4"] {
            let words = yard.until_waits(name, "Unschedulable").await?;
            ensure!(words.contains("2 Insufficient cpu."), "{words}");
        }
        own.counts("scheduler_cache_size{type=\"assumed_pods\"} 0").await?;
        own.counts("scheduler_preemption_attempts_total 0").await?;
        // All of both nodes is there for others.
        group(yard, "can", 4, json!({})).await?;
        for name in ["k1", "k2", "k3", "k4"] {
            member(yard, "can", name, "1").await?;
        }
        for name in ["k1", "k2", "k3", "k4"] {
            yard.until_told(name, "Scheduled").await?;
            ensure!(yard.seen(|seen| seen.told(name, "FailedScheduling").is_empty()), "{name}");
        }
        let end = |reason: &str, count: usize| {
            format!(
                "scheduler_gang_schedule_cycle_duration_seconds_count{{reason=\"{reason}\",\
                 job_size=\"1-100\"}} {count}"
            )
        };
        own.counts(&end("gang is already succeed", 1)).await?;
        own.counts(&end("all pending pods is already been attempted", 1)).await?;
        own.end().await
    })
    .await;
}
