//! `/openai/v1/responses`: the same in the shape of the Responses API.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response as HttpResponse};
use serde_json::{Value, json};
use unisono_api::Code;
use unisono_api::openai::{
    Failure, OutputMessage, OutputText, OutputTokens, PromptTokens, Response, ResponseError,
    ResponseRequest, ResponseTokens,
};
use unisono_api::turn::Turn;
use unisono_context::TurnId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{self, Shape, Used};
use super::{Conversation, Refused, answer_of, asked, now};
use crate::http::problem::Fault;
use crate::http::{Shared, extract};

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(respond))
}

/// Asks an agent, or the team. A conversation is continued in a session, not by the id of a
/// response.
#[utoipa::path(
    post, path = "/openai/v1/responses", tag = "openai", security(("token" = [])),
    params(("X-Unisono-Session" = Option<String>, Header, description = "The session to continue")),
    request_body = ResponseRequest,
    responses((status = 200, description = "The answer; with `stream`, as server-sent events",
               body = Response),
              (status = "default", description = "Why not", body = Failure))
)]
async fn respond(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    request: Result<extract::Json<ResponseRequest>, Fault>,
) -> Result<HttpResponse, Refused> {
    let extract::Json(request) = request?;
    let asked = asked(&shared, &headers, conversation(&request)?).await?;
    let started = Draft {
        created: now(),
        model: request.model,
        instructions: request.instructions,
        metadata: request.metadata.unwrap_or_default(),
    };
    if request.stream {
        let shape = |turn| Steps {
            draft: started,
            turn,
            sequence: 0,
        };
        return answer::stream(shared, asked, shape).await;
    }
    let (turn, told, text) = answer_of(&shared, asked).await?;
    let message = message(turn, "completed", text);
    Ok(Json(started.response(turn, "completed", Some(message), Some(&told))).into_response())
}

/// What is said, as chat messages.
fn conversation(request: &ResponseRequest) -> Result<Conversation, Refused> {
    if request.previous_response_id.is_some() {
        let detail = "responses are not kept: name a session in `metadata.session` or the header \
                      `X-Unisono-Session`, and it goes on there";
        let field = "previous_response_id";
        return Err(Refused::field(field, Code::InvalidRequest, detail));
    }
    let mut messages = match &request.input {
        Value::String(text) => vec![json!({"role": "user", "content": text})],
        Value::Array(items) => items
            .iter()
            .filter_map(|item| chat(item).transpose())
            .collect::<Result<_, _>>()?,
        _ => return Err(input("input must be a text or a list of items")),
    };
    if let Some(text) = &request.instructions {
        messages.retain(|message| message["role"] != "system");
        messages.insert(0, json!({"role": "system", "content": text}));
    }
    Ok(Conversation {
        model: request.model.clone(),
        messages,
        field: "input",
        session: request
            .metadata
            .as_ref()
            .and_then(|data| data.get("session").cloned()),
    })
}

fn input(detail: impl Into<String>) -> Refused {
    Refused::field("input", Code::InvalidRequest, detail)
}

/// An item as a chat message; none for what no other model is to see.
fn chat(item: &Value) -> Result<Option<Value>, Refused> {
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
        other => Err(input(format!(
            "an item of type {other:?} is not understood"
        ))),
    }
}

/// The text of an item's content.
fn content(content: &Value) -> Result<String, Refused> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| match part["type"].as_str() {
                Some("input_text" | "output_text" | "text") => {
                    Ok(part["text"].as_str().unwrap_or_default())
                }
                other => {
                    let kind = other.unwrap_or("nothing");
                    Err(input(format!(
                        "content of type {kind:?} is not understood: only text is"
                    )))
                }
            });
            Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        _ => Err(input("content must be a text or a list of parts")),
    }
}

/// What is the same in all that is said of a response.
struct Draft {
    created: i64,
    model: String,
    instructions: Option<String>,
    metadata: BTreeMap<String, String>,
}

impl Draft {
    fn response(
        &self,
        id: TurnId,
        status: &'static str,
        message: Option<OutputMessage>,
        turn: Option<&Turn>,
    ) -> Response {
        Response {
            id: format!("resp_{id}"),
            object: "response",
            created_at: self.created,
            status,
            model: self.model.clone(),
            output: message.into_iter().collect(),
            usage: turn.map(tokens),
            error: None,
            incomplete_details: None,
            instructions: self.instructions.clone(),
            metadata: self.metadata.clone(),
            tools: Vec::new(),
            tool_choice: "auto",
            parallel_tool_calls: true,
            temperature: None,
            top_p: None,
        }
    }
}

fn tokens(turn: &Turn) -> ResponseTokens {
    let used = Used::of(turn);
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

/// The events of a response, numbered.
struct Steps {
    draft: Draft,
    turn: TurnId,
    sequence: u64,
}

impl Steps {
    /// An event of that name with its number.
    fn event(&mut self, name: &str, mut body: Value) -> Event {
        if let Some(body) = body.as_object_mut() {
            body.insert("type".to_owned(), name.into());
            body.insert("sequence_number".to_owned(), self.sequence.into());
        }
        self.sequence += 1;
        Event::default().event(name).data(body.to_string())
    }

    /// One about the text.
    fn about_text(&mut self, name: &str, mut more: Value) -> Event {
        if let Some(more) = more.as_object_mut() {
            more.insert("item_id".to_owned(), format!("msg_{}", self.turn).into());
            more.insert("output_index".to_owned(), 0.into());
            more.insert("content_index".to_owned(), 0.into());
        }
        self.event(name, more)
    }

    fn state(&mut self, name: &str, response: &Response) -> Event {
        self.event(name, json!({"response": response}))
    }
}

impl Shape for Steps {
    fn begun(&mut self) -> Vec<Event> {
        let response = self.draft.response(self.turn, "in_progress", None, None);
        let mut item = message(self.turn, "in_progress", String::new());
        item.content.clear();
        vec![
            self.state("response.created", &response),
            self.state("response.in_progress", &response),
            self.event(
                "response.output_item.added",
                json!({"output_index": 0, "item": item}),
            ),
            self.about_text(
                "response.content_part.added",
                json!({"part": part(String::new())}),
            ),
        ]
    }

    fn piece(&mut self, text: &str) -> Vec<Event> {
        let delta = json!({"delta": text, "logprobs": []});
        vec![self.about_text("response.output_text.delta", delta)]
    }

    fn ended(&mut self, text: &str, turn: &Turn) -> Vec<Event> {
        let item = message(self.turn, "completed", text.to_owned());
        let all = self
            .draft
            .response(self.turn, "completed", Some(item.clone()), Some(turn));
        vec![
            self.about_text(
                "response.output_text.done",
                json!({"text": text, "logprobs": []}),
            ),
            self.about_text(
                "response.content_part.done",
                json!({"part": part(text.to_owned())}),
            ),
            self.event(
                "response.output_item.done",
                json!({"output_index": 0, "item": item}),
            ),
            self.state("response.completed", &all),
        ]
    }

    fn failed(&mut self, failure: &Failure) -> Vec<Event> {
        let mut response = self.draft.response(self.turn, "failed", None, None);
        response.error = Some(ResponseError {
            code: "server_error",
            message: failure.error.message.clone(),
        });
        vec![self.state("response.failed", &response)]
    }
}
