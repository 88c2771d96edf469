//! Limits the results of other agents in a prompt, so that they fit beside the context.
//!
//! All results together have a limit. Each result has the same share; the unused part of a short
//! one goes to the longer ones. A result that exceeds its share is cut after its beginning, with a
//! note about how to read the rest. [`ResultFit`] does not count itself: it returns the texts to
//! count until it is done, so that the same results always give the same cut.

use std::sync::Arc;

use unisono_context::Tokens;

use super::{Ending, Run};

/// The maximum number of lengths that are tried before only the note remains.
const TRIES: u32 = 12;

/// The beginning of the note about missing parts of a result.
const INCOMPLETE: &str = "\n\n[incomplete: ";

/// The maximum size of such a note, in bytes. Anything longer is a part of the result: an agent may
/// quote the note of another one.
const INCOMPLETE_BYTES: usize = 1_000;

/// One result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultText {
    /// Its text.
    pub text: Arc<str>,
    /// The text after it, which is always shown.
    pub suffix: Arc<str>,
    /// Tokens of the text around it.
    pub overhead: Tokens,
    /// The name under which the rest is read; none: this agent cannot read it.
    pub name: Option<Arc<str>>,
    /// For a result without a name: the tool that gives more of it if it is called alone.
    pub again: Option<Arc<str>>,
}

impl ResultText {
    /// The result of a call. A short note about missing parts at its end is always shown.
    pub fn of_result(content: &str, around: Tokens, name: Option<Arc<str>>) -> ResultText {
        let is_note = |at: &usize| content.len() - at <= INCOMPLETE_BYTES;
        let end = content.rfind(INCOMPLETE).filter(is_note);
        let end = end.filter(|_| content.ends_with(']'));
        let (text, end) = content.split_at(end.unwrap_or(content.len()));
        ResultText {
            text: text.into(),
            suffix: end.into(),
            overhead: around,
            name,
            again: None,
        }
    }

    /// The first characters.
    pub fn head(&self, chars: usize) -> &str {
        let end = self.text.char_indices().nth(chars);
        &self.text[..end.map_or(self.text.len(), |(at, _)| at)]
    }

    /// The note after the first `chars` characters.
    pub fn note(&self, chars: usize) -> String {
        let total = self.text.chars().count();
        match (&self.name, &self.again) {
            (Some(name), _) => format!(
                "[characters 0 to {chars} of {total}; read_message {{\"result\":\"{name}\",\"skip\":{chars}}} reads on]"
            ),
            (None, Some(tool)) => format!(
                "[characters 0 to {chars} of {total}; a call of {tool} alone has room for more]"
            ),
            (None, None) => {
                format!("[characters 0 to {chars} of {total}; the rest is left out]")
            }
        }
    }

    /// The text with this number of its characters; none: all.
    pub fn excerpt(&self, chars: Option<usize>) -> String {
        match chars {
            None => format!("{}{}", self.text, self.suffix),
            Some(chars) => format!("{}\n{}{}", self.head(chars), self.note(chars), self.suffix),
        }
    }

    /// Whether the text is an excerpt of the result.
    pub fn has_excerpt(&self, text: &str) -> bool {
        if *text == self.excerpt(None) {
            return true;
        }
        let marks = text.match_indices("\n[characters 0 to ").map(|(at, _)| at);
        let mut cuts = marks.map(|at| text[..at].chars().count());
        cuts.any(|chars| *text == self.excerpt(Some(chars)))
    }
}

/// Fits results into a limit.
#[derive(Debug)]
pub struct ResultFit<'p> {
    pieces: &'p [ResultText],
    total: Tokens,
    cuts: Vec<CutState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CutState {
    Uncounted,
    Whole,
    /// This number of characters may fit its share.
    Tried {
        chars: usize,
        share: Tokens,
        tries: u32,
    },
    /// This number of characters is shown.
    Done(usize),
}

