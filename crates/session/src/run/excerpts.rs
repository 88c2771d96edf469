//! What an agent is shown of the results that others hand it, so that they fit beside the context.
//!
//! Together they have a bound. Each result has the same share of it; what a short one does not
//! need is the longer ones'. Of a result that is longer than its share the beginning is shown, and
//! a note says how the rest is read. Counting is somebody else's: [`Fit`] says which texts it wants
//! counted until it is done, so that the same cut is made again from the same results.

use std::sync::Arc;

use unisono_context::{RunId, Tokens};

use crate::assignment;
use crate::event::RunRole;
use crate::run::Ending;
use crate::state::State;

use super::Run;

/// A text is tried at this many lengths before only the note is left of it.
const TRIES: u32 = 12;

/// What begins the note about what a result lacks.
const INCOMPLETE: &str = "\n\n[incomplete: ";

/// One result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultText {
    /// What came back.
    pub text: Arc<str>,
    /// What is said behind it however much of it is shown.
    pub suffix: Arc<str>,
    /// Tokens of what is around it.
    pub overhead: Tokens,
    /// How the rest is read; none: it cannot be by this agent.
    pub name: Option<Arc<str>>,
}

impl ResultText {
    /// What a call came back with: what is said at its end about what is missing stays.
    pub fn of_result(content: &str, around: Tokens, name: Option<Arc<str>>) -> ResultText {
        let end = content.rfind(INCOMPLETE).filter(|_| content.ends_with(']'));
        let (text, end) = content.split_at(end.unwrap_or(content.len()));
        ResultText {
            text: text.into(),
            suffix: end.into(),
            overhead: around,
            name,
        }
    }

    /// Its first characters.
    pub fn head(&self, chars: usize) -> &str {
        let end = self.text.char_indices().nth(chars);
        &self.text[..end.map_or(self.text.len(), |(at, _)| at)]
    }

    /// What is said about the rest behind its first characters.
    pub fn note(&self, chars: usize) -> String {
        let total = self.text.chars().count();
        match &self.name {
            Some(name) => format!(
                "[characters 0 to {chars} of {total}; read_message {{\"result\":\"{name}\",\"skip\":{chars}}} reads on]"
            ),
            None => format!("[characters 0 to {chars} of {total}; the rest is left out]"),
        }
    }

    /// The text with so many of its characters; none: all.
    pub fn excerpt(&self, chars: Option<usize>) -> String {
        match chars {
            None => format!("{}{}", self.text, self.suffix),
            Some(chars) => format!("{}\n{}{}", self.head(chars), self.note(chars), self.suffix),
        }
    }

    /// Whether a text is what some cut of it shows.
    pub fn has_excerpt(&self, text: &str) -> bool {
        if *text == self.excerpt(None) {
            return true;
        }
        let marks = text.match_indices("\n[characters 0 to ").map(|(at, _)| at);
        let mut cuts = marks.map(|at| text[..at].chars().count());
        cuts.any(|chars| *text == self.excerpt(Some(chars)))
    }
}

/// Fits results into a bound.
#[derive(Debug)]
pub struct ResultFit<'p> {
    pieces: &'p [ResultText],
    total: Tokens,
    cuts: Vec<CutState>,
}

/// How one result stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CutState {
    /// It is to be counted.
    Uncounted,
    /// It is whole.
    Whole,
    /// So many characters of it may fit its share.
    Tried {
        chars: usize,
        share: Tokens,
        tries: u32,
    },
    /// So many are shown.
    Done(usize),
}

