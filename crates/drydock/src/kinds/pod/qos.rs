//! How well a pod's resources are assured.

use object::quantity::Quantity;
use serde_json::Value;

use crate::kinds::fields::{list, present};
use crate::kinds::pod_spec::resources::{Amounts, amounts};

const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// The class of a pod with this spec: `Guaranteed` where every container's limits of CPU and
/// memory are its requests, `BestEffort` where there are none at all, else `Burstable`.
pub(super) fn of_spec(spec: &Value) -> &'static str {
    let places: Vec<&Value> = match present(spec, "resources") {
        Some(resources) => vec![resources],
        None => {
            let containers = list(spec, "containers").iter().chain(list(spec, "initContainers"));
            containers.map(|container| &container["resources"]).collect()
        }
    };
    let whole = present(spec, "resources").is_some();
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut guaranteed = true;
    for place in places {
        add(&mut requests, &compute(place, "requests"));
        let own = compute(place, "limits");
        let counts = !whole || present(place, "limits").is_some();
        if counts && own.len() < COMPUTE.len() {
            guaranteed = false;
        }
        add(&mut limits, &own);
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    if guaranteed && requests == limits { "Guaranteed" } else { "Burstable" }
}

/// The amounts above zero of what counts.
fn compute(resources: &Value, which: &str) -> Amounts {
    let counts = |name: &str, amount: &Quantity| COMPUTE.contains(&name) && amount.sign() > 0;
    amounts(resources, which).into_iter().filter(|(name, amount)| counts(name, amount)).collect()
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = total.get(name).and_then(|known| known.checked_add(amount));
        total.insert(name.clone(), sum.unwrap_or_else(|| amount.clone()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_class_follows_from_requests_and_limits_of_cpu_and_memory() {
        let check = |containers: Value, expected: &str| {
            let spec = json!({"containers": containers});
            assert_eq!(of_spec(&spec), expected, "{spec}");
        };
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let guaranteed = json!({"resources": {"requests": both, "limits": both}});
        check(json!([{}]), "BestEffort");
        check(json!([{"resources": {"limits": {"example.com/gpu": "1"}}}]), "BestEffort");
        check(json!([{"resources": {"requests": {"cpu": "0"}}}]), "BestEffort");
        check(json!([{"resources": {"requests": {"cpu": "1m"}}}]), "Burstable");
        check(json!([guaranteed]), "Guaranteed");
        check(json!([guaranteed, {}]), "Burstable");
        check(json!([{"resources": {"requests": {"cpu": "1000m"}, "limits": both}}]), "Burstable");
        check(
            json!([{"resources": {"requests": {"cpu": "1000m", "memory": "1Gi"}, "limits": both}}]),
            "Guaranteed",
        );
        let whole = json!({"resources": {"limits": both, "requests": both}, "containers": [{}]});
        assert_eq!(of_spec(&whole), "Guaranteed");
        let whole = json!({"resources": {"limits": {"cpu": 1}}, "containers": [guaranteed]});
        assert_eq!(of_spec(&whole), "Burstable");
    }
}
