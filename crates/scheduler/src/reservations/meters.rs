//! What is shown of reservations, under Koordinator's names.

use std::sync::atomic::AtomicU64;

use api::Reservation;
use api::reservation::ReservationPhase;
use object::quantity::Quantity;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabels {
    name: String,
    phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    r#type: &'static str,
    name: String,
    resource: String,
    unit: &'static str,
}

/// What is shown of reservations; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReservationMeters {
    phases: Family<PhaseLabels, Gauge>,
    resources: Family<ResourceLabels, Gauge<f64, AtomicU64>>,
}

const PHASES: [&str; 4] = ["Pending", "Available", "Succeeded", "Failed"];
const GIBIBYTE: f64 = (1_u64 << 30) as f64;

/// An amount, and in what it is told.
fn told(resource: &str, amount: &Quantity) -> (f64, &'static str) {
    match resource {
        "cpu" => (amount.milli_value() as f64 / 1_000.0, "core"),
        "memory" => (amount.value() as f64 / GIBIBYTE, "Gi"),
        _ => (amount.value() as f64, "raw"),
    }
}

impl ReservationMeters {
    /// Registers what is shown.
    pub(crate) fn enter(&self, registry: &mut Registry) {
        let help = "The current status phase of each reservation";
        registry.register("scheduler_reservation_status_phase", help, self.phases.clone());
        let help = "What reservations hold and what of it is used";
        registry.register("scheduler_reservation_resource", help, self.resources.clone());
    }

    /// Shows these reservations, and no others.
    pub(super) fn show<'a>(&self, all: impl Iterator<Item = &'a Reservation>) {
        self.phases.clear();
        self.resources.clear();
        for own in all {
            let name = &own.metadata.name;
            let now = match &own.status.phase {
                ReservationPhase::Available => "Available",
                ReservationPhase::Succeeded => "Succeeded",
                ReservationPhase::Failed => "Failed",
                ReservationPhase::Pending
                | ReservationPhase::Waiting
                | ReservationPhase::Other(_) => "Pending",
            };
            for phase in PHASES {
                let labels = PhaseLabels { name: name.clone(), phase };
                self.phases.get_or_create(&labels).set(i64::from(phase == now));
            }
            for (resource, held) in &own.status.allocatable {
                let labels = |r#type, unit| ResourceLabels {
                    r#type,
                    name: name.clone(),
                    resource: resource.clone(),
                    unit,
                };
                let ((held, unit), used) =
                    (told(resource, held), own.status.allocated.get(resource));
                let used = used.map_or(0.0, |used| told(resource, used).0);
                self.resources.get_or_create(&labels("allocatable", unit)).set(held);
                self.resources.get_or_create(&labels("allocated", unit)).set(used);
                if held > 0.0 {
                    self.resources.get_or_create(&labels("utilization", "ratio")).set(used / held);
                }
            }
        }
    }
}
