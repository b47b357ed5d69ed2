//! Kinds that are data to us but for a few defaults and the table that shows them.

use serde_json::{Map, Value, json};

use super::cells::{AGE, Cell, NAME, cell, first_three, int, selector, text_or, wide};
use super::fields::{
    list, list_mut, map, number, present, present_mut, set_absent, set_empty, text, texts,
};
use super::pod_spec::resources::round_up_resources;
use super::strategy::{Strategy, changed_beyond_status};

/// Data with defaults and a table.
pub(super) struct Shaped {
    default: fn(&mut Value),
    cells: &'static [Cell],
}

impl Strategy for Shaped {
    fn default(&self, object: &mut Value) {
        (self.default)(object);
    }

    fn cells(&self) -> &'static [Cell] {
        self.cells
    }
}

fn nothing(_object: &mut Value) {}

/// Who serves a version of a group.
pub(super) const API_SERVICE: Shaped = Shaped {
    default: nothing,
    cells: &[
        NAME,
        cell("Service", "string", |object, _| {
            match present(&object["spec"], "service") {
                Some(service) => {
                    format!("{}/{}", text(service, "namespace"), text(service, "name"))
                }
                None => "Local".to_owned(),
            }
            .into()
        }),
        cell("Available", "string", |object, _| availability(object).into()),
        AGE,
    ],
};

fn availability(object: &Value) -> String {
    let mut conditions = list(&object["status"], "conditions").iter();
    let Some(available) = conditions.find(|condition| text(condition, "type") == "Available")
    else {
        return "Unknown".to_owned();
    };
    match (text(available, "status"), text(available, "reason")) {
        (status @ "True", _) | (status, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    }
}

/// Kinds of which only name and age are shown.
pub(super) const NAME_AND_AGE: Shaped = Shaped { default: nothing, cells: &[NAME, AGE] };

/// Addresses behind a service, in the older form.
pub(super) const ENDPOINTS: Shaped = Shaped {
    default: |object| {
        for subset in list_mut(object, "subsets") {
            for port in list_mut(subset, "ports") {
                set_empty(port, "protocol", "TCP");
            }
        }
    },
    cells: &[NAME, cell("Endpoints", "string", |object, _| endpoints(object)), AGE],
};

fn endpoints(object: &Value) -> Value {
    let mut all = Vec::new();
    for subset in list(object, "subsets") {
        let addresses = || list(subset, "addresses").iter().map(|address| text(address, "ip"));
        let ports = list(subset, "ports");
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = number(port, "port").unwrap_or(0);
            all.extend(addresses().map(|address| {
                if address.contains(':') {
                    format!("[{address}]:{port}")
                } else {
                    format!("{address}:{port}")
                }
            }));
        }
    }
    let none = if list(object, "subsets").is_empty() { "<none>" } else { "" };
    first_three(&all, none)
}

/// Addresses behind a service.
pub(super) struct EndpointSlice;

const SLICE: &[Cell] = &[
    NAME,
    cell("AddressType", "string", |object, _| text_or(&object["addressType"], "")),
    cell("Ports", "string", |object, _| {
        let shown = |port: &Value| match number(port, "port") {
            Some(number) => number.to_string(),
            None => port["name"].as_str().unwrap_or("*").to_owned(),
        };
        let all: Vec<String> = list(object, "ports").iter().map(shown).collect();
        first_three(&all, "<unset>")
    }),
    cell("Endpoints", "string", |object, _| {
        let endpoints = list(object, "endpoints").iter();
        let all: Vec<String> =
            endpoints.flat_map(|one| texts(one, "addresses")).map(str::to_owned).collect();
        first_three(&all, "<unset>")
    }),
    AGE,
];

impl Strategy for EndpointSlice {
    fn default(&self, object: &mut Value) {
        for port in list_mut(object, "ports") {
            set_absent(port, "name", "");
            set_absent(port, "protocol", "TCP");
        }
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        let labels = |object: &Value| map(&object["metadata"], "labels").cloned();
        changed_beyond_status(object, old)
            || labels(object).unwrap_or_default() != labels(old).unwrap_or_default()
    }

    fn cells(&self) -> &'static [Cell] {
        SLICE
    }
}

