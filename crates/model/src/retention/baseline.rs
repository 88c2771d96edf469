//! Baselines for a summary: simple ways to keep the same number of tokens of a conversation.
//!
//! Each takes whole messages (or sentences) and fills the rest of the size with as many words of
//! the next one as fit, so that none of them wastes room.

use super::{Probe, Report, report};
use crate::extractive::CountTokens;
use crate::extractive::baseline as model;

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

impl Baseline {
    /// All of them.
    pub const ALL: [Baseline; 5] = [
        Baseline::Tail,
        Baseline::HeadTail,
        Baseline::Random,
        Baseline::LexRank,
        Baseline::TfIdfMmr,
    ];

    /// The display name.
    pub const fn name(self) -> &'static str {
        match self {
            Baseline::Tail => "tail",
            Baseline::HeadTail => "head+tail",
            Baseline::Random => "random",
            Baseline::LexRank => "LexRank",
            Baseline::TfIdfMmr => "TF-IDF with MMR",
        }
    }
}

/// The tokens of a baseline's text of at most `cap` tokens, and its report.
pub fn measure(
    baseline: Baseline,
    messages: &[&str],
    cap: u64,
    count: CountTokens<'_>,
    probes: &[Probe],
) -> (u64, Report) {
    let seeds = if baseline == Baseline::Random {
        SEEDS
    } else {
        1
    };
    let texts = (1..=seeds).map(|seed| keep(baseline, seed, messages, cap, count));
    let measured = texts.map(|text| (count(&text), report(&text, probes)));
    let (tokens, reports): (Vec<u64>, Vec<Report>) = measured.unzip();
    (tokens.iter().sum::<u64>() / seeds, Report::mean(&reports))
}

/// The text of at most `cap` tokens that a baseline keeps of the messages, in their order. Only
/// [`Baseline::Random`] depends on the seed.
pub fn keep(
    baseline: Baseline,
    seed: u64,
    messages: &[&str],
    cap: u64,
    count: CountTokens<'_>,
) -> String {
    match baseline {
        Baseline::Tail => tail(messages, cap, count),
        Baseline::HeadTail => {
            let head = fill(messages, 0..messages.len(), cap / 2, count);
            let used = count(&head);
            let tail = tail(messages, cap - used.min(cap), count);
            format!("{head}\n{tail}")
        }
        Baseline::Random => fill(messages, shuffled(messages.len(), seed), cap, count),
        Baseline::LexRank => {
            let (sentences, order) = model::lexrank(messages);
            fill(&sentences, order, cap, count)
        }
        Baseline::TfIdfMmr => fill(messages, model::tf_idf_mmr(messages), cap, count),
    }
}

/// The last lines that fit, and the end of the one before them.
fn tail(messages: &[&str], cap: u64, count: CountTokens<'_>) -> String {
    let mut lines = Vec::new();
    let mut left = cap;
    for line in messages.iter().rev().flat_map(|m| m.lines().rev()) {
        let tokens = count(line) + 1;
        if tokens > left {
            lines.push(last_words(line, left, count));
            break;
        }
        left -= tokens;
        lines.push(line);
    }
    lines.reverse();
    lines.join("\n")
}

/// Takes texts in the given order until the cap is reached; the last one is cut at a word.
fn fill(
    texts: &[&str],
    order: impl IntoIterator<Item = usize>,
    cap: u64,
    count: CountTokens<'_>,
) -> String {
    let mut kept: Vec<(usize, &str)> = Vec::new();
    let mut left = cap;
    for index in order {
        let tokens = count(texts[index]) + 1;
        if tokens > left {
            kept.push((index, first_words(texts[index], left, count)));
            break;
        }
        left -= tokens;
        kept.push((index, texts[index]));
    }
    kept.sort_unstable_by_key(|(index, _)| *index);
    let texts: Vec<&str> = kept.into_iter().map(|(_, text)| text).collect();
    texts.join("\n")
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
