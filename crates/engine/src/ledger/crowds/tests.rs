use std::collections::VecDeque;

use object::field::Path;
use object::selector::label::Selector;
use proptest::prelude::*;

use super::*;
use crate::needs::Clause;

#[test]
fn whoever_shares_a_label_is_found_when_others_that_do_are_gone() {
    let (mut crowds, mut symbols) = (Crowds::default(), Symbols::default());
    let labels = |number: u8| -> BTreeMap<Box<str>, Box<str>> {
        let pairs = [("app", "web".into()), ("name", number.to_string()), ("z", "1".into())];
        pairs.map(|(key, value): (&str, String)| (key.into(), value.into())).into()
    };
    let mut held: Vec<_> = (0..9)
        .map(|number| crowds.hold_identity("default", &labels(number), &mut symbols))
        .collect();
    for gone in [0, 3, 6, 0, 2] {
        let gone: usize = gone;
        crowds.release_identity(held.remove(gone), &mut symbols);
        for key in ["app", "z"] {
            let value = if key == "app" { "web" } else { "1" };
            let mark = Mark::Label(symbols.find(key).unwrap(), symbols.find(value).unwrap());
            let mut found = crowds.identities_with.get(&mark).unwrap().clone();
            found.sort_unstable();
            let mut expected = held.clone();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    }
    held.into_iter().for_each(|id| crowds.release_identity(id, &mut symbols));
    assert!(crowds.identities_with.is_empty() && symbols.is_empty());
}

fn selector(number: usize) -> PodSelector {
    let parse = |text: &str| Selector::parse(text, &Path::root()).unwrap();
    let clause = |namespaces: &[&str], by_labels: Option<&str>, labels: &str| Clause {
        namespaces: namespaces.iter().map(|name| (*name).into()).collect(),
        namespace_labels: by_labels.map_or_else(Selector::nothing, parse),
        labels: parse(labels),
    };
    match number {
        0 => PodSelector::one(clause(&["a"], None, "x=1")),
        1 => PodSelector::one(clause(&["a", "b"], None, "!x")),
        2 => PodSelector::one(clause(&[], Some("t=1"), "x")),
        3 => PodSelector::one(clause(&["b"], Some("!t"), "y notin (1)")),
        4 => PodSelector::one(clause(&[], Some(""), "")),
        5 => PodSelector::one(clause(&["a"], Some("t in (1,2)"), "x in (1,2),!y")),
        6 => PodSelector([clause(&["a"], None, "x"), clause(&[], Some("t"), "y=2")].into()),
        _ => PodSelector::one(Clause::within("a", Selector::nothing())),
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// A pod of this identity comes to a node.
    Come(usize, usize),
    /// The pod that came first leaves.
    Go,
    Hold(usize),
    /// The selector that was held first is not held any longer.
    Release,
    Namespace(usize, Option<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..18_usize, 0..3_usize).prop_map(|(who, node)| Step::Come(who, node)),
        2 => Just(Step::Go),
        3 => (0..8_usize).prop_map(Step::Hold),
        1 => Just(Step::Release),
        2 => (0..2_usize, proptest::option::of(0..3_u8)).prop_map(|(n, t)| Step::Namespace(n, t)),
    ]
}

fn pairs(pairs: &[(&str, usize)]) -> BTreeMap<Box<str>, Box<str>> {
    let some = pairs.iter().filter(|(_, value)| *value > 0);
    some.map(|(key, value)| ((*key).into(), value.to_string().into())).collect()
}

proptest! {
    #[test]
    fn whoever_comes_first_a_crowd_is_the_pods_that_its_selector_means(
        steps in proptest::collection::vec(step(), 1..50),
    ) {
        let (mut crowds, mut symbols) = (Crowds::default(), Symbols::default());
        let (mut pods, mut held) = (VecDeque::new(), VecDeque::new());
        let mut namespaces = [None, None];
        for step in steps {
            match step {
                Step::Come(who, node) => {
                    let namespace = ["a", "b"][who % 2];
                    let labels = pairs(&[("x", who / 2 % 3), ("y", who / 6)]);
                    let id = crowds.hold_identity(namespace, &labels, &mut symbols);
                    crowds.arrive(id, NodeIndex::at(node), false);
                    pods.push_back((id, who % 2, labels, node));
                }
                Step::Go => {
                    let Some((id, _, _, node)) = pods.pop_front() else { continue };
                    crowds.leave(id, NodeIndex::at(node), false);
                    crowds.release_identity(id, &mut symbols);
                }
                Step::Hold(number) => {
                    held.push_back((crowds.hold(&selector(number), &mut symbols), number));
                }
                Step::Release => {
                    let Some((id, _)) = held.pop_front() else { continue };
                    crowds.release(id, &mut symbols);
                }
                Step::Namespace(namespace, labels) => {
                    let labels = labels.map(|value| pairs(&[("t", value.into())]));
                    let name = ["a", "b"][namespace];
                    crowds.put_namespace(name, labels.as_ref(), &mut symbols);
                    namespaces[namespace] = labels;
                }
            }
            for (crowd, number) in &held {
                let mut counts = [0; 3];
                for (id, namespace, labels, node) in &pods {
                    let of_namespace = namespaces[*namespace].as_ref();
                    let name = ["a", "b"][*namespace];
                    let means = selector(*number).0.iter().all(|clause| {
                        clause.holds(
                            name,
                            |key| of_namespace?.get(key).map(|value| &**value),
                            |key| labels.get(key).map(|value| &**value),
                        )
                    });
                    prop_assert_eq!(crowds.is_member(*id, *crowd), means);
                    prop_assert_eq!(crowds.of(*id).contains(crowd), means);
                    counts[*node] += u32::from(means);
                }
                let own = &crowds.get(*crowd).pods;
                let told = [0, 1, 2].map(|node| own.at(NodeIndex::at(node)).all);
                prop_assert_eq!(told, counts, "selector {}", number);
            }
        }
        for (id, _, _, node) in pods {
            crowds.leave(id, NodeIndex::at(node), false);
            crowds.release_identity(id, &mut symbols);
        }
        held.into_iter().for_each(|(id, _)| crowds.release(id, &mut symbols));
        ["a", "b"].into_iter().for_each(|name| crowds.put_namespace(name, None, &mut symbols));
        prop_assert!(crowds.is_empty() && symbols.is_empty());
    }
}
