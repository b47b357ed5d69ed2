use proptest::prelude::*;
use serde_json::json;

use super::*;

const KEY_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

#[test]
fn a_selector_prints_in_canonical_form() {
    let check = |text: &str, canonical: &str| {
        assert_eq!(text.parse::<Selector>().unwrap().to_string(), canonical, "of {text:?}");
    };
    check("", "");
    check("  ", "");
    check("a", "a");
    check("!a", "!a");
    check("b=2,a=1", "a=1,b=2");
    check("a==b", "a==b");
    check("a != b", "a!=b");
    check("a=", "a=");
    check("a in (y, x ,y)", "a in (x,y)");
    check("a in ()", "a in ()");
    check("a in (,)", "a in ()");
    check("a notin (x,,y)", "a notin (,x,y)");
    check("in in (in,notin)", "in in (in,notin)");
    check("notin", "notin");
    check("a>1,b<5", "a>1,b<5");
    check("x.y/z=1", "x.y/z=1");
    check("a=b,a=b", "a=b,a=b");
}

#[test]
fn a_bad_selector_is_refused_with_the_words_of_kubernetes() {
    let check = |text: &str, error: &str| {
        assert_eq!(text.parse::<Selector>().unwrap_err().to_string(), error, "of {text:?}");
    };
    let requirement = "unable to parse requirement: ";
    check(",", "found ',', expected: !, identifier, or 'end of string'");
    check("a,", "found '', expected: identifier after ','");
    check("a b", &format!("{requirement}found 'b', expected: in, notin, =, ==, !=, gt, lt"));
    check("a=b c", "found 'c', expected: ',' or 'end of string'");
    check("!a=b", "found '=', expected: ',' or 'end of string'");
    check("!", &format!("{requirement}found '', expected: identifier"));
    check("a=(", &format!("{requirement}found '(', expected: identifier"));
    check("a in b", &format!("{requirement}found 'b' expected: '('"));
    check("a in (", &format!("{requirement}found '', expected: ',', ')' or identifier"));
    check("a in (b", &format!("{requirement}found '', expected: ',' or ')'"));
    check("a in (,", &format!("{requirement}found '', expected: ',', or identifier"));
    check("a in (b=", &format!("{requirement}found '=', expected: ',' or ')'"));
    check("a===b", &format!("{requirement}found '=', expected: identifier"));
    check("-a", &format!("{requirement}<nil>: Invalid value: \"-a\": {KEY_RULE}"));
    check("a=-", &format!("{requirement}values[0][a]: Invalid value: \"-\": {VALUE_RULE}"));
    check(
        "a>b",
        &format!(
            "{requirement}values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"
        ),
    );
    check(
        "a>-x",
        &format!(
            "{requirement}[values[0]: Invalid value: \"-x\": for 'Gt', 'Lt' operators, the value must be an integer, values[0][a]: Invalid value: \"-x\": {VALUE_RULE}]"
        ),
    );
}

#[test]
fn labels_match_each_requirement() {
    let labels = json!({"tier": "db", "size": "5", "empty": "", "odd": 7});
    let check = |text: &str, matches: bool| {
        let selector: Selector = text.parse().unwrap();
        assert_eq!(selector.matches_labels(labels.as_object()), matches, "of {text:?}");
    };
    check("", true);
    check("tier", true);
    check("tier=db", true);
    check("tier==web", false);
    check("tier!=web", true);
    check("absent!=web", true);
    check("absent=", false);
    check("empty=", true);
    check("!tier", false);
    check("!absent", true);
    check("tier in (web,db)", true);
    check("absent in (web)", false);
    check("tier notin (web,db)", false);
    check("absent notin (web)", true);
    check("size>4,size<6", true);
    check("size>5", false);
    check("tier>1", false);
    check("absent<1", false);
    check("odd", false);
    check("tier=db,size=6", false);
    assert!(!Selector::nothing().matches_labels(labels.as_object()));
    assert!("!a".parse::<Selector>().unwrap().matches_labels(None));
}

#[test]
fn an_exact_value_can_be_looked_up() {
    let check = |text: &str, value: Option<&str>| {
        assert_eq!(text.parse::<Selector>().unwrap().exact_match("a"), value, "of {text:?}");
    };
    check("a=b", Some("b"));
    check("a in (b)", Some("b"));
    check("a in (b,c)", None);
    check("a!=b", None);
    check("b=a", None);
}

fn selector(json: Value) -> LabelSelector {
    serde_json::from_value(json).unwrap()
}

#[test]
fn the_form_of_objects_becomes_a_selector() {
    let check = |json: Value, expected: Result<&str, &str>| {
        let ours = selector(json).to_selector();
        let ours = ours.map(|s| s.to_string()).map_err(|error| error.to_string());
        assert_eq!(ours, expected.map(str::to_owned).map_err(str::to_owned));
    };
    check(json!({}), Ok(""));
    check(json!({"matchLabels": null, "matchExpressions": []}), Ok(""));
    check(
        json!({"matchLabels": {"b": "c"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["z", "y"]},
            {"key": "c", "operator": "DoesNotExist"},
        ]}),
        Ok("a in (y,z),b=c,!c"),
    );
    check(
        json!({"matchExpressions": [{"key": "a", "operator": "Like"}]}),
        Err("\"Like\" is not a valid label selector operator"),
    );
    check(
        json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
        Err("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"),
    );
    check(
        json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
        Err(
            "values: Invalid value: [\"b\"]: values set must be empty for exists and does not exist",
        ),
    );
}

#[test]
fn the_form_of_objects_is_validated_in_place() {
    let json = json!({
        "matchLabels": {"-": "ok"},
        "matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["b"]},
            {"key": "a", "operator": "Like", "values": ["-"]},
        ],
    });
    let errors = selector(json).validate(&Path::new("spec").child("selector"));
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            format!("spec.selector.matchLabels: Invalid value: \"-\": {KEY_RULE}"),
            "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'".into(),
            "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'".into(),
            "spec.selector.matchExpressions[2].operator: Invalid value: \"Like\": not a valid selector operator".into(),
            format!("spec.selector.matchExpressions[2].values[0]: Invalid value: \"-\": {VALUE_RULE}"),
        ]
    );
}

proptest! {
    #[test]
    fn no_text_panics(text in "[ab1 =!(),><in\\t\\x00-]{0,24}|\\PC{0,20}") {
        let _ = text.parse::<Selector>();
    }

    #[test]
    fn what_is_printed_means_the_same(text in "(!?[a-c]|[a-c](=|==|!=)[a-c]?|[a-c] (in|notin) \\([a-c,]{0,5}\\)|[a-c][<>][0-9])(,[a-c]=[a-c]){0,3}") {
        let selector: Selector = text.parse().unwrap();
        let again: Selector = selector.to_string().parse().unwrap();
        for value in ["", "a", "b", "5"] {
            let lookup = |key: &str| (key != "c").then_some(value);
            prop_assert_eq!(selector.matches(lookup), again.matches(lookup));
        }
        prop_assert_eq!(again.to_string(), selector.to_string());
    }
}

#[test]
fn of_many_faults_of_a_requirement_the_first_are_told() {
    let values: Vec<String> = (0..60_000).map(|at| format!("-{at}")).collect();
    let refused = Requirement::new("a", Operator::In, values, &Path::root()).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("only the first "), "{}", &text[..200]);
    assert!(text.len() < 2 * crate::field::ERRORS_BYTES_MAX, "{}", text.len());
}
