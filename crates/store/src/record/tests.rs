//! Tests that events are read back as written, that types may be extended, and that no bytes do
//! harm.

mod arbitrary;
mod golden;
mod growing;
mod samples;

use std::cell::RefCell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use unisono_context::checkpoint::{Checkpoint, Span};
use unisono_context::{Ordinal, Timestamp};
use unisono_session::event::Fact;
use unisono_session::machine::WrittenSummary;
use unisono_session::run::Ending;

use super::*;
use crate::codec::ROW_LIMIT_BYTES;

fn fact_names() -> BTreeSet<&'static str> {
    Fact::KINDS.iter().map(|(name, _)| *name).collect()
}

/// The summary that became this checkpoint.
fn written(made: Checkpoint) -> WrittenSummary {
    WrittenSummary {
        body: made.body,
        key_facts: made.key_facts,
        counts: made.counts,
        writer: made.writer,
        model: made.model,
        cost_micros: made.cost_micros,
        duration_ms: made.duration_ms,
        degraded: made.degraded,
        coverage: made.coverage,
    }
}

/// Encodes an event as the last of an append, with two turns open.
fn encode(event: &event::Event) -> Result<Vec<u8>, String> {
    super::encode(event, OpenTurns::Known(2))
}

/// Either the bytes are the only encoding of an event, or they are refused.
fn is_read_as_written_or_refused(payload: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(event) = decode(payload) {
        let written = super::encode(&event, open_turns(payload));
        prop_assert_eq!(written, Ok(payload.to_vec()));
    }
    Ok(())
}

#[test]
fn every_fact_has_a_sample() {
    let samples = samples::all();
    let names: BTreeSet<&str> = samples.iter().map(|(_, event)| event.fact.name()).collect();
    assert_eq!(names, fact_names());
}

#[test]
fn the_line_of_every_fact_has_more_than_its_name() {
    for (sample, event) in samples::all() {
        let line = event.fact.to_string();
        let rest = line.strip_prefix(event.fact.name()).expect("its name");
        assert!(!rest.trim().is_empty(), "{sample}: {line:?}");
    }
}

