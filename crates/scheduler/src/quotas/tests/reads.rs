//! How often what a quota says is read.

use super::*;
use crate::quotas::reading::READ;

#[test]
fn a_quota_is_read_when_it_is_shown_and_not_when_it_is_compared() {
    let mut world = world();
    let names: Vec<String> = (0..10).map(|number| format!("q{number}")).collect();
    for name in &names {
        let listed: Vec<String> = (0..500).map(|number| format!("{name}-{number}")).collect();
        let more =
            json!({ "metadata": { "annotations": { NAMESPACES: json!(listed).to_string() } } });
        world.quota(name, more);
    }
    assert!(world.settle(START) > 0);
    let read = READ.get();
    // Nothing of them is to be written, however often they are compared.
    for second in 1..10 {
        world.now = after(second * 10);
        world.pod("nobodys", "none", i64::try_from(second % 2).unwrap());
        assert_eq!(world.orders(), []);
    }
    assert_eq!(READ.get(), read);
    world.pod("p", "q1", 1);
    assert_eq!(world.settle(after(200)), 1);
    assert_eq!(READ.get(), read + 1, "what was written is shown");
}

#[test]
fn a_list_that_says_more_than_it_may_is_told_as_the_condition_of_the_quota() {
    let mut world = world();
    let listed: Vec<String> = (0..1_001).map(|number| format!("n{number}")).collect();
    let more = json!({ "metadata": { "annotations": { NAMESPACES: json!(listed).to_string() } } });
    let key = world.quota("wide", more);
    world.settle(START);
    let expected = format!(
        "False Malformed: {NAMESPACES} has more than 1000 entries: name at most 1000 namespaces, in at most 68000 \
         bytes of JSON; until then it counts as if it were not there"
    );
    assert_eq!(world.condition(&key, "Ready"), expected);
}

#[test]
fn what_somebody_else_wrote_where_a_quota_says_how_it_stands_is_put_right() {
    let check = |text: &str| {
        let mut world = world();
        let key = world.quota("a", json!({ "metadata": { "annotations": { RUNTIME: text } } }));
        world.pod("p", "a", 3);
        assert_eq!(world.settle(START), 1, "{text:.20}");
        assert_eq!(world.annotation(&key, RUNTIME), r#"{"cpu":"3"}"#);
    };
    check("much");
    check(r#"{"cpu":"2"}"#);
    check(&format!(r#"{{"cpu":"3"}}{}"#, " ".repeat(64 << 10)));
}
