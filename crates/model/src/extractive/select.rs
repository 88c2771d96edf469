//! Chooses units by worth, diversity, and tokens.
//!
//! The worth of a unit is the sum of its terms' weights (TF-IDF; G. Salton and C. Buckley,
//! "Term-weighting approaches in automatic text retrieval", 1988) and its cues. Redundancy is
//! discounted as in maximal marginal relevance (J. Carbonell and J. Goldstein, SIGIR 1998), in the
//! form of diminishing returns on terms that are already covered (H. Lin and J. Bilmes, "A Class of
//! Submodular Functions for Document Summarization", ACL 2011): the greedy choice by worth per
//! token is then near the optimum within a budget. Since worth only decreases, it is recomputed
//! only for the unit on top of the heap (M. Minoux, "Accelerated greedy algorithms", 1978), so no
//! pairs of units are compared.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use unisono_context::Ordinal;

use super::cues::Demand;
use super::passage::PassageKind;
use super::pool::{Pool, Unit};
use super::score::when;

/// The parts of a conversation among which the units are spread.
const PARTS: usize = 8;

/// The worth of units by themselves.
pub(super) struct Worth {
    /// By unit; zero excludes a unit.
    pub(super) units: Vec<f32>,
    /// By term: its part of a unit's novelty.
    pub(super) terms: Vec<f32>,
}

/// The parameters of the choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preference {
    /// The factor on a term's worth each time it is covered.
    pub(super) decay: f32,
    /// Tokens of a line besides its quote.
    pub(super) line: f32,
    /// The exponent of the length: worth / tokens^power.
    pub(super) power: f32,
    /// How much the units of a part of the conversation lose when the part has its share of the
    /// budget: with 1, half of their worth.
    pub(super) spread: f32,
    /// The maximum units of one source.
    pub(super) per_source: u16,
    /// The maximum units of a tool call or result, which are data rather than sentences.
    pub(super) per_tool: u16,
    /// The part of the budget after which the lines of an earlier summary wait until the new messages
    /// have their part.
    pub(super) earlier: f32,
    pub(super) new: f32,
}

/// The bits of a rate, which are in the order of rates; the unit, the first one before others; and the
/// number of chosen units when the rate was computed.
type Candidate = (u32, Reverse<usize>, usize);

/// The best units in the order of choice, until `budget` tokens are spent.
pub(super) fn choose(
    pool: &Pool<'_>,
    worth: &Worth,
    preference: Preference,
    budget: f32,
) -> Vec<usize> {
    let mut state = State::new(pool, worth, preference, budget);
    let worthy = (0..pool.units.len()).filter(|&unit| worth.units[unit] > 0.0);
    let mut heap: BinaryHeap<Candidate> = worthy
        .map(|unit| (state.rate(unit).to_bits(), Reverse(unit), 0))
        .collect();
    let (mut chosen, mut spent) = (Vec::new(), 0.0);
    let (mut earlier, mut new) = (preference.earlier * budget, preference.new * budget);
    let mut waiting = Vec::new();
    while let Some(candidate) = heap.pop() {
        let (rate, Reverse(unit), seen) = candidate;
        if rate == 0 || spent >= budget {
            break;
        }
        if state.is_excluded(unit) {
            continue;
        }
        let is_earlier = pool.units[unit].prior;
        if is_earlier && earlier <= 0.0 && new > 0.0 {
            waiting.push(candidate);
            continue;
        }
        if seen < chosen.len() {
            let rate = state.rate(unit).to_bits();
            if heap.peek().is_some_and(|next| next.0 > rate) {
                heap.push((rate, Reverse(unit), chosen.len()));
                continue;
            }
        }
        let cost = state.cost(unit);
        if !state.has_room(unit, cost) {
            continue;
        }
        spent += cost;
        match is_earlier {
            true => earlier -= cost,
            false => new -= cost,
        }
        if new <= 0.0 {
            heap.extend(waiting.drain(..));
        }
        state.take(unit);
        chosen.push(unit);
    }
    let last = waiting.iter().map(|(_, Reverse(unit), _)| *unit);
    chosen.extend(last.filter(|unit| !state.is_excluded(*unit)));
    chosen
}

