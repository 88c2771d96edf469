//! Handing one frozen context to a thousand runs: a shared prefix and each run's own tail, against
//! serialising the whole request for each run.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::alloc::System;
use std::sync::Arc;

use bytes::Bytes;
use criterion::BenchmarkId;
use serde::Serialize;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use unisono_benches::{Conversation, Table, bytes, in_turns, samples, time};
use unisono_context::snapshot::Entry;
use unisono_context::{Encoding, Part, RunId, Snapshot};
use unisono_model::Tokenizer;
use unisono_model::prompt::{self, Group, Persona, Prefix, Tail};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const RUNS: u128 = 1_000;
const SHIPPED: &str = "risks";
const TASK: &str = "List the risks that nobody has answered yet, the most severe first.";

/// What a run is handed: the context as a value, and its request in two chunks.
struct Handed {
    _snapshot: Arc<Snapshot>,
    _request: [Bytes; 2],
}

fn hand(snapshot: &Arc<Snapshot>, prefix: &Prefix, persona: &Persona, run: u128) -> Handed {
    let tail = Tail {
        persona,
        task: Some(TASK),
        results: &[],
        run: RunId::from_u128(run),
        attempt: 1,
    };
    Handed {
        _snapshot: snapshot.clone(),
        _request: [prefix.bytes().clone(), tail.render(&Group::Shared)],
    }
}

/// The same request as a value that serde writes.
#[derive(Serialize)]
struct Request<'a> {
    snapshot: String,
    system: &'a str,
    messages: Vec<Message<'a>>,
    agent: Agent<'a>,
    task: &'a str,
    run: String,
    attempt: u32,
}

#[derive(Serialize)]
struct Message<'a> {
    n: u32,
    role: &'a str,
    parts: Vec<Text<'a>>,
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'a str,
    text: &'a str,
}

#[derive(Serialize)]
struct Agent<'a> {
    id: &'a str,
    description: &'a str,
    instructions: &'a str,
}

fn serialise(snapshot: &Snapshot, persona: &Persona, run: u128) -> Vec<u8> {
    let request = Request {
        snapshot: snapshot.id().to_string(),
        system: snapshot.preamble().system(),
        messages: snapshot.entries().iter().map(message).collect(),
        agent: Agent {
            id: persona.agent.as_str(),
            description: &persona.description,
            instructions: &persona.instructions,
        },
        task: TASK,
        run: RunId::from_u128(run).to_string(),
        attempt: 1,
    };
    serde_json::to_vec(&request).unwrap()
}

fn message(entry: &Entry) -> Message<'_> {
    let said = entry.message();
    Message {
        n: said.ordinal.0,
        role: said.role.name(),
        parts: said.parts.iter().filter_map(part).collect(),
    }
}

fn part(part: &Part) -> Option<Text<'_>> {
    match part {
        Part::Text(text) => Some(Text {
            r#type: "text",
            text,
        }),
        _ => None,
    }
}

fn main() {
    let conversation = Conversation::new(0, 400);
    let snapshot = Arc::new(conversation.freeze());
    let prefix = prompt::render(Some(&snapshot), &Group::Shared);
    let persona = persona();

    let per_run = allocated(&snapshot, &prefix, &persona);
    let shipped = shipped();
    let shipped_per_run = allocated(&snapshot, &prefix, &shipped);

    let mut criterion = samples::criterion();
    let (shared, serialised) = in_turns(
        &mut criterion,
        BenchmarkId::new("handoff", RUNS),
        || -> Vec<Handed> {
            let runs = 0..RUNS;
            runs.map(|run| hand(&snapshot, &prefix, &persona, run))
                .collect()
        },
        || serialise(&snapshot, &persona, 1),
    );
    if shared.is_empty() {
        return;
    }
    let each = shared.median() / RUNS as u32;
    let ratio = serialised.median().as_secs_f64() * RUNS as f64 / shared.median().as_secs_f64();
    let tokens = Tokenizer::load(Encoding::O200kBase).unwrap();
    let tokens = tokens
        .count(&String::from_utf8_lossy(prefix.bytes()))
        .tokens;
    let table = Table::new(
        "handoff",
        &format!(
            "One context of 400 messages handed to {RUNS} runs: the prefix is {} of {tokens} tokens, \
             a run's own text (persona, task) {}.",
            bytes(prefix.bytes().len() as f64),
            bytes(text_of(&persona)),
        ),
    );
    table.row(
        "time per run, shared prefix and own tail",
        "≤ 1 µs",
        &time(each),
        None,
        each.as_nanos() <= 1_000,
    );
    table.row(
        "allocated per run",
        "≤ 1 KiB",
        &bytes(per_run),
        None,
        per_run <= 1_024.0,
    );
    let what = format!(
        "the same for `{SHIPPED}` as shipped, {}",
        bytes(text_of(&shipped))
    );
    table.note(&what, &bytes(shipped_per_run), None);
    table.row(
        "against the whole request per run by serde_json",
        "≥ 1,000 × faster",
        &time(serialised.median()),
        Some(ratio),
        ratio >= 1_000.0,
    );
}

/// What handing the context to one run allocates, the run's own record of it included.
fn allocated(snapshot: &Arc<Snapshot>, prefix: &Prefix, persona: &Persona) -> f64 {
    let region = Region::new(ALLOCATOR);
    let runs = 0..RUNS;
    let handed: Vec<Handed> = runs
        .map(|run| hand(snapshot, prefix, persona, run))
        .collect();
    let change = region.change();
    drop(handed);
    (change.bytes_allocated as isize + change.bytes_reallocated.max(0)) as f64 / RUNS as f64
}

/// Bytes of what only this agent is told.
fn text_of(persona: &Persona) -> f64 {
    (persona.description.len() + persona.instructions.len() + TASK.len()) as f64
}

/// A specialist in a few sentences; each run's tail repeats them.
fn persona() -> Persona {
    Persona {
        agent: SHIPPED.into(),
        description:
            "Finds risks, blockers, constraints and open questions that are still unresolved".into(),
        instructions:
            "You find what can still go wrong and what nobody has answered yet. For each \
                       give what it threatens, how severe it is said to be, who owns it, and the \
                       quote with its reference such as #12."
                .into(),
    }
}

/// The same specialist as it is shipped.
fn shipped() -> Persona {
    let body = include_str!("../../agents/risks.md").rsplit("---\n").next();
    Persona {
        instructions: body.unwrap_or_default().into(),
        ..persona()
    }
}
