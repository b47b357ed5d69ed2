//! The amount inside a quantity: `i64` at a power of ten, or an exact decimal.
//!
//! Which of the two an amount is shows: kube-apiserver's conversions to integers
//! round and wrap differently for each. So the form follows upstream's.

use std::cmp::Ordering;

use super::decimal::Decimal;

/// An amount in the form that upstream would hold it in.
#[derive(Debug, Clone)]
pub(super) enum Amount {
    /// `value × 10^scale`.
    Int { value: i64, scale: i32 },
    /// Anything else.
    Dec(Box<Dec>),
}

/// An exact number, and how many decimal places upstream stores it with.
#[derive(Debug, Clone)]
pub(super) struct Dec {
    pub(super) number: Decimal,
    pub(super) scale: i32,
}

impl Amount {
    pub(super) fn sign(&self) -> i32 {
        match self {
            Self::Int { value, .. } => value.signum() as i32,
            Self::Dec(dec) => dec.number.sign(),
        }
    }

    pub(super) fn to_decimal(&self) -> Decimal {
        match self {
            Self::Int { value, scale } => Decimal::from_scaled(*value, *scale),
            Self::Dec(dec) => dec.number.clone(),
        }
    }

    fn to_dec(&self) -> Dec {
        match self {
            Self::Int { value, scale } => {
                Dec { number: Decimal::from_scaled(*value, *scale), scale: scale.wrapping_neg() }
            }
            Self::Dec(dec) => (**dec).clone(),
        }
    }

    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        // Within 18 places `i128` holds both at the finer scale.
        if let (&Self::Int { value: a, scale: s }, &Self::Int { value: b, scale: t }) =
            (self, other)
            && s.abs_diff(t) <= 18
        {
            let fine = s.min(t);
            let at = |value: i64, scale: i32| i128::from(value) * 10_i128.pow(scale.abs_diff(fine));
            return at(a, s).cmp(&at(b, t));
        }
        self.to_decimal().cmp(&other.to_decimal())
    }

    pub(super) fn checked_add(&self, other: &Self) -> Option<Self> {
        if let (&Self::Int { value: a, scale: s }, &Self::Int { value: b, scale: t }) =
            (self, other)
            && let Some((value, scale)) = add_ints(a, s, b, t)
        {
            return Some(Self::Int { value, scale });
        }
        let (left, right) = (self.to_dec(), other.to_dec());
        let number = left.number.checked_add(&right.number)?;
        Some(Self::Dec(Box::new(Dec { number, scale: left.scale.max(right.scale) })))
    }

    pub(super) fn negated(self) -> Self {
        match self {
            Self::Int { value, scale } => match value.checked_neg() {
                Some(value) => Self::Int { value, scale },
                None => Self::Dec(Box::new(Dec {
                    number: Decimal::from_scaled(value, scale).negated(),
                    scale: scale.wrapping_neg(),
                })),
            },
            Self::Dec(mut dec) => {
                dec.number = dec.number.negated();
                Self::Dec(dec)
            }
        }
    }

    pub(super) fn checked_mul(&self, factor: i64) -> Option<Self> {
        if let &Self::Int { value, scale } = self {
            if value == 0 {
                return Some(Self::Int { value, scale });
            }
            if factor == 0 {
                return Some(Self::Int { value: 0, scale: 0 });
            }
            if let Some(product) = value.checked_mul(factor)
                && Self::is_whole_i64(product, scale)
            {
                return Some(Self::Int { value: product, scale });
            }
        }
        let dec = self.to_dec();
        let number = dec.number.checked_mul(factor)?;
        Some(Self::Dec(Box::new(Dec { number, scale: dec.scale })))
    }

    fn is_whole_i64(value: i64, scale: i32) -> bool {
        match scale {
            0.. => scaled_up(value, scale.unsigned_abs()).is_some(),
            _ => scaled_down(value, scale.unsigned_abs()).1,
        }
    }

    /// Rounded away from zero to a multiple of `10^scale`, and whether that changed
    /// nothing.
    pub(super) fn rounded_up(&self, scale: i32) -> (Self, bool) {
        match self {
            Self::Int { scale: own, .. } if *own >= scale => (self.clone(), true),
            Self::Int { value, scale: own } => {
                let (value, exact) = scaled_down(*value, scale.abs_diff(*own));
                (Self::Int { value, scale }, exact)
            }
            Self::Dec(dec) => {
                let (number, exact) = dec.number.rounded_up(scale.into());
                (Self::Dec(Box::new(Dec { number, scale: scale.wrapping_neg() })), exact)
            }
        }
    }

    /// The amount in units of `10^scale`, as upstream's `ScaledValue` computes it:
    /// on overflow it wraps or is zero.
    pub(super) fn scaled_value(&self, scale: i32) -> i64 {
        match self {
            Self::Int { value, scale: own } if *own < scale => {
                scaled_down(*value, scale.abs_diff(*own)).0
            }
            Self::Int { value, scale: own } => {
                let by = own.abs_diff(scale);
                scaled_up(*value, by).unwrap_or_else(|| overflown(*value, by))
            }
            Self::Dec(dec) => dec.scaled_value(scale),
        }
    }

    /// The amount in units of `10^scale` rounded away from zero, where `i64` has it.
    pub(super) fn checked_scaled_value(&self, scale: i32) -> Option<i64> {
        if let &Self::Int { value, scale: own } = self {
            let by = own.abs_diff(scale);
            return if own < scale { Some(scaled_down(value, by).0) } else { scaled_up(value, by) };
        }
        let (number, _) = self.to_decimal().rounded_up(scale.into());
        number.shifted(-i64::from(scale)).to_i64()
    }

    /// Mantissa and exponent, the exponent the highest multiple of three.
    pub(super) fn by_thousands(&self) -> (String, i64) {
        if let &Self::Int { value, scale } = self
            && value != 0
        {
            let (mut mantissa, mut exponent) = (value, i64::from(scale));
            while mantissa % 10 == 0 {
                mantissa /= 10;
                exponent += 1;
            }
            let zeros = exponent.rem_euclid(3);
            if let Some(mantissa) = scaled_up(mantissa, zeros as u32) {
                return (mantissa.to_string(), exponent - zeros);
            }
        }
        self.to_decimal().by_thousands()
    }

    /// Mantissa and power of 1024 of an amount that is a whole number.
    pub(super) fn by_1024(&self) -> (String, i32) {
        if let &Self::Int { value, scale: 0 } = self
            && value != 0
        {
            let times = value.trailing_zeros() / 10;
            return ((value >> (times * 10)).to_string(), times as i32);
        }
        self.to_decimal().by_1024()
    }
}

