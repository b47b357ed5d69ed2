use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What the Go implementation says of each text: canonical form and three integers,
/// or the error.
const CASES: &str = include_str!("cases.tsv");
/// What the Go implementation computes from two quantities.
const ARITHMETIC: &str = include_str!("arithmetic.tsv");

#[test]
fn a_text_reads_as_in_kubernetes() {
    let check = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let ours = match columns[0].parse::<Quantity>() {
            Ok(q) => format!("{q}\t{}\t{}\t{}", q.value(), q.milli_value(), q.scaled_value(-9)),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(ours, columns[1..].join("\t"), "of {:?}", columns[0]);
    };
    assert!(CASES.lines().count() > 300);
    CASES.lines().skip(1).for_each(check);
}

#[test]
fn arithmetic_is_as_in_kubernetes() {
    let check = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let (left, right) = (quantity(columns[0]), quantity(columns[2]));
        let result = match columns[1] {
            "+" => left.checked_add(&right).unwrap(),
            "-" => left.checked_sub(&right).unwrap(),
            "*" => left.checked_mul(right.value()).unwrap(),
            "r" => left.rounded_up(i32::try_from(right.value()).unwrap()),
            "n" => -left,
            "c" => {
                assert_eq!((left.cmp(&right) as i32).to_string(), columns[3], "of {line:?}");
                return;
            }
            other => panic!("unknown operation {other}"),
        };
        let ours = format!("{result}\t{}\t{}", result.value(), result.milli_value());
        assert_eq!(ours, columns[3..].join("\t"), "of {line:?}");
    };
    assert!(ARITHMETIC.lines().count() > 200);
    ARITHMETIC.lines().skip(1).for_each(check);
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

#[test]
fn the_empty_text_is_refused_by_its_shape() {
    assert_eq!("".parse::<Quantity>().unwrap_err(), ParseError::Format);
}

#[test]
fn json_is_a_text_and_reads_from_numbers_too() {
    let check = |json: serde_json::Value, text: &str| {
        let read: Quantity = serde_json::from_value(json).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), json!(text));
    };
    check(json!("1.5Gi"), "1536Mi");
    check(json!(" 100m\n"), "100m");
    check(json!(2), "2");
    check(json!(-2000), "-2k");
    check(json!(u64::MAX), "18446744073709551615");
    check(json!(0.25), "250m");
    check(json!(null), "0");
    let error = serde_json::from_value::<Quantity>(json!("lots")).unwrap_err();
    assert_eq!(error.to_string(), format!("\"lots\": {}", ParseError::Format));
    assert!(serde_json::from_value::<Quantity>(json!(true)).is_err());
}

#[test]
fn constructors_keep_their_format() {
    let check = |quantity: Quantity, text: &str| assert_eq!(quantity.to_string(), text);
    check(Quantity::from_units(2048, Format::BinarySi), "2Ki");
    check(Quantity::from_units(2048, Format::DecimalSi), "2048");
    check(Quantity::from_units(2000, Format::DecimalExponent), "2e3");
    check(Quantity::from_millis(1500, Format::DecimalSi), "1500m");
    check(Quantity::from_millis(2_048_000, Format::BinarySi), "2Ki");
    check(Quantity::from_millis(2_048_001, Format::BinarySi), "2048001m");
    check(Quantity::from_scaled(12, 6, Format::DecimalSi), "12M");
    check(Quantity::ZERO, "0");
}

#[test]
fn an_integer_out_of_range_is_told_apart() {
    let check = |text: &str, scale: i32, value: Option<i64>| {
        assert_eq!(quantity(text).checked_scaled_value(scale), value, "{text}");
    };
    check("9223372036854775807", 0, Some(i64::MAX));
    check("-9223372036854775808", 0, Some(i64::MIN));
    check("9223372036854775808", 0, None);
    check("9E", -3, None);
    check("1500m", 0, Some(2));
    check("-1500m", 0, Some(-2));
    check("1e2000000000", 0, None);
    check("0e2000000000", 0, Some(0));
}

#[test]
fn absurd_exponents_cost_nothing() {
    let huge = quantity("12345678901234567890e2000000000");
    let tiny = quantity("1e-2000000000");
    assert_eq!(huge.to_string(), "1234567890123456789e2000000001");
    assert_eq!(tiny.to_string(), "1e-9");
    assert!(huge > tiny && -huge.clone() < tiny);
    assert!(huge.checked_add(&tiny).is_none());
    assert_eq!(huge.checked_sub(&huge), Some(Quantity::ZERO));
    let digits = "9".repeat(100_000);
    assert_eq!(quantity(&digits).to_string(), digits);
}

#[test]
fn the_least_integer_negates_exactly() {
    let least = Quantity::from_units(i64::MIN, Format::DecimalSi);
    assert_eq!((-least.clone()).to_string(), "9223372036854775808");
    assert_eq!(least.checked_sub(&least), Some(Quantity::ZERO));
}

/// Texts that look like quantities, most of them valid.
fn quantity_text() -> impl Strategy<Value = String> {
    "[+-]?[0-9]{1,22}(\\.[0-9]{0,12})?(|n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,2})"
}

proptest! {
    #[test]
    fn what_is_plain_is_read_as_anything_is(
        text in "[+-]?[0-9]{0,19}[.]?(|n|m|k|M|Ki|Mi|Gi|Ti|e3)|[1-9][0-9]{0,2}(000)?(|m|Ki|Mi|Gi)",
    ) {
        let told = |read| format!("{read:?}");
        prop_assert_eq!(told(text.parse::<Quantity>()), told(parse::any(&text)));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(quantity) = text.parse::<Quantity>() {
            let _ = (quantity.to_string(), quantity.value(), quantity.milli_value());
        }
    }

    #[test]
    fn no_near_miss_panics(text in "[+-.0-9eEinumkKMGTP]{0,24}") {
        if let Ok(quantity) = text.parse::<Quantity>() {
            let _ = (quantity.to_string(), quantity.value(), quantity.milli_value());
            let _ = (quantity.checked_scaled_value(i32::MIN), quantity.scaled_value(i32::MAX));
            let _ = quantity.checked_add(&quantity).map(|sum| sum.to_string());
        }
    }

    #[test]
    fn what_is_printed_prints_the_same_again(text in quantity_text()) {
        let once = quantity(&text).to_string();
        prop_assert_eq!(quantity(&once).to_string(), once);
    }

    #[test]
    fn order_is_that_of_the_numbers(a in any::<i64>(), b in any::<i64>(), s in -9..9_i32, t in -9..9_i32) {
        let exact = |value: i64, scale: i32| i128::from(value) * 10_i128.pow((scale + 9) as u32);
        let (left, right) = (
            Quantity::from_scaled(a, s, Format::DecimalSi),
            Quantity::from_scaled(b, t, Format::BinarySi),
        );
        prop_assert_eq!(left.cmp(&right), exact(a, s).cmp(&exact(b, t)));
        let sum = left.checked_add(&right).unwrap();
        let text = (exact(a, s) + exact(b, t)).to_string() + "e-9";
        prop_assert_eq!(sum, quantity(&text));
    }

    #[test]
    fn subtraction_undoes_addition(a in quantity_text(), b in quantity_text()) {
        let (left, right) = (quantity(&a), quantity(&b));
        let sum = left.checked_add(&right).unwrap();
        prop_assert_eq!(&sum, &right.checked_add(&left).unwrap());
        prop_assert_eq!(sum.checked_sub(&right).unwrap(), left);
    }
}