impl<'p> ResultFit<'p> {
    /// Fits these results into `total` tokens.
    pub fn new(pieces: &'p [ResultText], total: Tokens) -> ResultFit<'p> {
        let (bytes, around) = pieces
            .iter()
            .fold((0, Tokens::ZERO), |(bytes, around), piece| {
                (
                    bytes + piece.text.len() + piece.suffix.len(),
                    around + piece.overhead,
                )
            });
        // A text has at most as many tokens as bytes.
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

    /// The texts to count next, in order; none: it is done.
    pub fn texts(&self) -> Vec<String> {
        let each = self.pieces.iter().zip(&self.cuts);
        let texts = each.filter_map(|(piece, cut)| match cut {
            CutState::Uncounted => Some(piece.excerpt(None)),
            CutState::Tried { chars, .. } => Some(piece.excerpt(Some(*chars))),
            CutState::Whole | CutState::Done(_) => None,
        });
        texts.collect()
    }

    /// Takes the upper bounds of their tokens.
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
                // Assumes the same tokens per character, and takes a twentieth less.
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

    /// The number of characters of each result that are shown; none: all.
    pub fn shown_chars(&self) -> Vec<Option<usize>> {
        let each = self.cuts.iter().map(|cut| match cut {
            CutState::Whole | CutState::Uncounted => None,
            CutState::Done(chars) | CutState::Tried { chars, .. } => Some(*chars),
        });
        each.collect()
    }
}

/// Divides a total equally; the unused part of a share goes to the others.
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

/// The limit of all results: half of the remaining headroom, or the reserved part if that is more.
pub fn results_bound(left: Tokens, reserved: Tokens) -> Tokens {
    left.min(reserved.max(Tokens(left.0 / 2)))
}

/// Whether `shown` is the complete result of this name, or an excerpt of it.
pub fn is_excerpt(full_text: &str, name: &str, shown: &str) -> bool {
    let named = ResultText::of_result(full_text, Tokens::ZERO, Some(name.into()));
    let nameless = ResultText {
        name: None,
        ..named.clone()
    };
    named.has_excerpt(shown) || nameless.has_excerpt(shown)
}

/// The text of an ending, and the text after it.
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

/// The text of a run's result on the branch, and whether it is an error.
pub(crate) fn result_text(run: Option<&Run>) -> (Arc<str>, bool) {
    let Some(ending) = run.and_then(|run| run.ending.as_deref()) else {
        return ("[cancelled]".into(), true);
    };
    let (text, end) = ending_text(ending);
    let failed = !matches!(ending, Ending::Finished { .. });
    match &*end {
        "" => (text, failed),
        end => (format!("{text}{end}").into(), failed),
    }
}

#[cfg(test)]
mod tests {
    //! The shares of results, and that the excerpts fit.

    use super::*;

    fn piece(text: &str) -> ResultText {
        ResultText {
            text: text.into(),
            suffix: "".into(),
            overhead: Tokens(2),
            name: Some("delegate_1".into()),
            again: None,
        }
    }

    /// One token per three bytes; more if the text begins with digits.
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
        // If not even the notes fit, only they are shown.
        assert_eq!(fit(&long[1..], 10), [Some(0); 3]);
    }

    #[test]
    fn only_a_short_note_at_the_end_of_a_result_is_always_shown() {
        let of = |content: &str| ResultText::of_result(content, Tokens(2), None);
        let noted = of("found\n\n[incomplete: no room]");
        assert_eq!(&*noted.text, "found");
        assert_eq!(&*noted.suffix, "\n\n[incomplete: no room]");
        let rest = "and more ".repeat(1_000);
        let quoting = of(&format!("it said\n\n[incomplete: no room]\n{rest}[3]"));
        let shown = fit(std::slice::from_ref(&quoting), 200);
        let used = count(&quoting.excerpt(shown[0])) + quoting.overhead;
        assert!(used <= Tokens(200), "{used}");
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
