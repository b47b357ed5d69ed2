//! Who has which share of the cluster: the trees of quotas, read off a ledger that is told the objects of the
//! cluster, as the one is by which pods are let in.

mod text;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::ElasticQuota;
use api::elastic_quota::{DEFAULT_QUOTA, QUOTA_NAME_LABEL, ROOT_QUOTA, SYSTEM_QUOTA};
use chassis::client::{Client, Error, ListOptions, Object};
use engine::fact::Fact;
use engine::ledger::{Ledger, QuotaHolders};
pub use engine::quota::Trees;
use engine::quota::{ByResource, QuotaFact, Settings, View, quantities};
use serde_json::{Value, json};

use super::reading::Read;
use super::status::{Fault, faults_of, reserved};
use crate::config::Configuration;
use crate::message::Kind;
use crate::why;

/// The kind of which quotas are.
const QUOTAS: &str = "elasticquotas.scheduling.sigs.k8s.io";
/// How many pods of a quota are shown.
pub const PODS_MAX: usize = 20;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// One quota, those above and those below it; all where none is named.
    pub quota: Option<String>,
    /// Whether it is said who uses them.
    pub with_pods: bool,
    /// Whether quotas say which tree they are of.
    pub trees: Trees,
}

/// Who has which share of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shares {
    /// Tree after tree, each quota before those below it.
    pub quotas: Vec<Share>,
    /// Quotas that count for nothing, and why.
    pub astray: Vec<(String, String)>,
    /// Quotas that pods name and that are not there, and how many pods name each.
    pub missed: Vec<(String, usize)>,
    /// What is wrong with quotas besides, as their condition `Ready` says it.
    pub faults: Vec<String>,
    /// Objects that could not be read, and why: they are not counted.
    pub unread: Vec<String>,
}

/// One share of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Share {
    /// The quota.
    pub quota: String,
    /// Its tree; empty for that of the whole cluster.
    pub tree: String,
    /// How many are above it.
    pub depth: usize,
    /// By the name of the resource, of those that it counts.
    pub resources: BTreeMap<String, Figures>,
    /// The largest pods of it and of those below, where that was asked.
    pub pods: QuotaHolders,
}

/// What a quota has of a resource; nothing where it is held to nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// What it is guaranteed.
    pub min: Option<i64>,
    /// What it never goes beyond.
    pub max: Option<i64>,
    /// What it may use now.
    pub runtime: Option<i64>,
    /// What its pods ask for.
    pub request: i64,
    /// What they use.
    pub used: i64,
    /// What of its guarantee others use.
    pub lent: i64,
    /// What it uses beyond its guarantee.
    pub borrowed: i64,
}

/// Why it cannot be said.
#[derive(Debug, thiserror::Error)]
pub enum SharesError {
    /// There is no such quota.
    #[error(
        "there is no quota {0}; `kubectl get elasticquotas --all-namespaces` lists those there are"
    )]
    NoQuota(String),
    /// There are no quotas at all.
    #[error(
        "the server does not serve {QUOTAS}, so that there are no quotas; `gantry crds | kubectl apply -f -` \
         installs it"
    )]
    NotServed,
    /// The cluster does not tell.
    #[error(transparent)]
    Api(#[from] Error),
}

/// Says who has which share, from the objects of the cluster: nodes, pods and quotas are listed once. They are
/// reckoned as the first profile does that looks at them.
///
/// # Errors
/// When there is no such quota, or a kind cannot be listed.
pub async fn from_objects(
    client: &Client,
    configuration: &Configuration,
    question: &Question,
) -> Result<Shares, SharesError> {
    let listed = match client.all::<ElasticQuota>().list(&ListOptions::default()).await {
        Err(error) if error.is_not_found() => return Err(SharesError::NotServed),
        listed => listed?,
    };
    let args = configuration.quota_args();
    let settings = args.map(|args| args.settings).unwrap_or_default();
    let mut ledger = Ledger::default();
    ledger.keep_quotas(Settings { trees: question.trees, ..settings });
    let quotas = Quotas::of(listed.items, args.map(|args| &*args.namespace));
    quotas.apply(&mut ledger);
    let odd = listed.malformed.iter();
    let odd =
        odd.map(|(own, why)| format!("{:?} {}: {why}", Kind::ElasticQuota, own.identity().key()));
    let mut unread: Vec<String> = odd.collect();
    let kinds = BTreeSet::from([Kind::Node, Kind::Pod]);
    unread.extend(why::fill(client, configuration, &mut ledger, &kinds).await?);
    let mut shares = Shares { unread, ..Shares::of(&mut ledger, question)? };
    shares.find_faults(&ledger, &quotas, question);
    Ok(shares)
}

/// The quotas of a cluster, each read once.
struct Quotas<'a> {
    all: Vec<Read>,
    /// Where those of every cluster count alone, if in one namespace.
    namespace: Option<&'a str>,
}

impl<'a> Quotas<'a> {
    fn of(all: Vec<ElasticQuota>, namespace: Option<&'a str>) -> Self {
        Self { all: all.into_iter().map(|own| Read::of(Arc::new(own))).collect(), namespace }
    }

