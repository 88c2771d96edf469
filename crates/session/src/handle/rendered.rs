//! The shared prompt was rendered: runs can be opened with its digests.

use std::collections::BTreeMap;

use unisono_context::{Digest, TurnId};

use crate::turn::Phase;

use super::Tx;

/// Not recorded by itself: each run records the digest of the prompt it is given.
pub(super) fn handle(tx: &mut Tx<'_>, turn: TurnId, prefixes: BTreeMap<Digest, Digest>) {
    let rooms = tx.state.rooms(turn);
    if let Some(turn) = tx.state.turns.get_mut(&turn)
        && matches!(turn.phase, Phase::Frozen { .. })
    {
        turn.prefixes.0 = Some(prefixes);
        turn.rooms.0 = Some(rooms);
    }
}
