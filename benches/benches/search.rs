//! Searching 100,000 messages: by people over all sessions, by agents on one long branch; and what it
//! takes to make the index.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use unisono_benches::{Samples, Table, bytes, conversation, time};
use unisono_context::message::NewMessage;
use unisono_context::{MessageId, Role, SessionId, Timestamp, Tree};
use unisono_search::{Branch, Query, Search};
use unisono_session::{Event, Fact};
use unisono_store::{Journal, Memory};

/// Sessions of the same length, and one long one.
const SESSIONS: u128 = 500;
const EACH: u32 = 100;
const LONG: u32 = 50_000;
const CHARS: usize = 800;
const QUERIES: usize = 400;
const LIMIT: usize = 20;

const WORDS: [&str; 12] = [
    "migration",
    "orders",
    "staging",
    "Marek",
    "nightly",
    "export",
    "flag",
    "errors",
    "load",
    "checked",
    "behind",
    "until",
];

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(run());
}

async fn run() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let journal = Journal::new(Arc::new(Memory::new()));
    for n in 0..SESSIONS {
        fill(&journal, SessionId::from_u128(n + 2), EACH).await;
    }
    let long = fill(&journal, SessionId::from_u128(1), LONG).await;
    let messages = SESSIONS as u32 * EACH + LONG;

    let index = dir.path().join("search");
    let search = Search::on_disk(journal.clone(), index.clone());
    let start = Instant::now();
    search.settle(None).await.unwrap();
    let made = start.elapsed();
    let people = people(&search).await;
    let agents = agents(&search, &long).await;
    search.close().await;
    let search = Search::on_disk(journal, index.clone());
    let start = Instant::now();
    search.settle(None).await.unwrap();
    let opened = start.elapsed();
    search.close().await;

    let table = Table::new(
        "search",
        &format!("{messages} messages of {CHARS} characters, half of them in one session."),
    );
    for (what, samples) in people {
        for (part, name) in [(0.5, "median"), (0.99, "p99")] {
            let took = samples.at(part);
            let (limit, what) = (Duration::from_millis(20), format!("{what}, {name}"));
            table.row(&what, "≤ 20 ms", &time(took), None, took <= limit);
        }
    }
    let recalled = format!("recall on a branch of {LONG} messages, p99");
    table.note(&recalled, &time(agents.at(0.99)), None);
    let rate = f64::from(messages) / made.as_secs_f64();
    table.note(
        "made from the journal",
        &format!("{}, {rate:.0} messages/s", time(made)),
        None,
    );
    table.note(
        "opened, checked and compared with the journal",
        &time(opened),
        None,
    );
    table.note("on disk", &bytes(size(&index)), None);
}

/// Queries of one to three words, phrases, and words under filters, in turns.
async fn people(search: &Search) -> Vec<(&'static str, Samples)> {
    let word = |n: usize| WORDS[n % WORDS.len()];
    type Make = dyn Fn(usize) -> String;
    let kinds: [(&str, Box<Make>); 4] = [
        ("one word", Box::new(move |n| word(n).to_owned())),
        (
            "three words",
            Box::new(move |n| format!("{} {} {}", word(n), word(n + 3), word(n + 7))),
        ),
        (
            "a phrase",
            Box::new(move |n| format!("\"{} {}\"", word(n), word(n + 1))),
        ),
        (
            "two words of a role since a time",
            Box::new(move |n| {
                format!(
                    "{} +{} role:user since:1970-01-01T00:00:20Z",
                    word(n),
                    word(n + 5)
                )
            }),
        ),
    ];
    let mut all: Vec<(&str, Samples)> = Vec::new();
    for (kind, _) in &kinds {
        all.push((kind, Samples::default()));
    }
    for n in 0..QUERIES {
        for ((_, make), (_, samples)) in kinds.iter().zip(&mut all) {
            let query = Query::parse(&make(n), Timestamp(0)).unwrap();
            let start = Instant::now();
            let answer = search.find(&query, &[], LIMIT).await.unwrap();
            samples.push(start.elapsed());
            assert!(answer.complete);
        }
    }
    all
}

async fn agents(search: &Search, branch: &Branch) -> Samples {
    let mut samples = Samples::default();
    for n in 0..QUERIES / 4 {
        let text = format!(
            "what about the {} of {}",
            WORDS[n % 12],
            WORDS[(n + 5) % 12]
        );
        let start = Instant::now();
        let recalled = search.recall(branch, &text, 8).await.unwrap();
        samples.push(start.elapsed());
        assert!(!recalled.messages.is_empty());
    }
    samples
}

async fn fill(journal: &Journal, session: SessionId, messages: u32) -> Branch {
    let event = |fact| Event {
        at: Timestamp(0),
        fact,
    };
    let (mut tree, mut parent) = (Tree::default(), None);
    let mut events = vec![event(Fact::Created {
        session,
        title: "a talk".into(),
        system: "".into(),
        labels: [].into(),
    })];
    for n in 0..messages {
        let id = MessageId::from_u128(u128::from(n) + 1);
        let role = if n % 2 == 0 {
            Role::User
        } else {
            Role::Assistant
        };
        let seed = session.as_u128() as u64 * 1_000_003 + u64::from(n);
        let text = conversation::text(seed, CHARS);
        let message = NewMessage::text(id, role, text, Timestamp(i64::from(n) * 1_000));
        tree.append(parent, message.clone()).unwrap();
        events.push(event(Fact::Appended {
            branch: Some("main".into()),
            parent,
            message,
        }));
        parent = Some(id);
    }
    let claim = journal.claim(session).await.unwrap();
    let mut seq = claim.last_seq;
    for part in events.chunks(4_096) {
        seq = journal
            .append(session, claim.epoch, seq, part, 0)
            .await
            .unwrap();
    }
    Branch::new(session, &tree, parent.unwrap())
}

fn size(dir: &Path) -> f64 {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    let sizes = entries.filter_map(|entry| entry.metadata().ok());
    sizes.map(|meta| meta.len() as f64).sum()
}
