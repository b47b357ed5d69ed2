//! Arguments of the plugins that look at resources.

use std::collections::{BTreeMap, BTreeSet};

use engine::plugins::node_resources::{
    BalancedAllocation, Fit, FitPlus, IgnoredResources, Strategy, Weighted,
};
use engine::plugins::scarce_resource_avoidance::ScarceResources;
use object::field::{Error, Errors, Path};
use object::names::validate_label_name;
use serde::Deserialize;

use super::super::file::or_default;
use super::{Args, Written};

/// The best score in a shape; the engine's best score is ten times as much.
const SHAPE_SCORE_MAX: i32 = 10;
const SCALE: i64 = engine::plugin::SCORE_MAX / SHAPE_SCORE_MAX as i64;

const STRATEGIES: [&str; 3] = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"];

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FitArgs {
    #[serde(deserialize_with = "or_default")]
    ignored_resources: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    ignored_resource_groups: Vec<String>,
    scoring_strategy: Option<ScoringStrategy>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ScoringStrategy {
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default")]
    resources: Vec<ResourceSpec>,
    requested_to_capacity_ratio: Option<Ratio>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Ratio {
    #[serde(deserialize_with = "or_default")]
    shape: Vec<ShapePoint>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ShapePoint {
    #[serde(deserialize_with = "or_default")]
    utilization: i32,
    #[serde(deserialize_with = "or_default")]
    score: i32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourceSpec {
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    weight: i64,
}

impl ResourceSpec {
    /// No weight, or a weight of 0, is 1.
    fn weight(&self) -> i64 {
        if self.weight == 0 { 1 } else { self.weight }
    }

    fn weighted(&self) -> Weighted {
        Weighted { resource: self.name.as_str().into(), weight: self.weight() }
    }
}

fn weighted(resources: &[ResourceSpec]) -> Vec<Weighted> {
    if resources.is_empty() {
        return Weighted::cpu_and_memory();
    }
    resources.iter().map(ResourceSpec::weighted).collect()
}

fn boxed(names: Vec<String>) -> Vec<Box<str>> {
    names.into_iter().map(String::into_boxed_str).collect()
}

impl Args for Fit {
    type Written = FitArgs;
}

impl Written for FitArgs {
    type Outcome = Fit;

    fn check(self, path: &Path, errors: &mut Errors) -> Fit {
        for (index, name) in self.ignored_resources.iter().enumerate() {
            let path = path.child("ignoredResources").index(index);
            errors.extend(validate_label_name(name, &path));
        }
        for (index, group) in self.ignored_resource_groups.iter().enumerate() {
            let path = path.child("ignoredResourceGroups").index(index);
            if group.contains('/') {
                let fix = "resource group name can't contain '/'";
                errors.push(Error::invalid(&path, group.as_str(), fix));
            }
            errors.extend(validate_label_name(group, &path));
        }
        let path = path.child("scoringStrategy");
        let (strategy, resources) = match self.scoring_strategy {
            Some(strategy) => strategy.check(&path, errors),
            None => (Strategy::LeastAllocated, Weighted::cpu_and_memory()),
        };
        Fit {
            strategy,
            resources,
            ignored: IgnoredResources {
                names: boxed(self.ignored_resources),
                groups: boxed(self.ignored_resource_groups),
            },
        }
    }
}

impl ScoringStrategy {
    pub(super) fn check(self, path: &Path, errors: &mut Errors) -> (Strategy, Vec<Weighted>) {
        for (index, resource) in self.resources.iter().enumerate() {
            let (name, weight) = (&resource.name, resource.weight());
            if !(1..=100).contains(&weight) {
                let fix = format!("resource weight of {name} not in valid range (0, 100]");
                let path = path.child("resources").index(index).child("weight");
                errors.push(Error::invalid(&path, weight, fix));
            }
        }
        let ratio_path = path.child("requestedToCapacityRatio");
        let shape = self.requested_to_capacity_ratio.map(|ratio| ratio.shape);
        if let Some(shape) = &shape {
            check_shape(shape, &ratio_path.child("shape"), errors);
        }
        let strategy = match (self.kind.as_str(), shape) {
            ("LeastAllocated", _) => Strategy::LeastAllocated,
            ("MostAllocated", _) => Strategy::MostAllocated,
            ("RequestedToCapacityRatio", Some(shape)) => {
                let point = |point: &ShapePoint| {
                    (i64::from(point.utilization), i64::from(point.score) * SCALE)
                };
                Strategy::RequestedToCapacityRatio(shape.iter().map(point).collect())
            }
            ("RequestedToCapacityRatio", None) => {
                errors.push(Error::required(&ratio_path, "the strategy needs a shape"));
                Strategy::LeastAllocated
            }
            (kind, _) => {
                errors.push(Error::not_supported(&path.child("type"), kind, &STRATEGIES));
                Strategy::LeastAllocated
            }
        };
        (strategy, weighted(&self.resources))
    }
}

fn check_shape(shape: &[ShapePoint], path: &Path, errors: &mut Errors) {
    if shape.is_empty() {
        errors.push(Error::required(path, "at least one point must be specified"));
    }
    let falls = |pair: &[ShapePoint]| pair[0].utilization >= pair[1].utilization;
    if let Some(index) = shape.windows(2).position(falls) {
        let at = path.index(index + 1).child("utilization");
        let fix = "values must be sorted in increasing order";
        errors.push(Error::invalid(&at, shape[index + 1].utilization, fix));
    }
    for (index, point) in shape.iter().enumerate() {
        let at = path.index(index);
        if !(0..=100).contains(&point.utilization) {
            let at = at.child("utilization");
            errors.push(Error::invalid(&at, point.utilization, "not in valid range [0, 100]"));
        }
        if !(0..=SHAPE_SCORE_MAX).contains(&point.score) {
            let fix = format!("not in valid range [0, {SHAPE_SCORE_MAX}]");
            errors.push(Error::invalid(&at.child("score"), point.score, fix));
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct BalancedArgs {
    #[serde(deserialize_with = "or_default")]
    resources: Vec<ResourceSpec>,
}

impl Args for BalancedAllocation {
    type Written = BalancedArgs;
}

impl Written for BalancedArgs {
    type Outcome = BalancedAllocation;

    fn check(self, path: &Path, errors: &mut Errors) -> BalancedAllocation {
        let mut seen = BTreeSet::new();
        for (index, resource) in self.resources.iter().enumerate() {
            let path = path.child("resources").index(index);
            if !seen.insert(&resource.name) {
                errors.push(Error::duplicate(&path.child("name"), resource.name.as_str()));
            }
            if resource.weight() != 1 {
                errors.push(Error::invalid(&path.child("weight"), resource.weight, "must be 1"));
            }
        }
        BalancedAllocation { resources: weighted(&self.resources) }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FitPlusArgs {
    #[serde(deserialize_with = "or_default")]
    resources: BTreeMap<String, Rating>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Rating {
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default")]
    weight: i64,
}

impl Args for FitPlus {
    type Written = FitPlusArgs;
}

/// Strategies that a single resource may have.
const RATINGS: [&str; 2] = ["LeastAllocated", "MostAllocated"];
/// A weight of one resource stays so small that scores can be added up.
const RATING_WEIGHT_MAX: i64 = 1_000_000;

impl Written for FitPlusArgs {
    type Outcome = FitPlus;

    fn check(self, path: &Path, errors: &mut Errors) -> FitPlus {
        let mut resources = BTreeMap::new();
        for (name, Rating { kind, weight }) in self.resources {
            let path = path.child("resources").key(&name);
            errors.extend(validate_label_name(&name, &path));
            let strategy = match kind.as_str() {
                "LeastAllocated" => Strategy::LeastAllocated,
                "MostAllocated" => Strategy::MostAllocated,
                kind => {
                    errors.push(Error::not_supported(&path.child("type"), kind, &RATINGS));
                    continue;
                }
            };
            if !(1..=RATING_WEIGHT_MAX).contains(&weight) {
                let fix = format!("must be in [1, {RATING_WEIGHT_MAX}]");
                errors.push(Error::invalid(&path.child("weight"), weight, fix));
            }
            resources.insert(name.into(), (strategy, weight));
        }
        FitPlus { resources }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ScarceArgs {
    #[serde(deserialize_with = "or_default")]
    resources: Vec<String>,
}

impl Args for ScarceResources {
    type Written = ScarceArgs;
}

impl Written for ScarceArgs {
    type Outcome = ScarceResources;

    fn check(self, path: &Path, errors: &mut Errors) -> ScarceResources {
        for (index, name) in self.resources.iter().enumerate() {
            errors.extend(validate_label_name(name, &path.child("resources").index(index)));
        }
        ScarceResources { resources: boxed(self.resources) }
    }
}
