//! Counting a conversation: cold against the tokenizer called directly, and warm.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::num::NonZero;
use std::thread;

use criterion::BenchmarkId;
use tiktoken_rs::CoreBPE;
use unisono_benches::{Conversation, Table, conversation, in_turns, measure, samples, time};
use unisono_context::budget::{Budget, Limits};
use unisono_context::tokens::Count;
use unisono_context::{Encoding, Ppm, Tokens};
use unisono_model::Tokenizer;

const MESSAGES: usize = 1_000;
const CHARS: usize = 300;

/// What anybody would write first.
fn directly(bpe: &CoreBPE, texts: &[String]) -> usize {
    texts.iter().map(|text| bpe.count_ordinary(text)).sum()
}

/// The same on as many threads as the machine offers.
fn directly_on_threads(bpe: &CoreBPE, texts: &[String], threads: usize) -> usize {
    thread::scope(|scope| {
        let shares = texts.chunks(texts.len().div_ceil(threads));
        let counting: Vec<_> = shares
            .map(|share| scope.spawn(|| directly(bpe, share)))
            .collect();
        counting
            .into_iter()
            .map(|share| share.join().unwrap())
            .sum()
    })
}

fn main() {
    let texts: Vec<String> = (0..MESSAGES as u64)
        .map(|n| conversation::text(n + 1, CHARS))
        .collect();
    let tokenizer = Tokenizer::load(Encoding::O200kBase).unwrap();
    let bpe = tiktoken_rs::o200k_base().unwrap();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let ours = |tokenizer: &Tokenizer| -> Count { tokenizer.count_many(&texts).into_iter().sum() };
    assert_eq!(
        ours(&tokenizer),
        Count::exact(directly(&bpe, &texts) as u64)
    );

    let mut criterion = samples::criterion();
    let (cold, sequential) = in_turns(
        &mut criterion,
        BenchmarkId::new("count, cold", "sequential"),
        || ours(&tokenizer),
        || directly(&bpe, &texts),
    );
    let (cold_again, parallel) = in_turns(
        &mut criterion,
        BenchmarkId::new("count, cold", "parallel"),
        || ours(&tokenizer),
        || directly_on_threads(&bpe, &texts, threads),
    );
    // What a turn does for messages that were counted before: it finds none without a count,
    // and takes their sum.
    let counted = Conversation::of(texts.iter().cloned());
    let limits = Limits {
        window: Tokens(200_000),
        max_output: Tokens(8_000),
        encoding: Encoding::O200kBase,
        per_message: Tokens(3),
        files: Default::default(),
    };
    let budget = Budget::new(limits, Ppm::percent(5), Tokens(20));
    let warm = measure(&mut criterion, BenchmarkId::new("count", "warm"), || {
        let missing = counted.tree.uncounted(counted.head, Encoding::O200kBase);
        assert!(missing.is_empty(), "all is counted");
        counted.view().effective(&budget)
    });
    if cold.is_empty() || parallel.is_empty() || warm.is_empty() {
        return;
    }

    let table = Table::new(
        "count",
        &format!(
            "{MESSAGES} messages of {CHARS} characters, {} tokens in o200k_base, {threads} threads.",
            ours(&tokenizer).tokens
        ),
    );
    let ratio = cold.ratio(&sequential);
    table.row(
        "cold, against tiktoken-rs called in a loop",
        "≤ 1.2 ×",
        &format!("{} / {}", time(cold.median()), time(sequential.median())),
        Some(ratio),
        ratio <= 1.2,
    );
    let ratio = cold_again.ratio(&parallel);
    table.row(
        "cold, against tiktoken-rs on the same number of threads",
        "≤ 1.2 ×",
        &format!(
            "{} / {}",
            time(cold_again.median()),
            time(parallel.median())
        ),
        Some(ratio),
        ratio <= 1.2,
    );
    let ratio = warm.ratio(&cold);
    table.row(
        "warm, against cold",
        "≤ 0.01 ×",
        &time(warm.median()),
        Some(ratio),
        ratio <= 0.01,
    );
}
