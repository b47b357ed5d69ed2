//! Somebody asks in the cluster why a pod has no node, and reads the answer there.

use anyhow::{Result, ensure};
use chassis::client::{Call, Source};
use http::Method;
use scenarios::running::{Running, identity};
use scheduler::{Options, State};
use serde_json::{Value, json};

use crate::way::{Fate, Way};
use crate::yard::{Yard, alone, configured, on_both};

const GROUP: &str = "/apis/scheduling.koordinator.sh/v1alpha1";
const DEFINITION: &str = "scheduleexplanations.scheduling.koordinator.sh";

fn all(yard: &Yard) -> String {
    format!("{GROUP}/namespaces/{}/scheduleexplanations", yard.namespace)
}

/// Starts a scheduler that answers.
async fn schedule(yard: &Yard) -> Result<Running> {
    let source = Source::from_flags(Some(yard.kubeconfig().to_owned()), None);
    let options = Options { explains: true, ..Options::new(alone(), &identity()) };
    let mut running = Running::connect(&source, options).await?;
    running.until(State::Deciding).await?;
    Ok(running)
}

/// Asks about a pod of this story.
async fn ask(yard: &Yard, name: &str, key: &str, ttl: &str) -> Result<()> {
    let own = json!({
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "ScheduleExplanation",
        "metadata": { "name": name }, "spec": { "questionObjectKey": key, "ttl": ttl },
    });
    yard.create(&all(yard), &own).await
}

/// Waits until the answer is as it is to be.
async fn until(yard: &Yard, name: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
    let path = format!("{}/{name}", all(yard));
    yard.until_object(&path, |own| is_so(&own["status"]).then(|| own["status"].clone())).await
}

