//! What a server counts about itself, under kube-apiserver's names and labels, so that dashboards
//! made for one read the other.
//!
//! Labels come from closed sets: verbs, the kinds that are served and their parts, status codes.
//! No client can add a series by what it writes into a path.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use http::StatusCode;
use jiff::Timestamp;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::kinds::{self, Found};
use crate::request::{Query, Target, Verb};
use crate::server::Server;

/// The bounds of the durations that are counted together, in seconds.
const DURATION_BOUNDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// The value of the label that says which program counts.
const COMPONENT: &str = "apiserver";

/// What kind of request it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    component: &'static str,
}

/// What kind of request it is, and whether it is a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    #[prometheus(flatten)]
    request: RequestLabels,
    dry_run: &'static str,
}

impl RequestLabels {
    fn of(found: &Found, target: &Target, verb: Verb) -> Self {
        let (kind, version) = (&found.kind, found.version());
        let part = target.subresource.as_deref().and_then(|name| version.subresource(name));
        Self {
            verb: verb.in_metrics(),
            group: kind.group.clone(),
            version: version.name.clone(),
            resource: kind.names.plural.clone(),
            subresource: part.map(|part| part.name.clone()).unwrap_or_default(),
            scope: scope(target, verb),
            component: COMPONENT,
        }
    }

    /// The labels of a request that means no resource.
    fn of_document() -> Self {
        Self {
            verb: Verb::Get.in_metrics(),
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: String::new(),
            scope: "",
            component: COMPONENT,
        }
    }
}

impl DurationLabels {
    fn of(found: &Found, target: &Target, verb: Verb, query: &Query) -> Self {
        let dry_run = if query.text("dryRun") == Some("All") { "All" } else { "" };
        Self { request: RequestLabels::of(found, target, verb), dry_run }
    }
}

/// What kind of request was sent away, and with which code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TerminationLabels {
    #[prometheus(flatten)]
    request: RequestLabels,
    code: u16,
}

/// What kind of request it was, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    #[prometheus(flatten)]
    request: RequestLabels,
    dry_run: &'static str,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    group: String,
    version: String,
    resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InflightLabels {
    request_kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ObjectLabels {
    group: String,
    resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QualifiedLabels {
    resource: String,
}

#[derive(Clone)]
struct Durations;

impl MetricConstructor<Histogram> for Durations {
    fn new_metric(&self) -> Histogram {
        Histogram::new(DURATION_BOUNDS)
    }
}

/// The counters of one server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<OutcomeLabels, Counter>,
    durations: Family<DurationLabels, Histogram, Durations>,
    long_running: Family<RequestLabels, Gauge>,
    reading: Gauge,
    writing: Gauge,
    watch_events: Family<ResourceLabels, Counter>,
    terminations: Family<TerminationLabels, Counter>,
}

impl Metrics {
    /// Counters that all stand at zero.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let requests = Family::<OutcomeLabels, Counter>::default();
        let durations =
            Family::<DurationLabels, Histogram, Durations>::new_with_constructor(Durations);
        let long_running = Family::<RequestLabels, Gauge>::default();
        let inflight = Family::<InflightLabels, Gauge>::default();
        let watch_events = Family::<ResourceLabels, Counter>::default();
        let help = "Requests that were answered, by code";
        registry.register("apiserver_request", help, requests.clone());
        let help = "How long answers took, to their last byte";
        registry.register("apiserver_request_duration_seconds", help, durations.clone());
        let help = "Watches that are open";
        registry.register("apiserver_longrunning_requests", help, long_running.clone());
        let help = "Requests that are being answered, watches apart";
        registry.register("apiserver_current_inflight_requests", help, inflight.clone());
        let help = "Events that were sent to watchers";
        registry.register("apiserver_watch_events", help, watch_events.clone());
        let terminations = Family::<TerminationLabels, Counter>::default();
        let help = "Requests that were sent away because too many are under way";
        registry.register("apiserver_request_terminations", help, terminations.clone());
        let of_kind = |request_kind| inflight.get_or_create_owned(&InflightLabels { request_kind });
        let (reading, writing) = (of_kind("readOnly"), of_kind("mutating"));
        Self {
            registry,
            requests,
            durations,
            long_running,
            reading,
            writing,
            watch_events,
            terminations,
        }
    }

    /// What counts the requests under way that only read.
    pub(crate) fn reading(&self) -> &Gauge {
        &self.reading
    }

    /// What counts the other requests under way.
    pub(crate) fn writing(&self) -> &Gauge {
        &self.writing
    }

    /// Counts a request for a resource that was sent away.
    pub(crate) fn sent_away(&self, found: &Found, target: &Target, verb: Verb, query: &Query) {
        let labels = DurationLabels::of(found, target, verb, query);
        self.terminated(labels.request.clone());
        self.ended(labels, StatusCode::TOO_MANY_REQUESTS);
    }

    /// Counts a request for anything else that was sent away.
    pub(crate) fn document_sent_away(&self) {
        self.terminated(RequestLabels::of_document());
    }

    fn terminated(&self, request: RequestLabels) {
        let code = StatusCode::TOO_MANY_REQUESTS.as_u16();
        self.terminations.get_or_create(&TerminationLabels { request, code }).inc();
    }

    fn ended(&self, labels: DurationLabels, code: StatusCode) {
        let DurationLabels { request, dry_run } = labels;
        self.requests.get_or_create(&OutcomeLabels { request, dry_run, code: code.as_u16() }).inc();
    }

    /// What counts the events of a resource that are sent to watchers.
    pub(crate) fn watch_events(&self, found: &Found) -> Counter<u64, AtomicU64> {
        let (kind, version) = (&found.kind, found.version());
        self.watch_events.get_or_create_owned(&ResourceLabels {
            group: kind.group.clone(),
            version: version.name.clone(),
            resource: kind.names.plural.clone(),
        })
    }

    /// Everything as text in the classic format of Prometheus, which is kube-apiserver's, with the
    /// number of objects of each kind.
    pub(crate) fn render(&self, kinds: &kinds::Registry) -> String {
        let objects = Family::<ObjectLabels, Gauge>::default();
        let by_name = Family::<QualifiedLabels, Gauge>::default();
        for kind in kinds.kinds() {
            let count = i64::try_from(kind.table.len()).unwrap_or(i64::MAX);
            let (group, resource) = (kind.group.clone(), kind.names.plural.clone());
            objects.get_or_create(&ObjectLabels { group, resource }).set(count);
            let resource = kind.qualified_name();
            by_name.get_or_create(&QualifiedLabels { resource }).set(count);
        }
        let mut counted = Registry::default();
        let help = "Objects that are stored";
        counted.register("apiserver_resource_objects", help, objects);
        let help = "Objects that are stored, by qualified name; kube-apiserver's older metric";
        counted.register("apiserver_storage_objects", help, by_name);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode_registry(&mut text, &self.registry);
        let _ = text::encode_registry(&mut text, &counted);
        classic(&text)
    }
}

