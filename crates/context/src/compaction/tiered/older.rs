//! Making older topics and bulks smaller: summarise topics, merge summaries, and finally drop the
//! oldest.

use std::collections::BTreeMap;

use crate::checkpoint::{Body, Checkpoint, Tier};
use crate::compaction::cover::covering;
use crate::compaction::situation::Situation;
use crate::compaction::unit::Unit;
use crate::compaction::{Cover, Mode, Plan, Step, UpcomingSummary};
use crate::ids::Ordinal;
use crate::tokens::Tokens;

use super::Tiered;

/// If more topics than this must be summarised at once, several become one summary: an imported
/// conversation must not need one summary for each of hundreds of topics. It has the tokens that
/// one summary for each would have.
const BACKLOG: usize = 16;
/// The part of a backlog that becomes one summary: steps of a quarter each end soon.
const BACKLOG_PART: usize = 4;

/// The part of an older topic that may be summarised: verbatim units, and summaries.
#[derive(Debug)]
pub(super) struct Entry<'s> {
    pub(super) start: Ordinal,
    units: Vec<&'s Unit>,
    blocks: Vec<&'s Checkpoint>,
    tokens: Tokens,
}

impl Entry<'_> {
    const fn starting_at(start: Ordinal) -> Self {
        Entry {
            start,
            units: Vec::new(),
            blocks: Vec::new(),
            tokens: Tokens::ZERO,
        }
    }

    /// Whether everything that may be summarised is.
    fn is_summarised(&self) -> bool {
        self.units.is_empty()
    }

    /// The tokens of its summary, if it has one of its own.
    fn as_summary(&self, t: &Tiered<'_, '_>) -> Tokens {
        if self.is_summarised() {
            return self.tokens;
        }
        topic_summary(t).min(self.tokens.half())
    }

    /// How many topics it counts for, at least one: a summary of several is as long as one for each.
    fn topics(&self, t: &Tiered<'_, '_>) -> u64 {
        if self.is_summarised() {
            (self.tokens.0 / topic_summary(t).0.max(1)).max(1)
        } else {
            1
        }
    }
}

/// Maximum tokens of the summary of one topic, the dialect's overhead included.
fn topic_summary(t: &Tiered<'_, '_>) -> Tokens {
    t.tiers.topic_cap + t.s.budget.per_message
}

/// The topics before the current one, oldest first. Units with a pinned part are excluded, and so
/// are topics in a bulk.
pub(super) fn entries<'s>(s: &'s Situation<'_>, topic: Ordinal, first: usize) -> Vec<Entry<'s>> {
    let mut entries: BTreeMap<Ordinal, Entry<'s>> = BTreeMap::new();
    // On request a topic is summarised whole, also if a person sealed it with the newest message.
    let latest = match s.mode {
        Mode::Part(_) => s.open_start(),
        _ => s.latest_start,
    };
    let mut older = &s.units[..first.min(latest)];
    while let Some(last) = older.last() {
        // A unit that extends over the end of a topic belongs to the later topic.
        let start = s.view.topic_of(last.span.last);
        let own = older.partition_point(|unit| unit.span.last < start);
        let (before, units) = older.split_at(own);
        let entry = entries
            .entry(start)
            .or_insert_with(|| Entry::starting_at(start));
        entry.units = units.iter().filter(|unit| !unit.pinned).collect();
        entry.tokens = entry.units.iter().map(|unit| unit.count.tokens).sum();
        older = before;
    }
    let topics = s.view.active().iter().map(|c| &**c);
    for block in topics.filter(|c| c.tier == Tier::Topic && c.first() < topic) {
        let start = s.view.topic_of(block.cutoff);
        let entry = entries
            .entry(start)
            .or_insert_with(|| Entry::starting_at(start));
        entry.tokens += s.block(block).tokens;
        entry.blocks.push(block);
    }
    let entries = entries.into_values();
    entries
        .filter(|entry| !entry.units.is_empty() || !entry.blocks.is_empty())
        .collect()
}

fn covering_all(t: &Tiered<'_, '_>, entries: &[Entry<'_>]) -> Option<Cover> {
    let units: Vec<&Unit> = entries.iter().flat_map(|e| &e.units).copied().collect();
    let blocks: Vec<&Checkpoint> = entries.iter().flat_map(|e| &e.blocks).copied().collect();
    covering(t.s, &units, &blocks)
}

/// Summarises the oldest unsummarised topic: if the tier exceeds its share, or if a part of the
/// topic was summarised before its end. Of a backlog, several topics at once.
pub(super) fn summarise(t: &Tiered<'_, '_>) -> Option<Plan> {
    let due = if t.over[1] { topics_due(t) } else { 0 };
    let several = if due > BACKLOG { backlog(t, due) } else { None };
    let is_open = |entry: &&Entry<'_>| {
        let due = t.over[1] || !entry.blocks.is_empty();
        let cap = t.cap(Tier::Topic, t.tiers.topic_cap, entry.tokens);
        due && !entry.is_summarised() && cap.is_some()
    };
    several.or_else(|| summarised(t, std::slice::from_ref(t.older.iter().find(is_open)?)))
}

