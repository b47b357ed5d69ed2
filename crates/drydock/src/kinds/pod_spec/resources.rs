//! Amounts of resources, as maps from names to quantities.

use std::collections::BTreeMap;

use object::quantity::Quantity;
use serde_json::{Map, Value};

use crate::kinds::fields::{list, map, text};

/// The names of resources and how much of each.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// Milli: the finest unit the API server keeps.
pub(crate) const MILLI: i32 = -3;

/// The largest amount whose thousandths can be counted.
pub(crate) const COUNTED_IN_MILLIS_MAX: i64 = i64::MAX / 1000;

/// The quantity a JSON value holds; zero where it holds none.
pub(crate) fn quantity(value: &Value) -> Quantity {
    let parsed = match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    };
    parsed.unwrap_or(Quantity::ZERO)
}

/// The amounts in the map under a key.
pub(crate) fn amounts(object: &Value, key: &str) -> Amounts {
    let entries = map(object, key).into_iter().flatten();
    entries.map(|(name, value)| (name.clone(), quantity(value))).collect()
}

/// The amounts as JSON.
pub(crate) fn to_value(amounts: &Amounts) -> Value {
    let entries = amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into()));
    Value::Object(entries.collect::<Map<_, _>>())
}

/// Rounds every amount in the map under a key up to thousandths.
pub(crate) fn round_up_resources(object: &mut Value, key: &str) {
    let Some(map) = object.get_mut(key).and_then(Value::as_object_mut) else { return };
    for value in map.values_mut() {
        *value = quantity(value).rounded_up(MILLI).to_string().into();
    }
}

/// Whether a container of `initContainers` keeps running beside the others.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

/// What all containers of a pod together need of the `requests` or `limits`: the running ones
/// together, or an init container beside the sidecars started before it, whichever is more.
pub(crate) fn aggregate(spec: &Value, which: &str) -> Amounts {
    let of = |container: &Value| amounts(&container["resources"], which);
    let mut total = Amounts::new();
    for container in list(spec, "containers") {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in list(spec, "initContainers") {
        let mut needed = of(container);
        if is_sidecar(container) {
            add(&mut total, &needed);
            add(&mut sidecars, &needed);
            needed = sidecars.clone();
        } else {
            add(&mut needed, &sidecars);
        }
        raise(&mut peak, &needed);
    }
    raise(&mut total, &peak);
    total
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = match total.get(name) {
            Some(known) => known.checked_add(amount).unwrap_or_else(|| known.clone()),
            None => amount.clone(),
        };
        total.insert(name.clone(), sum);
    }
}

fn raise(total: &mut Amounts, floor: &Amounts) {
    for (name, amount) in floor {
        if total.get(name).is_none_or(|known| known < amount) {
            total.insert(name.clone(), amount.clone());
        }
    }
}
