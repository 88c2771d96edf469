//! A whole compaction by the extractive model, and which facts its summary keeps.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement ends where it cannot go on"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use criterion::BenchmarkId;
use unisono_benches::{Samples, Table, bytes, measure, samples, team, time};
use unisono_context::message::NewMessage;
use unisono_context::policy::{Keep, Policy, Preset};
use unisono_context::{Encoding, MessageId, Ordinal, Part, SessionId, Timestamp, Tokens};
use unisono_interchange::transcript::{self, Stamps};
use unisono_model::Tokenizer;
use unisono_model::extractive::{Passage, SummaryInput, summarise};
use unisono_model::language::Models;
use unisono_model::retention::baseline::{Baseline, measure as by_baseline};
use unisono_model::retention::{Probe, ShownMessage, parse, report};
use unisono_runtime::{Options, Runtime, clock};
use unisono_session::event::{Outcome, SummaryOptions, Work};
use unisono_session::machine::Import;
use unisono_store::{Disk, Journal};

const MESSAGES: usize = 1_000;
const COMPACTIONS: u128 = 9;

/// Conversations and probes, from the root of the repository.
const PROBED: [(&str, &str); 3] = [
    (
        "examples/orders-migration.jsonl",
        "examples/probes/orders-migration.probes.jsonl",
    ),
    (
        "examples/probes/clinic-scheduling.jsonl",
        "examples/probes/clinic-scheduling.probes.jsonl",
    ),
    (
        "examples/probes/field-research.jsonl",
        "examples/probes/field-research.probes.jsonl",
    ),
];

/// A conversation with the facts that can be asked of it.
struct Probed {
    name: String,
    messages: Vec<NewMessage>,
    probes: Vec<Probe>,
}

fn read((conversation, probes): (&str, &str)) -> Probed {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read(root.join(conversation)).unwrap();
    let mut ids = clock::new_id;
    let stamps = Stamps {
        ids: &mut ids,
        now: Some(Timestamp(0)),
    };
    let parsed = transcript::read(&text, &transcript::Options::default(), stamps).unwrap();
    let name = Path::new(conversation).file_stem().unwrap();
    let messages: Vec<NewMessage> = parsed.import.messages.into_iter().map(|(_, m)| m).collect();
    let probes = std::fs::read_to_string(root.join(probes)).unwrap();
    Probed {
        name: name.to_string_lossy().into_owned(),
        probes: parse(&probes, messages.len() as u32).unwrap(),
        messages,
    }
}

/// All conversations one after the other, as often as it takes.
fn long(probed: &[Probed]) -> Vec<NewMessage> {
    let all = probed.iter().flat_map(|one| &one.messages).cycle();
    let numbered = all.take(MESSAGES).cloned().enumerate();
    numbered
        .map(|(n, message)| NewMessage {
            id: MessageId::from_u128(n as u128 + 1),
            ..message
        })
        .collect()
}

fn passages(messages: &[NewMessage]) -> Vec<Passage<'_>> {
    let parts = messages.iter().enumerate().flat_map(|(n, message)| {
        let ordinal = Ordinal(n as u32 + 1);
        message
            .parts
            .iter()
            .map(move |part| (ordinal, message, part))
    });
    parts
        .filter_map(|(n, m, part)| Passage::of_part(n, m.role, None, m.at, part))
        .collect()
}

fn said(message: &NewMessage) -> String {
    let parts: Vec<_> = message.parts.iter().map(Part::countable_text).collect();
    parts.join("\n")
}

fn summary(messages: &[NewMessage], cap: u64, tokenizer: Tokenizer) -> String {
    let draft = summarise(&SummaryInput::new(
        &passages(messages),
        Tokens(cap),
        &|text: &str| tokenizer.count(text).tokens.0,
    ));
    draft.text
}

fn main() {
    let probed = PROBED.map(read);
    let messages = long(&probed);
    let size: usize = messages.iter().map(|message| said(message).len()).sum();
    let tokenizer = Tokenizer::load(Encoding::O200kBase).unwrap();
    let mut criterion = samples::criterion();
    let id = BenchmarkId::new("extract", MESSAGES);
    let extraction = measure(&mut criterion, id, || summary(&messages, 2_048, tokenizer));
    if extraction.is_empty() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let compaction = runtime.block_on(compactions(&messages));

    let table = Table::new(
        "extract",
        &format!(
            "{MESSAGES} messages with tool calls, {} of text.",
            bytes(size as f64)
        ),
    );
    let rate = size as f64 / 1e6 / extraction.median().as_secs_f64();
    let shown = format!("{}, {rate:.1} MB/s", time(extraction.median()));
    table.row(
        "summary of 2,048 tokens",
        "≥ 20 MB/s",
        &shown,
        None,
        rate >= 20.0,
    );
    let whole = compaction.median();
    table.row(
        "whole compaction on request, durable",
        "≤ 250 ms",
        &time(whole),
        None,
        whole.as_millis() <= 250,
    );
    retention(&probed, tokenizer);
}

