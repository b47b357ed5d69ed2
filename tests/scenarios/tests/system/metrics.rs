//! What schedulers count: kube-scheduler and ours after the same story, number by number.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use chassis::client::{Call, Client, Options, Source};
use http::Method;
use scenarios::backend::Backend;
use scenarios::running::Running;
use scenarios::system::{Cluster, Controllers, PATIENCE};
use scheduler::State;
use serde_json::json;
use truth::{Binaries, Companion};

use crate::scheduling::{asking, pod};
use crate::yard::alone;

/// What kube-scheduler counts and we do not, for the reasons that the documentation gives.
const ABSENT: [&str; 27] = [
    "rest_client_exec_plugin_certificate_rotation_age",
    "rest_client_exec_plugin_ttl_seconds",
    "rest_client_rate_limiter_duration_seconds",
    "rest_client_request_size_bytes",
    "rest_client_response_size_bytes",
    "rest_client_transport_cache_entries",
    "rest_client_transport_create_calls_total",
    "scheduler_async_api_call_execution_duration_seconds",
    "scheduler_async_api_call_execution_total",
    "scheduler_batch_attempts_total",
    "scheduler_batch_cache_flushed_total",
    "scheduler_event_handling_duration_seconds",
    "scheduler_framework_extension_point_duration_seconds",
    "scheduler_get_node_hint_duration_seconds",
    "scheduler_goroutines",
    "scheduler_inflight_events",
    "scheduler_pending_async_api_calls",
    "scheduler_permit_wait_duration_seconds",
    "scheduler_plugin_evaluation_total",
    "scheduler_plugin_execution_duration_seconds",
    "scheduler_preemption_goroutines_duration_seconds",
    "scheduler_preemption_goroutines_execution_total",
    "scheduler_queueing_hint_execution_duration_seconds",
    "scheduler_resourceclaim_creates_total",
    "scheduler_store_schedule_results_duration_seconds",
    "scheduler_volume_binder_cache_requests_total",
    "scheduler_volume_scheduling_stage_error_total",
];

/// What Koordinator's scheduler counts, and kube-scheduler does not.
const OF_KOORDINATOR: [&str; 4] = [
    "scheduler_pod_scheduling_evaluated_nodes",
    "scheduler_pod_scheduling_feasible_nodes",
    "scheduler_update_elastic_quota_status_duration_seconds",
    "scheduler_waiting_gang_group_number",
];

/// Whose series depend on what happened on the way, and not on how things stand at rest: what wakes
/// pods, and what is asked of the server.
const ON_THE_WAY: [&str; 3] = [
    "rest_client_requests_total",
    "rest_client_request_duration_seconds",
    "scheduler_queue_incoming_pods_total",
];

/// Numbers that do not depend on how fast anything is, once everything is at rest.
const EXACT: [(&str, &str); 18] = [
    ("scheduler_schedule_attempts_total", "profile=default-scheduler,result=scheduled"),
    (
        "scheduler_scheduling_attempt_duration_seconds_count",
        "profile=default-scheduler,result=scheduled",
    ),
    ("scheduler_pod_scheduling_attempts_count", ""),
    ("scheduler_pod_scheduling_attempts_sum", ""),
    ("scheduler_preemption_victims_count", ""),
    ("scheduler_preemption_victims_sum", ""),
    ("scheduler_pending_pods", "queue=active"),
    ("scheduler_pending_pods", "queue=backoff"),
    ("scheduler_pending_pods", "queue=unschedulable"),
    ("scheduler_pending_pods", "queue=gated"),
    ("scheduler_unschedulable_pods", "plugin=NodeResourcesFit,profile=default-scheduler"),
    ("scheduler_unschedulable_pods", "plugin=NodeAffinity,profile=default-scheduler"),
    ("scheduler_unschedulable_pods", "plugin=SchedulingGates,profile=default-scheduler"),
    ("scheduler_queue_incoming_pods_total", "event=UnschedulablePodAdd,queue=active"),
    ("scheduler_queue_incoming_pods_total", "event=UnschedulablePodAdd,queue=unschedulable"),
    ("scheduler_cache_size", "type=nodes"),
    ("scheduler_cache_size", "type=pods"),
    ("scheduler_cache_size", "type=assumed_pods"),
];

/// What a page of metrics says of one name.
#[derive(Debug, Default, PartialEq)]
struct Family {
    kind: String,
    /// The names of its labels; the bounds of buckets are told apart.
    labels: BTreeSet<String>,
    /// As they are written, for they are part of the names of series.
    bounds: BTreeSet<String>,
    /// Names with labels.
    series: BTreeSet<String>,
}

/// A page of metrics, in the text format 0.0.4.
#[derive(Debug, Default)]
struct Page {
    families: BTreeMap<String, Family>,
    /// By name and labels.
    values: BTreeMap<(String, String), f64>,
}

