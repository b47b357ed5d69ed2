//! Times and durations as Kubernetes writes them.
//!
//! [`Time`] has whole seconds, [`MicroTime`] six decimal places, both in UTC.
//! They read what Go's `time.Parse` reads and refuse what it refuses, with its words.
//! What time it is now is for the caller to say.
//!
//! ```
//! use object::time::{Time, human_duration};
//! let time: Time = "2024-02-29T13:00:00+01:00".parse()?;
//! assert_eq!(time.to_string(), "2024-02-29T12:00:00Z");
//! assert_eq!(human_duration(3 * 3600 + 60), "3h1m");
//! # Ok::<(), object::time::TimeError>(())
//! ```

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{DateTime, date};
use jiff::tz::Offset;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod duration;
mod rfc3339;

#[cfg(test)]
mod tests;

pub use duration::{Duration, DurationError, human_duration, short_human_duration};

/// Why a text is no time, in the words of Go's `time.Parse`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TimeError(String);

/// Go's zero time, which stands for none: it is written as `null`.
const ZERO: DateTime = date(1, 1, 1).at(0, 0, 0, 0);

macro_rules! utc_time {
    ($name:ident, $layout:expr, $truncate:expr) => {
        impl $name {
            /// No time; `null` in JSON.
            pub const ZERO: Self = Self(ZERO);

            /// Whether this is no time.
            #[must_use]
            pub fn is_zero(self) -> bool {
                self.0 == ZERO
            }

            /// The instant. The last two days of the year 9999 are beyond what an
            /// instant can be and give the last one that can.
            #[must_use]
            pub fn timestamp(self) -> Timestamp {
                Offset::UTC.to_timestamp(self.0).unwrap_or(Timestamp::MAX)
            }

            fn truncated(time: DateTime) -> Self {
                let nanos = time.subsec_nanosecond();
                let kept = nanos - nanos % $truncate;
                Self(date(time.year(), time.month(), time.day()).at(
                    time.hour(),
                    time.minute(),
                    time.second(),
                    kept,
                ))
            }
        }

        impl From<Timestamp> for $name {
            fn from(instant: Timestamp) -> Self {
                Self::truncated(Offset::UTC.to_datetime(instant))
            }
        }

        impl From<$name> for Timestamp {
            fn from(time: $name) -> Self {
                time.timestamp()
            }
        }

        impl FromStr for $name {
            type Err = TimeError;

            fn from_str(text: &str) -> Result<Self, TimeError> {
                rfc3339::parse(text, $layout).map(Self::truncated)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::ZERO
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if self.is_zero() {
                    return serializer.serialize_unit();
                }
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                match deserializer.deserialize_any(TextVisitor)? {
                    Some(text) => text.parse().map_err(serde::de::Error::custom),
                    None => Ok(Self::ZERO),
                }
            }
        }
    };
}

/// A time in whole seconds, such as `2024-02-29T12:00:00Z`: `metav1.Time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(DateTime);

utc_time!(Time, rfc3339::Layout::Seconds, 1_000_000_000);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_seconds(f, self.0)?;
        f.write_str("Z")
    }
}

/// A time in microseconds, such as `2024-02-29T12:00:00.000000Z`: `metav1.MicroTime`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MicroTime(DateTime);

utc_time!(MicroTime, rfc3339::Layout::Micros, 1_000);

impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_seconds(f, self.0)?;
        write!(f, ".{:06}Z", self.0.subsec_nanosecond() / 1_000)
    }
}

fn write_seconds(f: &mut fmt::Formatter<'_>, t: DateTime) -> fmt::Result {
    // Go writes a year before 1 as a sign and four digits.
    let sign = if t.year() < 0 { "-" } else { "" };
    write!(f, "{sign}{:04}-{:02}-{:02}", t.year().unsigned_abs(), t.month(), t.day())?;
    write!(f, "T{:02}:{:02}:{:02}", t.hour(), t.minute(), t.second())
}

/// Reads a text or `null`, and names anything else as Go's JSON decoder does.
pub(crate) struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(text.to_owned()))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<Self::Value, E> {
        Err(wrong("bool"))
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<Self::Value, E> {
        Err(wrong("number"))
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<Self::Value, E> {
        Err(wrong("number"))
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Self::Value, E> {
        Err(wrong("number"))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(wrong("array"))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(wrong("object"))
    }
}

fn wrong<E: serde::de::Error>(kind: &str) -> E {
    E::custom(format_args!("json: cannot unmarshal {kind} into Go value of type string"))
}

/// A text as Go's `time` package quotes it in errors: byte by byte.
fn quoted(text: &[u8]) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for byte in text {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            b' '..=0x7f => quoted.push(char::from(*byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}
