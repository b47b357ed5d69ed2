//! What pods request and what nodes have, from lists of quantities.

use std::collections::BTreeMap;

use api::node_metric::Usages;
use api::pod::{Container, ContainerStatus, Pod, ResourceList, RestartPolicy};
use api::resource_names::KnownResource;
use object::names::qualified_name;
use object::quantity::{Format, Quantity};

use crate::needs::{Amounts, Requests};

/// Exact sums by resource. They become whole numbers only at the end, since each would be rounded
/// up.
type Sums<'a> = BTreeMap<&'a str, Quantity>;

/// The most that a node is taken to have of a resource: 256 tebibytes, or 281 billion CPUs.
const AMOUNT_MAX: i64 = 1 << 48;
/// The most pods that a node is taken to have room for. So many can request as much as there is, and
/// the sum does not wrap.
const PODS_MAX: i64 = (1 << 15) - 1;
/// The most that a pod is taken to request: more than any node has.
const REQUEST_MAX: i64 = AMOUNT_MAX + 1;
const _: () = assert!(REQUEST_MAX.checked_mul(PODS_MAX).is_some());

/// For scoring, what a container that requests no CPU counts as.
const CPU_MILLIS_UNLESS_REQUESTED: i64 = 100;
/// For scoring, what a container that requests no memory counts as.
const MEMORY_BYTES_UNLESS_REQUESTED: i64 = 200 << 20;

/// Whether plugins look at a resource that is none of the plain ones.
pub(super) fn is_scalar(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    let extended = || {
        !native
            && !name.starts_with("requests.")
            && qualified_name(&format!("requests.{name}")).is_empty()
    };
    name.contains("kubernetes.io/")
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || extended()
}

/// A quantity as a whole number of units, or of thousandths where the scale is -3. Below zero is
/// nothing, and beyond the most is the most: no quantity counts as less than a smaller one.
fn bounded(quantity: &Quantity, scale: i32, most: i64) -> i64 {
    let beyond = || if *quantity > Quantity::ZERO { most } else { 0 };
    quantity.checked_scaled_value(scale).map_or_else(beyond, |amount| amount.clamp(0, most))
}

fn millis(quantity: &Quantity) -> i64 {
    bounded(quantity, -3, REQUEST_MAX)
}

fn units(quantity: &Quantity) -> i64 {
    bounded(quantity, 0, REQUEST_MAX)
}

/// How many pods a node takes.
pub(super) fn pods(list: &ResourceList) -> i64 {
    list.get("pods").map_or(0, |pods| bounded(pods, 0, PODS_MAX))
}

/// What a node has; how many pods it takes has its own place.
pub(super) fn amounts<'a>(list: impl IntoIterator<Item = (&'a str, &'a Quantity)>) -> Amounts {
    amounts_up_to(AMOUNT_MAX, list)
}

/// The whole numbers of a list, each no more than this.
fn amounts_up_to<'a>(
    most: i64,
    list: impl IntoIterator<Item = (&'a str, &'a Quantity)>,
) -> Amounts {
    let mut amounts = Amounts::default();
    for (name, quantity) in list {
        match name {
            "cpu" => amounts.cpu_millis = bounded(quantity, -3, most),
            "memory" => amounts.memory_bytes = bounded(quantity, 0, most),
            "ephemeral-storage" => amounts.storage_bytes = bounded(quantity, 0, most),
            "pods" => {}
            _ if is_scalar(name) => {
                amounts.scalars.push((name.into(), bounded(quantity, 0, most)));
            }
            _ => {}
        }
    }
    amounts.scalars.sort_unstable();
    amounts
}

/// The names and quantities of a list on the wire. What has an older name has that of today, unless
/// both are there.
pub(super) fn named(list: &ResourceList) -> impl Iterator<Item = (&str, &Quantity)> {
    let all = list.iter().map(|(name, quantity)| (name.as_str(), quantity));
    of_today(all, |name| list.contains_key(name))
}

/// The same of what a NUMA node has.
pub(super) fn offered_by<'a>(
    list: &BTreeMap<&'a str, &'a Quantity>,
) -> impl Iterator<Item = (&'a str, &'a Quantity)> {
    of_today(list.iter().map(|(name, own)| (*name, *own)), |name| list.contains_key(name))
}

