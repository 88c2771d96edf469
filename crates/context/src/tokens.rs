//! Token numbers: amounts, ratios, encodings and the counts of messages.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// An amount of tokens. Subtraction saturates at zero: a negative amount has no meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tokens(pub u64);

impl Tokens {
    /// No tokens.
    pub const ZERO: Tokens = Tokens(0);

    /// This amount minus `other`, at least zero.
    #[must_use]
    pub const fn minus(self, other: Tokens) -> Tokens {
        Tokens(self.0.saturating_sub(other.0))
    }

    /// Half of it, rounded down.
    #[must_use]
    pub const fn half(self) -> Tokens {
        Tokens(self.0 / 2)
    }

    /// This amount `n` times.
    #[must_use]
    pub const fn times(self, n: u64) -> Tokens {
        Tokens(self.0.saturating_mul(n))
    }
}

impl Add for Tokens {
    type Output = Tokens;

    fn add(self, other: Tokens) -> Tokens {
        Tokens(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Tokens) {
        *self = *self + other;
    }
}

impl Sum for Tokens {
    fn sum<I: Iterator<Item = Tokens>>(iter: I) -> Tokens {
        iter.fold(Tokens::ZERO, Add::add)
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A ratio in parts per million; products are rounded down. It is exact where a float would not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppm(pub u32);

impl Ppm {
    /// The whole.
    pub const ONE: Ppm = Ppm(1_000_000);

    /// `percent` of a hundred.
    pub const fn percent(percent: u32) -> Ppm {
        Ppm(percent * 10_000)
    }

    /// The nearest ratio to a decimal fraction between 0 and 4,000.
    pub fn from_fraction(fraction: f64) -> Option<Ppm> {
        let ppm = (fraction * 1e6).round();
        (0.0..=4e9).contains(&ppm).then_some(Ppm(ppm as u32))
    }

    /// The ratio as a decimal fraction.
    pub fn as_fraction(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// This share of an amount, rounded down.
    pub const fn share_of(self, amount: Tokens) -> Tokens {
        Tokens((amount.0 as u128 * self.0 as u128 / 1_000_000) as u64)
    }
}

/// A tokenizer vocabulary for exact local counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoding {
    /// OpenAI's `o200k_base` (GPT-4o and later).
    O200kBase,
    /// OpenAI's `cl100k_base` (GPT-4, GPT-3.5); also the local estimate for other providers.
    Cl100kBase,
}

// In the order of `Encoding::index`.
crate::names!(Encoding {
    O200kBase = "o200k_base",
    Cl100kBase = "cl100k_base",
});

impl Encoding {
    /// Position in per-encoding tables.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The tokens of one text in one encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Count {
    /// Tokens, exact or estimated.
    pub tokens: Tokens,
    /// An upper bound: `tokens` if exact, the bytes of the text if estimated.
    pub at_most: Tokens,
}

impl Count {
    /// A count by the tokenizer itself.
    pub const fn exact(tokens: u64) -> Count {
        Count {
            tokens: Tokens(tokens),
            at_most: Tokens(tokens),
        }
    }

    /// The fallback for a text that could not be tokenized: a quarter of its bytes, rounded up.
    pub const fn approximate(bytes: u64) -> Count {
        Count {
            tokens: Tokens(bytes.div_ceil(4)),
            at_most: Tokens(bytes),
        }
    }

    /// Whether any part of it was estimated.
    pub const fn is_approximate(&self) -> bool {
        self.at_most.0 > self.tokens.0
    }

    /// This count minus `other`, which must be part of it.
    #[must_use]
    pub const fn minus(self, other: Count) -> Count {
        Count {
            tokens: self.tokens.minus(other.tokens),
            at_most: self.at_most.minus(other.at_most),
        }
    }
}

impl Add for Count {
    type Output = Count;

    fn add(self, other: Count) -> Count {
        Count {
            tokens: self.tokens + other.tokens,
            at_most: self.at_most + other.at_most,
        }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        *self = *self + other;
    }
}

impl Sum for Count {
    fn sum<I: Iterator<Item = Count>>(iter: I) -> Count {
        iter.fold(Count::default(), Add::add)
    }
}

/// One count per encoding, if known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([Option<Count>; Encoding::ALL.len()]);

impl Counts {
    /// The count in one encoding, if known.
    pub const fn get(&self, encoding: Encoding) -> Option<Count> {
        self.0[encoding.index()]
    }

    /// Records the count in one encoding.
    pub const fn set(&mut self, encoding: Encoding, count: Count) {
        self.0[encoding.index()] = Some(count);
    }

    /// Known counts with their encodings.
    pub fn iter(&self) -> impl Iterator<Item = (Encoding, Count)> + '_ {
        Encoding::ALL
            .into_iter()
            .filter_map(|e| self.get(e).map(|c| (e, c)))
    }
}

impl FromIterator<(Encoding, Count)> for Counts {
    fn from_iter<I: IntoIterator<Item = (Encoding, Count)>>(iter: I) -> Self {
        let mut counts = Counts::default();
        for (encoding, count) in iter {
            counts.set(encoding, count);
        }
        counts
    }
}
