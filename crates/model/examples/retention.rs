//! Prints which share of probed facts a summary keeps, beside baselines of the same size.
//!
//! `cargo run --release -p unisono-model --example retention -- <conversation>.jsonl <probes>.jsonl …`

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a small tool"
)]

use unisono_context::{Encoding, Tokens};
use unisono_model::Tokenizer;
use unisono_model::extractive::{Style, SummaryInput, summarise};
use unisono_model::retention::baseline::{Baseline, measure as by_baseline};
use unisono_model::retention::{parse, report};

#[path = "../tests/support/conversation.rs"]
mod conversation;

/// Extractive, tail, head and tail, random, LexRank, TF-IDF with MMR.
type Shares = [f64; 6];

fn main() {
    let tokenizer = Tokenizer::load(Encoding::O200kBase).unwrap();
    let files: Vec<String> = std::env::args().skip(1).collect();
    println!(
        "| conversation | size | tokens | extractive | tail | head+tail | random | LexRank \
         | TF-IDF+MMR | × tail | × random | × TF-IDF+MMR |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for ratio in [10, 4] {
        let mut sums = Shares::default();
        for pair in files.chunks_exact(2) {
            let (cap, shares) = measure(&tokenizer, &pair[0], &pair[1], ratio);
            print_row(&pair[0], ratio, cap, shares);
            sums.iter_mut()
                .zip(shares)
                .for_each(|(sum, share)| *sum += share);
        }
        let sets = files.len() as f64 / 2.0;
        print_row("mean", ratio, 0, sums.map(|sum| sum / sets));
    }
}

fn measure(tokenizer: &Tokenizer, transcript: &str, probes: &str, ratio: u64) -> (u64, Shares) {
    let count = |text: &str| tokenizer.count(text).tokens.0;
    let lines = conversation::read(&std::fs::read_to_string(transcript).unwrap());
    let probes = parse(
        &std::fs::read_to_string(probes).unwrap(),
        lines.len() as u32,
    )
    .unwrap();
    let texts: Vec<String> = lines.iter().map(conversation::Line::text).collect();
    let messages: Vec<&str> = texts.iter().map(String::as_str).collect();
    let cap = messages.iter().map(|message| count(message)).sum::<u64>() / ratio;
    let passages = conversation::passages(&lines);
    let draft = summarise(&SummaryInput {
        passages: &passages,
        prior: None,
        prior_facts: &[],
        cap: Tokens(cap),
        style: Style::Rolling,
        instructions: None,
        count: &count,
    });
    let share = |text: &str| report(text, &probes).all.share();
    let by = |baseline| {
        by_baseline(baseline, &messages, cap, &count, &probes)
            .1
            .all
            .share()
    };
    let shares = [
        share(&draft.text),
        by(Baseline::Tail),
        by(Baseline::HeadTail),
        by(Baseline::Random),
        by(Baseline::LexRank),
        by(Baseline::TfIdfMmr),
    ];
    (cap, shares)
}

fn print_row(name: &str, ratio: u64, cap: u64, shares: Shares) {
    let name = name.rsplit('/').next().unwrap_or(name);
    let columns: String = shares
        .iter()
        .map(|share| format!(" {share:.3} |"))
        .collect();
    let times = |other: usize| shares[0] / shares[other];
    println!(
        "| {name} | {ratio}:1 | {cap} |{columns} {:.2} | {:.2} | {:.2} |",
        times(1),
        times(3),
        times(5)
    );
}
