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
/// conversation must not need one summary for each of hundreds of topics.
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
/// topic was summarised before its end.
pub(super) fn summarise(t: &Tiered<'_, '_>) -> Option<Plan> {
    let is_open = |entry: &Entry<'_>| {
        let due = t.over[1] || !entry.blocks.is_empty();
        due && !entry.is_summarised() && t.cap(Tier::Topic, entry.tokens).is_some()
    };
    let first = t.older.iter().position(is_open)?;
    let group = if t.over[1] { group(t, &is_open) } else { 1 };
    let run = t.older[first..].iter().take(group);
    let run = run.take_while(|entry| is_open(entry)).count();
    summarised(t, &t.older[first..first + run])
}

/// One summary of topics that are verbatim, at least in part.
pub(super) fn summarised(t: &Tiered<'_, '_>, topics: &[Entry<'_>]) -> Option<Plan> {
    if topics.iter().all(Entry::is_summarised) {
        return None;
    }
    t.summary(covering_all(t, topics)?, Tier::Topic)
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
        let (Some(cap), Some(cover)) = (t.cap(Tier::Topic, entry.tokens), covered(entry)) else {
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

/// Number of topics that become one summary: one, except in a backlog.
fn group(t: &Tiered<'_, '_>, is_open: &impl Fn(&Entry<'_>) -> bool) -> usize {
    let mut excess = t.loads[1].minus(t.targets[1]);
    let mut due = 0;
    for entry in t.older.iter().filter(|entry| is_open(entry)) {
        if excess == Tokens::ZERO {
            break;
        }
        excess = excess.minus(entry.tokens.minus(t.tiers.topic_cap));
        due += 1;
    }
    if due > BACKLOG { due / BACKLOG_PART } else { 1 }
}

/// Merges the oldest topics into a bulk: first without the newest few, then with them.
pub(super) fn merge_topics(t: &Tiered<'_, '_>) -> Option<Plan> {
    let keep = t.tiers.topics_keep as usize;
    let merge = t.tiers.merge.max(2) as usize;
    let all = t.older.len();
    // Kept topics give way before anything is dropped, and two are merged if there are no more.
    let (count, most) = if all >= keep + merge {
        (merge, all - keep)
    } else {
        (merge.min(all), all)
    };
    let count = count.max(2).max(small_topics(t, most));
    (count..=most).find_map(|count| t.summary(covering_all(t, &t.older[..count])?, Tier::Bulk))
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

/// Merges the oldest bulks; makes a bulk smaller that exceeds the limit of a bulk or of its whole
/// tier; makes kept topics another bulk so that there are enough to merge; merges the two oldest;
/// drops the oldest.
pub(super) fn shrink_bulks(t: &Tiered<'_, '_>) -> Option<Plan> {
    let bulks = t.summaries(|c| c.tier != Tier::Topic);
    let merge = t.tiers.merge.max(2) as usize;
    let merged = |bulks: &[&Checkpoint]| t.summary(covering(t.s, &[], bulks)?, Tier::Bulk);
    let overhead = t.s.budget.per_message;
    let most = (t.tiers.bulk_cap + overhead).min(t.targets[2]);
    let large = |bulk: &&&Checkpoint| t.s.block(bulk).tokens > most;
    let three = bulks.get(..merge).and_then(merged);
    three
        .or_else(|| merged(&[*bulks.iter().find(large)?]))
        .or_else(|| {
            let topics = t.older.get(..merge)?;
            let summarised = topics.iter().all(Entry::is_summarised);
            summarised.then(|| t.summary(covering_all(t, topics)?, Tier::Bulk))?
        })
        .or_else(|| bulks.get(..2).and_then(merged))
        .or_else(|| (1..=bulks.len()).find_map(|oldest| dropped(t, &bulks[..oldest])))
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
