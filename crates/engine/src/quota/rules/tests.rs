//! Which changes are let through.

use api::elastic_quota::{
    ALLOW_FORCE_UPDATE_LABEL, IS_PARENT_LABEL, IS_ROOT_LABEL, MAX_STRICT_CHECK_RESOURCE_KEYS,
    NAMESPACES, PARENT_LABEL, TREE_ID_LABEL,
};
use serde_json::{Value, json};

use super::*;
use crate::needs::Amounts;
use crate::quota::{Options, Preemptible, QuotaTree};

/// A quota of CPU with these bounds.
fn quota(name: &str, parent: &str, min: i64, max: i64) -> ElasticQuota {
    let labels = json!({ PARENT_LABEL: parent });
    of(name, labels, json!({}), json!({ "min": { "cpu": min }, "max": { "cpu": max } }))
}

fn of(name: &str, labels: Value, annotations: Value, spec: Value) -> ElasticQuota {
    let metadata = json!({ "name": name, "namespace": "quotas", "labels": labels,
                           "annotations": annotations });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
}

/// The same with a label more.
fn with(mut quota: ElasticQuota, label: &str, value: &str) -> ElasticQuota {
    quota.metadata.labels.insert(label.to_owned(), value.to_owned());
    quota
}

fn parent(quota: ElasticQuota) -> ElasticQuota {
    with(quota, IS_PARENT_LABEL, "true")
}

/// A family: a parent of 100 with a child of 60.
fn family() -> Vec<ElasticQuota> {
    vec![parent(quota("p", "", 100, 200)), quota("child1", "p", 60, 200)]
}

fn tree(options: Options, quotas: &[ElasticQuota]) -> QuotaTree {
    let mut tree = QuotaTree::new(options);
    quotas.iter().for_each(|own| tree.put(QuotaFact::read(own).0));
    tree
}

/// What is said to a change of some quotas, in words.
fn answer(quotas: &[ElasticQuota], change: Change<'_>, pods: Pods<'_>, keys: Keys) -> String {
    let mut tree = tree(Options::default(), quotas);
    match judge(tree.view(), change, pods, keys) {
        Ok(()) => "accepted".to_owned(),
        Err(refusal) => refusal.to_string(),
    }
}

fn check(quotas: &[ElasticQuota], change: Change<'_>, expected: &str) {
    assert_eq!(answer(quotas, change, Pods::default(), Keys::Same), expected);
}

fn check_create(quotas: &[ElasticQuota], own: &ElasticQuota, expected: &str) {
    check(quotas, Change::Create(own), expected);
}

/// What is said when the last of some quotas is to be another.
fn check_update(quotas: &[ElasticQuota], new: &ElasticQuota, expected: &str) {
    let old = quotas.last().unwrap();
    check(quotas, Change::Update { old, new }, expected);
}

#[test]
fn s12_w1_a_guarantee_is_not_beyond_the_ceiling() {
    let refused = "quota q has min 12 > max 10 of cpu: lower min or raise max";
    check_create(&[], &quota("q", "", 12, 10), refused);
    check_create(&[], &quota("q", "", 10, 10), "accepted");
    check_update(&[quota("q", "", 5, 10)], &quota("q", "", 12, 10), refused);
}

