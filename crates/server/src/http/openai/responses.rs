//! `/openai/v1/responses`: the same in the shape of the Responses API.

mod steps;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response as HttpResponse};
use serde_json::{Value, json};
use unisono_api::Code;
use unisono_api::openai::{
    IncompleteDetails, OutputCall, OutputItem, OutputMessage, OutputText, OutputTokens,
    PromptTokens, Response, ResponseRequest, ResponseTokens,
};
use unisono_api::turn::{ClientToolCall, Turn};
use unisono_context::TurnId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{self, Used};
use super::form::Form;
use steps::Steps;

use super::{Conversation, FieldError, answer_of, named, now, prepare, unsupported};
use crate::body_share::BodyShare;
use crate::http::problem::ApiError;
use crate::http::{Shared, extract};
use unisono::client_tools::ClientToolRequest;

/// Why a reference to an item is refused.
const REFERENCE: &str = "it refers to an item of an earlier response, but responses are not kept: send \
                         the item itself, as clients do with `store: false`";
/// The status of an answer that reached the maximum length.
const INCOMPLETE: &str = "incomplete";

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(respond))
}

/// Gives a task to an agent, or to the team. A session continues a conversation, not the id of a
/// response.
#[utoipa::path(
    post, path = "/openai/v1/responses", tag = "openai",
    params(("X-Unisono-Session" = Option<String>, Header, description = "The session to continue"),
           ("Idempotency-Key" = Option<String>, Header,
            description = "In a session: a repeated request with this key gets the first answer, also after a crash")),
    request_body = ResponseRequest,
    responses((status = 200, description = "The answer; with `stream`, as server-sent events",
               headers(("X-Unisono-Session" = String, description = "The continued session, if any")),
               content((Response = "application/json"), (String = "text/event-stream"))))
)]
async fn respond(
    State(shared): State<Arc<Shared>>,
    Extension(body): Extension<BodyShare>,
    headers: HeaderMap,
    request: Result<extract::Json<ResponseRequest>, ApiError>,
) -> Result<HttpResponse, FieldError> {
    let extract::Json(request) = request?;
    let asked = prepare(&shared, &headers, conversation(&request)?).await?;
    drop(request.input);
    let session = asked.continued();
    let started = Draft {
        created: now(),
        model: request.model,
        instructions: request.instructions,
        metadata: request.metadata.unwrap_or_default(),
        tools: request.tools.unwrap_or_default(),
        tool_choice: request.tool_choice.unwrap_or_else(|| "auto".into()),
        parallel: request.parallel_tool_calls.unwrap_or(true),
    };
    if request.stream.unwrap_or_default() {
        let shape = |turn| Steps {
            draft: started,
            turn,
            sequence: 0,
            begun: false,
        };
        return Ok(named(answer::stream(shared, asked, shape).await, session));
    }
    let answer = answer_of(&shared, asked, &body).await;
    let answer = answer.map(|(id, turn, text)| {
        let output = output(id, text, &turn);
        Json(started.response(id, status(&turn), output, Some(&turn))).into_response()
    });
    Ok(named(answer, session))
}

/// The input as chat messages.
fn conversation(request: &ResponseRequest) -> Result<Conversation, FieldError> {
    unsupported::check_response(request)?;
    let mut messages = match &request.input {
        Value::String(text) => vec![json!({"role": "user", "content": text})],
        Value::Array(items) => (1_usize..)
            .zip(items)
            .filter_map(|(number, item)| {
                let wrong = |why| input(format!("item {number}: {why}"));
                chat(item).map_err(wrong).transpose()
            })
            .try_fold(Vec::new(), |messages, next| {
                Ok::<_, FieldError>(join_reply(messages, next?))
            })?,
        _ => return Err(input("input must be a text or a list of items")),
    };
    let instructions = request.instructions.as_ref();
    if let Some(text) = instructions.filter(|text| !text.is_empty()) {
        messages.insert(0, json!({"role": "system", "content": text}));
    }
    Ok(Conversation {
        model: request.model.clone(),
        messages,
        stream: request.stream.unwrap_or_default(),
        form: Form {
            answers: None,
            format: request
                .text
                .as_ref()
                .and_then(|text| text.format.clone())
                .map(|format| ("text", format)),
            stop: None,
            most: request
                .max_output_tokens
                .map(|most| ("max_output_tokens", most)),
        },
        field: "input",
        session: request
            .metadata
            .as_ref()
            .and_then(|data| data.get("session").cloned()),
        tools: ClientToolRequest::new(
            request.tools.clone(),
            request.tool_choice.clone(),
            request.parallel_tool_calls,
        ),
    })
}