/// What is reported to be in use.
pub(super) fn used(list: &Usages) -> Amounts {
    match list.only_usual() {
        Some([cpu, memory]) => Amounts {
            cpu_millis: cpu.map_or(0, |own| bounded(own, -3, AMOUNT_MAX)),
            memory_bytes: memory.map_or(0, |own| bounded(own, 0, AMOUNT_MAX)),
            ..Amounts::NOTHING
        },
        None => amounts(of_today(list.iter(), |name| list.get(name).is_some())),
    }
}

fn of_today<'a>(
    list: impl Iterator<Item = (&'a str, &'a Quantity)>,
    contains: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (&'a str, &'a Quantity)> {
    list.filter_map(move |(name, quantity)| {
        let Some(today) = today(name) else { return Some((name, quantity)) };
        (!contains(today)).then_some((today, quantity))
    })
}

/// What a resource is called today, where this is an older name of it.
fn today(name: &str) -> Option<&'static str> {
    // Only names with a domain ever changed.
    let known = name.contains('/').then(|| KnownResource::named(name)).flatten()?;
    Some(known.as_str()).filter(|today| *today != name)
}

/// Amounts as objects carry them, without those of which there is nothing.
#[must_use]
pub fn quantities(amounts: &Amounts) -> ResourceList {
    let plain = [
        ("cpu", Quantity::from_millis(amounts.cpu_millis, Format::DecimalSi)),
        ("memory", Quantity::from_units(amounts.memory_bytes, Format::BinarySi)),
        ("ephemeral-storage", Quantity::from_units(amounts.storage_bytes, Format::BinarySi)),
    ];
    let scalars = amounts.scalars.iter();
    let scalars =
        scalars.map(|(name, own)| (&**name, Quantity::from_units(*own, Format::DecimalSi)));
    let all = plain.into_iter().chain(scalars).filter(|(_, own)| !own.is_zero());
    all.map(|(name, own)| (name.to_owned(), own)).collect()
}

fn add<'a>(sums: &mut Sums<'a>, list: impl IntoIterator<Item = (&'a str, Quantity)>) {
    for (name, quantity) in list {
        match sums.get_mut(name) {
            // What cannot be added exceeds any node, and so does the larger of both.
            Some(sum) => {
                let added = sum.checked_add(&quantity);
                *sum = added.unwrap_or_else(|| quantity.max(sum.clone()));
            }
            None => {
                sums.insert(name, quantity);
            }
        }
    }
}

fn raise<'a>(sums: &mut Sums<'a>, list: &Sums<'a>) {
    for (name, quantity) in list {
        match sums.get_mut(name) {
            Some(sum) if *sum >= *quantity => {}
            Some(sum) => *sum = quantity.clone(),
            None => {
                sums.insert(name, quantity.clone());
            }
        }
    }
}

/// What counts where a container requests nothing of a resource.
#[derive(Clone, Copy, Default)]
struct Unrequested {
    cpu_millis: Option<i64>,
    memory_bytes: Option<i64>,
}

impl Unrequested {
    const SCORED: Self = Self {
        cpu_millis: Some(CPU_MILLIS_UNLESS_REQUESTED),
        memory_bytes: Some(MEMORY_BYTES_UNLESS_REQUESTED),
    };
}

/// Whether what a running pod really has counts, besides what its spec says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Ignored,
    Counted,
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy == Some(RestartPolicy::Always)
}