impl Dec {
    fn unscaled(&self) -> Decimal {
        self.number.clone().shifted(self.scale.into())
    }

    fn scaled_value(&self, scale: i32) -> i64 {
        let dif = i64::from(self.scale) + i64::from(scale);
        let unscaled = self.unscaled();
        if dif <= 0 {
            // Out of `i64`, Go's conversion of the power of ten yields the minimum.
            let factor = u32::try_from(-dif).ok().and_then(|places| 10_i64.checked_pow(places));
            return unscaled.low_bits().wrapping_mul(factor.unwrap_or(i64::MIN));
        }
        if dif < 19 && unscaled < Decimal::from_scaled(i64::MAX, 0) {
            let divisor = 10_i64.pow(dif as u32);
            let (quotient, rest) = (unscaled.low_bits() / divisor, unscaled.low_bits() % divisor);
            return quotient + i64::from(rest != 0);
        }
        let (floor, exact) = unscaled.shifted(-dif).floor();
        floor.low_bits().wrapping_add(i64::from(!exact))
    }
}

/// The sum at the finer scale of the two, or `None` where `i64` cannot hold it.
fn add_ints(a: i64, a_scale: i32, b: i64, b_scale: i32) -> Option<(i64, i32)> {
    if b == 0 {
        return Some((a, a_scale));
    }
    if a == 0 {
        return Some((b, b_scale));
    }
    let by = a_scale.abs_diff(b_scale);
    let (coarse, fine) = if a_scale > b_scale { (a, b) } else { (b, a) };
    let value = scaled_up(coarse, by)?.checked_add(fine)?;
    Some((value, a_scale.min(b_scale)))
}

/// `value × 10^by`, where `i64` has it.
fn scaled_up(value: i64, by: u32) -> Option<i64> {
    if value == 0 {
        return Some(0);
    }
    value.checked_mul(10_i64.checked_pow(by)?)
}

/// What upstream's `ScaledValue` leaves when [`scaled_up`] overflows: the wrapped
/// product for the scales it multiplies at once, and zero for the rest.
fn overflown(value: i64, by: u32) -> i64 {
    match by {
        1 | 2 | 3 | 6 | 9 if value != i64::MIN => value.wrapping_mul(10_i64.pow(by)),
        _ => 0,
    }
}

/// `value / 10^by` rounded away from zero, and whether it is exact.
fn scaled_down(value: i64, by: u32) -> (i64, bool) {
    let Some(divisor) = 10_i64.checked_pow(by) else {
        return (value.signum(), value == 0);
    };
    let rest = value % divisor;
    (value / divisor + rest.signum(), rest == 0)
}
