//! The output items of a response, and the reply that they form.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use unisono_context::Tokens;
use unisono_context::call::{self, Reply, Stop, ToolCall};

use crate::dialect::Failure;
use crate::dialect::borrowed::Str;
use crate::dialect::counts::tokens;
use crate::dialect::openai_chat::reply::unique;
use crate::dialect::refusal::unreadable;

/// The text between two messages of one reply.
pub(super) const GAP: &str = "\n\n";

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(rename = "type", borrow)]
    kind: Str<'a>,
    #[serde(borrow)]
    content: Option<Vec<Part<'a>>>,
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    call_id: Option<Str<'a>>,
    #[serde(borrow)]
    name: Option<Str<'a>>,
    #[serde(borrow)]
    arguments: Option<Str<'a>>,
    encrypted_content: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Str<'a>>,
    #[serde(borrow)]
    refusal: Option<Str<'a>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Usage {
    #[serde(default, deserialize_with = "tokens")]
    input_tokens: Option<u64>,
    input_tokens_details: Option<Details>,
    #[serde(default, deserialize_with = "tokens")]
    output_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Details {
    #[serde(default, deserialize_with = "tokens")]
    cached_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    cache_write_tokens: Option<u64>,
}

impl Usage {
    pub(super) fn read(self) -> call::Usage {
        let details = self.input_tokens_details.unwrap_or_default();
        call::Usage {
            input: Tokens(self.input_tokens.unwrap_or_default()),
            output: Tokens(self.output_tokens.unwrap_or_default()),
            cache_expected: Tokens::ZERO,
            cache_read: Tokens(details.cached_tokens.unwrap_or_default()),
            cache_write: Tokens(details.cache_write_tokens.unwrap_or_default()),
            cost: None,
        }
    }
}

/// The reply that the items form. Unknown items are kept for the exchange only.
///
/// # Errors
/// An item cannot be read, or lacks a field.
pub(super) fn reply(items: &[&str], usage: Usage, stop: Stop) -> Result<Reply, Failure> {
    let (mut text, mut calls, mut ids) = (String::new(), Vec::new(), BTreeSet::new());
    let (mut refused, mut more) = (false, false);
    for (at, raw) in items.iter().enumerate() {
        let item = read(raw)?;
        match &*item.kind.0 {
            "message" => {
                let parts = item.content.unwrap_or_default();
                refused |= parts.iter().any(|part| part.refusal.is_some());
                let said = parts.into_iter().map(Part::words).collect::<String>();
                if !said.is_empty() && !text.is_empty() {
                    text.push_str(GAP);
                }
                text.push_str(&said);
            }
            "function_call" => {
                let missing = |field| Failure::missing(&format!("output[{at}].{field}"));
                let id = item.call_id.or(item.id).unwrap_or_default().0;
                let name = item.name.ok_or_else(|| missing("name"))?.0;
                let arguments = item.arguments.ok_or_else(|| missing("arguments"))?.0;
                calls.push(ToolCall {
                    id: unique(&mut ids, id.into_owned(), at).into(),
                    name: name.into(),
                    arguments: some_arguments(&arguments).into(),
                });
            }
            _ => more = true,
        }
    }
    // Only replies with calls are sent back.
    let verbatim = (more && !calls.is_empty()).then(|| format!("[{}]", items.join(",")).into());
    Ok(Reply {
        text: text.into(),
        calls,
        verbatim,
        usage: usage.read(),
        stop: if refused { Stop::Refused } else { stop },
        fallback: None,
        request_id: None,
        calls_left_out: 0,
    })
}

/// The items of a reply, unchanged and without brackets. None: it has only text and calls, is of
/// another dialect, its calls have other ids now, or its reasoning is not in it.
pub(super) fn own(reply: &Reply) -> Option<&str> {
    let verbatim = reply.verbatim.as_deref()?;
    let items: Vec<&RawValue> = serde_json::from_str(verbatim).ok()?;
    let items: Option<Vec<Item<'_>>> = items.iter().map(|item| read(item.get()).ok()).collect();
    let items = items?;
    let calls = items.iter().filter(|item| item.kind.0 == "function_call");
    let ids = calls.map(|item| item.call_id.as_ref().map(|id| &*id.0));
    let same = ids.eq(reply.calls.iter().map(|call| Some(&*call.id)));
    let reasons = items.iter().filter(|item| item.kind.0 == "reasoning");
    let reasons: Vec<&Item<'_>> = reasons.collect();
    let complete = !reasons.is_empty() && reasons.iter().all(|item| item.has_content());
    let inside = verbatim.trim().strip_prefix('[')?.strip_suffix(']')?;
    (same && complete).then_some(inside)
}

fn read(raw: &str) -> Result<Item<'_>, Failure> {
    serde_json::from_str(raw).map_err(|e| unreadable(raw.as_bytes(), &e))
}

fn some_arguments(text: &str) -> &str {
    if text.trim().is_empty() { "{}" } else { text }
}

impl Item<'_> {
    /// Whether the item has its content. Otherwise the provider looks it up by its id, and does not
    /// find it, because nothing is stored. A model that is not known to reason is not asked for the
    /// content.
    fn has_content(&self) -> bool {
        let parts = self.content.as_ref();
        self.encrypted_content.is_some() || parts.is_some_and(|parts| !parts.is_empty())
    }
}

impl<'a> Part<'a> {
    fn words(self) -> Cow<'a, str> {
        self.text.or(self.refusal).unwrap_or_default().0
    }
}
