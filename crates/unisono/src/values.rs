//! Times, amounts and names in JSON.

use jiff::Timestamp as Instant;
use unisono_api::blob::Extent;
use unisono_api::compaction::{CompactionEffect, FactCoverage};
use unisono_api::usage::{Amounts, Budget};
use unisono_context::call::Usage;
use unisono_context::{Cost, Timestamp, attachment, checkpoint};
use unisono_session::budget::BudgetStatus;
use unisono_session::trace;

/// RFC 3339 in UTC, to the millisecond.
pub fn instant(at: Timestamp) -> String {
    match Instant::from_millisecond(at.0) {
        Ok(at) => at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
        Err(_) => at.0.to_string(),
    }
}

/// The same; none for an unknown instant.
pub fn known_instant(at: Timestamp) -> Option<String> {
    at.is_known().then(|| instant(at))
}

/// The same for milliseconds since 1970 UTC, the format of the store.
pub fn unix_ms(ms: u64) -> String {
    instant(Timestamp(i64::try_from(ms).unwrap_or(i64::MAX)))
}

/// Dollars; none if a price is unknown.
pub fn dollars(cost: Option<Cost>) -> Option<f64> {
    cost.map(|cost| cost.micro_dollars() as f64 / 1e6)
}

/// Number of facts that a summary keeps.
pub fn coverage(of: checkpoint::FactCoverage) -> FactCoverage {
    let checkpoint::FactCoverage {
        facts,
        kept,
        quoted,
    } = of;
    FactCoverage {
        facts,
        kept,
        quoted,
    }
}

/// How large a content is to a model.
pub fn extent(of: attachment::Extent) -> Extent {
    match of {
        attachment::Extent::Pixels { width, height } => Extent {
            width: Some(width),
            height: Some(height),
            pages: None,
        },
        attachment::Extent::Pages(pages) => Extent {
            width: None,
            height: None,
            pages: Some(pages),
        },
    }
}

/// The state of a budget.
pub fn budget(of: &BudgetStatus) -> Budget {
    budget_of(None, of)
}

/// A budget, which may be that of an owner.
pub fn budget_of(owner: Option<&str>, of: &BudgetStatus) -> Budget {
    let amount = |amount| of.in_units(amount);
    Budget {
        level: of.level.name().to_owned(),
        owner: owner.map(str::to_owned),
        turn: None,
        resource: of.resource.name().to_owned(),
        cap: amount(of.cap),
        spent: amount(of.spent),
        reserved: amount(of.reserved),
        remaining: amount(of.remaining()),
    }
}

/// Tokens and cost.
pub fn amounts(usage: &Usage) -> Amounts {
    Amounts {
        input_tokens: usage.input.0,
        output_tokens: usage.output.0,
        cache_expected_tokens: usage.cache_expected.0,
        cache_read_tokens: usage.cache_read.0,
        cache_write_tokens: usage.cache_write.0,
        cache_missed: usage.missed(),
        cost_usd: dollars(usage.cost),
    }
}

pub(crate) const fn effect(of: trace::CompactionEffect) -> CompactionEffect {
    match of {
        trace::CompactionEffect::Nothing => CompactionEffect::Nothing,
        trace::CompactionEffect::Masked => CompactionEffect::Masked,
        trace::CompactionEffect::Cut => CompactionEffect::Cut,
        trace::CompactionEffect::Dropped => CompactionEffect::Dropped,
        trace::CompactionEffect::Summarised => CompactionEffect::Summarised,
        trace::CompactionEffect::Reverted => CompactionEffect::Reverted,
    }
}
