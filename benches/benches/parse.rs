//! A recorded stream of a megabyte, from its bytes to the reply, in each dialect.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::hint::black_box;
use std::ops::ControlFlow;

use criterion::{BenchmarkId, Criterion};
use serde::de::IgnoredAny;
use unisono_benches::{Samples, Table, conversation, measure, samples, time};
use unisono_context::call::Reply;
use unisono_fake_provider as fake;
use unisono_model::dialect::{DecodedEvent, Dialect, Failure};
use unisono_model::provider::Caps;
use unisono_model::sse;

/// Bytes of a stream, at least.
const STREAM: usize = 1_000_000;
/// Characters of text in one event: about a token.
const PIECE: usize = 4;
/// Bytes that come from the connection at a time.
const READ: usize = 16 * 1024;

const DIALECTS: [(Dialect, fake::Dialect); 4] = [
    (Dialect::OpenAiChat, fake::Dialect::OpenAiChat),
    (Dialect::OpenAiResponses, fake::Dialect::OpenAiResponses),
    (Dialect::Anthropic, fake::Dialect::Anthropic),
    (Dialect::Gemini, fake::Dialect::Gemini),
];

struct Recording {
    dialect: Dialect,
    bytes: Vec<u8>,
    events: Vec<String>,
    text: String,
}

impl Recording {
    fn new(dialect: Dialect, rendered: fake::Dialect) -> Recording {
        let render = |chars| {
            let text = conversation::text(11, chars);
            let answer = fake::Answer::text(text.clone()).in_pieces_of(PIECE);
            (text, fake::render_stream(rendered, &answer))
        };
        let per_char = render(4_096).1.len() / 4_096;
        let (text, bytes) = render(STREAM.div_ceil(per_char));
        let mut recording = Recording {
            dialect,
            bytes,
            events: Vec::new(),
            text,
        };
        let mut events = Vec::new();
        recording.events(READ, |event| {
            events.push(event.data.to_owned());
            Ok(ControlFlow::Continue(()))
        });
        recording.events = events;
        recording
    }

    /// Its events, from pieces of that many bytes.
    fn events(
        &self,
        read: usize,
        mut on: impl FnMut(sse::Event<'_>) -> Result<ControlFlow<()>, Failure>,
    ) {
        let mut parser = sse::Parser::new(Caps::default().stream);
        for piece in self.bytes.chunks(read) {
            if parser.push(piece, &mut on).unwrap().is_break() {
                break;
            }
        }
    }

    /// Its reply, read as the client does.
    fn reply(&self, read: usize) -> Reply {
        let mut decoder = self.dialect.decoder();
        self.events(read, |event| {
            Ok(match decoder.event(&event)? {
                DecodedEvent::Text(text) => {
                    black_box(text);
                    ControlFlow::Continue(())
                }
                DecodedEvent::Other | DecodedEvent::Status => ControlFlow::Continue(()),
                DecodedEvent::End => ControlFlow::Break(()),
            })
        });
        decoder.finish().unwrap()
    }

    /// How fast its bytes are read when that takes so long.
    fn rate(&self, samples: &Samples) -> f64 {
        self.bytes.len() as f64 / samples.median().as_secs_f64() / 1e6
    }
}

fn main() {
    let mut criterion = samples::criterion();
    let table = Table::new(
        "parse",
        &format!(
            "A stream of 1 MB with {PIECE} characters of text an event, as the client reads it: \
             pieces of {} KiB, events, reply.",
            READ / 1024
        ),
    );
    for (dialect, rendered) in DIALECTS {
        let recording = Recording::new(dialect, rendered);
        assert_eq!(*recording.reply(READ).text, recording.text);
        report(&table, &mut criterion, &recording);
    }
    criterion.final_summary();
}

fn report(table: &Table, criterion: &mut Criterion, recording: &Recording) {
    let name = recording.dialect.name();
    let mut part =
        |part: &str, work: &mut dyn FnMut()| measure(criterion, BenchmarkId::new(part, name), work);
    let whole = part("parse", &mut || drop(black_box(recording.reply(READ))));
    let small = part("parse/small", &mut || {
        drop(black_box(
            recording.reply(recording.bytes.len() / recording.events.len()),
        ));
    });
    let events = part("parse/events", &mut || {
        recording.events(READ, |event| {
            black_box(event);
            Ok(ControlFlow::Continue(()))
        });
    });
    let json = part("parse/json", &mut || {
        for event in &recording.events {
            // The terminal marker of Chat Completions is not JSON.
            let _ = black_box(serde_json::from_str::<IgnoredAny>(event));
        }
    });
    let shown = |samples: &Samples| {
        let (took, rate) = (time(samples.median()), recording.rate(samples));
        format!("{took}, {rate:.0} MB/s")
    };
    let fast = recording.rate(&whole) >= 200.0;
    let events_of = recording.events.len();
    table.row(
        &format!("{name}, {events_of} events"),
        "≥ 200 MB/s",
        &shown(&whole),
        None,
        fast,
    );
    table.note(
        &format!("{name}, in pieces as long as an event"),
        &shown(&small),
        None,
    );
    table.note(
        &format!("{name}, events alone"),
        &shown(&events),
        Some(events.ratio(&whole)),
    );
    table.note(
        &format!(
            "{name}, JSON of the events skimmed by serde_json, which any reader takes at least"
        ),
        &shown(&json),
        Some(json.ratio(&whole)),
    );
}
