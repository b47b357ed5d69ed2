//! What is counted of gangs, under Koordinator's names.

use std::time::Duration;

use chassis::metrics::exponential_buckets;
use engine::turn::{GangStep, PlanEnd};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CycleLabels {
    reason: &'static str,
    job_size: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

/// Buckets of a plan, in seconds.
const CYCLE: [f64; 16] =
    [0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 12.5, 15.0, 20.0, 25.0, 30.0, 45.0, 60.0, 120.0];

/// How many members are counted together.
const SIZE_STEP: usize = 100;
/// From here on all are.
const SIZE_MAX: usize = 1000;

#[derive(Debug, Clone, Copy)]
struct Cycles;

impl MetricConstructor<Histogram> for Cycles {
    fn new_metric(&self) -> Histogram {
        Histogram::new(CYCLE)
    }
}

#[derive(Debug, Clone, Copy)]
struct Clearings;

impl MetricConstructor<Histogram> for Clearings {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(0.001, 2.0, 20))
    }
}

/// What is counted of gangs; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct GangMeters {
    cycles: Family<CycleLabels, Histogram, Cycles>,
    clearings: Family<ResultLabel, Histogram, Clearings>,
}

impl Default for GangMeters {
    fn default() -> Self {
        Self {
            cycles: Family::new_with_constructor(Cycles),
            clearings: Family::new_with_constructor(Clearings),
        }
    }
}

impl GangMeters {
    /// Registers what is counted.
    pub(crate) fn enter(&self, registry: &mut Registry) {
        let help = "How long it took to plan groups of gangs, room that was looked for included, by \
                    what came of it and by how many members were to be tried";
        let name = "scheduler_gang_schedule_cycle_duration_seconds";
        registry.register(name, help, self.cycles.clone());
        let help =
            "How long it took to find out who makes room for groups of gangs, by what came of it";
        let name = "scheduler_job_preemption_duration_seconds";
        registry.register(name, help, self.clearings.clone());
    }

    /// A step of a group is over, of which the last turn took so long itself.
    pub(crate) fn observe(&self, step: &GangStep, turn: Duration) {
        match step {
            GangStep::Planned { end, members, took } => {
                let labels = CycleLabels { reason: reason(*end), job_size: size(*members) };
                let took = took.saturating_add(turn);
                self.cycles.get_or_create(&labels).observe(took.as_secs_f64());
            }
            GangStep::Cleared { end, took } => {
                let took = took.saturating_add(turn);
                let labels = ResultLabel { result: end.as_str() };
                self.clearings.get_or_create(&labels).observe(took.as_secs_f64());
            }
        }
    }
}

/// What came of a plan, in Koordinator's words.
fn reason(end: PlanEnd) -> &'static str {
    match end {
        PlanEnd::Kept => "gang is already succeed",
        PlanEnd::Refused => "all pending pods is already been attempted",
        PlanEnd::Dropped => "gang is nil, may be already deleted",
    }
}

/// So many members, with those that are counted with them.
fn size(members: usize) -> String {
    match members {
        0 => "0".to_owned(),
        many if many > SIZE_MAX => format!("{SIZE_MAX}+"),
        some => {
            let first = (some - 1) / SIZE_STEP * SIZE_STEP;
            format!("{}-{}", first + 1, first + SIZE_STEP)
        }
    }
}

#[cfg(test)]
mod tests {
    use chassis::metrics::Metrics;
    use engine::turn::ClearingEnd;

    use super::*;

    #[test]
    fn members_are_counted_by_hundreds() {
        let sizes = [0, 1, 100, 101, 1000, 1001].map(size);
        assert_eq!(sizes, ["0", "1-100", "1-100", "101-200", "901-1000", "1000+"]);
    }

    #[test]
    fn a_step_counts_with_the_turn_in_which_it_ended() {
        let metrics = Metrics::new();
        let own = GangMeters::default();
        metrics.register(|registry| own.enter(registry));
        let (took, turn) = (Duration::from_secs(2), Duration::from_millis(500));
        own.observe(&GangStep::Planned { end: PlanEnd::Kept, members: 6, took }, turn);
        own.observe(&GangStep::Cleared { end: ClearingEnd::NoVictims, took }, turn);
        let text = metrics.render();
        for line in [
            "scheduler_gang_schedule_cycle_duration_seconds_sum{reason=\"gang is already succeed\",\
             job_size=\"1-100\"} 2.5",
            "scheduler_gang_schedule_cycle_duration_seconds_bucket{le=\"3\",reason=\"gang is already \
             succeed\",job_size=\"1-100\"} 1",
            "scheduler_job_preemption_duration_seconds_sum{result=\"no potential victims\"} 2.5",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