impl<'p> ResultFit<'p> {
    /// Fits these results into so many tokens.
    pub fn new(pieces: &'p [ResultText], total: Tokens) -> ResultFit<'p> {
        let (bytes, around) = pieces
            .iter()
            .fold((0, Tokens::ZERO), |(bytes, around), piece| {
                (
                    bytes + piece.text.len() + piece.suffix.len(),
                    around + piece.overhead,
                )
            });
        // A text never has more tokens than bytes.
        let is_complete = Tokens(bytes as u64) + around <= total;
        let first = if is_complete {
            CutState::Whole
        } else {
            CutState::Uncounted
        };
        ResultFit {
            pieces,
            total,
            cuts: vec![first; pieces.len()],
        }
    }

    /// The texts that are to be counted next, in order; none: it is done.
    pub fn texts(&self) -> Vec<String> {
        let each = self.pieces.iter().zip(&self.cuts);
        let texts = each.filter_map(|(piece, cut)| match cut {
            CutState::Uncounted => Some(piece.excerpt(None)),
            CutState::Tried { chars, .. } => Some(piece.excerpt(Some(*chars))),
            CutState::Whole | CutState::Done(_) => None,
        });
        texts.collect()
    }

    /// Takes what they have, each at most.
    pub fn counted(&mut self, counts: &[Tokens]) {
        if self.cuts.first() == Some(&CutState::Uncounted) {
            return self.share_out(counts);
        }
        let mut counts = counts.iter().copied();
        for (cut, piece) in self.cuts.iter_mut().zip(self.pieces) {
            let CutState::Tried {
                chars,
                share,
                tries,
            } = *cut
            else {
                continue;
            };
            let count = counts.next().unwrap_or(share) + piece.overhead;
            *cut = if count <= share || chars == 0 {
                CutState::Done(chars)
            } else if tries >= TRIES {
                CutState::Done(0)
            } else {
                // As if each character had the same tokens, and a twentieth less.
                let room = share.minus(piece.overhead).0 as usize;
                let counted = count.minus(piece.overhead).0.max(1) as usize;
                let fewer = chars.saturating_mul(room) / counted;
                CutState::Tried {
                    chars: (fewer - fewer / 20).min(chars - 1),
                    share,
                    tries: tries + 1,
                }
            };
        }
    }

    fn share_out(&mut self, counts: &[Tokens]) {
        let cost = |(at, piece): (usize, &ResultText)| {
            counts.get(at).copied().unwrap_or_default() + piece.overhead
        };
        let costs: Vec<Tokens> = self.pieces.iter().enumerate().map(cost).collect();
        let shares = shares(&costs, self.total);
        let each = self.cuts.iter_mut().zip(self.pieces);
        for ((cut, piece), (cost, share)) in each.zip(costs.into_iter().zip(shares)) {
            *cut = if cost <= share {
                CutState::Whole
            } else {
                let total = piece.text.chars().count();
                let room = share.minus(piece.overhead).0 as usize;
                let chars = total.saturating_mul(room) / cost.0.max(1) as usize;
                CutState::Tried {
                    chars: chars.min(total.saturating_sub(1)),
                    share,
                    tries: 1,
                }
            };
        }
    }

    /// How many characters are shown of each; none: all.
    pub fn shown_chars(&self) -> Vec<Option<usize>> {
        let each = self.cuts.iter().map(|cut| match cut {
            CutState::Whole | CutState::Uncounted => None,
            CutState::Done(chars) | CutState::Tried { chars, .. } => Some(*chars),
        });
        each.collect()
    }
}

/// What each may have of a total: the same, but what one does not need is the others'.
pub fn shares(costs: &[Tokens], total: Tokens) -> Vec<Tokens> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|at| costs[*at]);
    let mut shares = vec![Tokens::ZERO; costs.len()];
    let mut left = total;
    for (done, at) in order.into_iter().enumerate() {
        let others = (costs.len() - done) as u64;
        shares[at] = costs[at].min(Tokens(left.0 / others));
        left = left.minus(shares[at]);
    }
    shares
}

/// What results may have of the room that is left for them, given what was reserved: half of it
/// where that is more.
pub fn results_bound(left: Tokens, reserved: Tokens) -> Tokens {
    left.min(reserved.max(Tokens(left.0 / 2)))
}

impl State {
    /// The whole of a result that a run was handed, by the name that the note on it has: of an
    /// agent of its turn's fan-out, or of one it gave a task to.
    pub fn result_by_name(&self, run: RunId, name: &str) -> Option<Arc<str>> {
        let run = self.runs.get(&run)?;
        let numbers = name.strip_prefix("delegate_")?.split('_');
        let numbers: Option<Vec<u32>> = numbers.map(|number| number.parse().ok()).collect();
        let from = match numbers?[..] {
            [number] => self.preceding_run(run, number.checked_sub(1)?)?,
            [round, number] => {
                let round = run.round(round)?;
                let index = usize::try_from(number.checked_sub(1)?).ok()?;
                round.calls.get(index)?;
                self.runs.get(&run.child(round, index))?
            }
            _ => return None,
        };
        from.ending.as_ref()?;
        Some(assignment::result_text(Some(from)).0)
    }

    /// The run of the fan-out in that place, where the run is handed what came of it.
    fn preceding_run(&self, run: &Run, index: u32) -> Option<&Run> {
        let turn = self.turns.get(&run.turn)?;
        let gets_results = match run.role {
            RunRole::Lead => true,
            RunRole::Delegate { index: own } => turn.is_pipeline() && index < own,
            RunRole::Child { .. } => false,
        };
        let at = usize::try_from(index).ok()?;
        self.runs
            .get(turn.fan_out.get(at).filter(|_| gets_results)?)
    }
}

/// Whether a text that an agent was handed is what came back under that name, or a cut of it.
pub fn is_excerpt(full_text: &str, name: &str, shown: &str) -> bool {
    let named = ResultText::of_result(full_text, Tokens::ZERO, Some(name.into()));
    let nameless = ResultText {
        name: None,
        ..named.clone()
    };
    named.has_excerpt(shown) || nameless.has_excerpt(shown)
}