/// Whether the node has said that it will never resize the pod as its spec asks.
fn resize_is_infeasible(pod: &Pod) -> bool {
    let pending = pod.status.conditions.iter().find(|one| one.r#type == "PodResizePending");
    pending.is_some_and(|condition| condition.reason == "Infeasible")
}

fn container_requests<'a>(
    pod: &'a Pod,
    container: &'a Container,
    status: Status,
    unrequested: Unrequested,
) -> Sums<'a> {
    let mut sums = Sums::new();
    let mut statuses =
        pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let own = |one: &&ContainerStatus| one.name == container.name;
    // The last of several with one name counts.
    let found = (status == Status::Counted).then(|| statuses.rfind(own)).flatten();
    let spec = &container.resources.requests;
    match found.and_then(|found| Some((found, found.resources.as_ref()?))) {
        Some((found, actual)) => {
            let lists = [spec, &actual.requests, &found.allocated_resources];
            let skip = usize::from(resize_is_infeasible(pod));
            for list in &lists[skip..] {
                let list = named(list).map(|(name, quantity)| (name, quantity.clone()));
                raise(&mut sums, &list.collect());
            }
        }
        None => add(&mut sums, named(spec).map(|(name, quantity)| (name, quantity.clone()))),
    }
    if let Some(millis) = unrequested.cpu_millis {
        sums.entry("cpu").or_insert_with(|| Quantity::from_millis(millis, Format::DecimalSi));
    }
    if let Some(bytes) = unrequested.memory_bytes {
        sums.entry("memory").or_insert_with(|| Quantity::from_units(bytes, Format::DecimalSi));
    }
    sums
}

fn owned<'a>(sums: &Sums<'a>) -> impl Iterator<Item = (&'a str, Quantity)> {
    sums.iter().map(|(name, quantity)| (*name, quantity.clone()))
}

/// When a container runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// Beside the others.
    Along,
    /// Before them, for a while.
    First,
}

/// Containers run together, init containers one after another and each beside the sidecars that
/// were started before it; the larger of both is what the pod needs.
fn together<'a>(pod: &'a Pod, own: impl Fn(&'a Container, Runs) -> Sums<'a>) -> Sums<'a> {
    let mut together = Sums::new();
    for container in &pod.spec.containers {
        add(&mut together, own(container, Runs::Along));
    }
    let (mut sidecars, mut before) = (Sums::new(), Sums::new());
    for container in &pod.spec.init_containers {
        if is_sidecar(container) {
            let own = own(container, Runs::Along);
            add(&mut together, owned(&own));
            add(&mut sidecars, own);
            raise(&mut before, &sidecars);
        } else {
            let mut beside = own(container, Runs::First);
            add(&mut beside, owned(&sidecars));
            raise(&mut before, &beside);
        }
    }
    raise(&mut together, &before);
    together
}

fn of_containers(pod: &Pod, status: Status, unrequested: Unrequested) -> Sums<'_> {
    together(pod, |container, runs| {
        let counted = if runs == Runs::Along { status } else { Status::Ignored };
        container_requests(pod, container, counted, unrequested)
    })
}

/// Whether a resource may be requested for the pod as a whole.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

fn of_pod(pod: &Pod, status: Status, unrequested: Unrequested) -> Sums<'_> {
    let mut sums = of_containers(pod, status, unrequested);
    if let Some(whole) = &pod.spec.resources {
        for (name, quantity) in named(&whole.requests).filter(|(name, _)| is_pod_level(name)) {
            sums.insert(name, quantity.clone());
        }
    }
    add_overhead(&mut sums, pod);
    sums
}

fn add_overhead<'a>(sums: &mut Sums<'a>, pod: &'a Pod) {
    add(sums, named(&pod.spec.overhead).map(|(name, quantity)| (name, quantity.clone())));
}

fn scored(sums: &Sums<'_>) -> (i64, i64) {
    (sums.get("cpu").map_or(0, millis), sums.get("memory").map_or(0, units))
}

fn whole(sums: &Sums<'_>) -> Amounts {
    amounts_up_to(REQUEST_MAX, sums.iter().map(|(name, quantity)| (*name, quantity)))
}

/// What a pod asks of a node, and what it takes of one.
pub(super) fn requests(pod: &Pod) -> (Requests, Requests) {
    match plain(pod) {
        Some(both) => (both.clone(), both),
        None => (asked(pod), taken(pod)),
    }
}

/// The requests of a pod of one container of which nothing else is known: most pods are like that
/// when they are bound, and nothing has to be added up.
fn plain(pod: &Pod) -> Option<Requests> {
    let (spec, status) = (&pod.spec, &pod.status);
    let [container] = &spec.containers[..] else { return None };
    let is_plain = spec.init_containers.is_empty()
        && spec.resources.is_none()
        && spec.overhead.is_empty()
        && status.container_statuses.is_empty()
        && status.init_container_statuses.is_empty();
    let requests = &container.resources.requests;
    let cpu = requests.get("cpu").map_or(CPU_MILLIS_UNLESS_REQUESTED, millis);
    let memory = requests.get("memory").map_or(MEMORY_BYTES_UNLESS_REQUESTED, units);
    is_plain.then(|| Requests {
        charged: amounts_up_to(REQUEST_MAX, named(requests)),
        cpu_millis_scored: cpu,
        memory_bytes_scored: memory,
    })
}

