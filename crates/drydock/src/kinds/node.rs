//! Nodes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use object::field::{Error, Errors, Fault, Path};
use object::taint::{Taint, validate_taints};
use serde_json::{Value, json};

use super::Strategy;
use super::cells::{AGE, Cell, NAME, cell, text_or, wide};
use super::fields::{flag, list, map, present, remove, set_absent, text, texts};
use super::pod_spec::resource_rules::check_amount;
use super::pod_spec::{go_form, ip_faults, is_ipv6, resources};
use super::strategy::Selectable;
use crate::admission::Plugin;
use crate::kinds::rules::fault_of_form;

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";

/// What is special about nodes.
pub struct Node;

impl Strategy for Node {
    fn default(&self, node: &mut Value) {
        if !node["spec"].is_object() {
            node["spec"] = json!({});
        }
        one_range(&mut node["spec"]);
        let Some(status) = super::fields::present_mut(node, "status") else { return };
        for field in ["capacity", "allocatable"] {
            resources::round_up_resources(status, field);
        }
        if let Some(capacity) = present(status, "capacity").cloned() {
            set_absent(status, "allocatable", capacity);
        }
    }

    fn prepare_create(&self, node: &mut Value, _now: Timestamp) {
        remove(&mut node["spec"], "configSource");
        if let Some(status) = super::fields::present_mut(node, "status") {
            remove(status, "config");
            remove(status, "declaredFeatures");
        }
    }

    fn prepare_update(&self, node: &mut Value, old: &Value, _now: Timestamp) {
        if present(&old["spec"], "configSource").is_none() {
            remove(&mut node["spec"], "configSource");
        }
    }

    fn prepare_status(&self, node: &mut Value, old: &Value, _now: Timestamp) {
        let before = &old["status"];
        if let Some(status) = super::fields::present_mut(node, "status") {
            for field in ["config", "declaredFeatures"] {
                if present(before, field).is_none() {
                    remove(status, field);
                }
            }
        }
    }

    fn validate(&self, node: &Value) -> Errors {
        let mut errors = Errors::new();
        check_taints(&mut errors, node);
        check_resources(&mut errors, node);
        check_ranges(&mut errors, &node["spec"]);
        errors
    }

    fn validate_update(&self, node: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(node);
        errors.extend(self.validate_status(node, old));
        errors
    }

    fn validate_status(&self, node: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        check_resources(&mut errors, node);
        check_addresses(&mut errors, &node["status"]);
        check_unchanged(&mut errors, &node["spec"], &old["spec"]);
        check_taints(&mut errors, node);
        let path = Path::new("spec");
        if text(&node["spec"], "externalID") != text(&old["spec"], "externalID") {
            errors.push(Error::forbidden(&path.child("externalID"), "may not be updated"));
        }
        errors
    }

    fn warnings(&self, node: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if !text(&node["spec"], "externalID").is_empty() {
            warnings.push(
                "spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned(),
            );
        }
        warnings
    }

    fn selectable(&self) -> &'static [Selectable] {
        &SELECTABLE
    }

    fn cells(&self) -> &'static [Cell] {
        TABLE
    }

    fn admission(&self) -> &'static [Plugin] {
        &[Plugin::NodeTaints]
    }

    fn keeps_status_at_creation(&self) -> bool {
        true
    }
}

const TABLE: &[Cell] = &[
    NAME,
    cell("Status", "string", |node, _| state(node).into()),
    cell("Roles", "string", |node, _| roles(node).into()),
    AGE,
    cell("Version", "string", |node, _| text_or(&info(node)["kubeletVersion"], "")),
    wide("Internal-IP", "string", |node, _| address(node, "InternalIP").into()),
    wide("External-IP", "string", |node, _| address(node, "ExternalIP").into()),
    wide("OS-Image", "string", |node, _| known(info(node), "osImage")),
    wide("Kernel-Version", "string", |node, _| known(info(node), "kernelVersion")),
    wide("Container-Runtime", "string", |node, _| known(info(node), "containerRuntimeVersion")),
];

fn info(node: &Value) -> &Value {
    &node["status"]["nodeInfo"]
}

fn known(info: &Value, field: &str) -> Value {
    match text(info, field) {
        "" => "<unknown>",
        value => value,
    }
    .into()
}

