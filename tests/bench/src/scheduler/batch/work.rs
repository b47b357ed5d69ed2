//! Pods in gangs or under quotas, and what must be so of them once their pods are bound.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, ensure};
use api::elastic_quota::{IS_PARENT_LABEL, PARENT_LABEL, QUOTA_NAME_LABEL};
use api::pod_group::{BIND_MEMBER_COUNT, POD_GROUP_LABEL};
use api::{ElasticQuota, Pod, PodGroup, Resource};
use chassis::client::ResourceType;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::super::cluster::Cluster;
use super::super::contender::Row;
use super::super::workload::{Size, Workload, pod};
use super::tree::Tree;
use crate::load::{
    NAMESPACE, POD_CPU_MILLIS, POD_MEMORY_MIB, PODS_PER_NODE_MAX, answered, each, unless_there,
};

/// Of so many pods a quota lets one in.
pub const WITHIN_OF: usize = 10;
/// A quota is guaranteed one of so many parts of what it may use at most.
const GUARANTEED_OF: usize = 2;

/// Nodes, and pods that wait for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// How large it is.
    pub size: Size,
    /// What is said of the pods.
    pub kind: Kind,
}

/// What is said of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// They are gangs of so many each.
    Gangs(usize),
    /// They are of quotas that let in a tenth of them.
    Quotas(Tree),
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Gangs(members) => write!(f, "{} in gangs of {members}", self.size),
            Kind::Quotas(tree) => {
                write!(f, "{}, of which {tree} let in {}", self.size, self.bound())
            }
        }
    }
}

fn gang_name(index: usize) -> String {
    format!("gang-{index:04}")
}

fn quota_name(index: usize) -> String {
    format!("quota-{index:04}")
}

/// A gang that starts when so many members can.
fn gang(index: usize, members: usize) -> Value {
    json!({"metadata": {"name": gang_name(index)}, "spec": {"minMember": members}})
}

/// A quota of a tree that lets in so many pods.
fn quota(tree: Tree, index: usize, pods: usize) -> Value {
    let amounts = |pods: usize, of: usize| {
        json!({
            "cpu": format!("{}m", pods * POD_CPU_MILLIS / of),
            "memory": format!("{}Mi", pods * POD_MEMORY_MIB / of),
        })
    };
    let mut labels = json!({IS_PARENT_LABEL: (index < tree.parents()).to_string()});
    if let Some(parent) = Tree::parent(index) {
        labels[PARENT_LABEL] = json!(quota_name(parent));
    }
    json!({
        "metadata": {"name": quota_name(index), "labels": labels},
        "spec": {"min": amounts(pods, GUARANTEED_OF), "max": amounts(pods, 1)},
    })
}

impl Work {
    /// How many pods get a node.
    pub fn bound(&self) -> usize {
        match self.kind {
            Kind::Gangs(_) => self.size.pods,
            Kind::Quotas(_) => self.size.pods / WITHIN_OF,
        }
    }

    /// Makes all of it, which nobody schedules yet.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn create(&self, cluster: &Cluster) -> Result<()> {
        cluster.resize(self.size.nodes).await?;
        match self.kind {
            Kind::Gangs(members) => {
                let gangs = self.size.pods / members;
                create::<PodGroup>(cluster, gangs, |index| gang(index, members)).await?;
            }
            Kind::Quotas(tree) => {
                let shares = tree.shares(self.bound());
                let quota = |index| quota(tree, index, shares[index]);
                create::<ElasticQuota>(cluster, shares.len(), quota).await?;
            }
        }
        cluster.create_pods(self.size.pods, |index| self.pod(index)).await
    }

    /// The pod with this number.
    fn pod(&self, index: usize) -> Value {
        let mut pod = pod(Workload::Plain, index);
        let (label, name) = match self.kind {
            Kind::Gangs(members) => (POD_GROUP_LABEL, gang_name(index / members)),
            Kind::Quotas(tree) => (QUOTA_NAME_LABEL, quota_name(tree.leaf_of(index))),
        };
        pod["metadata"]["labels"][label] = json!(name);
        pod
    }

    /// Makes sure that as many pods have a node as should, and only those, and that no node has too
    /// many.
    ///
    /// # Errors
    /// When something else is so: such a run is not measured.
    pub fn verify(&self, row: Row, pods: &[Pod]) -> Result<()> {
        let bound: Vec<&Pod> = pods.iter().filter(|pod| !pod.spec.node_name.is_empty()).collect();
        ensure!(bound.len() == self.bound(), "{} and not {} are bound", bound.len(), self.bound());
        // All ask for the same, of which a node has no room for more before it has no place for them.
        for (node, count) in counted(&bound, |pod| &pod.spec.node_name) {
            ensure!(count <= PODS_PER_NODE_MAX, "{count} pods are on node {node:?}");
        }
        match self.kind {
            // Whoever does not think does not know gangs.
            Kind::Gangs(members) if row == Row::Gantry => started_at_once(&bound, members),
            Kind::Gangs(_) => Ok(()),
            Kind::Quotas(tree) => within(&bound, tree, self.bound()),
        }
    }
}

