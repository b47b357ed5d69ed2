//! The text format 0.0.4, which Kubernetes' programs serve their metrics in.
//!
//! It is made of the OpenMetrics text of this process, which says the same in other words: there a
//! counter's family is named without `_total`, and numbers are not written as Go writes them. A
//! bucket's bound is part of its name, so `le="1.0"` is another series than `le="1"`.

use std::fmt::Write as _;

/// The same metrics in the text format 0.0.4. Nobody here has exemplars or timestamps.
pub(super) fn plain(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if let Some(told) = line.strip_prefix("# HELP ") {
            // The name that it has here is known with its type.
            help = told.split_once(' ').map(|(_, words)| words);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|typed| typed.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "stateset" => ("", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            if let Some(words) = help.take() {
                let _ = writeln!(text, "# HELP {name}{suffix} {words}");
            }
            let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            sample(&mut text, line);
        }
    }
    text
}

fn sample(text: &mut String, line: &str) {
    let Some((series, value)) = line.rsplit_once(' ') else { return };
    let bucket = series.split_once("_bucket{le=\"").filter(|(name, _)| !name.contains('{'));
    match bucket.and_then(|(name, rest)| Some((name, rest.split_once('"')?))) {
        Some((name, (bound, rest))) => {
            let _ = write!(text, "{name}_bucket{{le=\"{}\"{rest}", number(bound));
        }
        None => text.push_str(series),
    }
    let _ = writeln!(text, " {}", number(value));
}

/// A number as Go writes it; one that is whole stays as it is.
fn number(text: &str) -> String {
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<f64>() {
        Ok(number) if !is_whole => go_float(number),
        _ => text.to_owned(),
    }
}

/// A number as `strconv.FormatFloat(number, 'g', -1, 64)` writes it.
fn go_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let shortest = format!("{number:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        let check = |text: &str, expected: &str| assert_eq!(number(text), expected, "{text}");
        check("1.0", "1");
        check("0.0", "0");
        check("64.0", "64");
        check("0.005", "0.005");
        check("16.384", "16.384");
        check("0.0001", "0.0001");
        check("0.00001", "1e-05");
        check("1.5000000000000002e-5", "1.5000000000000002e-05");
        check("100000.0", "100000");
        check("1000000.0", "1e+06");
        check("1234567.5", "1.2345675e+06");
        check("-2.5", "-2.5");
        check("1e100", "1e+100");
        check("+Inf", "+Inf");
        check("inf", "+Inf");
        check("-inf", "-Inf");
        check("NaN", "NaN");
        // What is counted one by one keeps all its digits.
        check("18446744073709551615", "18446744073709551615");
    }

    #[test]
    fn names_types_and_bounds_are_those_of_the_older_format() {
        let open = "# HELP a_attempts Attempts.\n# TYPE a_attempts counter\n\
            a_attempts_total{result=\"a \\\"b\\\" 1.0\"} 3\n\
            # HELP b_seconds How long.\n# TYPE b_seconds histogram\n# UNIT b_seconds seconds\n\
            b_seconds_sum{x=\"y\"} 2.0\nb_seconds_count{x=\"y\"} 2\n\
            b_seconds_bucket{le=\"1.0\",x=\"_bucket{le=\"} 1\n\
            b_seconds_bucket{le=\"+Inf\",x=\"y\"} 2\n\
            # HELP c Size.\n# TYPE c gauge\nc 0.5\n# EOF\n";
        let expected = "# HELP a_attempts_total Attempts.\n# TYPE a_attempts_total counter\n\
            a_attempts_total{result=\"a \\\"b\\\" 1.0\"} 3\n\
            # HELP b_seconds How long.\n# TYPE b_seconds histogram\n\
            b_seconds_sum{x=\"y\"} 2\nb_seconds_count{x=\"y\"} 2\n\
            b_seconds_bucket{le=\"1\",x=\"_bucket{le=\"} 1\n\
            b_seconds_bucket{le=\"+Inf\",x=\"y\"} 2\n\
            # HELP c Size.\n# TYPE c gauge\nc 0.5\n";
        assert_eq!(plain(open), expected);
        assert_eq!(plain("# EOF\n"), "");
    }
}
