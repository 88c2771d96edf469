//! Prices without rounding, in micro-dollars per million tokens.

use std::fmt;

use unisono_context::Tokens;
use unisono_context::call::Usage;
use unisono_context::cost::{Cost, write_micro_dollars};

/// A price in micro-dollars (10⁻⁶ $) per million tokens: `Price(2_500_000)` is $2.50.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(pub u64);

impl Price {
    /// Free of charge.
    pub const FREE: Price = Price(0);

    /// The price of `dollars` per million tokens; `None` if it is negative, above a million
    /// dollars, or has more than six decimal places.
    pub fn from_dollars(dollars: f64) -> Option<Price> {
        let micro = dollars * 1e6;
        let whole = micro.round();
        // A decimal fraction is not exact in binary; a real seventh decimal is at least 0.1 off.
        let exact = (micro - whole).abs() < 0.01;
        ((0.0..=1e12).contains(&micro) && exact).then_some(Price(whole as u64))
    }

    /// The exact cost of `tokens`.
    pub const fn cost_of(self, tokens: Tokens) -> Cost {
        Cost(self.0 as u128 * tokens.0 as u128)
    }
}

/// Dollars per million tokens.
impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_micro_dollars(f, u128::from(self.0))
    }
}

/// The prices of a model. A missing price is unknown, not free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// Input tokens that were not cached.
    pub input: Option<Price>,
    /// Output tokens.
    pub output: Option<Price>,
    /// Input tokens read from the provider's prompt cache.
    pub cache_read: Option<Price>,
    /// Input tokens written to that cache.
    pub cache_write: Option<Price>,
}

impl Prices {
    /// The cost of one request; `None` if a required price is unknown, or the provider did not
    /// report usage.
    pub fn cost(&self, used: &Usage) -> Option<Cost> {
        if used.input == Tokens::ZERO {
            return None;
        }
        let plain = used.input.minus(used.cache_read).minus(used.cache_write);
        let parts = [
            (plain, self.input),
            (used.cache_read, self.cache_read),
            (used.cache_write, self.cache_write),
            (used.output, self.output),
        ];
        let priced = |(tokens, price): (Tokens, Option<Price>)| match tokens {
            Tokens::ZERO => Some(Cost::ZERO),
            tokens => Some(price?.cost_of(tokens)),
        };
        parts.into_iter().map(priced).sum()
    }
}

impl Prices {
    /// The maximum cost of this input and output, cached or not; `None` if a price is unknown.
    pub fn worst(&self, input: Tokens, output: Tokens) -> Option<Cost> {
        let ways = [Some(self.input?), self.cache_read, self.cache_write];
        let dearest = ways.into_iter().flatten().max()?;
        Some(dearest.cost_of(input) + self.output?.cost_of(output))
    }
}

/// The prices of a whole request with a long input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongPrompt {
    /// The longest input at ordinary prices.
    pub over: Tokens,
    /// The prices above it.
    pub prices: Prices,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_needs_only_the_prices_of_the_used_tokens() {
        let usage = |input, output, cache_read, cache_write| Usage {
            cache_read: Tokens(cache_read),
            cache_write: Tokens(cache_write),
            ..Usage::free(Tokens(input), Tokens(output))
        };
        let [all, no_write, no_read, none] = [
            Prices {
                input: Some(Price(3_000_000)),
                output: Some(Price(15_000_000)),
                cache_read: Some(Price(300_000)),
                cache_write: Some(Price(3_750_000)),
            },
            Prices {
                input: Some(Price(1_000_000)),
                output: Some(Price(1_000_000)),
                cache_read: Some(Price(1_000_000)),
                cache_write: None,
            },
            Prices {
                input: Some(Price(1_000_000)),
                output: Some(Price(1_000_000)),
                cache_read: None,
                cache_write: None,
            },
            Prices::default(),
        ];
        for (prices, used, micro_dollars) in rows! {
            (all, usage(1_000_000, 0, 0, 0), Some(3_000_000)),
            (all, usage(1_000_000, 1_000_000, 0, 0), Some(18_000_000)),
            (all, usage(1_000_000, 0, 900_000, 0), Some(300_000 + 270_000)),
            (all, usage(1_000_000, 0, 0, 1_000_000), Some(3_750_000)),
            // More cached tokens than input tokens: nothing is charged twice, nothing underflows.
            (all, usage(100, 0, 1_000_000, 0), Some(300_000)),
            (no_write, usage(10, 10, 5, 0), Some(20)),
            (no_write, usage(10, 10, 5, 1), None),
            (no_read, usage(10, 10, 0, 0), Some(20)),
            (no_read, usage(10, 10, 1, 0), None),
            (none, usage(10, 0, 0, 0), None),
            // A provider that reports nothing leaves the cost unknown.
            (all, usage(0, 0, 0, 0), None),
            (all, usage(0, 500, 0, 0), None),
        } {
            let cost = prices.cost(&used).map(Cost::micro_dollars);
            assert_eq!(cost, micro_dollars, "{prices:?} {used:?}");
        }
    }

    #[test]
    fn the_worst_case_uses_the_most_expensive_input_price() {
        let known = Prices {
            input: Some(Price(3_000_000)),
            output: Some(Price(15_000_000)),
            cache_read: Some(Price(300_000)),
            cache_write: Some(Price(3_750_000)),
        };
        let worst = |prices: Prices| prices.worst(Tokens(1_000_000), Tokens(100_000));
        let cost = Cost::from_micro_dollars;
        assert_eq!(worst(known), Some(cost(3_750_000 + 1_500_000)));
        let plain = Prices {
            cache_write: None,
            ..known
        };
        assert_eq!(worst(plain), Some(cost(3_000_000 + 1_500_000)));
        for unknown in [
            Prices {
                input: None,
                ..known
            },
            Prices {
                output: None,
                ..known
            },
        ] {
            assert_eq!(worst(unknown), None);
        }
    }

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
        let cost = price.cost_of(Tokens(1)) + price.cost_of(Tokens(999_999));
        assert_eq!(cost, price.cost_of(Tokens(1_000_000)));
        assert_eq!(cost.micro_dollars(), 75_000);
        assert_eq!(price.cost_of(Tokens(1)).micro_dollars(), 1);
        assert_eq!(cost.to_string(), "$0.075");
        assert_eq!(Price(2_500_000).to_string(), "$2.50");
    }
}
