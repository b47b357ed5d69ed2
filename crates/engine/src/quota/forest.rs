//! All trees of quotas: that of the whole cluster, and those of parts of it.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Freed;
use super::{
    Account, ByResource, DefaultQuota, Entry, Options, Preemptible, QuotaFact, QuotaRefusal,
    QuotaTree, RefusalReason, Register, View, amount, belongs,
};
use crate::needs::Amounts;

/// Whether quotas say which tree they are of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trees {
    /// There is one, whatever they say.
    #[default]
    One,
    /// They do.
    Many,
}

/// Which nodes quotas share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shared {
    /// All that there are.
    #[default]
    AllNodes,
    /// Those that take pods: neither cordoned, nor tainted because they are not ready or not reached.
    NodesInUse,
}

/// How quotas are read and reckoned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// How each tree is reckoned.
    pub options: Options,
    /// Whether there are several.
    pub trees: Trees,
    /// What becomes of pods that belong to no quota.
    pub default: DefaultQuota,
    /// Whether a pod that is being deleted is charged to nobody any longer.
    pub forgets_deleting: bool,
    /// Whether pods of the default quota never make room for others of it.
    pub spares_default: bool,
    /// Which nodes the tree of the whole cluster shares.
    pub shared: Shared,
}

/// A quota and the tree that it is in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuotaRef {
    /// The tree; empty for that of the whole cluster.
    pub tree: Box<str>,
    /// The quota.
    pub name: Box<str>,
}

/// All trees. Of several quotas of one name, only the oldest is in any of them.
#[derive(Debug, Clone, Default)]
pub struct Forest {
    settings: Settings,
    /// All quotas of all trees.
    register: Register,
    /// By what quotas call them. That of the whole cluster is always there.
    trees: BTreeMap<Box<str>, QuotaTree>,
    /// What all nodes have.
    nodes: BTreeMap<Box<str>, i128>,
    /// Whether anything happened since it was asked who may have more room.
    has_news: bool,
    /// How often anything happened.
    version: u64,
    /// How many thoughts there are, one within the other.
    thoughts: u32,
}

