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
use unisono_model::retention::baseline::{Baseline, keep};
use unisono_model::retention::{parse, report};

#[path = "../tests/support/conversation.rs"]
mod conversation;

fn main() {
    let tokenizer = Tokenizer::load(Encoding::O200kBase).unwrap();
    let count = |text: &str| tokenizer.count(text).tokens.0;
    let files: Vec<String> = std::env::args().skip(1).collect();
    let show = std::env::var("SHOW").is_ok();
    println!(
        "| conversation | size | tokens | extractive | tail | head+tail | random | LexRank | TF-IDF+MMR | /tail | /random | /MMR |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for ratio in [10, 4] {
        let mut sums = [0.0; 6];
        for pair in files.chunks(2) {
            let lines = conversation::read(&std::fs::read_to_string(&pair[0]).unwrap());
            let probes = parse(&std::fs::read_to_string(&pair[1]).unwrap()).unwrap();
            let texts: Vec<String> = lines.iter().map(conversation::Line::text).collect();
            let messages: Vec<&str> = texts.iter().map(String::as_str).collect();
            let all: u64 = messages.iter().map(|m| count(m)).sum();
            let cap = all / ratio;
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
            if show {
                println!("{}", draft.text);
                let kept = unisono_model::retention::kept(&draft.text, &probes);
                for (p, k) in probes.iter().zip(kept) {
                    println!(
                        "{} {} {:?} {:?} {:?}",
                        if k { "+" } else { "-" },
                        p.id,
                        p.subject,
                        p.answer,
                        p.ordinals
                    );
                }
            }
            let share = |text: &str| report(text, &probes).all.share();
            let base = |b| share(&keep(b, &messages, cap, &count));
            let random = (1..=40)
                .map(|seed| base(Baseline::Random(seed)))
                .sum::<f64>()
                / 40.0;
            let row = [
                share(&draft.text),
                base(Baseline::Tail),
                base(Baseline::HeadTail),
                random,
                base(Baseline::LexRank),
                base(Baseline::TfIdfMmr),
            ];
            for (s, r) in sums.iter_mut().zip(row) {
                *s += r;
            }
            print_row(&pair[0], ratio, cap, row);
        }
        let n = files.len() as f64 / 2.0;
        print_row("mean", ratio, 0, sums.map(|s| s / n));
    }
}

fn print_row(name: &str, ratio: u64, cap: u64, r: [f64; 6]) {
    let name = name.rsplit('/').next().unwrap_or(name);
    println!(
        "| {name} | {ratio}:1 | {cap} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {:.2} | {:.2} | {:.2} |",
        r[0],
        r[1],
        r[2],
        r[3],
        r[4],
        r[5],
        r[0] / r[1],
        r[0] / r[3],
        r[0] / r[5]
    );
}
