//! What Koordinator's scheduler shows of nodes, quotas and gangs under `/apis/v1`, by its paths and the names of its
//! fields, so that whatever reads them goes on doing so.
//!
//! What is not kept is left out. Pods are named, and not shown whole: their objects are not kept.

mod gangs;
mod load;
mod node;
mod numa;
mod quotas;
mod reservations;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Reservation;
use api::pod_group::GangId;
use engine::fact::Uid;
use engine::ledger::{Ledger, NodeIndex, PodRow};
use engine::plugin::Plugin;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;

use super::{Clerk, Desk, Query, Refusal};
use crate::config::Configuration;
use crate::core::Core;

/// What all of them are beneath.
pub const PATH: &str = "/apis/v1";
/// Where a name stands in a path.
const NAME: &str = "/:";

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Services,
    Node,
    Load,
    Numa,
    Reservations,
    /// One, or all of a tree.
    Quotas,
    /// One, or all.
    Gangs,
}

/// The paths, sorted.
const ROUTES: [(&str, What); 9] = [
    ("/apis/v1/__services__", What::Services),
    ("/apis/v1/nodes/:nodeName", What::Node),
    ("/apis/v1/plugins/Coscheduling/gang/:namespace/:name", What::Gangs),
    ("/apis/v1/plugins/Coscheduling/gangs", What::Gangs),
    ("/apis/v1/plugins/ElasticQuota/quotas", What::Quotas),
    ("/apis/v1/plugins/ElasticQuota/quotas/:name", What::Quotas),
    ("/apis/v1/plugins/LoadAwareScheduling/node/:nodeName", What::Load),
    ("/apis/v1/plugins/NodeNUMAResource/nodes/:nodeName", What::Numa),
    ("/apis/v1/plugins/Reservation/nodeReservations/:nodeName", What::Reservations),
];

impl What {
    /// The plugin that it is about: where no profile names that, there is nothing to show.
    fn plugin(self) -> Option<Plugin> {
        match self {
            Self::Services | Self::Node => None,
            Self::Load => Some(Plugin::LoadAwareScheduling),
            Self::Numa => Some(Plugin::NodeNUMAResource),
            Self::Reservations => Some(Plugin::Reservation),
            Self::Quotas => Some(Plugin::ElasticQuota),
            Self::Gangs => Some(Plugin::Coscheduling),
        }
    }

    fn is_there(self, configuration: &Configuration) -> bool {
        let names = |plugin: Plugin| {
            let mut profiles = configuration.profiles.iter();
            profiles.any(|profile| profile.lineup.plugins().contains(&plugin))
        };
        self.plugin().is_none_or(names)
    }

    /// What a path asks for, and of which node, quota or gang.
    fn of(path: &str) -> Option<(Self, Option<&str>)> {
        ROUTES.into_iter().find_map(|(route, what)| match route.split_once(NAME) {
            None => (path == route).then_some((what, None)),
            Some((start, names)) => {
                let name = path.strip_prefix(start)?.strip_prefix('/')?;
                let is_each_named = name.split('/').all(|part| !part.is_empty());
                let is_name = name.matches('/').count() == names.matches(NAME).count();
                (is_each_named && is_name).then_some((what, Some(name)))
            }
        })
    }
}

/// An answer.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum View {
    Services(BTreeMap<&'static str, Vec<&'static str>>),
    Node(Box<node::NodeInfo>),
    Load(Box<load::NodeAssignInfo>),
    Numa(Box<numa::NodeNuma>),
    Reservations(reservations::NodeReservations),
    Quotas(Value),
    Gangs(Value),
}

/// What is known of one node.
struct Seen {
    ledger: Ledger,
    /// None where there is no such node.
    node: Option<NodeIndex>,
    reservations: Vec<Arc<Reservation>>,
}

impl Seen {
    fn of(core: &Core, name: &str) -> Self {
        let ledger = core.engine().ledger();
        let present = ledger.nodes.present();
        let node = ledger.nodes.find(name).filter(|node| present.contains(*node));
        let Some(node) = node else {
            return Self { ledger: Ledger::default(), node: None, reservations: Vec::new() };
        };
        let held = ledger.reservations.on(node);
        let reservations = held.filter_map(|own| core.reservation_object(own.uid).cloned());
        Self {
            reservations: reservations.collect(),
            ledger: ledger.snapshot_with_pods_on(node),
            node: Some(node),
        }
    }

