//! Gangs and quotas: who makes, changes and ends them.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;
use serde_json::json;

use super::World;
use super::actions::PODS_MAX;
use crate::draw::Draw;
use crate::gangs::Gang;
use crate::judge::Standing;
use crate::lending::Regime;
use crate::shapes::{BATCH, Shape, Tenure};
use crate::shares::{self, LEAVES, Share};

pub(super) const GROUPS: &str =
    "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups";
pub(super) const QUOTAS: &str =
    "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/elasticquotas";

/// For how long a quota may use too much before pods have to go.
const OVERUSE_WAIT: &str = "4s";

/// What is drawn of a world with gangs and quotas. It has choices of its own: worlds without any are what
/// they would be if there were none.
pub(super) struct Batch {
    pub(super) draw: Draw,
    pub(super) regime: Regime,
    /// Whether a pod that was asked to go is made again by whoever made it.
    is_controlled: bool,
    gangs_made: usize,
    /// Gangs whose objects are still to be made.
    undescribed: Vec<Arc<Gang>>,
    /// What members of gangs ask for, and how many were made.
    shapes: BTreeMap<String, (Shape, usize)>,
    /// Who comes for what others use.
    challengers: Vec<Shape>,
}

impl Batch {
    pub(super) fn drawn(seed: u64) -> Option<Self> {
        let mut draw = Draw::new(seed, "batch");
        let is_there = draw.chance(600);
        let regime = Regime {
            lends: draw.chance(750),
            preempts_for_gangs: draw.chance(350),
            preempts_in_quotas: draw.chance(750),
            revokes: draw.chance(500),
        };
        let is_controlled = draw.chance(600);
        is_there.then_some(Self {
            draw,
            regime,
            is_controlled,
            gangs_made: 0,
            undescribed: Vec::new(),
            shapes: BTreeMap::new(),
            challengers: Vec::new(),
        })
    }

    /// The profile that heeds gangs and quotas.
    pub(super) fn configuration(&self) -> String {
        let Regime { lends, preempts_for_gangs, preempts_in_quotas, revokes } = self.regime;
        let in_quotas = if preempts_in_quotas { ", {name: ElasticQuota}" } else { "" };
        format!(
            "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: {BATCH}
  plugins:
    preEnqueue: {{enabled: [{{name: Coscheduling}}]}}
    preFilter: {{enabled: [{{name: Coscheduling}}, {{name: ElasticQuota}}]}}
    postFilter: {{disabled: [{{name: '*'}}], enabled: [{{name: Coscheduling}}{in_quotas}]}}
    permit: {{enabled: [{{name: Coscheduling}}]}}
  pluginConfig:
  - name: Coscheduling
    args: {{enablePreemption: {preempts_for_gangs}}}
  - name: ElasticQuota
    args:
      enableRuntimeQuota: {lends}
      quotaGroupNamespace: default
      monitorAllQuotas: {revokes}
      delayEvictTime: {OVERUSE_WAIT}
      revokePodInterval: 1s
"
        )
    }
}

impl World {
    pub(super) async fn found_quotas(&mut self) {
        let Some(own) = &mut self.batch else { return };
        for share in Share::all_drawn(&mut own.draw) {
            self.log.note(&format!("quota {share:?}"));
            self.must(Method::POST, QUOTAS, Some(share.object())).await;
            self.judge.shared(&share.name, Some(&share));
        }
    }

    /// Something happens to gangs or quotas, or nothing does.
    pub(super) async fn act_on_batches(&mut self) {
        let Some(own) = &mut self.batch else { return };
        match own.draw.below(100) {
            0..16 => self.add_gangs().await,
            16..24 => self.add_member().await,
            24..32 => self.describe_gangs().await,
            32..34 => self.undescribe_gang().await,
            34..42 => self.resize_share().await,
            42..46 => self.lift_share().await,
            46..58 => self.add_claimants().await,
            58..66 => self.contest().await,
            66..80 => self.challenge().await,
            _ => {}
        }
    }

