//! Counts came back. Those of a turn that has ended meanwhile are kept all the same.

use crate::event::Fact;
use crate::machine::{Counted, Refusal};

use super::Tx;

/// Records what is new.
pub(super) fn handle(tx: &mut Tx<'_>, counted: Counted) -> Result<(), Refusal> {
    let encoding = counted.encoding;
    if let Some((preamble, count)) = counted.preamble {
        let known = tx
            .state
            .preambles
            .get(&preamble)
            .and_then(|counts| counts.get(encoding));
        if known.is_none() {
            tx.record(Fact::PreambleCounted {
                preamble,
                encoding,
                count,
            })?;
        }
    }
    let tree = &tx.state.tree;
    let is_new = |id| {
        tree.get(id)
            .is_some_and(|node| node.counts.get(encoding).is_none())
    };
    let counts: Vec<_> = counted
        .messages
        .into_iter()
        .filter(|(id, _)| is_new(*id))
        .collect();
    if counts.is_empty() {
        return Ok(());
    }
    tx.record(Fact::Counted { encoding, counts })
}
