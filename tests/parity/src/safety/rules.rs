//! What must not come of a decision, from the objects alone.
//!
//! It is written down from Kubernetes' documentation, reads JSON, and knows nothing of the engine:
//! no part of it can be wrong together with what it judges. It is slow and asks every pod.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Objects by kind, namespace and name.
pub type Objects = BTreeMap<(String, String, String), Value>;

/// What is there, and who is where.
pub struct View<'a> {
    pub objects: &'a Objects,
    /// Pods that have a node, or are to get it.
    pub placed: Vec<(&'a Value, &'a str)>,
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// A quantity in thousandths.
fn thousandths(value: &Value) -> i128 {
    let written = text(value);
    let split = written.find(|one: char| !one.is_ascii_digit()).unwrap_or(written.len());
    let (digits, unit) = written.split_at(split);
    let scale: i128 = match unit {
        "m" => 1,
        "" => 1000,
        "k" => 1_000_000,
        "M" => 1_000_000_000,
        "G" => 1_000_000_000_000,
        "Ki" => 1000 << 10,
        "Mi" => 1000 << 20,
        "Gi" => 1000 << 30,
        other => panic!("the generator writes no quantities in {other:?}"),
    };
    digits.parse::<i128>().expect("the generator writes whole numbers") * scale
}

type Amounts = BTreeMap<String, i128>;

fn amounts(wire: &Value) -> Amounts {
    entries(wire).map(|(name, amount)| (name.clone(), thousandths(amount))).collect()
}

fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *to.entry(name.clone()).or_default() += amount;
    }
}

fn raise(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let own = to.entry(name.clone()).or_default();
        *own = (*own).max(*amount);
    }
}

/// What a container takes: where it is being resized, the most of what it has and asks for.
fn of_container(pod: &Value, container: &Value, resizes: bool) -> Amounts {
    let asked = amounts(&container["resources"]["requests"]);
    let status = &pod["status"];
    let told = list(&status["containerStatuses"]).chain(list(&status["initContainerStatuses"]));
    let told = told.filter(|one| one["name"] == container["name"] && !one["resources"].is_null());
    let Some(own) = told.last().filter(|_| resizes) else { return asked };
    let mut taken = amounts(&own["resources"]["requests"]);
    raise(&mut taken, &amounts(&own["allocatedResources"]));
    let pending = list(&status["conditions"]).find(|one| one["type"] == "PodResizePending");
    if pending.is_none_or(|one| one["reason"] != "Infeasible") {
        raise(&mut taken, &asked);
    }
    taken
}

/// What a pod takes of its node.
fn requests(pod: &Value) -> Amounts {
    let spec = &pod["spec"];
    let mut running = Amounts::new();
    for container in list(&spec["containers"]) {
        add(&mut running, &of_container(pod, container, true));
    }
    let (mut beside, mut starting) = (Amounts::new(), Amounts::new());
    for container in list(&spec["initContainers"]) {
        let stays = container["restartPolicy"] == "Always";
        let own = of_container(pod, container, stays);
        let mut now = beside.clone();
        add(&mut now, &own);
        raise(&mut starting, &now);
        if stays {
            add(&mut running, &own);
            beside = now;
        }
    }
    raise(&mut running, &starting);
    for (name, amount) in amounts(&spec["resources"]["requests"]) {
        running.insert(name, amount);
    }
    add(&mut running, &amounts(&spec["overhead"]));
    running
}

/// Whether labels are what a selector means. No selector means nothing, an empty one everything.
fn selects(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let pairs = entries(&selector["matchLabels"]).all(|(key, value)| labels[key] == *value);
    pairs
        && list(&selector["matchExpressions"]).all(|one| {
            let own = &labels[text(&one["key"])];
            let among = list(&one["values"]).any(|value| value == own);
            match text(&one["operator"]) {
                "In" => among,
                "NotIn" => !among,
                "Exists" => !own.is_null(),
                "DoesNotExist" => own.is_null(),
                other => panic!("the generator writes no operator {other:?}"),
            }
        })
}

