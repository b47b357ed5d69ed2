//! Durations as Go writes them, and ages as kubectl shows them.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{TextVisitor, quoted};

const SECOND: u64 = 1_000_000_000;
/// One more than the nanoseconds that `i64` holds.
const LIMIT: u64 = 1 << 63;

/// A length of time in nanoseconds, written as `1h30m0s`: `metav1.Duration`.
///
/// ```
/// use object::time::Duration;
/// let duration: Duration = "1.5h".parse()?;
/// assert_eq!(duration.to_string(), "1h30m0s");
/// # Ok::<(), object::time::DurationError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(i64);

impl Duration {
    /// So many nanoseconds.
    #[must_use]
    pub fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// So many seconds, within the 292 years that a duration can have.
    #[must_use]
    pub fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// The nanoseconds.
    #[must_use]
    pub fn as_nanos(self) -> i64 {
        self.0
    }

    /// The whole seconds, cut towards zero.
    #[must_use]
    pub fn as_secs(self) -> i64 {
        self.0 / 1_000_000_000
    }
}

impl From<Duration> for SignedDuration {
    fn from(duration: Duration) -> Self {
        Self::from_nanos(duration.0)
    }
}

/// Why a text is no duration, in the words of Go's `time.ParseDuration`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("time: {what} {}", quoted(text.as_bytes()))]
pub struct DurationError {
    what: String,
    text: String,
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let refuse = |what: String| DurationError { what, text: text.to_owned() };
        let invalid = || refuse("invalid duration".to_owned());
        let negative = text.starts_with('-');
        let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (nanos, after) = part(rest).map_err(|fault| match fault {
                PartFault::Invalid => invalid(),
                PartFault::NoUnit => refuse("missing unit in duration".to_owned()),
                PartFault::Unit(unit) => {
                    refuse(format!("unknown unit {} in duration", quoted(unit.as_bytes())))
                }
            })?;
            // Twice the limit wraps to zero, in Go as here.
            total = total.wrapping_add(nanos);
            if total > LIMIT {
                return Err(invalid());
            }
            rest = after;
        }
        if negative {
            return Ok(Self((total as i64).wrapping_neg()));
        }
        i64::try_from(total).map(Self).map_err(|_| invalid())
    }
}

enum PartFault<'a> {
    Invalid,
    NoUnit,
    Unit(&'a str),
}

/// The nanoseconds of one number with its unit, and what follows.
fn part(text: &str) -> Result<(u64, &str), PartFault<'_>> {
    let (whole, rest) = split_digits(text);
    let number = whole.bytes().try_fold(0_u64, |number, byte| {
        let number = number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
        (number <= LIMIT).then_some(number)
    });
    let number = number.ok_or(PartFault::Invalid)?;
    let (places, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && places.is_empty() {
        return Err(PartFault::Invalid);
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let nanos = match unit {
        "" => return Err(PartFault::NoUnit),
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        _ => return Err(PartFault::Unit(unit)),
    };
    if number > LIMIT / nanos {
        return Err(PartFault::Invalid);
    }
    let (fraction, scale) = fraction(places);
    // The float is Go's, and so are its roundings.
    let below = (fraction as f64 * (nanos as f64 / scale)) as u64;
    let total = number * nanos + below;
    if total > LIMIT { Err(PartFault::Invalid) } else { Ok((total, rest)) }
}

/// The decimal places as an integer and the power of ten it is divided by; places
/// that would overflow do not count.
fn fraction(places: &str) -> (u64, f64) {
    let (mut fraction, mut scale) = (0_u64, 1.0);
    for byte in places.bytes() {
        if fraction > (LIMIT - 1) / 10 {
            break;
        }
        let next = fraction * 10 + u64::from(byte - b'0');
        if next > LIMIT {
            break;
        }
        fraction = next;
        scale *= 10.0;
    }
    (fraction, scale)
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write!(f, "{}µs", decimal(nanos, 1_000)),
            1_000_000..SECOND => write!(f, "{}ms", decimal(nanos, 1_000_000)),
            _ => {
                let minutes = nanos / SECOND / 60;
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                write!(f, "{}s", decimal(nanos % (60 * SECOND), SECOND))
            }
        }
    }
}

/// `nanos / unit` with as many decimal places as it needs.
fn decimal(nanos: u64, unit: u64) -> String {
    let (whole, below) = (nanos / unit, nanos % unit);
    if below == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let places = format!("{below:0width$}");
    format!("{whole}.{}", places.trim_end_matches('0'))
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Go reads `null` as the empty text, which is no duration.
        let text = deserializer.deserialize_any(TextVisitor)?.unwrap_or_default();
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The age of something as kubectl's AGE column shows it: two or three significant
/// figures.
#[must_use]
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    // `large` and, unless it is nothing, the next smaller unit.
    let pair = |large: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => pair(days, 'd', hours % 24, 'h'),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => pair(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

/// The age of something in one unit.
#[must_use]
pub fn short_human_duration(seconds: i64) -> String {
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        86_400..31_536_000 => format!("{}d", seconds / 86_400),
        _ => format!("{}y", seconds / 31_536_000),
    }
}
