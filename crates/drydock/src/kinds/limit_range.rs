//! LimitRanges: how much the pods and claims of a namespace may ask for.

use std::collections::BTreeSet;

use object::field::{Error, Errors, Path};
use object::names;
use object::quantity::{Format, Quantity};
use serde_json::Value;

use super::fields::{list, text};
use super::pod_spec::resource_rules::{
    check_container_name, check_standard_name, may_be_overcommitted,
};
use super::pod_spec::resources::{Amounts, COUNTED_IN_MILLIS_MAX, amounts};
use super::strategy::Strategy;
use super::tables;

/// The limits of a namespace.
pub(super) struct LimitRange;

impl Strategy for LimitRange {
    fn default(&self, object: &mut Value) {
        tables::default_limit_range(object);
    }

    fn gives_names(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value) -> Errors {
        let at = Path::new("spec").child("limits");
        let mut errors = Errors::new();
        let mut seen = BTreeSet::new();
        for (index, limit) in list(&object["spec"], "limits").iter().enumerate() {
            let at = at.index(index);
            let kind = text(limit, "type");
            errors.extend(kind_errors(kind, &at.child("type")));
            if !seen.insert(kind) {
                errors.push(Error::duplicate(&at.child("type"), kind));
            }
            let limit = Limit::read(limit, &at, &mut errors);
            errors.extend(limit.errors(&at));
        }
        errors
    }
}

/// The kinds of limits that Kubernetes knows.
const KINDS: [&str; 3] = ["Container", "PersistentVolumeClaim", "Pod"];

fn kind_errors(kind: &str, at: &Path) -> Errors {
    let faults = names::qualified_name(kind);
    if !faults.is_empty() {
        return faults.into_iter().map(|fault| Error::invalid(at, kind, fault)).collect();
    }
    if !kind.contains('/') && !KINDS.contains(&kind) {
        return vec![Error::invalid(at, kind, "must be a standard limit type or fully qualified")];
    }
    Errors::new()
}

/// One limit, its amounts read.
struct Limit {
    min: Amounts,
    max: Amounts,
    default: Amounts,
    default_request: Amounts,
    ratio: Amounts,
}

impl Limit {
    /// Reads the amounts, and checks which there may be.
    fn read(limit: &Value, at: &Path, errors: &mut Errors) -> Self {
        let kind = text(limit, "type");
        let named = |field: &str, errors: &mut Errors| {
            let amounts = amounts(limit, field);
            for name in amounts.keys() {
                let at = at.child(field).key(name);
                if matches!(kind, "Pod" | "Container") {
                    check_container_name(errors, name, &at);
                } else {
                    check_standard_name(errors, name, &at);
                }
            }
            amounts
        };
        let (max, min) = (named("max", errors), named("min", errors));
        let (mut default, mut default_request) = (Amounts::new(), Amounts::new());
        if kind == "Pod" {
            let given = |field: &&&str| !amounts(limit, field).is_empty();
            for field in ["default", "defaultRequest"].iter().filter(given) {
                let why = "may not be specified when `type` is 'Pod'";
                errors.push(Error::forbidden(&at.child(field), why));
            }
        } else {
            default = named("default", errors);
            default_request = named("defaultRequest", errors);
        }
        if kind == "PersistentVolumeClaim"
            && !min.contains_key("storage")
            && !max.contains_key("storage")
        {
            let why =
                "either minimum or maximum storage value is required, but neither was provided";
            errors.push(Error::required(&at.child("limits"), why));
        }
        let ratio = named("maxLimitRequestRatio", errors);
        Self { min, max, default, default_request, ratio }
    }

    /// What contradicts itself, resource by resource.
    fn errors(&self, at: &Path) -> Errors {
        let all = [&self.min, &self.max, &self.default, &self.default_request, &self.ratio];
        let names: BTreeSet<&String> = all.iter().flat_map(|amounts| amounts.keys()).collect();
        names.into_iter().flat_map(|name| self.errors_of(name, at)).collect()
    }

    fn errors_of(&self, name: &str, at: &Path) -> Errors {
        let (min, max) = (self.min.get(name), self.max.get(name));
        let (default, request) = (self.default.get(name), self.default_request.get(name));
        let mut errors = Errors::new();
        // Which is the lesser, what it is called, the greater and its name; then the field at
        // fault and the amount that is shown.
        let pairs = [
            (min, "min", max, "max", "min", min),
            (min, "min", request, "default request", "defaultRequest", request),
            (request, "default request", max, "max", "defaultRequest", request),
            (request, "default request", default, "default limit", "defaultRequest", request),
            (min, "min", default, "default", "default", min),
            (default, "default", max, "max", "default", max),
        ];
        for (lesser, lesser_name, greater, greater_name, field, shown) in pairs {
            if let (Some(lesser), Some(greater), Some(shown)) = (lesser, greater, shown)
                && lesser > greater
            {
                let why = format!(
                    "{lesser_name} value {lesser} is greater than {greater_name} value {greater}"
                );
                let at = at.child(field).key(name);
                errors.push(Error::invalid(&at, shown.to_string(), why));
            }
        }
        if let Some(ratio) = self.ratio.get(name) {
            let at = at.child("maxLimitRequestRatio").key(name);
            errors.extend(ratio_errors(ratio, min, max, &at));
        }
        if let (Some(default), Some(request)) = (default, request)
            && default != request
            && !may_be_overcommitted(name)
        {
            let why = format!(
                "default value {default} must equal to defaultRequest value {request} in {name}"
            );
            let at = at.child("defaultRequest").key(name);
            errors.push(Error::invalid(&at, request.to_string(), why));
        }
        errors
    }
}

#[expect(clippy::cast_precision_loss, reason = "upstream compares ratios as floats, too")]
fn ratio_errors(
    ratio: &Quantity,
    min: Option<&Quantity>,
    max: Option<&Quantity>,
    at: &Path,
) -> Errors {
    let mut errors = Errors::new();
    if *ratio < Quantity::from_units(1, Format::DecimalSi) {
        let why = format!("ratio {ratio} is less than 1");
        errors.push(Error::invalid(at, ratio.to_string(), why));
    }
    let (Some(min), Some(max)) = (min, max) else { return errors };
    // Upstream leaves out the largest here, and not where pods are held against the ratio.
    let in_millis = [ratio, min, max].iter().all(|one| one.value() < COUNTED_IN_MILLIS_MAX);
    let (wanted, possible) = if in_millis {
        let possible = max.milli_value() as f64 / min.milli_value() as f64;
        (ratio.milli_value() as f64 / 1000.0, possible)
    } else {
        (ratio.value() as f64, max.value() as f64 / min.value() as f64)
    };
    if wanted > possible {
        let why = format!("ratio {ratio} is greater than max/min = {possible:.6}");
        errors.push(Error::invalid(at, ratio.to_string(), why));
    }
    errors
}