/// Every port of the node that a pod takes: address, protocol and number.
fn ports(pod: &Value) -> Vec<(&str, &str, i64)> {
    let spec = &pod["spec"];
    let beside = list(&spec["initContainers"]).filter(|one| one["restartPolicy"] == "Always");
    let of = |container| {
        list(container).filter_map(|port| {
            let number = port["hostPort"].as_i64().filter(|number| *number > 0)?;
            let address = match text(&port["hostIP"]) {
                "" => "0.0.0.0",
                address => address,
            };
            Some((address, text(&port["protocol"]), number))
        })
    };
    list(&spec["containers"]).chain(beside).flat_map(|one| of(&one["ports"])).collect()
}

/// Whether two pods cannot have these volumes on one node.
fn disks_clash(a: &Value, b: &Value) -> bool {
    let both_read = |kind: &str| a[kind]["readOnly"] == true && b[kind]["readOnly"] == true;
    let same =
        |kind: &str, field: &str| !a[kind][field].is_null() && a[kind][field] == b[kind][field];
    same("awsElasticBlockStore", "volumeID")
        || same("gcePersistentDisk", "pdName") && !both_read("gcePersistentDisk")
        || same("iscsi", "iqn") && !both_read("iscsi")
        || same("rbd", "image")
            && same("rbd", "pool")
            && list(&a["rbd"]["monitors"]).any(|one| list(&b["rbd"]["monitors"]).any(|b| b == one))
            && !both_read("rbd")
}

