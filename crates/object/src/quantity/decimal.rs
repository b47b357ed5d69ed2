//! Exact decimal numbers of any size, for the quantities that do not fit `i64`.
//!
//! Decimal digits with a power of ten, because everything a quantity needs
//! (rounding at a power of ten, removing factors of ten, printing) is then a matter
//! of where digits stand, and `1e2000000000` costs one digit.

use std::cmp::Ordering;

/// The longest run of digits that addition and multiplication spell out. Without
/// this bound `1e2000000000 + 1` would ask for gigabytes.
const DIGITS_MAX: i64 = 8192;

/// `± digits × 10^exponent`, normalised: no zero at either end, no digits for zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// Most significant first, each 0..=9.
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    pub(super) fn new(negative: bool, mut digits: Vec<u8>, mut exponent: i64) -> Self {
        let kept = digits.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
        exponent += i64::try_from(digits.len() - kept).unwrap_or(i64::MAX);
        digits.truncate(kept);
        let leading = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..leading);
        if digits.is_empty() {
            return Self { negative: false, digits, exponent: 0 };
        }
        Self { negative, digits, exponent }
    }

    /// `value × 10^scale`.
    pub(super) fn from_scaled(value: i64, scale: i32) -> Self {
        let digits = value.unsigned_abs().to_string().bytes().map(|byte| byte - b'0').collect();
        Self::new(value < 0, digits, scale.into())
    }

    /// Reads `[+-]digits[.digits]` as it is; `None` when there is no digit at all.
    pub(super) fn parse(text: &str) -> Option<(Self, usize)> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let places = unsigned.find('.').map_or(0, |point| unsigned.len() - point - 1);
        let digits: Vec<u8> =
            unsigned.bytes().filter(u8::is_ascii_digit).map(|byte| byte - b'0').collect();
        if digits.is_empty() {
            return None;
        }
        let exponent = -i64::try_from(places).ok()?;
        Some((Self::new(negative, digits, exponent), places))
    }

    pub(super) fn sign(&self) -> i32 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    pub(super) fn abs(mut self) -> Self {
        self.negative = false;
        self
    }

    pub(super) fn negated(mut self) -> Self {
        self.negative = !self.negative && !self.digits.is_empty();
        self
    }

    /// The same digits times a further power of ten.
    pub(super) fn shifted(mut self, by: i64) -> Self {
        if !self.digits.is_empty() {
            self.exponent += by;
        }
        self
    }

    /// One past the place of the first digit.
    fn top(&self) -> i64 {
        self.exponent.saturating_add(i64::try_from(self.digits.len()).unwrap_or(i64::MAX))
    }

    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => {
                self.top().cmp(&other.top()).then_with(|| self.digits.cmp(&other.digits))
            }
        }
    }

    /// The exact sum, or `None` where it has more digits than the bound allows.
    pub(super) fn checked_add(&self, other: &Self) -> Option<Self> {
        if self.digits.is_empty() {
            return Some(other.clone());
        }
        if other.digits.is_empty() {
            return Some(self.clone());
        }
        let exponent = self.exponent.min(other.exponent);
        let span = self.top().max(other.top()) - exponent;
        if span > DIGITS_MAX {
            return None;
        }
        let width = usize::try_from(span).ok()? + 1;
        let (left, right) = (self.spelled(exponent, width), other.spelled(exponent, width));
        if self.negative == other.negative {
            return Some(Self::new(self.negative, sum(&left, &right), exponent));
        }
        Some(match self.cmp_magnitude(other) {
            Ordering::Less => Self::new(other.negative, difference(&right, &left), exponent),
            _ => Self::new(self.negative, difference(&left, &right), exponent),
        })
    }

    /// The digits down to `10^exponent`, padded to `width`.
    fn spelled(&self, exponent: i64, width: usize) -> Vec<u8> {
        let below = usize::try_from(self.exponent - exponent).unwrap_or(0);
        let above = width.saturating_sub(below + self.digits.len());
        let mut digits = vec![0; above];
        digits.extend_from_slice(&self.digits);
        digits.resize(width, 0);
        digits
    }

    /// The exact product with a small factor, or `None` beyond the bound on digits.
    pub(super) fn checked_mul(&self, factor: i64) -> Option<Self> {
        if i64::try_from(self.digits.len()).ok()? > DIGITS_MAX {
            return None;
        }
        Some(self.times(factor))
    }

    /// The exact product with a small factor.
    pub(super) fn times(&self, factor: i64) -> Self {
        let mut carry: u128 = 0;
        let mut low_first = Vec::with_capacity(self.digits.len() + 19);
        for digit in self.digits.iter().rev() {
            carry += u128::from(*digit) * u128::from(factor.unsigned_abs());
            low_first.push((carry % 10) as u8);
            carry /= 10;
        }
        while carry > 0 {
            low_first.push((carry % 10) as u8);
            carry /= 10;
        }
        low_first.reverse();
        Self::new(self.negative != (factor < 0), low_first, self.exponent)
    }

    /// Rounded away from zero to a multiple of `10^exponent`, and whether that
    /// changed nothing.
    pub(super) fn rounded_up(&self, exponent: i64) -> (Self, bool) {
        if self.exponent >= exponent || self.digits.is_empty() {
            return (self.clone(), true);
        }
        let (mut kept, _) = self.split(exponent);
        kept.insert(0, 0);
        for digit in kept.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                break;
            }
            *digit = 0;
        }
        (Self::new(self.negative, kept, exponent), false)
    }

    /// The digits above `10^exponent`, and whether any are below.
    fn split(&self, exponent: i64) -> (Vec<u8>, bool) {
        let below = usize::try_from(exponent.saturating_sub(self.exponent)).unwrap_or(0);
        let kept = self.digits.len().saturating_sub(below);
        (self.digits[..kept].to_vec(), kept < self.digits.len())
    }

    /// The greatest integer not above the number, and whether it is the number.
    pub(super) fn floor(&self) -> (Self, bool) {
        if self.exponent >= 0 || self.digits.is_empty() {
            return (self.clone(), true);
        }
        if self.negative {
            return (self.rounded_up(0).0, false);
        }
        (Self::new(false, self.split(0).0, 0), false)
    }

    /// The low 64 bits of an integer, negated where it is negative: what Go's
    /// `big.Int.Int64` yields for numbers of any size.
    pub(super) fn low_bits(&self) -> i64 {
        let mut bits: i64 = 0;
        for digit in &self.digits {
            bits = bits.wrapping_mul(10).wrapping_add(i64::from(*digit));
        }
        // 10^64 is a multiple of 2^64.
        for _ in 0..self.exponent.clamp(0, 64) {
            bits = bits.wrapping_mul(10);
        }
        if self.negative { bits.wrapping_neg() } else { bits }
    }

    /// The number as `i64`, where it is one.
    pub(super) fn to_i64(&self) -> Option<i64> {
        if self.digits.is_empty() {
            return Some(0);
        }
        if self.exponent < 0 || self.top() > 19 {
            return None;
        }
        let places = u32::try_from(self.exponent).ok()?;
        let digits = self.digits.iter().fold(0_i128, |sum, digit| sum * 10 + i128::from(*digit));
        let magnitude = digits * 10_i128.pow(places);
        i64::try_from(if self.negative { -magnitude } else { magnitude }).ok()
    }

    /// Mantissa and exponent with the exponent the highest multiple of three.
    pub(super) fn by_thousands(&self) -> (String, i64) {
        let zeros = self.exponent.rem_euclid(3);
        (self.text(zeros), self.exponent - zeros)
    }

    /// Mantissa and power of 1024 of an integer, with all factors of 1024 removed.
    pub(super) fn by_1024(&self) -> (String, i32) {
        let mut digits = self.digits.clone();
        digits.resize(digits.len() + usize::try_from(self.exponent).unwrap_or(0), 0);
        let mut times = 0;
        while let Some(quotient) = quotient_by_1024(&digits) {
            digits = quotient;
            times += 1;
        }
        (Self::new(self.negative, digits, 0).spell_integer(), times)
    }

    fn spell_integer(&self) -> String {
        self.text(self.exponent.max(0))
    }

    fn text(&self, zeros: i64) -> String {
        let mut text = String::with_capacity(self.digits.len() + 4);
        if self.negative {
            text.push('-');
        }
        text.extend(self.digits.iter().map(|digit| char::from(b'0' + digit)));
        text.extend((0..zeros).map(|_| '0'));
        text
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.sign(), other.sign()) {
            (-1, -1) => other.cmp_magnitude(self),
            (1, 1) => self.cmp_magnitude(other),
            (left, right) => left.cmp(&right),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The sum of two digit strings of one width; the first place takes the last carry.
fn sum(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut digits = vec![0; left.len()];
    let mut carry = 0;
    for (place, digit) in digits.iter_mut().enumerate().rev() {
        let total = left[place] + right[place] + carry;
        *digit = total % 10;
        carry = total / 10;
    }
    digits
}

/// `larger - smaller`, of one width.
fn difference(larger: &[u8], smaller: &[u8]) -> Vec<u8> {
    let mut digits = vec![0; larger.len()];
    let mut borrow = 0;
    for (place, digit) in digits.iter_mut().enumerate().rev() {
        let (top, bottom) = (larger[place], smaller[place] + borrow);
        borrow = u8::from(top < bottom);
        *digit = top + borrow * 10 - bottom;
    }
    digits
}

/// A 1024th of a digit string, where it divides exactly and is not zero.
fn quotient_by_1024(digits: &[u8]) -> Option<Vec<u8>> {
    let mut rest = 0_u32;
    let mut quotient = Vec::with_capacity(digits.len());
    for digit in digits {
        rest = rest * 10 + u32::from(*digit);
        let place = (rest / 1024) as u8;
        if place != 0 || !quotient.is_empty() {
            quotient.push(place);
        }
        rest %= 1024;
    }
    (rest == 0 && !quotient.is_empty()).then_some(quotient)
}
