//! The topics that later steps of the same turn will certainly summarise, so that one request can
//! ask for all of them.

use crate::checkpoint::{Tier, Writer};
use crate::ids::Timestamp;
use crate::policy::Policy;
use crate::tokens::Tokens;
use crate::view::View;

use super::situation::Situation;
use super::tiered::Tiered;
use super::{Cover, Mode, Plan, Step};

/// A topic that a later step summarises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpcomingSummary {
    /// Its cover.
    pub cover: Cover,
    /// Maximum tokens of the summary, key facts and marking included.
    pub cap: Tokens,
}

/// The topics after that of the planned step, oldest first and at most `most`, that steps of the
/// same turn summarise, however short the summaries become. None if a quota may have them written
/// without a model.
pub fn ahead(view: &View<'_>, plan: &Plan, policy: &Policy, most: usize) -> Vec<UpcomingSummary> {
    let Step::Summarise {
        cover,
        tier: Tier::Topic,
        writer: Writer::Model,
        ..
    } = &plan.step
    else {
        return Vec::new();
    };
    let mode = Mode::Continue;
    let effective = view.effective(&plan.budget);
    let (Some(tiers), Some(effective), None) = (mode.tiers(policy), effective, policy.quota) else {
        return Vec::new();
    };
    // Only a quota depends on the time.
    let now = Timestamp::default();
    let situation = Situation::new(view, plan.budget, effective, policy, mode, now);
    let tiered = Tiered::new(&situation, tiers);
    tiered.map_or_else(Vec::new, |tiered| tiered.after(cover, most))
}
