//! Quotas, how they stand and who is charged to them.

use std::collections::BTreeMap;

use api::elastic_quota::{DEFAULT_QUOTA, ROOT_QUOTA, SYSTEM_QUOTA};
use engine::fact::quantities;
use engine::ledger::Ledger;
use engine::quota::{self, ByResource, Forest, Standing, View};
use serde_json::{Map, Value, json};

use super::super::Query;

/// What is asked of quotas.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    /// One of them; all of a tree where none is named.
    name: Option<String>,
    /// The tree.
    tree: String,
    /// Whether their pods are shown.
    with_pods: bool,
}

impl Asked {
    pub(super) fn of(name: Option<&str>, query: &Query) -> Self {
        Self {
            name: name.map(str::to_owned),
            tree: query.get("tree").cloned().unwrap_or_default(),
            with_pods: query.get("includePods").is_some_and(|text| text == "true"),
        }
    }
}

/// Pods of a quota, as they are shown.
type Pods = Map<String, Value>;

/// What is known of quotas.
pub(super) struct Seen {
    forest: Forest,
    /// By quota.
    pods: BTreeMap<Box<str>, Pods>,
}

impl Seen {
    pub(super) fn of(ledger: &Ledger, asked: &Asked) -> Self {
        let mut pods: BTreeMap<Box<str>, Pods> = BTreeMap::new();
        if asked.with_pods {
            let is_asked = |quota: &str| asked.name.as_deref().is_none_or(|name| name == quota);
            for (quota, _, row, amounts) in ledger.quota_pods().filter(|own| is_asked(own.0)) {
                let own = json!({ "isAssigned": row.is_placed(), "resource": quantities(amounts) });
                let name = format!("{}/{}", row.namespace, row.name);
                pods.entry(quota.into()).or_default().insert(name, own);
            }
        }
        Self { forest: ledger.quotas.forest().clone(), pods }
    }

    /// What is shown; none where there is no such quota.
    pub(super) fn shown(mut self, asked: &Asked) -> Option<Value> {
        let version = self.forest.version();
        let tree = match &asked.name {
            Some(name) => self.forest.find(name).tree,
            None => asked.tree.as_str().into(),
        };
        let pods = self.pods;
        // A tree of which nobody has told has nothing in it.
        let Some(view) = self.forest.view(&tree) else {
            return asked.name.is_none().then(|| json!({}));
        };
        let told = |name: &str| {
            let own = shown((view, &tree), name, version)?;
            let pods = asked.with_pods.then(|| pods.get(name).cloned().unwrap_or_default());
            Some(with(own, pods))
        };
        if let Some(name) = &asked.name {
            return told(name);
        }
        let always = [DEFAULT_QUOTA, SYSTEM_QUOTA].into_iter().filter(|_| tree.is_empty());
        let names = view.register().iter().map(|fact| &*fact.name).chain(always);
        let all = names.filter(|name| *name != ROOT_QUOTA);
        Some(
            all.filter_map(|name| Some((name.to_owned(), told(name)?)))
                .collect::<Map<_, _>>()
                .into(),
        )
    }
}

fn with(mut own: Value, pods: Option<Pods>) -> Value {
    if let Some(pods) = pods {
        own["podCache"] = pods.into();
    }
    own
}

/// What of a sum is a quota's own, and not of those below it.
fn own(all: &ByResource, below: &[Standing], of: fn(&Standing) -> &ByResource) -> ByResource {
    let less = |name: &str| -> i64 {
        below.iter().map(|one| of(one).get(name).copied().unwrap_or(0)).sum()
    };
    all.iter().map(|(name, sum)| (name.clone(), sum.saturating_sub(less(name)))).collect()
}

/// One quota of a tree, by the names of Koordinator's fields; none where it is nowhere.
fn shown((view, tree): (View<'_>, &str), name: &str, version: u64) -> Option<Value> {
    let standing = view.standing(name)?;
    let fact = view.register().get(name);
    let below: Vec<Standing> = view.below(name).filter_map(|child| view.standing(child)).collect();
    let list = |own: &ByResource| json!(quota::quantities(own));
    let said =
        |of: fn(&quota::QuotaFact) -> &ByResource| fact.map_or(json!({}), |own| list(of(own)));
    let own_used = own(&standing.used, &below, |one| &one.used);
    let own_fixed = own(&standing.non_preemptible_used, &below, |one| &one.non_preemptible_used);
    let own_request = own(&standing.child_request, &below, |one| &one.limited_request);
    let own_fixed_request =
        own(&standing.non_preemptible_request, &below, |one| &one.non_preemptible_request);
    Some(json!({
        "name": name,
        "parentName": fact.map_or(ROOT_QUOTA, |own| &own.parent),
        "isParent": fact.is_some_and(|own| own.is_parent),
        "runtimeVersion": version,
        "allowLentResource": fact.is_none_or(|own| own.is_lendable),
        "tree": tree,
        "max": said(|own| &own.max),
        "min": said(|own| &own.min),
        "sharedWeight": said(|own| &own.weight),
        "autoScaleMin": list(&standing.kept_min),
        "used": list(&standing.used),
        "nonPreemptibleUsed": list(&standing.non_preemptible_used),
        "request": list(&standing.request),
        "nonPreemptibleRequest": list(&standing.non_preemptible_request),
        "childRequest": list(&standing.child_request),
        "runtime": list(&standing.runtime),
        "allocated": list(&standing.allocated),
        "guaranteed": list(&standing.guaranteed),
        "selfUsed": list(&own_used),
        "selfNonPreemptibleUsed": list(&own_fixed),
        "selfRequest": list(&own_request),
        "selfNonPreemptibleRequest": list(&own_fixed_request),
    }))
}

#[cfg(test)]
mod tests {
    use engine::fact::Fact;
    use engine::quota::{QuotaFact, Settings, Trees};

    use super::*;

    #[test]
    fn a_quota_is_shown_in_the_tree_that_those_above_it_say() {
        let mut ledger = Ledger::default();
        ledger.keep_quotas(Settings { trees: Trees::Many, ..Settings::default() });
        let quota = |name: &str, parent: &str, tree: &str| QuotaFact {
            parent: parent.into(),
            tree_id: tree.into(),
            is_parent: true,
            ..QuotaFact::new(name, ByResource::new())
        };
        for fact in [
            quota("pool", ROOT_QUOTA, "t1"),
            quota("team", "pool", ""),
            quota("other", ROOT_QUOTA, ""),
        ] {
            ledger.apply(Fact::Quota(Box::new(fact)));
        }
        for (name, tree) in [("pool", "t1"), ("team", "t1"), ("other", "")] {
            let asked = Asked { name: Some(name.to_owned()), ..Asked::default() };
            let shown = Seen::of(&ledger, &asked).shown(&asked).unwrap();
            assert_eq!(shown["tree"], tree, "{name}");
        }
    }
}
