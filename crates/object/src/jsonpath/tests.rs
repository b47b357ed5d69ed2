use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::json::{Limits, decode};

/// Templates whose results upstream's library computed (client-go 0.35.4).
fn check_cases(text: &str) {
    let file = decode(text.as_bytes(), Limits::default()).unwrap().value;
    let mut wrong = 0;
    for case in file["cases"].as_array().unwrap() {
        let document = &file["documents"][case["document"].as_u64().unwrap() as usize];
        let missing = if case["skip"] == true { Missing::Skip } else { Missing::Refuse };
        let template = case["template"].as_str().unwrap();
        let ours =
            JsonPath::template(template).map_err(|error| (true, error.to_string())).and_then(
                |path| path.render(document, missing).map_err(|error| (false, error.to_string())),
            );
        let truth = match case["error"].as_str() {
            Some(error) => Err((case["parse"] == true, error.to_owned())),
            None => Ok(case["text"].as_str().unwrap().to_owned()),
        };
        if ours != truth {
            wrong += 1;
            println!("{case}\nours:  {ours:?}\ntruth: {truth:?}\n");
        }
    }
    assert_eq!(wrong, 0, "templates that differ from upstream");
}

#[test]
fn templates_give_what_upstream_gives() {
    check_cases(include_str!("cases.json"));
}

#[test]
fn a_path_that_multiplies_is_stopped() {
    let nested = (0..40).fold(json!(1), |value, _| json!([value]));
    for path in ["[0,0]".repeat(40), "..[*]".repeat(20)] {
        let path = JsonPath::column(&path).unwrap();
        assert_eq!(path.find(&nested, Missing::Skip), Err(EvalError::TooMuch));
    }
}

#[test]
fn a_path_finds_values_in_place() {
    let document = json!({"a": [{"b": 1, "c.d": "x"}, {"b": 2}, {"b": 3}], "n": null});
    let check = |path: &str, found: &[Value]| {
        let path = JsonPath::column(path).unwrap();
        let values = path.find(&document, Missing::Skip).unwrap();
        assert_eq!(values, found.iter().collect::<Vec<_>>());
    };
    check(".a[0].b", &[json!(1)]);
    check(".a[-1].b", &[json!(3)]);
    check(".a[*].b", &[json!(1), json!(2), json!(3)]);
    check(".a[0:3:2].b", &[json!(1), json!(3)]);
    check(".a[0,2].b", &[json!(1), json!(3)]);
    check(".a[?(@.b>=2)].b", &[json!(2), json!(3)]);
    check(".a[0]['c\\.d']", &[json!("x")]);
    check("..b", &[json!(1), json!(2), json!(3)]);
    check(".n", &[Value::Null]);
    check(".n.deeper", &[]);
    check(".gone", &[]);
}

#[test]
fn a_simple_path_begins_with_a_dot() {
    let check = |path: &str, told: Result<(), &str>| {
        assert_eq!(
            check_simple(path).map_err(|error| error.to_string()),
            told.map_err(str::to_owned)
        );
    };
    check(".spec.replicas", Ok(()));
    check(".", Ok(()));
    check("", Err("must not be empty"));
    check("spec", Err("must be a simple json path starting with ."));
}

#[test]
fn a_simple_path_gets_and_sets() {
    let path = SimplePath::parse(".status.a.b").unwrap();
    assert_eq!(path.fields(), ["status", "a", "b"]);
    let mut object = json!({});
    assert_eq!(path.get(&object), None);
    assert!(path.set(&mut object, json!(1)));
    assert_eq!(object, json!({"status": {"a": {"b": 1}}}));
    assert_eq!(path.get(&object), Some(&json!(1)));
    let mut blocked = json!({"status": 1});
    assert!(!path.set(&mut blocked, json!(1)));
    assert_eq!(blocked, json!({"status": 1}));
}

proptest! {
    #[test]
    fn no_template_panics(template in ".{0,40}") {
        play(&template);
    }

    #[test]
    fn no_near_miss_panics(template in r#"\{[@$.\[\]?()*:,'"\\{}<>=! a-c0-9é-]{0,30}\}?"#) {
        play(&template);
    }
}

fn play(template: &str) {
    let document = json!({"a": [1, {"b": [2, "text"]}, null], "b": {"a": 0.5, "c": "é"}});
    let Ok(path) = JsonPath::template(template) else { return };
    for missing in [Missing::Skip, Missing::Refuse] {
        let _ = path.render(&document, missing);
        let _ = path.find(&document, missing);
    }
}
