//! How much of what was said the extractive summary keeps, beside simple ways to keep as much.
//!
//! `cargo run -p unisono-model --example retained` prints the table, `… telegraphic` the one of
//! telegraphic wording, `… show chat tune` one of the summaries. The talks are made of the fragments in `probes`, each kind in two halves: weights
//! were fitted on `tune` and the shipped conversations; `report` was looked at to compare variants.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement prints, and ends where it cannot go on"
)]

mod measure;
mod talk;

use std::collections::BTreeSet;

use measure::{LimitShare, share, share_without_facts};
use talk::{Talk, Utterance, noon, talk};
use unisono_context::checkpoint::{Body, Span, block_text};
use unisono_context::{Encoding, Ordinal, Tokens};
use unisono_model::Tokenizer;
use unisono_model::extractive::{CountTokens, Passage, SummaryDraft, SummaryInput, checkpoint};
use unisono_model::retention::baseline::{Baseline, keep};

const WORDS: &str = include_str!("probes/words.txt");
const HALVES: [(&str, [(&str, &str); 4]); 2] = [
    (
        "tune",
        [
            ("chat", include_str!("probes/chat.tune.txt")),
            ("support", include_str!("probes/support.tune.txt")),
            ("coding", include_str!("probes/coding.tune.txt")),
            ("task", include_str!("probes/task.tune.txt")),
        ],
    ),
    (
        "report",
        [
            ("chat", include_str!("probes/chat.report.txt")),
            ("support", include_str!("probes/support.report.txt")),
            ("coding", include_str!("probes/coding.report.txt")),
            ("task", include_str!("probes/task.report.txt")),
        ],
    ),
];
/// Talks made of each probe file.
const SEEDS: u64 = 24;
/// Drawings of the random baseline.
const DRAWINGS: u64 = 10;
const GENERATIONS: usize = 10;

fn main() {
    let tokenizer = Tokenizer::load(Encoding::O200kBase).unwrap();
    let count = |text: &str| tokenizer.count(text).tokens.0;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    println!("shares of the answers' words: anywhere/with the subject");
    for (half, kinds) in HALVES {
        for (kind, text) in kinds {
            match &arguments[..] {
                [show, k, h] if show == "show" && (k != kind || h != half) => continue,
                [show, ..] if show == "show" => {
                    let talk = talk(text, WORDS, 1);
                    let cap = whole(&talk, &count) / 10;
                    println!("{}", once(&talk, cap, &count));
                }
                _ => [10, 4]
                    .iter()
                    .for_each(|part| row(half, kind, text, *part, &count)),
            }
        }
    }
}

fn row(half: &str, kind: &str, text: &str, part: u64, count: CountTokens<'_>) {
    let mut sums = [LimitShare::default(); 6];
    let mut idle = 0.0;
    for seed in 1..=SEEDS {
        let talk = talk(text, WORDS, seed);
        let cap = whole(&talk, count) / part;
        let own = once(&talk, cap, count);
        let rolled = rolling(&talk, cap, count);
        idle += share_without_facts(&own) / SEEDS as f64;
        let oldest = || talk.questions.iter().filter(|q| q.place < 0.25);
        let mut add = |at: usize, new: LimitShare, weight: f64| {
            sums[at].bag += new.bag / weight / SEEDS as f64;
            sums[at].subject += new.subject / weight / SEEDS as f64;
        };
        add(0, share(&own, talk.questions.iter()), 1.0);
        let texts = texts(&talk);
        let messages: Vec<&str> = texts.iter().map(String::as_str).collect();
        let sentences = sentences(&talk);
        let sentences: Vec<&str> = sentences.iter().map(String::as_str).collect();
        let kept = keep(Baseline::Tail, 1, &messages, cap, count);
        add(1, share(&kept, talk.questions.iter()), 1.0);
        for drawing in 1..=DRAWINGS {
            let kept = keep(Baseline::Random, drawing, &messages, cap, count);
            add(2, share(&kept, talk.questions.iter()), DRAWINGS as f64);
        }
        let kept = keep(Baseline::TfIdfMmr, 1, &sentences, cap, count);
        add(3, share(&kept, talk.questions.iter()), 1.0);
        add(4, share(&rolled, talk.questions.iter()), 1.0);
        let (then, now) = (share(&own, oldest()), share(&rolled, oldest()));
        let lost = LimitShare {
            bag: now.bag - then.bag,
            subject: now.subject - then.subject,
        };
        add(5, lost, 1.0);
    }
    let names = [
        "own",
        "tail",
        "random",
        "mmr",
        "ten rolled",
        "oldest quarter rolled",
    ];
    print!("{half:<6} {kind:<7} {part:>2}:1");
    for (name, sum) in names.iter().zip(sums) {
        print!("  {name} {:.3}/{:.3}", sum.bag, sum.subject);
    }
    println!("  without facts {idle:.3}");
}

