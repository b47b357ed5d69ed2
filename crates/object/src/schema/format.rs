//! The formats that texts are checked against: those of the registry kube-apiserver
//! uses for CRDs, with its tolerances (an `ipv4` may have leading zeros, an empty
//! text is no `byte`).

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

/// A format that texts are checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextFormat {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("the pattern is a constant"));
        &*PATTERN
    }};
}

impl TextFormat {
    /// The format called `name`; dashes do not matter.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name.replace('-', "").as_str() {
            "bsonobjectid" => Self::BsonObjectId,
            "uri" => Self::Uri,
            "email" => Self::Email,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "mac" => Self::Mac,
            "uuid" => Self::Uuid,
            "uuid3" => Self::Uuid3,
            "uuid4" => Self::Uuid4,
            "uuid5" => Self::Uuid5,
            "isbn" => Self::Isbn,
            "isbn10" => Self::Isbn10,
            "isbn13" => Self::Isbn13,
            "creditcard" => Self::CreditCard,
            "ssn" => Self::Ssn,
            "hexcolor" => Self::HexColor,
            "rgbcolor" => Self::RgbColor,
            "byte" => Self::Byte,
            "password" => Self::Password,
            "date" => Self::Date,
            "duration" => Self::Duration,
            "datetime" => Self::DateTime,
            "k8sshortname" => Self::ShortName,
            "k8slongname" => Self::LongName,
            _ => return None,
        })
    }

    pub(super) fn accepts(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => pattern!("^[0-9a-fA-F]{24}$").is_match(text),
            Self::Uri => is_request_uri(text),
            Self::Email => is_email(text),
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => text.contains('.') && parse_ip(text).is_some(),
            Self::Ipv6 => text.contains(':') && parse_ip(text).is_some(),
            Self::Cidr => is_cidr(text),
            Self::Mac => is_mac(text),
            Self::Uuid => is_uuid(text, None, false),
            Self::Uuid3 => is_uuid(text, Some(b'3'), false),
            Self::Uuid4 => is_uuid(text, Some(b'4'), true),
            Self::Uuid5 => is_uuid(text, Some(b'5'), true),
            Self::Isbn => is_isbn10(text) || is_isbn13(text),
            Self::Isbn10 => is_isbn10(text),
            Self::Isbn13 => is_isbn13(text),
            Self::CreditCard => is_credit_card(text),
            Self::Ssn => {
                text.len() == 11 && pattern!(r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$").is_match(text)
            }
            Self::HexColor => pattern!("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").is_match(text),
            Self::RgbColor => is_rgb_color(text),
            Self::Byte => is_base64(text),
            Self::Password => true,
            Self::Date => is_date(text),
            Self::Duration => nanoseconds(text).is_some(),
            Self::DateTime => is_date_time(text),
            Self::ShortName => is_name(text, 63, false),
            Self::LongName => is_name(text, 253, true),
        }
    }
}

fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return false;
    }
    if !well_escaped(text) {
        return false;
    }
    text.starts_with('/')
        || pattern!("^[a-zA-Z][a-zA-Z0-9+.-]*:[^#]*").is_match(text)
            && !pattern!(r"^[a-zA-Z][a-zA-Z0-9+.-]*://[^/]*[ <>\\^`{|}]").is_match(text)
}

fn well_escaped(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%').all(|(at, _)| {
        bytes.get(at + 1).is_some_and(u8::is_ascii_hexdigit)
            && bytes.get(at + 2).is_some_and(u8::is_ascii_hexdigit)
    })
}

fn is_email(text: &str) -> bool {
    pattern!(concat!(
        r#"^\s*(?:[^<>@"]*<)?\s*"#,
        r#"(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x{80}-\x{10ffff}-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x{80}-\x{10ffff}-]+)*|"(?:[^"\\]|\\.)*")"#,
        r#"@(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x{80}-\x{10ffff}-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x{80}-\x{10ffff}-]+)*|\[[^\]]*\])"#,
        r#"\s*>?\s*$"#
    ))
    .is_match(text)
        && text.contains('<') == text.contains('>')
}