/// OpenMetrics in the classic format, where a counter is described under the full name of its
/// samples, and a bound that is a whole number is written without a fraction.
fn classic(open_metrics: &str) -> String {
    let mut classic = String::with_capacity(open_metrics.len());
    // The help of a metric comes before its type.
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|typed| typed.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let text = help.take().map_or("", |(_, text)| text);
            classic.push_str(&format!("# HELP {name}{suffix} {text}\n"));
            classic.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        } else {
            let bound = line.split_once("le=\"").and_then(|(before, rest)| {
                let (bound, after) = rest.split_once('"')?;
                Some((before, bound.strip_suffix(".0")?, after))
            });
            match bound {
                Some((before, bound, after)) => {
                    classic.push_str(&format!("{before}le=\"{bound}\"{after}"));
                }
                None => classic.push_str(line),
            }
            classic.push('\n');
        }
    }
    classic
}

/// A request that is being answered. It is counted when this is dropped, so it is kept for as long
/// as the answer is on its way.
pub(crate) struct Measured {
    server: Arc<Server>,
    labels: DurationLabels,
    /// What counts the watches that are open, for a watch.
    open: Option<Gauge>,
    began: Timestamp,
    /// None while there is no answer: a client that went away before is not counted.
    code: Option<StatusCode>,
}

impl Measured {
    /// Begins to measure.
    pub(crate) fn begin(
        server: &Arc<Server>,
        found: &Found,
        target: &Target,
        verb: Verb,
        query: &Query,
    ) -> Self {
        let labels = DurationLabels::of(found, target, verb, query);
        let open = (verb == Verb::Watch)
            .then(|| server.metrics().long_running.get_or_create_owned(&labels.request));
        if let Some(open) = &open {
            open.inc();
        }
        let began = server.env().now();
        Self { server: Arc::clone(server), labels, open, began, code: None }
    }

    /// Says how the request is answered.
    pub(crate) fn answered(&mut self, code: StatusCode) {
        self.code = Some(code);
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        if let Some(open) = &self.open {
            open.dec();
        }
        let Some(code) = self.code else { return };
        let metrics = self.server.metrics();
        let took = self.server.env().now().duration_since(self.began);
        metrics.durations.get_or_create(&self.labels).observe(took.as_secs_f64().max(0.0));
        metrics.ended(self.labels.clone(), code);
    }
}