impl Forest {
    /// One without quotas.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let whole = (Box::default(), QuotaTree::new(settings.options));
        Self { settings, trees: [whole].into(), ..Self::default() }
    }

    /// How quotas are read and reckoned.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// All quotas of all trees.
    #[must_use]
    pub fn register(&self) -> &Register {
        &self.register
    }

    /// Takes in a quota. Whether that changes anything.
    pub fn put(&mut self, fact: QuotaFact) -> bool {
        let name = fact.name.clone();
        self.change(&name, |register| register.put(fact))
    }

    /// Forgets a quota. Whether there was one.
    pub fn remove(&mut self, namespace: &str, name: &str) -> bool {
        self.change(name, |register| register.remove(namespace, name))
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Register) -> bool) -> bool {
        let old = self.register.get(name).cloned();
        let was_in = self.find(name).tree;
        if !change(&mut self.register) {
            return false;
        }
        let new = self.register.get(name).cloned();
        if old != new {
            if let Some(old) = old {
                self.take_out(&was_in, &old);
            }
            if let Some(new) = new {
                self.plant(new);
            }
            if self.find(name).tree != was_in {
                self.follow_parents();
            }
            self.trees.retain(|id, tree| id.is_empty() || !tree.is_empty());
            self.share_out();
        }
        true
    }

    fn take_out(&mut self, tree: &str, fact: &QuotaFact) {
        if let Some(tree) = self.trees.get_mut(tree) {
            tree.remove(&fact.namespace, &fact.name);
        }
    }

    fn plant(&mut self, fact: QuotaFact) {
        let (tree, options) = (self.tree_of(&fact), self.settings.options);
        self.trees.entry(tree).or_insert_with(|| QuotaTree::new(options)).put(fact);
    }

    /// One quota is in another tree now: those go with it that are below it and name no tree themselves.
    fn follow_parents(&mut self) {
        let all = self.trees.iter().flat_map(|(id, tree)| {
            let strangers = tree.register().iter().filter(|fact| *self.tree_of(fact) != **id);
            strangers.map(|fact| (id.clone(), fact.clone()))
        });
        for (id, fact) in all.collect::<Vec<_>>() {
            self.take_out(&id, &fact);
            self.plant(fact);
        }
    }

    /// What is charged from now on is only thought of, and taken back before that ends: it is no news.
    pub(crate) fn begin_thought(&mut self) {
        if self.thoughts == 0 {
            self.trees.values_mut().for_each(QuotaTree::begin_thought);
        }
        self.thoughts += 1;
    }

    /// The end of a thought.
    pub(crate) fn end_thought(&mut self) {
        self.thoughts = self.thoughts.saturating_sub(1);
        if self.thoughts == 0 {
            self.trees.values_mut().for_each(QuotaTree::end_thought);
        }
    }

    /// Whether what is charged is only thought of.
    pub(crate) fn is_thought(&self) -> bool {
        self.thoughts > 0
    }

    fn note(&mut self) {
        if self.is_thought() {
            return;
        }
        self.has_news = true;
        self.version = self.version.wrapping_add(1);
    }

    /// A number that is another one whenever anything has happened.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    fn tree_of(&self, fact: &QuotaFact) -> Box<str> {
        match self.settings.trees {
            Trees::One => Box::default(),
            Trees::Many => self.register.tree_of(fact).into(),
        }
    }

    /// A node has this, where it had something else; nothing where it was not there, or is not any longer.
    pub fn set_node(&mut self, old: Option<&Amounts>, new: Option<&Amounts>) {
        if old == new {
            return;
        }
        for (amounts, sign) in old.map(|old| (old, -1)).into_iter().chain(new.map(|new| (new, 1))) {
            for name in amounts.names() {
                let sum = self.nodes.entry(name.into()).or_default();
                *sum += i128::from(amounts.of(name)) * sign;
            }
        }
        self.nodes.retain(|_, sum| *sum != 0);
        self.share_out();
    }

    /// Gives each tree what it has: the parts of the cluster what their roots say, and the whole cluster
    /// what they leave.
    fn share_out(&mut self) {
        self.note();
        let mut rest = self.nodes.clone();
        let mut totals: BTreeMap<Box<str>, ByResource> = BTreeMap::new();
        if self.settings.trees == Trees::Many {
            let is_root = |fact: &&QuotaFact| {
                fact.is_root && !fact.tree_id.is_empty() && fact.excess().is_none()
            };
            let roots = self.register.iter().filter(is_root);
            for (root, total) in roots.filter_map(|root| Some((root, root.total.as_ref()?))) {
                // Of several roots of one tree, the first by name counts.
                if totals.contains_key(&root.tree_id) {
                    continue;
                }
                totals.insert(root.tree_id.clone(), total.clone());
                if !root.is_counted_twice {
                    // Nodes that take no pods may be left out already.
                    let is_idle_counted = self.settings.shared == Shared::AllNodes;
                    let idle = |name: &str| match is_idle_counted {
                        true => 0,
                        false => root.unschedulable.get(name).copied().unwrap_or(0),
                    };
                    for (name, sum) in &mut rest {
                        let own = total.get(name).map_or(0, |own| own - idle(name));
                        *sum -= i128::from(own.max(0));
                    }
                }
            }
        }
        let rest = rest.into_iter().map(|(name, sum)| (name, amount(sum.max(0))));
        totals.insert(Box::default(), rest.collect());
        for (id, tree) in &mut self.trees {
            tree.set_capacity(totals.remove(id).unwrap_or_default());
        }
    }

    /// The quota that a pod of a namespace is charged to, by what it names; none where it is charged to
    /// nobody.
    #[must_use]
    pub fn belongs(&self, named: Option<&str>, namespace: &str) -> Option<QuotaRef> {
        let name = belongs(&self.register, named, namespace, self.settings.default)?;
        Some(self.find(name))
    }

    /// Whether pods can be charged to a quota of this name.
    #[must_use]
    pub fn is_there(&self, name: &str) -> bool {
        let own = self.belongs(Some(name), "");
        own.is_some_and(|own| *own.name == *name)
    }

    /// A quota of this name, and the tree that it is in.
    #[must_use]
    pub fn find(&self, name: &str) -> QuotaRef {
        let tree = self.register.get(name).map(|fact| self.tree_of(fact)).unwrap_or_default();
        QuotaRef { tree, name: name.into() }
    }

    pub(crate) fn charge(&mut self, quota: &QuotaRef, more: &Amounts, entry: Entry) {
        self.note();
        if let Some(tree) = self.trees.get_mut(&quota.tree) {
            tree.charge(&quota.name, more, entry);
        }
    }

    pub(crate) fn charge_all(&mut self, quota: &QuotaRef, more: &Account, sign: i64) {
        self.note();
        if let Some(tree) = self.trees.get_mut(&quota.tree) {
            tree.charge_all(&quota.name, more, sign);
        }
        self.trees.retain(|id, tree| id.is_empty() || !tree.is_empty());
    }

    /// Whether a quota has room for so much, and all those above it have.
    ///
    /// # Errors
    /// Who has not, and of what.
    pub fn admit(
        &mut self,
        quota: &QuotaRef,
        request: &Amounts,
        preemptible: Preemptible,
    ) -> Result<(), QuotaRefusal> {
        let all = &self.register;
        match self.trees.get_mut(&quota.tree) {
            Some(tree) => {
                View { all, ..tree.view_for(&quota.name) }.admit(&quota.name, request, preemptible)
            }
            None => Err(QuotaRefusal {
                quota: quota.name.clone(),
                path: vec![quota.name.clone()],
                reason: RefusalReason::Unknown,
            }),
        }
    }

    /// Quotas that may have more room than when this was last asked.
    pub fn take_freed(&mut self) -> Freed {
        self.has_news = false;
        let mut all = BTreeSet::new();
        let mut is_all = false;
        for tree in self.trees.values_mut() {
            match tree.take_freed() {
                Freed::All => is_all = true,
                Freed::These(names) => all.extend(names),
            }
        }
        if is_all { Freed::All } else { Freed::These(all) }
    }

    /// Whether the quotas of any tree share more than when this was last asked.
    pub fn take_growth(&mut self) -> bool {
        self.trees.values_mut().fold(false, |grown, tree| tree.take_growth() | grown)
    }

    /// A tree as it is now; none where there is no such tree.
    pub fn view(&mut self, tree: &str) -> Option<View<'_>> {
        let all = &self.register;
        self.trees.get_mut(tree).map(|tree| View { all, ..tree.view() })
    }

    /// A tree as it was when it was last looked at, with what was charged since; none where there is no such
    /// tree, or its quotas have changed.
    #[must_use]
    pub fn last_view(&self, tree: &str) -> Option<View<'_>> {
        let view = self.trees.get(tree).and_then(QuotaTree::last_view)?;
        Some(View { all: &self.register, ..view })
    }

    /// Whether anything happened since it was asked who may have more room.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// What the trees are called.
    pub fn trees(&self) -> impl Iterator<Item = &str> {
        self.trees.keys().map(|id| &**id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(millis: i64) -> ByResource {
        [("cpu".into(), millis)].into()
    }

    fn node(millis: i64) -> Amounts {
        Amounts { cpu_millis: millis, ..Amounts::default() }
    }

    fn forest(trees: Trees) -> Forest {
        let mut forest = Forest::new(Settings { trees, ..Settings::default() });
        forest.set_node(None, Some(&node(10_000)));
        let root = QuotaFact {
            tree_id: "pool".into(),
            is_root: true,
            ..QuotaFact::new("pool-root", cpu(i64::MAX))
        };
        forest.put(QuotaFact { total: Some(cpu(4_000)), min: cpu(4_000), is_parent: true, ..root });
        let (tree_id, parent) = ("pool".into(), "pool-root".into());
        forest.put(QuotaFact { tree_id, parent, ..QuotaFact::new("inside", cpu(9_000)) });
        forest.put(QuotaFact::new("outside", cpu(9_000)));
        forest
    }

    fn fits(forest: &mut Forest, name: &str, millis: i64) -> bool {
        let quota = forest.belongs(Some(name), "ns").unwrap();
        let more = node(millis);
        let entry =
            Entry { charge: super::super::Charge::Request, preemptible: Preemptible::Yes, sign: 1 };
        forest.charge(&quota, &more, entry);
        let admitted = forest.admit(&quota, &more, Preemptible::Yes).is_ok();
        forest.charge(&quota, &more, Entry { sign: -1, ..entry });
        admitted
    }

    #[test]
    fn a_part_of_the_cluster_has_what_its_root_says_and_the_rest_has_the_rest() {
        let check = |trees: Trees, inside: [bool; 2], outside: [bool; 2]| {
            let mut forest = forest(trees);
            let own = [4_000, 4_001].map(|millis| fits(&mut forest, "inside", millis));
            let rest = [6_000, 6_001].map(|millis| fits(&mut forest, "outside", millis));
            assert_eq!((own, rest), (inside, outside), "{trees:?}");
        };
        check(Trees::Many, [true, false], [true, false]);
        check(Trees::One, [true, true], [true, true]);
    }

    #[test]
    fn a_tree_is_gone_with_its_quotas_and_the_cluster_has_its_part_again() {
        let mut forest = forest(Trees::Many);
        assert_eq!(forest.trees().collect::<Vec<_>>(), ["", "pool"]);
        assert!(forest.remove("", "inside") && forest.remove("", "pool-root"));
        assert_eq!(forest.trees().collect::<Vec<_>>(), [""]);
        assert!(fits(&mut forest, "outside", 9_000));
        assert!(!forest.remove("", "pool-root"));
    }

    #[test]
    fn what_a_node_has_comes_and_goes_with_it() {
        let mut forest = forest(Trees::One);
        assert!(fits(&mut forest, "outside", 9_000));
        forest.set_node(Some(&node(10_000)), Some(&node(3_000)));
        assert!(fits(&mut forest, "outside", 3_000) && !fits(&mut forest, "outside", 3_001));
        forest.set_node(Some(&node(3_000)), None);
        assert!(!fits(&mut forest, "outside", 1));
    }

    #[test]
    fn what_is_left_out_of_the_cluster_is_not_taken_off_it_again_with_the_tree_that_has_it() {
        let check = |shared: Shared, nodes: i64, outside: i64| {
            let settings = Settings { trees: Trees::Many, shared, ..Settings::default() };
            let mut forest = Forest::new(settings);
            forest.set_node(None, Some(&node(nodes)));
            let root = QuotaFact {
                tree_id: "pool".into(),
                is_root: true,
                total: Some(cpu(4_000)),
                unschedulable: cpu(1_000),
                ..QuotaFact::new("pool-root", cpu(i64::MAX))
            };
            forest.put(root);
            forest.put(QuotaFact::new("outside", cpu(90_000)));
            assert!(fits(&mut forest, "outside", outside), "{shared:?}");
            assert!(!fits(&mut forest, "outside", outside + 1), "{shared:?}");
        };
        // Of ten CPUs four are the pool's, one of which is on a node that takes no pods.
        check(Shared::AllNodes, 10_000, 6_000);
        check(Shared::NodesInUse, 9_000, 6_000);
    }

    #[test]
    fn a_tree_that_has_what_no_node_has_adds_nothing_to_that_of_the_cluster() {
        let mut forest = forest(Trees::Many);
        let fact = |total: ByResource| QuotaFact {
            tree_id: "odd".into(),
            is_root: true,
            total: Some(total),
            ..QuotaFact::new("odd-root", cpu(1))
        };
        let cells = |forest: &mut Forest| forest.trees.get_mut("").unwrap().cells();
        let before = cells(&mut forest);
        forest.put(fact((0..60).map(|at| (format!("example.com/{at}").into(), 1)).collect()));
        assert_eq!(cells(&mut forest), before);
    }

    /// In which tree quotas are, as in `a pool`.
    fn check_trees(forest: &Forest, expected: &[&str]) {
        for text in expected {
            let (name, tree) = text.split_once(' ').unwrap();
            let own = forest.find(name);
            assert_eq!(&*own.tree, tree, "{name}");
            let is_there =
                forest.trees.get(tree).is_some_and(|own| own.register().get(name).is_some());
            assert!(is_there, "{name} is in tree {tree:?}");
        }
        let in_trees = forest.trees.values().flat_map(|tree| tree.register().iter()).count();
        assert_eq!(in_trees, forest.register.iter().count(), "each is in one tree");
    }

    fn child(name: &str, parent: &str, tree_id: &str) -> QuotaFact {
        let (parent, tree_id) = (parent.into(), tree_id.into());
        QuotaFact { parent, tree_id, ..QuotaFact::new(name, cpu(9_000)) }
    }

    #[test]
    fn who_names_no_tree_is_in_that_of_its_parent_whatever_came_first() {
        let mut forest = Forest::new(Settings { trees: Trees::Many, ..Settings::default() });
        forest.set_node(None, Some(&node(10_000)));
        forest.put(child("leaf", "mid", ""));
        forest.put(child("mid", "pool-root", ""));
        check_trees(&forest, &["leaf ", "mid "]);
        let root = QuotaFact {
            tree_id: "pool".into(),
            is_root: true,
            is_parent: true,
            total: Some(cpu(4_000)),
            ..QuotaFact::new("pool-root", cpu(i64::MAX))
        };
        forest.put(root.clone());
        check_trees(&forest, &["leaf pool", "mid pool", "pool-root pool"]);
        assert!(fits(&mut forest, "leaf", 4_000) && !fits(&mut forest, "leaf", 4_001));
        forest.put(QuotaFact { tree_id: "other".into(), ..root });
        check_trees(&forest, &["leaf other", "mid other", "pool-root other"]);
        assert_eq!(forest.trees().collect::<Vec<_>>(), ["", "other"]);
        assert!(forest.remove("", "mid"));
        check_trees(&forest, &["leaf ", "pool-root other"]);
        assert!(forest.remove("", "pool-root") && forest.remove("", "leaf"));
        assert_eq!(forest.trees().collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn who_is_of_another_tree_than_its_parent_is_nowhere_and_says_which() {
        let mut forest = forest(Trees::Many);
        forest.put(child("lost", "inside", "elsewhere"));
        forest.put(child("stray", "outside", "pool"));
        forest.put(child("orphan", "gone", "pool"));
        let mut why = |tree: &str, name: &str| {
            let view = forest.view(tree).unwrap();
            let (_, why) = view.misplaced().find(|(own, _)| *own == name).unwrap();
            let quota = forest.find(name);
            let refusal = forest.admit(&quota, &node(1), Preemptible::Yes).unwrap_err();
            assert_eq!(refusal.reason, RefusalReason::Misplaced(why.clone()));
            why.to_string()
        };
        assert_eq!(
            why("elsewhere", "lost"),
            "it is of tree \"elsewhere\" and its parent inside of tree \"pool\": name a parent of its \
             own tree"
        );
        assert_eq!(
            why("pool", "stray"),
            "it is of tree \"pool\" and its parent outside of tree \"\": name a parent of its own tree"
        );
        assert_eq!(
            why("pool", "orphan"),
            "its parent gone does not exist: create it or name another"
        );
    }
}
