//! Quantities: amounts of resources, such as `100m`, `1536Mi` or `12e6`.
//!
//! An amount is an exact number, never a float. It parses, rounds, adds and prints
//! as in kube-apiserver, including what looks odd there, because a quantity that
//! two programs print differently is a difference that a user sees on every update.
//! This module knows numbers alone: which resource an amount is of, and which
//! amounts make sense for it, is the reader's business.
//!
//! ```
//! use object::quantity::Quantity;
//! let memory: Quantity = "1.5Gi".parse()?;
//! assert_eq!(memory.to_string(), "1536Mi");
//! let half: Quantity = "0.5".parse()?;
//! assert_eq!(half.to_string(), "500m");
//! assert_eq!(half.checked_add(&half).map(|one| one.value()), Some(1));
//! # Ok::<(), object::quantity::ParseError>(())
//! ```

use std::cmp::Ordering;
use std::fmt;
use std::ops::Neg;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod amount;
mod decimal;
mod parse;

#[cfg(test)]
mod tests;

use amount::Amount;
pub use parse::ParseError;

/// How a quantity is written: which kind of suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `12e6`.
    DecimalExponent,
    /// `12Mi`, powers of 1024.
    BinarySi,
    /// `12M`, powers of 1000.
    DecimalSi,
}

/// An exact amount and the way to write it.
///
/// Two quantities are equal when their amounts are, however they are written. A
/// parsed text that upstream regards as canonical is kept to the letter (`1.500`,
/// `+1`); any other is written in canonical form.
#[derive(Debug, Clone)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The text as parsed, where upstream keeps it and it differs from the canonical.
    written: Option<Box<str>>,
}

impl Quantity {
    /// Zero, in the format that the first thing added to it has.
    pub const ZERO: Self = Self {
        amount: Amount::Int { value: 0, scale: 0 },
        format: Format::DecimalSi,
        written: None,
    };

    /// `value` whole units.
    #[must_use]
    pub fn from_units(value: i64, format: Format) -> Self {
        Self::from_scaled(value, 0, format)
    }

    /// `value` thousandths.
    #[must_use]
    pub fn from_millis(value: i64, format: Format) -> Self {
        Self::from_scaled(value, -3, format)
    }

    /// `value × 10^scale`.
    #[must_use]
    pub fn from_scaled(value: i64, scale: i32, format: Format) -> Self {
        Self { amount: Amount::Int { value, scale }, format, written: None }
    }

    /// How the quantity is written.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the amount is nothing.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.amount.sign() == 0
    }

    /// -1, 0 or 1.
    #[must_use]
    pub fn sign(&self) -> i32 {
        self.amount.sign()
    }

    /// The amount in whole units, rounded away from zero. Beyond `i64` this is what
    /// upstream's `Value` yields, which is not meaningful: ask
    /// [`Quantity::checked_scaled_value`] where that can happen.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The amount in thousandths, with the same caveat as [`Quantity::value`].
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// The amount in units of `10^scale`, with the same caveat as [`Quantity::value`].
    #[must_use]
    pub fn scaled_value(&self, scale: i32) -> i64 {
        self.amount.scaled_value(scale)
    }

    /// The amount in units of `10^scale` rounded away from zero, or `None` where `i64`
    /// cannot hold it.
    #[must_use]
    pub fn checked_scaled_value(&self, scale: i32) -> Option<i64> {
        self.amount.checked_scaled_value(scale)
    }

    /// The sum, in the format of `self`, or of `other` when `self` is zero. `None` only
    /// where the exact sum has more than some thousand digits.
    #[must_use]
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        let format = if self.is_zero() { other.format } else { self.format };
        Some(Self { amount: self.amount.checked_add(&other.amount)?, format, written: None })
    }

    /// The difference, with the format and the bound of [`Quantity::checked_add`].
    #[must_use]
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        self.checked_add(&-other.clone())
    }

    /// The product with a whole number; `None` beyond the bound of
    /// [`Quantity::checked_add`].
    #[must_use]
    pub fn checked_mul(&self, factor: i64) -> Option<Self> {
        let amount = self.amount.checked_mul(factor)?;
        Some(Self { amount, format: self.format, written: None })
    }

    /// The amount rounded away from zero to a multiple of `10^scale`.
    #[must_use]
    pub fn rounded_up(&self, scale: i32) -> Self {
        if matches!(self.amount, Amount::Int { scale: own, .. } if own >= scale) {
            return self.clone();
        }
        Self { amount: self.amount.rounded_up(scale).0, format: self.format, written: None }
    }

    /// The canonical text, whatever was parsed.
    fn canonical(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        if self.format == Format::BinarySi
            && let Some(text) = self.binary()
        {
            return text;
        }
        let (mut text, exponent) = self.amount.by_thousands();
        if self.format == Format::DecimalExponent {
            if exponent != 0 {
                text.push_str(&format!("e{exponent}"));
            }
            return text;
        }
        text.push_str(match exponent {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            18 => "E",
            // Upstream has no suffix for the rest and writes none: `1000E` is `1`.
            _ => "",
        });
        text
    }

    /// The text with a binary suffix; `None` for what upstream writes in decimals:
    /// below 1024, or not whole.
    fn binary(&self) -> Option<String> {
        let kibi = Amount::Int { value: 1024, scale: 0 };
        let kibi_below = Amount::Int { value: -1024, scale: 0 };
        let small = self.amount.cmp(&kibi_below) == Ordering::Greater
            && self.amount.cmp(&kibi) == Ordering::Less;
        let (rounded, exact) = self.amount.rounded_up(0);
        if small || !exact {
            return None;
        }
        let (mut text, times) = rounded.by_1024();
        let suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        let suffix = usize::try_from(times).ok().and_then(|times| suffixes.get(times));
        text.push_str(suffix.unwrap_or(&""));
        Some(text)
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        Self { amount: self.amount.negated(), format: self.format, written: None }
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.cmp(&other.amount)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Quantity {}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.written {
            Some(text) => f.pad(text),
            None => f.pad(&self.canonical()),
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a text, a number or `null` (zero), as upstream does. A JSON number that is
/// not an integer has been through a float by the time it arrives here.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"100m\" or a number")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
        let named = |error: ParseError| E::custom(format_args!("{text:?}: {error}"));
        text.trim().parse().map_err(named)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Quantity, E> {
        Ok(Quantity::from_units(value, Format::DecimalSi))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Quantity, E> {
        value.to_string().parse().map_err(E::custom)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Quantity, E> {
        value.to_string().parse().map_err(E::custom)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }
}