static SELECTABLE: [Selectable; 1] = [Selectable {
    name: "spec.unschedulable",
    value: |node| flag(&node["spec"], "unschedulable").to_string(),
}];

/// The one range and the list of ranges say the same; the one wins.
fn one_range(spec: &mut Value) {
    let one = text(spec, "podCIDR").to_owned();
    let first = texts(spec, "podCIDRs").next().map(str::to_owned);
    match first {
        Some(first) if one.is_empty() => spec["podCIDR"] = first.into(),
        Some(first) if first == one => {}
        _ if one.is_empty() => {}
        _ => spec["podCIDRs"] = json!([one]),
    }
}

/// Upstream places the faults of taints in the metadata.
fn check_taints(errors: &mut Errors, node: &Value) {
    let taints = list(&node["spec"], "taints").iter();
    let taints: Vec<Taint> =
        taints.filter_map(|taint| serde_json::from_value(taint.clone()).ok()).collect();
    errors.extend(validate_taints(&taints, &Path::new("metadata").child("taints")));
}

fn check_resources(errors: &mut Errors, node: &Value) {
    for field in ["capacity", "allocatable"] {
        for (name, amount) in resources::amounts(&node["status"], field) {
            let at = Path::new("status").child(field).child(&name);
            check_amount(errors, &name, &amount, &at);
        }
    }
}

fn check_ranges(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec").child("podCIDRs");
    let ranges: Vec<&str> = texts(spec, "podCIDRs").collect();
    for (index, range) in ranges.iter().enumerate() {
        if !is_range(range) {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            errors.push(Error::invalid(&path.index(index), *range, why));
        }
    }
    if ranges.len() < 2 {
        return;
    }
    let sixes = ranges.iter().filter(|range| range.contains(':')).count();
    if sixes == 0 || sixes == ranges.len() || ranges.len() > 2 {
        let why = "may specify no more than one CIDR for each IP family";
        errors.push(Error::invalid(&path, ranges, why));
    }
}

fn is_range(range: &str) -> bool {
    let Some((address, length)) = range.split_once('/') else { return false };
    let bits = if is_ipv6(address) { 128 } else { 32 };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    ip_faults(&Path::root(), address).is_none()
        && digits
        && length.parse::<u32>().is_ok_and(|length| length <= bits)
}

fn check_addresses(errors: &mut Errors, status: &Value) {
    let mut seen = BTreeSet::new();
    for (index, address) in list(status, "addresses").iter().enumerate() {
        let (kind, value) = (text(address, "type"), text(address, "address"));
        if !seen.insert((kind, value)) {
            let at = Path::new("status").child("addresses").index(index);
            let form = go_form(address, &[("Type", "type"), ("Address", "address")]);
            errors.push(fault_of_form(&at, Fault::Duplicate, &form, ""));
        }
    }
}

fn check_unchanged(errors: &mut Errors, spec: &Value, old: &Value) {
    let path = Path::new("spec");
    let (ranges, before): (Vec<&str>, Vec<&str>) =
        (texts(spec, "podCIDRs").collect(), texts(old, "podCIDRs").collect());
    let changed = if before.is_empty() {
        0
    } else if before.len() == ranges.len() {
        before.iter().zip(&ranges).filter(|(before, now)| before != now).count()
    } else {
        1
    };
    for _ in 0..changed {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(Error::forbidden(&path.child("podCIDRs"), why));
    }
    let provider = text(old, "providerID");
    if !provider.is_empty() && provider != text(spec, "providerID") {
        let why = "node updates may not change providerID except from \"\" to valid";
        errors.push(Error::forbidden(&path.child("providerID"), why));
    }
}

fn state(node: &Value) -> String {
    let conditions = list(&node["status"], "conditions").iter();
    let ready = conditions.rev().find(|condition| text(condition, "type") == "Ready");
    let mut state = match ready.map(|condition| text(condition, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if flag(&node["spec"], "unschedulable") {
        state.push_str(",SchedulingDisabled");
    }
    state
}

fn roles(node: &Value) -> String {
    let labels = map(&node["metadata"], "labels").into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) => Some(role),
            None if key == ROLE => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() {
        return "<none>".to_owned();
    }
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let mut addresses = list(&node["status"], "addresses").iter();
    addresses.find(|one| text(one, "type") == kind).map_or("<none>", |one| text(one, "address"))
}
