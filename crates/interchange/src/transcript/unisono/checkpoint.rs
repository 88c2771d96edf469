//! The line of a checkpoint: every field of [`Checkpoint`], `retired` if it was reverted, and
//! `tightened` if fewer messages were kept than requested.
//!
//! `covers` is a list of `[first, last]` ordinals; `summary` is null for a tombstone; `counts` has
//! `{"tokens", "at_most"}` per encoding.

use std::sync::Arc;

use unisono_context::checkpoint::{
    Body, Checkpoint, FactCoverage, KeyFact, Kind, Span, Tier, Writer,
};
use unisono_context::policy::Preset;
use unisono_context::tokens::{Count, Counts};
use unisono_context::{CheckpointId, Digest, Encoding, MessageId, Ordinal, Tokens};

use super::{Draft, Object, Result, Value, fields, id, warn_unknown, word};
use unisono_config::diagnostic::suggestion;

pub(in crate::transcript) const KINDS: [(&str, Kind); 2] =
    [("auto", Kind::Auto), ("manual", Kind::Manual)];
pub(in crate::transcript) const TIERS: [(&str, Tier); 3] = [
    ("conversation", Tier::Conversation),
    ("topic", Tier::Topic),
    ("bulk", Tier::Bulk),
];
pub(in crate::transcript) const WRITERS: [(&str, Writer); 2] = [
    ("model", Writer::Model),
    ("deterministic", Writer::Deterministic),
];

const KEYS: [&str; 25] = [
    "type",
    "id",
    "number",
    "parent",
    "covers",
    "cutoff",
    "cutoff_digest",
    "supersedes",
    "kind",
    "tier",
    "preset",
    "writer",
    "model",
    "summary",
    "original_tokens",
    "counts",
    "compression_ratio",
    "messages_included",
    "key_facts",
    "cost_micros",
    "duration_ms",
    "degraded",
    "retired",
    "tightened",
    "coverage",
];

pub(super) fn read<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let keys: Vec<&str> = KEYS.into_iter().chain(["at"]).collect();
    warn_unknown(object, &keys, draft);
    let checkpoint = checkpoint(object)?;
    let parent = object.need("parent")?;
    if draft.tree.get(checkpoint.parent).is_none() {
        return Err(parent.wrong(format!("message {} does not exist", checkpoint.parent)));
    }
    let known = &draft.import.checkpoints;
    if known.iter().any(|known| known.id == checkpoint.id) {
        return Err(object.need("id")?.wrong("a second checkpoint of that id"));
    }
    if known
        .last()
        .is_some_and(|last| last.number >= checkpoint.number)
    {
        let number = object.need("number")?;
        return Err(number.wrong("checkpoints must come in the order of their numbers"));
    }
    if !checkpoint.applies_to(&draft.tree, checkpoint.parent) {
        let reason = "the checkpoint does not belong to these messages: their digest at its cutoff is another one";
        return Err(object.need("cutoff_digest")?.wrong(reason));
    }
    if object
        .get("retired")
        .map(Value::bool)
        .transpose()?
        .unwrap_or_default()
    {
        draft.import.retired.push(checkpoint.id);
    }
    let tightened = object.get("tightened").map(Value::bool).transpose()?;
    if tightened.unwrap_or_default() {
        draft.import.notes.tightened.push(checkpoint.id);
    }
    draft.import.checkpoints.push(Arc::new(checkpoint));
    Ok(())
}

