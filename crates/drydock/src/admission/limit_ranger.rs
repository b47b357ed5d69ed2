//! The LimitRanges of a namespace: what a pod gets that asks for nothing, and how much or how
//! little a pod, a container or a claim may ask for.

use object::quantity::Quantity;
use serde_json::{Map, Value};

use super::{Attributes, Operation, Plugin};
use crate::answer::Failure;
use crate::kinds::pod_spec::resources::{
    Amounts, COUNTED_IN_MILLIS_MAX, aggregate, amounts, to_value,
};
use crate::write::{Part, metadata};

/// Where a pod tells what it was given.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The resources that a pod can ask for as a whole.
const OF_WHOLE_PODS: [&str; 2] = ["cpu", "memory"];

/// Gives the containers of a pod the defaults of the namespace.
pub(super) fn mutate(attributes: &Attributes<'_>, pod: &mut Value) {
    let mut is_changed = false;
    for range in ranges(attributes) {
        let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
        for limit in limits_of(&range).filter(|limit| limit["type"] == "Container") {
            requests.extend(amounts(limit, "defaultRequest"));
            limits.extend(amounts(limit, "default"));
        }
        let mut told = Vec::new();
        for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
            for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                for (key, word, defaults) in
                    [("requests", "request", &requests), ("limits", "limit", &limits)]
                {
                    let given = give(container, key, defaults);
                    if !given.is_empty() {
                        let name = container["name"].as_str().unwrap_or_default();
                        told.push(format!("{} {word} for {what} {name}", given.join(", ")));
                    }
                }
            }
        }
        if !told.is_empty() {
            let text = format!("LimitRanger plugin set: {}", told.join("; "));
            let annotations = metadata::metadata_mut(pod).entry("annotations");
            let annotations = annotations.or_insert_with(|| Value::Object(Map::new()));
            if annotations.is_null() {
                *annotations = Value::Object(Map::new());
            }
            annotations[ANNOTATION] = text.into();
            is_changed = true;
        }
    }
    if is_changed {
        // What follows from the amounts of containers, such as those of the pod as a whole.
        attributes.found.kind.strategy.default(pod);
    }
}

/// Adds the amounts that a container does not mention, and names them.
fn give(container: &mut Value, key: &str, defaults: &Amounts) -> Vec<String> {
    let known = amounts(&container["resources"], key);
    let mut missing = defaults.clone();
    missing.retain(|name, _| !known.contains_key(name));
    let names: Vec<String> = missing.keys().cloned().collect();
    if !names.is_empty() {
        let mut all = known;
        all.extend(missing);
        container["resources"][key] = to_value(&all);
    }
    names
}

/// Refuses a pod or a claim that asks for more or less than the namespace allows.
pub(super) fn validate(attributes: &Attributes<'_>, object: &Value) -> Result<(), Failure> {
    for range in ranges(attributes) {
        let mut faults: Vec<String> = Vec::new();
        for limit in limits_of(&range) {
            let kind = limit["type"].as_str().unwrap_or_default();
            for (requests, limits) in asked(kind, object) {
                let asked = Asked { kind, requests, limits };
                let found = asked.faults(limit);
                faults.extend(
                    found.into_iter().filter(|fault| !faults.contains(fault)).collect::<Vec<_>>(),
                );
            }
        }
        match faults.as_slice() {
            [] => {}
            [one] => return Err(attributes.forbid(one)),
            many => return Err(attributes.forbid(format!("[{}]", many.join(", ")))),
        }
    }
    Ok(())
}

/// The LimitRanges that this write must meet.
fn ranges(attributes: &Attributes<'_>) -> Vec<Value> {
    let is_claim = attributes.found.kind.strategy.admission().contains(&Plugin::ClaimLimits);
    let meant = match (attributes.part, attributes.operation) {
        (Part::Object, Operation::Create) => true,
        // Containers change by a resize alone.
        (Part::Object, Operation::Update) => is_claim,
        (Part::Named("resize"), Operation::Update) => !is_claim,
        _ => false,
    };
    let (true, Some(namespace)) = (meant, attributes.namespace) else { return Vec::new() };
    if attributes.old.is_some_and(metadata::is_deleting) {
        return Vec::new();
    }
    let (ranges, _) =
        attributes.server.native("", "limitranges").table.list(&format!("{namespace}/"));
    ranges.iter().filter_map(|stored| serde_json::from_slice(&stored.body).ok()).collect()
}

fn limits_of(range: &Value) -> impl Iterator<Item = &Value> {
    range["spec"]["limits"].as_array().into_iter().flatten()
}

