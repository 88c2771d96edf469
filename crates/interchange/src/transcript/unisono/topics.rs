//! The lines about topics: their decided ends, and the topics that a person sealed.

use unisono_context::topic::{DecidedTopics, EndedBy, TopicEnd};
use unisono_context::{Ordinal, Timestamp};

use super::{Draft, Object, Result, Value, fields, named, warn_unknown, word};

/// `topics`: the decided topic ends of a path.
pub(super) fn decided<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    warn_unknown(object, &["type", "through", "ends"], draft);
    let (through, last) = named(object, "through", draft)?;
    let mut ends: Vec<TopicEnd> = Vec::new();
    for item in object.need("ends")?.array()? {
        let before = ends.last().map_or(Ordinal::FIRST, |end| end.opener);
        let (end, at) = end(item, before, last)?;
        let opener = draft.tree.node_at(through, end.opener);
        if let Some((opener, at)) = opener.map(|node| node.message.id).zip(at) {
            draft.import.notes.opened.push((opener, at));
        }
        ends.push(end);
    }
    draft.import.topics.push(DecidedTopics { through, ends });
    Ok(())
}

/// A topic end after `before` and up to `last`, with the time of its decision.
fn end(
    item: Value<'_>,
    before: Ordinal,
    last: Ordinal,
) -> Result<'_, (TopicEnd, Option<Timestamp>)> {
    let object = item.object()?;
    let at = object.get("at").map(fields::time).transpose()?;
    let opener = object.need("opener")?;
    let by = word(object.need("by")?, &EndedBy::ALL.map(|by| (by.name(), by)))?;
    let ordinal = Ordinal(opener.number()?);
    if ordinal <= before || ordinal > last {
        let reason = format!("openers must ascend, after {before} and up to {last}");
        return Err(opener.wrong(reason));
    }
    let opener = ordinal;
    Ok((TopicEnd { opener, by }, at))
}

/// `sealed`: a topic that a person ended.
pub(super) fn sealed<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    warn_unknown(object, &["type", "message", "at"], draft);
    let (message, _) = named(object, "message", draft)?;
    if let Some(at) = object.get("at").map(fields::time).transpose()? {
        draft.import.notes.sealed.push((message, at));
    }
    draft.import.sealed.push(message);
    Ok(())
}
