//! The preset with three tiers: the current topic, older topics, and bulks of the oldest.
//!
//! Each tier has a share of the budget, and bulks have what the other tiers leave of theirs. A tier
//! that exceeds its limit is made smaller, in this order:
//!
//! ```text
//! current topic   1 cut the largest message         2 summarise between the first and the last
//! older topics    3 summarise them, oldest first    4 merge the three oldest into a bulk
//! bulks           5 merge the three oldest          6 drop the oldest
//! ```
//!
//! If many messages of the current topic are large, step 2 comes first. If many topics are due, as
//! after an import, step 3 has two parts: the oldest topics become bulks at once if their tier would
//! not hold a summary of each, and the others become summaries of several topics. Such a summary is
//! as long as those that it stands for.
//!
//! The tiers and their numbers are those of Agent Zero's history and its successor.

mod current;
mod older;

use crate::budget::Budget;
use crate::checkpoint::{Body, Checkpoint, Tier};
use crate::ids::Ordinal;
use crate::policy::{Policy, Tiers};
use crate::tokens::{Count, Ppm, Tokens};
use crate::view::{self, View};

use super::cover::{SMALLEST_SUMMARY, writer};
use super::situation::Situation;
use super::{Cover, Mode, Plan, Step, UpcomingSummary};

use older::Entry;

/// Tokens of each tier of a branch under a budget, the dialect's overhead included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loads {
    /// The current topic.
    pub topic: Count,
    /// Older topics, verbatim or summarised.
    pub topics: Count,
    /// Bulks, and summaries of the conversation.
    pub bulks: Count,
}

impl Loads {
    /// The loads of a branch; none while a message is not counted. The cost depends on the number
    /// of active checkpoints and of shortened messages, not on that of messages.
    pub fn of_view(view: &View<'_>, budget: &Budget) -> Option<Loads> {
        let first = view.current_topic();
        let topic = Loads::since(view, first, budget)?;
        let all = Loads::since(view, Ordinal::FIRST, budget)?;
        let others = view.active().iter().filter(|c| c.tier != Tier::Topic);
        let bulks: Option<Count> = others.map(|c| view::block(c, budget)).sum();
        Some(Loads {
            topic,
            topics: all.minus(topic),
            bulks: bulks?,
        })
    }

    /// The loads of the messages from `first` on, and of topics that begin there; none while a
    /// message is not counted.
    pub fn since(view: &View<'_>, first: Ordinal, budget: &Budget) -> Option<Count> {
        let own = view.active().iter();
        let own = own.filter(|c| c.tier == Tier::Topic && c.first() >= first);
        let blocks: Option<Count> = own.map(|c| view::block(c, budget)).sum();
        Some(blocks? + view.verbatim_from(first, budget)?)
    }

    /// The limits of the tiers for an amount: their shares, and for bulks what the others leave.
    pub fn limits(self, tiers: &Tiers, amount: Tokens) -> [Tokens; 3] {
        let [topic, topics, bulks] = tiers.shares(amount);
        let left = amount.minus(self.topic.tokens).minus(self.topics.tokens);
        [topic, topics, bulks.max(left)]
    }

    const fn all(self) -> [Count; 3] {
        [self.topic, self.topics, self.bulks]
    }
}

/// Whether a tier exceeds its share, or an ended topic is summarised in part.
pub(super) fn is_due(
    view: &View<'_>,
    policy: &Policy,
    tiers: &Tiers,
    mode: Mode,
    budget: &Budget,
) -> bool {
    let over = Loads::of_view(view, budget).map(|loads| over(loads, policy, tiers, mode, budget));
    over.is_some_and(|over| over.contains(&true)) || summarised_in_part(view)
}

/// The tiers that exceed their limits, or after the first step the target part of them. Estimated
/// counts lower a limit by a tenth.
fn over(loads: Loads, policy: &Policy, tiers: &Tiers, mode: Mode, budget: &Budget) -> [bool; 3] {
    let amount = policy.trigger_amount(budget).unwrap_or(budget.usable);
    let limits = loads.limits(tiers, amount);
    let is_over = |(load, limit): (Count, Tokens)| {
        let limit = match mode {
            Mode::Continue => policy.target.share_of(limit),
            _ if load.is_approximate() => Ppm::percent(90).share_of(limit),
            _ => limit,
        };
        load.tokens > limit
    };
    let [topic, topics, bulks] = loads.all();
    [(topic, limits[0]), (topics, limits[1]), (bulks, limits[2])].map(is_over)
}

/// Whether a topic ended after a part of it was summarised: it must be summarised completely or not
/// at all. The part that is not summarised is its end, and is verbatim.
fn summarised_in_part(view: &View<'_>) -> bool {
    let first = view.current_topic();
    let mut sealed = view.active().iter().filter(|c| c.tier == Tier::Topic);
    sealed.any(|summary| {
        let next = summary.cutoff.next();
        let left = next < first && view.is_uncovered(next) && !view.is_pinned(next);
        left && view.topic_of(next) < next
    })
}