impl<'a> View<'a> {
    fn get(&self, kind: &str, namespace: &str, name: &str) -> &'a Value {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        self.objects.get(&key).unwrap_or(&Value::Null)
    }

    fn nodes(&self) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(|((kind, ..), _)| kind == "Node").map(|(_, node)| node)
    }

    fn on(&self, node: &str) -> impl Iterator<Item = &'a Value> {
        self.placed.iter().filter(move |(_, own)| *own == node).map(|(pod, _)| *pod)
    }

    /// The value of a node's label.
    fn label(&self, node: &str, key: &str) -> &'a Value {
        &self.get("Node", "", node)["metadata"]["labels"][key]
    }

    /// Why the pod must not get the node, if so.
    pub fn forbids(&self, pod: &Value, node: &str) -> Option<String> {
        if self.get("Node", "", node).is_null() {
            return Some(format!("there is no node {node}"));
        }
        self.exceeds(pod, node)
            .or_else(|| self.shares_a_port(pod, node))
            .or_else(|| self.shares_a_volume(pod, node))
            .or_else(|| self.attaches_too_much(pod, node))
            .or_else(|| self.is_too_near(pod, node))
            .or_else(|| self.skews(pod, node))
    }

    fn exceeds(&self, pod: &Value, node: &str) -> Option<String> {
        let allocatable = amounts(&self.get("Node", "", node)["status"]["allocatable"]);
        let of = |name: &str| allocatable.get(name).copied().unwrap_or(0);
        let mut taken = Amounts::new();
        self.on(node).for_each(|other| add(&mut taken, &requests(other)));
        let count = i128::try_from(self.on(node).count()).expect("few") + 1;
        if count * 1000 > of("pods") {
            return Some(format!("{count} pods are too many for {node}"));
        }
        // What it does not ask for, it does not take too much of.
        let asked = requests(pod).into_iter().filter(|(_, amount)| *amount > 0);
        let mut sums =
            asked.map(|(name, own)| (own + taken.get(&name).copied().unwrap_or(0), name));
        let (sum, name) = sums.find(|(sum, name)| *sum > of(name))?;
        Some(format!("{sum} thousandths of {name} are more than {node} has: {}", of(&name)))
    }

    fn shares_a_port(&self, pod: &Value, node: &str) -> Option<String> {
        let own = ports(pod);
        let taken: Vec<_> = self.on(node).flat_map(ports).collect();
        let clash = |a: &(&str, &str, i64), b: &(&str, &str, i64)| {
            (a.1, a.2) == (b.1, b.2) && (a.0 == b.0 || a.0 == "0.0.0.0" || b.0 == "0.0.0.0")
        };
        let port = own.iter().find(|own| taken.iter().any(|other| clash(own, other)))?;
        Some(format!("port {port:?} of {node} is taken"))
    }

    /// Names of the claims of a pod.
    fn claims(pod: &Value) -> impl Iterator<Item = String> {
        let name = text(&pod["metadata"]["name"]);
        list(&pod["spec"]["volumes"]).filter_map(move |volume| {
            let own = text(&volume["name"]);
            match volume["persistentVolumeClaim"]["claimName"].as_str() {
                Some(claim) => Some(claim.to_owned()),
                None if volume["ephemeral"].is_object() => Some(format!("{name}-{own}")),
                None => None,
            }
        })
    }

    fn shares_a_volume(&self, pod: &Value, node: &str) -> Option<String> {
        let volumes = |pod: &'a Value| list(&pod["spec"]["volumes"]);
        for own in list(&pod["spec"]["volumes"]) {
            if self.on(node).flat_map(volumes).any(|other| disks_clash(own, other)) {
                return Some(format!("a disk on {node} is not to be shared: {own}"));
            }
        }
        let namespace = &pod["metadata"]["namespace"];
        let alone = Self::claims(pod).find(|claim| {
            let object = self.get("PersistentVolumeClaim", text(namespace), claim);
            let is_for_one =
                list(&object["spec"]["accessModes"]).any(|mode| mode == "ReadWriteOncePod");
            is_for_one
                && self.placed.iter().any(|(other, node)| {
                    other["metadata"]["namespace"] == *namespace
                        && !self.get("Node", "", node).is_null()
                        && Self::claims(other).any(|other| other == *claim)
                })
        })?;
        Some(format!("claim {alone} is for one pod and has one"))
    }

    /// Drivers and handles of the volumes that the claims of a pod are bound to.
    fn handles(&self, pod: &Value) -> BTreeSet<(&'a str, &'a str)> {
        let namespace = text(&pod["metadata"]["namespace"]);
        let csi = Self::claims(pod).map(|claim| {
            let claim = self.get("PersistentVolumeClaim", namespace, &claim);
            let volume = self.get("PersistentVolume", "", text(&claim["spec"]["volumeName"]));
            &volume["spec"]["csi"]
        });
        let known = csi.filter(|csi| csi.is_object());
        known.map(|csi| (text(&csi["driver"]), text(&csi["volumeHandle"]))).collect()
    }

    fn attaches_too_much(&self, pod: &Value, node: &str) -> Option<String> {
        let (own, mut all) = (self.handles(pod), BTreeSet::new());
        self.on(node).for_each(|other| all.extend(self.handles(other)));
        let added: Vec<_> = own.difference(&all).copied().collect();
        all.extend(&added);
        let drivers = list(&self.get("CSINode", "", node)["spec"]["drivers"]);
        let mut limits = drivers.filter_map(|driver| {
            Some((text(&driver["name"]), driver["allocatable"]["count"].as_u64()?))
        });
        let (driver, limit) = limits.find(|(driver, limit)| {
            let count = all.iter().filter(|(own, _)| own == driver).count();
            added.iter().any(|(own, _)| own == driver) && count as u64 > *limit
        })?;
        Some(format!("{node} takes {limit} volumes of {driver}"))
    }

    /// Whether a term of a pod means another pod.
    fn means(&self, owner: &Value, term: &Value, other: &Value) -> bool {
        let namespace = text(&other["metadata"]["namespace"]);
        let named = list(&term["namespaces"]).any(|one| one == namespace);
        let by_labels = &term["namespaceSelector"];
        let own = list(&term["namespaces"]).next().is_none() && by_labels.is_null();
        let labels = &self.get("Namespace", "", namespace)["metadata"]["labels"];
        let within = named
            || own && owner["metadata"]["namespace"] == namespace
            || selects(by_labels, labels);
        within && selects(&term["labelSelector"], &other["metadata"]["labels"])
    }

    fn is_too_near(&self, pod: &Value, node: &str) -> Option<String> {
        let terms = |pod: &'a Value| {
            let away = &pod["spec"]["affinity"]["podAntiAffinity"];
            list(&away["requiredDuringSchedulingIgnoredDuringExecution"])
        };
        let away = &pod["spec"]["affinity"]["podAntiAffinity"];
        let own: Vec<&Value> =
            list(&away["requiredDuringSchedulingIgnoredDuringExecution"]).collect();
        let together = |term: &Value, other: &str| {
            let key = text(&term["topologyKey"]);
            let (a, b) = (self.label(node, key), self.label(other, key));
            !a.is_null() && a == b
        };
        let (other, at) = self.placed.iter().find(|(other, at)| {
            own.iter().any(|term| together(term, at) && self.means(pod, term, other))
                || terms(other).any(|term| together(term, at) && self.means(other, term, pod))
        })?;
        Some(format!("{} on {at} is to be away from it", other["metadata"]["name"]))
    }

    fn skews(&self, pod: &Value, node: &str) -> Option<String> {
        let binds = |one: &&Value| one["whenUnsatisfiable"] == "DoNotSchedule";
        let rules: Vec<&Value> =
            list(&pod["spec"]["topologySpreadConstraints"]).filter(binds).collect();
        let has_all = |node: &&Value| {
            let labels = &node["metadata"]["labels"];
            rules.iter().all(|rule| !labels[text(&rule["topologyKey"])].is_null())
        };
        let broken = rules.iter().find(|rule| {
            let nodes = self.nodes().filter(has_all);
            let counted = nodes.filter(|node| includes(rule, pod, node));
            self.is_skewed(rule, pod, node, counted)
        })?;
        Some(format!("{node} would break {broken}"))
    }

    fn is_skewed(
        &self,
        rule: &Value,
        pod: &Value,
        node: &str,
        counted: impl Iterator<Item = &'a Value>,
    ) -> bool {
        let key = text(&rule["topologyKey"]);
        let labels = &pod["metadata"]["labels"];
        let selector = &rule["labelSelector"];
        let says = |field: &str| match &selector[field] {
            Value::Array(all) => !all.is_empty(),
            Value::Object(all) => !all.is_empty(),
            _ => false,
        };
        let keyed = list(&rule["matchLabelKeys"]).any(|key| !labels[text(key)].is_null());
        // A selector that says nothing counts nobody, though it means everybody.
        if !says("matchLabels") && !says("matchExpressions") && !keyed {
            return self.label(node, key).is_null();
        }
        let like = |other: &Value| {
            let theirs = &other["metadata"]["labels"];
            let mut keys = list(&rule["matchLabelKeys"]).map(text);
            // A key that the pod itself does not have says nothing.
            selects(selector, theirs)
                && keys.all(|key| labels[key].is_null() || labels[key] == theirs[key])
        };
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for counted in counted {
            let domain = counts.entry(counted["metadata"]["labels"][key].to_string()).or_default();
            *domain += self
                .on(text(&counted["metadata"]["name"]))
                .filter(|one| one["metadata"]["namespace"] == pod["metadata"]["namespace"])
                .filter(|one| one["metadata"]["deletionTimestamp"].is_null() && like(one))
                .map(|_| 1)
                .sum::<i64>();
        }
        let domains_min = rule["minDomains"].as_i64().unwrap_or(1);
        let enough = i64::try_from(counts.len()).expect("few") >= domains_min;
        let least = counts.values().min().copied().filter(|_| enough).unwrap_or(0);
        let own = self.label(node, key);
        let there = counts.get(&own.to_string()).copied().unwrap_or(0);
        own.is_null()
            || there + i64::from(like(pod)) - least > rule["maxSkew"].as_i64().unwrap_or(1)
    }
}

