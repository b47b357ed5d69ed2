use proptest::prelude::*;

use super::*;

#[test]
fn a_selector_prints_in_canonical_form() {
    let check = |text: &str, canonical: &str| {
        assert_eq!(text.parse::<Selector>().unwrap().to_string(), canonical, "of {text:?}");
    };
    check("", "");
    check(",", "");
    check("b=2,a==1", "a=1,b=2");
    check("a!=", "a!=");
    check("a=x\\,y\\=z\\\\", "a=x\\,y\\=z\\\\");
    check("=", "");
    check(" a = b ", " a = b ");
}

#[test]
fn a_bad_selector_is_refused_with_the_words_of_kubernetes() {
    let check = |text: &str, error: &str| {
        assert_eq!(text.parse::<Selector>().unwrap_err().to_string(), error, "of {text:?}");
    };
    check("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'");
    check("a>b", "invalid selector: 'a>b'; can't understand 'a>b'");
    check("a=b=c", "invalid field selector: unescaped character in value: 61");
    check("a=\\b", "invalid field selector: invalid escape sequence: \\b");
    check("a=\\", "invalid field selector: invalid escape sequence: \\");
}

#[test]
fn fields_match_each_requirement() {
    let lookup = |field: &str| match field {
        "metadata.name" => "a,b",
        "spec.nodeName" => "n1",
        _ => "",
    };
    let check = |text: &str, matches: bool| {
        assert_eq!(text.parse::<Selector>().unwrap().matches(lookup), matches, "of {text:?}");
    };
    check("", true);
    check("metadata.name=a\\,b", true);
    check("metadata.name=a", false);
    check("spec.nodeName!=n1", false);
    check("spec.nodeName!=,metadata.name!=c", true);
    check("status.phase=", true);
}

#[test]
fn an_exact_value_can_be_looked_up() {
    let selector: Selector = "metadata.name=a,spec.nodeName!=b".parse().unwrap();
    assert_eq!(selector.exact_match("metadata.name"), Some("a"));
    assert_eq!(selector.exact_match("spec.nodeName"), None);
    assert_eq!(selector.requirements().len(), 2);
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = text.parse::<Selector>();
    }

    #[test]
    fn any_value_survives_escaping(value in any::<String>()) {
        prop_assert_eq!(unescape_value(&escape_value(&value)).unwrap(), value.clone());
        let selector: Selector = format!("f={}", escape_value(&value)).parse().unwrap();
        prop_assert!(selector.matches(|_| &value));
    }
}