impl Page {
    fn read(text: &str) -> Result<Self> {
        let mut page = Self::default();
        let mut last = String::new();
        for line in text.lines() {
            if let Some(typed) = line.strip_prefix("# TYPE ") {
                let (name, kind) = typed.split_once(' ').context("a type has a name")?;
                last = name.to_owned();
                page.families.entry(last.clone()).or_default().kind = kind.to_owned();
            } else if !line.starts_with('#') && !line.is_empty() {
                let family = page.families.get_mut(&last).context("a sample has a type")?;
                let (name, labels, value) = sample(line)?;
                let mut told = Vec::new();
                for (label, own) in &labels {
                    if label == "le" {
                        family.bounds.insert(own.clone());
                    } else {
                        family.labels.insert(label.clone());
                    }
                    told.push(format!("{label}={own}"));
                }
                let told = told.join(",");
                family.series.insert(format!("{name}{{{told}}}"));
                page.values.insert((name, told), value);
            }
        }
        let shared = ["scheduler_", "rest_client_", "process_"];
        page.families.retain(|name, _| shared.iter().any(|begin| name.starts_with(begin)));
        Ok(page)
    }

    fn value(&self, name: &str, labels: &str) -> Option<f64> {
        self.values.get(&(name.to_owned(), labels.to_owned())).copied()
    }
}

/// The name, the labels by name, and the value of a line.
fn sample(line: &str) -> Result<(String, BTreeMap<String, String>, f64)> {
    let (head, value) = line.rsplit_once(' ').with_context(|| line.to_owned())?;
    let (name, labels) = head.split_once('{').unwrap_or((head, "}"));
    let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
    let labels = labels.map(|label| {
        let (name, value) = label.split_once('=').with_context(|| line.to_owned())?;
        Ok((name.to_owned(), value.trim_matches('"').to_owned()))
    });
    Ok((name.to_owned(), labels.collect::<Result<_>>()?, value.parse()?))
}

/// Pods that get a node, one that another has to go for, and pods that none can take. Events name
/// the version of the pod that they tell of.
async fn play(cluster: &Cluster, namespace: &str) -> Result<()> {
    let class = "
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: counted}
value: 1000
";
    let apply = async |text: &str| {
        cluster.kubectl_with(&["apply", "-n", namespace, "--filename", "-"], text).await
    };
    let ready = async |name: &str| {
        let pod = format!("pod/{name}");
        let words = ["wait", &pod, "--for=condition=Ready", "--timeout=30s", "-n", namespace];
        cluster.kubectl(&words).await
    };
    apply(class).await?;
    for (name, cpu) in [("a", "cpu: 100m"), ("b", "cpu: 100m"), ("lesser", "cpu: 6")] {
        apply(&pod(name, &asking(cpu))).await?;
        ready(name).await?;
    }
    let greater = format!("priorityClassName: counted\n  {}", asking("cpu: 6"));
    apply(&pod("greater", &greater)).await?;
    ready("greater").await?;
    let gone = ["wait", "pod/lesser", "--for=delete", "--timeout=30s", "-n", namespace];
    cluster.kubectl(&gone).await?;
    apply(&pod("huge", &asking("cpu: 1k"))).await?;
    apply(&pod("choosy", &format!("nodeSelector: {{disk: fast}}\n  {}", asking("")))).await?;
    let gate = format!("schedulingGates: [{{name: example.com/gate}}]\n  {}", asking(""));
    apply(&pod("gated", &gate)).await?;
    for name in ["huge", "choosy"] {
        let pod = format!("pod/{name}");
        let condition = "--for=jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}\
                         =Unschedulable";
        cluster.kubectl(&["wait", &pod, condition, "--timeout=30s", "-n", namespace]).await?;
    }
    for (name, reason) in
        [("a", "Scheduled"), ("huge", "FailedScheduling"), ("lesser", "Preempted")]
    {
        let which = format!("--field-selector=involvedObject.name={name},reason={reason}");
        let wait = ["wait", "events", &which, "--for=create", "--timeout=30s", "-n", namespace];
        cluster.kubectl(&wait).await?;
        let form = "--output=jsonpath={.items[0].involvedObject.resourceVersion}";
        let version = cluster.kubectl(&["get", "events", &which, form, "-n", namespace]).await?;
        ensure!(version.parse::<u64>().is_ok(), "{reason} of {name} names version {version:?}");
    }
    Ok(())
}

/// A cluster of one node with a namespace that may have pods.
async fn stage(name: &str) -> Result<(Cluster, String)> {
    Cluster::unscheduled(name, Backend::KubeApiServer, Controllers::Ours, 1).await
}

/// The pages of kube-scheduler on this port, which shows them to everybody.
async fn theirs(port: u16, folder: &Path) -> Result<Client> {
    let cluster = json!({ "server": format!("https://127.0.0.1:{port}"),
        "insecure-skip-tls-verify": true });
    let config = json!({ "current-context": "c",
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "clusters": [{ "name": "c", "cluster": cluster }],
        "users": [{ "name": "u", "user": {} }] });
    let file = folder.join("kubeconfig-of-metrics");
    std::fs::write(&file, config.to_string())?;
    let source = Source::from_flags(Some(file), None);
    Ok(Client::connect(&source, &Options::new("metrics")).await?)
}