/// One summary of topics that are verbatim, at least in part, as long as one for each.
pub(super) fn summarised(t: &Tiered<'_, '_>, topics: &[Entry<'_>]) -> Option<Plan> {
    if topics.iter().all(Entry::is_summarised) {
        return None;
    }
    let most = t.tiers.topic_cap.times(topics.len() as u64);
    t.summary(covering_all(t, topics)?, Tier::Topic, most)
}

/// The topics after that of the cover that are summarised next: as many as necessary even if the
/// summaries before them have no tokens.
pub(super) fn after(t: &Tiered<'_, '_>, cover: &Cover, most: usize) -> Vec<UpcomingSummary> {
    let is_due = |entry: &Entry<'_>| !entry.is_summarised() && t.over[1];
    let covered = |entry: &Entry<'_>| covering_all(t, std::slice::from_ref(entry));
    let own = |entry: &Entry<'_>| covered(entry).is_some_and(|own| own == *cover);
    let Some(first) = t.older.iter().position(own) else {
        return Vec::new();
    };
    let mut excess = t.loads[1].minus(t.targets[1]).minus(t.older[first].tokens);
    let mut ahead = Vec::new();
    for entry in t.older[first + 1..].iter().filter(|entry| is_due(entry)) {
        if excess == Tokens::ZERO || ahead.len() == most {
            break;
        }
        let cap = t.cap(Tier::Topic, t.tiers.topic_cap, entry.tokens);
        let (Some(cap), Some(cover)) = (cap, covered(entry)) else {
            continue;
        };
        // A summary of a part of it must be read first: that needs a separate request.
        if entry.blocks.is_empty() {
            ahead.push(UpcomingSummary { cover, cap });
        }
        excess = excess.minus(entry.tokens);
    }
    ahead
}

/// Number of verbatim topics that must be summarised.
fn topics_due(t: &Tiered<'_, '_>) -> usize {
    let mut excess = t.loads[1].minus(t.targets[1]);
    let verbatim = t.older.iter().filter(|entry| !entry.is_summarised());
    let due = verbatim.take_while(|entry| {
        let is_due = excess > Tokens::ZERO;
        excess = excess.minus(entry.tokens.minus(entry.as_summary(t)));
        is_due
    });
    due.count()
}

/// The next summary of a backlog. The oldest topics become bulks if their tier would not hold a
/// summary of each; then the others become summaries of several topics.
fn backlog(t: &Tiered<'_, '_>, due: usize) -> Option<Plan> {
    let part = |all: usize| match all > BACKLOG {
        true => all / BACKLOG_PART,
        false => all,
    };
    let beyond = t.older.len() - newest_within(t);
    let made = bulk(t, part(beyond), beyond).or_else(|| bulk(t, beyond, beyond));
    made.or_else(|| {
        let mut runs = t
            .older
            .chunk_by(|one, next| one.is_summarised() == next.is_summarised());
        runs.find_map(|run| summarised(t, &run[..run.len().min(part(due))]))
    })
}

/// Number of the newest topics that the target of their tier holds if each is summarised.
fn newest_within(t: &Tiered<'_, '_>) -> usize {
    let all: Tokens = t.older.iter().map(|entry| entry.tokens).sum();
    let pinned = t.loads[1].minus(all);
    let mut room = t.targets[1].minus(pinned);
    let newest = t.older.iter().rev().take_while(|entry| {
        let tokens = entry.as_summary(t);
        let is_within = tokens <= room;
        room = room.minus(tokens);
        is_within
    });
    newest.count()
}

/// One bulk of the `count` oldest topics. It may have the tokens of the bulks that they would make by
/// the usual number, within their share of the room left for bulks of `all` topics; at least `bulk_cap`.
fn bulk(t: &Tiered<'_, '_>, count: usize, all: usize) -> Option<Plan> {
    let oldest = &t.older[..count];
    let cover = covering_all(t, oldest)?;
    let topics: u64 = oldest.iter().map(|entry| entry.topics(t)).sum();
    let usual = t.tiers.bulk_cap.times(topics).0 / merge(t) as u64;
    let left = t.targets[2].minus(t.loads[2]);
    let part = left.times(count as u64).0 / (all as u64).max(1);
    let most = t.tiers.bulk_cap.max(Tokens(usual.min(part)));
    t.summary(cover, Tier::Bulk, most)
}

/// Number of topics, or bulks, that become one bulk.
fn merge(t: &Tiered<'_, '_>) -> usize {
    t.tiers.merge.max(2) as usize
}

/// Merges the oldest topics into a bulk: first without the newest few, then with them.
pub(super) fn merge_topics(t: &Tiered<'_, '_>) -> Option<Plan> {
    let keep = t.tiers.topics_keep as usize;
    let all = t.older.len();
    let count = oldest_to_merge(t)?;
    // Kept topics give way before anything is dropped, and two are merged if there are no more.
    let most = if all >= keep + count { all - keep } else { all };
    let count = count.max(small_topics(t, most));
    (count..=all).find_map(|count| bulk(t, count, count))
}

/// Number of the oldest entries that become one bulk; none if there is only one topic.
fn oldest_to_merge(t: &Tiered<'_, '_>) -> Option<usize> {
    let topics = |entries: &[Entry<'_>]| entries.iter().map(|entry| entry.topics(t)).sum::<u64>();
    let enough = topics(&t.older).min(merge(t) as u64).max(2);
    (1..=t.older.len()).find(|count| topics(&t.older[..*count]) >= enough)
}

/// Number of the oldest topics that are too small for a summary each, and are enough together: for
/// the target of their tier, or for a bulk of full size.
fn small_topics(t: &Tiered<'_, '_>, most: usize) -> usize {
    let excess = t.loads[1].minus(t.targets[1]);
    let full = t.tiers.bulk_cap.min(t.targets[2]);
    let enough = excess.min(full + full);
    let mut sum = Tokens::ZERO;
    let oldest = t.older[..most].iter();
    let oldest = oldest.take_while(|entry| {
        let more = sum < enough && !entry.is_summarised();
        sum += entry.tokens;
        more
    });
    oldest.count()
}

/// Makes the oldest bulk smaller if it is large and that is enough; merges the oldest bulks; makes a
/// bulk smaller that exceeds the limit of a bulk or of its whole tier; makes kept topics another
/// bulk so that there are enough to merge; merges the two oldest; drops the oldest.
pub(super) fn shrink_bulks(t: &Tiered<'_, '_>) -> Option<Plan> {
    let bulks = t.summaries(|c| c.tier != Tier::Topic);
    let several = merge(t);
    let overhead = t.s.budget.per_message;
    let most = (t.tiers.bulk_cap + overhead).min(t.targets[2]);
    let large = |bulk: &&&Checkpoint| t.s.block(bulk).tokens > most;
    let excess = t.loads[2].minus(t.targets[2]);
    let is_enough = |bulk: &&&Checkpoint| {
        let tokens = t.s.block(bulk).tokens;
        tokens.minus(overhead).half() >= excess
    };
    let oldest = bulks.first().filter(large).filter(is_enough);
    (oldest.and_then(|bulk| merged(t, &[*bulk])))
        .or_else(|| merged(t, bulks.get(..several)?))
        .or_else(|| merged(t, &[*bulks.iter().find(large)?]))
        .or_else(|| {
            let topics = t.older.get(..several)?;
            let summarised = topics.iter().all(Entry::is_summarised);
            summarised.then(|| bulk(t, several, several))?
        })
        .or_else(|| merged(t, bulks.get(..2)?))
        .or_else(|| (1..=bulks.len()).find_map(|oldest| dropped(t, &bulks[..oldest])))
}

/// One bulk instead of bulks. It may have all that its tier has left then.
fn merged(t: &Tiered<'_, '_>, bulks: &[&Checkpoint]) -> Option<Plan> {
    let cover = covering(t.s, &[], bulks)?;
    let others = t.loads[2].minus(cover.original) + t.s.budget.per_message;
    let most = t.tiers.bulk_cap.max(t.targets[2].minus(others));
    t.summary(cover, Tier::Bulk, most)
}

/// Leaves a note of the oldest bulks and of earlier dropped ones, if that shrinks the context: a
/// bulk that is no longer than a note leaves with the next one.
fn dropped(t: &Tiered<'_, '_>, oldest: &[&Checkpoint]) -> Option<Plan> {
    let active = t.s.view.active().iter().map(|c| &**c);
    let notes = active.filter(|c| c.body == Body::Tombstone);
    let leaving: Vec<&Checkpoint> = notes.chain(oldest.iter().copied()).collect();
    let cover = covering(t.s, &[], &leaving)?;
    (cover.original > t.s.note()).then(|| t.s.plan(Step::Drop { cover }, false))
}
