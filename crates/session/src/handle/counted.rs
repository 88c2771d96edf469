//! Counts arrived. The counts of a turn that has ended meanwhile are kept too.

use crate::event::Fact;
use crate::fold;
use crate::input::Counted;

use super::Recorder;

pub(super) fn handle(recorder: &mut Recorder<'_>, counted: Counted) -> Result<(), fold::Error> {
    let encoding = counted.encoding;
    for (text, count) in counted.texts {
        let known = recorder.state.preambles.get(&text);
        if known.and_then(|counts| counts.get(encoding)).is_none() {
            recorder.record(Fact::PreambleCounted {
                preamble: text,
                encoding,
                count,
            })?;
        }
    }
    // A message may be counted before the path to it is; it is then counted again.
    let tree = &recorder.state.tree;
    let is_new = |id| {
        tree.get(id).is_some_and(|node| {
            let ordinal = node.message.ordinal;
            tree.prefix(id, ordinal, encoding).is_none()
        })
    };
    let counts: Vec<_> = counted
        .messages
        .into_iter()
        .filter(|(id, _)| is_new(*id))
        .collect();
    if counts.is_empty() {
        return Ok(());
    }
    recorder.record(Fact::Counted { encoding, counts })
}
