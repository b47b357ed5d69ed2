use proptest::prelude::*;
use serde_json::json;

use super::meta::*;
use super::*;

const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const KEY_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

#[test]
fn dns_names_are_judged_as_in_kubernetes() {
    let check = |rule: fn(&str) -> Vec<String>, value: &str, messages: &[&str]| {
        assert_eq!(rule(value), messages, "of {value:?}");
    };
    for good in ["a", "0", "a-b", "1a", &"a".repeat(63)] {
        check(dns1123_label, good, &[]);
    }
    check(dns1123_label, "", &[LABEL_RULE]);
    check(dns1123_label, "a.b", &["must not contain dots"]);
    check(dns1123_label, "A", &[LABEL_RULE]);
    check(dns1123_label, "-a", &[LABEL_RULE]);
    check(dns1123_label, "ä", &[LABEL_RULE]);
    check(dns1123_label, &"a".repeat(64), &["must be no more than 63 characters"]);
    check(dns1123_label, &"a.".repeat(40), &["must be no more than 63 characters", LABEL_RULE]);
    for good in ["a", "a.b", "1.2-3.c", &"a".repeat(253)] {
        check(dns1123_subdomain, good, &[]);
    }
    for bad in ["", ".", "a..b", "a.-b", "a_b", "a.b."] {
        check(dns1123_subdomain, bad, &[SUBDOMAIN_RULE]);
    }
    check(dns1123_subdomain, &"a".repeat(254), &["must be no more than 253 characters"]);
    check(dns1035_label, "a1", &[]);
    check(dns1035_label, "1a", &[LABEL_1035_RULE]);
    check(dns1035_label, "", &[LABEL_1035_RULE]);
    check(wildcard_dns1123_subdomain, "*.a.b", &[]);
    assert_eq!(wildcard_dns1123_subdomain("*").len(), 1);
}