/// What a pod may use at most, as far as it is limited. What its sandbox takes counts where there is a
/// limit.
pub(super) fn limits(pod: &Pod) -> Amounts {
    let own = |container: &'_ Container| !container.resources.limits.is_empty();
    let mut containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    let whole_pod = pod.spec.resources.as_ref().filter(|whole| !whole.limits.is_empty());
    if whole_pod.is_none() && !containers.any(own) {
        return Amounts::default();
    }
    let mut sums = together(pod, |container, _| {
        named(&container.resources.limits).map(|(name, own)| (name, own.clone())).collect()
    });
    for (name, quantity) in whole_pod.into_iter().flat_map(|whole| named(&whole.limits)) {
        sums.insert(name, quantity.clone());
    }
    let overhead = named(&pod.spec.overhead).filter(|(name, _)| sums.contains_key(name));
    let overhead: Sums<'_> = overhead.map(|(name, own)| (name, own.clone())).collect();
    add(&mut sums, overhead);
    whole(&sums)
}

/// What a pod asks of a node.
fn asked(pod: &Pod) -> Requests {
    let charged = whole(&of_pod(pod, Status::Ignored, Unrequested::default()));
    // What is requested for the pod as a whole plays no part in kube-scheduler's score.
    let mut sums = of_containers(pod, Status::Ignored, Unrequested::SCORED);
    add_overhead(&mut sums, pod);
    let (cpu_millis_scored, memory_bytes_scored) = scored(&sums);
    Requests { charged, cpu_millis_scored, memory_bytes_scored }
}

