//! Summaries: read, weigh, choose, lay out, and fit to the cap by exact counts.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use unisono_context::checkpoint::{Body, FACT_TOKENS_MAX, KeyFact, Span, block_text};
use unisono_context::{Ordinal, Tokens};

use super::corrections::CorrectedChoice;
use super::fit::{Fitted, fit};
use super::outcomes::{failed_calls, outcome_lines};
use super::passage::Passage;
use super::pool::Pool;
use super::quote::{push_alone, quotable_text};
use super::render::{self, Coverage};
use super::section::Section;
use super::select::{Preference, Worth, choose};
use super::split::first_words;
use super::{SummaryDraft, SummaryInput, SummaryLayout, days, facts, prior, score, weights};
use crate::date::utc_date;
use crate::redact::redact;

/// Units are chosen for more than the cap, since their tokens are estimates.
const MARGIN: f32 = 1.5;
/// The number of the best units that are tried if the cap may be too small for any.
const LAST_TRIES: usize = 20;
/// The part of a checkpoint's block for key facts, and its minimum: below it the summary needs all
/// the room.
const FACTS_PART: u64 = 12;
const FACTS_MIN: Tokens = Tokens(42);

/// Summarises a conversation.
pub fn summarise(input: &SummaryInput<'_>) -> SummaryDraft {
    let texts = RedactedTexts::redacted(input);
    let read = WeighedInput::weighed(input, &texts);
    let chosen = read.choose();
    let key_facts = read.facts(&chosen, FACT_TOKENS_MAX);
    let Fitted {
        units,
        text,
        tokens,
    } = read.text(&chosen, input.cap.0);
    SummaryDraft {
        text,
        tokens: Tokens(tokens),
        key_facts,
        quoted: quoted(&read.pool, &units),
    }
}

/// Summarises a conversation as a checkpoint's block: summary, key facts and their markup have at
/// most the cap together, and no quote is in both. `covers` are the messages that the block
/// replaces.
///
/// The text is empty if the cap leaves no room for a word of any message.
pub fn checkpoint(input: &SummaryInput<'_>, covers: &[Span]) -> SummaryDraft {
    let texts = RedactedTexts::redacted(input);
    WeighedInput::weighed(input, &texts).checkpoint(covers)
}

/// The key facts of a checkpoint whose summary another model writes: the ones that [`checkpoint`]
/// would keep, in the same part of the cap.
pub fn key_facts(input: &SummaryInput<'_>) -> Vec<KeyFact> {
    let texts = RedactedTexts::redacted(input);
    let read = WeighedInput::weighed(input, &texts);
    read.checkpoint_facts(&read.choose())
}

/// The texts to quote from, without credentials.
pub(super) struct RedactedTexts<'a> {
    passages: Vec<Cow<'a, str>>,
    /// The lines of the outcomes of tool results, at the indices of their passages.
    outcomes: Vec<Option<String>>,
    earlier: Option<Cow<'a, str>>,
}

impl<'a> RedactedTexts<'a> {
    pub(super) fn redacted(input: &SummaryInput<'a>) -> RedactedTexts<'a> {
        let passages: Vec<_> = input.passages.iter().map(quotable_text).collect();
        RedactedTexts {
            outcomes: outcome_lines(input.passages, &passages),
            passages,
            earlier: input.prior.map(redact),
        }
    }
}

/// All units with their worth.
pub(super) struct WeighedInput<'a> {
    input: SummaryInput<'a>,
    pub(super) pool: Pool<'a>,
    pub(super) worth: Worth,
    pub(super) coverage: Coverage,
}

