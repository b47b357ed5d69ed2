//! How the load of nodes is judged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::fact::{Aggregation, Percents, WindowLimits};

/// How the load of nodes is judged. Equal settings share one book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How much of a node may be in use, in percent of what it has.
    pub usage: Percents,
    /// The same for what pods use that earn money; nothing where that is not looked at.
    pub prod: Percents,
    /// The same for a while before; it goes before what is in use now.
    pub window: Option<WindowLimits>,
    /// After how long a report counts as old.
    pub expires_after: Duration,
    /// What becomes of a node whose report is old.
    pub stale: Stale,
    /// Whether no node is refused for its load, only scored.
    pub is_soft: bool,
    /// How load makes a score.
    pub score: ScoreSettings,
    /// How the load of pods is estimated.
    pub estimate: EstimateSettings,
    /// Resources that are looked at besides those that are named elsewhere here.
    pub more: Vec<Box<str>>,
}

/// What becomes of a node whose report is old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    /// It is refused.
    Refused,
    /// It is taken as if it had never reported.
    Forgotten,
    /// What it said last still counts.
    Believed,
}

/// How load makes a score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreSettings {
    /// What resources count.
    pub weights: BTreeMap<Box<str>, i64>,
    /// What the fullest of them counts.
    pub dominant: i64,
    /// Whether pods that earn money are scored by what others of their sort use.
    pub by_prod: bool,
    /// Which figure of which window counts instead of what is in use now.
    pub window: Option<(Aggregation, Duration)>,
}

/// How the load of pods is estimated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EstimateSettings {
    /// How much of what pods request they use, in percent, by resource.
    pub factors: BTreeMap<Box<str>, i64>,
    /// For how many seconds after it got its node a pod is taken to use that, whatever is reported.
    pub after_scheduled: Option<u64>,
    /// The same after its init containers ended.
    pub after_initialized: Option<u64>,
    /// Whether pods may say otherwise of themselves.
    pub allows_own: bool,
    /// Whether what the system uses counts with pods that earn money.
    pub prod_with_system: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let each = |cpu: i64, memory: i64| -> BTreeMap<Box<str>, i64> {
            [("cpu".into(), cpu), ("memory".into(), memory)].into()
        };
        Self {
            usage: each(65, 95),
            prod: Percents::new(),
            window: None,
            expires_after: Duration::from_secs(180),
            stale: Stale::Refused,
            is_soft: false,
            score: ScoreSettings { weights: each(1, 1), dominant: 0, by_prod: false, window: None },
            estimate: EstimateSettings {
                factors: each(85, 70),
                after_scheduled: None,
                after_initialized: None,
                allows_own: false,
                prod_with_system: false,
            },
            more: Vec::new(),
        }
    }
}

impl Settings {
    /// The resources that are looked at, by name.
    #[must_use]
    pub fn tracked(&self) -> Vec<Box<str>> {
        let Self { usage, prod, window, score, estimate, more, .. } = self;
        let plain: [Box<str>; 2] = ["cpu".into(), "memory".into()];
        let maps = [usage, prod, &score.weights, &estimate.factors].into_iter();
        let maps = maps.chain(window.as_ref().map(|window| &window.percents));
        let named = maps.flat_map(|map| map.keys().cloned());
        let all: BTreeSet<Box<str>> = plain.into_iter().chain(named).chain(more.clone()).collect();
        all.into_iter().collect()
    }
}
