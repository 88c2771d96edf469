//! Tests of event streams: the standard's rules as a table, size limits, and that splitting a
//! stream does not change the events.

use std::ops::ControlFlow;

use proptest::prelude::*;

use super::*;

const CAPS: Caps = Caps {
    line: 1_000,
    event: 1_000,
};

type Events = Vec<(String, String)>;
type Expected<'e> = &'e [(&'e str, &'e str)];

/// The events of a stream that arrives in these pieces, and how it ended.
fn read<'a>(caps: Caps, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Events, Option<Error>) {
    let mut events = Vec::new();
    let mut parser = Parser::new(caps);
    for piece in pieces {
        let outcome = parser.push(piece, |event| {
            events.push((event.name.to_owned(), event.data.to_owned()));
            Ok::<_, Error>(ControlFlow::Continue(()))
        });
        if let Err(error) = outcome {
            return (events, Some(error));
        }
    }
    (events, None)
}

fn events(stream: &str) -> Vec<(String, String)> {
    let (events, error) = read(CAPS, [stream.as_bytes()]);
    assert_eq!(error, None, "{stream:?}");
    events
}

#[test]
fn parsing_rules() {
    let table: &[(&str, &str, Expected<'_>)] = &rows! {
        ("one line", "data: x\n\n", &[("message", "x")]),
        ("no space", "data:x\n\n", &[("message", "x")]),
        ("only one space is taken", "data:  x\n\n", &[("message", " x")]),
        ("several lines", "data: a\ndata: b\ndata:\n\n", &[("message", "a\nb\n")]),
        ("a name", "event: ping\ndata: {}\n\n", &[("ping", "{}")]),
        ("the last name holds", "event: a\ndata: x\nevent: b\n\n", &[("b", "x")]),
        ("an empty name", "event: a\nevent:\ndata: x\n\n", &[("message", "x")]),
        ("a name is for one event", "event: a\n\ndata: x\n\n", &[("message", "x")]),
        ("carriage returns", "event: a\rdata: x\r\r", &[("a", "x")]),
        ("both ends", "event: a\r\ndata: x\r\n\r\ndata: y\n\n", &[("a", "x"), ("message", "y")]),
        ("mixed ends", "data: a\rdata: b\ndata: c\r\n\n", &[("message", "a\nb\nc")]),
        ("comments", ": hello\n:\ndata: x\n: between\n\n:\n\n", &[("message", "x")]),
        ("no data, no event", "event: a\n\nid: 1\n\n\n\n", &[]),
        ("a field without colon", "data\n\n", &[("message", "")]),
        ("empty data", "data:\n\n", &[("message", "")]),
        ("two empty lines", "data\ndata\n\n", &[("message", "\n")]),
        ("colons in the value", "data: a: b:c\n\n", &[("message", "a: b:c")]),
        ("other fields", "id: 7\nretry: 10\nfoo: bar\ndata: x\n\n", &[("message", "x")]),
        ("fields in capitals are others", "DATA: x\n\n", &[]),
        ("a byte order mark", "\u{feff}data: x\n\n", &[("message", "x")]),
        ("only one mark", "\u{feff}\u{feff}data: x\n\ndata: y\n\n", &[("message", "y")]),
        ("a mark later is text", "data: \u{feff}x\n\n", &[("message", "\u{feff}x")]),
        ("no end, no event", "data: x\n\ndata: y\n", &[("message", "x")]),
        ("nothing", "", &[]),
        ("twice the same", "data: x\n\ndata: x\n\n", &[("message", "x"), ("message", "x")]),
        ("beyond ASCII", "data: größe 💶\n\n", &[("message", "größe 💶")]),
    };
    for (case, stream, expected) in table {
        let expected: Vec<_> = expected
            .iter()
            .map(|&(name, data)| (name.to_owned(), data.to_owned()))
            .collect();
        assert_eq!(events(stream), expected, "{case}");
        let bytes = stream.as_bytes();
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(
                read(CAPS, [head, tail]),
                (expected.clone(), None),
                "{case}, cut at {cut}"
            );
        }
        assert_eq!(
            read(CAPS, bytes.chunks(1)),
            (expected, None),
            "{case}, byte by byte"
        );
    }
}

#[test]
fn an_event_in_one_piece_is_borrowed() {
    let piece = b"event: a\ndata: some text\n\n".as_slice();
    let mut parser = Parser::new(CAPS);
    let mut seen = 0;
    let outcome = parser.push(piece, |event| {
        assert!(piece.as_ptr_range().contains(&event.data.as_ptr()));
        assert!(piece.as_ptr_range().contains(&event.name.as_ptr()));
        seen += 1;
        Ok::<_, Error>(ControlFlow::Continue(()))
    });
    assert_eq!((outcome, seen), (Ok(ControlFlow::Continue(())), 1));
}

#[test]
fn an_event_is_passed_on_at_its_last_byte() {
    for stream in ["data: x\n\n", "data: x\r\r", "data: x\r\n\r"] {
        let (without, last) = stream.as_bytes().split_at(stream.len() - 1);
        assert_eq!(read(CAPS, [without]).0, [], "{stream:?}");
        assert_eq!(read(CAPS, [without, last]).0.len(), 1, "{stream:?}");
    }
}

#[test]
fn the_last_event_needs_no_empty_line_at_the_end_of_the_stream() {
    for (stream, expected) in [
        ("data: x", Some("x")),
        ("data: x\n", Some("x")),
        ("data: x\r", Some("x")),
        ("data: x\r\n", Some("x")),
        ("data: x\ndata: y", Some("x\ny")),
        ("data: x\n\n", None),
        ("event: x\n: y", None),
        ("", None),
    ] {
        let mut parser = Parser::new(CAPS);
        let on = |_: Event<'_>| Ok::<_, Error>(ControlFlow::Continue(()));
        assert!(parser.push(stream.as_bytes(), on).is_ok());
        let mut seen = Vec::new();
        let outcome = parser.finish(|event| {
            seen.push(event.data.to_owned());
            Ok::<_, Error>(ControlFlow::Continue(()))
        });
        assert_eq!(outcome, Ok(()));
        assert_eq!(seen.first().map(String::as_str), expected, "{stream:?}");
    }
}

