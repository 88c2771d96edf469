//! Tests of extending a type: a record written by one program is read by another that knows fewer
//! or more of its fields.

use super::super::layout::{Fields, Layout, layout, put_optional, unknown};
use super::super::{decode_own, encode_own};
use crate::error::Fault;

/// A type as it is today, and as it may be in a later version.
mod today {
    #[derive(Debug, Clone, PartialEq)]
    pub(super) struct Caps {
        pub(super) tokens: u64,
        pub(super) time_ms: Option<u64>,
    }

    #[derive(Debug, Clone, PartialEq)]
    pub(super) enum Step {
        Wait,
        Ask { caps: Vec<Caps> },
    }
}

mod later {
    #[derive(Debug, Clone, PartialEq)]
    pub(super) struct Caps {
        pub(super) tokens: u64,
        pub(super) time_ms: Option<u64>,
        pub(super) cost: Option<u64>,
        pub(super) words: Vec<u32>,
    }

    #[derive(Debug, Clone, PartialEq)]
    pub(super) enum Step {
        Wait { until: u64 },
        Ask { caps: Vec<Caps>, urgent: bool },
        Stop,
    }
}

layout! {
    struct today::Caps { tokens; time_ms }
    enum today::Step { 0 Wait, 1 Ask { caps } }
    struct later::Caps { tokens; time_ms, cost, words }
    enum later::Step { 0 Wait { ; until }, 1 Ask { caps; urgent }, 2 Stop }
}

/// The value after it was written as one type and read as another.
fn read_as<A: Layout, B: Layout>(written: &A) -> Result<B, Fault> {
    decode_own(&encode_own(written).unwrap())
}

fn caps(time_ms: Option<u64>) -> (today::Caps, later::Caps) {
    let today = today::Caps { tokens: 7, time_ms };
    let later = later::Caps {
        tokens: 7,
        time_ms,
        cost: None,
        words: Vec::new(),
    };
    (today, later)
}

#[test]
fn a_later_program_reads_what_is_written_today() {
    for time_ms in [None, Some(9)] {
        let (today, later) = caps(time_ms);
        assert_eq!(read_as(&today), Ok(later.clone()));
        // Also inside other values, and followed by other bytes.
        let today = today::Step::Ask {
            caps: vec![today.clone(), today],
        };
        let later = later::Step::Ask {
            caps: vec![later.clone(), later],
            urgent: false,
        };
        assert_eq!(read_as(&today), Ok(later));
    }
    assert_eq!(
        read_as(&today::Step::Wait),
        Ok(later::Step::Wait { until: 0 })
    );
}

#[test]
fn todays_program_reads_what_a_later_one_writes_without_its_new_fields() {
    for time_ms in [None, Some(9)] {
        let (today, later) = caps(time_ms);
        assert_eq!(encode_own(&later), encode_own(&today));
        assert_eq!(read_as(&later), Ok(today));
    }
}

#[test]
fn a_field_that_is_not_known_is_named_and_not_passed_over() {
    let (_, later) = caps(None);
    let costly = later::Caps {
        cost: Some(3),
        ..later.clone()
    };
    let wordy = later::Caps {
        words: vec![1],
        ..later
    };
    for (later, more) in [(costly, 1), (wordy, 2)] {
        let what = format!("{more} more fields of today::Caps than are known");
        assert_eq!(
            read_as::<_, today::Caps>(&later),
            Err(Fault::Newer { what: what.clone() })
        );
        let step = later::Step::Ask {
            caps: vec![later],
            urgent: false,
        };
        assert_eq!(read_as::<_, today::Step>(&step), Err(Fault::Newer { what }));
    }
    let what = "1 more fields of today::Step::Wait than are known".to_owned();
    let wait = later::Step::Wait { until: 5 };
    assert_eq!(read_as::<_, today::Step>(&wait), Err(Fault::Newer { what }));
    let what = "number 2 of today::Step".to_owned();
    assert_eq!(
        read_as::<_, today::Step>(&later::Step::Stop),
        Err(Fault::Newer { what })
    );
}

#[test]
fn a_value_has_one_form() {
    let (today, _) = caps(None);
    let mut payload = encode_own(&today).unwrap();
    // One optional field, which has its default.
    *payload.last_mut().unwrap() = 1;
    payload.push(0);
    let fault = decode_own::<today::Caps>(&payload).unwrap_err().to_string();
    assert!(
        fault.contains("ends in a field that says nothing"),
        "{fault}"
    );
}