#[test]
fn every_event_comes_back_as_it_was_written() {
    let names = RefCell::new(BTreeSet::new());
    for strategy in arbitrary::facts() {
        let events = (any::<i64>().prop_map(Timestamp), strategy);
        let mut runner = TestRunner::new(Config::with_cases(128));
        let result = runner.run(&events, |(at, fact)| {
            names.borrow_mut().insert(fact.name());
            let event = event::Event { at, fact };
            let payload = encode(&event).unwrap();
            prop_assert_eq!(&payload[..2], &[MARK, FORMAT]);
            prop_assert_eq!(decode(&payload), Ok(event));
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{error}"));
    }
    assert_eq!(names.into_inner(), fact_names(), "each has a strategy");
}

proptest! {
    #[test]
    fn changed_bits_are_refused_or_another_event(
        event in arbitrary::event(),
        at in any::<prop::sample::Index>(),
        bit in 0..8u32,
    ) {
        let mut payload = encode(&event).unwrap();
        let at = at.index(payload.len());
        payload[at] ^= 1 << bit;
        is_read_as_written_or_refused(&payload)?;
    }

    #[test]
    fn bytes_too_few_or_too_many_are_refused(
        event in arbitrary::event(),
        cut in any::<prop::sample::Index>(),
        more in prop::collection::vec(any::<u8>(), 1..9),
    ) {
        let mut payload = encode(&event).unwrap();
        prop_assert!(decode(&payload[..cut.index(payload.len())]).is_err());
        payload.extend(more);
        prop_assert!(decode(&payload).is_err());
    }

    #[test]
    fn any_bytes_do_no_harm(
        at in any::<i64>(),
        fact in 0..Fact::KINDS.len() as u8,
        tail in prop::collection::vec(prop_oneof![Just(0), Just(1), any::<u8>()], 0..400),
    ) {
        let _ = decode(&tail);
        let mut payload = vec![MARK, FORMAT, 0, 0, 0, 1];
        payload.extend(at.to_le_bytes());
        payload.push(fact);
        payload.extend(tail);
        is_read_as_written_or_refused(&payload)?;
    }
}

#[test]
fn a_length_that_cannot_be_is_refused_before_it_is_allocated() {
    for (name, event) in samples::all() {
        let payload = encode(&event).unwrap();
        for at in 2..payload.len().saturating_sub(8) {
            for length in [u64::MAX, u64::MAX >> 1, 1 << 40, ROW_LIMIT_BYTES] {
                let mut payload = payload.clone();
                payload[at..at + 8].copy_from_slice(&length.to_le_bytes());
                is_read_as_written_or_refused(&payload).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
    }
}

#[test]
fn another_format_is_told_from_damage() {
    let (_, event) = samples::all().remove(0);
    let mut payload = encode(&event).unwrap();
    payload[1] = FORMAT + 1;
    let newer = decode(&payload).unwrap_err();
    assert_eq!(
        newer.to_string(),
        "a newer version wrote it (format 2, this version reads 1)"
    );
    payload[1] = 0;
    assert!(matches!(decode(&payload), Err(Fault::Undecodable { .. })));
    payload[..2].copy_from_slice(b"no");
    assert!(matches!(decode(&payload), Err(Fault::Undecodable { .. })));
    assert_eq!(decode(&[MARK]), Err(Fault::Truncated));
    assert_eq!(decode(&[]), Err(Fault::Truncated));
    // So are the entries of the store's own journals.
    let mut own = encode_own(&7_u64).unwrap();
    own[1] = FORMAT + 1;
    assert!(matches!(decode_own::<u64>(&own), Err(Fault::Newer { .. })));
    assert_eq!(decode_own::<u64>(&own[..1]), Err(Fault::Truncated));
}

/// The payloads of these programs began with the number of their version.
#[test]
fn what_was_written_before_format_1_is_named() {
    for version in [1, 2, 3] {
        let mut payload = vec![0, version];
        payload.extend([0; 64]);
        assert_eq!(decode(&payload), Err(Fault::Earlier));
        assert_eq!(open_turns(&payload), OpenTurns::Unknown);
    }
}

#[test]
fn a_payload_says_how_many_turns_are_open_without_being_decoded() {
    let (_, event) = samples::all().remove(0);
    let of = |open| super::encode(&event, open).unwrap();
    for open in [OpenTurns::Known(0), OpenTurns::Known(7), OpenTurns::Unknown] {
        assert_eq!(open_turns(&of(open)), open);
        assert_eq!(
            open_turns(&of(open)[..6]),
            open,
            "the rest is not looked at"
        );
        assert_eq!(decode(&of(open)).as_ref(), Ok(&event));
    }
    assert_eq!(OpenTurns::from_count(usize::MAX), OpenTurns::Unknown);
    assert_eq!(
        open_turns(&of(OpenTurns::Known(1))[..5]),
        OpenTurns::Unknown
    );
    assert_eq!(open_turns(&[]), OpenTurns::Unknown);
}

#[test]
fn a_fault_says_what_is_wrong() {
    let started = samples::event(Fact::TurnStarted {
        turn: samples::TURN,
    });
    let mut payload = encode(&started).unwrap();
    payload[14] = 99;
    let fault = decode(&payload).unwrap_err().to_string();
    assert_eq!(fault, "a newer version wrote it (number 99 of Fact)");

    let failed = samples::event(Fact::CompactionFailed {
        turn: samples::TURN,
        reason: "the model is out of reach".into(),
    });
    let mut payload = encode(&failed).unwrap();
    // After the text, the number of optional fields is given twice as zero.
    let last = payload.len() - 3;
    payload[last] = 0xFF;
    let fault = decode(&payload).unwrap_err().to_string();
    assert!(fault.contains("utf8"), "{fault}");
}

#[test]
fn a_range_that_is_none_is_neither_written_nor_read() {
    let frozen = |first, last| {
        let mut manifest = samples::manifest();
        manifest.spans = vec![Span::new(Ordinal(first), Ordinal(last))];
        samples::event(Fact::Frozen {
            turn: samples::TURN,
            snapshot: samples::SNAPSHOT,
            manifest,
        })
    };
    for (first, last) in [(5, 4), (1, u32::MAX)] {
        let refused = encode(&frozen(first, last)).unwrap_err();
        assert_eq!(
            refused,
            format!("there is no range of messages from {first} to {last}")
        );

        let good = encode(&frozen(0xABCD_EF01, 0xABCD_EF02)).unwrap();
        let mut range = [0xABCD_EF01_u32.to_le_bytes(), 0xABCD_EF02_u32.to_le_bytes()].concat();
        let at = good.windows(8).position(|window| window == range).unwrap();
        range = [u32::to_le_bytes(first), u32::to_le_bytes(last)].concat();
        let bad = [&good[..at], &range, &good[at + 8..]].concat();
        let fault = decode(&bad).unwrap_err().to_string();
        assert!(fault.contains(&refused), "{fault}");
    }
}

#[test]
fn a_table_out_of_order_is_refused() {
    let created = samples::event(Fact::Created {
        session: samples::SESSION,
        title: "".into(),
        system: "".into(),
        labels: [("key_a".into(), "".into()), ("key_b".into(), "".into())].into(),
    });
    let good = encode(&created).unwrap();
    let at = good
        .windows(5)
        .position(|window| window == b"key_b")
        .unwrap();
    let mut twice = good.clone();
    twice[at + 4] = b'a';
    let fault = decode(&twice).unwrap_err().to_string();
    assert!(
        fault.contains("its names are not in ascending order"),
        "{fault}"
    );
}

#[test]
fn what_a_turn_writes_is_small() {
    let size = |fact| encode(&samples::event(fact)).unwrap().len();

    assert!(
        size(Fact::RunOpened {
            run: samples::opened()
        }) < 256
    );

    let answer = "word ".repeat(1_000);
    let ended = Fact::RunEnded {
        run: samples::RUN,
        ending: std::sync::Arc::new(Ending::Finished {
            text: answer.as_str().into(),
            calls: Vec::new(),
            partial: None,
            usage: samples::USAGE,
            duration_ms: 1,
            attempt_times: unisono_session::run::AttemptTimes::default(),
        }),
    };
    assert!(size(ended) - answer.len() < 128);

    let frozen = |last| {
        let mut manifest = samples::manifest();
        manifest.spans = vec![Span::new(Ordinal(1), Ordinal(last))];
        Fact::Frozen {
            turn: samples::TURN,
            snapshot: samples::SNAPSHOT,
            manifest,
        }
    };
    assert_eq!(size(frozen(1)), size(frozen(1_000_000)));
    assert!(size(frozen(1_000_000)) < 256);
}
