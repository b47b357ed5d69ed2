//! What holds of a tree whatever happens.

use api::elastic_quota::{DEFAULT_QUOTA, SYSTEM_QUOTA};
use proptest::collection::vec;
use proptest::prelude::*;

use super::reference::{Charged, Own, Reference, Share};
use super::*;
use crate::quota::column::Cell;
use crate::quota::tree::Reckoning;

/// Something that a tree is told.
#[derive(Debug, Clone)]
enum Step {
    Put(Box<QuotaFact>),
    Remove(usize),
    /// Of CPU, and of memory where the cluster has any.
    Capacity(i64, Option<i64>),
    /// Quota, amounts, and whether it is asked for or used, and by whom.
    Charge(usize, (i64, i64), bool, Preemptible),
    /// Quota, and amounts of what is asked for of it for those who could use nothing now.
    Rest(usize, (i64, i64)),
    /// Takes away the charge of a step before.
    Release(usize),
    Look,
}

/// Names, some of which are also parents; the last is never there.
const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", DEFAULT_QUOTA, SYSTEM_QUOTA, ROOT_QUOTA, "gone"];

fn fact() -> impl Strategy<Value = QuotaFact> {
    let amounts = ((0..40_i64, 0..60_i64, 0..9_i64), (0..40_i64, 0..60_i64, 0..9_i64));
    (0..8_usize, 0..NAMES.len(), amounts, any::<bool>(), any::<bool>()).prop_map(
        |(name, parent, (cpu, memory), is_lendable, counts_memory)| {
            let list = |cpu: i64, memory: i64| {
                let all = [("cpu", cpu, true), ("memory", memory, counts_memory)];
                let counted = all.into_iter().filter(|(.., counted)| *counted);
                counted.map(|(name, amount, _)| (name.into(), amount)).collect::<ByResource>()
            };
            QuotaFact {
                parent: NAMES[if parent > 4 && name != 0 { parent } else { parent.min(name) }]
                    .into(),
                min: list(cpu.0.min(cpu.1), memory.0.min(memory.1)),
                weight: list(cpu.2, memory.2),
                is_lendable,
                ..QuotaFact::new(NAMES[name], list(cpu.1, memory.1))
            }
        },
    )
}

fn below_root() -> impl Strategy<Value = QuotaFact> {
    (fact(), any::<bool>()).prop_map(|(mut fact, is_on_top)| {
        if is_on_top {
            fact.parent = ROOT_QUOTA.into();
        }
        fact
    })
}

fn preemptible() -> impl Strategy<Value = Preemptible> {
    prop_oneof![Just(Preemptible::Yes), Just(Preemptible::No)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => below_root().prop_map(|fact| Step::Put(fact.into())),
        1 => (0..NAMES.len()).prop_map(Step::Remove),
        1 => (0..150_i64, proptest::option::weighted(0.8, 0..150_i64))
            .prop_map(|(cpu, memory)| Step::Capacity(cpu, memory)),
        8 => (0..NAMES.len(), (0..30_i64, 0..30_i64), any::<bool>(), preemptible())
            .prop_map(|(quota, amounts, used, who)| Step::Charge(quota, amounts, used, who)),
        2 => (0..NAMES.len(), (0..30_i64, 0..30_i64)).prop_map(|(quota, own)| Step::Rest(quota, own)),
        3 => (0..40_usize).prop_map(Step::Release),
        2 => Just(Step::Look),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(is_max, scales_min, guarantees_usage)| {
            let limit = if is_max { Limit::Max } else { Limit::Runtime };
            Options { limit, scales_min, guarantees_usage }
        },
    )
}

fn charge(tree: &mut QuotaTree, step: &Step, sign: i64) {
    let (Step::Charge(_, own, ..) | Step::Rest(_, own)) = step else { return };
    let (cpu_millis, memory_bytes) = *own;
    let amounts = Amounts { cpu_millis, memory_bytes, ..Amounts::default() };
    match step {
        Step::Charge(quota, _, true, who) => tree.add_used(NAMES[*quota], &amounts, sign, *who),
        Step::Charge(quota, _, false, who) => {
            tree.add_request(NAMES[*quota], &amounts, sign, *who);
        }
        Step::Rest(quota, _) => tree.add_resting(NAMES[*quota], &amounts, sign),
        _ => {}
    }
}

/// Plays all steps but looks; each charge is taken away at most once.
fn play(tree: &mut QuotaTree, steps: &[Step], mut after: impl FnMut(&mut QuotaTree, &Step)) {
    let mut released = vec![false; steps.len()];
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Put(fact) => tree.put((**fact).clone()),
            Step::Remove(name) => tree.remove("", NAMES[*name]),
            Step::Capacity(cpu, None) => tree.set_capacity(list(&cpu.to_string())),
            Step::Capacity(cpu, Some(memory)) => {
                tree.set_capacity(list(&format!("{cpu}/{memory}")));
            }
            Step::Charge(..) | Step::Rest(..) => charge(tree, step, 1),
            Step::Release(at) if *at < number && !std::mem::replace(&mut released[*at], true) => {
                charge(tree, &steps[*at], -1);
            }
            Step::Release(_) | Step::Look => {}
        }
        after(tree, step);
    }
}

