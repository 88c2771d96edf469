//! Amounts of money, without rounding.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// An amount of money in pico-dollars (10⁻¹² $): micro-dollars per million tokens times tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(pub u128);

impl Cost {
    /// Nothing.
    pub const ZERO: Cost = Cost(0);

    /// This number of micro-dollars (10⁻⁶ $).
    pub const fn from_micro_dollars(micro_dollars: u64) -> Cost {
        Cost(micro_dollars as u128 * 1_000_000)
    }

    /// Whole micro-dollars, rounded up so that a cap is never exceeded unnoticed.
    pub fn micro_dollars(self) -> u64 {
        u64::try_from(self.0.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        *self = *self + other;
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(iter: I) -> Cost {
        iter.fold(Cost::ZERO, Add::add)
    }
}

/// Dollars, rounded up to a micro-dollar.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_micro_dollars(f, self.0.div_ceil(1_000_000))
    }
}

/// Writes micro-dollars as dollars with at least two decimal places.
pub fn write_micro_dollars(f: &mut fmt::Formatter<'_>, micro_dollars: u128) -> fmt::Result {
    const SCALE: u128 = 1_000_000;
    let fraction = format!("{:06}", micro_dollars % SCALE);
    let kept = fraction.trim_end_matches('0').len().max(2);
    write!(f, "${}.{}", micro_dollars / SCALE, &fraction[..kept])
}
