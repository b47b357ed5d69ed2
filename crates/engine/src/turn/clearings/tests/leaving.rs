//! Who is waited for that leaves a node.

use super::*;
use crate::fact::NodeFact;

/// Room is made on the only node, whose pods do not go; then it becomes this, and another comes that is full.
/// Who has to go there, and for whom.
fn once_more(gang_of: Option<&str>, becomes: NodeFact, is_others: bool) -> BTreeSet<String> {
    let mut engine = jobs();
    engine.apply(node("n", 16_000), START);
    engine.apply(on(plain("x", 16_000, 1), "n"), START);
    let own = match gang_of {
        Some(of) => member("a", of, 16_000, 1_000),
        None => plain("a", 16_000, 1_000),
    };
    engine.apply(gang("g", 1), START);
    engine.apply(told(own), START);
    assert_eq!(cleared(&mut engine).0, names(&["x"]));
    let leaving = PodFact { deleting: true, giving_way: true, ..plain("x", 16_000, 1) };
    let leaving = PodFact { priority: if is_others { 1_000 } else { 1 }, ..leaving };
    engine.apply(on(leaving, "n"), START);
    engine.apply(Fact::Node(becomes), START);
    engine.apply(node("m", 16_000), START);
    engine.apply(on(plain("y", 16_000, 1), "m"), START);
    cleared(&mut engine).0
}

#[test]
fn nobody_waits_for_victims_to_leave_a_node_that_became_of_no_use() {
    let Fact::Node(alive) = node("n", 16_001) else { unreachable!() };
    let taints = ["down:NoSchedule".parse().unwrap()].into();
    let dead = NodeFact { taints, ..alive.clone() };
    let cordoned = NodeFact { unschedulable: true, ..alive.clone() };
    for of in [Some("g"), None] {
        assert_eq!(once_more(of, alive.clone(), false), names(&[]), "{of:?}");
        assert_eq!(once_more(of, dead.clone(), false), names(&["y"]), "{of:?}");
        assert_eq!(once_more(of, cordoned.clone(), false), names(&["y"]), "{of:?}");
    }
    // Who leaves is of no lower priority by now. A pod that stands alone knows who went for it.
    assert_eq!(once_more(Some("g"), alive.clone(), true), names(&["y"]));
    assert_eq!(once_more(None, alive, true), names(&[]));
}
