//! The conversation of a session as session updates: its messages, and the calls behind them.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use unisono_api::message::{Message, MessageQuery, Part};
use unisono_api::run::{RunStep, StepContent};
use unisono_api::service::Service;
use unisono_api::session::main_branch;

use crate::client::{Client, Error};
use crate::protocol::{Call, CallContent, CallKind, CallStatus, Chunk, Content, Update};

/// Messages per read.
const MESSAGES: usize = 100;
/// The tool by which an agent delegates a task.
const DELEGATE: &str = "delegate";

/// Sends the conversation. With an open turn it ends before the answer of that turn: the updates of
/// the turn follow.
pub(crate) async fn replay(
    service: &dyn Service,
    session: &str,
    has_open_turn: bool,
    client: &Client,
) -> Result<(), Error> {
    let mut query = MessageQuery {
        branch: main_branch(),
        cursor: None,
        limit: NonZeroUsize::new(MESSAGES),
        steps: true,
    };
    let mut replay = Replay {
        service,
        calls: HashMap::new(),
        unanswered: None,
        updates: Vec::new(),
    };
    loop {
        let page = service.messages(session, &query).await?;
        for message in &page.items {
            let is_input = message.role == "user";
            if is_input {
                replay.finish(session, client).await?;
            }
            replay.take(message, is_input).await?;
            if is_input {
                replay.send(session, client).await?;
            }
        }
        if page.next.is_none() {
            break;
        }
        query.cursor = page.next;
    }
    match has_open_turn {
        true => Ok(()),
        false => replay.finish(session, client).await,
    }
}

struct Replay<'s> {
    service: &'s dyn Service,
    /// Calls without a result, by the id that the model gave them.
    calls: HashMap<String, Call>,
    /// The last input, if its turn ended without an answer, with the steps of its lead.
    unanswered: Option<(String, Vec<RunStep>)>,
    /// The updates that are not sent yet.
    updates: Vec<Update>,
}

impl Replay<'_> {
    /// Sends the rest of the last turn.
    async fn finish(&mut self, session: &str, client: &Client) -> Result<(), Error> {
        if let Some((id, steps)) = self.unanswered.take() {
            for step in &steps {
                self.step(&id, step, true).await?;
            }
        }
        self.send(session, client).await
    }

    async fn send(&mut self, session: &str, client: &Client) -> Result<(), Error> {
        for update in self.updates.drain(..) {
            client.notify(session, &update).await?;
        }
        Ok(())
    }

    async fn take(&mut self, message: &Message, is_input: bool) -> Result<(), Error> {
        // Of a delegate, only the result is shown as text.
        let shows_text = message.role == "assistant";
        match is_input {
            true => self.unanswered = Some((message.id.clone(), message.steps.clone())),
            false => {
                for step in &message.steps {
                    self.step(&message.id, step, shows_text).await?;
                }
            }
        }
        for part in &message.parts {
            self.part(message, part).await?;
        }
        Ok(())
    }

    /// A step behind a message. Delegations are messages themselves.
    async fn step(&mut self, id: &str, step: &RunStep, shows_text: bool) -> Result<(), Error> {
        match &step.done {
            StepContent::Model { text, calls, .. } => {
                let is_delegating = calls.iter().any(|call| call.name == DELEGATE);
                // The last reply is the message.
                if shows_text && !calls.is_empty() && !is_delegating {
                    self.text("assistant", text, format!("{id}:{}", step.event));
                }
                for call in calls.iter().filter(|call| call.name != DELEGATE) {
                    let id = format!("{}:{}", step.event, call.id);
                    self.calls
                        .insert(call.id.clone(), called(id, &call.name, &call.arguments));
                }
            }
            StepContent::Tools { results } => {
                for result in results {
                    let mut content = vec![result.content.clone().into()];
                    for file in &result.files {
                        let blob = &file.blob;
                        let image = self.image(&blob.mime, Some(&blob.digest)).await?;
                        content.extend(image.map(|content| CallContent::Content { content }));
                    }
                    self.result(&result.call_id, content, result.is_error);
                }
            }
            _ => {}
        }
        Ok(())
    }

    async fn part(&mut self, message: &Message, part: &Part) -> Result<(), Error> {
        match part {
            Part::Text { text } => self.text(&message.role, text, message.id.clone()),
            Part::ToolCall {
                id,
                name,
                arguments,
            } => {
                let call = called(format!("{}:{id}", message.id), name, arguments);
                self.calls.insert(id.clone(), call);
            }
            Part::ToolResult {
                call_id,
                content,
                is_error,
            } => self.result(call_id, vec![content.clone().into()], *is_error),
            Part::Attachment { mime, digest, .. } => {
                let image = self.image(mime, digest.as_deref()).await?;
                let content = image.unwrap_or_else(|| part.text().into_owned().into());
                self.chunk(&message.role, content, message.id.clone());
            }
        }
        Ok(())
    }

    fn text(&mut self, role: &str, text: &str, id: String) {
        if !text.trim().is_empty() {
            self.chunk(role, text.to_owned().into(), id);
        }
    }

    /// System texts are not shown.
    fn chunk(&mut self, role: &str, content: Content, message_id: String) {
        let chunk = Chunk {
            content,
            message_id,
        };
        match role {
            "user" => self.updates.push(Update::UserMessageChunk(chunk)),
            "assistant" => self.updates.push(Update::AgentMessageChunk(chunk)),
            _ => {}
        }
    }

    /// A call with its result. A result without its call is not shown.
    fn result(&mut self, call: &str, content: Vec<CallContent>, is_error: bool) {
        let Some(call) = self.calls.remove(call) else {
            return;
        };
        self.updates.push(Update::Call(Call {
            status: Some(match is_error {
                true => CallStatus::Failed,
                false => CallStatus::Completed,
            }),
            content,
            ..call
        }));
    }

    /// The content of an image; none if the file is no image, or its content is not kept.
    async fn image(&self, mime: &str, digest: Option<&str>) -> Result<Option<Content>, Error> {
        let Some(digest) = digest.filter(|_| mime.starts_with("image/")) else {
            return Ok(None);
        };
        match self.service.blob(digest).await {
            Ok(blob) => Ok(Some(Content::Image {
                data: STANDARD.encode(&blob.bytes),
                mime_type: blob.mime,
            })),
            Err(error) => {
                tracing::warn!(%error, digest, "an image is not shown");
                Ok(None)
            }
        }
    }
}

/// A call without its result. A delegation has the form of an agent at work.
fn called(id: String, name: &str, arguments: &str) -> Call {
    let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| arguments.into());
    let agent = input["agent"].as_str().filter(|_| name == DELEGATE);
    let (title, kind) = match agent {
        Some(agent) => (agent, CallKind::Think),
        None => (name, CallKind::Other),
    };
    Call {
        tool_call_id: id,
        title: Some(title.to_owned()),
        kind: Some(kind),
        raw_input: Some(input.clone()),
        ..Call::default()
    }
}
