//! Whether anything that comes later can change what is told of turns.

use unisono_context::Timestamp;
use unisono_session::Trace;
use unisono_session::trace::{Status, TurnTrace};

/// How long after the end of a turn an answer of a cancelled attempt may still come, in
/// milliseconds: no call is waited for as long.
const LATE_MS: i64 = 60 * 60 * 1_000;

/// Whether the turns that were accepted before event `before` are told of by what the trace has
/// taken; `now`: when the last of it was written.
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
    // The end of a run that answered says what it used; of others, a late answer may.
    let mut runs = turn.runs.iter().filter_map(|run| trace.run(*run));
    is_over || runs.all(|run| matches!(run.status(), Status::Done | Status::Partial))
}
