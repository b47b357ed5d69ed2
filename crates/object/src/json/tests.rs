use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(text: &[u8]) -> Result<Decoded, String> {
    decode(text, Limits::default()).map_err(|error| format!("{}: {error}", error.offset))
}

#[test]
fn a_value_is_read_as_go_reads_it() {
    let check = |text: &str, value: Value| {
        let decoded = read(text.as_bytes()).unwrap();
        assert_eq!(decoded.value, value, "{text}");
        assert_eq!(decoded.duplicates, Vec::<String>::new(), "{text}");
    };
    check(" null ", Value::Null);
    check("[true,false , {}]", json!([true, false, {}]));
    check("[]", json!([]));
    check(r#"{"a" : {"b":[1,[2]]} , "c":""}"#, json!({"a": {"b": [1, [2]]}, "c": ""}));
    check("9223372036854775807", json!(i64::MAX));
    check("9223372036854775808", json!(9.223_372_036_854_776e18));
    check("-9223372036854775808", json!(i64::MIN));
    check("-0", json!(0));
    check("1e3", json!(1000.0));
    check("1.0", json!(1.0));
    check(r#""\u0041\u00e9\ud83d\ude00\n\/""#, json!("Aé😀\n/"));
    check(r#""\ud83d""#, json!("\u{fffd}"));
    check(r#""\ud83dx\udc00""#, json!("\u{fffd}x\u{fffd}"));
    check(r#""\ud83d\u0041""#, json!("\u{fffd}A"));
}

#[test]
fn text_that_is_not_utf8_gets_one_replacement_per_byte() {
    let check = |bytes: &[u8], text: &str| assert_eq!(read(bytes).unwrap().value, json!(text));
    check(b"\"a\xffb\"", "a\u{fffd}b");
    check(b"\"\xe2\x82\"", "\u{fffd}\u{fffd}");
    check(b"\"\xed\xa0\x80\"", "\u{fffd}\u{fffd}\u{fffd}");
    check(b"\"\\n\xff\"", "\n\u{fffd}");
}

#[test]
fn a_malformed_document_is_refused_in_go_s_words() {
    let check = |text: &str, error: &str| {
        assert_eq!(read(text.as_bytes()).unwrap_err(), error, "{text}");
    };
    check("", "0: unexpected end of JSON input");
    check("{", "1: unexpected end of JSON input");
    check("[1", "2: unexpected end of JSON input");
    check("[1,", "3: unexpected end of JSON input");
    check(r#"{"a""#, "4: unexpected end of JSON input");
    check(r#""abc"#, "4: unexpected end of JSON input");
    check("x", "1: invalid character 'x' looking for beginning of value");
    check("[1,]", "4: invalid character ']' looking for beginning of value");
    check("{1}", "2: invalid character '1' looking for beginning of object key string");
    check(r#"{"a":1,}"#, "8: invalid character '}' looking for beginning of object key string");
    check(r#"{"a" 1}"#, "6: invalid character '1' after object key");
    check(r#"{"a":1 "b"}"#, "8: invalid character '\"' after object key:value pair");
    check("[1 2]", "4: invalid character '2' after array element");
    check("{} x", "4: invalid character 'x' after top-level value");
    check("01", "2: invalid character '1' after top-level value");
    check("-", "1: invalid character ' ' in numeric literal");
    check("1.", "2: invalid character ' ' after decimal point in numeric literal");
    check("1e+x", "4: invalid character 'x' in exponent of numeric literal");
    check("tru'", "4: invalid character '\\'' in literal true (expecting 'e')");
    check("nil", "2: invalid character 'i' in literal null (expecting 'u')");
    check("\"a\nb\"", "3: invalid character '\\n' in string literal");
    check(r#""\x""#, "3: invalid character 'x' in string escape code");
    check(r#""\u00g0""#, "6: invalid character 'g' in \\u hexadecimal character escape");
    check("é", "1: invalid character 'Ã' looking for beginning of value");
    check("[1e400]", "6: json: cannot unmarshal number 1e400 into Go value of type float64");
    check("[1e400", "6: unexpected end of JSON input");
}

#[test]
fn a_key_given_twice_is_named_once_and_its_last_value_holds() {
    let check = |text: &str, duplicates: &[&str], value: Value| {
        let decoded = read(text.as_bytes()).unwrap();
        assert_eq!(decoded.duplicates, duplicates, "{text}");
        assert_eq!(decoded.value, value, "{text}");
    };
    check(r#"{"a":1,"a":2,"a":3}"#, &["a"], json!({"a": 3}));
    check(r#"{"spec":{"x":1,"x":{}}}"#, &["spec.x"], json!({"spec": {"x": {}}}));
    check(r#"[{"op":1,"op":2}]"#, &["[0].op"], json!([{"op": 2}]));
    check(r#"{"a":[0,{"b":1,"b":2}],"a":[]}"#, &["a[1].b", "a"], json!({"a": []}));
    let decoded = read(br#"{"a\"":1,"a\"":2}"#).unwrap();
    assert_eq!(decoded.duplicate_errors().collect::<Vec<_>>(), [r#"duplicate field "a\"""#]);
    let many: Vec<String> = (0..150).map(|n| format!(r#""{n}":1,"{n}":2"#)).collect();
    let decoded = read(format!("{{{}}}", many.join(",")).as_bytes()).unwrap();
    assert_eq!(decoded.duplicates.len(), DUPLICATES_MAX);
}

#[test]
fn nesting_stops_at_the_bound_however_deep_the_document() {
    let nested = |open: &str, close: &str, depth: usize| {
        [open.repeat(depth), "1".to_owned(), close.repeat(depth)].concat()
    };
    let at_bound = read(nested("[", "]", DEPTH_MAX).as_bytes()).unwrap();
    assert_eq!(depth(&at_bound.value), DEPTH_MAX);
    let told = format!(
        "{}: exceeded max depth: lists and maps may nest at most 256 deep, flatten the document",
        DEPTH_MAX + 1
    );
    for depth in [DEPTH_MAX + 1, 1_000_000] {
        assert_eq!(read(nested("[", "]", depth).as_bytes()).unwrap_err(), told);
        assert!(read(nested("{\"a\":", "}", depth).as_bytes()).is_err());
    }
}

#[test]
fn a_value_is_written_as_go_writes_it() {
    let check = |value: Value, text: &str| {
        assert_eq!(String::from_utf8(encode(&value)).unwrap(), text);
    };
    check(json!({"b": [1, -2, null], "a": {"x": true}}), r#"{"a":{"x":true},"b":[1,-2,null]}"#);
    check(
        json!("a\"\\\n\r\t\u{8}\u{c}\u{1}<&>\u{7f}é\u{2028}x\u{2029}"),
        "\"a\\\"\\\\\\n\\r\\t\\b\\f\\u0001\\u003c\\u0026\\u003e\u{7f}é\\u2028x\\u2029\"",
    );
    check(json!(1000.0), "1000");
    check(json!(1e20), "100000000000000000000");
    check(json!(1e21), "1e+21");
    check(json!(-1.5e-7), "-1.5e-7");
    check(json!(0.00001), "0.00001");
    check(json!(-0.0), "-0");
}

#[test]
fn a_value_is_printed_as_go_prints_it() {
    let check = |value: Value, text: &str| assert_eq!(printed(&value), text);
    check(json!({"b": ["x", 1, null], "a": {}}), "map[a:map[] b:[x 1 <nil>]]");
    check(json!(1_000_000.0), "1e+06");
    check(json!(100_000.0), "100000");
    check(json!(123_456_789.0), "1.23456789e+08");
    check(json!(0.0001), "0.0001");
    check(json!(-5e-10), "-5e-10");
    assert_eq!(quoted("a\u{7}\u{7f}\u{ad}é\u{301}\\"), "\"a\\a\\x7f\\u00ad\u{e9}\u{301}\\\\\"");
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |float| float.is_finite()).prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(".{0,3}", inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// What a float without a fraction becomes when it is written and read again.
fn reread(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let text = String::from_utf8(encode(value)).unwrap();
            text.parse::<i64>().map_or_else(|_| value.clone(), Value::from)
        }
        Value::Array(items) => items.iter().map(reread).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, field)| (key.clone(), reread(field))).collect()
        }
        _ => value.clone(),
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(value in any_value()) {
        let decoded = decode(&encode(&value), Limits::default()).unwrap();
        prop_assert_eq!(decoded.value, reread(&value));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = decode(&bytes, Limits::default());
    }

    #[test]
    fn a_document_is_valid_here_exactly_when_it_is_valid_json(text in "[\\[\\]{}:,\"0-9eE.+\\-truefalsn\\\\u \n]{0,24}") {
        let ours = decode(text.as_bytes(), Limits::default());
        let theirs = serde_json::from_str::<Value>(&text);
        match (&ours, &theirs) {
            // serde_json refuses half of a surrogate pair, which Go replaces.
            (Ok(_), Err(_)) => prop_assert!(text.contains("\\u"), "{}", text),
            (Err(error), Ok(_)) => prop_assert!(false, "{text}: {error}"),
            _ => {}
        }
    }
}

/// The document without its repetitions.
fn flat(document: &Document) -> Value {
    match document {
        Document::Scalar(value) => value.clone(),
        Document::List(items) => items.iter().map(flat).collect(),
        Document::Map(fields) => {
            fields.iter().map(|(key, field)| (key.clone(), flat(field))).collect()
        }
    }
}

#[test]
fn a_document_keeps_the_order_and_the_repetition_of_keys() {
    let read = document(br#"{"b": 1, "a": [{}, null], "b": "x"}"#, Limits::default()).unwrap();
    let scalar = |value: Value| Document::Scalar(value);
    let expected = Document::Map(vec![
        ("b".to_owned(), scalar(1.into())),
        ("a".to_owned(), Document::List(vec![Document::Map(vec![]), scalar(Value::Null)])),
        ("b".to_owned(), scalar("x".into())),
    ]);
    assert_eq!(read, expected);
}

proptest! {
    #[test]
    fn a_document_says_what_the_decoder_says(bytes in "[\\[\\]{}:,\"ab0-9eE.+\\-truefalsn\\\\u ]{0,24}") {
        let read = document(bytes.as_bytes(), Limits::default());
        let decoded = decode(bytes.as_bytes(), Limits::default());
        match (read, decoded) {
            (Ok(document), Ok(decoded)) => prop_assert_eq!(flat(&document), decoded.value),
            (Err(_), Ok(_)) => prop_assert!(false, "{}", bytes),
            // A number out of range is told by the decoder alone.
            _ => {}
        }
    }
}