    /// Has a ledger know of those that count.
    fn apply(&self, ledger: &mut Ledger) {
        for own in &self.all {
            if reserved(self.namespace, &own.object).is_none() {
                ledger.apply(Fact::Quota(Box::new(QuotaFact::clone(&own.fact))));
            }
        }
    }
}

impl Shares {
    /// Who has which share by a ledger that is told all quotas.
    fn of(ledger: &mut Ledger, question: &Question) -> Result<Self, SharesError> {
        let mut shares = Self::default();
        let trees: Vec<Box<str>> = ledger.quotas.forest().trees().map(Into::into).collect();
        for tree in trees {
            let Some(view) = ledger.quotas.forest_mut().view(&tree) else { continue };
            shares.walk(view, &tree);
            let misplaced = view.misplaced();
            let misplaced = misplaced.map(|(name, why)| (name.to_owned(), why.to_string()));
            shares.astray.extend(misplaced);
        }
        for fact in ledger.quotas.forest().register().conflicts() {
            let name = format!("{}/{}", fact.namespace, fact.name);
            shares.astray.push((name, "an older quota has its name".to_owned()));
        }
        if let Some(name) = &question.quota {
            shares.keep(ledger, name)?;
        }
        let missed = ledger.quotas_missed().into_iter().filter(|_| question.quota.is_none());
        shares.missed = missed.map(|(name, count)| (name.to_owned(), count)).collect();
        let is_asked = |own: &Share| question.quota.as_ref() == Some(&own.quota);
        shares.quotas.retain(|own| !own.is_apart() || !own.is_idle() || is_asked(own));
        if question.with_pods || question.quota.is_some() {
            // Whoever uses one uses all above: he is told of where he is charged.
            let is_told = |share: &&mut Share| match &question.quota {
                Some(name) => share.quota == *name,
                None => share.quota != ROOT_QUOTA,
            };
            for share in shares.quotas.iter_mut().filter(is_told) {
                let scope = if question.quota.is_some() { Scope::WithBelow } else { Scope::Alone };
                share.pods = holders(ledger, &share.quota, scope);
            }
        }
        Ok(shares)
    }

    /// Takes in a tree, each quota before those below it.
    fn walk(&mut self, view: View<'_>, tree: &str) {
        let mut next = vec![(0, ROOT_QUOTA)];
        let said = view.register().iter().flat_map(|fact| fact.max.keys()).map(|name| &**name);
        let counted: BTreeSet<&str> = said.chain(["cpu", "memory"]).collect();
        let mut lent: BTreeMap<&str, ByResource> = BTreeMap::new();
        let first = self.quotas.len();
        while let Some((depth, name)) = next.pop() {
            let mut below: Vec<&str> = view.below(name).collect();
            if name == ROOT_QUOTA && tree.is_empty() {
                below.extend([DEFAULT_QUOTA, SYSTEM_QUOTA]);
            }
            lent.extend(view.lent_below(name));
            next.extend(below.into_iter().rev().map(|child| (depth + 1, child)));
            let mut own = Share::of(view, name, lent.remove(name).unwrap_or_default());
            if matches!(name, ROOT_QUOTA | DEFAULT_QUOTA | SYSTEM_QUOTA) {
                // They have everything: what nobody shares out is of no interest.
                own.resources.retain(|resource, _| counted.contains(&**resource));
            }
            self.quotas.push(Share { tree: tree.to_owned(), depth, ..own });
        }
        // What the two ask for takes part in no division. What they use counts for the cluster.
        if let Some((root, below)) = self.quotas[first..].split_first_mut() {
            below.iter().filter(|own| own.is_apart()).for_each(|own| root.add_request(own));
        }
    }

    /// Keeps one quota, those above and those below it.
    fn keep(&mut self, ledger: &mut Ledger, name: &str) -> Result<(), SharesError> {
        let tree = ledger.quotas.forest().find(name).tree;
        let view = ledger.quotas.forest_mut().view(&tree);
        let above: BTreeSet<&str> = view.iter().flat_map(|view| view.chain(name)).collect();
        let is_below = |view: &View<'_>, own: &str| view.chain(own).any(|above| above == name);
        let is_kept = |own: &Share| {
            own.tree == *tree
                && (own.quota == ROOT_QUOTA
                    || above.contains(&*own.quota)
                    || view.iter().any(|view| is_below(view, &own.quota)))
        };
        self.astray.retain(|(own, _)| own == name || own.ends_with(&format!("/{name}")));
        self.quotas.retain(is_kept);
        let is_there = self.quotas.iter().any(|own| own.quota == name);
        match is_there || !self.astray.is_empty() {
            true => Ok(()),
            false => Err(SharesError::NoQuota(name.to_owned())),
        }
    }