/// Counts pods by what is said of them.
fn counted<'a, K: Ord>(pods: &[&'a Pod], key: impl Fn(&'a Pod) -> K) -> BTreeMap<K, usize> {
    let mut counts = BTreeMap::new();
    for pod in pods {
        *counts.entry(key(pod)).or_default() += 1;
    }
    counts
}

/// Makes sure that each pod says that it got its node with as many others as its gang has.
fn started_at_once(bound: &[&Pod], members: usize) -> Result<()> {
    for pod in bound {
        let said = pod.metadata.annotations.get(BIND_MEMBER_COUNT);
        let is_so = said.is_some_and(|said| *said == members.to_string());
        ensure!(is_so, "pod {} of {members} started with {said:?}", pod.metadata.name);
    }
    Ok(())
}

/// Makes sure that each quota has let in as many pods as it may.
fn within(bound: &[&Pod], tree: Tree, pods: usize) -> Result<()> {
    let counts = counted(bound, |pod| pod.metadata.labels.get(QUOTA_NAME_LABEL).cloned());
    for (index, share) in tree.shares(pods).into_iter().enumerate().skip(tree.parents()) {
        let name = quota_name(index);
        let count = counts.get(&Some(name.clone())).copied().unwrap_or_default();
        ensure!(count == share, "{count} pods of {name} are bound, and it may have {share}");
    }
    Ok(())
}

/// Makes so many objects of a kind.
async fn create<T: Resource>(
    cluster: &Cluster,
    count: usize,
    object: impl Fn(usize) -> Value,
) -> Result<()> {
    let access = &cluster.client.access::<IgnoredAny>(ResourceType::of::<T>(), NAMESPACE);
    each(0..count, |index| {
        let mut object = object(index);
        (object["apiVersion"], object["kind"]) = (json!(T::api_version()), json!(T::KIND));
        async move { unless_there(answered(|| access.create(&object)).await) }
    })
    .await
}

#[cfg(test)]
mod tests {
    use api::elastic_quota::{self, QuotaTerms};
    use api::pod_group::GangName;

    use super::*;

    fn work(pods: usize, kind: Kind) -> Work {
        Work { size: Size { nodes: 2, pods }, kind }
    }

    /// The pods of a load, of which those have a node that this says.
    fn pods(work: Work, is_bound: impl Fn(usize) -> bool) -> Vec<Pod> {
        let numbered = |index: usize| {
            let mut pod: Pod = serde_json::from_value(work.pod(index)).unwrap();
            if is_bound(index) {
                pod.spec.node_name = format!("node-{}", index % work.size.nodes);
                pod.metadata.annotations.insert(BIND_MEMBER_COUNT.to_owned(), "4".to_owned());
            }
            pod
        };
        (0..work.size.pods).map(numbered).collect()
    }

    #[test]
    fn what_is_said_of_gangs_and_quotas_is_what_schedulers_read() {
        let group: PodGroup = serde_json::from_value(gang(3, 4)).unwrap();
        assert_eq!((&*group.metadata.name, group.spec.min_member), ("gang-0003", 4));
        let member = pods(work(16, Kind::Gangs(4)), |_| false).remove(15);
        assert_eq!(GangName::of(&member), Some(GangName::Group("gang-0003")));
        let tree = Tree(6);
        let read = |index| serde_json::from_value::<ElasticQuota>(quota(tree, index, 3)).unwrap();
        let (top, leaf) = (read(0), read(5));
        let terms = [&top, &leaf].map(QuotaTerms::of);
        assert!(terms.iter().all(|terms| terms.malformed.is_empty()), "{terms:?}");
        assert_eq!(terms.map(|terms| terms.is_parent), [true, false]);
        assert_eq!(&*QuotaTerms::of(&leaf).parent, "quota-0000");
        assert_eq!(leaf.spec.max["cpu"].to_string(), "300m");
        assert_eq!(leaf.spec.min["memory"].to_string(), "192Mi");
        let pod = pods(work(20, Kind::Quotas(tree)), |_| false).remove(4);
        assert_eq!(elastic_quota::quota_name(&pod), Some("quota-0005"));
    }

    #[test]
    fn a_run_counts_where_those_are_bound_that_should_be() {
        let check = |work: Work, is_bound: fn(usize) -> bool, is_fine: bool| {
            let verified = work.verify(Row::Gantry, &pods(work, is_bound));
            assert_eq!(verified.is_ok(), is_fine, "{work}: {verified:?}");
        };
        let gangs = work(8, Kind::Gangs(4));
        check(gangs, |_| true, true);
        check(gangs, |index| index > 0, false);
        // Each of them says that it started with three others.
        check(work(8, Kind::Gangs(8)), |_| true, false);
        check(work(2 * PODS_PER_NODE_MAX, Kind::Gangs(4)), |_| true, true);
        check(work(2 * PODS_PER_NODE_MAX + 4, Kind::Gangs(4)), |_| true, false);
        // Of 60 pods in three quotas, six are let in: two of each, wherever they stand.
        let quotas = work(60, Kind::Quotas(Tree(3)));
        check(quotas, |index| index < 6, true);
        check(quotas, |index| (30..36).contains(&index), true);
        check(quotas, |index| index < 5, false);
        check(quotas, |index| index < 7, false);
        check(quotas, |index| index % 3 == 0 && index < 18, false);
    }
}
