//! Whether later events can change the description of turns.

use unisono_context::Timestamp;
use unisono_session::Trace;
use unisono_session::trace::{RunStatus, TurnTrace};

/// The time after the end of a turn in which an answer of a cancelled attempt may still arrive, in
/// milliseconds: longer than the timeout of any call.
const LATE_MS: i64 = 60 * 60 * 1_000;

/// Whether the folded trace completely describes the turns that were accepted before event
/// `before`; `now`: the time of its last event.
pub(super) fn all_before(trace: &Trace, before: u64, now: Option<Timestamp>) -> bool {
    let mut wanted = trace
        .turns()
        .filter(|(_, turn)| turn.accepted.0.seq < before);
    wanted.all(|(_, turn)| is(trace, turn, now))
}

fn is(trace: &Trace, turn: &TurnTrace, now: Option<Timestamp>) -> bool {
    let Some((end, _)) = &turn.ended else {
        return false;
    };
    let is_over = now.is_some_and(|now| now.ms_since(end.at) > LATE_MS);
    // The end of an answered run has its usage; a late answer may change that of other runs.
    let mut runs = turn.runs.iter().filter_map(|run| trace.run(*run));
    let are_done = runs.all(|run| matches!(run.status(), RunStatus::Done | RunStatus::Partial));
    is_over || (are_done && !turn.is_preparing)
}