    /// Somebody uses much of a quota, or wants to.
    async fn add_claimants(&mut self) {
        let there = self.snapshot().await.pods.len();
        let Some(own) = &mut self.batch else { return };
        let shape = Shape::of_claimants(&mut own.draw);
        let count = (2 + own.draw.below(4)).min(PODS_MAX.saturating_sub(there));
        self.log.step(&format!("{count} claimants are made: {shape:?}"));
        for _ in 0..count {
            self.pods_made += 1;
            self.add_pod(&format!("p{}", self.pods_made), &shape).await;
        }
    }

    /// Two pods use all that a quota may, of its own or of what another one beside it is guaranteed. Somebody
    /// who has more of a claim to it comes later.
    async fn contest(&mut self) {
        let snapshot = self.snapshot().await;
        let Some(own) = self.batch.as_mut().filter(|_| snapshot.pods.len() + 2 <= PODS_MAX) else {
            return self.log.step("nobody contends for a quota");
        };
        let (used_by, wanted_by) = match own.draw.below(4) {
            0 => (LEAVES[0], LEAVES[1]),
            1 => (LEAVES[1], LEAVES[0]),
            _ => [(LEAVES[0], LEAVES[0]), (LEAVES[2], LEAVES[2])][own.draw.below(2)],
        };
        let chain = shares::chain(&snapshot.shares, used_by);
        let Some(most) = chain.iter().map(|share| share.max.cpu_millis).min() else {
            return self.log.step("nobody contends for a quota that is not there");
        };
        let shape = |draw: &mut Draw, quota, priority| Shape {
            quota: Some(quota),
            priority,
            tenure: Tenure::Movable,
            cpu_millis: most / 2,
            ..Shape::of_claimants(draw)
        };
        let user = shape(&mut own.draw, used_by, 0);
        let priority = if used_by == wanted_by { 1000 } else { 0 };
        let challenger = shape(&mut own.draw, wanted_by, priority);
        own.challengers.push(challenger);
        self.log.step(&format!("two use a quota that is contended for: {user:?}"));
        for _ in 0..2 {
            self.pods_made += 1;
            self.add_pod(&format!("p{}", self.pods_made), &user).await;
        }
    }

    /// Those come who want what others use.
    async fn challenge(&mut self) {
        let there = self.snapshot().await.pods.len();
        let Some(own) = &mut self.batch else { return };
        let count = own.challengers.len().min(PODS_MAX.saturating_sub(there));
        let challengers: Vec<Shape> = own.challengers.drain(..count).collect();
        for shape in challengers {
            self.pods_made += 1;
            self.log.step(&format!("p{} challenges who uses a quota: {shape:?}", self.pods_made));
            self.add_pod(&format!("p{}", self.pods_made), &shape).await;
        }
    }

    /// A gang comes, or two that start at once, or two that contend for the same nodes.
    async fn add_gangs(&mut self) {
        let there = self.snapshot().await.pods.len();
        let Some(own) = &mut self.batch else { return };
        let (are_two, start_at_once) = (own.draw.chance(400), own.draw.chance(500));
        let members = 2 + own.draw.below(4);
        let count = if are_two { 2 } else { 1 };
        if there + count * members > PODS_MAX {
            return self.log.step("no more gangs");
        }
        let numbers = own.gangs_made + 1..own.gangs_made + 1 + count;
        own.gangs_made += count;
        let names: Vec<String> = numbers.map(|number| format!("g{number}")).collect();
        let shape = Shape::of_members(&mut own.draw);
        let mut first: Option<Gang> = None;
        for name in &names {
            let Some(own) = &mut self.batch else { return };
            let group =
                if start_at_once { names.clone() } else { std::slice::from_ref(name).to_vec() };
            let mut gang = Gang::drawn(&mut own.draw, name, &group, members);
            if let Some(first) = first.as_ref().filter(|_| start_at_once) {
                gang.policy = first.policy;
            } else {
                gang.rivals = names.iter().filter(|other| *other != name).cloned().collect();
            }
            first.get_or_insert_with(|| gang.clone());
            self.add_gang(gang, &shape, members).await;
        }
    }