/// Whether a node's pods are counted for a pod's constraint.
fn includes(rule: &Value, pod: &Value, node: &Value) -> bool {
    let by_affinity = rule["nodeAffinityPolicy"] == "Ignore" || is_wanted(pod, node);
    let by_taints = rule["nodeTaintsPolicy"] != "Honor" || is_tolerated(pod, node);
    by_affinity && by_taints
}

fn is_wanted(pod: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let spec = &pod["spec"];
    let required =
        &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let is_met = |one: &Value| {
        let own = &labels[text(&one["key"])];
        let value = list(&one["values"]).next().map(text).unwrap_or_default();
        let numbers = text(own).parse::<i64>().ok().zip(value.parse::<i64>().ok());
        let among = list(&one["values"]).any(|value| value == own);
        match text(&one["operator"]) {
            "Gt" => numbers.is_some_and(|(own, value)| own > value),
            "Lt" => numbers.is_some_and(|(own, value)| own < value),
            "In" => among,
            "NotIn" => !among,
            "Exists" => !own.is_null(),
            _ => own.is_null(),
        }
    };
    let by_name = |one: &Value| {
        let among = list(&one["values"]).any(|value| *value == node["metadata"]["name"]);
        among == (one["operator"] == "In")
    };
    let is_any = |term: &Value| {
        let says = |field: &str| list(&term[field]).next().is_some();
        (says("matchExpressions") || says("matchFields"))
            && list(&term["matchExpressions"]).all(is_met)
            && list(&term["matchFields"]).all(by_name)
    };
    entries(&spec["nodeSelector"]).all(|(key, value)| labels[key] == *value)
        && (required.is_null() || list(&required["nodeSelectorTerms"]).any(is_any))
}

