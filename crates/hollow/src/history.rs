//! What a node used lately, in the figures that its reports give for several lengths of time.
//!
//! One sample is kept for each report, and no more than the longest time needs: some hundred bytes for
//! each of thousands of nodes.

use std::collections::VecDeque;

use crate::usage::Usage;

/// The lengths of time that are reported, in seconds.
pub(crate) const WINDOWS: [u32; 3] = [300, 600, 1_800];
/// How many samples are kept: one a minute for the longest of them, with both ends.
const SAMPLES_MAX: usize = 31;
/// What is told besides the average: so many of a hundred samples are at most that.
const PERCENTILES: [(&str, usize); 4] = [("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99)];

/// What a node used at a moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    second: u32,
    cpu_millis: u32,
    memory_bytes: u64,
}

/// What a node used lately, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct History(VecDeque<Sample>);

/// What a node used for a while.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) seconds: u32,
    /// By name: the average, and what most samples are at most.
    pub(crate) figures: [(&'static str, Usage); 5],
}

impl History {
    /// Takes in what is used at a moment. A report that is tried again soon is no further sample.
    pub(crate) fn note(&mut self, second: u32, interval_seconds: u32, usage: Usage) {
        let is_again =
            |last: &Sample| second.saturating_sub(last.second) < interval_seconds.div_ceil(2);
        if self.0.back().is_some_and(is_again) {
            self.0.pop_back();
        }
        if self.0.len() >= SAMPLES_MAX {
            self.0.pop_front();
        }
        let cpu_millis = u32::try_from(usage.cpu_millis).unwrap_or(u32::MAX);
        self.0.push_back(Sample { second, cpu_millis, memory_bytes: usage.memory_bytes });
    }

    /// What was used for as long as at least half of it is known.
    pub(crate) fn windows(&self) -> impl Iterator<Item = Window> {
        let newest = self.0.back().map_or(0, |sample| sample.second);
        WINDOWS.into_iter().filter_map(move |seconds| {
            let from = newest.saturating_sub(seconds);
            let within = || self.0.iter().filter(move |sample| sample.second >= from);
            let known = newest.saturating_sub(within().next()?.second);
            let is_enough = known.saturating_mul(2) >= seconds;
            is_enough.then(|| Window {
                seconds,
                figures: figures(
                    within().map(|sample| sample.cpu_millis.into()).collect(),
                    within().map(|sample| sample.memory_bytes).collect(),
                ),
            })
        })
    }
}

fn figures(mut cpus: Vec<u64>, mut memories: Vec<u64>) -> [(&'static str, Usage); 5] {
    cpus.sort_unstable();
    memories.sort_unstable();
    let usage = |figure: &dyn Fn(&[u64]) -> u64| Usage {
        cpu_millis: figure(&cpus),
        memory_bytes: figure(&memories),
    };
    let [p50, p90, p95, p99] =
        PERCENTILES.map(|(name, percent)| (name, usage(&|sorted| percentile(sorted, percent))));
    [("avg", usage(&average)), p50, p90, p95, p99]
}

fn average(amounts: &[u64]) -> u64 {
    let sum: u128 = amounts.iter().map(|amount| u128::from(*amount)).sum();
    let mean = sum / amounts.len().max(1) as u128;
    u64::try_from(mean).unwrap_or(u64::MAX)
}

/// The least amount that so many of a hundred do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One sample a minute of so many millis, and what is told of each time in CPU.
    fn check(millis: &[u64], want: &[&str]) {
        let mut history = History::default();
        for (minute, cpu_millis) in (0..).zip(millis) {
            let usage = Usage { cpu_millis: *cpu_millis, memory_bytes: *cpu_millis << 20 };
            history.note(minute * 60, 60, usage);
            assert!(history.0.len() <= SAMPLES_MAX);
        }
        let told: Vec<String> = history
            .windows()
            .map(|window| {
                let figures = window.figures.iter().map(|(name, usage)| {
                    assert_eq!(usage.memory_bytes >> 20, usage.cpu_millis, "{name}");
                    format!(" {name}={}", usage.cpu_millis)
                });
                format!("{}{}", window.seconds, figures.collect::<String>())
            })
            .collect();
        assert_eq!(told, want, "{millis:?}");
    }

    #[test]
    fn a_time_is_told_of_when_half_of_it_is_known() {
        check(&[], &[]);
        check(&[100; 3], &[]);
        let all = "avg=100 p50=100 p90=100 p95=100 p99=100";
        check(&[100; 4], &[&format!("300 {all}")]);
        check(&[100; 6], &[&format!("300 {all}"), &format!("600 {all}")]);
        let every = [300, 600, 1800].map(|seconds| format!("{seconds} {all}"));
        let every: Vec<&str> = every.iter().map(String::as_str).collect();
        check(&[100; 16], &every);
        check(&[100; 1000], &every);
    }

    #[test]
    fn figures_are_those_of_the_samples_of_their_time() {
        let rising: Vec<u64> = (1..=31).map(|minute| minute * 100).collect();
        check(
            &rising,
            &[
                "300 avg=2850 p50=2800 p90=3100 p95=3100 p99=3100",
                "600 avg=2600 p50=2600 p90=3000 p95=3100 p99=3100",
                "1800 avg=1600 p50=1600 p90=2800 p95=3000 p99=3100",
            ],
        );
        // What was before is forgotten.
        let fallen: Vec<u64> = [9_000; 40].into_iter().chain([10; 31]).collect();
        let all = "avg=10 p50=10 p90=10 p95=10 p99=10";
        let every = [300, 600, 1800].map(|seconds| format!("{seconds} {all}"));
        check(&fallen, &every.each_ref().map(String::as_str));
    }

    #[test]
    fn a_report_that_is_tried_again_counts_once() {
        let mut history = History::default();
        for (second, cpu_millis) in [(0, 1), (60, 2), (61, 3), (75, 4), (120, 5)] {
            history.note(second, 60, Usage { cpu_millis, memory_bytes: 0 });
        }
        let kept: Vec<u32> = history.0.iter().map(|sample| sample.cpu_millis).collect();
        assert_eq!(kept, [1, 4, 5]);
    }
}