struct State<'p, 'a> {
    pool: &'p Pool<'a>,
    worth: &'p Worth,
    preference: Preference,
    /// By term: the share of its weight that is not covered yet.
    left: Vec<f32>,
    /// By source: units chosen.
    from_source: Vec<u16>,
    /// The first message, and the number of messages.
    first: u32,
    messages: u64,
    /// The tokens of a part of the conversation if all have the same, and those chosen from each.
    share: f32,
    parts: [f32; PARTS],
    /// The room of the units that demand to be kept, and whether one of them was chosen.
    demand_room: f32,
    has_demand: bool,
    /// The chosen texts with the names of their speakers: two people may say the same.
    texts: HashSet<(&'a str, &'a str)>,
}

impl<'p, 'a> State<'p, 'a> {
    fn new(
        pool: &'p Pool<'a>,
        worth: &'p Worth,
        preference: Preference,
        budget: f32,
    ) -> State<'p, 'a> {
        let ordinals = || pool.units.iter().filter_map(|unit| unit.ordinal);
        let first = ordinals().min().map_or(0, |ordinal| ordinal.0);
        let last = ordinals().max().map_or(0, |ordinal| ordinal.0);
        let (mut all, mut demanded) = (0.0, 0.0);
        for unit in &pool.units {
            all += unit.tokens;
            if unit.demand != Demand::None {
                demanded += unit.tokens;
            }
        }
        State {
            pool,
            worth,
            preference,
            left: vec![1.0; worth.terms.len()],
            from_source: vec![0; pool.sources],
            first,
            messages: u64::from(last - first) + 1,
            share: (budget / PARTS as f32).max(1.0),
            parts: [0.0; PARTS],
            demand_room: budget * demanded / f32::max(all, 1.0),
            has_demand: false,
            texts: HashSet::new(),
        }
    }

    /// Whether its text is chosen already from the same person, or the maximum of its source is reached.
    fn is_excluded(&self, unit: usize) -> bool {
        let unit = &self.pool.units[unit];
        if self.texts.contains(&speaker_and_text(unit)) {
            return true;
        }
        let most = match unit.kind {
            PassageKind::ToolCall | PassageKind::ToolResult => self.preference.per_tool,
            PassageKind::Text | PassageKind::Attachment => self.preference.per_source,
        };
        self.from_source[unit.source] >= most
    }

    /// Whether a unit may be chosen, and takes its room if so. Those that demand to be kept have their
    /// share of all texts, or one unit.
    fn has_room(&mut self, unit: usize, cost: f32) -> bool {
        if self.pool.units[unit].demand == Demand::None {
            return true;
        }
        let has_room = !self.has_demand || cost <= self.demand_room;
        if has_room {
            self.demand_room -= cost;
            self.has_demand = true;
        }
        has_room
    }

    fn cost(&self, unit: usize) -> f32 {
        let unit = &self.pool.units[unit];
        unit.tokens + when(self.from_source[unit.source] == 0, self.preference.line)
    }

    /// The part of a message in the conversation; `None` if the message is unknown.
    fn part(&self, ordinal: Option<Ordinal>) -> Option<usize> {
        let before = u64::from(ordinal?.0 - self.first);
        Some((before * PARTS as u64 / self.messages) as usize)
    }

    fn rate(&self, unit: usize) -> f32 {
        let (mut all, mut fresh) = (0.0, 0.0);
        for &term in self.pool.terms(unit) {
            let weight = self.worth.terms[term as usize];
            all += weight;
            fresh += weight * self.left[term as usize];
        }
        let novelty = if all > 0.0 { fresh / all } else { 1.0 };
        let worth = self.worth.units[unit] * novelty;
        let part = self.part(self.pool.units[unit].ordinal);
        let filled = part.map_or(0.0, |part| self.parts[part] / self.share);
        let spread = 1.0 + self.preference.spread * filled;
        worth / spread / self.cost(unit).powf(self.preference.power)
    }

    fn take(&mut self, unit: usize) {
        for &term in self.pool.terms(unit) {
            self.left[term as usize] *= self.preference.decay;
        }
        let unit = &self.pool.units[unit];
        self.texts.insert(speaker_and_text(unit));
        if let Some(part) = self.part(unit.ordinal) {
            self.parts[part] += unit.tokens;
        }
        let taken = &mut self.from_source[unit.source];
        *taken = taken.saturating_add(1);
    }
}

/// The name of the speaker, if there is one, and the text.
fn speaker_and_text<'a>(unit: &Unit<'a>) -> (&'a str, &'a str) {
    let name = unit.speaker;
    (if unit.is_named() { name } else { "" }, unit.text)
}

