//! Baselines for a summary: simple ways to keep the same number of tokens of a conversation.
//!
//! Each takes whole messages (or sentences) and fills the rest of the size with as many words of
//! the next one as fit, so that none of them wastes room.

use std::collections::BTreeSet;

use super::shown::{Piece, ShownMessage, join_pieces};
use super::{Probe, Report, report};
use crate::extractive::{CountTokens, baseline as model, unit_texts};

/// The number of drawings of the random baseline.
pub const SEEDS: u64 = 40;

/// A way to choose the kept text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The last messages.
    Tail,
    /// Half the size from the start, half from the end.
    HeadTail,
    /// Messages drawn at random; the mean over [`SEEDS`] drawings.
    Random,
    /// Sentences by LexRank (G. Erkan and D. Radev, JAIR 22, 2004).
    LexRank,
    /// Whole messages by TF-IDF with maximal marginal relevance (J. Carbonell and J. Goldstein,
    /// SIGIR 1998).
    TfIdfMmr,
}

unisono_context::names!(Baseline.name {
    Tail = "tail",
    HeadTail = "head+tail",
    Random = "random",
    LexRank = "LexRank",
    TfIdfMmr = "TF-IDF with MMR",
});

/// The tokens of a baseline's text of at most `cap` tokens, and its report.
pub fn measure(
    baseline: Baseline,
    messages: &[ShownMessage<'_>],
    cap: u64,
    count: CountTokens<'_>,
    probes: &[Probe],
) -> (u64, Report) {
    let seeds = if baseline == Baseline::Random {
        SEEDS
    } else {
        1
    };
    let texts = (1..=seeds).map(|seed| keep_shown(baseline, seed, messages, cap, count));
    let measured = texts.map(|text| (count(&text), report(&text, probes)));
    let (tokens, reports): (Vec<u64>, Vec<Report>) = measured.unzip();
    (tokens.iter().sum::<u64>() / seeds, Report::mean(&reports))
}

/// The text of at most `cap` tokens that a baseline keeps of texts without labels.
pub fn keep(
    baseline: Baseline,
    seed: u64,
    texts: &[&str],
    cap: u64,
    count: CountTokens<'_>,
) -> String {
    let texts = texts.iter().map(|text| ShownMessage::unlabelled(*text));
    keep_shown(baseline, seed, &texts.collect::<Vec<_>>(), cap, count)
}

/// The text of at most `cap` tokens that a baseline keeps of the messages, in their order, with the
/// days and labels of the kept ones. Only [`Baseline::Random`] depends on the seed.
fn keep_shown(
    baseline: Baseline,
    seed: u64,
    messages: &[ShownMessage<'_>],
    cap: u64,
    count: CountTokens<'_>,
) -> String {
    let texts: Vec<&str> = messages.iter().map(|message| &*message.text).collect();
    let whole = |(message, text)| Piece { message, text };
    let pieces: Vec<Piece<'_>> = texts.iter().copied().enumerate().map(whole).collect();
    let room = || Room::new(messages, cap, count);
    match baseline {
        Baseline::Tail => tail(&pieces, room()),
        Baseline::HeadTail => {
            let head = fill(
                &pieces,
                0..pieces.len(),
                Room::new(messages, cap / 2, count),
            );
            let used = count(&head);
            let tail = tail(&pieces, Room::new(messages, cap - used.min(cap), count));
            format!("{head}\n{tail}")
        }
        Baseline::Random => fill(&pieces, shuffled(pieces.len(), seed), room()),
        Baseline::LexRank => {
            let (_, order) = model::lexrank(&texts);
            let sentences = pieces
                .iter()
                .flat_map(|piece| unit_texts(piece.text).map(|text| Piece { text, ..*piece }));
            fill(&sentences.collect::<Vec<_>>(), order, room())
        }
        Baseline::TfIdfMmr => fill(&pieces, model::tf_idf_mmr(&texts), room()),
    }
}

struct Room<'a> {
    messages: &'a [ShownMessage<'a>],
    count: CountTokens<'a>,
    left: u64,
    /// The days and the messages that have a line or a label.
    days: BTreeSet<&'a str>,
    labelled: BTreeSet<usize>,
}