    fn shown(&self, what: What, name: &str) -> Result<View, Refusal> {
        let Self { ledger, node, reservations } = self;
        let Some(node) = *node else { return unknown(what, name) };
        Ok(match what {
            What::Services | What::Quotas | What::Gangs | What::Node => {
                View::Node(Box::new(node::shown(ledger, node)))
            }
            What::Load => View::Load(Box::new(load::shown(ledger, node))),
            What::Numa => View::Numa(Box::new(numa::shown(ledger, node).ok_or_else(no_layout)?)),
            What::Reservations => {
                View::Reservations(reservations::shown(ledger, node, reservations))
            }
        })
    }
}

/// The pods of a node by namespace and name, those included that are only decided for it.
fn pods_on(ledger: &Ledger, node: NodeIndex) -> impl Iterator<Item = (&Uid, &PodRow)> {
    let residents = ledger.residents.on(node).iter();
    let rows = residents.filter_map(|(_, uid)| Some((uid, ledger.pod(uid)?)));
    let mut pods: Vec<(&Uid, &PodRow)> = rows.collect();
    pods.sort_unstable_by_key(|(_, row)| (&row.namespace, &row.name));
    pods.into_iter()
}

/// What is said of a node that is not there.
fn unknown(what: What, name: &str) -> Result<View, Refusal> {
    match what {
        What::Load => Ok(View::Load(Box::default())),
        What::Reservations => Ok(View::Reservations(Default::default())),
        _ => Err(Refusal::new(StatusCode::NOT_FOUND, format!("cannot find node {name}"))),
    }
}

fn no_layout() -> Refusal {
    let text = "invalid topology, please check the NodeResourceTopology object";
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, text)
}

fn no_such(path: &str) -> Refusal {
    let text = format!("{path} is not served; /apis/v1/__services__ names what is");
    Refusal::new(StatusCode::NOT_FOUND, text)
}

impl Desk {
    /// What is to be seen at a path.
    pub(super) async fn apis(&self, path: &str, query: &Query) -> Result<View, Refusal> {
        let seen = self.api(path, query).await;
        // Those who look for the leader know these words.
        let is_idle = |refusal: &Refusal| *refusal == Refusal::idle();
        seen.map_err(|refusal| match is_idle(&refusal) {
            true => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the instance is not leader"),
            false => refusal,
        })
    }

    async fn api(&self, path: &str, query: &Query) -> Result<View, Refusal> {
        let clerk = self.clerk()?;
        let configuration = &clerk.configuration;
        let asked = What::of(path).filter(|(what, _)| what.is_there(configuration));
        let (what, name) = asked.ok_or_else(|| no_such(path))?;
        if what == What::Gangs {
            return self.gangs(&clerk, name).await;
        }
        if what == What::Quotas {
            let asked = quotas::Asked::of(name, query);
            let turn = self.turn().await;
            let own = asked.clone();
            let look = move |core: &Core, _| quotas::Seen::of(core.engine().ledger(), &own);
            let seen = clerk.look(turn, look).await?;
            let shown = seen.worked_out(move |seen| seen.shown(&asked)).await?;
            let unknown = || format!("cannot find quota {}", name.unwrap_or_default());
            let unknown = || Refusal::new(StatusCode::NOT_FOUND, unknown());
            return shown.map(View::Quotas).ok_or_else(unknown);
        }
        let Some(name) = name.map(str::to_owned) else {
            let there = ROUTES.into_iter().filter(|(_, what)| what.is_there(configuration));
            let paths = there.map(|(route, _)| route).collect();
            return Ok(View::Services(BTreeMap::from([("GET", paths)])));
        };
        let turn = self.turn().await;
        let own = name.clone();
        let seen = clerk.look(turn, move |core, _| Seen::of(core, &own)).await?;
        seen.worked_out(move |seen| seen.shown(what, &name)).await?
    }

    /// A gang as it stands, or all of them.
    async fn gangs(&self, clerk: &Clerk, name: Option<&str>) -> Result<View, Refusal> {
        let unknown = || {
            let text = format!("cannot find gang {}", name.unwrap_or_default());
            Refusal::new(StatusCode::NOT_FOUND, text)
        };
        let asked = name.map(|name| GangId::parse(name).ok_or_else(unknown)).transpose()?;
        let (turn, is_one) = (self.turn().await, asked.is_some());
        let look = move |core: &Core, _| gangs::Seen::of(core, asked.as_ref());
        let seen = clerk.look(turn, look).await?;
        let shown = move |seen: gangs::Seen| match is_one {
            true => seen.one(),
            false => Some(seen.all()),
        };
        seen.worked_out(shown).await?.map(View::Gangs).ok_or_else(unknown)
    }
}