fn checkpoint<'t>(object: &Object<'t>) -> Result<'t, Checkpoint> {
    let covers = covers(object.need("covers")?)?;
    let cutoff = object.need("cutoff")?;
    let last = covers.last().map(|span| span.last);
    let cutoff_ordinal = Ordinal(cutoff.number()?);
    if last != Some(cutoff_ordinal) {
        return Err(cutoff.wrong("`cutoff` must be the last message covered"));
    }
    let digest = object.need("cutoff_digest")?;
    let digest: Digest = digest
        .text()?
        .parse()
        .map_err(|_| digest.wrong("64 hex digits were expected"))?;
    Ok(Checkpoint {
        id: id(object.need("id")?)?,
        number: object.need("number")?.number()?,
        parent: id::<MessageId>(object.need("parent")?)?,
        covers,
        cutoff: cutoff_ordinal,
        cutoff_digest: digest,
        supersedes: list(object, "supersedes", id::<CheckpointId>)?,
        kind: word(object.need("kind")?, &KINDS)?,
        tier: word(object.need("tier")?, &TIERS)?,
        preset: word(object.need("preset")?, &Preset::ALL.map(|p| (p.name(), p)))?,
        writer: word(object.need("writer")?, &WRITERS)?,
        model: object.text("model")?.into(),
        body: match object.opt_text("summary")? {
            Some(text) => Body::Summary(text.into()),
            None => Body::Tombstone,
        },
        original: Tokens(object.need("original_tokens")?.number()?),
        counts: counts(object.need("counts")?)?,
        messages_included: object.need("messages_included")?.number()?,
        key_facts: list(object, "key_facts", key_fact)?,
        cost_micros: object.get("cost_micros").map(Value::number).transpose()?,
        duration_ms: object.need("duration_ms")?.number()?,
        degraded: object.need("degraded")?.bool()?,
        at: fields::time(object.need("at")?)?,
        coverage: object.get("coverage").map(coverage).transpose()?,
    })
}

/// Disjoint ascending ranges, at least one.
fn covers(value: Value<'_>) -> Result<'_, Vec<Span>> {
    let mut spans: Vec<Span> = Vec::new();
    for range in value.array()? {
        let ends = range.array()?;
        let [first, last] = ends[..] else {
            return Err(range.wrong("a range is [first, last]"));
        };
        let span = Span::new(Ordinal(first.number()?), Ordinal(last.number()?));
        let before = spans.last().map_or(Ordinal(0), |span| span.last);
        if span.first <= before || span.last < span.first {
            return Err(range.wrong("ranges must ascend and not overlap, from 1"));
        }
        spans.push(span);
    }
    if spans.is_empty() {
        return Err(value.wrong("a checkpoint covers at least one message"));
    }
    Ok(spans)
}

pub(super) fn counts(value: Value<'_>) -> Result<'_, Counts> {
    let mut counts = Counts::default();
    for (name, count) in value.object()?.fields() {
        let Some(encoding) = Encoding::from_name(name) else {
            let known = Encoding::ALL.into_iter().map(Encoding::name);
            let help = suggestion(name, known).unwrap_or_default();
            return Err(count.wrong(format!("unknown encoding {name:?}; {help}")));
        };
        let object = count.object()?;
        let count = Count {
            tokens: Tokens(object.need("tokens")?.number()?),
            at_most: Tokens(object.need("at_most")?.number()?),
        };
        counts.set(encoding, count);
    }
    Ok(counts)
}

fn key_fact(value: Value<'_>) -> Result<'_, KeyFact> {
    let object = value.object()?;
    Ok(KeyFact {
        text: object.text("text")?.into(),
        ordinal: Ordinal(object.need("ordinal")?.number()?),
    })
}

fn coverage(value: Value<'_>) -> Result<'_, FactCoverage> {
    let object = value.object()?;
    Ok(FactCoverage {
        facts: object.need("facts")?.number()?,
        kept: object.need("kept")?.number()?,
        quoted: object.need("quoted")?.number()?,
    })
}

fn list<'t, T>(
    object: &Object<'t>,
    key: &str,
    read: impl Fn(Value<'t>) -> Result<'t, T>,
) -> Result<'t, Vec<T>> {
    let items = object.get(key).map(Value::array).transpose()?;
    items.unwrap_or_default().into_iter().map(read).collect()
}