/// What there is of a resource after these steps, and what is charged to quotas themselves.
fn charged(steps: &[Step], resource: &str) -> (i64, Charged) {
    let (mut capacity, mut charged) = (0, Charged::new());
    let mut released = vec![false; steps.len()];
    for (number, step) in steps.iter().enumerate() {
        let (step, sign) = match step {
            Step::Release(at) if *at < number && !std::mem::replace(&mut released[*at], true) => {
                (&steps[*at], -1)
            }
            Step::Release(_) => continue,
            step => (step, 1),
        };
        match step {
            Step::Capacity(cpu, memory) if sign == 1 => {
                capacity = if resource == "cpu" { *cpu } else { memory.unwrap_or(0) };
            }
            Step::Charge(quota, (cpu, memory), is_used, _) => {
                let own: &mut Own = charged.entry(NAMES[*quota]).or_default();
                let amount = sign * if resource == "cpu" { *cpu } else { *memory };
                *(if *is_used { &mut own.used } else { &mut own.request }) += amount;
            }
            Step::Rest(quota, (cpu, memory)) => {
                let amount = sign * if resource == "cpu" { *cpu } else { *memory };
                charged.entry(NAMES[*quota]).or_default().resting += amount;
            }
            _ => {}
        }
    }
    (capacity, charged)
}

fn standings(tree: &mut QuotaTree) -> Vec<Option<Standing>> {
    let view = tree.view();
    NAMES.iter().map(|name| view.standing(name)).collect()
}

/// What a quota has of a resource; none where it has no part.
fn part(view: View<'_>, name: &str, resource: &str) -> Option<Cell> {
    let Reckoning { placement, columns } = view.reckoning;
    let cell = columns.get(resource)?.cells[placement.find(name)?];
    cell.has_part().then_some(cell)
}