/// Joins the calls of a reply, and its text before and after them, into one message: their results
/// follow all of them.
fn join_reply(mut messages: Vec<Value>, next: Value) -> Vec<Value> {
    let is_reply = |message: &Value| message["role"] == "assistant";
    let is_text = |message: &Value| !message["content"].is_array();
    let last = messages.last_mut().filter(|last| is_reply(last));
    let is_text_reply = is_reply(&next) && is_text(&next);
    match (last, next["tool_calls"].as_array()) {
        (Some(last), Some(more)) => match last["tool_calls"].as_array_mut() {
            Some(calls) => calls.extend(more.iter().cloned()),
            None => last["tool_calls"] = more.clone().into(),
        },
        (Some(last), None) if is_text_reply && is_text(last) && last["tool_calls"].is_array() => {
            let texts = [&last["content"], &next["content"]];
            let texts: Vec<&str> = texts.into_iter().filter_map(Value::as_str).collect();
            last["content"] = texts.join("\n").into();
        }
        _ => messages.push(next),
    }
    messages
}

fn input(detail: impl Into<String>) -> FieldError {
    FieldError::field("input", Code::InvalidRequest, detail)
}

/// An item as a chat message; none for items of one model only.
fn chat(item: &Value) -> Result<Option<Value>, String> {
    let text = |key: &str| item[key].as_str().unwrap_or_default();
    match item["type"].as_str().unwrap_or("message") {
        "message" => {
            let role = match text("role") {
                "developer" => "system",
                role => role,
            };
            Ok(Some(
                json!({"role": role, "content": content(&item["content"])?}),
            ))
        }
        "function_call" => {
            let function = json!({"name": text("name"), "arguments": text("arguments")});
            let call = json!({"id": text("call_id"), "type": "function", "function": function});
            Ok(Some(
                json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            ))
        }
        "function_call_output" => {
            let output = content(&item["output"])?;
            let id = text("call_id");
            Ok(Some(
                json!({"role": "tool", "tool_call_id": id, "content": output}),
            ))
        }
        "reasoning" => Ok(None),
        "item_reference" => Err(REFERENCE.to_owned()),
        other => Err(format!("the type {other:?} is not understood")),
    }
}

/// The content of an item: a text, or parts if some are not text.
fn content(content: &Value) -> Result<Value, String> {
    match content {
        Value::String(text) => Ok(text.as_str().into()),
        Value::Array(parts) => {
            let parts = parts.iter().map(part_of_content);
            let parts = parts.collect::<Result<Vec<_>, _>>()?;
            let texts: Option<Vec<&str>> = parts.iter().map(|part| part["text"].as_str()).collect();
            Ok(match texts {
                Some(texts) => texts.join("\n").into(),
                None => parts.into(),
            })
        }
        _ => Err("its content must be a text or a list of parts".to_owned()),
    }
}

fn part_of_content(part: &Value) -> Result<Value, String> {
    match part["type"].as_str() {
        Some("input_text" | "output_text" | "text") => {
            let text = part["text"].as_str().unwrap_or_default();
            Ok(json!({"type": "text", "text": text}))
        }
        Some("refusal") => Ok(json!({"type": "text", "text": part["refusal"]})),
        Some("input_image") => {
            let url = part["image_url"].as_str().unwrap_or("image");
            Ok(json!({"type": "image_url", "image_url": url}))
        }
        Some("input_file") => Ok(json!({"type": "file", "file": part})),
        other => {
            let kind = other.unwrap_or("nothing");
            Err(format!(
                "content of type {kind:?} is not understood: text, images and files are"
            ))
        }
    }
}

fn status(turn: &Turn) -> &'static str {
    if turn.is_cut_off() {
        INCOMPLETE
    } else {
        "completed"
    }
}

/// The constant fields of a response.
struct Draft {
    created: i64,
    model: String,
    instructions: Option<String>,
    metadata: BTreeMap<String, String>,
    tools: Vec<Value>,
    tool_choice: Value,
    parallel: bool,
}

impl Draft {
    fn response(
        &self,
        id: TurnId,
        status: &'static str,
        output: Vec<OutputItem>,
        turn: Option<&Turn>,
    ) -> Response {
        Response {
            id: format!("resp_{id}"),
            object: "response",
            created_at: self.created,
            status,
            model: self.model.clone(),
            output,
            usage: turn.map(tokens),
            error: None,
            incomplete_details: (status == INCOMPLETE).then_some(IncompleteDetails {
                reason: "max_output_tokens",
            }),
            instructions: self.instructions.clone(),
            metadata: self.metadata.clone(),
            tools: self.tools.clone(),
            tool_choice: self.tool_choice.clone(),
            parallel_tool_calls: self.parallel,
            temperature: None,
            top_p: None,
        }
    }
}

