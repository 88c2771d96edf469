//! Prices without rounding, in micro-dollars per million tokens.

use std::fmt;

use unisono_context::Tokens;
use unisono_context::cost::{Cost, write_micro_dollars};

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
        write_micro_dollars(f, u128::from(self.0))
    }
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