    async fn add_gang(&mut self, gang: Gang, shape: &Shape, members: usize) {
        let gang = Arc::new(gang);
        let shape = Shape { gang: Some(gang.clone()), ..shape.clone() };
        self.log.step(&format!("gang {} of {members} comes: {shape:?}", gang.name));
        let Some(own) = &mut self.batch else { return };
        own.shapes.insert(gang.name.clone(), (shape.clone(), members));
        if gang.is_object {
            own.undescribed.push(gang.clone());
            if own.draw.chance(600) {
                self.describe_gangs().await;
            }
        }
        for number in 0..members {
            self.add_pod(&format!("{}-{number}", gang.name), &shape).await;
        }
    }

    /// One more of a gang.
    async fn add_member(&mut self) {
        let there = self.snapshot().await.pods.len();
        let Some(own) = self.batch.as_mut().filter(|_| there < PODS_MAX) else { return };
        let names: Vec<String> = own.shapes.keys().cloned().collect();
        let Some(name) = own.draw.among(&names) else { return };
        let Some((shape, made)) = own.shapes.get_mut(name) else { return };
        *made += 1;
        let (pod, shape) = (format!("{name}-{}", *made - 1), shape.clone());
        self.log.step(&format!("one more of gang {name} comes"));
        self.add_pod(&pod, &shape).await;
    }

    /// Whoever made a pod makes another one of the kind, where it was asked to go and somebody looks after it.
    pub(super) async fn replace(&mut self, pod: &Standing) {
        let Some(shape) = self.judge.shape(&pod.name) else { return };
        let Some(own) = self.batch.as_mut().filter(|own| own.is_controlled) else { return };
        if !self.judge.was_sent_away(&pod.uid) {
            return;
        }
        let name = match shape.gang.as_ref().and_then(|gang| own.shapes.get_mut(&gang.name)) {
            Some((_, made)) => {
                *made += 1;
                format!("{}-{}", pod.name.split('-').next().unwrap_or_default(), *made - 1)
            }
            None => {
                self.pods_made += 1;
                format!("p{}", self.pods_made)
            }
        };
        self.log.note(&format!("{name} comes for {}", pod.name));
        self.add_pod(&name, &shape).await;
    }

    /// Objects are made for gangs that have none.
    pub(super) async fn describe_gangs(&mut self) {
        let Some(own) = &mut self.batch else { return };
        for gang in std::mem::take(&mut own.undescribed) {
            self.log.note(&format!("gang {} is described", gang.name));
            self.must(Method::POST, GROUPS, Some(gang.object())).await;
        }
    }

    /// The object of a gang goes, and comes again later.
    async fn undescribe_gang(&mut self) {
        let groups: Vec<String> = self.snapshot().await.groups.into_iter().collect();
        let Some(own) = &mut self.batch else { return };
        let Some(name) = own.draw.among(&groups) else { return };
        let gang = own.shapes.get(name).and_then(|(shape, _)| shape.gang.clone());
        own.undescribed.extend(gang);
        self.log.step(&format!("nothing describes gang {name}"));
        self.must(Method::DELETE, &format!("{GROUPS}/{name}"), None).await;
    }

    /// A quota has another ceiling.
    async fn resize_share(&mut self) {
        let shares = self.snapshot().await.shares;
        let Some(own) = &mut self.batch else { return };
        let all: Vec<&Share> = shares.values().collect();
        let Some(share) = own.draw.among(&all) else { return };
        let share = share.resized(&mut own.draw);
        self.log.step(&format!("quota {share:?}"));
        let patch = json!({ "spec": share.spec() });
        self.must(Method::PATCH, &format!("{QUOTAS}/{}", share.name), Some(patch)).await;
        self.judge.shared(&share.name, Some(&share));
    }

    /// A quota goes, so that nothing limits its pods, or comes again.
    async fn lift_share(&mut self) {
        let shares = self.snapshot().await.shares;
        let Some(own) = &mut self.batch else { return };
        let name = LEAVES[2];
        if shares.contains_key(name) {
            self.log.step(&format!("quota {name} goes"));
            self.must(Method::DELETE, &format!("{QUOTAS}/{name}"), None).await;
            return self.judge.shared(name, None);
        }
        let drawn = Share::all_drawn(&mut own.draw);
        let Some(share) = drawn.into_iter().find(|share| share.name == name) else { return };
        self.log.step(&format!("quota {share:?}"));
        self.must(Method::POST, QUOTAS, Some(share.object())).await;
        self.judge.shared(name, Some(&share));
    }
}