fn once(talk: &Talk, cap: u64, count: CountTokens<'_>) -> String {
    let none = SummaryDraft::default();
    block(
        &talk.utterances,
        &summary(&talk.utterances, &none, cap, count),
    )
}

fn rolling(talk: &Talk, cap: u64, count: CountTokens<'_>) -> String {
    let mut draft = SummaryDraft::default();
    let chunk = talk.utterances.len().div_ceil(GENERATIONS);
    for end in (0..talk.utterances.len()).step_by(chunk) {
        let part = &talk.utterances[end..(end + chunk).min(talk.utterances.len())];
        draft = summary(part, &draft, cap, count);
    }
    block(&talk.utterances, &draft)
}

/// A checkpoint of the messages and of the draft before them.
fn summary(
    utterances: &[Utterance],
    prior: &SummaryDraft,
    cap: u64,
    count: CountTokens<'_>,
) -> SummaryDraft {
    let draft = checkpoint(
        &SummaryInput {
            prior: (!prior.text.is_empty()).then_some(&prior.text),
            prior_facts: &prior.key_facts,
            telegraphic: std::env::args().any(|argument| argument == "telegraphic"),
            ..SummaryInput::new(&passages(utterances), Tokens(cap), count)
        },
        &[covered(utterances)],
    );
    assert!(draft.tokens.0 <= cap);
    draft
}

fn covered(utterances: &[Utterance]) -> Span {
    Span {
        first: Ordinal::FIRST,
        last: utterances
            .last()
            .map_or(Ordinal::FIRST, |utterance| utterance.ordinal),
    }
}

fn block(utterances: &[Utterance], draft: &SummaryDraft) -> String {
    let body = Body::Summary(draft.text.as_str().into());
    block_text(&[covered(utterances)], &body, &draft.key_facts)
}

fn passages(utterances: &[Utterance]) -> Vec<Passage<'_>> {
    utterances
        .iter()
        .filter_map(|utterance| {
            Passage::of_part(
                utterance.ordinal,
                utterance.role,
                utterance.name.as_deref(),
                noon(utterance.day),
                &utterance.part,
            )
        })
        .collect()
}

fn whole(talk: &Talk, count: CountTokens<'_>) -> u64 {
    texts(talk).iter().map(|text| count(text)).sum()
}

fn speaker(utterance: &Utterance) -> &str {
    utterance.name.as_deref().unwrap_or(utterance.role.name())
}

/// The messages with their speakers, and each day before its first one.
fn texts(talk: &Talk) -> Vec<String> {
    let mut day = None;
    let text = |utterance: &Utterance| {
        let new = day.replace(utterance.day) != Some(utterance.day);
        let head = if new {
            utterance.day.strftime("%-d %B %Y\n").to_string()
        } else {
            String::new()
        };
        format!(
            "{head}{}: {}",
            speaker(utterance),
            utterance.part.countable_text()
        )
    };
    talk.utterances.iter().map(text).collect()
}

/// The sentences, each with its speaker, each once.
fn sentences(talk: &Talk) -> Vec<String> {
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    for utterance in &talk.utterances {
        let text = utterance.part.countable_text();
        let ends = text
            .match_indices(['.', '!', '?', '\n'])
            .map(|(at, _)| at + 1);
        let mut from = 0;
        for end in ends.chain([text.len()]) {
            let whole = end == text.len() || text[end..].starts_with([' ', '\n']);
            if whole && !text[from..end].trim().is_empty() {
                let sentence = format!("{}: {}", speaker(utterance), text[from..end].trim());
                if known.insert(sentence.clone()) {
                    found.push(sentence);
                }
                from = end;
            }
        }
    }
    found
}
