//! When to compact and what to keep: the presets, and all their numbers.

use std::fmt;

use crate::budget::Budget;
use crate::tokens::{Ppm, Tokens};

mod tiers;

pub use tiers::{Ends, Large, Tiers};

/// A named set of defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preset {
    /// Never compacts; a turn that does not fit fails.
    Off,
    /// Drops the oldest units, without a model.
    Truncate,
    /// Above a fixed amount, keeps the ten newest messages; in a small window half the target.
    Checkpoint,
    /// Near the window, keeps a fixed number of tokens; in a small window half the target.
    Retention,
    /// Above a share of the usable tokens, keeps a share of the history.
    Progressive,
    /// Keeps the current topic, one summary per older topic, and joint summaries of the oldest
    /// ones.
    Tiered,
}

crate::names!(Preset {
    Off = "off",
    Truncate = "truncate",
    Checkpoint = "checkpoint",
    Retention = "retention",
    Progressive = "progressive",
    Tiered = "tiered",
});

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The amount above which a compaction starts. Never more than the usable tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A fixed amount.
    Tokens(Tokens),
    /// A share of the model's window.
    OfWindow(Ppm),
    /// A share of the usable tokens.
    OfUsable(Ppm),
}

impl Trigger {
    /// The amount under that budget.
    pub fn amount(self, budget: &Budget) -> Tokens {
        let amount = match self {
            Trigger::Tokens(tokens) => tokens,
            Trigger::OfWindow(share) => share.share_of(budget.window),
            Trigger::OfUsable(share) => share.share_of(budget.usable),
        };
        amount.min(budget.usable)
    }
}

/// Which newest messages stay verbatim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// A number of messages, the pending input included. A start inside a unit moves to the unit's
    /// start; then the oldest units leave until half the target is kept, but never the newest unit.
    Messages(u32),
    /// The newest units up to an amount, without the pending input. If a user message is at most
    /// `align` messages into the kept part, the kept part starts there. The newest user message
    /// stays, even above the amount.
    Tokens {
        /// The amount.
        amount: Tokens,
        /// How far into the kept part the start may move to reach a user message.
        align: u32,
    },
    /// The newest units up to a share of the history, at least one. Leading messages of other roles
    /// than user leave; if none is left, the part from the newest user message on is kept.
    ShareOfHistory(Ppm),
    /// As many newest units as the target allows.
    UpToTarget,
    /// The current topic. Older messages are in two further tiers, each with its share of the
    /// trigger's amount; a compaction starts when a tier exceeds its share.
    Tiers(Tiers),
    /// As [`Keep::Messages`]; in a window that is not large, as many as [`Keep::least`] allows.
    MessagesByWindow(u32),
    /// As [`Keep::Tokens`]; in a window that is not large, at least [`Keep::least`].
    TokensByWindow {
        /// The amount.
        amount: Tokens,
        /// How far into the kept part the start may move to reach a user message.
        align: u32,
    },
}

/// Up to this window the fixed amounts of presets are too small: half the target stays.
const SMALL_WINDOW: Tokens = Tokens(65_536);
/// From this window on presets keep their fixed amounts.
const LARGE_WINDOW: Tokens = Tokens(128_000);

impl Keep {
    /// The amounts for that window, with that target: amounts that depend on the window become
    /// fixed.
    #[must_use]
    pub fn scaled(self, window: Tokens, target: Tokens) -> Keep {
        match self {
            // Half the target limits it.
            Keep::MessagesByWindow(_) if window <= SMALL_WINDOW => Keep::Messages(u32::MAX),
            Keep::MessagesByWindow(count) if window >= LARGE_WINDOW => Keep::Messages(count),
            Keep::TokensByWindow { amount, align } => Keep::Tokens {
                amount: amount.max(Keep::least(window, target)),
                align,
            },
            keep => keep,
        }
    }

    /// The minimum that a preset keeps in that window, with that target: half the target of a small
    /// window, zero in a large one, and in between a share that falls with the window.
    pub fn least(window: Tokens, target: Tokens) -> Tokens {
        let between = LARGE_WINDOW.minus(SMALL_WINDOW).0;
        let below = LARGE_WINDOW.minus(window).0.min(between);
        // In 128 bits no product overflows.
        let least = u128::from(target.half().0) * u128::from(below) / u128::from(between);
        Tokens(least as u64)
    }
}

