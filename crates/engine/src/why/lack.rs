//! What a node lacks, with all that is known of it.

use std::fmt;
use std::time::Duration;

use object::quantity::{Format, Quantity};

use crate::ledger::{Ask, Ledger, LoadSettings, LoadView, NodeIndex};
use crate::moment::Moment;
use crate::needs::Needs;
use crate::numa::Unplaced;
use crate::plugin::Plugin;
use crate::reason::{CpuReason, Reason, Refusal, ReservationReason, VolumeReason};
use crate::reservations::Unsuited;

/// What a node lacks to take a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The plugin that says so.
    pub plugin: Plugin,
    /// The reason, as events tell it.
    pub reason: Reason,
    /// Labels that the pod selects and the node does not have, where that is the reason.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// By which load of the node it is refused, where that is the reason.
    pub load: Option<LoadSeen>,
}

/// The load of a node by which it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadSeen {
    /// Which of those that it reports.
    pub view: LoadView,
    /// How old the report is, where it says when it was made.
    pub age: Option<Duration>,
    /// Whether what pods of the node are taken to use beyond what it reports is in it.
    pub is_estimated: bool,
}

impl fmt::Display for LoadSeen {
    /// Which figure it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.view {
            LoadView::Plain => f.write_str("what it uses now"),
            LoadView::Prod => f.write_str("what its prod pods use now"),
            LoadView::Window(figure, window) if window.is_zero() => {
                write!(f, "{} of the longest window", figure.name())
            }
            LoadView::Window(figure, window) => {
                write!(f, "{} of the last {} s", figure.name(), window.as_secs())
            }
        }
    }
}

/// Whoever tells what refusals say.
pub(super) struct Teller<'a> {
    /// What the pod needs.
    pub(super) needs: &'a Needs,
    /// The same by numbers.
    pub(super) ask: Ask,
    /// How load is judged, where it is.
    pub(super) loads: Option<&'a LoadSettings>,
    pub(super) now: Moment,
}

impl Teller<'_> {
    /// What refusals say, as far as it can be told.
    pub(super) fn lacks(
        &self,
        ledger: &Ledger,
        refusals: &[(Plugin, Refusal)],
        node: Option<NodeIndex>,
    ) -> Vec<Lack> {
        let reasons = refusals.iter().flat_map(|(plugin, refusal)| {
            refusal.reasons.iter().map(move |reason| (*plugin, reason.clone()))
        });
        let lack = |(plugin, reason): (Plugin, Reason)| Lack {
            plugin,
            labels: self.missing(ledger, &reason, node),
            load: self.load(ledger, &reason, node),
            reason,
        };
        reasons.map(lack).collect()
    }

    fn missing(
        &self,
        ledger: &Ledger,
        reason: &Reason,
        node: Option<NodeIndex>,
    ) -> Vec<(Box<str>, Box<str>)> {
        let (Reason::NodeAffinity, Some(node)) = (reason, node) else { return Vec::new() };
        let wanted = self.needs.node_affinity.labels.iter();
        let has = |key: &str, value: &str| {
            let symbols = &ledger.symbols;
            let key = symbols.find(key);
            let own = key.and_then(|key| ledger.nodes.label(node, key));
            own.is_some() && own == symbols.find(value)
        };
        let lacks = wanted.filter(|(key, value)| !has(key, value));
        lacks.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn load(&self, ledger: &Ledger, reason: &Reason, node: Option<NodeIndex>) -> Option<LoadSeen> {
        if !matches!(reason, Reason::Overloaded { .. } | Reason::LoadUnknown) {
            return None;
        }
        let book = ledger.loads.book(self.loads?)?;
        let (view, at) = ledger.load_seen(book, self.ask, node?);
        let account = ledger.load_account(book, node?);
        let (more, _) = if view == LoadView::Prod { account.prod_delta } else { account.delta };
        let is_estimated = !more.is_nothing();
        Some(LoadSeen { view, age: at.map(|at| self.now.since(at)), is_estimated })
    }
}

/// An amount of a resource, in thousandths of CPUs or in units, as people write it.
#[must_use]
pub fn amount(resource: &str, amount: i64) -> String {
    match resource {
        "cpu" => Quantity::from_millis(amount, Format::DecimalSi).to_string(),
        name if name == "memory"
            || name == "ephemeral-storage"
            || name.starts_with("hugepages-") =>
        {
            Quantity::from_units(amount, Format::BinarySi).to_string()
        }
        _ => amount.to_string(),
    }
}