/// Whole compactions of counted sessions, from the request to the checkpoint on disk.
async fn compactions(messages: &[NewMessage]) -> Samples {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = Arc::new(Disk::open(dir.path()).unwrap().disk);
    let (journal, kinds) = (Journal::new(disk), team::extensions());
    let runtime = Runtime::start(journal, kinds, Models::default(), Options::default()).await;
    let runtime = runtime.unwrap();
    let mut parent = None;
    let link = |message: &NewMessage| (parent.replace(message.id), message.clone());
    let messages: Vec<_> = messages.iter().map(link).collect();
    let mut samples = Samples::default();
    for n in 1..=COMPACTIONS {
        let import = Import {
            session: Some(SessionId::from_u128(n)),
            messages: messages.clone(),
            ..Import::default()
        };
        let handle = runtime.create(import).await.unwrap();
        let compact = async |keep| {
            let work = Work::Compact {
                keep,
                writing: SummaryOptions::default(),
            };
            let turn = team::turn(
                "main",
                team::team(0),
                work,
                Policy::from_preset(Preset::Checkpoint),
            );
            let (id, start) = (turn.id, Instant::now());
            handle.accept(turn).await.unwrap();
            let ended = handle.wait(id).await.unwrap();
            let Outcome::Compacted { before, after } = ended.outcome else {
                panic!("{:?}", ended.outcome);
            };
            (start.elapsed(), before, after)
        };
        // Keeps all, and so only counts.
        compact(Some(Keep::Messages(u32::MAX))).await;
        let (took, before, after) = compact(None).await;
        assert!(after < before, "{before} to {after}");
        samples.push(took);
    }
    runtime.shutdown().await;
    samples
}

/// The share of probed facts in a summary of a tenth and a quarter of the size, beside texts of
/// the same size.
fn retention(probed: &[Probed], tokenizer: Tokenizer) {
    let table = Table::new(
        "retention",
        "Share of probed facts kept; ratio: against the tail, or what is named.",
    );
    for part in [10, 4] {
        let mut sums = Shares::default();
        for one in probed {
            let shares = shares(one, part, tokenizer);
            let Shares([kept, tail, random, ..]) = shares;
            let what = format!(
                "{}, 1/{part} of its tokens, {} probes",
                one.name,
                one.probes.len()
            );
            let met = kept > tail && kept > random;
            table.row(
                &what,
                "> tail, > random",
                &shares.shown(),
                Some(kept / tail),
                met,
            );
            sums.0
                .iter_mut()
                .zip(shares.0)
                .for_each(|(sum, share)| *sum += share);
        }
        let all = Shares(sums.0.map(|sum| sum / probed.len() as f64));
        let Shares([kept, tail, random, _, mmr]) = all;
        let aims = [
            ("tail", tail, 1.9),
            ("random", random, 1.45),
            ("TF-IDF with MMR", mmr, 1.3),
        ];
        for (other, share, least) in aims {
            let (what, ratio) = (format!("all, 1/{part}, against {other}"), kept / share);
            let aim = format!("≥ {least} × {other}");
            if part == 10 {
                table.row(&what, &aim, &all.shown(), Some(ratio), ratio >= least);
            } else {
                table.note(&what, &all.shown(), Some(ratio));
            }
        }
    }
}

/// Of the summary, the tail, random messages, LexRank, and TF-IDF with MMR.
#[derive(Clone, Copy, Default)]
struct Shares([f64; 5]);

impl Shares {
    fn shown(&self) -> String {
        let [kept, tail, random, lexrank, mmr] = self.0;
        format!(
            "{kept:.3}; tail {tail:.3}, random {random:.3}, LexRank {lexrank:.3}, \
             TF-IDF with MMR {mmr:.3}"
        )
    }
}

fn shares(probed: &Probed, part: u64, tokenizer: Tokenizer) -> Shares {
    let count = |text: &str| tokenizer.count(text).tokens.0;
    let texts: Vec<String> = probed.messages.iter().map(said).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let cap = texts.iter().map(|text| count(text)).sum::<u64>() / part;
    let shown: Vec<_> = texts
        .iter()
        .map(|text| ShownMessage::unlabelled(*text))
        .collect();
    let of = |baseline| {
        by_baseline(baseline, &shown, cap, &count, &probed.probes)
            .1
            .all
            .share()
    };
    let own = report(&summary(&probed.messages, cap, tokenizer), &probed.probes);
    Shares([
        own.all.share(),
        of(Baseline::Tail),
        of(Baseline::Random),
        of(Baseline::LexRank),
        of(Baseline::TfIdfMmr),
    ])
}