/// The inputs of the six steps.
pub(super) struct Tiered<'s, 'a> {
    s: &'s Situation<'a>,
    tiers: &'s Tiers,
    /// The limit of each tier …
    limits: [Tokens; 3],
    /// … whether the tier exceeds it …
    over: [bool; 3],
    /// … and the target of a tier that did.
    targets: [Tokens; 3],
    loads: [Tokens; 3],
    /// The first unit of the current topic, as an index.
    first: usize,
    /// The start of the current topic.
    topic: Ordinal,
    /// Older topics, oldest first.
    older: Vec<Entry<'s>>,
}

pub(super) fn next(s: &Situation<'_>, tiers: &Tiers) -> Option<Plan> {
    let t = Tiered::new(s, tiers)?;
    let [topic, topics, bulks] = t.over;
    topic
        .then(|| current::shrink(&t))
        .flatten()
        .or_else(|| older::summarise(&t))
        .or_else(|| topics.then(|| older::merge_topics(&t)).flatten())
        .or_else(|| bulks.then(|| older::shrink_bulks(&t)).flatten())
}

impl<'s, 'a> Tiered<'s, 'a> {
    pub(super) fn new(s: &'s Situation<'a>, tiers: &'s Tiers) -> Option<Self> {
        let loads = Loads::of_view(s.view, &s.budget)?;
        let amount = s
            .policy
            .trigger_amount(&s.budget)
            .unwrap_or(s.budget.usable);
        let limits = loads.limits(tiers, amount);
        let over = over(loads, s.policy, tiers, s.mode, &s.budget);
        let mut targets = limits.map(|limit| s.policy.target.share_of(limit));
        if over[1] {
            // Bulks have what older topics will leave.
            let topics = Count::exact(loads.topics.tokens.min(targets[1]).0);
            let left = Loads { topics, ..loads }.limits(tiers, amount);
            targets[2] = s.policy.target.share_of(left[2]);
        }
        let topic = s.view.current_topic();
        let first = s.units.partition_point(|unit| unit.span.last < topic);
        Some(Tiered {
            s,
            tiers,
            limits,
            over,
            targets,
            loads: loads.all().map(|load| load.tokens),
            first,
            topic,
            older: older::entries(s, topic, first),
        })
    }

    /// A summary of the topic of a message, if it has ended and is verbatim, at least in part.
    pub(super) fn summarise_topic(&self, message: Ordinal) -> Option<Plan> {
        if message < Ordinal::FIRST || message > self.s.view.len() {
            return None;
        }
        let start = self.s.view.topic_of(message);
        let entry = self.older.iter().find(|entry| entry.start == start);
        older::summarised(self, std::slice::from_ref(entry?))
    }

    /// The topics after that of the cover that will certainly be summarised.
    pub(super) fn after(&self, cover: &Cover, most: usize) -> Vec<UpcomingSummary> {
        older::after(self, cover, most)
    }

    /// A summary of the middle of the current topic.
    pub(super) fn attention(&self) -> Option<Plan> {
        current::attention(self)
    }

    /// Cuts verbatim messages that are too large, at any position.
    pub(super) fn cut_large(&self, over: Option<Tokens>) -> Option<Plan> {
        current::cut_anywhere(self, over)
    }

    /// The summary blocks of the context, of the tiers that `which` selects.
    fn summaries(&self, which: impl Fn(&Checkpoint) -> bool) -> Vec<&'s Checkpoint> {
        let active = self.s.view.active().iter().map(|c| &**c);
        let summaries = active.filter(|c| matches!(c.body, Body::Summary(_)));
        summaries.filter(|c| which(c)).collect()
    }

    /// A summary of at most `most` tokens and half of the replaced ones, within its tier.
    fn summary(&self, cover: Cover, tier: Tier, most: Tokens) -> Option<Plan> {
        let cap = self.cap(tier, most, cover.original)?;
        let step = Step::Summarise {
            cover,
            tier,
            cap,
            writer: writer(self.s),
        };
        Some(self.s.plan(step, false))
    }

    /// Maximum tokens of a summary; none if that is too small for a useful text.
    fn cap(&self, tier: Tier, most: Tokens, original: Tokens) -> Option<Tokens> {
        let target = match tier {
            Tier::Topic => self.targets[1],
            Tier::Bulk | Tier::Conversation => self.targets[2],
        };
        let overhead = self.s.budget.per_message;
        let cap = most
            .min(target.minus(overhead))
            .min(original.minus(overhead).half());
        (cap >= SMALLEST_SUMMARY).then_some(cap)
    }
}