fn is_hostname(text: &str) -> bool {
    let shape = pattern!(concat!(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|",
        r"([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}",
        r"([a-zA-Z\p{L}]){2,63})$"
    ));
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && shape.is_match(text)
}

/// An address as Go read it before 1.17: octets may have leading zeros.
fn parse_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *octet = part
            .trim_start_matches('0')
            .parse()
            .or_else(|error| if part.bytes().all(|byte| byte == b'0') { Ok(0) } else { Err(error) })
            .ok()?;
    }
    parts.next().is_none().then_some(IpAddr::from(octets))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Some(address) = parse_ip(address) else { return false };
    let most = if address.is_ipv4() { 32 } else { 128 };
    !length.is_empty()
        && length.bytes().all(|byte| byte.is_ascii_digit())
        && length.parse::<u32>().is_ok_and(|length| length <= most)
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, width: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        parts
            .iter()
            .all(|part| part.len() == width && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then_some(parts.len() * width / 2)
    };
    [groups(':', 2), groups('-', 2), groups('.', 4)]
        .into_iter()
        .flatten()
        .any(|bytes| matches!(bytes, 6 | 8 | 20))
}

/// Thirty-two hexadecimal digits, with a dash or none after the 8th, 12th, 16th and
/// 20th; the digit that names the version and the variant are checked where asked.
fn is_uuid(text: &str, version: Option<u8>, variant: bool) -> bool {
    let mut digits = [0u8; 32];
    let mut count = 0;
    let mut dash_allowed = false;
    for byte in text.bytes() {
        if byte == b'-' && dash_allowed {
            dash_allowed = false;
            continue;
        }
        if !byte.is_ascii_hexdigit() || count == 32 {
            return false;
        }
        digits[count] = byte.to_ascii_lowercase();
        count += 1;
        dash_allowed = matches!(count, 8 | 12 | 16 | 20);
    }
    count == 32
        && version.is_none_or(|version| digits[12] == version)
        && (!variant || matches!(digits[16], b'8' | b'9' | b'a' | b'b'))
}

fn digits_of(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | ' ')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits_of(text);
    if !pattern!("^(?:[0-9]{9}X|[0-9]{10})$").is_match(&digits) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .zip(1u32..)
        .map(|(digit, weight)| weight * if digit == b'X' { 10 } else { u32::from(digit - b'0') })
        .sum();
    sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits_of(text);
    if !pattern!("^[0-9]{13}$").is_match(&digits) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .enumerate()
        .map(|(at, digit)| u32::from(digit - b'0') * if at % 2 == 0 { 1 } else { 3 })
        .sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let shape = pattern!(concat!(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01]",
        "[0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])",
        "[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})$"
    ));
    if !shape.is_match(&digits) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(at, digit)| {
            let digit = u32::from(digit - b'0') * if at % 2 == 0 { 1 } else { 2 };
            digit / 10 + digit % 10
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else {
        return false;
    };
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    parts.len() == 3
        && parts.iter().all(|part| {
            part.bytes().all(|byte| byte.is_ascii_digit())
                && (*part == "0" || !part.starts_with('0'))
                && part.parse::<u8>().is_ok()
        })
}

fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.is_empty() || !bytes.len().is_multiple_of(4) {
        return false;
    }
    let padding = bytes.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    bytes[..bytes.len() - padding]
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

fn is_date(text: &str) -> bool {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    shape && text.parse::<jiff::civil::Date>().is_ok()
}

/// The registry looks at the part before and after the first `t`; what follows a
/// second one is not looked at.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    if !is_date(date) {
        return false;
    }
    let shape = pattern!("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$");
    shape
        .captures(time)
        .is_some_and(|part| &part[1] <= "23" && &part[2] <= "59" && &part[3] <= "59")
}

fn is_name(text: &str, length_max: usize, dots: bool) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    text.len() <= length_max && if dots { text.split('.').all(label) } else { label(text) }
}

/// A duration in nanoseconds: Go's form, or the looser `3 days` that the registry
/// also reads.
pub(super) fn nanoseconds(text: &str) -> Option<i64> {
    go_nanoseconds(text).or_else(|| loose_nanoseconds(text))
}

