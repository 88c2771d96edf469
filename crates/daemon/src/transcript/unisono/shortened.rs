//! The lines of messages that stand masked or cut in the context.

use unisono_context::alteration::{Alteration, Form};
use unisono_context::{MessageId, Tokens};

use super::checkpoint::counts;
use super::{Draft, Object, Result, id, warn_unknown};

/// `masked`: tool results that are replaced by a reference.
pub(super) fn masked<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    warn_unknown(object, &["type", "message", "tokens", "counts"], draft);
    let tokens = Tokens(object.need("tokens")?.number()?);
    add(object, draft, Form::Masked { tokens })
}

/// `cut`: long texts that keep head and tail.
pub(super) fn cut<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    warn_unknown(
        object,
        &["type", "message", "target_chars", "counts"],
        draft,
    );
    let target_chars = object.need("target_chars")?.number()?;
    add(object, draft, Form::Cut { target_chars })
}

/// `truncated`: long texts that keep their head.
pub(super) fn truncated<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    warn_unknown(
        object,
        &["type", "message", "target_chars", "counts"],
        draft,
    );
    let target_chars = object.need("target_chars")?.number()?;
    add(object, draft, Form::Truncated { target_chars })
}

fn add<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>, form: Form) -> Result<'t, ()> {
    let named = object.need("message")?;
    let message: MessageId = id(named)?;
    let Some(node) = draft.tree.get(message) else {
        return Err(named.wrong(format!("message {message} does not exist")));
    };
    let known = &draft.import.alterations;
    if known.iter().any(|known| known.message == message) {
        return Err(named.wrong(format!("message {message} is shortened twice")));
    }
    let alteration = Alteration {
        message,
        ordinal: node.message.ordinal,
        form,
        counts: object
            .get("counts")
            .map(counts)
            .transpose()?
            .unwrap_or_default(),
    };
    draft.import.alterations.push(alteration);
    Ok(())
}
