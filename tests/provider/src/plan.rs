//! From a response and the way it is delivered to the steps that are carried out on a socket.
//!
//! Pure: bytes, places and gates in, a list of steps out.

use std::time::Duration;

use bytes::Bytes;

use crate::act::{At, Delivery, Ending, Framing, Splits};
use crate::gate::Gate;
use crate::render::Body;

/// A response before it is steps.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// All headers but those of the framing.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Body,
    /// Whether its end is marked by chunks if nothing else is said.
    pub(crate) streamed: bool,
    /// Tokens of output, for the pace.
    pub(crate) output: u64,
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// These bytes are written by themselves.
    Write(Bytes),
    /// The block is written so many times.
    Repeat { block: Bytes, times: u64 },
    /// Nothing happens until the gate is open.
    Wait(Gate),
    /// Nothing happens for that long.
    Pause(Duration),
    /// The first bytes of the body come next.
    Begin,
}

/// What happens to the connection after the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The next request is read.
    KeepAlive,
    /// It is closed.
    Close,
    /// It is reset.
    Reset,
    /// It is held until the client leaves.
    Silence,
}

/// Steps, and what comes after them.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) fate: Fate,
}

/// A place in a response, as bytes; ordered as they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Head(usize),
    Body(usize),
}

/// What happens at a place.
#[derive(Clone, Debug)]
enum Event {
    Pause(Duration),
    Wait(Gate),
    Split,
    End(Ending),
}

/// The steps of a response.
pub(crate) fn plan(response: &Response, how: &Delivery) -> Plan {
    let framing = how.framing.unwrap_or(match response.streamed {
        true => Framing::Chunked,
        false => Framing::Length,
    });
    let body = &response.body;
    let ending = how.ending.map(|(at, ending)| (place(at, body), ending));
    let length = match ending {
        Some((Place::Body(end), Ending::Finish)) => end,
        _ => body.bytes.len(),
    };
    let head = head(response, framing, length);
    let mut writer = Writer::new(&head, &body.bytes, framing == Framing::Chunked);
    for (place, event) in events(response, how, ending) {
        writer.write_to(place);
        match event {
            Event::Split => writer.flush(),
            Event::Pause(pause) => writer.then(Step::Pause(pause)),
            Event::Wait(gate) => writer.then(Step::Wait(gate)),
            Event::End(ending) => return writer.end(fate(framing, place, ending)),
        }
    }
    writer.write_to(Place::Body(body.bytes.len()));
    writer.end(fate(framing, Place::Body(0), Ending::Finish))
}

/// Status line and headers. `length`: of the body, where that is announced.
pub(crate) fn head(response: &Response, framing: Framing, length: usize) -> Bytes {
    let status = response.status;
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    let mut header = |name: &str, value: &str| {
        head.push_str(name);
        head.push_str(": ");
        head.push_str(value);
        head.push_str("\r\n");
    };
    header("content-type", &response.body.content_type);
    for (name, value) in &response.headers {
        header(name, value);
    }
    match framing {
        Framing::Chunked => header("transfer-encoding", "chunked"),
        Framing::Length => header("content-length", &length.to_string()),
        Framing::WrongLength(by) => {
            let by = isize::try_from(by).unwrap_or_default();
            header(
                "content-length",
                &length.saturating_add_signed(by).to_string(),
            );
        }
        Framing::Close => header("connection", "close"),
    }
    head.push_str("\r\n");
    head.into()
}

/// A piece of a body as a chunk; nothing for nothing, which would mark the end.
pub(crate) fn chunk(out: &mut Vec<u8>, piece: &[u8]) {
    if !piece.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
}