#[test]
fn qualified_names_have_an_optional_prefix() {
    let check = |value: &str, messages: &[String]| {
        assert_eq!(qualified_name(value), messages, "of {value:?}");
    };
    for good in ["a", "A", "a.b_c-d", "x.y/z", "1/2", &format!("a.b/{}", "c".repeat(63))] {
        check(good, &[]);
    }
    let name_rule = format!("name part {KEY_RULE}");
    check("", &["name part must be non-empty".into(), name_rule.clone()]);
    check("-a", std::slice::from_ref(&name_rule));
    check("/a", &["prefix part must be non-empty".into()]);
    check("A/a", &[format!("prefix part {SUBDOMAIN_RULE}")]);
    check("a/", &["name part must be non-empty".into(), name_rule]);
    check(&"a".repeat(64), &["name part must be no more than 63 bytes".into()]);
    check(
        &format!("{}/a", "a".repeat(254)),
        &["prefix part must be no more than 253 bytes".into()],
    );
    check(
        "a/b/c",
        &[format!(
            "a valid label key {KEY_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )],
    );
}

#[test]
fn label_values_may_be_empty() {
    let check = |value: &str, messages: &[&str]| assert_eq!(label_value(value), messages);
    check("", &[]);
    check("a.B_c-1", &[]);
    check("-", &[VALUE_RULE]);
    check("a b", &[VALUE_RULE]);
    check(&"a".repeat(64), &["must be no more than 63 bytes"]);
}

#[test]
fn ports_keys_and_variables_have_their_rules() {
    let check = |rule: fn(&str) -> Vec<String>, value: &str, messages: &[&str]| {
        assert_eq!(rule(value), messages, "of {value:?}");
    };
    check(port_name, "http-1", &[]);
    check(
        port_name,
        "",
        &[
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            "must contain at least one letter (a-z)",
        ],
    );
    check(
        port_name,
        "-1--1234567890123-",
        &[
            "must be no more than 15 characters",
            "must contain at least one letter (a-z)",
            "must not contain consecutive hyphens",
            "must not begin or end with a hyphen",
        ],
    );
    check(config_map_key, "a.B_c-1", &[]);
    check(config_map_key, "..", &["must not be '..'"]);
    check(config_map_key, "..a", &["must not start with '..'"]);
    check(
        config_map_key,
        "a/b",
        &[
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        ],
    );
    check(
        env_var_name,
        "1a",
        &[
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')",
        ],
    );
    check(env_var_name, "A.b-c", &[]);
    check(relaxed_env_var_name, "1 a!", &[]);
    check(relaxed_env_var_name, "", &["environment variable name must be non-empty"]);
    check(
        relaxed_env_var_name,
        "a=b",
        &[
            "a valid environment variable name must consist only of printable ASCII characters other than '='",
        ],
    );
    check(c_identifier, "_a1", &[]);
    assert_eq!(c_identifier("1a").len(), 1);
    check(percent, "25%", &[]);
    assert_eq!(percent("%").len(), 1);
    check(http_header_name, "X-A", &[]);
    assert_eq!(http_header_name("a b").len(), 1);
    check(decimal_integer, "-12", &[]);
    for bad in ["-", "-0", "01", "+1", "1.0"] {
        check(decimal_integer, bad, &["must be a valid decimal integer in canonical form"]);
    }
    assert!(port_number(65535).is_empty());
    assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
}

#[test]
fn a_prefix_may_end_in_a_dash() {
    let check = |rule: NameRule, name: &str, used: NameUse, faults: usize| {
        assert_eq!(rule(name, used).len(), faults, "of {name:?}");
    };
    check(name_is_dns_label, "a-", NameUse::Prefix, 0);
    check(name_is_dns_label, "a-", NameUse::Whole, 1);
    check(name_is_dns_label, "-", NameUse::Prefix, 1);
    check(name_is_dns_label, "ä-", NameUse::Prefix, 1);
    check(name_is_dns_subdomain, "a.-", NameUse::Prefix, 0);
    check(name_is_dns1035_label, "1-", NameUse::Prefix, 0);
    check(name_is_dns1035_label, "12-", NameUse::Prefix, 1);
    check(name_is_path_segment, "..", NameUse::Prefix, 0);
    check(name_is_path_segment, "..", NameUse::Whole, 1);
    check(name_is_path_segment, "a/b%c", NameUse::Whole, 2);
    check(name_is_path_segment, "a:B c", NameUse::Whole, 0);
}

#[test]
fn a_generated_name_fits_a_label() {
    let check = |base: &str, name: &str| assert_eq!(generated_name(base, "bcdfg"), name);
    check("web-", "web-bcdfg");
    check(&"a".repeat(80), &format!("{}bcdfg", "a".repeat(58)));
    check(&"ä".repeat(40), &format!("{}bcdfg", "ä".repeat(29)));
}

#[test]
fn paths_and_keys_with_a_domain() {
    let path = Path::new("spec").child("signerName");
    let check = |errors: Errors, texts: &[&str]| {
        let ours: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(ours, texts);
    };
    check(domain_prefixed_path(&path, "acme.io/a/b:c"), &[]);
    check(domain_prefixed_path(&path, ""), &["spec.signerName: Required value"]);
    check(
        domain_prefixed_path(&path, "acme.io/"),
        &[
            "spec.signerName: Invalid value: \"acme.io/\": must be a domain-prefixed path (such as \"acme.io/foo\")",
        ],
    );
    check(
        domain_prefixed_path(&path, "acme.io/a b"),
        &[
            "spec.signerName: Invalid value: \"a b\": Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
        ],
    );
    check(
        domain_prefixed_key(&path, "foo"),
        &[
            "spec.signerName: Invalid value: \"foo\": must be a domain-prefixed key (such as \"acme.io/foo\")",
        ],
    );
}

fn texts(errors: &Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn labels_and_annotations_report_the_map() {
    let path = Path::new("metadata");
    let labels = json!({"-a": "b", "c": "d e", "f": 1});
    let errors = validate_labels(labels.as_object().unwrap(), &path.child("labels"));
    assert_eq!(
        texts(&errors),
        [
            format!("metadata.labels: Invalid value: \"-a\": name part {KEY_RULE}"),
            format!("metadata.labels: Invalid value: \"d e\": {VALUE_RULE}"),
            "metadata.labels[f]: Invalid value: 1: must be a string".to_owned(),
        ]
    );
    let at = path.child("annotations");
    let annotations = json!({"Example.COM/a": "any text\n", "": ""});
    let errors = validate_annotations(annotations.as_object().unwrap(), &at);
    assert_eq!(errors.len(), 2, "{errors:?}");
    let exact = json!({"a": "x".repeat(ANNOTATIONS_BYTES_MAX - 1)});
    assert_eq!(validate_annotations(exact.as_object().unwrap(), &at), []);
    let large = json!({"a": "x".repeat(ANNOTATIONS_BYTES_MAX)});
    assert_eq!(
        texts(&validate_annotations(large.as_object().unwrap(), &at)),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
}

#[test]
fn metadata_is_judged_on_creation() {
    let check = |meta: Value, scope: Scope, expected: &[&str]| {
        let meta = meta.as_object().unwrap().clone();
        let path = Path::new("metadata");
        let errors = validate_object_meta(&meta, scope, name_is_dns_subdomain, &path);
        assert_eq!(texts(&errors), expected);
    };
    check(json!({"name": "a", "namespace": "b"}), Scope::Namespaced, &[]);
    check(
        json!({}),
        Scope::Namespaced,
        &[
            "metadata.name: Required value: name or generateName is required",
            "metadata.namespace: Required value",
        ],
    );
    check(
        json!({"name": "a", "namespace": "b", "generation": -1}),
        Scope::Cluster,
        &[
            "metadata.namespace: Forbidden: not allowed on this type",
            "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
    check(
        json!({"name": "a", "ownerReferences": [
            {"apiVersion": "a/b/c", "controller": true},
            {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "1"},
        ]}),
        Scope::Cluster,
        &[
            "metadata.ownerReferences.apiVersion: Invalid value: \"a/b/c\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"e\",\"uid\":\"1\"}: /v1, Kind=Event is disallowed from being an owner",
        ],
    );
    check(
        json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}),
        Scope::Cluster,
        &[
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
        ],
    );
    check(
        json!({"name": "a", "managedFields": [{"operation": "Do", "fieldsType": "X", "manager": "a\u{7}b\u{200b}"}]}),
        Scope::Cluster,
        &[
            "metadata.managedFields[0].operation: Invalid value: \"Do\": must be `Apply` or `Update`",
            "metadata.managedFields[0].fieldsType: Invalid value: \"X\": must be `FieldsV1`",
            "metadata.managedFields[0].manager: Invalid value: \"a\\u{7}b\\u{200b}\": invalid character U+0007 (at position 1)",
            "metadata.managedFields[0].manager: Invalid value: \"a\\u{7}b\\u{200b}\": invalid character U+200B (at position 3)",
        ],
    );
}

#[test]
fn one_controller_owns_an_object() {
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u", "controller": true});
    let path = Path::new("metadata").child("ownerReferences");
    assert_eq!(validate_owner_references(&[owner("a")], &path), []);
    let errors = validate_owner_references(&[owner("a"), owner("b")], &path);
    assert_eq!(errors.len(), 1);
    assert_eq!(
        errors[0].detail,
        "Only one reference can have Controller set to true. Found \"true\" in references for Pod/a and Pod/b"
    );
}

#[test]
fn metadata_is_judged_on_update() {
    let check = |new: Value, old: Value, expected: &[&str]| {
        let (new, old) = (new.as_object().unwrap(), old.as_object().unwrap());
        let errors = validate_object_meta_update(new, old, &Path::new("metadata"));
        assert_eq!(texts(&errors), expected);
    };
    let old = json!({"name": "a", "resourceVersion": "1", "uid": "u", "generation": 2});
    check(old.clone(), old.clone(), &[]);
    check(
        json!({"name": "b", "uid": "u", "generation": 1, "deletionTimestamp": "2020-01-01T00:00:00Z"}),
        old,
        &[
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
            "metadata.generation: Invalid value: 1: must not be decremented",
            "metadata.name: Invalid value: \"b\": field is immutable",
            "metadata.deletionTimestamp: Invalid value: \"2020-01-01T00:00:00Z\": field is immutable",
        ],
    );
    let dying = json!({"resourceVersion": "1", "deletionTimestamp": "2020-01-01T00:00:00Z", "finalizers": ["a/b"]});
    let mut more = dying.clone();
    more["finalizers"] = json!(["a/d", "a/c"]);
    check(
        more,
        dying,
        &[
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a/c\", \"a/d\"}",
        ],
    );
}

#[test]
fn old_kinds_want_qualified_finalizers() {
    let path = Path::new("metadata").child("finalizers").index(0);
    assert_eq!(validate_kube_finalizer("a/b", &path), []);
    assert_eq!(validate_kube_finalizer("kubernetes", &path), []);
    assert_eq!(
        texts(&validate_kube_finalizer("mine", &path)),
        [
            "metadata.finalizers[0]: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully qualified"
        ]
    );
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        for rule in [name_is_dns_subdomain, name_is_dns_label, name_is_dns1035_label, name_is_path_segment] {
            let _ = (rule(&text, NameUse::Whole), rule(&text, NameUse::Prefix));
        }
        let _ = (qualified_name(&text), label_value(&text), port_name(&text), percent(&text));
        let _ = (config_map_key(&text), env_var_name(&text), decimal_integer(&text));
        let _ = (generated_name(&text, "bcdfg"), validate_field_manager(&text, &Path::root()));
        let _ = (domain_prefixed_path(&Path::root(), &text), domain_prefixed_key(&Path::root(), &text));
    }

    #[test]
    fn a_name_generated_from_a_good_prefix_is_good(base in "[a-z0-9][a-z0-9-]{0,70}") {
        let name = generated_name(&base, "bcdfg");
        prop_assert!(name.len() <= LABEL_MAX);
        prop_assert_eq!(dns1123_label(&name), Vec::<String>::new());
    }
}

#[test]
fn errors_about_owners_do_not_show_a_long_list_for_each_of_them() {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u",
        "controller": true});
    let check = |owners: usize, errors: usize| {
        let told = validate_owner_references(&vec![owner.clone(); owners], &Path::new("o"));
        assert_eq!(told.len(), errors, "{owners}");
    };
    check(3, 2);
    check(20_000, 1);
}