#[cfg(test)]
mod tests {
    use unisono_context::{Role, Timestamp};

    use super::*;
    use crate::extractive::fixture::{passages_of, pool_of};
    use crate::extractive::{Passage, prior, score, weights};

    #[test]
    fn a_text_is_chosen_once() {
        let texts = [
            "Not really, the neighbours were loud.",
            "The boiler is new.",
        ];
        let text = |n: u32| texts[usize::from(n.is_multiple_of(4))];
        let passages = passages_of((1..=8).map(text));
        let pool = pool_of(&passages);
        let worth = score::weigh(&pool, &[], 1.0);
        assert_eq!(choose(&pool, &worth, weights::SUMMARY, 1_000.0).len(), 2);
    }

    #[test]
    fn two_people_who_say_the_same_are_both_chosen() {
        let mut passages = passages_of(["I am allergic to nuts."; 3]);
        for (passage, name) in passages.iter_mut().zip(["Ana", "Ben", "Ana"]) {
            passage.author = Some(name.into());
        }
        let pool = pool_of(&passages);
        let worth = score::weigh(&pool, &[], 1.0);
        let mut chosen = choose(&pool, &worth, weights::SUMMARY, 1_000.0);
        chosen.sort_unstable();
        assert_eq!(chosen, [0, 1]);
    }

    #[test]
    fn units_of_the_same_worth_are_from_all_parts_of_a_conversation() {
        let text = |n: u32| format!("Order {} leaves the harbour.", 1_000 + n);
        let passages = passages_of((1..=80).map(text));
        let pool = pool_of(&passages);
        let worth = score::weigh(&pool, &[], 1.0);
        let budget = pool.units.iter().map(|unit| unit.tokens).sum::<f32>() / 2.0;
        let mut from = [0; PARTS];
        for unit in choose(&pool, &worth, weights::SUMMARY, budget) {
            from[unit / 10] += 1;
        }
        assert!(from.iter().all(|&units| units > 0), "{from:?}");
    }

    #[test]
    fn any_number_may_stand_in_a_summary() {
        let mut pool = Pool::new();
        let summary = "- #0 is the colour of the door.\n- #4294967295 is the colour of the roof.";
        prior::add(&mut pool, summary, Ordinal(20));
        let worth = score::weigh(&pool, &[], 1.0);
        assert_eq!(choose(&pool, &worth, weights::SUMMARY, 100.0).len(), 2);
    }

    #[test]
    fn lines_of_an_earlier_summary_wait_after_their_part() {
        let mut pool = Pool::new();
        let line = |n: u32| {
            format!(
                "- user #{n} Order W-{} leaves Bergen at 10:30.\n",
                1_000 + n
            )
        };
        let summary: String = (1..=20).map(line).collect();
        prior::add(&mut pool, &summary, Ordinal(20));
        let said = |n: u32| {
            let text = format!("The soup number {n} was good.");
            Passage::text(Ordinal(n), Role::User, Timestamp(0), text)
        };
        let passages: Vec<Passage<'_>> = (21..=30).map(said).collect();
        passages
            .iter()
            .for_each(|p| pool.add_passage(p, &p.text, false));
        let worth = score::weigh(&pool, &[], 3.0);
        let is_earlier = |earlier: f32, new: f32| -> Vec<bool> {
            let preference = Preference {
                earlier,
                new,
                ..weights::SUMMARY
            };
            let chosen = choose(&pool, &worth, preference, 1_000.0);
            chosen.iter().map(|unit| pool.units[*unit].prior).collect()
        };
        let all = is_earlier(1.0, 1.0);
        assert!(all[0], "they are worth more");
        let last = is_earlier(0.0, 1.0);
        assert_eq!(last.len(), all.len());
        assert!(last.is_sorted(), "{last:?}");
        let some = is_earlier(0.1, 1.0);
        let first = some.iter().take_while(|earlier| **earlier).count();
        assert!((1..20).contains(&first), "{some:?}");
        // When the new messages have their part, the best units come first again.
        let later = is_earlier(0.0, 0.02);
        let new = later.iter().take_while(|earlier| !**earlier).count();
        assert!((1..10).contains(&new), "{later:?}");
        assert_eq!(later.len(), all.len());
    }
}
