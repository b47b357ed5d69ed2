use proptest::prelude::*;

use super::*;

fn taint(text: &str) -> Taint {
    text.parse().unwrap()
}

/// `key operator value effect seconds`, with `-` for what is not there.
fn toleration(text: &str) -> Toleration {
    let words: Vec<&str> = text.split(' ').map(|word| word.trim_matches('-')).collect();
    let word = |index: usize| Some(words.get(index)?.to_string()).filter(|word| !word.is_empty());
    Toleration {
        key: word(0).unwrap_or_default(),
        operator: word(1).map(TolerationOperator::from),
        value: word(2).unwrap_or_default(),
        effect: word(3).map(Effect::from),
        toleration_seconds: word(4).map(|seconds| seconds.parse().unwrap()),
    }
}

#[test]
fn a_toleration_bears_what_it_names() {
    let check = |tolerated: &str, marked: &str, expected: bool| {
        let bears = toleration(tolerated).tolerates(&taint(marked));
        assert_eq!(bears, expected, "{tolerated:?} of {marked:?}");
    };
    check("- Exists", "a=b:NoSchedule", true);
    check("a Exists", "a=b:NoSchedule", true);
    check("a Exists", "c=b:NoSchedule", false);
    check("a Equal b", "a=b:NoSchedule", true);
    check("a - b", "a=b:NoSchedule", true);
    check("a Equal c", "a=b:NoSchedule", false);
    check("a Equal b NoExecute", "a=b:NoSchedule", false);
    check("a Equal b NoSchedule", "a=b:NoSchedule", true);
    check("a -", "a:NoSchedule", true);
    check("a Lt 5", "a=4:NoSchedule", false);
    check("a Gt 5", "a=6:NoSchedule", false);
    check("a Like b", "a=b:NoSchedule", false);
}

#[test]
fn the_first_taint_that_counts_is_named() {
    let taints = [taint("a:PreferNoSchedule"), taint("b:NoSchedule"), taint("c:NoExecute")];
    let hard = [Effect::NoSchedule, Effect::NoExecute];
    let first = |tolerations: &[Toleration]| {
        untolerated(&taints, tolerations, &hard).map(ToString::to_string)
    };
    assert_eq!(first(&[]).as_deref(), Some("b:NoSchedule"));
    assert_eq!(first(&[toleration("b Exists")]).as_deref(), Some("c:NoExecute"));
    assert_eq!(first(&[toleration("- Exists")]), None);
}

#[test]
fn a_pod_stays_as_long_as_its_shortest_toleration() {
    let taints = [taint("a:NoExecute"), taint("b:NoExecute"), taint("c:NoSchedule")];
    let check = |tolerations: &[&str], expected: Stay| {
        let tolerations: Vec<Toleration> = tolerations.iter().map(|t| toleration(t)).collect();
        assert_eq!(stay(&taints, &tolerations), expected, "{tolerations:?}");
    };
    check(&[], Stay::None);
    check(&["a Exists"], Stay::None);
    check(&["- Exists"], Stay::Forever);
    check(&["a Exists - NoExecute 30", "b Exists - NoExecute 10"], Stay::Seconds(10));
    check(&["a Exists - NoExecute 30", "b Exists"], Stay::Seconds(30));
    check(&["a Exists - NoExecute 0", "b Exists"], Stay::None);
    assert_eq!(stay(&[taint("c:NoSchedule")], &[]), Stay::Forever);
}

#[test]
fn taints_are_added_and_removed_by_key_and_effect() {
    let mut taints = vec![taint("a=1:NoSchedule")];
    assert!(!add_or_update(&mut taints, taint("a=1:NoSchedule")));
    assert!(add_or_update(&mut taints, taint("a=2:NoSchedule")));
    assert!(add_or_update(&mut taints, taint("a=2:NoExecute")));
    let old = vec![taint("a=9:NoExecute"), taint("z:NoExecute")];
    let (added, gone) = difference(&taints, &old);
    assert_eq!((added, gone), (vec![&taint("a=2:NoSchedule")], vec![&taint("z:NoExecute")]));
    assert!(remove(&mut taints, &taint("a:NoSchedule")));
    assert!(!remove(&mut taints, &taint("a:NoSchedule")));
    assert_eq!(taints, [taint("a=2:NoExecute")]);
    assert!(remove_key(&mut taints, "a") && !remove_key(&mut taints, "a"));
}