/// What a pod takes of its node.
fn taken(pod: &Pod) -> Requests {
    let sums = of_pod(pod, Status::Counted, Unrequested::default());
    let whole_pod = pod.spec.resources.as_ref();
    let pod_level =
        whole_pod.is_some_and(|whole| whole.requests.keys().any(|name| is_pod_level(name)));
    let unless = |name: &str, value| (!pod_level || !sums.contains_key(name)).then_some(value);
    let unrequested = Unrequested {
        cpu_millis: unless("cpu", CPU_MILLIS_UNLESS_REQUESTED),
        memory_bytes: unless("memory", MEMORY_BYTES_UNLESS_REQUESTED),
    };
    let (cpu_millis_scored, memory_bytes_scored) =
        scored(&of_pod(pod, Status::Counted, unrequested));
    Requests { charged: whole(&sums), cpu_millis_scored, memory_bytes_scored }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn lists() -> impl Strategy<Value = serde_json::Value> {
        let names = ["cpu", "memory", "ephemeral-storage", "pods", "example.com/chip", "odd"];
        let amounts =
            ["0", "1", "1500m", "0.0001", "3Gi", "1e3", "-1", "1e100", "18446744073709551615"];
        let select = |words: &[&'static str]| proptest::sample::select(words.to_vec());
        let pairs = proptest::collection::btree_map(select(&names), select(&amounts), 0..5);
        pairs.prop_map(|pairs| json!(pairs))
    }

    fn pod(lists: &[&[(&str, &str)]]) -> Pod {
        let container = |list: &&[(&str, &str)]| {
            let list: BTreeMap<_, _> = list.iter().copied().collect();
            json!({ "name": "c", "resources": { "requests": list } })
        };
        let containers: Vec<_> = lists.iter().map(container).collect();
        serde_json::from_value(json!({ "spec": { "containers": containers } })).unwrap()
    }

    #[test]
    fn no_amount_counts_as_less_than_a_smaller_one() {
        let rising = [
            "-1e30",
            "-9223372036854775808",
            "-1",
            "0",
            "1n",
            "1",
            "64Gi",
            "4Pi",
            "9223372036854775807",
            "9223372036854775808",
            "16140901064495857663",
            "18446743936270598144",
            "18446744073709551615",
            "1e30",
            "1e100",
            "1e9000",
        ];
        let has = |text: &str| -> Amounts {
            let list: ResourceList =
                serde_json::from_value(json!({ "cpu": text, "memory": text, "a.b/c": text }))
                    .unwrap();
            amounts(named(&list))
        };
        let all =
            |amounts: &Amounts| [amounts.cpu_millis, amounts.memory_bytes, amounts.scalar("a.b/c")];
        let asks = |lists: &[&[(&str, &str)]]| requests(&pod(lists)).0;
        let mut before = [0; 3];
        for text in rising {
            let list = [("cpu", text), ("memory", text), ("a.b/c", text)];
            let one = asks(&[&list]);
            let now = all(&one.charged);
            assert_eq!(now, [one.cpu_millis_scored, one.memory_bytes_scored, now[2]], "{text}");
            for most in [now, all(&has(text))] {
                assert!(most.into_iter().zip(before).all(|(now, old)| now >= old), "{text}");
            }
            before = all(&has(text));
            // Two, in either order, are no less than one of them.
            for other in rising {
                let other = [("cpu", other), ("memory", other), ("a.b/c", other)];
                let larger = now.max(all(&asks(&[&other]).charged));
                for lists in [[&list[..], &other], [&other, &list]] {
                    let both = all(&asks(&lists).charged);
                    let is_negative = text.starts_with('-') || other[0].1.starts_with('-');
                    assert!(is_negative || both >= larger, "{lists:?}");
                    assert!(both.iter().all(|both| (0..=REQUEST_MAX).contains(both)), "{lists:?}");
                }
            }
        }
    }

    #[test]
    fn what_exceeds_every_node_fits_on_none() {
        let check = |name: &str, request: &str, has: &str, fits: bool| {
            let list: ResourceList = serde_json::from_value(json!({ name: has })).unwrap();
            let amount = |amounts: &Amounts| match name {
                "cpu" => amounts.cpu_millis,
                _ => amounts.memory_bytes,
            };
            let asked = amount(&requests(&pod(&[&[(name, request)]])).0.charged);
            let has_at_most = amount(&amounts(named(&list)));
            assert_eq!(asked <= has_at_most, fits, "{request} of {has}");
        };
        check("cpu", "281474976710", "281474976711", true);
        check("cpu", "281474976711", "281474976711", false);
        check("cpu", "9223372036854775807", "9223372036854775807", false);
        check("cpu", "9223372036854775", "1e100", false);
        check("memory", "256Ti", "256Ti", true);
        check("memory", "281474976710657", "8Pi", false);
        check("memory", "18446743936270598144", "64Gi", false);
        check("memory", "1e100", "18446744073709551615", false);
    }

    #[test]
    fn a_node_takes_no_more_pods_than_can_be_added_up() {
        let check = |told: &str, taken: i64| {
            let list: ResourceList = serde_json::from_value(json!({ "pods": told })).unwrap();
            assert_eq!(pods(&list), taken, "{told}");
        };
        check("110", 110);
        check("32767", 32767);
        check("32768", 32767);
        check("1e100", 32767);
        check("-1", 0);
    }

    proptest! {
        #[test]
        fn nothing_is_added_up_where_there_is_one_container_only(
            requests in lists(),
            (overhead, whole) in (proptest::option::of(lists()), proptest::option::of(lists())),
            (init, status) in (any::<bool>(), any::<bool>()),
        ) {
            let container = json!({ "name": "main", "resources": { "requests": requests } });
            let mut spec = json!({ "containers": [container] });
            if let Some(overhead) = overhead {
                spec["overhead"] = overhead;
            }
            if let Some(whole) = whole {
                spec["resources"] = json!({ "requests": whole });
            }
            if init {
                spec["initContainers"] = json!([container]);
            }
            let real = json!([{ "name": "main", "resources": { "requests": { "cpu": "7" } } }]);
            let statuses = if status { real } else { json!([]) };
            let pod = json!({ "spec": spec, "status": { "containerStatuses": statuses } });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            prop_assert_eq!(super::requests(&pod), (asked(&pod), taken(&pod)));
        }
    }
}
