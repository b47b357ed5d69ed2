//! What quotas cost: 1,000 of them in a tree of depth 5, or all side by side, of four resources, all
//! asking for more than there is.
//!
//! A refresh comes after the capacity and what every leaf asks for have changed, so that everything is
//! divided anew; or after a quota has changed, so that everything is added up anew as well. A pod that
//! comes, is admitted and is charged is measured apart. The time is that of the processor; the median of
//! the rounds counts. The benchmark ends with an error where it is more than it may be.

#![allow(clippy::disallowed_methods, reason = "a benchmark takes the time")]

mod world;

use std::process::ExitCode;
use std::time::Duration;

use engine::needs::Amounts;
use engine::quota::{ByResource, Preemptible, QuotaFact, QuotaTree};
use world::processor_time;

const QUOTAS: usize = 1_000;
const ROUNDS: usize = 51;
/// Pods that come in one round.
const PODS: usize = 1_000;
/// Quotas of each level of a tree of depth 5; the last are leaves.
const LEVELS: [usize; 5] = [4, 16, 64, 256, 660];
/// The same of one in which all are side by side.
const FLAT: [usize; 1] = [QUOTAS];
const GPU: &str = "nvidia.com/gpu";
/// What a leaf asks for at most of each resource: CPU, memory, storage, GPUs.
const REQUESTS: [i64; 4] = [64_000, 256 << 30, 1 << 40, 32];
/// What there is, in percent of what leaves ask for at most; they ask for three quarters of it.
const CAPACITY_PERCENT: i64 = 50;
const REFRESH_MAX: Duration = Duration::from_millis(1);
const EDIT_MAX: Duration = Duration::from_millis(2);
const POD_MAX: Duration = Duration::from_micros(5);

fn list(amounts: [i64; 4]) -> ByResource {
    let names = ["cpu", "memory", "ephemeral-storage", GPU].map(Box::from);
    names.into_iter().zip(amounts).collect()
}

/// Somewhat different from its neighbours, and the same each time.
fn spread(number: usize, round: usize) -> i64 {
    let mixed =
        (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (round as u64 * 0xBF58_476D);
    (mixed.wrapping_mul(0x94D0_49BB_1331_11EB) >> 33) as i64 % 50 + 50
}

fn part(amounts: [i64; 4], percent: i64) -> [i64; 4] {
    amounts.map(|amount| amount * percent / 100)
}

fn name(number: usize) -> String {
    format!("quota-{number:04}")
}

/// The numbers of the leaves.
fn leaves(levels: &[usize]) -> std::ops::Range<usize> {
    QUOTAS - levels[levels.len() - 1]..QUOTAS
}

/// A quota of a level; those of one level share parents evenly.
fn quota(levels: &[usize], level: usize, number: usize) -> QuotaFact {
    let before: usize = levels[..level].iter().sum();
    let share = REQUESTS.map(|amount| amount * QUOTAS as i64 / levels[level] as i64);
    let mut fact = QuotaFact::new(&name(number), list(part(share, spread(number, 0))));
    fact.min = list(part(share, spread(number, 0) / 4));
    fact.is_lendable = !number.is_multiple_of(7);
    if level > 0 {
        let above = levels[level - 1];
        fact.parent = name(before - above + (number - before) * above / levels[level]).into();
    }
    fact
}

fn tree(levels: &[usize]) -> QuotaTree {
    let mut tree = QuotaTree::default();
    let numbered = levels.iter().enumerate().flat_map(|(level, count)| vec![level; *count]);
    for (number, level) in numbered.enumerate() {
        tree.put(quota(levels, level, number));
    }
    tree
}

fn amounts(number: usize, round: usize) -> Amounts {
    let [cpu_millis, memory_bytes, storage_bytes, gpus] = part(REQUESTS, spread(number, round));
    Amounts { cpu_millis, memory_bytes, storage_bytes, scalars: vec![(GPU.into(), gpus)] }
}

/// Changes what there is and what all leaves ask for.
fn change_all(tree: &mut QuotaTree, levels: &[usize], round: usize) {
    for number in leaves(levels) {
        if round > 0 {
            tree.add_request(&name(number), &amounts(number, round - 1), -1, Preemptible::Yes);
        }
        tree.add_request(&name(number), &amounts(number, round), 1, Preemptible::Yes);
    }
    let all = REQUESTS.map(|amount| amount * leaves(levels).len() as i64);
    tree.set_capacity(list(part(all, CAPACITY_PERCENT - round as i64 % 10)));
}

/// Refreshes a tree, and returns the time that took. All there is must be given away.
fn refresh(tree: &mut QuotaTree, levels: &[usize]) -> Duration {
    let began = processor_time();
    let view = tree.view();
    let took = processor_time() - began;
    for (resource, shared) in view.shared() {
        let runtime = |number| view.standing(&name(number)).map_or(0, |own| own.runtime[&resource]);
        let given: i64 = (0..levels[0]).map(runtime).sum();
        assert_eq!(given, shared, "measuring a tree that has enough of {resource}");
    }
    took
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The time of a refresh after everything has changed, and after a quota has.
fn refreshes(levels: &[usize]) -> (Duration, Duration) {
    let mut tree = tree(levels);
    let (mut changed, mut anew) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        change_all(&mut tree, levels, round);
        // The first one lays the tree out as well.
        let took = refresh(&mut tree, levels);
        if round > 0 {
            changed.push(took);
        }
        let mut one = quota(levels, 0, 0);
        one.is_parent = round.is_multiple_of(2);
        tree.put(one);
        anew.push(refresh(&mut tree, levels));
    }
    (median(changed), median(anew))
}

/// The time for each of some pods that come, are admitted and are charged.
fn pods() -> Duration {
    let mut tree = tree(&LEVELS);
    let all = REQUESTS.map(|amount| amount * QUOTAS as i64);
    tree.set_capacity(list(part(all, 200)));
    let pod = Amounts { cpu_millis: 1, memory_bytes: 1 << 10, ..Amounts::default() };
    let names: Vec<String> = leaves(&LEVELS).map(name).collect();
    let round = |_| {
        let began = processor_time();
        for number in 0..PODS {
            let quota = &names[number % names.len()];
            tree.add_request(quota, &pod, 1, Preemptible::Yes);
            tree.admit(quota, &pod, Preemptible::Yes).expect("measuring a full tree");
            tree.add_used(quota, &pod, 1, Preemptible::Yes);
        }
        (processor_time() - began) / PODS as u32
    };
    median((0..ROUNDS).map(round).collect())
}

fn main() -> ExitCode {
    assert_eq!(LEVELS.iter().sum::<usize>(), QUOTAS);
    let mut is_slow = false;
    let mut row = |what: &str, took: Duration, most: Duration| {
        println!("| {what} | {:.3} | {:.3} |", took.as_secs_f64() * 1e3, most.as_secs_f64() * 1e3);
        is_slow |= took > most;
    };
    println!("| {QUOTAS} quotas, 4 resources | ms | at most |");
    println!("|---|---|---|");
    for (what, levels) in [("depth 5", &LEVELS[..]), ("side by side", &FLAT[..])] {
        let (changed, anew) = refreshes(levels);
        row(&format!("{what}: everything is divided anew"), changed, REFRESH_MAX);
        row(&format!("{what}: a quota was edited"), anew, EDIT_MAX);
    }
    row("depth 5: a pod comes, is admitted and is charged", pods(), POD_MAX);
    if is_slow {
        eprintln!("quotas cost more than they may");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
