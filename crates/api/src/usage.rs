//! What model calls used.

use serde::{Deserialize, Serialize};

/// Tokens and their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Amounts {
    /// Tokens in, those from the prompt cache included.
    pub input_tokens: u64,
    /// Tokens out.
    pub output_tokens: u64,
    /// Tokens in that were expected from the provider's prompt cache.
    pub cache_expected_tokens: u64,
    /// Those that came from it.
    pub cache_read_tokens: u64,
    /// Those that were written to it.
    pub cache_write_tokens: u64,
    /// Whether less than half of what was expected came from it.
    #[serde(default)]
    pub cache_missed: bool,
    /// Dollars; none where a price is not known.
    pub cost_usd: Option<f64>,
}

impl Amounts {
    /// Whether a cache missed its expected tokens: it had less than half of them, which no error of
    /// an estimate explains.
    pub const fn missed(expected: u64, read: u64) -> bool {
        read.saturating_mul(2) < expected
    }

    /// Amounts together; a cost that is not known makes that of all unknown.
    pub fn together<'a>(of: impl Iterator<Item = &'a Amounts>) -> Amounts {
        let none = Amounts {
            cost_usd: Some(0.0),
            ..Amounts::default()
        };
        let sum = of.fold(none, |sum, more| Amounts {
            input_tokens: sum.input_tokens + more.input_tokens,
            output_tokens: sum.output_tokens + more.output_tokens,
            cache_expected_tokens: sum.cache_expected_tokens + more.cache_expected_tokens,
            cache_read_tokens: sum.cache_read_tokens + more.cache_read_tokens,
            cache_write_tokens: sum.cache_write_tokens + more.cache_write_tokens,
            cache_missed: false,
            cost_usd: sum.cost_usd.zip(more.cost_usd).map(|(a, b)| a + b),
        });
        Amounts {
            cache_missed: Amounts::missed(sum.cache_expected_tokens, sum.cache_read_tokens),
            ..sum
        }
    }
}

/// What one asker used of one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Row {
    /// The agent; none for summaries.
    pub agent: Option<String>,
    /// The model.
    pub model: String,
    /// Runs it took part in, or summaries that it wrote.
    pub jobs: u64,
    /// What they used.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// What a session used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct SessionUsage {
    /// Its id.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// Its title.
    pub title: String,
    /// Runs of its agents, and summaries.
    pub jobs: u64,
    /// What they used.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// What sessions used that were deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Deleted {
    /// How many they are.
    pub sessions: u64,
    /// Runs of theirs, and summaries.
    pub jobs: u64,
    /// What they used.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// Of which session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct UsageQuery {
    /// The session; none: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// What a session, or all of them, used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Usage {
    /// By asker and model.
    pub rows: Vec<Row>,
    /// All of it together.
    pub total: Amounts,
    /// What of it sessions used that were deleted; none where there are none, or one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Deleted>,
    /// How the daemon's budgets stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<Budget>,
}

/// How one bound stands: in dollars, tokens or seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Budget {
    /// `daemon`, `session`, `turn` or `run`.
    pub level: String,
    /// `cost`, `tokens` or `time`.
    pub resource: String,
    /// The most.
    pub cap: f64,
    /// What is used up.
    pub spent: f64,
    /// What is reserved for calls under way, and for last ones.
    pub reserved: f64,
    /// What can still be taken.
    pub left: f64,
}
