//! Splits a text into the pieces within which an encoding merges bytes.
//!
//! The encodings publish this as a pattern with a look-ahead, `\s+(?!\S)`: a run of white space
//! leaves its last character to the next word. An automaton has no look-ahead, so the pattern here
//! takes such runs whole, and [`Splitter::piece`] removes the last character again. The rest has
//! the same meaning for an automaton and a backtracking engine; the tests compare the pieces of
//! both. The advantage: a search needs no stack and never fails, however hostile the text, and its
//! scratch space belongs to its caller alone (with tiktoken-rs's own pattern, shared by threads,
//! two threads were measured to be slower than one).

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::{Anchored, Input};
use unisono_context::tokens::Encoding;

/// The pattern of `o200k_base`, with `\s+` for `\s+(?!\S)|\s+`.
const O200K_BASE: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"|\s*[\r\n]+",
    r"|\s+",
);

/// The pattern of `cl100k_base`, with `\s+` for `\s+(?!\S)|\s`, and greedy instead of possessive:
/// no part could give back what the next one takes.
const CL100K_BASE: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)",
    r"|[^\r\n\p{L}\p{N}]?\p{L}+",
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s+$",
    r"|\s*[\r\n]",
    r"|\s+",
);

/// The automaton of an encoding.
pub(super) struct Splitter {
    dfa: DFA,
}

impl Splitter {
    /// Builds the automaton. Its states are built on demand in a [`Cache`].
    pub(super) fn new(encoding: Encoding) -> Result<Splitter, String> {
        let pattern = match encoding {
            Encoding::O200kBase => O200K_BASE,
            Encoding::Cl100kBase => CL100K_BASE,
        };
        let dfa = DFA::new(pattern).map_err(|error| error.to_string())?;
        Ok(Splitter { dfa })
    }

    /// A reusable cache of the states, about 2 MB at most.
    pub(super) fn cache(&self) -> Cache {
        self.dfa.create_cache()
    }

    /// The pieces of a text, in order; they join to the text.
    pub(super) fn pieces<'t>(
        &self,
        cache: &mut Cache,
        text: &'t str,
    ) -> impl Iterator<Item = &'t str> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let end = self.piece_end(cache, text, start)?;
            let piece = &text[start..end];
            start = end;
            Some(piece)
        })
    }

    /// The end of the piece that starts here; `None` at the text's end.
    fn piece_end(&self, cache: &mut Cache, text: &str, start: usize) -> Option<usize> {
        let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
        let input = Input::new(text).range(start..).anchored(Anchored::Yes);
        let found = self.dfa.try_search_fwd(cache, &input);
        let Ok(Some(found)) = found else {
            // Every character starts a piece, and the cache may be cleared as often as needed.
            return Some(start + rest.chars().next().map_or(0, char::len_utf8));
        };
        Some(start + without_look_ahead(rest, found.offset() - start))
    }
}

/// The length of the published pattern's piece for an automaton's piece of `len` bytes. Only runs
/// of white space differ. Runs that end with a line break, or with the text, are other parts of the
/// patterns.
fn without_look_ahead(rest: &str, len: usize) -> usize {
    let (piece, after) = rest.split_at(len);
    match piece.chars().next_back() {
        Some(last) if last.is_whitespace() && !matches!(last, '\r' | '\n') => {
            let shorter = len - last.len_utf8();
            if after.is_empty() || shorter == 0 {
                len
            } else {
                shorter
            }
        }
        _ => len,
    }
}