#[test]
fn merged_tolerations_lose_what_another_covers() {
    let check = |first: &[&str], second: &[&str], expected: &[&str]| {
        let read = |list: &[&str]| list.iter().map(|t| toleration(t)).collect::<Vec<_>>();
        assert_eq!(merge_tolerations(&read(first), &read(second)), read(expected));
    };
    check(&["a Equal b"], &["a Equal b"], &["a Equal b"]);
    check(&["a Equal b"], &["a Exists"], &["a Exists"]);
    check(&["- Exists"], &["a Exists"], &["- Exists"]);
    check(&["a Equal b"], &["a Equal c"], &["a Equal b", "a Equal c"]);
    check(&["a Exists - NoExecute 10"], &["a Exists - NoExecute 20"], &["a Exists - NoExecute 20"]);
    check(&["a Exists - NoSchedule"], &["a Exists"], &["a Exists"]);
}

#[test]
fn a_taint_is_a_text_too() {
    let check = |text: &str, expected: Result<&str, &str>| {
        let ours = text.parse::<Taint>();
        let ours = ours.map(|taint| taint.to_string()).map_err(|error| error.to_string());
        assert_eq!(ours, expected.map(str::to_owned).map_err(str::to_owned));
    };
    check("a=b:NoSchedule", Ok("a=b:NoSchedule"));
    check("a=:NoExecute", Ok("a:NoExecute"));
    check("x.y/a:PreferNoSchedule", Ok("x.y/a:PreferNoSchedule"));
    check("a", Ok("a"));
    check("a:b:c", Err("invalid taint spec: a:b:c"));
    check("a=b=c:NoSchedule", Err("invalid taint spec: a=b=c:NoSchedule"));
    check("a:Never", Err("invalid taint effect: Never, unsupported taint effect"));
    assert!(matches!("=b:NoSchedule".parse::<Taint>(), Err(TaintError::Part { .. })));
    assert!(matches!("a=b".parse::<Taint>(), Err(TaintError::Part { .. })));
}

fn texts(errors: &Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn bad_taints_are_refused() {
    let mut taints = vec![taint("a=1:NoSchedule"), taint("a=2:NoSchedule"), taint("b")];
    taints.push(Taint {
        key: "c".into(),
        effect: Some(Effect::from("Never".to_owned())),
        ..Taint::default()
    });
    taints.push(taint("a:NoExecute"));
    assert_eq!(
        texts(&validate_taints(&taints, &Path::new("metadata").child("taints"))),
        [
            "metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"2\",\"Effect\":\"NoSchedule\",\"TimeAdded\":null}: taints must be unique by key and effect pair",
            "metadata.taints[2].effect: Required value",
            "metadata.taints[3].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
        ]
    );
}

#[test]
fn bad_tolerations_are_refused() {
    let check = |text: &str, expected: &[&str]| {
        let errors =
            validate_tolerations(&[toleration(text)], &Path::new("spec").child("tolerations"));
        assert_eq!(texts(&errors), expected, "of {text:?}");
    };
    check("a Equal b NoExecute 5", &[]);
    check("- Exists", &[]);
    check(
        "- Equal b",
        &[
            "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        ],
    );
    check(
        "a Exists b",
        &[
            "spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
        ],
    );
    check(
        "a Exists - NoSchedule 5",
        &[
            "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        ],
    );
    check(
        "a Lt 5",
        &[
            "spec.tolerations[0].operator: Unsupported value: \"Lt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"",
        ],
    );
    check(
        "a Like b Never",
        &[
            "spec.tolerations[0].operator: Unsupported value: \"Like\": supported values: \"Equal\", \"Exists\"",
            "spec.tolerations[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
        ],
    );
}

#[test]
fn json_leaves_out_what_is_empty() {
    let read: Toleration = serde_json::from_value(
        json!({"key": "a", "operator": "", "effect": "", "tolerationSeconds": 5}),
    )
    .unwrap();
    assert_eq!((&read.operator, &read.effect), (&None, &None));
    assert_eq!(serde_json::to_value(read).unwrap(), json!({"key": "a", "tolerationSeconds": 5}));
    let read: Taint = serde_json::from_value(
        json!({"key": "a", "effect": "NoExecute", "timeAdded": "2024-01-01T00:00:00Z"}),
    )
    .unwrap();
    assert_eq!(
        serde_json::to_value(read).unwrap(),
        json!({"key": "a", "effect": "NoExecute", "timeAdded": "2024-01-01T00:00:00Z"})
    );
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = text.parse::<Taint>();
    }

    #[test]
    fn what_covers_another_bears_what_it_bears(
        wide in "(a|b|-) (Exists|Equal) (x|y|-) (NoSchedule|NoExecute|-)",
        narrow in "(a|b|-) (Exists|Equal) (x|y|-) (NoSchedule|NoExecute|-)",
        marked in "(a|b)=(x|y):(NoSchedule|NoExecute)",
    ) {
        let (wide, narrow, marked) = (toleration(&wide), toleration(&narrow), taint(&marked));
        if wide.covers(&narrow) && narrow.tolerates(&marked) {
            prop_assert!(wide.tolerates(&marked));
        }
    }
}