impl<'a> WeighedInput<'a> {
    pub(super) fn weighed(
        input: &SummaryInput<'a>,
        texts: &'a RedactedTexts<'_>,
    ) -> WeighedInput<'a> {
        let mut pool = Pool::new();
        let first = input.passages.iter().map(|passage| passage.ordinal.0).min();
        let before = Ordinal(first.map_or(u32::MAX, |first| first.saturating_sub(1)));
        let (covered, mut days) = match texts.earlier.as_deref() {
            Some(summary) => prior::add(&mut pool, summary, before),
            None => Default::default(),
        };
        let at = |passage: &Passage<'_>| passage.at.0.div_euclid(days::MS_PER_DAY);
        let new_days = input.passages.chunk_by(|one, next| at(one) == at(next));
        let firsts = new_days.filter_map(|of_day| utc_date(of_day.first()?.at));
        days.known.extend(firsts);
        let failed = failed_calls(input.passages);
        let each = texts.passages.iter().zip(&texts.outcomes).zip(failed);
        for (passage, ((text, outcome), is_failed)) in input.passages.iter().zip(each) {
            pool.add_passage(passage, text, is_failed);
            if let Some(outcome) = outcome {
                pool.add_outcome(passage, outcome);
            }
        }
        pool.dropped_words = input.telegraphic.then(|| pool.droppable_words());
        let ordinals = || input.passages.iter().map(|passage| passage.ordinal);
        let oldest = pool.units.iter().filter_map(|unit| unit.ordinal);
        let coverage = Coverage {
            first: covered.or_else(|| oldest.chain(ordinals()).min()),
            last: ordinals().max(),
            days,
        };
        WeighedInput {
            input: *input,
            worth: worth(&mut pool, &coverage, input),
            pool,
            coverage,
        }
    }

    /// See [`super::checkpoint`].
    pub(super) fn checkpoint(&mut self, covers: &[Span]) -> SummaryDraft {
        let input = self.input;
        if let Some(span) = covers.first() {
            self.coverage.first = Some(span.first);
        }
        let mut chosen = self.choose();
        let mut key_facts = self.checkpoint_facts(&chosen);
        let dropped = facts::facts_without_room(input.prior_facts, &key_facts);
        if !dropped.is_empty() {
            // As key facts they were left out of the earlier summary.
            prior::add_facts(&mut self.pool, &dropped);
            self.worth = worth(&mut self.pool, &self.coverage, &input);
            chosen = self.choose();
        }
        let is_fact = |text: &str| key_facts.iter().any(|fact| *fact.text == *text);
        let units = &mut chosen.units;
        units.retain(|&unit| !is_fact(&facts::fact_text(&self.pool, unit)));
        let block = |text: String, facts: &[KeyFact]| {
            let text = block_text(covers, &Body::Summary(text.into()), facts);
            (input.count)(&text)
        };
        let frame = block(String::new(), &key_facts);
        let mut room = input.cap.0.saturating_sub(frame);
        loop {
            let fitted = self.text(&chosen, room);
            let tokens = block(fitted.text.clone(), &key_facts);
            let over = tokens.saturating_sub(input.cap.0);
            if over == 0 || fitted.text.is_empty() {
                key_facts.retain(|_| !fitted.text.is_empty());
                return SummaryDraft {
                    quoted: quoted(&self.pool, &fitted.units),
                    text: fitted.text,
                    tokens: Tokens(tokens),
                    key_facts,
                };
            }
            room = room.saturating_sub(over);
        }
    }

    /// The units of a summary in the order of choice, more than fit the cap.
    fn choose(&self) -> CorrectedChoice {
        let budget = self.input.cap.0 as f32 * MARGIN;
        let chosen = choose(&self.pool, &self.worth, self.preference(), budget);
        CorrectedChoice::new(&self.pool, &chosen)
    }

    /// How units are chosen: beside an earlier summary, new messages get their share of the room before
    /// its other lines do. After that all compete.
    fn preference(&self) -> Preference {
        if !self.pool.units.iter().any(|unit| unit.prior) {
            return weights::SUMMARY;
        }
        let new = match self.input.passages {
            [] => 0.0,
            _ => (1.0 / self.coverage.per_new_message(&self.input)).min(weights::NEW_PART),
        };
        Preference {
            spread: weights::ROLLING_SPREAD,
            earlier: (1.0 - new) / MARGIN,
            new: new / MARGIN,
            ..weights::SUMMARY
        }
    }

    /// The facts in their part of a checkpoint's block.
    fn checkpoint_facts(&self, chosen: &CorrectedChoice) -> Vec<KeyFact> {
        match Tokens(self.input.cap.0 / FACTS_PART) {
            small if small < FACTS_MIN => Vec::new(),
            room => self.facts(chosen, room),
        }
    }

    /// Facts that nothing corrects: as key facts they stand without their corrections.
    fn facts(&self, chosen: &CorrectedChoice, room: Tokens) -> Vec<KeyFact> {
        let is_valid = |unit: &usize| !chosen.is_corrected(*unit);
        let valid: Vec<usize> = chosen.units.iter().copied().filter(is_valid).collect();
        let is_fact = |unit: usize, fact: &KeyFact| {
            self.pool.units[unit].ordinal == Some(fact.ordinal)
                && *facts::fact_text(&self.pool, unit) == *fact.text
        };
        let mut prior = self.input.prior_facts.to_vec();
        prior.retain(|fact| !chosen.corrected().any(|unit| is_fact(unit, fact)));
        facts::extract(&self.pool, &valid, &prior, room, self.input.count)
    }

    fn text(&self, chosen: &CorrectedChoice, cap: u64) -> Fitted {
        let lay_out = |units: &[usize]| match self.input.layout {
            SummaryLayout::Rolling => render::rolling(&self.pool, units, &self.coverage, cap),
            SummaryLayout::Paragraph => render::paragraph(&self.pool, units, &self.coverage),
        };
        let fitted = fit(&self.pool, chosen, cap, self.input.count, &lay_out);
        let fitted = fitted.or_else(|| self.shortest_summary(chosen, cap));
        fitted.unwrap_or_default()
    }

    /// One quote under its heading, cut if necessary: better than nothing with a tiny cap, or if
    /// nothing seems worth a quote.
    fn shortest_summary(&self, chosen: &CorrectedChoice, cap: u64) -> Option<Fitted> {
        let others = (0..self.pool.units.len())
            .filter(|unit| !chosen.units.contains(unit) && !self.pool.units[*unit].is_failed_call);
        let is_valid = |unit: &usize| !chosen.lacks_correction(*unit, &[]);
        let valid = chosen.units.iter().copied().filter(is_valid);
        let best: Vec<usize> = valid.chain(others).take(LAST_TRIES).collect();
        let first = *best.first()?;
        let longest = self.pool.units[first].text.len();
        let shorter = std::iter::successors(Some(longest), |bytes| Some(bytes * 3 / 4));
        let cut = shorter.take_while(|&bytes| bytes > 0);
        let whole = best.iter().map(|&unit| (unit, usize::MAX));
        let mut tries = whole.chain(cut.map(|bytes| (first, bytes)));
        tries.find_map(|(unit, bytes)| self.single_quote(unit, bytes, cap))
    }

    /// One quote of at most `bytes` bytes, if it fits the cap.
    fn single_quote(&self, index: usize, bytes: usize, cap: u64) -> Option<Fitted> {
        let unit = &self.pool.units[index];
        let mut text = String::new();
        if self.input.layout == SummaryLayout::Rolling {
            let section = Section::classify(unit, self.pool.sources);
            let _ = write!(text, "## {}\n- ", section.title());
        }
        if let Some(ordinal) = unit.ordinal {
            let _ = write!(text, "{ordinal} ");
        }
        let start = text.len();
        push_alone(&self.pool, index, &mut text);
        if text.len() - start > bytes {
            let kept = first_words(&text[start..], bytes).len();
            text.truncate(start + kept);
            text.push_str(" …");
        }
        let tokens = (self.input.count)(&text);
        (tokens <= cap).then(|| Fitted {
            units: vec![index],
            text,
            tokens,
        })
    }
}

/// The worth of the units; terms of the instructions count more.
fn worth(pool: &mut Pool<'_>, coverage: &Coverage, input: &SummaryInput<'_>) -> Worth {
    let wanted = input.instructions.map(|text| pool.known(text));
    let wanted = wanted.unwrap_or_default();
    score::weigh(pool, &wanted, coverage.per_new_message(input))
}

/// The ordinals of units, each once, in order.
pub(super) fn quoted(pool: &Pool<'_>, units: &[usize]) -> Vec<Ordinal> {
    let quoted = units.iter().filter_map(|&unit| pool.units[unit].ordinal);
    let quoted: BTreeSet<Ordinal> = quoted.collect();
    quoted.into_iter().collect()
}