fn go_nanoseconds(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        total = total.checked_add(scaled(number, scale)?)?;
        rest = after;
    }
    i64::try_from(total * sign).ok()
}

fn scaled(number: &str, scale: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.into() };
    let mut value = whole * scale;
    let mut step = scale;
    for digit in fraction.bytes() {
        step /= 10;
        value += i128::from(digit - b'0') * step;
    }
    Some(value)
}

fn loose_nanoseconds(text: &str) -> Option<i64> {
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], 1_000_000_000),
        (&["m", "min"], 60_000_000_000),
        (&["h", "hr", "hour"], 3_600_000_000_000),
        (&["d", "day"], 86_400_000_000_000),
        (&["w", "wk", "week"], 604_800_000_000_000),
    ];
    let mut total = None;
    for part in pattern!(r"([0-9]+)\s*([A-Za-zµ]+)").captures_iter(text) {
        let factor: i64 = part[1].parse().ok()?;
        let unit = part[2].to_lowercase();
        for (names, scale) in UNITS {
            let (last, exact) = names.split_last()?;
            if exact.contains(&unit.as_str()) || unit.starts_with(last) {
                let sum: i64 = total.unwrap_or(0);
                total = Some(sum.wrapping_add(factor.wrapping_mul(scale)));
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: &str, accepted: &[&str], refused: &[&str]) {
        let format = TextFormat::named(format).unwrap();
        for text in accepted {
            assert!(format.accepts(text), "{format:?} refuses {text:?}");
        }
        for text in refused {
            assert!(!format.accepts(text), "{format:?} accepts {text:?}");
        }
    }

    #[test]
    fn a_text_is_checked_against_its_format() {
        check(
            "date-time",
            &["2024-01-02T03:04:05Z", "2024-01-02t03:04:05.5+01:00"],
            &["2024-01-02", "2024-13-02T03:04:05Z", "2024-01-02T24:04:05Z"],
        );
        check("date", &["2024-02-29"], &["2023-02-29", "2024-2-9", ""]);
        check(
            "duration",
            &["1h30m", "1.5s", "-3ms", "0", "22 ns", "3 days"],
            &["", "1", "x", "1y"],
        );
        check("ipv4", &["1.2.3.4", "010.000.0.1"], &["1.2.3", "1.2.3.256", "::1", "1.2.3.4.5"]);
        check("ipv6", &["::1", "fe80::1"], &["1.2.3.4", "fe80::g"]);
        check("cidr", &["10.0.0.0/8", "fe80::/10"], &["10.0.0.0", "10.0.0.0/33"]);
        check(
            "mac",
            &["01:23:45:67:89:ab", "0123.4567.89ab"],
            &["01:23:45:67:89", "g1:23:45:67:89:ab"],
        );
        check(
            "uuid",
            &["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
            &["123e4567", "123e4567--e89b-12d3-a456-42661417400"],
        );
        check(
            "uuid4",
            &["123e4567-e89b-42d3-a456-426614174000"],
            &["123e4567-e89b-12d3-a456-426614174000"],
        );
        check("byte", &["aGk=", "aGVs"], &["", "a", "a==="]);
        check("hostname", &["example.com", "a-b.example.org"], &["-a", "exa_mple.com", ""]);
        check("email", &["a@b.example"], &["a", "@b", "a@"]);
        check("uri", &["https://example.com/x", "/path"], &["", "example", "%zz"]);
        check("isbn", &["0321751043", "978-0321751041"], &["0321751044", "x"]);
        check("hexcolor", &["#fff", "FFFFFF"], &["#ff"]);
        check("rgbcolor", &["rgb(1, 2,255)"], &["rgb(1,2,256)", "rgb(1,2)", "rgb(01,2,3)"]);
        check("k8s-short-name", &["a-b"], &["a.b", "-a", "A"]);
        check("k8s-long-name", &["a.b-c"], &["a..b"]);
        assert_eq!(TextFormat::named("int32"), None);
    }
}
