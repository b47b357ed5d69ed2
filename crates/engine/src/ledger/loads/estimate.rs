//! What a pod is taken to use before its node reports it.

use api::priority::PriorityBand;
use api::resource_names::KnownResource;

use super::EstimateSettings;
use crate::needs::{Amounts, LoadNeeds};

/// What a container is taken to use that says nothing of CPU.
const CPU_MILLIS_UNLESS_REQUESTED: i64 = 250;
/// The same of memory.
const MEMORY_BYTES_UNLESS_REQUESTED: i64 = 200 << 20;

/// What a pod is taken to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate {
    /// How much, by tracked resource.
    pub amounts: Box<[i64]>,
    /// Whether it earns money.
    pub is_prod: bool,
    /// Whether it runs on every node, whatever its load.
    pub is_daemon: bool,
}

/// The amount of a resource of any name.
pub(super) fn amount(amounts: &Amounts, name: &str) -> i64 {
    match name {
        "cpu" => amounts.cpu_millis,
        "memory" => amounts.memory_bytes,
        "ephemeral-storage" => amounts.storage_bytes,
        _ => amounts.scalar(name),
    }
}

/// What is known of a resource by which it is estimated: it is the same for all pods.
#[derive(Debug, Clone)]
pub(super) struct Estimated {
    name: Box<str>,
    known: Option<KnownResource>,
    factor: Option<i64>,
}

impl Estimated {
    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl EstimateSettings {
    /// What is known of a resource.
    pub(super) fn known(&self, name: &str) -> Estimated {
        let (known, factor) = (KnownResource::named(name), self.factors.get(name).copied());
        Estimated { name: name.into(), known, factor }
    }

    /// What a pod is taken to use of these resources.
    #[must_use]
    pub(super) fn estimate(
        &self,
        tracked: &[Estimated],
        requests: &Amounts,
        needs: Option<&LoadNeeds>,
    ) -> Estimate {
        let band = LoadNeeds::band_of(needs, requests);
        let amounts = tracked.iter().map(|one| self.of_resource(one, requests, band, needs));
        Estimate {
            amounts: amounts.collect(),
            is_prod: band == PriorityBand::Prod,
            is_daemon: needs.is_some_and(|needs| needs.is_daemon),
        }
    }

    /// What a pod of a band is taken to use of one resource.
    pub(super) fn of_resource(
        &self,
        one: &Estimated,
        requests: &Amounts,
        band: PriorityBand,
        needs: Option<&LoadNeeds>,
    ) -> i64 {
        let Estimated { name, known, factor } = one;
        let own = needs.filter(|_| self.allows_own).into_iter().flat_map(|needs| &needs.factors);
        let own = own.into_iter().find(|(own, _)| own == name).map(|(_, factor)| *factor);
        let Some(factor) = own.or(*factor) else { return 0 };
        let (name, known) = (&**name, *known);
        // Whoever has no resources of their own uses those of everybody.
        let in_band = match (known, band) {
            (None, PriorityBand::Batch | PriorityBand::Mid) => return 0,
            (_, PriorityBand::Free) | (None, _) => Some(name),
            (Some(known), band) => known.in_band(Some(band)).map(KnownResource::as_str),
        };
        let Some(in_band) = in_band else { return 0 };
        let limit = needs.map_or(0, |needs| amount(&needs.limits, in_band));
        let request = amount(requests, in_band);
        let asked = request.max(limit);
        if asked == 0 {
            return match known {
                Some(KnownResource::Cpu) => CPU_MILLIS_UNLESS_REQUESTED,
                Some(KnownResource::Memory) => MEMORY_BYTES_UNLESS_REQUESTED,
                _ => 0,
            };
        }
        let estimate = (asked as f64 * factor as f64 / 100.0).round() as i64;
        if limit > 0 { estimate.min(limit) } else { estimate }
    }
}
