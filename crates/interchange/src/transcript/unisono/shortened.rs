//! The lines of messages that are masked or cut in the context.

use unisono_context::Tokens;
use unisono_context::alteration::{Alteration, Form};

use super::checkpoint::counts;
use super::{Draft, Object, Result, Value, named, warn_unknown};

/// `masked`: tool results that are replaced by a reference.
pub(super) fn masked<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    warn_unknown(
        object,
        &["type", "message", "tokens", "counts", "after"],
        draft,
    );
    let tokens = Tokens(object.need("tokens")?.number()?);
    add(object, draft, Form::Masked { tokens })
}

/// `cut` and `truncated`: long texts that keep head and tail, or their head.
pub(super) fn cut<'t>(
    object: &Object<'t>,
    draft: &mut Draft<'t, '_, '_>,
    form: fn(u32) -> Form,
) -> Result<'t, ()> {
    warn_unknown(
        object,
        &["type", "message", "target_chars", "counts", "after"],
        draft,
    );
    add(object, draft, form(object.need("target_chars")?.number()?))
}

fn add<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>, form: Form) -> Result<'t, ()> {
    let (message, ordinal) = named(object, "message", draft)?;
    let after = object.get("after").map(Value::number).transpose()?;
    let after: u32 = after.unwrap_or_default();
    let before = &draft.import.alterations;
    if before.last().is_some_and(|(last, _)| *last > after) {
        let reason = "shortened messages must come in the order of `after`";
        return Err(object.wrong(reason));
    }
    let same = |known: &Alteration| known.message == message && known.form == form;
    if before.iter().any(|(_, known)| same(known)) {
        let reason = format!("message {message} is shortened twice in the same way");
        return Err(object.need("message")?.wrong(reason));
    }
    let counts = object.get("counts").map(counts).transpose()?;
    let alteration = Alteration {
        message,
        ordinal,
        form,
        counts: counts.unwrap_or_default(),
    };
    draft.import.alterations.push((after, alteration));
    Ok(())
}