fn cpus(reason: &CpuReason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match reason {
        CpuReason::NoLayout => f.write_str("does not report which CPUs it has"),
        CpuReason::Conflict { pod, node } => {
            let (node, pod) = (node.name(), pod.name());
            write!(f, "gives CPUs away as {node}, and the pod must have them as {pod}")
        }
        CpuReason::NotMultiple { count, threads } => {
            write!(f, "gives whole cores of {threads} CPUs away, and {count} are asked")
        }
        CpuReason::TooFew { count, free } => {
            write!(f, "has {free} CPUs free that lie as they must, and {count} are asked")
        }
        CpuReason::Amplified { requested, used, allocatable } => write!(
            f,
            "is short of amplified cpu: {} asked, {} of {} free",
            amount("cpu", *requested),
            amount("cpu", allocatable.saturating_sub(*used)),
            amount("cpu", *allocatable),
        ),
        CpuReason::NotWhole { millis } => {
            write!(f, "gives whole CPUs away, and {} is asked", amount("cpu", *millis))
        }
        CpuReason::OtherPolicy { pod, node } => write!(
            f,
            "puts pods on NUMA nodes by {}, and the pod must be put by {}",
            node.as_str(),
            pod.as_str()
        ),
        CpuReason::Numa(Unplaced::NoZones) => {
            f.write_str("does not report what its NUMA nodes have")
        }
        CpuReason::Numa(Unplaced::Unsatisfied(resource)) => {
            write!(f, "has NUMA nodes with too little {resource}")
        }
        CpuReason::Numa(Unplaced::Unaligned) => {
            f.write_str("has NUMA nodes with enough, which other pods use otherwise")
        }
        CpuReason::Malformed(words) => f.write_str(words),
    }
}

fn volumes(reason: &VolumeReason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match reason {
        VolumeReason::TooMany { driver, limit, attached, added } => write!(
            f,
            "takes {limit} volumes of {driver}, has {attached} and would get {added} more"
        ),
        VolumeReason::OtherZone { volume, label } => {
            write!(f, "is not where volume {volume} is, by label {label}")
        }
        VolumeReason::NotReached { volume } => {
            write!(f, "does not reach volume {volume}")
        }
        VolumeReason::InUse { claim } => {
            write!(f, "cannot have claim {claim}, which is for one pod and in use")
        }
        VolumeReason::NoVolume { claim } => {
            write!(f, "finds no volume for claim {claim}")
        }
        VolumeReason::NoRoom { claim } => {
            write!(f, "has too little storage for claim {claim}")
        }
        reason => write!(f, "{reason}"),
    }
}

fn loads(seen: Option<&LoadSeen>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(seen) = seen else { return Ok(()) };
    write!(f, ": by {seen}")?;
    if let Some(age) = seen.age {
        write!(f, ", reported {} s ago", age.as_secs())?;
    }
    match seen.is_estimated {
        true => f.write_str(", and what its newest pods are taken to use beyond that"),
        false => Ok(()),
    }
}

fn unsuited(why: &Unsuited, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match why {
        Unsuited::Name => f.write_str("is not the one that the pod names"),
        Unsuited::Labels => f.write_str("is not one that the pod's reservation affinity selects"),
        Unsuited::Closed => f.write_str("takes no more pods: it is unschedulable"),
        Unsuited::Tainted(taint) => {
            write!(f, "has taint {taint}, which the pod's reservation affinity does not tolerate")
        }
        Unsuited::NotExact => f.write_str("does not hold exactly what the pod asks for"),
        Unsuited::Taken => f.write_str("is for one pod, and another has it"),
        Unsuited::Nothing => f.write_str("has nothing left of what the pod asks for"),
        Unsuited::TooManyPods { capacity, .. } => {
            write!(f, "has as many pods as it takes: {capacity}")
        }
        Unsuited::ShortOf { resource, requested, used, capacity } => {
            let left = capacity.saturating_sub(*used);
            write!(
                f,
                "is short of {resource} by {}: {} asked, {} of {} left",
                amount(resource, requested.saturating_sub(left)),
                amount(resource, *requested),
                amount(resource, left),
                amount(resource, *capacity),
            )
        }
    }
}

