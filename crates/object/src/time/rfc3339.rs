//! Reading RFC 3339 as Go's `time.Parse` does: an hour of one digit, a comma before
//! the fraction and an offset of 24 hours are accepted, a leap second is not.

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time};

use super::{TimeError, quoted};

/// Which of Go's layouts a text follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Seconds, with a fraction of any length accepted.
    Seconds,
    /// Exactly six decimal places.
    Micros,
}

impl Layout {
    fn text(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// Where the reading stands.
struct Reader<'a> {
    layout: Layout,
    whole: &'a str,
    rest: &'a [u8],
}

pub(super) fn parse(text: &str, layout: Layout) -> Result<DateTime, TimeError> {
    let mut reader = Reader { layout, whole: text, rest: text.as_bytes() };
    let year = reader.year()?;
    reader.literal(b'-')?;
    let month = reader.number("01", Digits::Two, 1..=12, "month")?;
    reader.literal(b'-')?;
    // Judged at the end, when the rest is known to be good.
    let day = reader.number("02", Digits::Two, 0..=99, "")?;
    reader.literal(b'T')?;
    let hour = reader.number("15", Digits::OneOrTwo, 0..=23, "hour")?;
    reader.literal(b':')?;
    let minute = reader.number("04", Digits::Two, 0..=59, "minute")?;
    reader.literal(b':')?;
    let second = reader.number("05", Digits::Two, 0..=59, "second")?;
    let nanos = match layout {
        Layout::Seconds => reader.fraction(),
        Layout::Micros => reader.micros()?,
    };
    let offset_seconds = reader.zone()?;
    if !reader.rest.is_empty() {
        return Err(reader.refusal(&format!(": extra text: {}", quoted(reader.rest))));
    }
    let Ok(date) = Date::new(year, month, day) else {
        return Err(reader.refusal(": day out of range"));
    };
    let time = Time::new(hour, minute, second, nanos)
        .map_err(|_| reader.refusal(": time out of range"))?;
    // Go goes on into the year 10000, which no reader of RFC 3339 would take.
    let offset = SignedDuration::from_secs(offset_seconds);
    date.to_datetime(time).checked_sub(offset).map_err(|_| reader.refusal(": year out of range"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Digits {
    OneOrTwo,
    Two,
}

impl Reader<'_> {
    fn refusal(&self, message: &str) -> TimeError {
        TimeError(format!("parsing time {}{message}", quoted(self.whole.as_bytes())))
    }

    fn mismatch(&self, element: &str) -> TimeError {
        self.refusal(&format!(
            " as {}: cannot parse {} as {}",
            quoted(self.layout.text().as_bytes()),
            quoted(self.rest),
            quoted(element.as_bytes()),
        ))
    }

    fn out_of_range(&self, what: &str) -> TimeError {
        self.refusal(&format!(": {what} out of range"))
    }

    fn literal(&mut self, byte: u8) -> Result<(), TimeError> {
        match self.rest {
            [first, rest @ ..] if *first == byte => {
                self.rest = rest;
                Ok(())
            }
            _ => Err(self.mismatch(char::from(byte).encode_utf8(&mut [0; 4]))),
        }
    }

    fn year(&mut self) -> Result<i16, TimeError> {
        match self.rest {
            [a, b, c, d, rest @ ..] if [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()) => {
                self.rest = rest;
                Ok([a, b, c, d].iter().fold(0, |year, byte| year * 10 + i16::from(*byte - b'0')))
            }
            _ => Err(self.mismatch("2006")),
        }
    }

    fn number(
        &mut self,
        element: &str,
        digits: Digits,
        range: std::ops::RangeInclusive<i8>,
        what: &str,
    ) -> Result<i8, TimeError> {
        let (number, rest) = match self.rest {
            [a @ b'0'..=b'9', b @ b'0'..=b'9', rest @ ..] => ((a - b'0') * 10 + (b - b'0'), rest),
            [a @ b'0'..=b'9', rest @ ..] if digits == Digits::OneOrTwo => (a - b'0', rest),
            _ => return Err(self.mismatch(element)),
        };
        self.rest = rest;
        let number = number as i8;
        if !range.contains(&number) {
            return Err(self.out_of_range(what));
        }
        Ok(number)
    }

    /// A fraction of any length, where there is one; beyond nanoseconds it is cut.
    fn fraction(&mut self) -> i32 {
        let [b'.' | b',', digits @ ..] = self.rest else { return 0 };
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length > 0 {
            self.rest = &digits[length..];
        }
        let places = digits[..length].iter().copied().chain(std::iter::repeat(b'0')).take(9);
        places.fold(0, |nanos, byte| nanos * 10 + i32::from(byte - b'0'))
    }

    /// Exactly six places. The first may be a sign, because Go reads an integer here.
    fn micros(&mut self) -> Result<i32, TimeError> {
        let [b'.' | b',', places @ ..] = self.rest else {
            return Err(self.mismatch(".000000"));
        };
        let Some((places, rest)) = places.split_at_checked(6) else {
            return Err(self.mismatch(".000000"));
        };
        let text = std::str::from_utf8(places).ok();
        let Some(number) = text.and_then(|text| text.parse::<i32>().ok()) else {
            return Err(self.mismatch(".000000"));
        };
        if number < 0 {
            return Err(self.out_of_range("fractional second"));
        }
        self.rest = rest;
        // A sign takes a place, and the scale counts places.
        Ok(number * 1_000)
    }

    /// Seconds east of UTC.
    fn zone(&mut self) -> Result<i64, TimeError> {
        if let [b'Z', rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(0);
        }
        let [sign, h1, h2, b':', m1, m2, rest @ ..] = self.rest else {
            return Err(self.mismatch("Z07:00"));
        };
        let number = |a: u8, b: u8| {
            let digits = a.is_ascii_digit() && b.is_ascii_digit();
            digits.then(|| i64::from(a - b'0') * 10 + i64::from(b - b'0'))
        };
        let (hours, minutes) = (number(*h1, *h2), number(*m1, *m2));
        if hours.is_some() && minutes > Some(60) {
            return Err(self.out_of_range("time zone offset minute"));
        }
        if hours > Some(24) {
            return Err(self.out_of_range("time zone offset hour"));
        }
        let (Some(hours), Some(minutes), b'+' | b'-') = (hours, minutes, sign) else {
            return Err(self.mismatch("Z07:00"));
        };
        self.rest = rest;
        let seconds = (hours * 60 + minutes) * 60;
        Ok(if *sign == b'-' { -seconds } else { seconds })
    }
}
