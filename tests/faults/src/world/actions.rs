//! What everybody else does: users, kubelets, other schedulers, and those who pull plugs.

use http::Method;
use serde_json::{Value, json};

use super::World;
use super::volumes::CLAIMS;
use crate::judge::Standing;
use crate::network::Weather;
use crate::rules::Place;
use crate::shapes::{APPS, Machine, Shape, TAINT};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
pub(super) const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const NODES_MAX: usize = 7;
pub(super) const PODS_MAX: usize = 45;

impl World {
    /// One thing happens.
    pub(super) async fn act(&mut self) {
        match self.draw.below(100) {
            0..28 => self.add_pods().await,
            28..36 => self.delete_pod().await,
            36..41 => self.replace_pod().await,
            41..48 => self.add_node().await,
            48..51 => self.delete_node().await,
            51..56 => self.cordon().await,
            56..60 => self.taint().await,
            60..64 => self.resize().await,
            64..69 => self.bind_behind().await,
            69..75 => self.end_pod().await,
            75..83 => self.change_weather(),
            83..88 => self.kill(),
            88..90 => self.stop(),
            90..93 => self.cut_off(),
            93..96 => self.change_budget().await,
            _ => self.lift_gates().await,
        }
        if self.draw.chance(600) {
            let all = self.draw.chance(500);
            self.make_volumes(all).await;
        }
        if self.draw.chance(500) {
            self.finish_deletions().await;
        }
    }

    async fn add_pods(&mut self) {
        let there = self.snapshot().await.pods.len();
        let count = (1 + self.draw.below(5)).min(PODS_MAX.saturating_sub(there));
        let mut shape = Shape::drawn(&mut self.draw);
        if let Some(own) = &mut self.koordinator {
            shape = shape.among_reservations(&mut own.draw);
        }
        if let Some(own) = &mut self.batch {
            shape = shape.among_quotas(&mut own.draw);
        }
        self.log.step(&format!("{count} pods are made: {shape:?}"));
        for _ in 0..count {
            self.pods_made += 1;
            self.add_pod(&format!("p{}", self.pods_made), &shape).await;
        }
    }

    pub(super) async fn add_pod(&self, name: &str, shape: &Shape) {
        self.judge.expect(name, shape);
        if shape.volume {
            self.must(Method::POST, CLAIMS, Some(Shape::claim(name))).await;
        }
        self.must(Method::POST, PODS, Some(shape.pod(name))).await;
    }

    /// Nothing holds back pods any longer.
    pub(super) async fn lift_gates(&mut self) {
        let pods = self.snapshot().await.pods;
        self.log.step("gates are lifted");
        for pod in pods.iter().filter(|pod| pod.is_gated && !pod.is_going) {
            let patch = json!({ "spec": { "schedulingGates": null } });
            self.must(Method::PATCH, &format!("{PODS}/{}", pod.name), Some(patch)).await;
        }
    }

    /// A budget for the pods of an app comes, changes or goes. It is nobody's business here to
    /// count: how many may go is drawn.
    async fn change_budget(&mut self) {
        let app = APPS[self.draw.below(APPS.len())];
        let path = format!("{BUDGETS}/{app}");
        let (code, _) = self.ask(Method::GET, &path, None).await;
        if code.is_success() && self.draw.chance(400) {
            self.log.step(&format!("the budget of {app} goes"));
            self.must(Method::DELETE, &path, None).await;
            return;
        }
        let allowed = self.draw.below(3);
        self.log.step(&format!("of {app} {allowed} may go"));
        if !code.is_success() {
            let budget = json!({ "metadata": { "name": app }, "spec": { "minAvailable": 1,
                "selector": { "matchLabels": { "app": app } } } });
            self.must(Method::POST, BUDGETS, Some(budget)).await;
        }
        let status = json!({ "status": { "disruptionsAllowed": allowed } });
        self.must(Method::PATCH, &format!("{path}/status"), Some(status)).await;
    }

    async fn a_pod(&mut self, which: impl Fn(&Standing) -> bool) -> Option<Standing> {
        let pods = self.snapshot().await.pods;
        let pods: Vec<Standing> = pods.into_iter().filter(|pod| which(pod)).collect();
        self.draw.among(&pods).cloned()
    }

    async fn delete_pod(&mut self) {
        let Some(pod) = self.a_pod(|pod| !pod.is_going).await else { return };
        self.log.step(&format!("{} is deleted", pod.name));
        self.judge.lost(&pod.name);
        self.must(Method::DELETE, &format!("{PODS}/{}", pod.name), None).await;
    }

    /// A pod goes at once and another one of its name comes.
    async fn replace_pod(&mut self) {
        let Some(pod) = self.a_pod(|_| true).await else { return };
        self.log.step(&format!("{} is replaced", pod.name));
        self.delete_now(&pod).await;
        if let Some(shape) = self.judge.shape(&pod.name) {
            self.must(Method::POST, PODS, Some(shape.pod(&pod.name))).await;
        }
    }

    async fn delete_now(&self, pod: &Standing) {
        let options = json!({ "gracePeriodSeconds": 0 });
        self.must(Method::DELETE, &format!("{PODS}/{}", pod.name), Some(options)).await;
        self.judge.left(&pod.uid, &pod.name);
    }

