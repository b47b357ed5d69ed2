//! What can go wrong while a pod is bound, on both servers, and what others must not suffer from it.

use anyhow::{Result, ensure};
use scenarios::running::Running;
use scheduler::State;
use serde_json::json;

use crate::way::{Asked, Fate, Toll, Way};
use crate::yard::{Yard, alone, configured, on_both};

/// The first Binding of this pod is held up; everything else goes its way.
fn holding(pod: &'static str, toll: &Toll) -> impl FnMut(&Asked) -> Fate + Send + 'static {
    let mut toll = Some(toll.clone());
    move |asked| match asked.binds(pod) {
        true => toll.take().map_or(Fate::Fine, Fate::Held),
        false => Fate::Fine,
    }
}

/// A scheduler whose first Binding of the pod `p` is held up, and where.
async fn held(yard: &Yard) -> Result<(Way, Running, Toll)> {
    let toll = Toll::default();
    let way = Way::to(yard, holding("p", &toll)).await?;
    let mut ours = yard.schedule_through(&way, alone());
    ours.until(State::Deciding).await?;
    Ok((way, ours, toll))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_bound_first_stays_there_and_its_room_is_free_again() {
    on_both("bound-first", async |yard| {
        yard.node("a", 4).await?;
        yard.node("b", 4).await?;
        let (way, ours, toll) = held(yard).await?;
        yard.pod("p", "4").await?;
        toll.arrived().await?;
        let chosen = way.bindings()[0].1.clone();
        let other = if chosen == "a" { "b" } else { "a" };
        yard.bind("p", other).await?;
        toll.open();
        yard.pod("q", "4").await?;
        yard.until_on("q", &chosen).await?;
        yard.until_told("q", "Scheduled").await?;
        ensure!(yard.seen(|seen| seen.node("p") == other), "p is where it was bound");
        ensure!(yard.seen(|seen| seen.told("p", "Scheduled").is_empty()), "nobody says otherwise");
        ours.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_that_lands_long_after_its_time_out_keeps_its_room_until_then() {
    on_both("lands-later", async |yard| {
        yard.node("a", 4).await?;
        let toll = Toll::default();
        let (late, mut sent) = (toll.clone(), 0);
        let rule = move |asked: &Asked| match asked.binds("p") && !late.is_open() {
            true => {
                sent += 1;
                // Those that follow do not get through: only the first one is left to land.
                if sent == 1 { Fate::LandsLater(late.clone()) } else { Fate::Lost }
            }
            false => Fate::Fine,
        };
        let way = Way::to(yard, rule).await?;
        let ours = yard.schedule_through(&way, alone());
        yard.pod("p", "4").await?;
        toll.arrived().await?;
        yard.pod("q", "4").await?;
        // Nobody told the scheduler that p is bound, and still its room is not given away.
        let why = yard.until_waits("q", "Unschedulable").await?;
        ensure!(why.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{why}");
        ensure!(yard.seen(|seen| seen.node("p").is_empty()), "it has not landed");
        toll.open();
        yard.until_on("p", "a").await?;
        yard.until_told("p", "Scheduled").await?;
        let sent = way.bindings();
        let same = sent.iter().filter(|one| **one == ("p".to_owned(), "a".to_owned())).count();
        ensure!(same == sent.len() && same > 1, "the same Binding is sent again: {sent:?}");
        yard.delete_pod("p").await?;
        yard.until_on("q", "a").await?;
        ours.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_goes_while_a_pod_is_bound_to_it_is_used_no_more() {
    on_both("node-gone", async |yard| {
        yard.node("a", 4).await?;
        let (_, ours, toll) = held(yard).await?;
        yard.pod("p", "4").await?;
        toll.arrived().await?;
        yard.delete_node("a").await?;
        toll.open();
        // No server looks whether there is such a node.
        yard.until_on("p", "a").await?;
        yard.node_seen("small", 1, json!({})).await?;
        yard.pod("q", "4").await?;
        let why = yard.until_waits("q", "Unschedulable").await?;
        ensure!(why.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{why}");
        yard.node("b", 4).await?;
        yard.until_on("q", "b").await?;
        // Where the node comes back, p is on it.
        yard.node_seen("a", 4, json!({})).await?;
        yard.pod("r", "4").await?;
        let why = yard.until_waits("r", "Unschedulable").await?;
        ensure!(why.starts_with("0/3 nodes are available: 3 Insufficient cpu."), "{why}");
        yard.delete_pod("p").await?;
        yard.until_on("r", "a").await?;
        ours.end().await
    })
    .await;
}

/// The pod `p` goes while it is bound to the only node; another one has its room then.
async fn pod_goes(yard: &Yard, finalizers: &[&str], is_replaced: bool) -> Result<()> {
    let (way, ours, toll) = held(yard).await?;
    yard.pod_like("p", "4", json!({ "metadata": { "finalizers": finalizers } })).await?;
    toll.arrived().await?;
    yard.delete_pod("p").await?;
    if is_replaced {
        yard.pod("p", "4").await?;
    }
    toll.open();
    let next = if is_replaced { "p" } else { "q" };
    if !is_replaced {
        yard.pod("q", "4").await?;
    }
    yard.until_on(next, "a").await?;
    let sent = way.bindings();
    let count = if is_replaced { 2 } else { 1 };
    let of_p = sent.iter().filter(|(pod, _)| pod == "p").count();
    ensure!(of_p == count, "a definite answer ends the conversation: {sent:?}");
    if !finalizers.is_empty() {
        ensure!(yard.seen(|seen| seen.node("p").is_empty()), "what goes gets no node");
        yard.patch_pod("p", json!({ "metadata": { "finalizers": null } })).await?;
    }
    yard.delete_pod(next).await?;
    yard.until("nobody is left", |seen| seen.pods.is_empty()).await?;
    ours.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_goes_while_it_is_bound_leaves_its_room_to_others() {
    on_both("pod-gone", async |yard| {
        yard.node("a", 4).await?;
        pod_goes(yard, &[], false).await?;
        pod_goes(yard, &[], true).await?;
        pod_goes(yard, &["example.com/stays"], false).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_builds_upon_a_node_that_two_schedulers_have_filled_at_the_same_moment() {
    on_both("both-at-once", async |yard| {
        yard.node("a", 4).await?;
        let mut schedulers = Vec::new();
        for (name, pod) in [("one", "p"), ("two", "q")] {
            let toll = Toll::default();
            let way = Way::to(yard, holding(pod, &toll)).await?;
            let profiles = json!({ "profiles": [{ "schedulerName": name }] });
            let mut ours = yard.schedule_through(&way, configured(&profiles)?);
            ours.until(State::Deciding).await?;
            let to = json!({ "spec": { "schedulerName": name } });
            yard.pod_like(pod, "4", to).await?;
            toll.arrived().await?;
            schedulers.push((ours, toll, way));
        }
        for (_, toll, _) in &schedulers {
            toll.open();
        }
        yard.until_on("p", "a").await?;
        yard.until_on("q", "a").await?;
        for (ours, ..) in &mut schedulers {
            ours.counts("gantry_scheduler_overcommitted_nodes 1").await?;
        }
        for (name, pod) in [("one", "r"), ("two", "s")] {
            yard.pod_like(pod, "1", json!({ "spec": { "schedulerName": name } })).await?;
            let why = yard.until_waits(pod, "Unschedulable").await?;
            ensure!(why.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{why}");
        }
        // Half of what is too much is still all there is.
        yard.delete_pod("p").await?;
        for (ours, ..) in &mut schedulers {
            ours.counts("gantry_scheduler_overcommitted_nodes 0").await?;
        }
        yard.delete_pod("q").await?;
        yard.until_on("r", "a").await?;
        yard.until_on("s", "a").await?;
        for (ours, ..) in schedulers {
            ours.end().await?;
        }
        Ok(())
    })
    .await;
}

/// What no server would take, put into what a server says: a pod whose request is no amount, one
/// whose affinity has no such operator, and a node whose CPUs are no amount.
const GARBLED: &[(&str, &str)] =
    &[("\"77m\"", "\"7xm\""), ("\"Lt\"", "\"Zt\""), ("\"cpu\":\"13\"", "\"cpu\":\"1x\"")];

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_told_and_everything_else_goes_on() {
    on_both("garbled", async |yard| {
        yard.create("/api/v1/nodes", &json!({ "metadata": { "name": "bare" } })).await?;
        yard.patch_node("bare", json!({ "spec": { "taints": null } })).await?;
        yard.node("odd", 13).await?;
        yard.node("a", 4).await?;
        let way = Way::to(yard, |_| Fate::Garbled(GARBLED)).await?;
        let ours = yard.schedule_through(&way, alone());
        yard.pod("amount", "77m").await?;
        let terms = json!([{ "matchExpressions": [
            { "key": "disk", "operator": "Lt", "values": ["5"] }] }]);
        let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution":
            { "nodeSelectorTerms": terms } } });
        yard.pod_like("operator", "1", json!({ "spec": { "affinity": affinity } })).await?;
        yard.pod("fine", "1").await?;
        yard.until_on("fine", "a").await?;
        // No node matches what nobody understands, as with kube-scheduler.
        let unmatched = "didn't match Pod's node affinity/selector";
        for (pod, word) in [("amount", "7xm"), ("operator", unmatched)] {
            let told = yard.until_told(pod, "FailedScheduling").await?;
            ensure!(told.contains(word), "{told}");
            ensure!(yard.seen(|seen| seen.node(pod).is_empty()), "{pod} has a node");
        }
        // Two nodes more that would have room, if anybody knew how much.
        yard.pod("more", "4").await?;
        let why = yard.until_waits("more", "Unschedulable").await?;
        ensure!(why.starts_with("0/2 nodes are available: "), "{why}");
        ours.end().await
    })
    .await;
}