proptest! {
    #[test]
    fn a_tree_that_was_looked_at_all_along_is_what_one_is_that_was_not(
        options in options(),
        steps in vec(step(), 1..40),
    ) {
        let (mut kept, mut fresh) = (QuotaTree::new(options), QuotaTree::new(options));
        play(&mut kept, &steps, |tree, step| {
            if matches!(step, Step::Look) {
                tree.view();
            }
        });
        play(&mut fresh, &steps, |_, _| ());
        prop_assert_eq!(standings(&mut kept), standings(&mut fresh));
    }

    #[test]
    fn a_tree_is_what_the_reference_says(
        options in options(),
        steps in vec(step(), 1..40),
    ) {
        let options = Options { limit: Limit::Runtime, ..options };
        let mut tree = QuotaTree::new(options);
        play(&mut tree, &steps, |tree, step| {
            if matches!(step, Step::Look) {
                tree.view();
            }
        });
        let view = tree.view();
        for resource in ["cpu", "memory"] {
            let (capacity, charged) = charged(&steps, resource);
            let facts = view.register().iter().collect();
            let own = Reference { options, resource, facts, charged, capacity };
            let told: BTreeMap<Box<str>, Share> = NAMES[..5].iter().filter_map(|name| {
                let own = part(view, name, resource)?;
                Some(((*name).into(), Share { runtime: own.runtime, kept: own.kept_min }))
            }).collect();
            prop_assert_eq!(told, own.shares(), "{}", resource);
        }
    }

    #[test]
    fn what_is_told_last_counts_and_not_when(
        options in options(),
        facts in vec(below_root(), 1..9),
        charges in vec(step(), 0..20),
        keys in vec(any::<u32>(), 29),
    ) {
        // Each quota once, so that their order says nothing.
        let mut told = std::collections::BTreeSet::new();
        let facts = facts.into_iter().filter(|fact| told.insert(fact.name.clone()));
        let charges = charges.into_iter().filter(|step| matches!(step, Step::Charge(..)));
        let steps: Vec<Step> = facts.map(|fact| Step::Put(fact.into())).chain(charges).collect();
        let mut mixed: Vec<(u32, Step)> = keys.into_iter().zip(steps.clone()).collect();
        mixed.sort_by_key(|(key, _)| *key);
        let mixed: Vec<Step> = mixed.into_iter().map(|(_, step)| step).collect();
        let of = |steps: &[Step]| {
            let mut tree = QuotaTree::new(options);
            tree.set_capacity(list("100/80"));
            play(&mut tree, steps, |tree, _| drop(tree.view().shared()));
            standings(&mut tree)
        };
        prop_assert_eq!(of(&steps), of(&mixed));
    }

    #[test]
    fn what_is_gone_leaves_nothing_behind(
        options in options(),
        steps in vec(step(), 1..40),
    ) {
        let (mut tree, mut uncharged) = (QuotaTree::new(options), QuotaTree::new(options));
        play(&mut tree, &steps, |_, _| ());
        let is_released = |at: usize| {
            let mut later = steps.iter().enumerate().skip(at + 1);
            later.any(|(_, step)| matches!(step, Step::Release(of) if *of == at))
        };
        for (_, step) in steps.iter().enumerate().filter(|(at, _)| !is_released(*at)) {
            charge(&mut tree, step, -1);
        }
        let told: Vec<Step> =
            steps.iter().filter(|step| !matches!(step, Step::Charge(..) | Step::Rest(..) | Step::Release(_))).cloned().collect();
        play(&mut uncharged, &told, |_, _| ());
        prop_assert_eq!(standings(&mut tree), standings(&mut uncharged));
        prop_assert_eq!(tree.accounts(), 0);
    }

    #[test]
    fn nobody_gets_beyond_his_ceiling_and_children_together_no_more_than_their_parent(
        options in options(),
        steps in vec(step(), 1..40),
    ) {
        let mut tree = QuotaTree::new(options);
        play(&mut tree, &steps, |_, _| ());
        let view = tree.view();
        for (name, resource) in NAMES.into_iter().flat_map(|name| [(name, "cpu"), (name, "memory")]) {
            // What a quota hands on is divided like what it counts itself.
            let above = part(view, name, resource).unwrap_or_default();
            let has = match name {
                ROOT_QUOTA => view.shared().get(resource).copied().unwrap_or(0),
                _ => above.runtime,
            };
            let below = view.below(name).filter_map(|name| part(view, name, resource));
            let below: Vec<Cell> = below.collect();
            let sum = |of: &dyn Fn(&Cell) -> i64| below.iter().map(|own| i128::from(of(own))).sum::<i128>();
            let floors = sum(&|own| floor(options, own));
            let is_enough = options.limit == Limit::Runtime && floors <= i128::from(has);
            let given = sum(&|own| own.runtime);
            prop_assert!(!is_enough || given <= i128::from(has), "{} have {} of {}", name, given, has);
            let is_sound = options.scales_min && !options.guarantees_usage;
            let is_sound = is_sound && options.limit == Limit::Runtime;
            // What those of one parent are sure of is there or would be, and where it would be it is not asked for.
            let kept = sum(&|own| own.kept_min);
            prop_assert!(!is_sound || kept <= i128::from(has.max(above.kept_min)), "{} keep {}", name, kept);
            let demand = below.iter().map(Cell::limited_demand).sum::<i128>();
            let is_sound = is_sound && (name == ROOT_QUOTA || above.demand >= demand);
            prop_assert!(!is_sound || given <= i128::from(has), "{} have {} of {}", name, given, has);
            for own in &below {
                prop_assert!(own.runtime <= own.max.unwrap_or(i64::MAX), "{:?}", own);
                prop_assert!((0..=own.min).contains(&own.kept_min), "{:?}", own);
                // What is guaranteed and can be kept is given first, as far as it is asked for. What a quota hands
                // on is what is asked for below.
                let asked = if own.hands_on { own.limited_demand() } else { own.limited_request() };
                let least = i128::from(floor(options, own)).min(asked);
                prop_assert!(i128::from(own.runtime) >= least, "{:?}", own);
            }
        }
    }

    #[test]
    fn nobody_is_admitted_beyond_what_a_quota_on_his_way_may_use_nor_beyond_its_ceiling(
        options in options(),
        steps in vec(step(), 1..40),
        (asker, cpu, memory, who) in (0..5_usize, 1..30_i64, 1..30_i64, preemptible()),
    ) {
        let mut tree = QuotaTree::new(options);
        play(&mut tree, &steps, |_, _| ());
        let asked = Amounts { cpu_millis: cpu, memory_bytes: memory, ..Amounts::default() };
        let is_admitted = tree.admit(NAMES[asker], &asked, who).is_ok();
        let view = tree.view();
        let mut fits = view.standing(NAMES[asker]).is_some();
        let own = view.register().get(NAMES[asker]);
        if let Some((own, standing)) = own.zip(view.standing(NAMES[asker]))
            && who == Preemptible::No
        {
            for (name, min) in &own.min {
                fits &= standing.non_preemptible_used[name] + asked.of(name) <= *min;
            }
        }
        let mut at = NAMES[asker];
        while let Some(standing) = view.standing(at).filter(|_| at != ROOT_QUOTA) {
            let max = view.register().get(at).map(|fact| fact.max.clone()).unwrap_or_default();
            // Each is held to what it counts itself, whatever those below it do.
            for name in standing.used.keys() {
                let limits = [standing.runtime.get(name), max.get(name)];
                for limit in limits.into_iter().flatten() {
                    fits &= standing.used[name] + asked.of(name) <= *limit;
                }
            }
            at = view.register().get(at).map_or(ROOT_QUOTA, |fact| &fact.parent);
        }
        prop_assert_eq!(is_admitted, fits);
    }
}

/// What a quota gets before anything is divided, but for what it does not ask for.
fn floor(options: Options, own: &Cell) -> i64 {
    let used = amount(own.guaranteed()).min(own.max.unwrap_or(i64::MAX));
    if options.guarantees_usage { own.kept_min.max(used) } else { own.kept_min }
}
