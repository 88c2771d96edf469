//! Derived ids.
//!
//! A derived id has the form of a UUIDv7: the time bits of the turn's id, and bits of a digest
//! instead of random bits. The same decision always gives the same id, so a decision that was lost
//! in a crash before it was durable cannot appear under two ids.

use unisono_context::digest::Hasher;
use unisono_context::{CallId, CheckpointId, Digest, MessageId, RunId, TurnId};

/// The position of a call in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallPlace {
    /// The run.
    pub run: RunId,
    /// The number of replies that the run had from its model; for an author's own code, the number
    /// of earlier tool rounds plus one.
    pub round: u32,
    /// Its position among the calls of the round, from 0.
    pub index: u32,
}

fn derive(turn: TurnId, kind: &str, index: u32) -> u128 {
    let mut hasher = Hasher::new("unisono/derived-id", 1);
    let digest = hasher
        .str(kind)
        .bytes(&turn.as_u128().to_be_bytes())
        .u64(index.into())
        .finish();
    with_time_of(turn, &digest)
}

/// An id with the turn's time and the bits of the digest.
fn with_time_of(turn: TurnId, digest: &Digest) -> u128 {
    const TIME: u128 = !0 << 80;
    const FIXED: u128 = (0xf << 76) | (0b11 << 62);
    const VERSION_7: u128 = (0x7 << 76) | (0b10 << 62);
    let bits = digest.0[..16]
        .iter()
        .fold(0u128, |bits, byte| bits << 8 | u128::from(*byte));
    (turn.as_u128() & TIME) | (bits & !TIME & !FIXED) | VERSION_7
}

/// The `index`th run of a turn.
pub fn run(turn: TurnId, index: u32) -> RunId {
    RunId::from_u128(derive(turn, "run", index))
}

/// The id under which budgets account the summary requests of a turn.
pub fn summaries(turn: TurnId) -> RunId {
    RunId::from_u128(derive(turn, "summaries", 0))
}

/// The run of the `index`th call of a round of another run of the turn.
pub fn child(turn: TurnId, parent: RunId, round: u32, index: u32) -> RunId {
    let mut hasher = Hasher::new("unisono/derived-id", 1);
    let digest = hasher
        .str("child")
        .bytes(&turn.as_u128().to_be_bytes())
        .bytes(&parent.as_u128().to_be_bytes())
        .u64(round.into())
        .u64(index.into())
        .finish();
    RunId::from_u128(with_time_of(turn, &digest))
}

/// The tool call at this place. Its text is also the key under which an idempotent tool recognises
/// a repetition.
pub fn call(turn: TurnId, place: CallPlace) -> CallId {
    let mut hasher = Hasher::new("unisono/derived-id", 1);
    let digest = hasher
        .str("call")
        .bytes(&turn.as_u128().to_be_bytes())
        .bytes(&place.run.as_u128().to_be_bytes())
        .u64(place.round.into())
        .u64(place.index.into())
        .finish();
    CallId::from_u128(with_time_of(turn, &digest))
}

/// The id under which a hook recognises a repeated question about a turn.
pub fn hook_question(turn: TurnId, event: &str, about: &[u128]) -> CallId {
    let mut hasher = Hasher::new("unisono/derived-id", 1);
    let mut hasher = hasher
        .str("hook")
        .bytes(&turn.as_u128().to_be_bytes())
        .str(event);
    for part in about {
        hasher = hasher.bytes(&part.to_be_bytes());
    }
    CallId::from_u128(with_time_of(turn, &hasher.finish()))
}

/// The `index`th message that a turn appends itself.
pub fn message(turn: TurnId, index: u32) -> MessageId {
    MessageId::from_u128(derive(turn, "message", index))
}

/// The checkpoint of the `index`th compaction step of a turn.
pub fn checkpoint(turn: TurnId, index: u32) -> CheckpointId {
    CheckpointId::from_u128(derive(turn, "checkpoint", index))
}

/// The checkpoint of the summary that was written ahead after a turn.
pub fn prepared(turn: TurnId) -> CheckpointId {
    CheckpointId::from_u128(derive(turn, "prepared", 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_ids_are_distinct_version_7_and_sort_with_their_turn() {
        let turn = TurnId::from_u128(0x0192_0000_0000_7abc_8def_0123_4567_89ab);
        let parent = run(turn, 0);
        let ids = rows! {
            run(turn, 0).as_u128(), run(turn, 1).as_u128(), summaries(turn).as_u128(),
            message(turn, 0).as_u128(), child(turn, parent, 1, 0).as_u128(),
            child(turn, parent, 2, 0).as_u128(), child(turn, parent, 1, 1).as_u128(),
            child(turn, run(turn, 1), 1, 0).as_u128(),
        };
        for id in ids {
            assert_eq!(id >> 80, turn.as_u128() >> 80);
            assert_eq!((id >> 76) & 0xf, 7);
            assert_eq!((id >> 62) & 0b11, 0b10);
        }
        let distinct: std::collections::BTreeSet<u128> = ids.into_iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert_eq!(ids[0], run(turn, 0).as_u128());
    }
}
