//! Which scheduler works when there are several, or when the server comes and goes.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chassis::client::Call;
use http::Method;
use scenarios::backend::Scope;
use scenarios::running::{Running, identity};
use scenarios::system::PATIENCE;
use scheduler::config::{Configuration, LeaderElection};
use scheduler::{Awaited, Ending, State};
use serde_json::{Value, json};
use truth::{Binaries, Companion};

use crate::way::{Asked, Fate, Way};
use crate::yard::{Yard, alone, configured, on_both, on_both_with};

/// A lease that others need not wait for long.
fn brief() -> Value {
    json!({ "leaderElection": { "leaderElect": true, "leaseDuration": "3s", "renewDeadline": "2s",
        "retryPeriod": "500ms", "resourceName": "kube-scheduler",
        "resourceNamespace": "kube-system" } })
}

/// Whose the lease is.
async fn holder(yard: &Yard) -> Result<String> {
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
    let lease: Value = yard.client.call(Call::new(Method::GET, path)).await?;
    Ok(lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
}

/// What somebody tells of the lease: the words without the name, and the form of the event.
fn told_of_lease(events: &Value, who: &str) -> Vec<(String, Value)> {
    let events = events["items"].as_array().into_iter().flatten();
    let told = events.filter(|event| event["reason"] == "LeaderElection");
    let told = told.filter_map(|event| {
        let words = event["message"].as_str()?.strip_prefix(who)?.trim().to_owned();
        let mut form = event.clone();
        let form_fields = form.as_object_mut()?;
        for own in ["metadata", "message", "firstTimestamp", "lastTimestamp"] {
            form_fields.remove(own);
        }
        form["involvedObject"].as_object_mut()?.remove("resourceVersion");
        Some((words, form))
    });
    told.collect()
}

/// Waits until somebody has told of the lease in these words, and says in which form.
async fn until_told_of_lease(yard: &Yard, who: &str, words: &str) -> Result<Value> {
    let form = |events: &Value| {
        let told = told_of_lease(events, who);
        told.into_iter().find_map(|(own, form)| (own == words).then_some(form))
    };
    let path = "/api/v1/namespaces/kube-system/events";
    let told = yard.until_object(path, form).await;
    told.with_context(|| format!("{who} does not tell that it {words}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_writes_nothing_more_and_another_goes_on() {
    on_both("cut-off", async |yard| {
        yard.node("a", 64).await?;
        let elected = || -> Result<Configuration> { configured(&brief()) };
        let (way, fine) =
            (Way::to(yard, |_| Fate::Fine).await?, Way::to(yard, |_| Fate::Fine).await?);
        let mut first = yard.schedule_through(&way, elected()?);
        first.until(State::Deciding).await?;
        let mut second = yard.schedule_through(&fine, elected()?);
        yard.pod("p1", "1").await?;
        yard.until_on("p1", "a").await?;
        ensure!(*second.state.borrow() == State::Standby, "only one works");
        // It goes on hearing what its watches say, and can do nothing about it.
        way.turn(|asked: &Asked| if asked.is_watch { Fate::Fine } else { Fate::Lost });
        yard.pod("p2", "1").await?;
        yard.pod("p3", "1").await?;
        second.until(State::Deciding).await?;
        let sent = way.writes();
        ensure!(!sent.is_empty(), "it wrote while it led");
        way.turn(|_| Fate::Fine);
        for pod in ["p2", "p3"] {
            yard.until_on(pod, "a").await?;
            yard.until_told(pod, "Scheduled").await?;
        }
        ensure!(first.ended().await? == Ending::LeadershipLost, "it knows why it ends");
        let more = way.writes();
        ensure!(more == sent, "who leads no longer writes no longer: {:?}", &more[sent.len()..]);
        second.end().await
    })
    .await;
}

/// Waits until what is in the way of one that stands by is so.
async fn until_in_the_way(awaited: &Awaited, is_so: impl Fn(Option<&str>) -> bool) -> Result<()> {
    let told = async {
        while !is_so(awaited.in_the_way().as_deref()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, told).await;
    told.with_context(|| format!("in the way is {:?}", awaited.in_the_way()))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_cannot_read_a_kind_says_that_it_could_not_take_over() {
    on_both("unread", async |yard| {
        let cut_off = Way::to(yard, |_| Fate::Lost).await?;
        let is_csi_node = |asked: &Asked| asked.path.ends_with("/csinodes");
        let half = move |asked: &Asked| if is_csi_node(asked) { Fate::Lost } else { Fate::Fine };
        let (first, way) =
            (yard.schedule(configured(&brief())?).await?, Way::to(yard, half).await?);
        let stand_by = |way: &Way, configuration: Configuration| {
            let options = scheduler::Options::new(configuration, &identity());
            let clients = way.clients(&options.configuration.client_connection);
            (options.awaited.clone(), Running::through(clients, options))
        };
        let (awaited, blind) = stand_by(&cut_off, configured(&brief())?);
        until_in_the_way(&awaited, |told| told.is_some_and(|told| told.contains("lease"))).await?;
        let (awaited, second) = stand_by(&way, configured(&brief())?);
        let unread = "it has not read what there is: csinodes.v1.storage.k8s.io (";
        until_in_the_way(&awaited, |told| told.is_some_and(|told| told.starts_with(unread)))
            .await?;
        way.turn(|_| Fate::Fine);
        until_in_the_way(&awaited, |told| told.is_none()).await?;
        ensure!(*second.state.borrow() == State::Standby, "only one works");
        // One that is to read nothing before its turn needs no more than to know whose turn it is.
        let lazy = Configuration { delay_cache_until_active: true, ..configured(&brief())? };
        way.turn(half);
        let (awaited, third) = stand_by(&way, lazy);
        until_in_the_way(&awaited, |told| told.is_none()).await?;
        for running in [blind, third, second, first] {
            running.end().await?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_scheduler_and_ours_exclude_each_other() {
    on_both("excluded", async |yard| {
        yard.node("a", 64).await?;
        let first = yard.schedule(configured(&brief())?).await?;
        let own = holder(yard).await?;
        let kubeconfig = yard.kubeconfig().to_owned();
        let kube_scheduler = move || {
            let binaries = Binaries::locate(&|line| eprintln!("{line}"));
            Companion::kube_scheduler(&binaries, &kubeconfig, &brief())
        };
        let mut theirs = tokio::task::spawn_blocking(kube_scheduler).await??;
        yard.pod("p1", "1").await?;
        yard.until_on("p1", "a").await?;
        ensure!(holder(yard).await? == own, "ours came first");
        let became = until_told_of_lease(yard, &own, "became leader").await?;
        first.end().await?;
        let stopped = until_told_of_lease(yard, &own, "stopped leading").await?;
        ensure!(stopped == became, "{stopped} is not told as {became}");
        yard.pod("p2", "1").await?;
        yard.until_on("p2", "a").await?;
        let other = holder(yard).await?;
        ensure!(!other.is_empty() && other != own, "{other:?} took over from {own:?}");
        let theirs_became = until_told_of_lease(yard, &other, "became leader").await?;
        ensure!(theirs_became == became, "{became}, and not {theirs_became}");
        // Ours waits for as long as the other one works.
        let fine = Way::to(yard, |_| Fate::Fine).await?;
        let mut second = yard.schedule_through(&fine, configured(&brief())?);
        yard.pod("p3", "1").await?;
        yard.until_on("p3", "a").await?;
        ensure!(*second.state.borrow() == State::Standby, "kube-scheduler has the lease");
        theirs.check().context("kube-scheduler works until it is killed")?;
        drop(theirs);
        second.until(State::Deciding).await?;
        yard.pod("p4", "1").await?;
        yard.until_on("p4", "a").await?;
        ensure!(!fine.bindings().is_empty() && fine.bindings()[0].0 == "p4", "ours bound p4 only");
        second.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_restarted_finds_its_scheduler_at_work() {
    const PODS: usize = 40;
    on_both_with("restarted", Scope::Fresh, async |yard| {
        yard.node("a", 64).await?;
        // With an election, and a lease that outlives the server however long that takes.
        let standard = Configuration::default();
        let leader_election = standard.leader_election.clone().map(|election| LeaderElection {
            lease_duration: Duration::from_secs(120),
            renew_deadline: Duration::from_secs(100),
            retry_period: Duration::from_millis(500),
            ..election
        });
        let mut ours = yard.schedule(Configuration { leader_election, ..standard }).await?;
        for number in 0..PODS {
            yard.pod(&format!("before-{number}"), "1m").await?;
        }
        // Some are bound by now, and some are on their way.
        yard.until("a pod bound", |seen| seen.bound > 0).await?;
        yard.restart_server().await?;
        for number in 0..PODS {
            yard.pod(&format!("after-{number}"), "1m").await?;
        }
        yard.until("all bound", |seen| seen.bound == 2 * PODS).await?;
        yard.node("b", 64).await?;
        let to_b = json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": "b" } } });
        yard.pod_like("last", "1", to_b).await?;
        yard.until_on("last", "b").await?;
        ours.until(State::Deciding).await?;
        ours.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_get_nodes_though_no_watch_lasts_and_versions_expire() {
    const ROUNDS: usize = 6;
    on_both("watch-loss", async |yard| {
        let mut watches = 0;
        let rule = move |asked: &Asked| {
            watches += usize::from(asked.is_watch);
            match watches % 6 {
                _ if !asked.is_watch => Fate::Fine,
                0 => Fate::Expired,
                few => Fate::Breaks(few - 1),
            }
        };
        let way = Way::to(yard, rule).await?;
        let ours = yard.schedule_through(&way, alone());
        // Each pod fits on the node that comes after it, and nowhere else.
        for round in 0..ROUNDS {
            yard.pod(&format!("p{round}"), "4").await?;
            yard.node(&format!("n{round}"), 4).await?;
        }
        yard.until("all bound", |seen| seen.bound == ROUNDS).await?;
        let nodes = yard.seen(|seen| {
            let nodes = seen.pods.values().map(|pod| pod.spec.node_name.clone());
            nodes.collect::<std::collections::BTreeSet<String>>()
        });
        ensure!(nodes.len() == ROUNDS, "each has its own node: {nodes:?}");
        ours.end().await
    })
    .await;
}