/// What an ending says, and what is said behind it.
pub fn ending_text(ending: &Ending) -> (Arc<str>, Arc<str>) {
    match ending {
        Ending::Finished {
            text,
            partial: Some(why),
            ..
        } => (text.clone(), format!("{INCOMPLETE}{why}]").into()),
        Ending::Finished { text, .. } => (text.clone(), "".into()),
        Ending::Failed { cause, reason, .. } => (
            format!("[failed: {}: {reason}]", cause.code()).into(),
            "".into(),
        ),
        Ending::Cancelled => ("[cancelled]".into(), "".into()),
    }
}

#[cfg(test)]
mod tests {
    //! Who has how much, and that what is shown fits.

    use super::*;

    fn piece(text: &str) -> ResultText {
        ResultText {
            text: text.into(),
            suffix: "".into(),
            overhead: Tokens(2),
            name: Some("delegate_1".into()),
        }
    }

    /// A token for each three bytes; more where the text begins with digits.
    fn count(text: &str) -> Tokens {
        let dense = text.bytes().take_while(u8::is_ascii_digit).count() as u64;
        Tokens(dense + (text.len() as u64 - dense).div_ceil(3))
    }

    fn fit(pieces: &[ResultText], total: u64) -> Vec<Option<usize>> {
        let mut fit = ResultFit::new(pieces, Tokens(total));
        for _ in 0..100 {
            let texts = fit.texts();
            if texts.is_empty() {
                return fit.shown_chars();
            }
            let counts: Vec<Tokens> = texts.iter().map(|text| count(text)).collect();
            fit.counted(&counts);
        }
        panic!("it does not come to an end");
    }

    #[test]
    fn unused_shares_go_to_the_other_results() {
        let rows: [(&[u64], u64, &[u64]); 6] = [
            (&[10, 10], 30, &[10, 10]),
            (&[10, 90, 90], 100, &[10, 45, 45]),
            (&[90, 10, 20], 60, &[30, 10, 20]),
            (&[50, 50, 50], 10, &[3, 3, 4]),
            (&[], 10, &[]),
            (&[5], 0, &[0]),
        ];
        for (costs, total, expected) in rows {
            let costs: Vec<Tokens> = costs.iter().copied().map(Tokens).collect();
            let found: Vec<u64> = shares(&costs, Tokens(total)).iter().map(|t| t.0).collect();
            assert_eq!(found, expected, "{costs:?} {total}");
        }
    }

    #[test]
    fn the_limit_of_results_is_half_the_rest_or_the_reserve() {
        let rows = [
            (1_000, 100, 500),
            (1_000, 700, 700),
            (50, 700, 50),
            (0, 0, 0),
        ];
        for (left, reserved, expected) in rows {
            assert_eq!(
                results_bound(Tokens(left), Tokens(reserved)),
                Tokens(expected)
            );
        }
    }

    #[test]
    fn long_results_are_cut_and_short_ones_whole() {
        let dense = "0123456789".repeat(60) + &"word ".repeat(600);
        let long = [
            piece("short"),
            piece(&"word ".repeat(900)),
            piece(&dense),
            piece(&"é".repeat(2_000)),
        ];
        assert_eq!(fit(&long[..1], 100), [None]);
        for total in [200, 400, 900, 2_000] {
            let shown = fit(&long, total);
            assert_eq!(shown[0], None);
            let texts = long.iter().zip(&shown).map(|(piece, cut)| {
                let text = piece.excerpt(*cut);
                assert!(piece.has_excerpt(&text));
                assert!(!piece.has_excerpt(&format!("{text}.")));
                count(&text) + piece.overhead
            });
            let used: Tokens = texts.sum();
            assert!(used <= Tokens(total), "{used} of {total}");
            assert!(used.0 * 2 > total, "{used} of {total}: {shown:?}");
        }
        // Where not even the notes fit, nothing else is shown.
        assert_eq!(fit(&long[1..], 10), [Some(0); 3]);
    }

    #[test]
    fn a_cut_result_says_how_to_read_the_rest() {
        let cut = ResultText {
            suffix: "\n\n[incomplete: no room]".into(),
            ..piece("äöü and more")
        };
        assert_eq!(
            cut.excerpt(Some(2)),
            "äö\n[characters 0 to 2 of 12; read_message {\"result\":\"delegate_1\",\"skip\":2} reads on]\n\n[incomplete: no room]"
        );
        let unread = ResultText { name: None, ..cut };
        assert_eq!(
            unread.note(2),
            "[characters 0 to 2 of 12; the rest is left out]"
        );
    }
}
