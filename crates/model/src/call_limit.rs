//! Leaves out the excess tool calls of a reply.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use unisono_context::call::Reply;

/// Keeps the first `most` calls of a reply, at least one, and counts the others. Its form at the
/// provider has the same calls afterwards.
pub fn keep_calls(reply: &mut Reply, most: usize) {
    let left_out = reply.calls.len().saturating_sub(most);
    if left_out == 0 {
        return;
    }
    reply.calls.truncate(most);
    reply.calls_left_out = u32::try_from(left_out).unwrap_or(u32::MAX);
    let verbatim = reply.verbatim.as_deref();
    if let Some(cut) = verbatim.and_then(|verbatim| up_to_call(verbatim, most)) {
        reply.verbatim = Some(cut.into());
    }
}

/// The items of a reply up to its last kept call: reasoning after that belongs to calls that are
/// left out. None: its form at the provider is not a list of items, and has no calls.
fn up_to_call(verbatim: &str, most: usize) -> Option<String> {
    let items: Vec<&RawValue> = serde_json::from_str(verbatim).ok()?;
    let (mut kept, mut calls) = (Vec::new(), 0);
    for item in items {
        if calls == most {
            break;
        }
        calls += usize::from(is_call(item.get()));
        kept.push(item.get());
    }
    Some(format!("[{}]", kept.join(",")))
}

/// Whether an item of a reply is a call: at Anthropic, in OpenAI's Responses, or at Gemini.
fn is_call(item: &str) -> bool {
    #[derive(Deserialize)]
    struct Item<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<Cow<'a, str>>,
        #[serde(rename = "functionCall")]
        function_call: Option<IgnoredAny>,
    }
    serde_json::from_str::<Item<'_>>(item).is_ok_and(|item| {
        let kind = item.kind.as_deref();
        item.function_call.is_some() || matches!(kind, Some("tool_use" | "function_call"))
    })
}

#[cfg(test)]
mod tests {
    use unisono_context::call::ToolCall;

    use super::*;

    fn reply(verbatim: &str) -> Reply {
        let call = |n: u32| ToolCall::new(format!("c{n}"), "read", "{}");
        Reply {
            calls: (1..=3).map(call).collect(),
            verbatim: Some(verbatim.into()),
            ..Reply::default()
        }
    }

    #[test]
    fn the_form_at_the_provider_has_the_kept_calls() {
        for (verbatim, kept) in rows! {
            (
                r#"[{"type":"thinking"}, {"type":"tool_use","id":"c1"},{"type":"text"},{"type":"tool_use","id":"c2"},{"type":"tool_use","id":"c3"}]"#,
                r#"[{"type":"thinking"},{"type":"tool_use","id":"c1"},{"type":"text"},{"type":"tool_use","id":"c2"}]"#,
            ),
            (
                r#"[{"type":"reasoning"},{"type":"function_call"},{"type":"function_call"},{"type":"reasoning"},{"type":"function_call"}]"#,
                r#"[{"type":"reasoning"},{"type":"function_call"},{"type":"function_call"}]"#,
            ),
            (
                r#"[{"functionCall":{"args":{}},"thoughtSignature":"s"},{"functionCall":{}},{"functionCall":{}}]"#,
                r#"[{"functionCall":{"args":{}},"thoughtSignature":"s"},{"functionCall":{}}]"#,
            ),
            (r#"{"reasoning_content":"so"}"#, r#"{"reasoning_content":"so"}"#),
        } {
            let mut reply = reply(verbatim);
            keep_calls(&mut reply, 2);
            assert_eq!(reply.verbatim.as_deref(), Some(kept));
            assert_eq!((reply.calls.len(), reply.called()), (2, 3));
        }
    }

    #[test]
    fn a_reply_with_no_more_calls_is_unchanged() {
        let mut kept = reply("[1]");
        keep_calls(&mut kept, 3);
        assert_eq!(kept, reply("[1]"));
    }
}
