//! Random configurations: which plugins run, what their scores count, and what they are told.
//!
//! A plugin that filters or scores without what it does before that is not drawn: the real
//! scheduler fails every pod then.

use serde_json::{Map, Value, json};

use super::{HOSTNAME, ZONE, node_affinity};
use crate::draw::Draw;

/// What a profile cannot do without.
const NEEDED: [&str; 3] = ["SchedulingGates", "PrioritySort", "DefaultBinder"];

/// Plugins that only filter, or do neither.
const FILTERS: [&str; 8] = [
    "NodeUnschedulable",
    "NodeName",
    "NodePorts",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "DynamicResources",
];
/// Plugins that filter and score.
const BOTH: [&str; 5] = [
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
];
/// Plugins that only score.
const SCORES: [&str; 2] = ["NodeResourcesBalancedAllocation", "ImageLocality"];
/// Plugins that say something before nodes are asked.
const FIRST: [&str; 5] =
    ["NodeAffinity", "VolumeRestrictions", "VolumeBinding", "VolumeZone", "NodeResourcesFit"];
const RESOURCES: [&str; 6] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "example.com/gpu",
    "hugepages-2Mi",
    "example.com/nobody-has-it",
];
/// The names of profiles; pods of one that has no name ask for the first.
pub const NAMES: [&str; 2] = ["default-scheduler", "second"];

/// A configuration; none where the default is played.
pub fn configuration(draw: &mut Draw) -> Option<Value> {
    if draw.percent(30) {
        return None;
    }
    let count = if draw.percent(25) { 2 } else { 1 };
    let profiles: Vec<Value> = NAMES[..count].iter().map(|name| profile(draw, name)).collect();
    Some(json!({
        "apiVersion": scheduler::config::API_VERSION,
        "kind": scheduler::config::KIND,
        "profiles": profiles,
    }))
}

/// Draws the arguments of a plugin.
type Make = fn(&mut Draw) -> Value;

fn profile(draw: &mut Draw, name: &str) -> Value {
    let mut profile = json!({"schedulerName": name});
    if draw.percent(75) {
        profile["plugins"] = plugins(draw);
    }
    let mut arguments = Vec::new();
    let plugins: [(&str, Make); 8] = [
        ("NodeResourcesFit", fit),
        ("NodeResourcesBalancedAllocation", balanced),
        ("PodTopologySpread", spread),
        ("InterPodAffinity", affinity),
        ("NodeAffinity", added_affinity),
        ("VolumeBinding", |draw| json!({"bindTimeoutSeconds": draw.below(900)})),
        ("DefaultPreemption", preemption),
        ("DynamicResources", |draw| json!({"filterTimeout": draw.one(&["0s", "10s", "1m"])})),
    ];
    for (name, make) in plugins {
        if draw.percent(45) {
            arguments.push(json!({"name": name, "args": make(draw)}));
        }
    }
    profile["pluginConfig"] = json!(arguments);
    profile
}

/// Which plugins run where.
fn plugins(draw: &mut Draw) -> Value {
    let everywhere = everywhere(draw);
    let listed = |list: &str, one: &Value| {
        let names = everywhere[list].as_array().into_iter().flatten();
        names.map(|other| &other["name"]).any(|name| *name == one["name"] || *name == "*")
    };
    // What runs at one extension point and not at those before it fails every pod.
    let is_on = |one: &Value| listed("enabled", one) || !listed("disabled", one);
    let mut plugins = json!({"multiPoint": everywhere});
    if draw.percent(30) {
        let on = some(draw, &[&BOTH, &SCORES], 30);
        let on: Vec<Value> =
            on.into_iter().map(|name| weighted(draw, name)).filter(is_on).collect();
        plugins["score"] = json!({"enabled": on, "disabled": names(draw, &[&BOTH, &SCORES], 20)});
    }
    // What is named for an extension point comes first there, in the order of the file.
    if draw.percent(25) {
        for (point, of) in [("filter", &[&BOTH[..], &FILTERS][..]), ("preFilter", &[&FIRST[..]])] {
            let mut on = names(draw, of, 25);
            on.retain(is_on);
            if draw.percent(50) {
                on.reverse();
            }
            plugins[point] = json!({"enabled": on});
        }
    } else if draw.percent(20) {
        // It may score and does not filter. DynamicResources scores and cannot do without.
        let off = names(draw, &[&BOTH, &FILTERS[..FILTERS.len() - 1]], 12);
        plugins["filter"] = json!({"disabled": off});
        plugins["preFilter"] = json!({"disabled": off});
    }
    if draw.percent(10) {
        let off = *draw.one(&["DefaultPreemption", "DynamicResources", "*"]);
        plugins["postFilter"] = json!({"disabled": [named(off)]});
    }
    plugins
}