    /// Kubelets end what is to go.
    pub(super) async fn finish_deletions(&mut self) {
        for pod in self.snapshot().await.pods.iter().filter(|pod| pod.is_going) {
            self.log.note(&format!("{} is gone", pod.name));
            self.delete_now(pod).await;
            self.replace(pod).await;
        }
    }

    async fn end_pod(&mut self) {
        let lives = |pod: &Standing| !pod.node.is_empty() && !pod.is_ended && !pod.is_going;
        let Some(pod) = self.a_pod(lives).await else { return };
        self.log.step(&format!("{} ends", pod.name));
        let path = format!("{PODS}/{}/status", pod.name);
        self.must(Method::PATCH, &path, Some(json!({ "status": { "phase": "Succeeded" } }))).await;
        self.judge.left(&pod.uid, &pod.name);
    }

    pub(super) async fn add_node(&mut self) {
        if self.snapshot().await.places.len() >= NODES_MAX {
            return self.log.step("no more nodes");
        }
        // Names come again, with other machines behind them.
        self.nodes_made += 1;
        let name = format!("n{}", self.nodes_made % (NODES_MAX + 1));
        if self.snapshot().await.places.contains_key(&name) {
            return self.log.step("no other node");
        }
        let machine = Machine::drawn(&mut self.draw);
        self.log.step(&format!("node {name} comes: {machine:?}"));
        self.must(Method::POST, NODES, Some(machine.node(&name))).await;
        // The server takes every new node for not ready; a controller would see that it is.
        self.change_node(&name, "", json!({ "spec": { "taints": null } })).await;
    }

    async fn change_node(&self, name: &str, part: &str, patch: Value) {
        let node = self.must(Method::PATCH, &format!("{NODES}/{name}{part}"), Some(patch)).await;
        self.judge.placed(name, Some(Place::read(&node)));
    }

    pub(super) async fn a_node(&mut self) -> Option<String> {
        let names: Vec<String> = self.snapshot().await.places.into_keys().collect();
        self.draw.among(&names).cloned()
    }

    async fn delete_node(&mut self) {
        let Some(name) = self.a_node().await else { return };
        self.log.step(&format!("node {name} goes"));
        self.must(Method::DELETE, &format!("{NODES}/{name}"), None).await;
        self.judge.placed(&name, None);
    }

    async fn cordon(&mut self) {
        let Some(name) = self.a_node().await else { return };
        let is_cordoned = self.draw.chance(400);
        self.log.step(&format!("node {name} is cordoned: {is_cordoned}"));
        let patch = json!({ "spec": { "unschedulable": is_cordoned } });
        self.change_node(&name, "", patch).await;
    }

    async fn taint(&mut self) {
        let Some(name) = self.a_node().await else { return };
        let is_tainted = self.draw.chance(500);
        self.log.step(&format!("node {name} is tainted: {is_tainted}"));
        let taint = json!({ "key": TAINT, "effect": "NoSchedule" });
        let taints = if is_tainted { json!([taint]) } else { json!(null) };
        self.change_node(&name, "", json!({ "spec": { "taints": taints } })).await;
    }

    async fn resize(&mut self) {
        let Some(name) = self.a_node().await else { return };
        let machine = Machine::drawn(&mut self.draw);
        self.log.step(&format!("node {name} is now {machine:?}, but for its zone"));
        self.change_node(&name, "/status", json!({ "status": machine.status() })).await;
    }

    /// Somebody else binds a pod.
    async fn bind_behind(&mut self) {
        let waits =
            |pod: &Standing| pod.node.is_empty() && !pod.is_going && !pod.is_ended && !pod.is_gated;
        let (Some(pod), Some(node)) = (self.a_pod(waits).await, self.a_node().await) else {
            return;
        };
        self.log.step(&format!("somebody else binds {} to {node}", pod.name));
        let binding = json!({ "metadata": { "name": pod.name }, "target": { "name": node } });
        self.must(Method::POST, &format!("{PODS}/{}/binding", pod.name), Some(binding)).await;
        self.judge.taken(&pod.uid, &pod.name, &node);
    }

    pub(super) fn change_weather(&mut self) {
        let all = [Weather::Fair, Weather::Windy, Weather::Windy, Weather::Stormy];
        let weather = all[self.draw.below(all.len())];
        self.log.step(&format!("the network is {weather:?}"));
        self.network.turn(weather);
    }

    fn kill(&mut self) {
        let slot = self.draw.below(self.slots.len());
        self.log.step("a scheduler is killed");
        if let Some(who) = self.remove(slot) {
            self.log.note(&format!("s{who} is killed"));
        }
    }

    fn stop(&mut self) {
        let slot = self.draw.below(self.slots.len());
        self.log.step("a scheduler is asked to end");
        if let Some(runner) = &self.slots[slot] {
            self.log.note(&format!("s{} is asked to end", runner.who));
            runner.stop.cancel();
        }
    }

    fn cut_off(&mut self) {
        let slot = self.draw.below(self.slots.len());
        let time = self.draw.millis(500, 40_000);
        self.log.step("a scheduler is cut off");
        if let Some(runner) = &self.slots[slot] {
            self.log.note(&format!("s{} is cut off for {time:?}", runner.who));
            self.network.cut(runner.who, time);
        }
    }
}
