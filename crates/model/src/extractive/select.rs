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

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::passage::PassageKind;
use super::pool::Pool;

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
    /// The factor on a unit's worth for each unit chosen from the same message.
    pub(super) sibling: f32,
    /// Tokens of a line besides its quote.
    pub(super) line: f32,
    /// The exponent of the length: worth / tokens^power.
    pub(super) power: f32,
    /// The maximum units of one source.
    pub(super) per_source: u16,
    /// The maximum units of a tool call or result, which are data rather than sentences.
    pub(super) per_tool: u16,
}

struct Candidate {
    rate: f32,
    unit: usize,
    /// The number of chosen units when the rate was computed.
    seen: usize,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rate
            .total_cmp(&other.rate)
            .then(other.unit.cmp(&self.unit))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// The best units in the order of choice, until `budget` tokens are spent.
pub(super) fn choose(
    pool: &Pool<'_>,
    worth: &Worth,
    preference: Preference,
    budget: f32,
) -> Vec<usize> {
    let mut state = State {
        pool,
        worth,
        preference,
        left: vec![1.0; worth.terms.len()],
        from_source: vec![0; pool.sources],
    };
    let mut heap: BinaryHeap<Candidate> = (0..pool.units.len())
        .filter(|&unit| worth.units[unit] > 0.0)
        .map(|unit| Candidate {
            rate: state.rate(unit),
            unit,
            seen: 0,
        })
        .collect();
    let (mut chosen, mut spent) = (Vec::new(), 0.0);
    while let Some(candidate) = heap.pop() {
        if candidate.rate <= 0.0 || spent >= budget {
            break;
        }
        if state.is_full(candidate.unit) {
            continue;
        }
        if candidate.seen < chosen.len() {
            let rate = state.rate(candidate.unit);
            if heap.peek().is_some_and(|next| next.rate > rate) {
                heap.push(Candidate {
                    rate,
                    unit: candidate.unit,
                    seen: chosen.len(),
                });
                continue;
            }
        }
        spent += state.cost(candidate.unit);
        state.take(candidate.unit);
        chosen.push(candidate.unit);
    }
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
}

impl State<'_, '_> {
    /// Whether the maximum of its source is reached.
    fn is_full(&self, unit: usize) -> bool {
        let unit = &self.pool.units[unit];
        let most = match unit.kind {
            PassageKind::ToolCall | PassageKind::ToolResult => self.preference.per_tool,
            PassageKind::Text | PassageKind::Attachment => self.preference.per_source,
        };
        self.from_source[unit.source] >= most
    }

    fn cost(&self, unit: usize) -> f32 {
        let unit = &self.pool.units[unit];
        let line = if self.from_source[unit.source] == 0 {
            self.preference.line
        } else {
            1.0
        };
        unit.tokens + line
    }

    fn rate(&self, unit: usize) -> f32 {
        let (mut all, mut fresh) = (0.0, 0.0);
        for &term in self.pool.terms(unit) {
            let weight = self.worth.terms[term as usize];
            all += weight;
            fresh += weight * self.left[term as usize];
        }
        let novelty = if all > 0.0 { fresh / all } else { 0.0 };
        let siblings = i32::from(self.from_source[self.pool.units[unit].source]);
        let worth = self.worth.units[unit] * novelty * self.preference.sibling.powi(siblings);
        worth / self.cost(unit).powf(self.preference.power)
    }

    fn take(&mut self, unit: usize) {
        for &term in self.pool.terms(unit) {
            self.left[term as usize] *= self.preference.decay;
        }
        let taken = &mut self.from_source[self.pool.units[unit].source];
        *taken = taken.saturating_add(1);
    }
}