    /// Takes in what is wrong with these quotas, as far as they are asked about, besides that they are nowhere.
    fn find_faults(&mut self, ledger: &Ledger, quotas: &Quotas<'_>, question: &Question) {
        for own in &quotas.all {
            let metadata = &own.object.metadata;
            if question.quota.as_ref().is_some_and(|asked| *asked != metadata.name) {
                continue;
            }
            let faults = faults_of(ledger.quotas.forest(), own, quotas.namespace).into_iter();
            let words = faults.filter(|fault| !fault.is_misplaced()).map(|fault| match fault {
                // Another one may have its name.
                Fault::Reserved { .. } => {
                    format!("quota {}/{}: {fault}", metadata.namespace, metadata.name)
                }
                _ => format!("quota {}: {fault}", metadata.name),
            });
            self.faults.extend(words);
        }
    }

    /// What has to be known besides, one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let astray = self.astray.iter();
        let astray = astray.map(|(name, why)| format!("quota {name} counts for nothing: {why}"));
        let unread = self.unread.iter();
        let unread =
            unread.map(|unread| format!("not counted, because it cannot be read: {unread}"));
        let missed = self.missed.iter().map(|(name, count)| {
            let who = if *count == 1 { "1 pod names" } else { &format!("{count} pods name") };
            format!(
                "{who} quota {name}, which does not exist, and counts elsewhere: create it, or correct label \
                 {QUOTA_NAME_LABEL}"
            )
        });
        astray.chain(self.faults.iter().cloned()).chain(missed).chain(unread).collect()
    }

    /// The same for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let quotas: Vec<Value> = self.quotas.iter().map(Share::to_json).collect();
        let mut json = json!({ "quotas": quotas });
        if !self.astray.is_empty() {
            let astray = self.astray.iter();
            let astray = astray.map(|(name, why)| json!({ "quota": name, "why": why }));
            json["countingForNothing"] = astray.collect();
        }
        if !self.unread.is_empty() {
            json["unread"] = json!(self.unread);
        }
        json
    }
}

/// Whose pods are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Those of a quota itself.
    Alone,
    /// Those of quotas below it as well.
    WithBelow,
}

/// The largest pods of a quota.
fn holders(ledger: &Ledger, quota: &str, scope: Scope) -> QuotaHolders {
    match scope {
        Scope::WithBelow => ledger.quota_holders(quota, PODS_MAX),
        Scope::Alone => {
            let mut all = ledger.quota_holders(quota, usize::MAX);
            all.first.retain(|own| *own.quota == *quota);
            all.all = all.first.len();
            all.first.truncate(PODS_MAX);
            all
        }
    }
}

impl Share {
    fn of(view: View<'_>, name: &str, lent: ByResource) -> Self {
        let standing = view.standing(name).unwrap_or_default();
        let fact = view.register().get(name).filter(|_| name != ROOT_QUOTA);
        let of = |list: &ByResource, resource: &str| list.get(resource).copied();
        let counted = standing.used.keys().map(|resource| {
            let figures = Figures {
                min: fact.and_then(|own| of(&own.min, resource)),
                max: fact.and_then(|own| of(&own.max, resource)),
                runtime: of(&standing.runtime, resource),
                request: of(&standing.child_request, resource).unwrap_or(0),
                used: of(&standing.used, resource).unwrap_or(0),
                lent: of(&lent, resource).unwrap_or(0),
                borrowed: of(&standing.borrowed, resource).unwrap_or(0),
            };
            (resource.to_string(), figures)
        });
        Self { quota: name.to_owned(), resources: counted.collect(), ..Self::default() }
    }

    /// Whether it is one of the two that take what they need before anything is divided.
    fn is_apart(&self) -> bool {
        matches!(&*self.quota, DEFAULT_QUOTA | SYSTEM_QUOTA)
    }

    /// Whether nobody uses it or asks for any of it.
    fn is_idle(&self) -> bool {
        self.resources.values().all(|own| own.request == 0 && own.used == 0)
    }

    /// What another one asks for is asked for of this one.
    fn add_request(&mut self, other: &Self) {
        for (resource, own) in &mut self.resources {
            let more = other.resources.get(resource).map_or(0, |other| other.request);
            own.request = own.request.saturating_add(more);
        }
    }

    fn to_json(&self) -> Value {
        let list = |of: fn(&Figures) -> Option<i64>| {
            let own = self.resources.iter();
            let own: ByResource =
                own.filter_map(|(name, own)| Some((name.as_str().into(), of(own)?))).collect();
            json!(quantities(&own))
        };
        let mut json = json!({
            "quota": self.quota, "tree": self.tree, "depth": self.depth,
            "min": list(|own| own.min), "max": list(|own| own.max),
            "runtime": list(|own| own.runtime), "request": list(|own| Some(own.request)),
            "used": list(|own| Some(own.used)), "lent": list(|own| Some(own.lent)),
            "borrowed": list(|own| Some(own.borrowed)),
        });
        if self.pods.all > 0 {
            let pods = self.pods.first.iter().map(|own| {
                json!({ "namespace": own.pod.namespace, "pod": own.pod.name, "quota": own.quota,
                        "node": own.node, "priority": own.priority,
                        "requests": engine::fact::quantities(&own.amounts) })
            });
            json["pods"] = pods.collect();
            json["podsLeftOut"] = json!(self.pods.all - self.pods.first.len());
        }
        json
    }
}
