//! The shared prompt was rendered: runs can be opened with its digests.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::{Digest, TurnId};

use crate::fold;
use crate::turn::Phase;

use super::{Recorder, calls, work};

/// Not recorded by itself: each run records the digest of its prompt.
pub(super) fn handle(
    recorder: &mut Recorder<'_>,
    id: TurnId,
    prefixes: Result<BTreeMap<Digest, Digest>, Arc<str>>,
) -> Result<(), fold::Error> {
    let rooms = recorder.state.headrooms(id);
    let Some(turn) = recorder.state.turns.get_mut(&id) else {
        return Ok(());
    };
    if !matches!(turn.phase, Phase::Frozen { .. }) {
        return calls::start_of_turn(recorder, id);
    }
    let prefixes = match prefixes {
        Ok(prefixes) => prefixes,
        Err(reason) => return recorder.fail_turn(id, "render_failed", reason.to_string()),
    };
    turn.prefixes.0 = Some(prefixes);
    turn.headrooms.0 = Some(rooms);
    work::refuse_too_small(recorder, id)?;
    calls::start_of_turn(recorder, id)
}