impl<'a> Room<'a> {
    fn new(messages: &'a [ShownMessage<'a>], left: u64, count: CountTokens<'a>) -> Room<'a> {
        Room {
            messages,
            count,
            left,
            days: BTreeSet::new(),
            labelled: BTreeSet::new(),
        }
    }

    /// Takes the room of a part, or of as much of it as `cut` leaves of the rest of the room.
    /// Returns that text, and whether it is the whole part.
    fn take<'p>(
        &mut self,
        piece: &Piece<'p>,
        cut: fn(&'p str, u64, CountTokens<'_>) -> &'p str,
    ) -> (Piece<'p>, bool) {
        let before = self.heading(piece.message);
        let tokens = (self.count)(piece.text) + 1 + before;
        if tokens <= self.left {
            self.left -= tokens;
            return (*piece, true);
        }
        let text = cut(piece.text, self.left.saturating_sub(before), self.count);
        (Piece { text, ..*piece }, false)
    }

    /// The tokens of the day and the label of a message that are not there yet.
    fn heading(&mut self, message: usize) -> u64 {
        let Some(shown) = self.messages.get(message) else {
            return 0;
        };
        let mut tokens = 0;
        if !shown.day.is_empty() && self.days.insert(&shown.day) {
            tokens += (self.count)(&shown.day) + 1;
        }
        if !shown.label.is_empty() && self.labelled.insert(message) {
            // The space at its end belongs to the next word.
            tokens += (self.count)(shown.label.trim_end());
        }
        tokens
    }
}

/// The last lines that fit, and the end of the one before them.
fn tail(messages: &[Piece<'_>], mut room: Room<'_>) -> String {
    let mut lines = Vec::new();
    let all = messages.iter().rev().flat_map(|piece| {
        let lines = piece.text.lines().rev();
        lines.map(|text| Piece { text, ..*piece })
    });
    for line in all {
        let (kept, is_whole) = room.take(&line, last_words);
        lines.push(kept);
        if !is_whole {
            break;
        }
    }
    lines.reverse();
    without_empty(room.messages, lines)
}

/// Takes texts in the given order until the room is used; the last one is cut at a word.
fn fill(texts: &[Piece<'_>], order: impl IntoIterator<Item = usize>, mut room: Room<'_>) -> String {
    let mut kept: Vec<(usize, Piece<'_>)> = Vec::new();
    for index in order {
        let (piece, is_whole) = room.take(&texts[index], first_words);
        kept.push((index, piece));
        if !is_whole {
            break;
        }
    }
    kept.sort_unstable_by_key(|(index, _)| *index);
    let kept = kept.into_iter().map(|(_, piece)| piece);
    without_empty(room.messages, kept.collect())
}

/// Joins the parts. It omits the label of a message that has no words left.
fn without_empty(messages: &[ShownMessage<'_>], mut pieces: Vec<Piece<'_>>) -> String {
    pieces.retain(|piece| {
        let label = messages.get(piece.message).map_or("", |shown| &shown.label);
        !piece.text.is_empty() || label.is_empty()
    });
    join_pieces(messages, pieces)
}

/// The longest beginning of a text, in words, with fewer than `left` tokens.
fn first_words<'a>(text: &'a str, left: u64, count: CountTokens<'_>) -> &'a str {
    let ends = text.match_indices(char::is_whitespace);
    let ends: Vec<usize> = ends.map(|(at, _)| at).collect();
    let fits = ends.partition_point(|&end| count(&text[..end]) < left);
    fits.checked_sub(1).map_or("", |at| &text[..ends[at]])
}

/// The longest end of a text, in words, with fewer than `left` tokens.
fn last_words<'a>(text: &'a str, left: u64, count: CountTokens<'_>) -> &'a str {
    let starts = text.match_indices(char::is_whitespace);
    let starts: Vec<usize> = starts.map(|(at, space)| at + space.len()).collect();
    let over = starts.partition_point(|&start| count(&text[start..]) >= left);
    starts.get(over).map_or("", |&start| &text[start..])
}

/// A permutation drawn by a xorshift generator (G. Marsaglia, 2003): the same for a seed forever.
fn shuffled(len: usize, seed: u64) -> Vec<usize> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut order: Vec<usize> = (0..len).collect();
    for at in (1..len).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(at, (state >> 11) as usize % (at + 1));
    }
    order
}