fn says(words: &str) -> impl Fn(&Value) -> bool {
    move |status| status["failedMessage"].as_str().is_some_and(|own| own.contains(words))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_explained_until_it_has_a_node_and_the_explanation_goes_with_its_time() {
    on_both("explained", async |yard| {
        yard.node("small", 2).await?;
        let own = schedule(yard).await?;
        // The kind comes when the scheduler is there already.
        yard.define(DEFINITION, &all(yard)).await?;
        let key = format!("{}/large", yard.namespace);
        ask(yard, "why", &key, "1h").await?;
        let status = until(yard, "why", says("there is no pod large")).await?;
        ensure!(status["schedulable"] == false, "{status}");
        ensure!(status["lastUpdateTime"].is_string(), "{status}");
        yard.pod("large", "5").await?;
        let told = yard.until_waits("large", "Unschedulable").await?;
        let status = until(yard, "why", says("1 Insufficient cpu")).await?;
        ensure!(status["failedMessage"] == told.as_str(), "{status} is not {told}");
        ensure!(status["schedulableAfterPreemption"] == false, "{status}");
        let detail = &status["detailedExplanation"][0];
        let refused = json!([{ "failedPlugin": "NodeResourcesFit", "reason": "Insufficient cpu",
                               "preemptMightHelp": false, "failedNodes": ["small"] }]);
        let details = &detail["scheduleExplanation"]["nodeFailedDetails"];
        ensure!(*details == refused, "{details}");
        ensure!(detail["preemptExplanation"]["schedulable"] == false, "{detail}");
        yard.node("roomy", 8).await?;
        yard.until_on("large", "roomy").await?;
        let status = until(yard, "why", |own| own["schedulable"] == true).await?;
        ensure!(status["failedMessage"].is_null(), "{status}");
        let placed = &status["detailedExplanation"][0]["scheduleExplanation"];
        let node = &placed["feasibleSchedulingResult"][0]["nodeName"];
        ensure!(node == "roomy", "{placed}");
        ask(yard, "odd", "large", "1h").await?;
        until(yard, "odd", says("spec.questionObjectKey has the value \"large\"")).await?;
        ask(yard, "short", &key, "2s").await?;
        let gone = format!("{}/short", all(yard));
        let list = all(yard);
        let is_gone = |own: &Value| {
            let mut items = own["items"].as_array().into_iter().flatten();
            items.all(|one| one["metadata"]["name"] != "short").then_some(())
        };
        yard.until_object(&list, is_gone).await?;
        let found = yard.client.call_unread(Call::new(Method::GET, gone)).await;
        ensure!(found.is_err_and(|error| error.is_not_found()), "its time is over");
        own.end().await
    })
    .await;
}

/// Starts a scheduler that answers while it leads.
fn contend(way: &Way) -> Result<Running> {
    let lease = json!({ "leaderElection": { "leaderElect": true, "leaseDuration": "3s",
        "renewDeadline": "2s", "retryPeriod": "500ms", "resourceName": "kube-scheduler",
        "resourceNamespace": "kube-system" } });
    let configuration = configured(&lease)?;
    let clients = way.clients(&configuration.client_connection);
    let options = Options { explains: true, ..Options::new(configuration, &identity()) };
    Ok(Running::through(clients, options))
}

/// Whether an explanation was written this way.
fn has_answered(way: &Way) -> bool {
    way.writes().iter().any(|own| own.contains("scheduleexplanations"))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_leader_answers_and_the_next_one_goes_on() {
    on_both("answering", async |yard| {
        yard.define(DEFINITION, &all(yard)).await?;
        let fine = async || Way::to(yard, |_| Fate::Fine).await;
        let (way, other) = (fine().await?, fine().await?);
        let mut first = contend(&way)?;
        first.until(State::Deciding).await?;
        let mut second = contend(&other)?;
        let key = format!("{}/nobody", yard.namespace);
        ask(yard, "why", &key, "1h").await?;
        until(yard, "why", says("there is no pod nobody")).await?;
        ensure!(has_answered(&way) && !has_answered(&other), "only the leader answers");
        first.end().await?;
        second.until(State::Deciding).await?;
        ask(yard, "again", &key, "1h").await?;
        until(yard, "again", says("there is no pod nobody")).await?;
        ensure!(has_answered(&other), "who leads answers");
        second.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_to_go_for_a_pod_is_told() {
    on_both("victims", async |yard| {
        yard.define(DEFINITION, &all(yard)).await?;
        yard.node("full", 4).await?;
        let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
        let class = format!("{}-high", yard.namespace);
        let high = json!({ "metadata": { "name": class }, "value": 1000 });
        yard.create(classes, &high).await?;
        // Whoever has to go stays until somebody lets it.
        let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
        yard.pod_like("low", "3", held).await?;
        yard.bind("low", "full").await?;
        let own = schedule(yard).await?;
        yard.pod_like("high", "3", json!({ "spec": { "priorityClassName": class } })).await?;
        ask(yard, "why", &format!("{}/high", yard.namespace), "0s").await?;
        let status = until(yard, "why", |own| own["schedulableAfterPreemption"] == true).await?;
        ensure!(status["schedulable"] == false, "{status}");
        let detail = &status["detailedExplanation"][0];
        let victims = &detail["nodePossibleVictims"][0];
        ensure!(victims["nodeName"] == "full", "{detail}");
        let victim = &victims["possibleVictims"][0];
        ensure!(victim["name"] == "low" && victim["isNominatedPod"] == false, "{victim}");
        let after = &detail["preemptExplanation"];
        ensure!(after["feasibleSchedulingResult"][0]["nodeName"] == "full", "{after}");
        yard.patch_pod("low", json!({ "metadata": { "finalizers": null } })).await?;
        yard.until_on("high", "full").await?;
        until(yard, "why", |own| own["schedulable"] == true).await?;
        own.end().await?;
        let call = Call::new(Method::DELETE, format!("{classes}/{class}"));
        Ok(yard.client.call_unread(call).await?)
    })
    .await;
}