/// Whether a request means one object, those of a namespace, or all.
fn scope(target: &Target, verb: Verb) -> &'static str {
    if target.name.is_some() || verb == Verb::Create {
        "resource"
    } else if target.namespace.is_some() {
        "namespace"
    } else {
        "cluster"
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{Method, Request};
    use http_body_util::{BodyExt, Full};

    use crate::answer::Answer;
    use crate::env::ManualEnv;
    use crate::request::Identity;
    use crate::{Config, Drydock};

    fn server() -> Drydock {
        Drydock::new(Config::default(), ManualEnv::new(jiff::Timestamp::UNIX_EPOCH, 1))
    }

    async fn ask(server: &Drydock, method: Method, path: &str, body: &'static str) -> Answer {
        let mut request = Request::new(Full::from(Bytes::from_static(body.as_bytes())));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap();
        let identity = Identity { user: "test".to_owned(), groups: Vec::new() };
        request.extensions_mut().insert(identity);
        server.answer(request).await
    }

    async fn text(server: &Drydock) -> String {
        let answer = ask(server, Method::GET, "/metrics", "").await;
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    /// The lines of `/metrics` that begin with one of `names`.
    async fn lines(server: &Drydock, names: &[&str]) -> String {
        let text = text(server).await;
        let mut lines: Vec<&str> = text
            .lines()
            .filter(|line| names.iter().any(|name| line.starts_with(&format!("{name}{{"))))
            .collect();
        lines.sort_unstable();
        lines.join("\n")
    }

    #[tokio::test]
    async fn requests_are_counted_by_what_they_want_and_how_they_end() {
        let server = server();
        let maps = "/api/v1/namespaces/default/configmaps";
        drop(ask(&server, Method::POST, maps, r#"{"metadata":{"name":"a"}}"#).await);
        drop(ask(&server, Method::POST, maps, r#"{"metadata":{"name":"a"}}"#).await);
        let rehearsed = format!("{maps}?dryRun=All");
        drop(ask(&server, Method::POST, &rehearsed, r#"{"metadata":{"name":"b"}}"#).await);
        drop(ask(&server, Method::GET, &format!("{maps}/a"), "").await);
        drop(ask(&server, Method::GET, &format!("{maps}/a/made-up"), "").await);
        drop(ask(&server, Method::GET, maps, "").await);
        drop(ask(&server, Method::GET, "/api/v1/nodes", "").await);
        drop(ask(&server, Method::GET, "/apis/apps/v1/namespaces/d/deployments/x/scale", "").await);
        insta::assert_snapshot!(lines(&server, &["apiserver_request_total"]).await, @r#"
        apiserver_request_total{verb="GET",group="",version="v1",resource="configmaps",subresource="",scope="resource",component="apiserver",dry_run="",code="200"} 1
        apiserver_request_total{verb="GET",group="",version="v1",resource="configmaps",subresource="",scope="resource",component="apiserver",dry_run="",code="404"} 1
        apiserver_request_total{verb="GET",group="apps",version="v1",resource="deployments",subresource="scale",scope="resource",component="apiserver",dry_run="",code="404"} 1
        apiserver_request_total{verb="LIST",group="",version="v1",resource="configmaps",subresource="",scope="namespace",component="apiserver",dry_run="",code="200"} 1
        apiserver_request_total{verb="LIST",group="",version="v1",resource="nodes",subresource="",scope="cluster",component="apiserver",dry_run="",code="200"} 1
        apiserver_request_total{verb="POST",group="",version="v1",resource="configmaps",subresource="",scope="resource",component="apiserver",dry_run="",code="201"} 1
        apiserver_request_total{verb="POST",group="",version="v1",resource="configmaps",subresource="",scope="resource",component="apiserver",dry_run="",code="409"} 1
        apiserver_request_total{verb="POST",group="",version="v1",resource="configmaps",subresource="",scope="resource",component="apiserver",dry_run="All",code="201"} 1
        "#);
    }

    #[tokio::test]
    async fn durations_have_the_bounds_of_kube_apiserver() {
        let server = server();
        drop(ask(&server, Method::GET, "/api/v1/nodes", "").await);
        let buckets = lines(&server, &["apiserver_request_duration_seconds_bucket"]).await;
        let bound = |line: &str| {
            let (_, rest) = line.split_once("le=\"").unwrap();
            rest.split_once('"').unwrap().0.to_owned()
        };
        let mut bounds: Vec<String> = buckets.lines().map(bound).collect();
        let number = |bound: &String| bound.replace("+Inf", "inf").parse::<f64>().unwrap();
        bounds.sort_by(|one, other| number(one).total_cmp(&number(other)));
        assert_eq!(
            bounds.join(" "),
            "0.005 0.025 0.05 0.1 0.2 0.4 0.6 0.8 1 1.25 1.5 2 3 4 5 6 8 10 15 20 30 45 60 +Inf"
        );
        let each = ["apiserver_request_duration_seconds_count"];
        assert!(lines(&server, &each).await.ends_with(" 1"));
    }

    #[tokio::test]
    async fn every_sample_is_described_under_its_own_name_as_prometheus_reads_it() {
        let server = server();
        drop(ask(&server, Method::GET, "/api/v1/nodes", "").await);
        drop(ask(&server, Method::GET, "/api/v1/namespaces?watch=true", "").await);
        let text = text(&server).await;
        let described: Vec<(&str, &str)> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
        assert_eq!(
            described,
            [
                ("apiserver_request_total", "counter"),
                ("apiserver_request_duration_seconds", "histogram"),
                ("apiserver_longrunning_requests", "gauge"),
                ("apiserver_current_inflight_requests", "gauge"),
                ("apiserver_watch_events_total", "counter"),
                ("apiserver_resource_objects", "gauge"),
                ("apiserver_storage_objects", "gauge"),
            ]
        );
        for (name, _) in &described {
            let help = format!("# HELP {name} ");
            assert_eq!(text.lines().filter(|line| line.starts_with(&help)).count(), 1, "{name}");
        }
        for sample in text.lines().filter(|line| !line.starts_with("# ")) {
            let name = sample.split(['{', ' ']).next().unwrap();
            let is = |(own, kind): &(&str, &str)| match name.strip_prefix(own) {
                Some("") => *kind != "histogram",
                Some("_bucket" | "_sum" | "_count") => *kind == "histogram",
                _ => false,
            };
            assert!(described.iter().any(is), "{sample}");
        }
        assert!(!text.contains("# EOF"), "{text}");
    }

    #[tokio::test]
    async fn a_watch_is_open_until_its_answer_is_dropped() {
        let server = server();
        let names = ["apiserver_longrunning_requests", "apiserver_watch_events_total"];
        let mut watch =
            ask(&server, Method::GET, "/api/v1/namespaces?watch=true", "").await.into_body();
        assert!(watch.frame().await.is_some(), "it begins with what there is");
        insta::assert_snapshot!(lines(&server, &names).await, @r#"
        apiserver_longrunning_requests{verb="WATCH",group="",version="v1",resource="namespaces",subresource="",scope="cluster",component="apiserver"} 1
        apiserver_watch_events_total{group="",version="v1",resource="namespaces"} 4
        "#);
        assert_eq!(lines(&server, &["apiserver_request_total"]).await, "", "it is not over");
        drop(watch);
        let after = lines(&server, &names).await;
        assert!(after.lines().next().is_some_and(|line| line.ends_with("} 0")), "{after}");
        insta::assert_snapshot!(lines(&server, &["apiserver_request_total"]).await, @r#"apiserver_request_total{verb="WATCH",group="",version="v1",resource="namespaces",subresource="",scope="cluster",component="apiserver",dry_run="",code="200"} 1"#);
    }

    #[tokio::test]
    async fn a_request_is_in_flight_until_its_answer_is_dropped() {
        let server = server();
        let inflight = ["apiserver_current_inflight_requests"];
        let answer = ask(&server, Method::GET, "/api/v1/nodes", "").await;
        // Who reads the metrics is being answered, too.
        insta::assert_snapshot!(lines(&server, &inflight).await, @r#"
        apiserver_current_inflight_requests{request_kind="mutating"} 0
        apiserver_current_inflight_requests{request_kind="readOnly"} 2
        "#);
        drop(answer);
        insta::assert_snapshot!(lines(&server, &inflight).await, @r#"
        apiserver_current_inflight_requests{request_kind="mutating"} 0
        apiserver_current_inflight_requests{request_kind="readOnly"} 1
        "#);
    }

    #[tokio::test]
    async fn objects_are_counted_under_both_names() {
        let server = server();
        let both = ["apiserver_resource_objects", "apiserver_storage_objects"];
        let lines = lines(&server, &both).await;
        let of = |name: &str| lines.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert_eq!(
            of("resource=\"namespaces\"}"),
            "apiserver_resource_objects{group=\"\",resource=\"namespaces\"} 4"
        );
        assert_eq!(
            of("resource=\"priorityclasses.scheduling.k8s.io\""),
            "apiserver_storage_objects{resource=\"priorityclasses.scheduling.k8s.io\"} 2"
        );
    }
}
