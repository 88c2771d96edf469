//! Money without rounding: prices in micro-dollars per million tokens, costs in pico-dollars.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use unisono_context::Tokens;

/// A price in micro-dollars (10⁻⁶ $) per million tokens: `Price(2_500_000)` is $2.50.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(pub u64);

impl Price {
    /// Free of charge.
    pub const FREE: Price = Price(0);

    /// The price of that many dollars per million tokens; none for a negative amount, for one
    /// above a million dollars, and for more than six decimal places.
    pub fn from_dollars(dollars: f64) -> Option<Price> {
        let micro = dollars * 1e6;
        let whole = micro.round();
        // A decimal fraction is not exact in binary; a real seventh decimal is at least 0.1 off.
        let exact = (micro - whole).abs() < 0.01;
        ((0.0..=1e12).contains(&micro) && exact).then_some(Price(whole as u64))
    }

    /// What that many tokens cost, exactly.
    pub const fn of(self, tokens: Tokens) -> Cost {
        Cost(self.0 as u128 * tokens.0 as u128)
    }
}

/// Dollars per million tokens.
impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dollars(f, u128::from(self.0), 6)
    }
}

/// An amount of money in pico-dollars (10⁻¹² $): micro-dollars per million tokens times tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(pub u128);

impl Cost {
    /// Nothing.
    pub const ZERO: Cost = Cost(0);

    /// Whole micro-dollars, rounded up so that a cap is never passed unseen.
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
        write_dollars(f, self.0.div_ceil(1_000_000), 6)
    }
}

/// Writes `amount` × 10^-`decimals` dollars with at least two decimal places.
fn write_dollars(f: &mut fmt::Formatter<'_>, amount: u128, decimals: u32) -> fmt::Result {
    let scale = 10_u128.pow(decimals);
    let fraction = format!("{:0width$}", amount % scale, width = decimals as usize);
    let kept = fraction.trim_end_matches('0').len().max(2);
    write!(f, "${}.{}", amount / scale, &fraction[..kept])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_become_exact_integers() {
        for (dollars, micro) in [
            (2.5, 2_500_000),
            (0.075, 75_000),
            (0.0, 0),
            (18.75, 18_750_000),
        ] {
            assert_eq!(Price::from_dollars(dollars), Some(Price(micro)));
        }
        for bad in [-1.0, f64::NAN, f64::INFINITY, 0.000_000_1, 2e6] {
            assert_eq!(Price::from_dollars(bad), None, "{bad}");
        }
    }

    #[test]
    fn costs_add_up_exactly() {
        let price = Price(75_000);
        let cost = price.of(Tokens(1)) + price.of(Tokens(999_999));
        assert_eq!(cost, price.of(Tokens(1_000_000)));
        assert_eq!(cost.micro_dollars(), 75_000);
        assert_eq!(price.of(Tokens(1)).micro_dollars(), 1);
        assert_eq!(cost.to_string(), "$0.075");
        assert_eq!(Price(2_500_000).to_string(), "$2.50");
    }
}