#[test]
fn s12_w2_no_amount_is_below_zero() {
    let of = |min: i64, max: i64, weight: &str| {
        let annotations = json!({ SHARED_WEIGHT: weight });
        of("q", json!({}), annotations, json!({ "min": { "cpu": min }, "max": { "cpu": max } }))
    };
    check_create(&[], &of(0, -1, ""), "quota q has max -1 of cpu: write 0 or more");
    check_create(&[], &of(-1, 1, ""), "quota q has min -1 of cpu: write 0 or more");
    let weight = format!("quota q has {SHARED_WEIGHT} -1 of cpu: write 0 or more");
    check_create(&[], &of(0, 1, r#"{"cpu":-1}"#), &weight);
    check_update(&[of(0, 1, "")], &of(0, 1, r#"{"cpu":-1}"#), &weight);
    check_create(&[], &of(0, 0, r#"{"cpu":1}"#), "accepted");
}

#[test]
fn s12_w3_what_is_guaranteed_is_counted() {
    let spec = json!({ "min": { "gpu": 1 }, "max": { "cpu": 1 } });
    check_create(
        &[],
        &of("q", json!({}), json!({}), spec),
        "quota q has gpu in min and not in max: add it to max or take it out of min",
    );
}

#[test]
fn s12_w4_a_ceiling_is_not_below_what_is_used_where_that_matters() {
    let of = |strict: Value, max: Value, used: i64| {
        let annotations = json!({ MAX_STRICT_CHECK_RESOURCE_KEYS: strict.to_string() });
        let mut own = of("q", json!({}), annotations, json!({ "max": max }));
        own.status.used = serde_json::from_value(json!({ "memory": used })).unwrap();
        own
    };
    let strict = json!(["memory"]);
    let before = of(strict.clone(), json!({ "memory": 20_971_520 }), 10_485_760);
    let check = |strict: &Value, max: Value, expected: &str| {
        check_update(std::slice::from_ref(&before), &of(strict.clone(), max, 10_485_760), expected);
    };
    let refused = "quota q has max 1Mi < used 10Mi of memory: raise max or wait until less is used";
    check(&strict, json!({ "memory": 1_048_576 }), refused);
    check(&strict, json!({ "cpu": 1 }), &refused.replace("1Mi", "none"));
    check(&strict, json!({ "memory": 10_485_760 }), "accepted");
    check(&json!([]), json!({ "memory": 1_048_576 }), "accepted");
}

#[test]
fn s12_w5_guarantees_add_up_to_no_more_than_that_of_the_parent() {
    let refused = "quota child2 and those beside it have min 110 of cpu, and their parent p has 100: lower one or \
                   raise the parent's, or let it pass with quota.scheduling.koordinator.sh/allow-force-update";
    check_create(&family(), &quota("child2", "p", 50, 200), refused);
    check_create(&family(), &quota("child2", "p", 40, 200), "accepted");
    let forced = with(quota("child2", "p", 50, 200), ALLOW_FORCE_UPDATE_LABEL, "true");
    check_create(&family(), &forced, "accepted");
    // A change of one that is there counts once, and the parent cannot go below its children.
    check_update(&family(), &quota("child1", "p", 100, 200), "accepted");
    let quotas = [family().remove(1), family().remove(0)];
    check_update(
        &quotas,
        &parent(quota("p", "", 59, 200)),
        "quota p has min 59 of cpu, and those below it have 60: raise it or lower one of theirs, or let it pass \
         with quota.scheduling.koordinator.sh/allow-force-update",
    );
    check_update(&quotas, &parent(quota("p", "", 60, 200)), "accepted");
}

#[test]
fn s12_w6_a_quota_stays_in_its_tree() {
    let in_tree = |quota: ElasticQuota, id: &str| with(quota, TREE_ID_LABEL, id);
    let own = |id: &str| in_tree(quota("q", "", 1, 2), id);
    let refused =
        "quota q is of tree \"t1\" and cannot go to tree \"t2\": create another quota there";
    check_update(&[own("t1")], &own("t2"), refused);
    check_create(
        &[in_tree(parent(quota("p", "", 1, 2)), "t1")],
        &in_tree(quota("q", "p", 1, 2), "t2"),
        "quota q is of tree \"t2\", and quota p of tree \"t1\": name a parent of its own tree",
    );
}

#[test]
fn s12_w7_who_has_quotas_below_stays_and_stays_a_parent() {
    let quotas = [family().remove(1), family().remove(0)];
    check_update(
        &quotas,
        &quota("p", "", 100, 200),
        "quota p has the quota child1 below it: leave quota.scheduling.koordinator.sh/is-parent true or move \
         that first",
    );
    let refused = "quota p has the quota child1 below it: delete or move that first";
    check(&quotas, Change::Delete(&quotas[1]), refused);
    check(&quotas, Change::Delete(&quotas[0]), "accepted");
    let alone = [parent(quota("p", "", 100, 200))];
    check_update(&alone, &quota("p", "", 100, 200), "accepted");
}

#[test]
fn s12_w8_who_has_pods_stays_and_becomes_no_parent() {
    let old = quota("q", "", 1, 2);
    let new = parent(old.clone());
    let check = |change: Change<'_>, pods: Pods<'_>, expected: &str| {
        assert_eq!(answer(std::slice::from_ref(&old), change, pods, Keys::Same), expected);
    };
    let update = Change::Update { old: &old, new: &new };
    let of = |naming, of_namespaces| Pods { naming, of_namespaces };
    check(
        update,
        of(&["a/1", "a/2"], &["b/3"]),
        "quota q has pods (a/1, a/2, ...): leave quota.scheduling.koordinator.sh/is-parent false or move them \
         first",
    );
    check(
        update,
        of(&[], &["b/3"]),
        "quota q has pods (b/3): leave quota.scheduling.koordinator.sh/is-parent false or move them first",
    );
    check(update, of(&[], &[]), "accepted");
    let refused = "quota q has pods (a/1, a/2): delete them or let them name another first";
    check(Change::Delete(&old), of(&["a/1", "a/2"], &[]), refused);
    // Those that only live in its namespaces belong to another quota then.
    check(Change::Delete(&old), of(&[], &["b/3"]), "accepted");
}

#[test]
fn s12_w9_s12_w10_what_is_not_said_is_filled_in() {
    let check = |labels: Value, weight: Value, expected: Completion| {
        let annotations =
            if weight.is_null() { json!({}) } else { json!({ SHARED_WEIGHT: weight.to_string() }) };
        let spec = json!({ "max": { "cpu": 4, "memory": "8Gi" } });
        let org = with(parent(quota("org", "", 1, 2)), TREE_ID_LABEL, "t1");
        let tree = tree(Options::default(), &[org]);
        assert_eq!(complete(tree.register(), &of("q", labels, annotations, spec)), Ok(expected));
    };
    let list =
        |text: Value| -> Option<ResourceList> { Some(serde_json::from_value(text).unwrap()) };
    let whole = json!({ "cpu": 4, "memory": "8Gi" });
    let on_top = |shared_weight| Completion {
        parent: Some(ROOT_QUOTA.into()),
        tree_id: None,
        shared_weight,
    };
    check(json!({}), Value::Null, on_top(list(whole.clone())));
    check(
        json!({}),
        json!({ "cpu": 1, "foo": 2 }),
        on_top(list(json!({ "cpu": 1, "memory": "8Gi" }))),
    );
    check(json!({}), json!({ "cpu": 0, "memory": 0 }), on_top(list(whole.clone())));
    check(json!({}), whole.clone(), on_top(None));
    let below =
        |id: Option<&str>| Completion { tree_id: id.map(Box::from), ..Completion::default() };
    check(json!({ PARENT_LABEL: "org" }), whole.clone(), below(Some("t1")));
    check(json!({ PARENT_LABEL: "org", TREE_ID_LABEL: "t1" }), whole.clone(), below(None));
    check(json!({ PARENT_LABEL: ROOT_QUOTA }), whole, below(None));
}

#[test]
fn what_is_inherited_is_that_of_a_parent_that_is_there() {
    let tree = tree(Options::default(), &[]);
    let refusal = complete(tree.register(), &quota("q", "gone", 1, 2)).unwrap_err();
    let refused = "quota q names the parent gone, which does not exist: create it or name another";
    assert_eq!(refusal.to_string(), refused);
    let root = complete(tree.register(), &quota(ROOT_QUOTA, "", 1, 2));
    assert_eq!(root, Ok(Completion::default()));
}

#[test]
fn s12_w11_what_the_scheduler_writes_is_let_through() {
    let old = quota("q", "gone", 12, 10);
    let mut new = old.clone();
    new.status.used = new.spec.max.clone();
    new.metadata.annotations.insert(api::elastic_quota::RUNTIME.to_owned(), "{}".to_owned());
    check_update(std::slice::from_ref(&old), &new, "accepted");
    new.spec.min.clone_from(&new.spec.max);
    let refused = "quota q names the parent gone, which does not exist: create it or name another";
    check_update(&[old], &new, refused);
}

#[test]
fn a_name_and_a_namespace_are_one_quotas_own() {
    let lists = |name: &str| {
        of(name, json!({}), json!({ NAMESPACES: r#"["shop"]"# }), json!({ "max": { "cpu": 1 } }))
    };
    let refused = "quota q exists already, in namespace quotas: choose another name";
    check_create(&[lists("q")], &quota("q", "", 1, 2), refused);
    let refused = "quota r lists namespace shop, which is bound to quota q: list it once";
    check_create(&[lists("q")], &lists("r"), refused);
    check_update(&[lists("q"), quota("r", "", 1, 2)], &lists("r"), refused);
    check_update(&[quota("q", "", 1, 2)], &lists("q"), "accepted");
}

#[test]
fn what_the_scheduler_keeps_is_left_alone() {
    let check = |name: &str, is_updated: bool, is_deleted: bool| {
        let refused = format!("quota {name} belongs to the scheduler: leave it as it is");
        let said = |is_let: bool| if is_let { "accepted" } else { &refused };
        let old = quota(name, "", 1, 2);
        check_update(std::slice::from_ref(&old), &quota(name, "", 1, 3), said(is_updated));
        check(std::slice::from_ref(&old), Change::Delete(&old), said(is_deleted));
    };
    // It makes the root also where others were there before.
    check_create(&family(), &parent(quota(ROOT_QUOTA, "", 0, 0)), "accepted");
    check(ROOT_QUOTA, false, false);
    check(SYSTEM_QUOTA, false, false);
    check(DEFAULT_QUOTA, true, false);
    check("q", true, true);
}

#[test]
fn a_parent_is_there_is_one_and_is_not_below() {
    let leaf = quota("leaf", "", 1, 200);
    check_create(
        &[leaf],
        &quota("q", "leaf", 1, 200),
        "quota q names the parent leaf, which is not marked as one: set its label \
         quota.scheduling.koordinator.sh/is-parent to \"true\", or name another",
    );
    let quotas = [
        parent(quota("p", "", 100, 200)),
        parent(quota("c", "b", 1, 200)),
        parent(quota("b", "a", 1, 200)),
        parent(quota("a", "p", 1, 200)),
    ];
    let refused = "quota a names the parent c, which is below it: name one that is not";
    check_update(&quotas, &parent(quota("a", "c", 1, 200)), refused);
    let refused = "quota a names itself as its parent: name another";
    check_update(&quotas, &parent(quota("a", "a", 1, 200)), refused);
}

#[test]
fn ceilings_name_what_those_above_name() {
    let of = |min: Value, max: Value, parent: &str| {
        of("q", json!({ PARENT_LABEL: parent }), json!({}), json!({ "min": min, "max": max }))
    };
    let check = |own: &ElasticQuota, keys: Keys, expected: &str| {
        let above = json!({ "cpu": 9, "memory": 9 });
        let mut parent = parent(quota("p", "", 9, 9));
        parent.spec.max = serde_json::from_value(above).unwrap();
        assert_eq!(answer(&[parent], Change::Create(own), Pods::default(), keys), expected);
    };
    let both = json!({ "cpu": 1, "memory": 1 });
    let none = json!({});
    check(&of(none.clone(), both.clone(), "p"), Keys::Same, "accepted");
    let less = of(none.clone(), json!({ "cpu": 1 }), "p");
    let refused =
        "quota q and quota p do not both have memory in max: name it in both or in neither";
    check(&less, Keys::Same, refused);
    check(&less, Keys::Fewer, "accepted");
    let more = of(none.clone(), json!({ "cpu": 1, "memory": 1, "gpu": 1 }), "p");
    check(&more, Keys::Fewer, &refused.replace("memory", "gpu"));
    let guaranteed = of(json!({ "memory": 1 }), both, "p");
    let refused =
        "quota q has memory in min, and its parent p has not: add it there or take it out";
    check(&guaranteed, Keys::Same, refused);
    // A leaf right below the root goes together with everything.
    check(&of(none, json!({ "gpu": 1 }), ""), Keys::Same, "accepted");
}

#[test]
fn a_guarantee_is_there_when_it_is_given_where_nothing_is_taken_back() {
    let in_tree = |quota: ElasticQuota| with(quota, TREE_ID_LABEL, "t1");
    let root = with(in_tree(parent(quota("root", "", 100, 200))), IS_ROOT_LABEL, "true");
    let quotas = [root, in_tree(quota("a", "root", 40, 200)), in_tree(quota("b", "root", 40, 200))];
    let check = |used: i64, min: i64, guarantees_usage: bool, expected: &str| {
        let options = Options { guarantees_usage, ..Options::default() };
        let mut tree = tree(options, &quotas);
        let amounts = Amounts { cpu_millis: used * 1_000, ..Amounts::default() };
        tree.add_used("b", &amounts, 1, Preemptible::Yes);
        let new = in_tree(quota("a", "root", min, 200));
        let change = Change::Update { old: &quotas[1], new: &new };
        let said = judge(tree.view(), change, Pods::default(), Keys::Same);
        let said = said.map_or_else(|refusal| refusal.to_string(), |()| "accepted".to_owned());
        assert_eq!(said, expected);
    };
    check(50, 50, true, "accepted");
    // B uses more than its guarantee, and nobody takes it back.
    let refused = "quota a would bring what the tree root root has to guarantee of cpu to 101, and it can 100: lower \
                   min or wait until others use less";
    check(50, 51, true, refused);
    check(50, 51, false, "accepted");
    check(70, 41, true, &refused.replace("101", "111").replace("can 100", "can 110"));
    check(70, 39, true, "accepted");
}

#[test]
fn a_circle_of_others_ends_no_question() {
    let in_tree =
        |name: &str, above: &str| with(parent(quota(name, above, 10, 20)), TREE_ID_LABEL, "t1");
    let options = Options { guarantees_usage: true, ..Options::default() };
    let mut tree = tree(options, &[in_tree("x", "y"), in_tree("y", "x")]);
    let nothing = with(parent(quota("q", "x", 0, 20)), TREE_ID_LABEL, "t1");
    let said = judge(tree.view(), Change::Create(&nothing), Pods::default(), Keys::Same);
    assert_eq!(said, Ok(()));
}
