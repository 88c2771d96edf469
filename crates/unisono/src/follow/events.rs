//! Events of the journal and progress reports in the types of the API.

use unisono_api::event;
use unisono_context::RunId;
use unisono_runtime::Progress;
use unisono_session::{Event, Fact};

use crate::values;

/// The names of all kinds of events of a journal, with what happened.
pub fn event_kinds() -> &'static [(&'static str, &'static str)] {
    Fact::KINDS
}

/// Converts an event with its number to its API type.
pub fn event_to_api(seq: u64, event: &Event) -> event::Event {
    let (turn, run) = (event.fact.turn(), event.fact.run());
    let agent = match &event.fact {
        Fact::RunOpened { run } => Some(run.agent.to_string()),
        _ => None,
    };
    event::Event {
        seq,
        at: values::instant(event.at),
        kind: event.fact.name().to_owned(),
        turn: turn.map(|turn| turn.to_string()),
        run: run.map(|run| run.to_string()),
        agent,
        text: event.fact.to_string(),
    }
}

/// Converts a progress report to its API type.
pub fn progress_to_api(said: &Progress) -> event::Progress {
    let of_run = |run: &RunId, text: String| event::Progress {
        run: Some(run.to_string()),
        turn: None,
        text,
        is_failure: false,
    };
    match said {
        Progress::Run { run, text } | Progress::TextDelta { run, text } => {
            of_run(run, text.to_string())
        }
        Progress::Pause { run, until, reason } => {
            let until = values::instant(*until);
            of_run(
                run,
                format!("{reason}; the next request is not before {until}"),
            )
        }
        Progress::Compaction {
            turn,
            text,
            is_failure,
        } => event::Progress {
            run: None,
            turn: Some(turn.to_string()),
            text: text.to_string(),
            is_failure: *is_failure,
        },
    }
}
