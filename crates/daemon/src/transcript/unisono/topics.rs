//! The lines about topics: where it was decided that they end, and which a person sealed.

use unisono_context::Ordinal;
use unisono_context::topic::{DecidedTopics, EndedBy, TopicEnd};

use super::{Draft, Object, Result, Value, named, warn_unknown, word};

/// `topics`: what was decided about a path.
pub(super) fn decided<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    warn_unknown(object, &["type", "through", "ends"], draft);
    let (through, last) = named(object, "through", draft)?;
    let mut ends: Vec<TopicEnd> = Vec::new();
    for item in object.need("ends")?.array()? {
        let before = ends.last().map_or(Ordinal::FIRST, |end| end.opener);
        ends.push(end(item, before, last)?);
    }
    draft.import.topics.push(DecidedTopics { through, ends });
    Ok(())
}

/// An end after `before`, no later than `last`.
fn end(item: Value<'_>, before: Ordinal, last: Ordinal) -> Result<'_, TopicEnd> {
    let object = item.object()?;
    let opener = object.need("opener")?;
    let by = word(object.need("by")?, &EndedBy::ALL.map(|by| (by.name(), by)))?;
    let ordinal = Ordinal(opener.number()?);
    if ordinal <= before || ordinal > last {
        let reason = format!("openers must ascend, after {before} and up to {last}");
        return Err(opener.wrong(reason));
    }
    let opener = ordinal;
    Ok(TopicEnd { opener, by })
}

/// `sealed`: a topic that a person let end.
pub(super) fn sealed<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    warn_unknown(object, &["type", "message"], draft);
    let (message, _) = named(object, "message", draft)?;
    draft.import.sealed.push(message);
    Ok(())
}
