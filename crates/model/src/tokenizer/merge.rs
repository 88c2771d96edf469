//! Byte-pair merging: the number of tokens of a piece of text.
//!
//! A piece starts as its single bytes. Of all neighbours that form a token together, those of the
//! lowest rank become one, the leftmost first, until no two do (Sennrich, Haddow and Birch 2016; on
//! bytes as in OpenAI's encodings).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::vocabulary::{Rank, Vocabulary};

/// The maximum piece whose lowest pair is found by a linear search. Longer pieces keep their pairs
/// in a heap: more work per pair, but not quadratic.
const SHORT_BYTES: usize = 64;

/// The capacity for long pieces that is kept.
const SPARE_LINKS: usize = 1024;

const NONE: Rank = Rank::MAX;

/// Reusable scratch space for merging.
#[derive(Default)]
pub(super) struct Merger {
    parts: Vec<Part>,
    links: Vec<Link>,
    pairs: BinaryHeap<Reverse<(Rank, usize)>>,
}

/// A part of a short piece.
#[derive(Clone, Copy)]
struct Part {
    start: usize,
    /// The rank of this part and the next one as one token.
    pair: Rank,
}

/// A part of a long piece, at the index of its start.
#[derive(Clone, Copy)]
struct Link {
    /// The start of the part before.
    before: usize,
    /// The end of the part, which is the start of the next one.
    end: usize,
    /// As [`Part::pair`]; [`NONE`] if no part starts here any more.
    pair: Rank,
}

impl Merger {
    pub(super) fn count(&mut self, vocabulary: &Vocabulary, piece: &[u8]) -> usize {
        match piece.len() {
            0 | 1 => piece.len(),
            _ if vocabulary.rank(piece).is_some() => 1,
            2..=SHORT_BYTES => self.count_short(vocabulary, piece),
            _ => self.count_long(vocabulary, piece),
        }
    }

    /// Frees the memory of very long pieces.
    pub(super) fn shrink(&mut self) {
        self.links.clear();
        self.links.shrink_to(SPARE_LINKS);
        self.pairs.clear();
        self.pairs.shrink_to(SPARE_LINKS);
    }

    fn count_short(&mut self, vocabulary: &Vocabulary, piece: &[u8]) -> usize {
        let parts = &mut self.parts;
        parts.clear();
        // With an empty part at the end.
        parts.extend((0..=piece.len()).map(|start| Part { start, pair: NONE }));
        let pair = |parts: &[Part], at: usize| match parts.get(at + 2) {
            Some(end) => rank(vocabulary, piece, parts[at].start, end.start),
            None => NONE,
        };
        for at in 0..parts.len() - 2 {
            parts[at].pair = pair(parts, at);
        }
        while let Some((at, lowest)) = parts.iter().enumerate().min_by_key(|(_, part)| part.pair) {
            if lowest.pair == NONE {
                break;
            }
            parts.remove(at + 1);
            parts[at].pair = pair(parts, at);
            if let Some(before) = at.checked_sub(1) {
                parts[before].pair = pair(parts, before);
            }
        }
        parts.len() - 1
    }

    fn count_long(&mut self, vocabulary: &Vocabulary, piece: &[u8]) -> usize {
        let (links, pairs) = (&mut self.links, &mut self.pairs);
        links.clear();
        pairs.clear();
        links.extend((0..piece.len()).map(|start| Link {
            before: start.wrapping_sub(1),
            end: start + 1,
            pair: NONE,
        }));
        for start in 0..piece.len() - 1 {
            queue_pair(vocabulary, piece, links, pairs, start);
        }
        let mut parts = piece.len();
        while let Some(Reverse((lowest, start))) = pairs.pop() {
            // An outdated pair: one of its parts was merged into another.
            if links[start].pair != lowest {
                continue;
            }
            let next = links[start].end;
            let end = links[next].end;
            links[start].end = end;
            links[next].pair = NONE;
            if let Some(after) = links.get_mut(end) {
                after.before = start;
            }
            parts -= 1;
            queue_pair(vocabulary, piece, links, pairs, start);
            if start > 0 {
                let before = links[start].before;
                queue_pair(vocabulary, piece, links, pairs, before);
            }
        }
        parts
    }
}

/// Looks up the pair that starts here, and queues it if it is a token.
fn queue_pair(
    vocabulary: &Vocabulary,
    piece: &[u8],
    links: &mut [Link],
    pairs: &mut BinaryHeap<Reverse<(Rank, usize)>>,
    start: usize,
) {
    let pair = match links.get(links[start].end) {
        Some(next) => rank(vocabulary, piece, start, next.end),
        None => NONE,
    };
    links[start].pair = pair;
    if pair != NONE {
        pairs.push(Reverse((pair, start)));
    }
}

fn rank(vocabulary: &Vocabulary, piece: &[u8], start: usize, end: usize) -> Rank {
    vocabulary.rank(&piece[start..end]).unwrap_or(NONE)
}

#[cfg(test)]
mod tests {
    //! Tests that both merge algorithms find the same tokens.

    use proptest::prelude::*;
    use unisono_context::tokens::Encoding;

    use super::*;
    use crate::tokenizer::Tokenizer;

    proptest! {
        #[test]
        fn a_piece_merges_the_same_short_and_long(piece in "[a-zA-Z]{2,64}|[é日ñ🦀]{1,16}") {
            let vocabulary = &Tokenizer::load(Encoding::O200kBase).unwrap().tables.vocabulary;
            let (mut merger, piece) = (Merger::default(), piece.as_bytes());
            let long = merger.count_long(vocabulary, piece);
            prop_assert_eq!(merger.count_short(vocabulary, piece), long);
        }
    }
}
