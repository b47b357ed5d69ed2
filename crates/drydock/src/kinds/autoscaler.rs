//! Horizontal pod autoscalers, whose older version knows one metric only.
//!
//! They are stored as `v2` has them. What `v1` cannot say is left out of it.

use serde_json::{Value, json};

use super::Conversion;
use super::fields::{list, number, present, remove, set_absent, text};

/// The share of the CPU aimed at when nobody says.
const UTILIZATION_PERCENT: i64 = 80;
const OLD_TARGET: &str = "targetCPUUtilizationPercentage";
const OLD_CURRENT: &str = "currentCPUUtilizationPercentage";
const SHOWN_MAX: usize = 2;

/// How `v1` shows an autoscaler.
pub(super) const CONVERSION: Conversion = Conversion { to_stored, from_stored };

/// Whether an object is in the form of `v1`.
pub(super) fn is_old_form(object: &Value) -> bool {
    text(object, "apiVersion") == "autoscaling/v1" || present(&object["spec"], OLD_TARGET).is_some()
}

fn cpu_metric(percent: i64) -> Value {
    json!({
        "type": "Resource",
        "resource": {
            "name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percent},
        },
    })
}

fn is_cpu(metric: &Value) -> bool {
    text(metric, "type") == "Resource" && text(&metric["resource"], "name") == "cpu"
}

/// Fills in what a user may leave out, in either form.
pub(super) fn default(object: &mut Value) {
    let old_form = is_old_form(object);
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    set_absent(spec, "minReplicas", 1);
    if old_form {
        set_absent(spec, OLD_TARGET, UTILIZATION_PERCENT);
        return;
    }
    if list(spec, "metrics").is_empty() {
        spec["metrics"] = json!([cpu_metric(UTILIZATION_PERCENT)]);
    }
    if spec["behavior"].is_object() {
        default_rules(
            &mut spec["behavior"]["scaleUp"],
            Some(0),
            json!([
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ]),
        );
        default_rules(
            &mut spec["behavior"]["scaleDown"],
            None,
            json!([
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ]),
        );
    }
}

fn default_rules(rules: &mut Value, window_seconds: Option<i64>, policies: Value) {
    if !rules.is_object() {
        *rules = json!({});
    }
    if let Some(seconds) = window_seconds {
        set_absent(rules, "stabilizationWindowSeconds", seconds);
    }
    set_absent(rules, "selectPolicy", "Max");
    set_absent(rules, "policies", policies);
}

/// From `v1` to the stored form.
pub(super) fn to_stored(object: &mut Value) {
    let spec = &mut object["spec"];
    let percent = number(spec, OLD_TARGET);
    remove(spec, OLD_TARGET);
    if let (Some(percent), true) = (percent, spec.is_object()) {
        spec["metrics"] = json!([cpu_metric(percent)]);
    }
    let status = &mut object["status"];
    let current = number(status, OLD_CURRENT);
    remove(status, OLD_CURRENT);
    if let Some(current) = current {
        status["currentMetrics"] = json!([{
            "type": "Resource",
            "resource": {"name": "cpu", "current": {"averageUtilization": current}},
        }]);
    }
    if status.is_object() {
        set_absent(status, "currentMetrics", Value::Null);
    }
}

/// From the stored form to `v1`.
pub(super) fn from_stored(object: &mut Value) {
    let spec = &mut object["spec"];
    let metric = list(spec, "metrics").iter().find(|metric| is_cpu(metric));
    let percent =
        metric.and_then(|metric| number(&metric["resource"]["target"], "averageUtilization"));
    for field in ["metrics", "behavior"] {
        remove(spec, field);
    }
    if let Some(percent) = percent {
        spec[OLD_TARGET] = percent.into();
    }
    let status = &mut object["status"];
    let current = list(status, "currentMetrics").iter().find(|metric| is_cpu(metric));
    let current =
        current.and_then(|metric| number(&metric["resource"]["current"], "averageUtilization"));
    for field in ["currentMetrics", "conditions"] {
        remove(status, field);
    }
    if let Some(current) = current {
        status[OLD_CURRENT] = current.into();
    }
    if status.is_object() {
        set_absent(status, "desiredReplicas", 0);
        set_absent(status, "currentReplicas", 0);
    }
}

/// What is aimed at, and how far it is, as the table shows it.
pub(super) fn targets(object: &Value) -> String {
    let metrics = list(&object["spec"], "metrics");
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let current = list(&object["status"], "currentMetrics");
    let shown = metrics.iter().take(SHOWN_MAX).enumerate();
    let shown: Vec<String> =
        shown.map(|(index, metric)| target(metric, current.get(index))).collect();
    let shown = shown.join(", ");
    if metrics.len() > SHOWN_MAX {
        return format!("{shown} + {} more...", metrics.len() - SHOWN_MAX);
    }
    shown
}

fn target(metric: &Value, status: Option<&Value>) -> String {
    let (field, is_named) = match text(metric, "type") {
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "External" => ("external", false),
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = &metric[field]["target"];
    let now = status.map(|status| &status[field]["current"]);
    let amount = |key: &str| wanted[key].as_str();
    let actual = |key: &str| now.and_then(|now| now[key].as_str()).unwrap_or("<unknown>");
    if is_named {
        let name = text(&metric[field], "name");
        if let Some(wanted) = amount("averageValue") {
            return format!("{name}: {}/{wanted}", actual("averageValue"));
        }
        let percent = |value: Option<i64>, none: &str| {
            value.map_or_else(|| none.to_owned(), |value| format!("{value}%"))
        };
        let now = now.and_then(|now| number(now, "averageUtilization"));
        let wanted = number(wanted, "averageUtilization");
        return format!("{name}: {}/{}", percent(now, "<unknown>"), percent(wanted, "<auto>"));
    }
    match (field, amount("averageValue")) {
        ("pods", wanted) => format!("{}/{}", actual("averageValue"), wanted.unwrap_or("0")),
        (_, Some(wanted)) => format!("{}/{wanted} (avg)", actual("averageValue")),
        (_, None) => format!("{}/{}", actual("value"), amount("value").unwrap_or("0")),
    }
}
