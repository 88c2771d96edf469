//! The usage of model calls.

use serde::{Deserialize, Serialize};

/// Tokens and their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Amounts {
    /// Input tokens, including those from the prompt cache.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Input tokens that were expected from the provider's prompt cache.
    pub cache_expected_tokens: u64,
    /// Input tokens that were read from it.
    pub cache_read_tokens: u64,
    /// Tokens that were written to it.
    pub cache_write_tokens: u64,
    /// Whether less than half of the expected tokens were read from it.
    #[serde(default)]
    pub cache_missed: bool,
    /// Dollars; null if a price is unknown.
    pub cost_usd: Option<f64>,
}

impl Amounts {
    /// Whether a cache missed: less than half of the expected tokens were read, which no estimation
    /// error explains.
    pub const fn missed(expected: u64, read: u64) -> bool {
        read.saturating_mul(2) < expected
    }

    /// The sum of amounts; one unknown cost makes the total cost unknown.
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

/// The usage of a turn's requests for summaries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct SummaryUsage {
    /// The total.
    pub usage: Amounts,
    /// The part of models whose summaries were not used: too long, refused, or replaced by quotes;
    /// absent: all were used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused: Option<Amounts>,
}

/// The usage of one agent, or of summaries, by model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct UsageRow {
    /// The agent; null for summaries.
    pub agent: Option<String>,
    /// The model.
    pub model: String,
    /// Number of its runs, or of summaries.
    pub jobs: u64,
    /// Their usage.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// The usage of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct SessionUsage {
    /// Its id.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// Its title.
    pub title: String,
    /// Number of runs of its agents, and of summaries.
    pub jobs: u64,
    /// Their usage.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// The usage of deleted sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct DeletedSessionsUsage {
    /// Number of deleted sessions.
    pub sessions: u64,
    /// Number of their runs and summaries.
    pub jobs: u64,
    /// Their usage.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// The name of summaries among agents.
pub const SUMMARIES: &str = "(summaries)";

/// Selects and groups usage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct UsageQuery {
    /// The session; absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How it is grouped in addition; absent: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(inline))]
    pub by: Option<UsageBy>,
    /// The first day in UTC, as `2026-03-06`; absent: from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The last day in UTC, included; absent: up to now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The agent; `(summaries)`: summaries; absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model, as in `rows`; absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl UsageQuery {
    /// Whether it selects a part of the usage of its sessions.
    pub const fn is_partial(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.agent.is_some() || self.model.is_some()
    }
}

/// How usage is grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum UsageBy {
    /// By agent; summaries are one group.
    Agent,
    /// By model.
    Model,
    /// By session.
    Session,
    /// By day, in UTC.
    Day,
}

impl UsageBy {
    /// All of them.
    pub const ALL: [UsageBy; 4] = [
        UsageBy::Day,
        UsageBy::Agent,
        UsageBy::Model,
        UsageBy::Session,
    ];

    /// The word in requests.
    pub const fn name(self) -> &'static str {
        match self {
            UsageBy::Agent => "agent",
            UsageBy::Model => "model",
            UsageBy::Session => "session",
            UsageBy::Day => "day",
        }
    }
}

/// The usage of an agent, a model, a session or a day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct UsageGroup {
    /// The agent, the model, the session's id, or the day as `2026-03-06`; null: summaries.
    pub key: Option<String>,
    /// The title, of a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Number of runs and summaries; one of several days counts on its first.
    pub jobs: u64,
    /// Input tokens that were not read from the prompt cache.
    pub uncached_tokens: u64,
    /// Their usage.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// The usage of one or all sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Usage {
    /// By agent and model.
    pub rows: Vec<UsageRow>,
    /// The groups that were requested: days from the oldest to the newest, others with the largest
    /// usage first; at most 500. The usage of deleted sessions is in none of the groups by session
    /// or by day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<UsageGroup>,
    /// Number of groups that are left out: the oldest days, or those with the smallest usage.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_groups: u64,
    /// The total.
    pub total: Amounts,
    /// The part of deleted sessions, whose days are unknown; absent if there are none, or a session
    /// or days were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<DeletedSessionsUsage>,
    /// The state of the budgets of the daemon and of owners; for a caller with an owner, of this owner
    /// only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<Budget>,
}

/// Whether nothing is left out.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it with a reference
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An amount that budgets count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ChargedAmount {
    /// Tokens in and out.
    pub tokens: u64,
    /// The cost in dollars; an unknown price counts as 0.
    pub cost_usd: f64,
}

/// The state of one budget: in dollars, tokens or seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Budget {
    /// `daemon`, `owner`, `session`, `turn` or `run`.
    pub level: String,
    /// The owner; absent: the budget is not an owner's. `digest:` and 12 digits of the digest of the
    /// name, if no session and no token has the name any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The turn, in a list with several turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: Option<String>,
    /// `cost`, `tokens` or `time`.
    pub resource: String,
    /// The maximum.
    pub cap: f64,
    /// The spent amount.
    pub spent: f64,
    /// The amount reserved for calls in progress and for last calls.
    pub reserved: f64,
    /// The remaining amount.
    pub remaining: f64,
}

impl Budget {
    /// The level, with the name of the owner.
    pub fn name(&self) -> String {
        match &self.owner {
            Some(owner) => format!("{} {owner}", self.level),
            None => self.level.clone(),
        }
    }
}