/// The end of a body of chunks.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// All that happens on the way, in the order of its places.
fn events(
    response: &Response,
    how: &Delivery,
    ending: Option<(Place, Ending)>,
) -> Vec<(Place, Event)> {
    let body = &response.body;
    let mut found = Vec::new();
    if let Some(pace) = how.pace {
        found.push((Place::Head(0), Event::Pause(pace.first)));
        let tokens = u32::try_from(response.output).unwrap_or(u32::MAX);
        let whole = Duration::from_secs(u64::from(tokens)).checked_div(pace.tokens_per_second);
        let events = u32::try_from(body.ends.len()).unwrap_or(u32::MAX);
        if let Some(pause) = whole.and_then(|whole| whole.checked_div(events)) {
            let inner = body.ends.iter().rev().skip(1).rev();
            found.extend(inner.map(|end| (Place::Body(*end), Event::Pause(pause))));
        }
    }
    let gates = how.gates.iter();
    found.extend(gates.map(|(at, gate)| (place(*at, body), Event::Wait(gate.clone()))));
    let splits = splits(&how.splits, body).into_iter();
    found.extend(splits.map(|split| (Place::Body(split), Event::Split)));
    found.extend(ending.map(|(place, ending)| (place, Event::End(ending))));
    // Stable: at one place they happen in the order above.
    found.sort_by_key(|(place, _)| *place);
    found
}

fn splits(splits: &Splits, body: &Body) -> Vec<usize> {
    let length = body.bytes.len();
    match splits {
        Splits::None => Vec::new(),
        Splits::Events => body.ends.clone(),
        Splits::Every(bytes) => (0..length).step_by((*bytes).max(1)).collect(),
        Splits::At(places) => places.iter().map(|place| (*place).min(length)).collect(),
    }
}

fn place(at: At, body: &Body) -> Place {
    let end = |events: usize| match events.checked_sub(1) {
        None => 0,
        Some(last) => body.ends.get(last).copied().unwrap_or(body.bytes.len()),
    };
    match at {
        At::Head => Place::Head(0),
        At::InHead(bytes) => Place::Head(bytes),
        At::Body(bytes) => Place::Body(bytes.min(body.bytes.len())),
        At::Event(events) => Place::Body(end(events)),
        At::LastEvent => Place::Body(end(body.ends.len().saturating_sub(1))),
        At::End => Place::Body(body.bytes.len()),
    }
}

/// What becomes of the connection after an ending at that place.
fn fate(framing: Framing, place: Place, ending: Ending) -> Fate {
    match (ending, framing, place) {
        (Ending::Finish, Framing::Chunked | Framing::Length, Place::Body(_)) => Fate::KeepAlive,
        (Ending::Finish | Ending::Close, ..) => Fate::Close,
        (Ending::Reset, ..) => Fate::Reset,
        (Ending::Silence, ..) => Fate::Silence,
    }
}

/// Puts steps together; bytes that nothing parts are written at once.
struct Writer<'a> {
    head: &'a [u8],
    body: &'a [u8],
    chunked: bool,
    at: Place,
    pending: Vec<u8>,
    begun: bool,
    steps: Vec<Step>,
}

impl<'a> Writer<'a> {
    fn new(head: &'a [u8], body: &'a [u8], chunked: bool) -> Writer<'a> {
        Writer {
            head,
            body,
            chunked,
            at: Place::Head(0),
            pending: Vec::new(),
            begun: false,
            steps: Vec::new(),
        }
    }

    /// Takes all bytes up to that place.
    fn write_to(&mut self, to: Place) {
        if let Place::Head(from) = self.at {
            let end = match to {
                Place::Head(end) => end.clamp(from, self.head.len()),
                Place::Body(_) => self.head.len(),
            };
            self.pending.extend_from_slice(&self.head[from..end]);
            self.at = match to {
                Place::Head(_) => Place::Head(end),
                Place::Body(_) => Place::Body(0),
            };
        }
        if let (Place::Body(from), Place::Body(end)) = (self.at, to)
            && from < end
        {
            if !self.begun {
                // Said before the write that holds the first bytes of the body.
                self.begun = true;
                self.steps.push(Step::Begin);
            }
            match self.chunked {
                true => chunk(&mut self.pending, &self.body[from..end]),
                false => self.pending.extend_from_slice(&self.body[from..end]),
            }
            self.at = to;
        }
    }

    fn flush(&mut self) {
        if !self.pending.is_empty() {
            let bytes = std::mem::take(&mut self.pending);
            self.steps.push(Step::Write(bytes.into()));
        }
    }

    fn then(&mut self, step: Step) {
        self.flush();
        self.steps.push(step);
    }

    fn end(mut self, fate: Fate) -> Plan {
        if self.chunked && fate == Fate::KeepAlive {
            self.pending.extend_from_slice(LAST_CHUNK);
        }
        self.flush();
        Plan {
            steps: self.steps,
            fate,
        }
    }
}