fn reservations(reason: &ReservationReason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match reason {
        ReservationReason::NoMatch => {
            f.write_str("has no reservation that is for the pod, which must use one")
        }
        ReservationReason::Unmet => {
            f.write_str("has reservations for the pod, and none that it can use")
        }
        ReservationReason::ShortOfNode { resource } => {
            write!(f, "has too little {resource}, even with the room that would be made for it")
        }
        ReservationReason::Unsuited { why, .. } => {
            write!(f, "has a reservation that {}", Words(why))
        }
        ReservationReason::Apart => {
            f.write_str("would give the reservation other CPUs or NUMA nodes than those of the pod")
        }
        ReservationReason::NotMeant => {
            f.write_str("is for other pods: none of its spec.owners means this one")
        }
        ReservationReason::NotThere => f.write_str("has no node yet"),
        ReservationReason::Gone => f.write_str(
            "is not there, or has ended: `kubectl get reservations` lists all there are",
        ),
        ReservationReason::OtherNode => f.write_str("is not the node that the reservation names"),
        ReservationReason::PolicyConflict => {
            f.write_str("has reservations of another allocatePolicy")
        }
        ReservationReason::TakeOverUnrestricted => {
            f.write_str("a reservation with preAllocation needs allocatePolicy: Restricted")
        }
        ReservationReason::TakeOverOfAnyone => f.write_str(
            "preAllocationPolicy.mode is Cluster, and preAllocationConfig.enableClusterMode of the \
             scheduler's profile is not set",
        ),
        ReservationReason::NothingToTakeOver => {
            f.write_str("has no pod that the reservation could take over")
        }
        ReservationReason::TakeOverUnmet => f.write_str(
            "has pods that the reservation could take over, and with none of them it fits",
        ),
    }
}

impl Lack {
    /// The same of a reservation that the pod could use and of its node.
    #[must_use]
    pub fn of_reservation(&self) -> String {
        self.told("", "its node ")
    }

    /// The same of a pod that could be taken over and of its node.
    #[must_use]
    pub fn of_takeover(&self) -> String {
        self.told("the reservation ", "its node ")
    }

    fn told(&self, reservation: &str, node: &str) -> String {
        match &self.reason {
            Reason::Reservation(ReservationReason::Unsuited { why, .. }) => {
                format!("{reservation}{}", Words(why))
            }
            Reason::Reservation(
                ReservationReason::NotMeant | ReservationReason::NotThere | ReservationReason::Gone,
            ) => self.to_string(),
            _ => format!("{node}{self}"),
        }
    }
}

struct Words<'a>(&'a Unsuited);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        unsuited(self.0, f)
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::Cordoned => f.write_str("is cordoned"),
            Reason::Tainted(taint) => write!(f, "has taint {taint}, which is not tolerated"),
            Reason::NodeAffinity if self.labels.is_empty() => {
                f.write_str("matches no term of the required node affinity")
            }
            Reason::NodeAffinity => {
                let labels = self.labels.iter().map(|(key, value)| format!("{key}={value}"));
                write!(f, "lacks label {}", labels.collect::<Vec<_>>().join(" and "))
            }
            Reason::AddedNodeAffinity => {
                f.write_str("does not match the node affinity that the scheduler's profile adds")
            }
            Reason::PortTaken { protocol, port } => write!(f, "has port {port}/{protocol} taken"),
            Reason::Spread { topology_key, skew, max_skew } => write!(
                f,
                "would have {skew} pods more in its {topology_key} than another; {max_skew} may be"
            ),
            Reason::NoDomain { topology_key } => {
                write!(f, "lacks label {topology_key}, by which the pod is spread")
            }
            Reason::NotNear => f.write_str("has no pod near that the pod must be near"),
            Reason::NotAway => f.write_str("has a pod near that the pod must be away from"),
            Reason::KeptAway => f.write_str("has a pod near that must be away from such pods"),
            Reason::Overloaded { resource, percent, most, .. } => {
                write!(
                    f,
                    "would use {percent} % of its {resource}, of which at most {most} % may be"
                )?;
                loads(self.load.as_ref(), f)
            }
            Reason::LoadUnknown => match self.load.and_then(|load| load.age) {
                Some(age) => {
                    let age = age.as_secs();
                    write!(f, "has not reported for {age} s how much is used, which is too long")
                }
                None => f.write_str("has not reported for too long how much is used"),
            },
            Reason::Cpus(reason) => cpus(reason, f),
            Reason::Reservation(reason) => reservations(reason, f),
            Reason::TooManyPods { allowed } => write!(f, "has as many pods as it takes: {allowed}"),
            Reason::ShortOf { resource, requested, used, allocatable } => {
                let free = allocatable.saturating_sub(*used);
                let missing = requested.saturating_sub(free);
                write!(
                    f,
                    "is short of {resource} by {}: {} asked, {} of {} free",
                    amount(resource, missing),
                    amount(resource, *requested),
                    amount(resource, free),
                    amount(resource, *allocatable),
                )
            }
            Reason::Volume(reason) => volumes(reason, f),
            Reason::LeftOut { plugins } if plugins[..] == [Plugin::SchedulingHint] => {
                f.write_str("is not among nodeNames of the pod's scheduling hint")
            }
            reason => reason.fmt(f),
        }
    }
}
