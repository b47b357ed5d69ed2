//! What is held on a node, and what is used of it.

use std::collections::BTreeMap;

use api::CpuSet;

use crate::cpus::Exclusive;
use crate::fact::Allotment;
use crate::ledger::Way;
use crate::needs::{Amounts, HostPort, Requests};

/// What is held on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holding {
    /// How much.
    pub amounts: Amounts,
    /// Places for pods.
    pub pods: i64,
    /// Ports of the node.
    pub ports: Vec<HostPort>,
    /// CPUs.
    pub cpus: CpuSet,
    /// What those do not share.
    pub exclusive: Exclusive,
    /// How much of each NUMA node.
    pub zones: BTreeMap<u32, Amounts>,
}

/// What pods use of something that is held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Used {
    /// How many pods.
    pub pods: i64,
    /// How much.
    pub amounts: Amounts,
    /// Ports of the node.
    pub ports: Vec<HostPort>,
    /// CPUs, by pods that have the same.
    cpus: BTreeMap<CpuSet, u32>,
    zones: BTreeMap<u32, Amounts>,
}

impl Holding {
    /// What is held besides amounts.
    pub(super) fn particular(ports: &[HostPort], allotment: Option<&Allotment>) -> Self {
        let own = allotment.cloned().unwrap_or_default();
        Self {
            ports: ports.to_vec(),
            cpus: own.cpus,
            exclusive: own.exclusive,
            zones: own.zones.into_iter().collect(),
            ..Self::default()
        }
    }

    /// All CPUs of these.
    pub(crate) fn of_cpus<'a>(sets: impl Iterator<Item = &'a CpuSet>) -> Self {
        let cpus = sets.fold(CpuSet::new(), |all, own| all.and(own));
        Self { cpus, ..Self::default() }
    }

    /// What is left of it where this is used.
    pub(super) fn without(mut self, used: &Used) -> Self {
        self.amounts.reduce(&used.amounts);
        self.pods = self.pods.saturating_sub(used.pods).max(0);
        for port in &used.ports {
            if let Some(place) = self.ports.iter().position(|own| own == port) {
                self.ports.swap_remove(place);
            }
        }
        for cpus in used.cpus.keys() {
            self.cpus = self.cpus.without(cpus);
        }
        for (zone, amounts) in &used.zones {
            if let Some(own) = self.zones.get_mut(zone) {
                own.reduce(amounts);
            }
        }
        self.zones.retain(|_, own| !own.is_nothing());
        self.ports.sort_unstable();
        self
    }

    /// The same as something that a node is charged for.
    pub(crate) fn requests(&self) -> Requests {
        Requests {
            charged: self.amounts.clone(),
            cpu_millis_scored: self.amounts.cpu_millis,
            memory_bytes_scored: self.amounts.memory_bytes,
        }
    }

    /// CPUs and parts of NUMA nodes of it.
    pub(crate) fn allotment(&self) -> Allotment {
        let zones = self.zones.iter().map(|(zone, amounts)| (*zone, amounts.clone()));
        Allotment {
            cpus: self.cpus.clone(),
            exclusive: self.exclusive,
            zones: zones.collect(),
            ..Allotment::default()
        }
    }
}

impl Used {
    /// Nothing is used.
    pub(super) const NOTHING: Self = Self {
        pods: 0,
        amounts: Amounts::NOTHING,
        ports: Vec::new(),
        cpus: BTreeMap::new(),
        zones: BTreeMap::new(),
    };

    /// What one pod uses.
    pub(super) fn by(taken: &Amounts, ports: &[HostPort], allotment: &Allotment) -> Self {
        let cpus = Some(&allotment.cpus).filter(|cpus| !cpus.is_empty());
        let mut amounts = taken.clone();
        // What is named and nothing of which is taken would be named no longer once another pod has left.
        amounts.scalars.retain(|(_, amount)| *amount != 0);
        Self {
            pods: 1,
            amounts,
            ports: ports.to_vec(),
            cpus: cpus.map(|cpus| (cpus.clone(), 1)).into_iter().collect(),
            zones: allotment.zones.iter().cloned().collect(),
        }
    }

    /// Others use it, or do no longer.
    pub(super) fn shift(&mut self, others: &Self, way: Way) {
        let sign = way.sign();
        self.pods += others.pods * sign;
        self.amounts.add(&others.amounts, sign);
        for port in &others.ports {
            match way {
                Way::In => self.ports.push(port.clone()),
                Way::Out => {
                    if let Some(place) = self.ports.iter().position(|own| own == port) {
                        self.ports.swap_remove(place);
                    }
                }
            }
        }
        self.ports.sort_unstable();
        for (cpus, times) in &others.cpus {
            let own = self.cpus.entry(cpus.clone()).or_default();
            *own = match way {
                Way::In => own.saturating_add(*times),
                Way::Out => own.saturating_sub(*times),
            };
            if *own == 0 {
                self.cpus.remove(cpus);
            }
        }
        for (zone, amounts) in &others.zones {
            let own = self.zones.entry(*zone).or_default();
            own.add(amounts, sign);
            if own.is_nothing() {
                self.zones.remove(zone);
            }
        }
    }
}
