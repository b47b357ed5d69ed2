//! How much a pod and a node use: a share of what the pod requests, which rises and falls
//! slowly, by seed. All of it is integers, so that it is the same on every machine.

use crate::pod::PodRun;
use crate::seed::{Seed, mix, within};
use crate::shape::Shape;

const MEBI: u64 = 1 << 20;

/// CPU and memory in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) cpu_millis: u64,
    pub(crate) memory_bytes: u64,
}

impl Usage {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
        }
    }
}

/// What a pod uses.
pub(crate) fn of_pod(seed: Seed, pod: &PodRun, seconds: u64) -> Usage {
    of_shape(&pod.shape, seed.of("usage", pod.key.as_str()), seconds)
}

fn of_shape(shape: &Shape, number: u64, seconds: u64) -> Usage {
    let requested = |names: [&str; 3]| {
        let found = names.iter().find_map(|name| shape.requests.get(*name));
        found.and_then(|amount| u64::try_from(*amount).ok())
    };
    // Batch and mid CPU are counted in thousandths as they are.
    let cpu = requested(["cpu", "kubernetes.io/batch-cpu", "kubernetes.io/mid-cpu"]);
    let memory = requested(["memory", "kubernetes.io/batch-memory", "kubernetes.io/mid-memory"]);
    let cpu_share = share(number, seconds, (100, 600), 300, 1_200);
    let memory_share = share(mix(number), seconds, (300, 800), 100, 7_200);
    let of = |amount: u64, share: u64| {
        (amount / 1000).saturating_mul(share) + amount % 1000 * share / 1000
    };
    Usage {
        cpu_millis: shape.cpu_millis.unwrap_or_else(|| of(cpu.unwrap_or(50), cpu_share)),
        memory_bytes: shape
            .memory_bytes
            .unwrap_or_else(|| of(memory.unwrap_or(128 * MEBI), memory_share)),
    }
}

/// What a node uses beside its pods.
pub(crate) fn of_system(seed: Seed, node: &str, capacity: Usage, seconds: u64) -> Usage {
    let number = seed.of("system", node);
    let cpu = share(number, seconds, (10, 20), 10, 900);
    let memory = share(mix(number), seconds, (30, 50), 5, 3_600);
    Usage {
        cpu_millis: capacity.cpu_millis.saturating_mul(cpu) / 1000,
        memory_bytes: (capacity.memory_bytes / 1000).saturating_mul(memory),
    }
}

/// A share in thousandths: a base, plus a wave of a height and a period of at least those
/// given.
fn share(number: u64, seconds: u64, base: (u64, u64), height: u64, period: u64) -> u64 {
    let base = within(mix(number), base.0, base.1);
    let height = within(mix(number ^ 1), 0, height);
    let period = within(mix(number ^ 2), period, 2 * period);
    let at = (seconds + mix(number ^ 3) % period) % period;
    let rising = at.min(period - at) * 2;
    base + height * rising / period
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_share_stays_in_its_bounds_and_moves_slowly(number in any::<u64>(), at in 0..1u64 << 40) {
            let now = share(number, at, (100, 600), 300, 1_200);
            prop_assert!((100..=900).contains(&now));
            let later = share(number, at + 60, (100, 600), 300, 1_200);
            prop_assert!(now.abs_diff(later) <= 31, "{} {}", now, later);
        }
    }
}
