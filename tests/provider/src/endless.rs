//! Answers that do not seem to end: a few blocks of bytes, one of them written again and again.

use bytes::Bytes;

use crate::act::{At, Delivery, Endless, Framing};
use crate::answer::Answer;
use crate::dialect::{Endpoint, Mode};
use crate::plan::{Fate, LAST_CHUNK, Plan, Response, Step, chunk, head};
use crate::prepared::render;
use crate::render::Body;

/// Bytes of text in one piece.
const PIECE: usize = 1 << 10;
/// Bytes of text that are written at once.
const BLOCK: usize = 64 << 10;

/// An answer in three parts.
struct Parts {
    /// What stands before its text.
    before: Vec<u8>,
    /// [`BLOCK`] bytes of text, as they are in the body.
    block: Vec<u8>,
    /// What stands after it.
    after: Vec<u8>,
}

/// The plan of an endless answer: at least that many bytes of text. Of the delivery it has the
/// style of its events and the gates before its head.
pub(crate) fn plan(
    bytes: u64,
    form: Endless,
    endpoint: Endpoint,
    how: &Delivery,
    headers: Vec<(String, String)>,
) -> Plan {
    let piece = "a".repeat(PIECE);
    let with_text = |text: &str| render(endpoint, &Answer::pieces([text]), &how.style);
    let (full, empty) = (with_text(&piece), with_text(""));
    let streamed = endpoint.mode == Mode::Stream;
    let Parts {
        before,
        block,
        after,
    } = parts(&full, &empty, &piece, form);
    let times = bytes.div_ceil(BLOCK as u64);
    let length = before.len() as u64 + block.len() as u64 * times + after.len() as u64;
    let framing = match streamed {
        true => Framing::Chunked,
        false => Framing::Length,
    };
    let response = Response {
        status: 200,
        headers,
        body: empty,
        streamed,
        output: 0,
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let framed = |bytes: &[u8], mut out: Vec<u8>| {
        match streamed {
            true => chunk(&mut out, bytes),
            false => out.extend_from_slice(bytes),
        }
        out
    };
    let first = framed(&before, head(&response, framing, length).to_vec());
    let mut last = framed(&after, Vec::new());
    if streamed {
        last.extend_from_slice(LAST_CHUNK);
    }
    let gates = how.gates.iter().filter(|(at, _)| *at == At::Head);
    let mut steps: Vec<Step> = gates.map(|(_, gate)| Step::Wait(gate.clone())).collect();
    steps.push(Step::Begin);
    steps.push(Step::Write(first.into()));
    steps.push(Step::Repeat {
        block: framed(&block, Vec::new()).into(),
        times,
    });
    steps.push(Step::Write(last.into()));
    Plan {
        steps,
        fate: Fate::KeepAlive,
    }
}

/// The parts of an answer that was rendered with a piece of text and without. The first event that
/// differs is the one that brings the text; a document is one event.
fn parts(full: &Body, empty: &Body, piece: &str, form: Endless) -> Parts {
    let count = full.ends.len().min(empty.ends.len());
    let text = (0..count).find(|place| event(full, *place) != event(empty, *place));
    // A count has no text: it ends after itself.
    let text = text.unwrap_or(count - 1);
    let before = &empty.bytes[..start(empty, text)];
    let after = &empty.bytes[empty.ends[text]..];
    let event = event(full, text);
    if form == Endless::Text && count > 1 {
        return Parts {
            before: before.to_vec(),
            block: event.repeat(BLOCK / PIECE),
            after: after.to_vec(),
        };
    }
    let (head, tail) = match memchr::memmem::find(&event, piece.as_bytes()) {
        Some(at) => (event.slice(..at), event.slice(at + piece.len()..)),
        None => (event, Bytes::new()),
    };
    Parts {
        before: [before, &head].concat(),
        block: vec![b'a'; BLOCK],
        after: [&tail[..], after].concat(),
    }
}

fn start(body: &Body, event: usize) -> usize {
    event.checked_sub(1).map_or(0, |before| body.ends[before])
}

fn event(body: &Body, place: usize) -> Bytes {
    body.bytes.slice(start(body, place)..body.ends[place])
}
