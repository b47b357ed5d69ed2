//! From text to [`Quantity`], with the shortcuts and the roundings of Kubernetes.

use std::borrow::Cow;
use std::str::FromStr;

use super::amount::{Amount, Dec};
use super::decimal::Decimal;
use super::{Format, Quantity};

/// The decimal digits that always fit `i64`.
const INT_DIGITS_MAX: usize = 18;
/// The finest power of ten a parsed quantity keeps.
const NANO: i32 = -9;

/// Why a text is no quantity. The texts are kube-apiserver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text does not look like a number and a suffix.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// There is no number before the suffix.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is not one of the known ones.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl FromStr for Quantity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match plain(text) {
            Some(quantity) => Ok(quantity),
            None => any(text),
        }
    }
}

/// What almost every text is: a whole number without leading zeros, and a usual suffix or none. It is
/// canonical, or upstream does not keep it either.
fn plain(text: &str) -> Option<Quantity> {
    let bytes = text.as_bytes();
    let count = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, suffix) = bytes.split_at(count);
    let (most, scale, format, bits) = match suffix {
        b"" => (INT_DIGITS_MAX, 0, Format::DecimalSi, 0),
        b"m" => (INT_DIGITS_MAX, -3, Format::DecimalSi, 0),
        b"Ki" => (11, 0, Format::BinarySi, 10),
        b"Mi" => (8, 0, Format::BinarySi, 20),
        b"Gi" => (5, 0, Format::BinarySi, 30),
        _ => return None,
    };
    if count > most || matches!(digits.first(), None | Some(b'0')) {
        return None;
    }
    let number = digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    Some(Quantity::from_scaled(number << bits, scale, format))
}

/// Any text.
pub(super) fn any(text: &str) -> Result<Quantity, ParseError> {
    if text.is_empty() {
        return Err(ParseError::Format);
    }
    let parts = Parts::split(text)?;
    let suffix = Suffix::interpret(parts.suffix).ok_or(ParseError::Suffix)?;
    if let Some(quantity) = fast(text, &parts, suffix) {
        return Ok(quantity);
    }
    exact(&parts, suffix)
}

/// A text taken apart. `value` is sign, whole digits and places as written; `whole`
/// has no leading zeros but is never empty.
struct Parts<'a> {
    negative: bool,
    value: &'a str,
    whole: &'a str,
    places: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, ParseError> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let significant = unsigned.trim_start_matches('0');
        if significant.is_empty() {
            // A sign alone is zero too.
            return Ok(Self { negative, value: "0", whole: "0", places: "", suffix: "" });
        }
        let (whole, rest) = split_digits(significant);
        let (places, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ParseError::Format);
        }
        let value = &text[..text.len() - suffix.len()];
        let whole = if whole.is_empty() { "0" } else { whole };
        Ok(Self { negative, value, whole, places, suffix })
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// What a suffix multiplies by: a power of ten or of two.
#[derive(Clone, Copy)]
struct Suffix {
    exponent: i32,
    format: Format,
}

impl Suffix {
    fn interpret(text: &str) -> Option<Self> {
        let known = |format| move |exponent| Some(Self { exponent, format });
        let (decimal, binary) = (known(Format::DecimalSi), known(Format::BinarySi));
        match text {
            "" => decimal(0),
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            _ => {
                let exponent: i64 = text.strip_prefix(['e', 'E'])?.parse().ok()?;
                // kube-apiserver keeps the low 32 bits, and so `1e4294967296` is 1.
                Some(Self { exponent: exponent as i32, format: Format::DecimalExponent })
            }
        }
    }
}

/// The usual case: the number fits `i64` at a scale no finer than nano.
fn fast(text: &str, parts: &Parts<'_>, suffix: Suffix) -> Option<Quantity> {
    let places = parts.places.len();
    let (scale, factor) = match suffix.format {
        Format::BinarySi => {
            // 2^10 is about 10^3: three decimal digits for each ten bits.
            let digits = parts.whole.len() + usize::try_from(suffix.exponent).ok()? * 3 / 10;
            if places != 0 || digits > 14 {
                return None;
            }
            (0, 1_i64 << suffix.exponent)
        }
        Format::DecimalSi | Format::DecimalExponent => {
            if parts.whole.len() + places > INT_DIGITS_MAX {
                return None;
            }
            (suffix.exponent.wrapping_sub(places as i32), 1)
        }
    };
    if scale < NANO {
        return None;
    }
    let shifted: Cow<'_, str> = match parts.places {
        "" => parts.whole.into(),
        places => format!("{}{places}", parts.whole).into(),
    };
    let number: i64 = shifted.parse().ok()?;
    let value = number.checked_mul(factor)?;
    let value = if parts.negative { -value } else { value };
    let mut quantity =
        Quantity { amount: Amount::Int { value, scale }, format: suffix.format, written: None };
    let keeps_text = match suffix.format {
        Format::BinarySi => number & 7 != 0,
        _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
    };
    if keeps_text && quantity.canonical() != text {
        quantity.written = Some(text.into());
    }
    Some(quantity)
}

/// The general case: any number, rounded up to nano, and capped where binary.
fn exact(parts: &Parts<'_>, suffix: Suffix) -> Result<Quantity, ParseError> {
    let (number, places) = Decimal::parse(parts.value).ok_or(ParseError::Numeric)?;
    let mut format = suffix.format;
    let (mut number, mut scale) = match format {
        Format::BinarySi => (number.times(1 << suffix.exponent), places as i32),
        _ => {
            let by = i64::from(suffix.exponent);
            (number.shifted(by), (places as i32).wrapping_sub(suffix.exponent))
        }
    };
    let negative = number.sign() < 0;
    number = number.abs();
    if number.sign() != 0 {
        // Whoever asks for some gets some: never down to zero.
        number = number.rounded_up(NANO.into()).0;
        scale = -NANO;
    }
    if format == Format::BinarySi {
        let max = Decimal::from_scaled(i64::MAX, 0);
        if number > max {
            number = max;
            scale = 0;
        }
        if number.sign() != 0 && number < Decimal::from_scaled(1, 0) {
            format = Format::DecimalSi;
        }
    }
    if negative {
        number = number.negated();
    }
    let amount = Amount::Dec(Box::new(Dec { number, scale }));
    Ok(Quantity { amount, format, written: None })
}