/// Reads pages until one is as it should be.
async fn settled(
    read: impl AsyncFn() -> Result<Page>,
    fault: impl Fn(&Page) -> Option<String>,
) -> Result<Page> {
    let begun = std::time::Instant::now();
    loop {
        let page = read().await?;
        let Some(fault) = fault(&page) else { return Ok(page) };
        ensure!(begun.elapsed() < PATIENCE, "{fault}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Pods that have a node at the end.
const BOUND: f64 = 3.0;

/// Two pods wait, and one is gated: nothing moves any more. Nobody is assumed to be anywhere, which
/// kube-scheduler counts once a second.
fn moves(page: &Page) -> Option<String> {
    let (pending, cached) = ("scheduler_pending_pods", "scheduler_cache_size");
    let rest = [
        (pending, "queue=active", 0.0),
        (pending, "queue=backoff", 0.0),
        (pending, "queue=unschedulable", 2.0),
        (pending, "queue=gated", 1.0),
        (cached, "type=pods", BOUND),
        (cached, "type=assumed_pods", 0.0),
    ];
    rest.iter().find_map(|(name, labels, expected)| {
        let own = page.value(name, labels);
        (own != Some(*expected)).then(|| format!("{name} {labels}: {own:?}"))
    })
}

async fn truth() -> Result<Page> {
    let (cluster, namespace) = stage("counted-theirs").await?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let flags = [
        &format!("--secure-port={port}"),
        "--bind-address=127.0.0.1",
        "--authorization-always-allow-paths=/metrics",
    ];
    let folder = tempfile::tempdir()?;
    let flags: Vec<&str> = flags.to_vec();
    let config = cluster.kubeconfig();
    let say = |line: &str| eprintln!("{line}");
    let scheduler =
        Companion::kube_scheduler_with(&Binaries::locate(&say), config, &json!(null), &flags)?;
    play(&cluster, &namespace).await?;
    let client = theirs(port, folder.path()).await?;
    let read = async || {
        let call = Call::new(Method::GET, "/metrics").accept("text/plain");
        Page::read(std::str::from_utf8(&client.call_bytes(call).await?)?)
    };
    let page = settled(read, moves).await?;
    drop(scheduler);
    cluster.end().await?;
    Ok(page)
}

async fn ours(truth: &Page) -> Result<()> {
    let (cluster, namespace) = stage("counted-ours").await?;
    let mut running = Running::start(alone(), cluster.kubeconfig()).await?;
    running.until(State::Deciding).await?;
    let metrics = running.metrics.clone();
    metrics.show_process();
    play(&cluster, &namespace).await?;
    let page = settled(
        async || Page::read(&metrics.render()),
        |page| {
            let differs = |(name, labels): &(&str, &str)| {
                let (own, truth) = (page.value(name, labels), truth.value(name, labels));
                let fault = || format!("{name} {labels}: {own:?}, and not {truth:?}");
                (own != truth || own.is_none()).then(fault)
            };
            EXACT.iter().find_map(differs)
        },
    );
    let page = page.await?;
    compare(&page, truth)?;
    running.end().await?;
    cluster.end().await
}

/// Whatever is ours is theirs, in the same form; what of theirs is not ours is known.
fn compare(ours: &Page, truth: &Page) -> Result<()> {
    for (name, own) in &ours.families {
        if OF_KOORDINATOR.contains(&name.as_str()) {
            continue;
        }
        let known = truth.families.get(name);
        let known = known.ok_or_else(|| anyhow!("kube-scheduler does not count {name}"))?;
        let form =
            |family: &Family| (family.kind.clone(), family.labels.clone(), family.bounds.clone());
        ensure!(form(own) == form(known), "{name} is {own:?}, and not {known:?}");
        if !ON_THE_WAY.contains(&name.as_str()) {
            let differing: Vec<&String> = own.series.symmetric_difference(&known.series).collect();
            ensure!(differing.is_empty(), "of {name}, only one of the two has {differing:#?}");
        }
    }
    let documented = include_str!("../../../../docs/SCHEDULER.md");
    for name in OF_KOORDINATOR {
        ensure!(documented.contains(name), "{name} is not documented");
        ensure!(ours.families.contains_key(name), "{name} is not counted");
    }
    for name in ABSENT {
        ensure!(documented.contains(name), "why {name} is absent is not documented");
        ensure!(!ours.families.contains_key(name), "{name} is counted");
    }
    for name in truth.families.keys().filter(|name| !ours.families.contains_key(*name)) {
        ensure!(ABSENT.contains(&name.as_str()), "{name} is absent");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_story_is_counted_alike() {
    let truth = truth().await.unwrap();
    ours(&truth).await.unwrap();
}