/// What happens to the messages that do not stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// One rolling summary, at most `cap` tokens.
    Summarise {
        /// Maximum tokens of a summary.
        cap: Tokens,
    },
    /// They leave the context; a note says so.
    Drop,
}

/// Old tool results that are replaced by a reference before a summary is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masking {
    /// Only messages with more tokens than this.
    pub over: Tokens,
    /// Number of newest messages that are never masked.
    pub keep_newest: u32,
}

/// Limit of automatic checkpoints by models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelQuota {
    /// At most this many…
    pub checkpoints: u32,
    /// …in this time.
    pub per_ms: i64,
}

impl ModelQuota {
    /// No automatic checkpoint by a model.
    pub const NONE: ModelQuota = ModelQuota {
        checkpoints: 0,
        per_ms: 0,
    };
}

/// When to compact and what to keep. A preset sets all numbers; the configuration changes single
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its preset.
    pub preset: Preset,
    /// Starts above this (strictly); none: never.
    pub trigger: Option<Trigger>,
    /// Never starts below this, except above the usable tokens.
    pub minimum: Tokens,
    /// Ends at or below this share of the trigger.
    pub target: Ppm,
    /// The messages that stay.
    pub keep: Keep,
    /// What happens to the other messages.
    pub method: Method,
    /// The masking before other steps; none: no masking.
    pub masking: Option<Masking>,
    /// The limit of checkpoints by models.
    pub quota: Option<ModelQuota>,
}

impl Policy {
    /// The defaults of a preset.
    pub const fn from_preset(preset: Preset) -> Policy {
        let base = Policy {
            preset,
            trigger: Some(Trigger::Tokens(Tokens(80_000))),
            minimum: Tokens::ZERO,
            target: Ppm::percent(80),
            keep: Keep::MessagesByWindow(10),
            method: Method::Summarise { cap: Tokens(2_048) },
            masking: Some(Masking {
                over: Tokens(1_000),
                keep_newest: 3,
            }),
            quota: None,
        };
        match preset {
            Preset::Off => Policy {
                trigger: None,
                masking: None,
                ..base
            },
            Preset::Truncate => Policy {
                method: Method::Drop,
                keep: Keep::UpToTarget,
                ..base
            },
            Preset::Checkpoint => Policy {
                quota: Some(ModelQuota {
                    checkpoints: 5,
                    per_ms: 24 * 3_600_000,
                }),
                ..base
            },
            Preset::Retention => Policy {
                trigger: Some(Trigger::OfWindow(Ppm::percent(95))),
                minimum: Tokens(2_000),
                keep: Keep::TokensByWindow {
                    amount: Tokens(1_000),
                    align: 4,
                },
                ..base
            },
            Preset::Progressive => Policy {
                trigger: Some(Trigger::OfUsable(Ppm::percent(75))),
                keep: Keep::ShareOfHistory(Ppm::percent(20)),
                ..base
            },
            Preset::Tiered => Policy {
                trigger: Some(Trigger::OfWindow(Ppm::percent(70))),
                keep: Keep::Tiers(Tiers::DEFAULT),
                ..base
            },
        }
    }

    /// The tiers, if there are any.
    pub const fn tiers(&self) -> Option<&Tiers> {
        match &self.keep {
            Keep::Tiers(tiers) => Some(tiers),
            _ => None,
        }
    }

    /// The amount above which a compaction starts under that budget; none: never. Tiers divide this
    /// amount.
    pub fn trigger_amount(&self, budget: &Budget) -> Option<Tokens> {
        self.trigger.map(|trigger| trigger.amount(budget))
    }

    /// The amount that a compaction reaches under that budget. Without a trigger, the usable
    /// tokens.
    pub fn target_amount(&self, budget: &Budget) -> Tokens {
        self.trigger_amount(budget)
            .map_or(budget.usable, |trigger| self.target.share_of(trigger))
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::from_preset(Preset::Checkpoint)
    }
}
