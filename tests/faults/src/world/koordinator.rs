//! Reservations, load reports and layouts of CPUs: who makes, changes and ends them.

use api::cpus::CPU_TOPOLOGY;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::json;

use super::World;
use crate::draw::Draw;
use crate::held::Plan;
use crate::shapes::KOORDINATOR;

pub(super) const RESERVATIONS: &str = "/apis/scheduling.koordinator.sh/v1alpha1/reservations";
const LAYOUTS: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";
pub(super) const REPORTS: &str = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const RESERVATIONS_MAX: usize = 6;

/// What is drawn of a world with reservations. It has choices of its own: worlds without any are what
/// they would be if there were none.
pub(super) struct Koordinator {
    pub(super) draw: Draw,
    makes_room: bool,
    takes_over_anyone: bool,
    made: usize,
}

impl Koordinator {
    pub(super) fn drawn(seed: u64) -> Option<Self> {
        let mut draw = Draw::new(seed, "koordinator");
        let (is_there, makes_room) = (draw.chance(600), draw.chance(500));
        let takes_over_anyone = draw.chance(600);
        is_there.then_some(Self { draw, makes_room, takes_over_anyone, made: 0 })
    }

    /// The profile that uses reservations, loads and layouts.
    pub(super) fn configuration(&self) -> String {
        let Self { makes_room, takes_over_anyone, .. } = self;
        format!(
            "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: {KOORDINATOR}
  plugins:
    filter: {{enabled: [{{name: Reservation}}, {{name: LoadAwareScheduling}}, {{name: NodeNUMAResource}}]}}
    postFilter: {{disabled: [{{name: '*'}}], enabled: [{{name: Reservation}}]}}
    score: {{enabled: [{{name: LoadAwareScheduling}}, {{name: Reservation, weight: 5000}}]}}
  pluginConfig:
  - name: Reservation
    args: {{enablePreemption: {makes_room}, preAllocationConfig: {{enableClusterMode: {takes_over_anyone}}}}}
  - name: LoadAwareScheduling
    args: {{filterExpiredNodeMetrics: false, nodeMetricExpirationSeconds: 180, usageThresholds: {{cpu: 65}}}}
"
        )
    }
}

impl World {
    /// The kinds that are not Kubernetes' own.
    pub(super) async fn found_kinds(&mut self) {
        if self.koordinator.is_none() && self.batch.is_none() {
            return;
        }
        for crd in api::crds::all() {
            let request = Request::post(DEFINITIONS)
                .header(http::header::CONTENT_TYPE, "application/yaml")
                .body(Full::from(bytes::Bytes::from_static(crd.yaml.as_bytes())))
                .expect("the paths of this module are valid");
            let mut server = self.trusting("world");
            let Ok(answer) = tower::Service::call(&mut server, request).await;
            if !answer.status().is_success() {
                self.log.violated(&format!("{} is not installed: {}", crd.name, answer.status()));
            }
        }
    }

    /// Something happens to what only Koordinator knows, or nothing does.
    pub(super) async fn act_on_reservations(&mut self) {
        let Some(own) = &mut self.koordinator else { return };
        match own.draw.below(100) {
            0..16 => self.add_reservation().await,
            16..21 => self.delete_reservation().await,
            21..27 => self.resize_reservation().await,
            27..35 => self.lay_out().await,
            35..45 => self.report().await,
            _ => {}
        }
    }

    async fn add_reservation(&mut self) {
        if self.snapshot().await.held.len() >= RESERVATIONS_MAX {
            return;
        }
        let Some(own) = &mut self.koordinator else { return };
        own.made += 1;
        let (name, plan) = (format!("r{}", own.made), Plan::drawn(&mut own.draw));
        self.log.step(&format!("reservation {name} is made: {plan:?}"));
        self.must(Method::POST, RESERVATIONS, Some(plan.object(&name))).await;
    }

    async fn a_reservation(&mut self) -> Option<String> {
        let names: Vec<String> =
            self.snapshot().await.held.into_iter().map(|own| own.name).collect();
        self.koordinator.as_mut()?.draw.among(&names).cloned()
    }

    /// One goes, whoever uses it or is about to.
    async fn delete_reservation(&mut self) {
        let Some(name) = self.a_reservation().await else { return };
        self.log.step(&format!("reservation {name} is deleted"));
        self.must(Method::DELETE, &format!("{RESERVATIONS}/{name}"), None).await;
    }

    /// One is to hold less, or more.
    async fn resize_reservation(&mut self) {
        let Some(name) = self.a_reservation().await else { return };
        let Some(own) = &mut self.koordinator else { return };
        let plan = Plan::drawn(&mut own.draw);
        self.log.step(&format!("reservation {name} is to hold {}", plan.template()));
        let patch = json!({ "spec": { "template": plan.template() } });
        self.must(Method::PATCH, &format!("{RESERVATIONS}/{name}"), Some(patch)).await;
    }

    /// A node tells, often late, which CPUs it has.
    async fn lay_out(&mut self) {
        let Some(node) = self.a_node().await else { return };
        self.log.step(&format!("node {node} tells its layout"));
        let cpu = |id: u32| json!({ "id": id, "core": id / 2, "socket": 0, "node": 0 });
        let detail = json!({ "detail": (0..4).map(cpu).collect::<Vec<_>>() }).to_string();
        let layout = json!({ "apiVersion": "topology.node.k8s.io/v1alpha2",
            "kind": "NodeResourceTopology", "zones": [],
            "metadata": { "name": node, "annotations": { CPU_TOPOLOGY: detail } } });
        // It may have told before.
        self.ask(Method::POST, LAYOUTS, Some(layout)).await;
    }

    /// A node reports its load, or its report is lost.
    async fn report(&mut self) {
        let Some(node) = self.a_node().await else { return };
        let now = self.clock.now();
        let Some(own) = &mut self.koordinator else { return };
        let (is_lost, millis) = (own.draw.chance(150), [100, 400, 3000][own.draw.below(3)]);
        let path = format!("{REPORTS}/{node}");
        if is_lost {
            self.log.step(&format!("the report of {node} is lost"));
            self.ask(Method::DELETE, &path, None).await;
            return;
        }
        self.log.step(&format!("node {node} reports {millis}m"));
        let report = json!({ "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
                             "metadata": { "name": node }, "spec": {} });
        self.ask(Method::POST, REPORTS, Some(report)).await;
        let usage = json!({ "resources": { "cpu": format!("{millis}m"), "memory": "64Mi" } });
        let status = json!({ "status": { "updateTime": now.to_string(),
                                         "nodeMetric": { "nodeUsage": usage } } });
        self.must(Method::PATCH, &format!("{path}/status"), Some(status)).await;
    }
}