/// What the object asks for in each place that a limit of this kind looks at.
fn asked(kind: &str, object: &Value) -> Vec<(Amounts, Option<Amounts>)> {
    let spec = &object["spec"];
    let both =
        |resources: &Value| (amounts(resources, "requests"), Some(amounts(resources, "limits")));
    match kind {
        "Container" => {
            let lists = ["containers", "initContainers"].into_iter();
            let containers = lists.flat_map(|list| spec[list].as_array().into_iter().flatten());
            containers.map(|container| both(&container["resources"])).collect()
        }
        "Pod" if spec["containers"].is_array() => {
            vec![(whole(spec, "requests"), Some(whole(spec, "limits")))]
        }
        // A claim has no limits.
        "PersistentVolumeClaim" if !spec["containers"].is_array() => {
            vec![(amounts(&spec["resources"], "requests"), None)]
        }
        _ => Vec::new(),
    }
}

/// What a pod asks for: the sum of its containers, unless it says so as a whole.
fn whole(spec: &Value, which: &str) -> Amounts {
    let mut total = aggregate(spec, which);
    let said = amounts(&spec["resources"], which).into_iter();
    total.extend(said.filter(|(name, _)| OF_WHOLE_PODS.contains(&name.as_str())));
    total
}

/// What is asked for in one place, to be held against a limit.
struct Asked<'a> {
    kind: &'a str,
    requests: Amounts,
    /// Nothing where only requests count.
    limits: Option<Amounts>,
}

impl Asked<'_> {
    fn faults(&self, limit: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, enforced) in amounts(limit, "min") {
            faults.extend(self.below(&name, &enforced));
        }
        for (name, enforced) in amounts(limit, "max") {
            faults.extend(self.above(&name, &enforced));
        }
        if self.limits.is_some() {
            for (name, enforced) in amounts(limit, "maxLimitRequestRatio") {
                faults.extend(self.beyond_ratio(&name, &enforced));
            }
        }
        faults
    }

    fn limit(&self, name: &str) -> Option<&Quantity> {
        self.limits.as_ref()?.get(name)
    }

    fn below(&self, name: &str, enforced: &Quantity) -> Option<String> {
        let minimum = format!("minimum {name} usage per {} is {enforced}", self.kind);
        let Some(request) = self.requests.get(name) else {
            return Some(format!("{minimum}.  No request is specified"));
        };
        let limit = self.limit(name);
        let [requested, limited, enforced] = counted([Some(request), limit, Some(enforced)]);
        if requested < enforced {
            return Some(format!("{minimum}, but request is {request}"));
        }
        let limit = limit.filter(|_| limited < enforced)?;
        Some(format!("{minimum}, but limit is {limit}"))
    }

    fn above(&self, name: &str, enforced: &Quantity) -> Option<String> {
        let maximum = format!("maximum {name} usage per {} is {enforced}", self.kind);
        let (request, limit) = (self.requests.get(name), self.limit(name));
        let [requested, limited, enforced] = counted([request, limit, Some(enforced)]);
        match (self.limits.is_some(), request, limit) {
            (true, _, None) => Some(format!("{maximum}.  No limit is specified")),
            (false, None, _) => Some(format!("{maximum}.  No request is specified")),
            (_, _, Some(limit)) if limited > enforced => {
                Some(format!("{maximum}, but limit is {limit}"))
            }
            (_, Some(request), _) if requested > enforced => {
                Some(format!("{maximum}, but request is {request}"))
            }
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "upstream compares ratios as floats, too")]
    fn beyond_ratio(&self, name: &str, enforced: &Quantity) -> Option<String> {
        let most = format!("{name} max limit to request ratio per {} is {enforced}", self.kind);
        let (request, limit) = (self.requests.get(name), self.limit(name));
        let [requested, limited, _] = counted([request, limit, Some(enforced)]);
        if requested == 0 {
            return Some(format!("{most}, but no request is specified or request is 0"));
        }
        if limited == 0 {
            return Some(format!("{most}, but no limit is specified or limit is 0"));
        }
        let ratio = limited as f64 / requested as f64;
        let is_beyond = if enforced.value() <= COUNTED_IN_MILLIS_MAX {
            ratio * 1000.0 > enforced.milli_value() as f64
        } else {
            ratio > enforced.value() as f64
        };
        is_beyond.then(|| format!("{most}, but provided ratio is {ratio:.6}"))
    }
}

/// The amounts in a unit that all of them can be counted in; what is not there is nothing.
fn counted(all: [Option<&Quantity>; 3]) -> [i64; 3] {
    let whole = all.map(|one| one.map_or(0, Quantity::value));
    if whole.iter().all(|value| *value <= COUNTED_IN_MILLIS_MAX) {
        return all.map(|one| one.map_or(0, Quantity::milli_value));
    }
    whole
}