fn everywhere(draw: &mut Draw) -> Value {
    if draw.percent(8) {
        let mut on: Vec<Value> = NEEDED.map(named).into();
        let all = some(draw, &[&SCORES, &BOTH, &FILTERS, &["DefaultPreemption"]], 60);
        on.extend(all.into_iter().map(|name| weighted(draw, name)));
        return json!({"disabled": [named("*")], "enabled": on});
    }
    let off = names(draw, &[&FILTERS, &BOTH, &SCORES, &["DefaultPreemption"]], 6);
    let on = some(draw, &[&FILTERS, &BOTH, &SCORES], 20);
    let on: Vec<Value> = on.into_iter().map(|name| weighted(draw, name)).collect();
    json!({"disabled": off, "enabled": on})
}

/// Each of these names, so many times out of a hundred.
fn some(draw: &mut Draw, of: &[&[&'static str]], chance: usize) -> Vec<&'static str> {
    let all = of.iter().flat_map(|names| names.iter().copied());
    all.filter(|_| draw.percent(chance)).collect()
}

fn names(draw: &mut Draw, of: &[&[&'static str]], chance: usize) -> Vec<Value> {
    some(draw, of, chance).into_iter().map(named).collect()
}

fn named(name: &str) -> Value {
    json!({"name": name})
}

/// A weight of 0 is none, and no weight is 1.
fn weighted(draw: &mut Draw, name: &str) -> Value {
    match draw.below(4) {
        0 => named(name),
        1 => json!({"name": name, "weight": draw.below(3)}),
        _ => json!({"name": name, "weight": draw.between(1, 100)}),
    }
}

fn resources(draw: &mut Draw, most_weight: usize) -> Vec<Value> {
    let names = some(draw, &[&RESOURCES], 45);
    let of = |name: &str| match draw.below(3) {
        0 => named(name),
        _ => json!({"name": name, "weight": draw.between(1, most_weight)}),
    };
    names.into_iter().map(of).collect()
}

fn fit(draw: &mut Draw) -> Value {
    let mut args = Map::new();
    if draw.percent(30) {
        args.insert("ignoredResources".to_owned(), json!([draw.one(&RESOURCES)]));
    }
    if draw.percent(20) {
        let group = draw.one(&["example.com", "example.org"]);
        args.insert("ignoredResourceGroups".to_owned(), json!([group]));
    }
    if draw.percent(80) {
        let kind = draw.one(&["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]);
        let mut strategy = json!({"type": kind, "resources": resources(draw, 100)});
        if *kind == "RequestedToCapacityRatio" {
            strategy["requestedToCapacityRatio"] = json!({"shape": shape(draw)});
        }
        args.insert("scoringStrategy".to_owned(), strategy);
    }
    Value::Object(args)
}

fn shape(draw: &mut Draw) -> Vec<Value> {
    let mut points: Vec<usize> = (0..=100).step_by(5).filter(|_| draw.percent(18)).collect();
    if points.is_empty() {
        points.push(draw.below(101));
    }
    let point = |utilization| json!({"utilization": utilization, "score": draw.below(11)});
    points.into_iter().map(point).collect()
}

fn balanced(draw: &mut Draw) -> Value {
    json!({"resources": resources(draw, 1)})
}

fn spread(draw: &mut Draw) -> Value {
    match draw.below(6) {
        0 => return json!({"defaultingType": "System"}),
        1 => return json!({"defaultingType": "List"}),
        _ => {}
    }
    let mut constraints = Vec::new();
    for key in [HOSTNAME, ZONE, "disk"] {
        for when in ["ScheduleAnyway", "DoNotSchedule"] {
            if draw.percent(35) {
                let skew = draw.between(1, 4);
                let all = json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when});
                constraints.push(all);
            }
        }
    }
    json!({"defaultingType": "List", "defaultConstraints": constraints})
}

fn affinity(draw: &mut Draw) -> Value {
    let mut args = Map::new();
    if draw.percent(70) {
        let weight = *draw.one(&[0, 1, 5, 50, 100]);
        args.insert("hardPodAffinityWeight".to_owned(), json!(weight));
    }
    if draw.percent(50) {
        let ignored = draw.percent(70);
        args.insert("ignorePreferredTermsOfExistingPods".to_owned(), json!(ignored));
    }
    Value::Object(args)
}

fn added_affinity(draw: &mut Draw) -> Value {
    if draw.percent(15) {
        return json!({});
    }
    json!({"addedAffinity": node_affinity(draw)})
}

/// Every candidate is looked at, on both sides.
fn preemption(draw: &mut Draw) -> Value {
    json!({"minCandidateNodesPercentage": 100, "minCandidateNodesAbsolute": draw.below(3)})
}