#[test]
fn parsing_stops_if_the_callback_breaks_or_fails() {
    let stream = b"data: a\n\ndata: b\n\ndata: c\n\n";
    let mut seen = Vec::new();
    let outcome = Parser::new(CAPS).push(stream, |event| {
        seen.push(event.data.to_owned());
        Ok::<_, Error>(if event.data == "b" {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    });
    assert_eq!(
        (outcome, seen.join("")),
        (Ok(ControlFlow::Break(())), "ab".to_owned())
    );
    let outcome = Parser::new(CAPS).push(stream, |_| Err(Error::NotUtf8));
    assert_eq!(outcome, Err(Error::NotUtf8));
}

#[test]
fn invalid_utf_8_is_an_error_after_earlier_events() {
    let good = ("message".to_owned(), "x".to_owned());
    for bad in [
        b"data: x\n\ndata: \xff\n\n".as_slice(),
        b"data: x\n\n: \xc3\n\n",
        b"data: x\n\ndata: \xed\xa0\x80\n\n",
        b"data: x\n\n\xEF\xBB\n\n",
    ] {
        for size in 1..bad.len() {
            let expected = (vec![good.clone()], Some(Error::NotUtf8));
            assert_eq!(read(CAPS, bad.chunks(size)), expected, "{size}");
        }
    }
    // The beginning of an incomplete byte order mark.
    assert_eq!(
        read(CAPS, [b"\xEF\xBB".as_slice(), b"\n\n"]).1,
        Some(Error::NotUtf8)
    );
}

#[test]
fn caps_hold_for_every_cut_of_the_stream() {
    let caps = Caps {
        line: 20,
        event: 10,
    };
    let line = Some(Error::Line { cap: 20 });
    let event = Some(Error::Event { cap: 10 });
    let table: &[(&str, Option<Error>)] = &[
        ("data: 1234567890\n\n", None),
        ("data: 12345678901\n\n", event),
        ("data: 12345\ndata: 6789\n\n", None),
        ("data: 12345\ndata: 67890\n\n", event),
        ("data: 123\n\ndata: 1234567890\n\n", None),
        (": 345678901234567890\n", None),
        (": 3456789012345678901\n", line),
        ("data: 345678901234567", line),
    ];
    for (stream, expected) in table {
        for size in 1..=stream.len() {
            let (_, error) = read(caps, stream.as_bytes().chunks(size));
            assert_eq!(error, *expected, "{stream:?} in pieces of {size}");
        }
    }
}

#[test]
fn an_endless_line_is_not_buffered_beyond_its_cap() {
    let mut parser = Parser::new(CAPS);
    let piece = [b'x'; 300];
    let mut on = |_: Event<'_>| Ok::<_, Error>(ControlFlow::Continue(()));
    let outcomes: Vec<_> = (0..4)
        .map(|_| parser.push(&piece, &mut on).is_ok())
        .collect();
    assert_eq!(outcomes, [true, true, true, false]);
    assert!(parser.line.len() <= CAPS.line);
}

#[test]
fn received_data_is_not_in_debug_output() {
    let mut parser = Parser::new(CAPS);
    let on = |_: Event<'_>| Ok::<_, Error>(ControlFlow::Continue(()));
    assert!(
        parser
            .push(b"event: secret\ndata: secret\ndata: sec", on)
            .is_ok()
    );
    assert!(!format!("{parser:?}").contains("sec"), "{parser:?}");
}

/// A simple implementation of the standard for a complete text, to compare with.
fn by_the_book(stream: &str) -> Events {
    let stream = stream.strip_prefix('\u{feff}').unwrap_or(stream);
    let stream = stream.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = stream.split('\n').collect();
    lines.pop();
    let (mut events, mut name, mut data) = (Vec::new(), "", String::new());
    for line in lines {
        if line.is_empty() {
            if let Some(data) = data.strip_suffix('\n') {
                let name = if name.is_empty() { "message" } else { name };
                events.push((name.to_owned(), data.to_owned()));
            }
            (name, data) = ("", String::new());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => name = value,
            "data" => data += &format!("{value}\n"),
            _ => {}
        }
    }
    events
}

fn stream() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        4 => Just("data: "),
        2 => Just("data:"),
        2 => Just("event: "),
        1 => Just("id"),
        1 => Just(":"),
        4 => Just("\n"),
        4 => Just("\r\n"),
        3 => Just("\r"),
        4 => Just("\n\n"),
        2 => Just("{\"a\": 1}"),
        2 => Just("größe 💶"),
        1 => Just("\u{feff}"),
        1 => Just(" "),
    ];
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn any_cut_of_any_stream_gives_the_same_events(
        stream in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes = stream.as_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);
        prop_assert_eq!(read(CAPS, pieces), (by_the_book(&stream), None));
    }

    #[test]
    fn any_bytes_give_the_same_result_for_every_cut(
        bytes in prop::collection::vec(prop_oneof![
            Just(b'\n'), Just(b'\r'), Just(b':'), Just(b'd'), Just(0xEF), Just(0xBB), any::<u8>()
        ], 0..200),
        size in 1_usize..20,
    ) {
        let caps = Caps { line: 30, event: 20 };
        prop_assert_eq!(read(caps, bytes.chunks(size)), read(caps, [bytes.as_slice()]));
    }
}
