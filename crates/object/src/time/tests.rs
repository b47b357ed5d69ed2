use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn a_time_reads_what_go_reads() {
    let check = |text: &str, expected: &str| {
        assert_eq!(text.parse::<Time>().unwrap().to_string(), expected, "of {text:?}");
    };
    check("2024-02-29T12:00:00Z", "2024-02-29T12:00:00Z");
    check("2024-02-29T12:00:00+01:30", "2024-02-29T10:30:00Z");
    check("2024-02-29T12:00:00-12:00", "2024-03-01T00:00:00Z");
    check("2024-02-29T12:00:00.999999999Z", "2024-02-29T12:00:00Z");
    check("2024-02-29T12:00:00,5Z", "2024-02-29T12:00:00Z");
    check("2024-02-29T1:00:00Z", "2024-02-29T01:00:00Z");
    check("2024-02-29T12:00:00+24:60", "2024-02-28T11:00:00Z");
    check("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z");
    check("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z");
    check("0000-01-01T00:00:00+01:00", "-0001-12-31T23:00:00Z");
}

#[test]
fn a_time_is_refused_with_the_words_of_go() {
    let layout = "as \"2006-01-02T15:04:05Z07:00\"";
    let check = |text: &str, expected: &str| {
        let error = text.parse::<Time>().unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check("", &format!("parsing time \"\" {layout}: cannot parse \"\" as \"2006\""));
    check(
        "2024-1-01T00:00:00Z",
        &format!(
            "parsing time \"2024-1-01T00:00:00Z\" {layout}: cannot parse \"1-01T00:00:00Z\" as \"01\""
        ),
    );
    check(
        "2024-01-01 00:00:00Z",
        &format!(
            "parsing time \"2024-01-01 00:00:00Z\" {layout}: cannot parse \" 00:00:00Z\" as \"T\""
        ),
    );
    check(
        "2024-01-01T00:00:00",
        &format!("parsing time \"2024-01-01T00:00:00\" {layout}: cannot parse \"\" as \"Z07:00\""),
    );
    check(
        "soon é",
        &format!(
            "parsing time \"soon \\xc3\\xa9\" {layout}: cannot parse \"soon \\xc3\\xa9\" as \"2006\""
        ),
    );
    check("2023-02-29T00:00:00Z", "parsing time \"2023-02-29T00:00:00Z\": day out of range");
    check("2023-13-01T00:00:00Z", "parsing time \"2023-13-01T00:00:00Z\": month out of range");
    check("2023-12-01T24:00:00Z", "parsing time \"2023-12-01T24:00:00Z\": hour out of range");
    check("2023-12-01T00:60:00Z", "parsing time \"2023-12-01T00:60:00Z\": minute out of range");
    check("2023-12-31T23:59:60Z", "parsing time \"2023-12-31T23:59:60Z\": second out of range");
    check(
        "2023-12-01T00:00:00+25:61",
        "parsing time \"2023-12-01T00:00:00+25:61\": time zone offset minute out of range",
    );
    check(
        "2023-12-01T00:00:00Zulu",
        "parsing time \"2023-12-01T00:00:00Zulu\": extra text: \"ulu\"",
    );
}

#[test]
fn a_micro_time_has_six_places() {
    let check = |text: &str, expected: Result<&str, &str>| {
        let ours = text.parse::<MicroTime>();
        let ours = ours.map(|time| time.to_string()).map_err(|error| error.to_string());
        assert_eq!(ours, expected.map(str::to_owned).map_err(str::to_owned));
    };
    check("2024-02-29T12:00:00.000001Z", Ok("2024-02-29T12:00:00.000001Z"));
    check("2024-02-29T12:00:00.500000+01:00", Ok("2024-02-29T11:00:00.500000Z"));
    check(
        "2024-02-29T12:00:00Z",
        Err(
            "parsing time \"2024-02-29T12:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\"",
        ),
    );
    check(
        "2024-02-29T12:00:00.0000001Z",
        Err(
            "parsing time \"2024-02-29T12:00:00.0000001Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"1Z\" as \"Z07:00\"",
        ),
    );
}

#[test]
fn json_times_are_texts_or_null() {
    let time: Time = serde_json::from_value(json!("2024-02-29T12:00:00Z")).unwrap();
    assert_eq!(serde_json::to_value(time).unwrap(), json!("2024-02-29T12:00:00Z"));
    let none: Time = serde_json::from_value(json!(null)).unwrap();
    assert!(none.is_zero());
    assert_eq!(serde_json::to_value(none).unwrap(), json!(null));
    let check = |json: serde_json::Value, kind: &str| {
        let error = serde_json::from_value::<MicroTime>(json).unwrap_err();
        let text = format!("json: cannot unmarshal {kind} into Go value of type string");
        assert_eq!(error.to_string(), text);
    };
    check(json!(1), "number");
    check(json!(1.5), "number");
    check(json!(true), "bool");
    check(json!({}), "object");
    check(json!([]), "array");
}

#[test]
fn an_instant_goes_there_and_back() {
    let instant: Timestamp = "2024-02-29T12:00:00.123456789Z".parse().unwrap();
    assert_eq!(Time::from(instant).to_string(), "2024-02-29T12:00:00Z");
    assert_eq!(MicroTime::from(instant).to_string(), "2024-02-29T12:00:00.123456Z");
    assert_eq!(Timestamp::from(Time::from(instant)).as_second(), instant.as_second());
    let last: Time = "9999-12-31T23:59:59Z".parse().unwrap();
    assert_eq!(last.timestamp(), Timestamp::MAX);
    let before: Timestamp = "1969-12-31T23:59:59.5Z".parse().unwrap();
    assert_eq!(Time::from(before).to_string(), "1969-12-31T23:59:59Z");
}

#[test]
fn durations_read_and_print_as_in_go() {
    let check = |text: &str, expected: Result<&str, &str>| {
        let ours = text.parse::<Duration>();
        let ours = ours.map(|d| d.to_string()).map_err(|error| error.to_string());
        assert_eq!(ours, expected.map(str::to_owned).map_err(str::to_owned), "of {text:?}");
    };
    check("0", Ok("0s"));
    check("-0", Ok("0s"));
    check("300ms", Ok("300ms"));
    check("1h30m", Ok("1h30m0s"));
    check("1.5h", Ok("1h30m0s"));
    check("90s", Ok("1m30s"));
    check("1h0.1s", Ok("1h0m0.1s"));
    check("1500us", Ok("1.5ms"));
    check("1500ns", Ok("1.5µs"));
    check("1μs", Ok("1µs"));
    check("-5m", Ok("-5m0s"));
    check(".5s", Ok("500ms"));
    check("5.s", Ok("5s"));
    check("2562047h47m16.854775807s", Ok("2562047h47m16.854775807s"));
    check("-9223372036854775808ns", Ok("-2562047h47m16.854775808s"));
    check("", Err("time: invalid duration \"\""));
    check("-", Err("time: invalid duration \"-\""));
    check(".s", Err("time: invalid duration \".s\""));
    check("5", Err("time: missing unit in duration \"5\""));
    check("5d", Err("time: unknown unit \"d\" in duration \"5d\""));
    check("9223372036854775808ns", Err("time: invalid duration \"9223372036854775808ns\""));
    check("1h -5m", Err("time: unknown unit \"h -\" in duration \"1h -5m\""));
    assert!(serde_json::from_value::<Duration>(json!(null)).is_err());
}

#[test]
fn ages_read_as_in_kubectl() {
    let (minute, hour, day) = (60, 3600, 86_400);
    let check = |seconds: i64, long: &str, short: &str| {
        assert_eq!(human_duration(seconds), long);
        assert_eq!(short_human_duration(seconds), short);
    };
    check(-2, "<invalid>", "<invalid>");
    check(-1, "0s", "0s");
    check(0, "0s", "0s");
    check(119, "119s", "1m");
    check(2 * minute, "2m", "2m");
    check(9 * minute + 59, "9m59s", "9m");
    check(10 * minute + 59, "10m", "10m");
    check(3 * hour - 1, "179m", "2h");
    check(3 * hour, "3h", "3h");
    check(8 * hour - 1, "7h59m", "7h");
    check(8 * hour, "8h", "8h");
    check(2 * day - 1, "47h", "1d");
    check(2 * day + hour, "2d1h", "2d");
    check(8 * day - 1, "7d23h", "7d");
    check(8 * day, "8d", "8d");
    check(2 * 365 * day - 1, "729d", "1y");
    check(2 * 365 * day, "2y", "2y");
    check(2 * 365 * day + day, "2y1d", "2y");
    check(8 * 365 * day, "8y", "8y");
    check(i64::MAX, "292471208677y", "292471208677y");
}

proptest! {
    #[test]
    fn no_text_panics(text in "[0-9TZ:.,+hmsnuµ-]{0,40}|\\PC{0,30}") {
        let _ = (text.parse::<Time>(), text.parse::<MicroTime>(), text.parse::<Duration>());
    }

    #[test]
    fn a_printed_time_reads_back(seconds in -62_135_596_800..253_402_200_000_i64, nanos in 0..1_000_000_000_i32) {
        let instant = Timestamp::new(seconds, 0).unwrap() + jiff::SignedDuration::from_nanos(nanos.into());
        let (time, micro) = (Time::from(instant), MicroTime::from(instant));
        prop_assert_eq!(time.to_string().parse::<Time>().unwrap(), time);
        prop_assert_eq!(micro.to_string().parse::<MicroTime>().unwrap(), micro);
        prop_assert_eq!(time.timestamp().as_second(), seconds);
    }

    #[test]
    fn a_printed_duration_reads_back(nanos in any::<i64>()) {
        let duration = Duration::from_nanos(nanos);
        prop_assert_eq!(duration.to_string().parse::<Duration>().unwrap(), duration);
    }
}