fn is_tolerated(pod: &Value, node: &Value) -> bool {
    let keeps_out = |taint: &&Value| taint["effect"] != "PreferNoSchedule";
    list(&node["spec"]["taints"]).filter(keeps_out).all(|taint| {
        list(&pod["spec"]["tolerations"]).any(|one| {
            let effect = text(&one["effect"]);
            let key = text(&one["key"]);
            (effect.is_empty() || taint["effect"] == effect)
                && (key.is_empty() || taint["key"] == key)
                && (one["operator"] == "Exists" || text(&one["value"]) == text(&taint["value"]))
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str) -> Value {
        json!({
            "kind": "Node",
            "metadata": {"name": name, "labels": {"host": name, "zone": "z"}},
            "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3", "x.y/z": "1"}},
        })
    }

    fn pod(name: &str, spec: Value) -> Value {
        let metadata = json!({"name": name, "namespace": "default", "labels": {"app": "web"}});
        json!({"kind": "Pod", "metadata": metadata, "spec": spec})
    }

    fn cpu(amount: &str) -> Value {
        json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": amount}}}]})
    }

    /// Whether a pod must not join others on the node `a`; there is a node `b` as well.
    fn check(there: &[Value], joins: &Value, expected: Option<&str>) {
        let others = json!([
            {"kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "a"}}},
            {"kind": "PersistentVolumeClaim", "metadata": {"name": "alone", "namespace": "default"},
             "spec": {"accessModes": ["ReadWriteOncePod"]}},
            {"kind": "PersistentVolumeClaim", "metadata": {"name": "one", "namespace": "default"},
             "spec": {"volumeName": "one"}},
            {"kind": "PersistentVolumeClaim", "metadata": {"name": "two", "namespace": "default"},
             "spec": {"volumeName": "two"}},
            {"kind": "PersistentVolume", "metadata": {"name": "one"},
             "spec": {"csi": {"driver": "d", "volumeHandle": "1"}}},
            {"kind": "PersistentVolume", "metadata": {"name": "two"},
             "spec": {"csi": {"driver": "d", "volumeHandle": "2"}}},
            {"kind": "CSINode", "metadata": {"name": "a"},
             "spec": {"drivers": [{"name": "d", "allocatable": {"count": 1}}]}},
        ]);
        let all = list(&others).cloned().chain([node("a"), node("b")]);
        let objects: Objects = all.map(|one| (crate::generate::name_of(&one), one)).collect();
        let view = View { objects: &objects, placed: there.iter().map(|pod| (pod, "a")).collect() };
        let found = view.forbids(joins, "a").unwrap_or_default();
        match expected {
            None => assert_eq!(found, "", "{joins}"),
            Some(expected) => assert!(found.contains(expected), "{found:?} of {joins}"),
        }
    }

    #[test]
    fn a_node_is_not_exceeded() {
        let big = pod("big", cpu("1500m"));
        check(std::slice::from_ref(&big), &pod("new", cpu("500m")), None);
        check(std::slice::from_ref(&big), &pod("new", cpu("501m")), Some("cpu"));
        check(&[], &pod("new", cpu("2001m")), Some("cpu"));
        let mut with_overhead = pod("new", cpu("500m"));
        with_overhead["spec"]["overhead"] = json!({"cpu": "1m"});
        check(std::slice::from_ref(&big), &with_overhead, Some("cpu"));
        let mut starts = pod("new", cpu("1m"));
        starts["spec"]["initContainers"] = cpu("600m")["containers"].clone();
        check(std::slice::from_ref(&big), &starts, Some("cpu"));
        let mut grows = pod("grows", cpu("1"));
        grows["status"]["containerStatuses"] =
            json!([{"name": "c", "resources": {"requests": {"cpu": "2"}}}]);
        check(&[grows], &pod("new", cpu("1m")), Some("cpu"));
        let unknown = json!({"containers": [{"resources": {"requests": {"x.y/w": "1"}}}]});
        check(&[], &pod("new", unknown), Some("x.y/w"));
        // What is too much already, and it asks nothing of, is not its fault.
        check(&[big.clone(), big.clone()], &pod("new", json!({})), None);
        check(&[big.clone(), big.clone(), big], &pod("new", json!({})), Some("pods"));
    }

    #[test]
    fn ports_and_volumes_are_not_shared() {
        let with_port = |address: &str, protocol: &str| {
            let port = json!({"hostPort": 80, "hostIP": address, "protocol": protocol});
            pod("p", json!({"containers": [{"ports": [port]}]}))
        };
        check(&[with_port("", "TCP")], &with_port("1.2.3.4", "TCP"), Some("port"));
        check(&[with_port("", "TCP")], &with_port("", "UDP"), None);
        check(&[with_port("1.2.3.4", "TCP")], &with_port("1.2.3.5", "TCP"), None);
        let disk = |read: bool| {
            let disk = json!({"gcePersistentDisk": {"pdName": "d", "readOnly": read}});
            pod("p", json!({"volumes": [disk]}))
        };
        check(&[disk(true)], &disk(true), None);
        check(&[disk(true)], &disk(false), Some("disk"));
        let claim = |name: &str| {
            let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": name}});
            pod("p", json!({"volumes": [volume]}))
        };
        check(&[], &claim("alone"), None);
        check(&[claim("alone")], &claim("alone"), Some("for one pod"));
        check(&[claim("one")], &claim("one"), None);
        check(&[claim("one")], &claim("two"), Some("takes 1 volumes"));
    }

    #[test]
    fn distance_and_spread_are_kept() {
        let away = |team: Value| {
            let term =
                json!({"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": team});
            let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
            pod("p", json!({"affinity": {"podAntiAffinity": terms}}))
        };
        let plain = pod("plain", json!({}));
        for team in [json!(null), json!({}), json!({"matchLabels": {"team": "a"}})] {
            check(std::slice::from_ref(&plain), &away(team.clone()), Some("away"));
            check(&[away(team)], &plain, Some("away"));
        }
        check(&[away(json!({"matchLabels": {"team": "b"}}))], &plain, None);
        let spread = |key: &str, more: Value| {
            let mut rule = json!({
                "topologyKey": key,
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            });
            for (field, value) in entries(&more) {
                rule[field] = value.clone();
            }
            pod("p", json!({"topologySpreadConstraints": [rule]}))
        };
        let there = std::slice::from_ref(&plain);
        check(&[], &spread("host", json!({})), None);
        check(there, &spread("host", json!({})), Some("break"));
        check(there, &spread("host", json!({"maxSkew": 2})), None);
        check(there, &spread("zone", json!({})), None);
        check(there, &spread("zone", json!({"minDomains": 2})), Some("break"));
        check(there, &spread("rack", json!({})), Some("break"));
        check(there, &spread("host", json!({"labelSelector": {}})), None);
    }
}