/// The phrase of a status, where there is one.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        409 => "Conflict",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    //! Steps of a small response in every delivery, and of any response in any.

    use proptest::prelude::*;

    use super::*;
    use crate::Act;

    fn response(streamed: bool) -> Response {
        Response {
            status: 200,
            headers: Vec::new(),
            body: Body {
                content_type: "text/event-stream".into(),
                bytes: Bytes::from_static(b"data: 1\n\ndata: 2\n\n"),
                ends: vec![9, 18],
            },
            streamed,
            output: 4,
        }
    }

    /// The steps as text: one line each, the head as `HEAD`.
    fn response_text(streamed: bool, act: Act) -> String {
        let plan = plan(&response(streamed), &act.how);
        let mut out = String::new();
        for step in &plan.steps {
            let line = match step {
                Step::Write(bytes) => {
                    let text = String::from_utf8_lossy(bytes);
                    let text = match text.split_once("\r\n\r\n") {
                        Some((head, rest)) if head.starts_with("HTTP") => format!("HEAD {rest:?}"),
                        _ => format!("{text:?}"),
                    };
                    format!("write {text}")
                }
                Step::Repeat { times, .. } => format!("repeat {times}"),
                Step::Wait(_) => "wait".into(),
                Step::Pause(pause) => format!("pause {pause:?}"),
                Step::Begin => "begin".into(),
            };
            out.push_str(&line);
            out.push('\n');
        }
        format!("{out}{:?}", plan.fate)
    }

    #[test]
    fn a_plain_response_is_one_write() {
        insta::assert_snapshot!(response_text(true, Act::answer("")), @r#"
        begin
        write HEAD "12\r\ndata: 1\n\ndata: 2\n\n\r\n0\r\n\r\n"
        KeepAlive
        "#);
        insta::assert_snapshot!(response_text(false, Act::answer("")), @r#"
        begin
        write HEAD "data: 1\n\ndata: 2\n\n"
        KeepAlive
        "#);
    }

    #[test]
    fn gates_part_what_is_written() {
        let gate = Gate::new();
        let act = Act::answer("").hold(&gate).hold_at(At::Body(0), &gate);
        insta::assert_snapshot!(response_text(true, act.hold_at(At::LastEvent, &gate)), @r#"
        wait
        write HEAD ""
        wait
        begin
        write "9\r\ndata: 1\n\n\r\n"
        wait
        write "9\r\ndata: 2\n\n\r\n0\r\n\r\n"
        KeepAlive
        "#);
    }

    #[test]
    fn an_ending_cuts_the_rest() {
        let at = |place, ending| response_text(true, Act::answer("").end_at(place, ending));
        insta::assert_snapshot!(at(At::Body(3), Ending::Close), @r#"
        begin
        write HEAD "3\r\ndat\r\n"
        Close
        "#);
        insta::assert_snapshot!(at(At::Event(1), Ending::Finish), @r#"
        begin
        write HEAD "9\r\ndata: 1\n\n\r\n0\r\n\r\n"
        KeepAlive
        "#);
        insta::assert_snapshot!(at(At::InHead(4), Ending::Reset), @r#"
        write "HTTP"
        Reset
        "#);
        insta::assert_snapshot!(at(At::Head, Ending::Silence), @"Silence");
        insta::assert_snapshot!(at(At::Body(0), Ending::Silence), @r#"
        write HEAD ""
        Silence
        "#);
    }

    #[test]
    fn splits_are_writes_of_their_own() {
        insta::assert_snapshot!(response_text(true, Act::answer("").split(Splits::At(vec![7, 99]))), @r#"
        begin
        write HEAD "7\r\ndata: 1\r\n"
        write "b\r\n\n\ndata: 2\n\n\r\n"
        write "0\r\n\r\n"
        KeepAlive
        "#);
        insta::assert_snapshot!(response_text(false, Act::answer("").split(Splits::Every(12))), @r#"
        write HEAD ""
        begin
        write "data: 1\n\ndat"
        write "a: 2\n\n"
        KeepAlive
        "#);
    }

    #[test]
    fn lengths_say_what_they_are_told_to() {
        let announced = |act: Act| {
            let plan = plan(&response(false), &act.how);
            let Some(Step::Write(bytes)) = plan.steps.last() else {
                panic!("{plan:?}");
            };
            let text = String::from_utf8_lossy(bytes).into_owned();
            let (_, after) = text.split_once("content-length: ").expect("a length");
            let (length, _) = after.split_once('\r').expect("a line");
            (length.to_owned(), plan.fate)
        };
        let plain = Act::answer("");
        assert_eq!(announced(plain.clone()), ("18".into(), Fate::KeepAlive));
        let long = plain.clone().framing(Framing::WrongLength(5));
        assert_eq!(announced(long), ("23".into(), Fate::Close));
        let short = plain.clone().framing(Framing::WrongLength(-5));
        assert_eq!(announced(short), ("13".into(), Fate::Close));
        let whole = plain.clone().end_at(At::Body(4), Ending::Finish);
        assert_eq!(announced(whole), ("4".into(), Fate::KeepAlive));
        let cut = plain.end_at(At::Body(4), Ending::Close);
        assert_eq!(announced(cut), ("18".into(), Fate::Close));
    }

    #[test]
    fn a_pace_pauses_before_the_first_event_and_between_events() {
        let pace = crate::Pace {
            first: Duration::from_millis(50),
            tokens_per_second: 8,
        };
        insta::assert_snapshot!(response_text(true, Act::answer("").pace(pace)), @r#"
        pause 50ms
        begin
        write HEAD "9\r\ndata: 1\n\n\r\n"
        pause 250ms
        write "9\r\ndata: 2\n\n\r\n0\r\n\r\n"
        KeepAlive
        "#);
    }

    /// The content of a body's bytes, chunks undone; and whether its end was marked.
    fn content(chunked: bool, mut bytes: &[u8]) -> (Vec<u8>, bool) {
        if !chunked {
            return (bytes.to_vec(), true);
        }
        let mut content = Vec::new();
        while !bytes.is_empty() {
            let line = bytes
                .windows(2)
                .position(|end| end == b"\r\n")
                .expect("a line");
            let size = std::str::from_utf8(&bytes[..line]).expect("text");
            let size = usize::from_str_radix(size, 16).expect("a size");
            content.extend_from_slice(&bytes[line + 2..][..size]);
            assert_eq!(&bytes[line + 2 + size..][..2], b"\r\n");
            bytes = &bytes[line + 2 + size + 2..];
            if size == 0 {
                assert!(bytes.is_empty(), "nothing follows the last chunk");
                return (content, true);
            }
        }
        (content, false)
    }

    proptest! {
        #[test]
        fn however_it_is_delivered_the_content_is_the_same(
            body in proptest::collection::vec(any::<u8>(), 0..300),
            streamed: bool,
            splits in proptest::collection::vec(0_usize..320, 0..5),
            gates in proptest::collection::vec(0_usize..320, 0..3),
            end in proptest::option::of(0_usize..320),
            finish: bool,
        ) {
            let gate = Gate::new();
            let mut act = Act::answer("").split(Splits::At(splits));
            for place in gates {
                act = act.hold_at(At::Body(place), &gate);
            }
            let ending = if finish { Ending::Finish } else { Ending::Close };
            if let Some(end) = end {
                act = act.end_at(At::Body(end), ending);
            }
            let whole = Response {
                body: Body::json(body.clone()),
                ..response(streamed)
            };
            let Plan { steps, fate } = plan(&whole, &act.how);
            let writes = steps.iter().filter_map(|step| match step {
                Step::Write(bytes) => Some(&bytes[..]),
                _ => None,
            });
            let sent = writes.collect::<Vec<_>>().concat();
            let head = sent.windows(4).position(|end| end == b"\r\n\r\n").expect("a head");
            let (content, marked) = content(streamed, &sent[head + 4..]);
            prop_assert_eq!(&content, &body[..end.unwrap_or(body.len()).min(body.len())]);
            let whole = end.is_none() || finish;
            prop_assert_eq!(fate, if whole { Fate::KeepAlive } else { Fate::Close });
            prop_assert!(!streamed || marked == whole);
            let begins = steps.iter().filter(|step| matches!(step, Step::Begin)).count();
            prop_assert_eq!(begins, usize::from(!content.is_empty()));
        }
    }
}