/// Fills in what a limit range says by saying something else.
pub(super) fn default_limit_range(object: &mut Value) {
    for item in list_mut(&mut object["spec"], "limits") {
        if text(item, "type") != "Container" {
            continue;
        }
        for (target, source) in
            [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")]
        {
            let source = map(item, source).cloned().unwrap_or_default();
            if source.is_empty() {
                continue;
            }
            set_absent(item, target, Value::Object(Map::new()));
            for (resource, amount) in source {
                set_absent(&mut item[target], &resource, amount);
            }
        }
    }
    for item in list_mut(&mut object["spec"], "limits") {
        for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            round_up_resources(item, field);
        }
    }
}

/// How much a namespace may use.
pub(super) const RESOURCE_QUOTA: Shaped = Shaped {
    default: |object| {
        for (part, field) in [("spec", "hard"), ("status", "hard"), ("status", "used")] {
            if let Some(part) = present_mut(object, part) {
                round_up_resources(part, field);
            }
        }
    },
    cells: &[
        NAME,
        cell("Request", "string", |object, _| used(object, false).into()),
        cell("Limit", "string", |object, _| used(object, true).into()),
        AGE,
    ],
};

fn used(quota: &Value, limits: bool) -> String {
    let status = &quota["status"];
    let hard = map(status, "hard").into_iter().flatten();
    let hard = hard.filter(|(resource, _)| resource.starts_with("limits.") == limits);
    let shown = hard.map(|(resource, hard)| {
        let used = status["used"][resource].as_str().unwrap_or("0");
        format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default())
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Who may be reached by whom.
pub(super) const NETWORK_POLICY: Shaped = Shaped {
    default: |object| {
        let spec = &mut object["spec"];
        for (direction, _) in [("ingress", "from"), ("egress", "to")] {
            for rule in list_mut(spec, direction) {
                for port in list_mut(rule, "ports") {
                    set_absent(port, "protocol", "TCP");
                }
            }
        }
        if list(spec, "policyTypes").is_empty() {
            let outward = !list(spec, "egress").is_empty();
            spec["policyTypes"] =
                if outward { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        }
    },
    cells: &[
        NAME,
        cell("Pod-Selector", "string", |object, _| selector(&object["spec"]["podSelector"]).into()),
        AGE,
    ],
};

/// How clients outside reach services.
pub(super) const INGRESS: Shaped = Shaped {
    default: nothing,
    cells: &[
        NAME,
        cell("Class", "string", |object, _| text_or(&object["spec"]["ingressClassName"], "<none>")),
        cell("Hosts", "string", |object, _| hosts(&object["spec"]).into()),
        cell("Address", "string", |object, _| {
            let ingress = list(&object["status"]["loadBalancer"], "ingress").iter();
            let address = |one: &Value| match text(one, "ip") {
                "" => text(one, "hostname").to_owned(),
                address => address.to_owned(),
            };
            let mut all: Vec<String> = ingress.map(address).collect();
            all.retain(|address| !address.is_empty());
            all.sort();
            all.dedup();
            all.join(",").into()
        }),
        cell("Ports", "string", |object, _| {
            if list(&object["spec"], "tls").is_empty() { "80" } else { "80, 443" }.into()
        }),
        AGE,
    ],
};

fn hosts(spec: &Value) -> String {
    const SHOWN_MAX: usize = 3;
    let rules = list(spec, "rules");
    let hosts = rules.iter().map(|rule| text(rule, "host")).filter(|host| !host.is_empty());
    let hosts: Vec<&str> = hosts.collect();
    if hosts.is_empty() {
        return "*".to_owned();
    }
    let shown = hosts[..hosts.len().min(SHOWN_MAX)].join(",");
    if hosts.len() >= SHOWN_MAX && rules.len() > SHOWN_MAX {
        return format!("{shown} + {} more...", rules.len() - SHOWN_MAX);
    }
    shown
}

/// Who serves an ingress.
pub(super) const INGRESS_CLASS: Shaped = Shaped {
    default: |object| {
        if object["spec"]["parameters"].is_object() {
            set_absent(&mut object["spec"]["parameters"], "scope", "Cluster");
        }
    },
    cells: &[
        NAME,
        cell("Controller", "string", |object, _| text_or(&object["spec"]["controller"], "")),
        cell("Parameters", "string", |object, _| {
            let Some(parameters) = present(&object["spec"], "parameters") else {
                return "<none>".into();
            };
            let (kind, name) = (text(parameters, "kind"), text(parameters, "name"));
            match text(parameters, "apiGroup") {
                "" => format!("{kind}/{name}"),
                group => format!("{kind}.{group}/{name}"),
            }
            .into()
        }),
        AGE,
    ],
};

/// Who has a role.
pub(super) const ROLE_BINDING: Shaped = Shaped {
    default: |object| {
        set_empty(&mut object["roleRef"], "apiGroup", "rbac.authorization.k8s.io");
        for subject in list_mut(object, "subjects") {
            if matches!(text(subject, "kind"), "User" | "Group") {
                set_empty(subject, "apiGroup", "rbac.authorization.k8s.io");
            }
        }
    },
    cells: &[
        NAME,
        cell("Role", "string", |object, _| {
            let role = &object["roleRef"];
            format!("{}/{}", text(role, "kind"), text(role, "name")).into()
        }),
        AGE,
        wide("Users", "string", |object, _| subjects(object, "User").into()),
        wide("Groups", "string", |object, _| subjects(object, "Group").into()),
        wide("ServiceAccounts", "string", |object, _| subjects(object, "ServiceAccount").into()),
    ],
};

fn subjects(binding: &Value, kind: &str) -> String {
    let subjects = list(binding, "subjects").iter().filter(|one| text(one, "kind") == kind);
    let shown = subjects.map(|one| match kind {
        "ServiceAccount" => format!("{}/{}", text(one, "namespace"), text(one, "name")),
        _ => text(one, "name").to_owned(),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Which webhooks are asked.
pub(super) const WEBHOOKS: Shaped = Shaped {
    default: nothing,
    cells: &[
        NAME,
        cell("Webhooks", "integer", |object, _| list(object, "webhooks").len().into()),
        AGE,
    ],
};

/// What runs the containers of a pod.
pub(super) const RUNTIME_CLASS: Shaped = Shaped {
    default: nothing,
    cells: &[NAME, cell("Handler", "string", |object, _| text_or(&object["handler"], "")), AGE],
};

/// A wish for devices.
pub(super) const RESOURCE_CLAIM: Shaped = Shaped {
    default: nothing,
    cells: &[NAME, cell("State", "string", |object, _| claim_state(object).into()), AGE],
};

fn claim_state(claim: &Value) -> String {
    let deleted = present(&claim["metadata"], "deletionTimestamp").is_some();
    let allocated = present(&claim["status"], "allocation").is_some();
    let reserved = allocated && !list(&claim["status"], "reservedFor").is_empty();
    let states = [
        (deleted, "deleted"),
        (!allocated && !deleted, "pending"),
        (allocated, "allocated"),
        (reserved, "reserved"),
    ];
    let states = states.iter().filter(|(is, _)| *is).map(|(_, state)| *state);
    states.collect::<Vec<_>>().join(",")
}

/// Devices that can be had.
pub(super) const RESOURCE_SLICE: Shaped = Shaped {
    default: nothing,
    cells: &[
        NAME,
        cell("Node", "string", |object, _| text_or(&object["spec"]["nodeName"], "")),
        cell("Driver", "string", |object, _| text_or(&object["spec"]["driver"], "")),
        cell("Pool", "string", |object, _| text_or(&object["spec"]["pool"]["name"], "")),
        AGE,
    ],
};

/// How many replicas there shall be, by what they use.
pub(super) struct Autoscaler;

const AUTOSCALER: &[Cell] = &[
    NAME,
    cell("Reference", "string", |object, _| {
        let target = &object["spec"]["scaleTargetRef"];
        format!("{}/{}", text(target, "kind"), text(target, "name")).into()
    }),
    cell("Targets", "string", |object, _| super::autoscaler::targets(object).into()),
    cell("MinPods", "string", |object, _| match number(&object["spec"], "minReplicas") {
        Some(count) => count.to_string().into(),
        None => "<unset>".into(),
    }),
    cell("MaxPods", "string", |object, _| int(&object["spec"]["maxReplicas"])),
    cell("Replicas", "string", |object, _| int(&object["status"]["currentReplicas"])),
    AGE,
];

impl Strategy for Autoscaler {
    fn default(&self, object: &mut Value) {
        super::autoscaler::default(object);
    }

    fn cells(&self) -> &'static [Cell] {
        AUTOSCALER
    }
}
