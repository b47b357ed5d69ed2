//! Another size: what a reservation holds follows its template, where that changes after it was given a
//! node. It grows where its node has room, shrinks to what its pods use, and otherwise stays as it is and
//! says why.

use std::fmt;

use api::{Reservation, ResourceList};
use engine::fact::{ReservationFact, Size, Uid, quantities};
use engine::ledger::{Ledger, Reservation as Held};
use object::quantity::{Format, Quantity};
use serde_json::Value;

/// What becomes of a template that asks for something else than it did when the node was given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Resize {
    /// It asks for what it asked for.
    #[default]
    Nothing,
    /// The same, and what had changed besides is as it was.
    TakenBack,
    /// It gets that.
    Granted(Size),
    /// It does not get it.
    Refused(Refused),
}

/// Why a reservation stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// Its node has too little.
    Insufficient { resource: Box<str>, node: Box<str> },
    /// Its pods use more.
    InUse { resource: Box<str> },
    /// What it holds besides amounts would have to be found anew.
    OwnCpus,
    /// Something else of it changed, which counts only when the node is given.
    Immutable { field: Box<str> },
}

impl Refused {
    /// As one word.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Insufficient { .. } => "Insufficient",
            Self::InUse { .. } => "InUse",
            Self::OwnCpus => "OwnCPUs",
            Self::Immutable { .. } => IMMUTABLE,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Insufficient { resource, node } => {
                write!(
                    f,
                    "node {node} has too little {resource} for what spec.template asks for now"
                )
            }
            Self::InUse { resource } => {
                write!(f, "pods use more {resource} of it than spec.template asks for now")
            }
            Self::OwnCpus => f.write_str(
                "it holds CPUs or parts of NUMA nodes: their number cannot change; create another \
                 reservation",
            ),
            Self::Immutable { field } => write!(
                f,
                "{field} has changed, which counts only before a node is given; create another \
                 reservation"
            ),
        }
    }
}

/// The reason where something changed that counts only when a node is given.
pub(super) const IMMUTABLE: &str = "Immutable";
/// How it begins that a condition tells what a template asked for.
pub(super) const TOLD: &str = "holds what its template asked for: ";
/// What the template of a reservation asks for, or what of it cannot be read.
pub(super) type Asked = Result<Option<Size>, api::Malformed>;

/// What a template asks for, as it is remembered in the condition that says that a node is given.
pub(crate) fn told(asked: &Size) -> String {
    let all = serde_json::to_string(&amounts(asked)).unwrap_or_default();
    format!("{TOLD}{all}")
}

/// The same as a list of resources.
pub(crate) fn amounts(size: &Size) -> ResourceList {
    let mut all = quantities(&size.amounts);
    let pods = size.pods.map(|pods| Quantity::from_units(pods, Format::DecimalSi));
    all.extend(pods.map(|pods| ("pods".to_owned(), pods)));
    all
}

/// What the template of a reservation asks for, whatever it holds.
///
/// # Errors
/// What of it cannot be read.
pub(super) fn asked(own: &Reservation) -> Asked {
    let mut bare = own.clone();
    bare.status = api::reservation::ReservationStatus::default();
    Ok(ReservationFact::of(&bare)?.map(|fact| Size::of(&fact.rules)))
}

/// What becomes of a reservation whose template asks for this, where it did not before.
pub(super) fn resize(ledger: &Ledger, uid: &Uid, asked: &Size) -> Resize {
    let Some(own) = ledger.reservations.find(uid) else { return Resize::Nothing };
    let has = Size::of(own.rules);
    let name: Box<str> = ledger.nodes.name(own.node).into();
    if !ledger.is_of_amounts(uid) && asked.amounts != has.amounts {
        return Resize::Refused(Refused::OwnCpus);
    }
    let used = &own.used.amounts;
    let below =
        used.names().find(|name| asked.amounts.of(name) < used.of(name).min(has.amounts.of(name)));
    if let Some(resource) = below {
        return Resize::Refused(Refused::InUse { resource: resource.into() });
    }
    if asked.pods.is_some_and(|pods| pods < own.used.pods) {
        return Resize::Refused(Refused::InUse { resource: "pods".into() });
    }
    match lacking(ledger, own, asked, &has) {
        Some(resource) => Resize::Refused(Refused::Insufficient { resource, node: name }),
        None => Resize::Granted(asked.clone()),
    }
}

/// What the node of a reservation has too little of for what this asks for more than it has.
fn lacking(ledger: &Ledger, own: Held<'_>, asked: &Size, has: &Size) -> Option<Box<str>> {
    let (resources, nodes, used) = (&ledger.nodes.resources, &ledger.nodes, own.used);
    let allowed = resources.allowed(own.node);
    let priority = ledger.pod(own.uid).map_or(i32::MAX, |row| row.priority);
    let awaited = ledger.awaited_amounts(own.node, own.uid, priority);
    let spare = |held: i64, used: i64| held.saturating_sub(used).max(0);
    let mut names = asked.amounts.names();
    let short = names.find(|name| {
        let used = used.amounts.of(name);
        let more = spare(asked.amounts.of(name), used) - spare(has.amounts.of(name), used);
        let taken = resources.requested(own.node, name).saturating_add(awaited.of(name));
        more > 0 && taken.saturating_add(more) > allowed.of(name)
    });
    let places = |size: &Size| spare(size.pods.unwrap_or(1), used.pods);
    let more = places(asked) - places(has);
    let at = own.node.get();
    let is_crowded = more > 0 && nodes.pods[at].saturating_add(more) > nodes.pods_allowed[at];
    short.map(Into::into).or_else(|| is_crowded.then(|| "pods".into()))
}

/// What changed of a template that counts only before a node is given.
pub(super) fn immutable_change(old: &Reservation, new: &Reservation) -> Option<Refused> {
    let spec = |own: &Reservation| {
        let template = own.spec.template.as_ref().map_or(Value::Null, |own| own.0.clone());
        without_amounts(template.get("spec").cloned().unwrap_or_default())
    };
    let (old, new) = (spec(old), spec(new));
    let keys = |spec: &Value| spec.as_object().cloned().unwrap_or_default();
    let (old, new) = (keys(&old), keys(&new));
    let mut names = old.keys().chain(new.keys());
    let field = names.find(|name| old.get(*name) != new.get(*name))?;
    Some(Refused::Immutable { field: format!("spec.template.spec.{field}").into() })
}

fn without_amounts(mut spec: Value) -> Value {
    for list in ["containers", "initContainers"] {
        // Whatever users write may be there, as long as it is JSON.
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.remove("resources");
        }
    }
    for key in ["overhead", "resources"] {
        if let Some(spec) = spec.as_object_mut() {
            spec.remove(key);
        }
    }
    spec
}