fn tokens(turn: &Turn) -> ResponseTokens {
    let used = Used::from_turn(turn);
    ResponseTokens {
        input_tokens: used.input,
        input_tokens_details: PromptTokens {
            cached_tokens: used.cached,
        },
        output_tokens: used.output,
        output_tokens_details: OutputTokens::default(),
        total_tokens: used.input + used.output,
    }
}

/// An answer: its text and its calls of client tools.
fn output(id: TurnId, text: String, turn: &Turn) -> Vec<OutputItem> {
    let said = turn.calls.is_empty() || !text.is_empty();
    let said = said.then(|| OutputItem::Message(message(id, status(turn), text)));
    let calls = turn.calls.iter();
    let calls = calls.map(|left| OutputItem::Call(call(left, "completed")));
    said.into_iter().chain(calls).collect()
}

fn call(left: &ClientToolCall, status: &'static str) -> OutputCall {
    OutputCall {
        kind: "function_call",
        id: left.id.replacen("call_", "fc_", 1),
        call_id: left.id.clone(),
        name: left.tool.clone(),
        arguments: left.arguments.clone(),
        status,
    }
}

fn message(turn: TurnId, status: &'static str, text: String) -> OutputMessage {
    OutputMessage {
        kind: "message",
        id: format!("msg_{turn}"),
        status,
        role: "assistant",
        content: vec![part(text)],
    }
}

fn part(text: String) -> OutputText {
    OutputText {
        kind: "output_text",
        text,
        annotations: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_stand_before_the_items_and_replace_none() {
        let item = |role: &str, text: &str| json!({"role": role, "content": text});
        let items = [
            item("developer", "In German."),
            item("user", "Which day?"),
            item("system", "It is Monday."),
            item("user", "Say it."),
        ];
        let request = json!({"model": "facts", "instructions": "Be short.", "input": items});
        let request: ResponseRequest = serde_json::from_value(request).unwrap();
        let said = conversation(&request).ok().unwrap().messages;
        let texts: Vec<&str> = said
            .iter()
            .map(|message| message["content"].as_str().unwrap())
            .collect();
        let expected = [
            "Be short.",
            "In German.",
            "Which day?",
            "It is Monday.",
            "Say it.",
        ];
        assert_eq!(texts, expected);
        assert_eq!(said[0]["role"], "system");
    }

    #[test]
    fn a_reply_is_one_message_in_whatever_order_its_items_are() {
        let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"});
        let output =
            |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "12"});
        let said = |text: &str| json!({"role": "assistant", "content": text});
        let refused =
            json!({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]});
        let user = json!({"role": "user", "content": "Which day?"});
        for (items, texts) in rows! {
            (vec![call("a"), said("I look."), output("a")], vec![json!("I look."), json!("12")]),
            (vec![said("I look."), call("a"), said("Twice."), call("b"), output("a"), output("b")],
             vec![json!("I look.\nTwice."), json!("12"), json!("12")]),
            (vec![call("a"), output("a"), said("It is 12."), user.clone()],
             vec![Value::Null, json!("12"), json!("It is 12."), json!("Which day?")]),
            (vec![said("One."), refused, user.clone()],
             vec![json!("One."), json!("No."), json!("Which day?")]),
        } {
            let request = json!({"model": "facts", "input": items});
            let request: ResponseRequest = serde_json::from_value(request).unwrap();
            let messages = conversation(&request).ok().unwrap().messages;
            let contents = messages.iter().map(|message| message["content"].clone());
            assert_eq!(contents.collect::<Vec<_>>(), texts, "{items:?}");
        }
    }

    #[test]
    fn an_item_that_is_not_understood_is_named_by_its_number() {
        let user = json!({"role": "user", "content": "Which day?"});
        let image = json!({"type": "input_video", "video_url": "x"});
        for (item, told) in rows! {
            (json!({"type": "item_reference", "id": "x"}), "item 2: it refers to an item"),
            (json!({"type": "web_search_call"}), "item 2: the type \"web_search_call\""),
            (json!({"role": "assistant", "content": null}), "item 2: its content must be"),
            (json!({"role": "user", "content": [image]}),
             "item 2: content of type \"input_video\""),
            (json!({"type": "function_call_output", "call_id": "c"}),
             "item 2: its content must be"),
            (json!(7), "item 2: its content must be"),
        } {
            let request = json!({"model": "facts", "input": [user, item]});
            let request: ResponseRequest = serde_json::from_value(request).unwrap();
            let refused = conversation(&request).err().unwrap().failure().error;
            assert!(refused.message.starts_with(told), "{}", refused.message);
            assert_eq!(refused.param.as_deref(), Some("input"));
        }
    }
}
