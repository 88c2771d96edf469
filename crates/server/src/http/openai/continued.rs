//! Finds the new messages of a request in a session.
//!
//! A client sends its whole conversation with each request. The list is compared with the messages
//! of the session from the first one on, or from a later one if the client sends only the end of
//! the conversation. The rest of the list is new: it is appended, and its last message is the
//! turn's input. A single message is new, and so are tool results without other messages.

mod compare;

use std::collections::BTreeSet;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use unisono_api::Code;
use unisono_api::session::MAIN_BRANCH;
use unisono_api::session::NewSession;
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::{MessageId, Ordinal};
use unisono_runtime::Handle;
use unisono_session::State;
use unisono_session::machine::{Import, PrecedingMessages};

use super::{FieldError, check_attachments};
use crate::http::Shared;
use crate::http::problem::ApiError;
use crate::waiting::refusal;
use compare::{Comparable, Comparison};
use unisono::ask::Ask;
use unisono_config::settings::Attachments;

/// Messages of a session that are read at once.
const LOOKED_AT: u32 = 256;
/// Messages at the end of a session among which the beginning of a list is searched.
const END: u32 = 4_096;
/// Maximum number of positions that are compared.
const TRIED: usize = 64;

/// The messages of a request, and the field that holds them.
pub(super) struct List {
    pub(super) messages: Vec<Value>,
    pub(super) field: &'static str,
}

impl List {
    /// The task of a request without a session: earlier messages are the conversation.
    pub(super) fn without_session(mut self, shared: &Shared) -> Result<(Import, Ask), FieldError> {
        let messages = std::mem::take(&mut self.messages);
        let mut import = self.read(shared, messages)?;
        let ask = self.last(&mut import, false)?;
        Ok((import, ask))
    }

    /// The task of a request in a session, with the other new messages. A turn that would wait for a
    /// person's decision about another turn is refused.
    pub(super) async fn new_in(
        mut self,
        shared: &Shared,
        session: &Handle,
    ) -> Result<Ask, FieldError> {
        if let Some(reason) = refusal(session, MAIN_BRANCH).await? {
            return Err(ApiError::new(Code::Refused, reason).into());
        }
        let messages = std::mem::take(&mut self.messages);
        let first = messages.iter().take_while(is_system).count();
        if !is_alone(messages.get(first..).unwrap_or_default()) {
            let mut import = self.read(shared, messages)?;
            let last = import.messages.last().map(|(_, last)| last.role);
            if !matches!(last, Some(Role::User | Role::Tool)) {
                return Err(self.asks_nothing());
            }
            self.check_system(&import, session).await?;
            let preceding = self.remove_known(&mut import, first, session).await?;
            let ask = self.last(&mut import, false)?;
            let messages = import.messages.into_iter().map(|(_, message)| message);
            return Ok(ask.with_preceding(PrecedingMessages {
                messages: messages.collect(),
                ..preceding
            }));
        }
        let known = session.inspect(trailing_results).await?;
        let mut import = self.read(shared, new_results(messages, first, &known))?;
        self.check_system(&import, session).await?;
        self.last(&mut import, true)
    }

    fn refused(&self, code: Code, detail: impl Into<String>) -> FieldError {
        FieldError::field(self.field, code, detail)
    }

    fn read(&self, shared: &Shared, messages: Vec<Value>) -> Result<Import, FieldError> {
        self.check_results(shared, &messages)?;
        let messages = messages.iter().map(to_raw_value).collect::<Result<_, _>>();
        let messages = messages.map_err(|error| self.refused(Code::Refused, error.to_string()))?;
        let new = NewSession {
            messages,
            title: Some("chat completion".to_owned()),
            ..NewSession::default()
        };
        let most = shared.local.setup().loaded.config.server.import_messages;
        let import = unisono::service::sessions::import(new, most);
        let import = import.map_err(|error| FieldError(error.into(), Some(self.field)))?;
        check_attachments(shared, &import, self.field)?;
        Ok(import)
    }

    /// Rejects images and files in results of client tools, unless a note may replace them: such a
    /// result is text.
    fn check_results(&self, shared: &Shared, messages: &[Value]) -> Result<(), FieldError> {
        let attachments = shared.local.setup().loaded.config.server.attachments;
        let mut results = messages.iter().filter(|message| is_result(message));
        match results.find(|result| has_files(&result["content"])) {
            Some(result) if attachments == Attachments::Refuse => {
                let detail = format!(
                    "the result of call {} has an image or a file, but a result is text: send the \
                     file in a message of the user, or set `server.attachments` to \"note\", and a \
                     note stands in its place",
                    result["tool_call_id"]
                );
                Err(self.refused(Code::InvalidRequest, detail))
            }
            _ => Ok(()),
        }
    }

    async fn check_system(&self, import: &Import, session: &Handle) -> Result<(), FieldError> {
        let own = session.inspect(|state| state.system().clone()).await?;
        if import.system.is_empty() || import.system == own {
            return Ok(());
        }
        let detail = "the system text of the request is not that of the session: leave it out, or \
                      continue a session that was made with it as its `system`";
        Err(self.refused(Code::Conflict, detail))
    }

    /// Removes the messages that the session already has from a list, and returns the position of
    /// the new ones. `first` messages precede the list.
    async fn remove_known(
        &self,
        import: &mut Import,
        first: usize,
        session: &Handle,
    ) -> Result<PrecedingMessages, FieldError> {
        let branch = session.inspect(Branch::from_state).await?;
        if branch.is_busy {
            let detail = "the session works on a turn: ask again when that has ended, or send the \
                          new message alone";
            return Err(self.refused(Code::Conflict, detail));
        }
        // A message of a request has one result at most.
        let list = import.messages.iter();
        let list: Vec<Comparable> = list
            .flat_map(|(_, said)| Comparable::from_parts(said.role, &said.parts))
            .collect();
        let next = match branch.compare(session, &list).await? {
            Ok(next) => next,
            Err(differs) => match branch.end(session, &list).await? {
                Some(next) => next,
                None => return Err(self.refused(Code::Conflict, differs.detail(first))),
            },
        };
        let count = import.messages.len();
        let mut new = import.messages.split_off(next.min(count));
        if new.is_empty() {
            // The turn of this input failed: the input is asked again.
            let last = import
                .messages
                .pop()
                .filter(|(_, last)| last.role == Role::User);
            new.extend(last);
        }
        if new.is_empty() {
            let detail = format!(
                "the request has no new message: the session already has all {count}; append one"
            );
            return Err(self.refused(Code::Conflict, detail));
        }
        import.messages = new;
        Ok(PrecedingMessages {
            head: branch.head,
            messages: Vec::new(),
        })
    }

    /// The turn's input, removed from the conversation: the last message, or all tool results at
    /// the end. With `results`, tool results before the last message belong to the input too.
    fn last(&self, import: &mut Import, with_results: bool) -> Result<Ask, FieldError> {
        let last = import.messages.last().map(|(_, last)| last);
        match last.map(|last| last.role) {
            Some(Role::User) => {
                let last = import.messages.pop();
                let last = last.map(|(_, last)| (last.parts, last.author));
                let (parts, author) = last.unwrap_or_default();
                let ask = match parts.iter().any(|part| part.content().is_some()) {
                    true => Ask::from_parts(parts),
                    false => Ask::new(compare::text(&parts)),
                };
                let ask = ask.with_author(author);
                Ok(match with_results {
                    true => ask.after(results(import)),
                    false => ask,
                })
            }
            Some(Role::Tool) => Ok(Ask::from_results(results(import))),
            _ => Err(self.asks_nothing()),
        }
    }

    fn asks_nothing(&self) -> FieldError {
        let detail = "the last message must be the task of a user or the result of a tool call";
        self.refused(Code::InvalidRequest, detail)
    }
}

/// The position at which a list and a session differ.
struct Mismatch {
    /// The number of equal messages before it.
    same: usize,
    /// Whether the list ends before the session's messages.
    goes_on: bool,
    /// The session's message and its author.
    own: (Ordinal, Role),
}

impl Mismatch {
    fn detail(&self, first: usize) -> String {
        let (ordinal, role) = self.own;
        let at = first + self.same;
        let what = match self.goes_on {
            true => format!(
                "the session goes on behind message {at}: its message {ordinal} ({role}) is not in \
                 the list",
            ),
            false => format!(
                "message {} is not what the session has there: that is its message {ordinal} \
                 ({role})",
                at + 1
            ),
        };
        format!("{what}. Send only the new message, or continue another session or none")
    }
}

struct Branch {
    head: Option<MessageId>,
    messages: u32,
    is_busy: bool,
}

impl Branch {
    fn from_state(state: &State) -> Branch {
        let head = state.tree().head(MAIN_BRANCH);
        let newest = head.and_then(|head| state.tree().get(head));
        Branch {
            head,
            messages: newest.map_or(0, |node| node.ordinal().0),
            is_busy: state
                .open_turns()
                .any(|turn| &*turn.accepted.branch == MAIN_BRANCH),
        }
    }

    /// The number of leading messages of a list that are in the branch, compared from its first
    /// message on. The list must contain the whole branch.
    async fn compare(
        &self,
        session: &Handle,
        list: &[Comparable],
    ) -> Result<Result<usize, Mismatch>, FieldError> {
        let mut compared = Comparison::new(list);
        let mut first = 1;
        while first <= self.messages {
            let last = self.messages.min(first.saturating_add(LOOKED_AT - 1));
            for (ordinal, own) in self.comparable_messages(session, first, last).await? {
                if !compared.accept(&own) {
                    return Ok(Err(Mismatch {
                        same: compared.same(),
                        goes_on: compared.same() == list.len(),
                        own: (ordinal, own.role()),
                    }));
                }
            }
            first = last.saturating_add(1);
        }
        Ok(Ok(compared.same()))
    }

    /// The same from a later message on.
    async fn end(
        &self,
        session: &Handle,
        list: &[Comparable],
    ) -> Result<Option<usize>, FieldError> {
        let first = self.messages.saturating_sub(END - 1).max(1);
        let own = self
            .comparable_messages(session, first, self.messages)
            .await?;
        let own: Vec<Comparable> = own.into_iter().map(|(_, own)| own).collect();
        Ok(compare::end(list, &own, TRIED))
    }

    async fn comparable_messages(
        &self,
        session: &Handle,
        first: u32,
        last: u32,
    ) -> Result<Vec<(Ordinal, Comparable)>, FieldError> {
        let Some(head) = self.head else {
            return Ok(Vec::new());
        };
        let look = move |state: &State| {
            let nodes = state.tree().range(head, Ordinal(first)..=Ordinal(last));
            let messages = nodes.into_iter().map(|node| node.message.clone());
            messages.collect::<Vec<_>>()
        };
        let messages = session.inspect(look).await?;
        let said = messages.iter().flat_map(|message| {
            let said = Comparable::from_parts(message.role, &message.parts);
            said.into_iter().map(|said| (message.ordinal, said))
        });
        Ok(said.collect())
    }
}

fn is_system(message: &&Value) -> bool {
    message["role"] == "system" || message["role"] == "developer"
}

fn is_result(message: &Value) -> bool {
    message["role"] == "tool"
}

/// Whether a content has parts that are not text.
fn has_files(content: &Value) -> bool {
    let mut parts = content.as_array().into_iter().flatten();
    parts.any(|part| {
        let kind = part["type"].as_str();
        matches!(kind, Some("image_url" | "file" | "input_audio"))
    })
}

/// Whether a list is a single message, or tool results with at most one message after them.
fn is_alone(messages: &[Value]) -> bool {
    let before = messages.split_last().map_or(messages, |(_, before)| before);
    before.iter().all(is_result)
}

/// The calls whose results are the end of a session: clients repeat them with the rest of the
/// conversation.
fn trailing_results(state: &State) -> BTreeSet<String> {
    let head = state.tree().head(MAIN_BRANCH);
    let path = head.into_iter().flat_map(|head| state.tree().path(head));
    let results = path.take_while(|node| node.role() == Role::Tool);
    let parts = results.flat_map(|node| &node.message.parts);
    let ids = parts.filter_map(|part| match part {
        Part::ToolResult { call_id, .. } => Some(call_id.to_string()),
        _ => None,
    });
    ids.collect()
}

/// Reduces a list to its new tool results with at most one message after them, together with the
/// calls that they answer. `known` results are removed; the `first` messages stay.
fn new_results(mut messages: Vec<Value>, first: usize, known: &BTreeSet<String>) -> Vec<Value> {
    let mut newest = messages.split_off(first);
    if newest.last().is_some_and(|last| !is_result(last)) {
        let is_known = |id: &Value| id.as_str().is_some_and(|id| known.contains(id));
        newest.retain(|said| !is_result(said) || !is_known(&said["tool_call_id"]));
    }
    let results = newest.iter().filter(|message| is_result(message));
    let calls = results.map(|result| {
        json!({"id": result["tool_call_id"], "type": "function",
               "function": {"name": "called", "arguments": "{}"}})
    });
    let calls: Vec<Value> = calls.collect();
    let called = json!({"role": "assistant", "content": null, "tool_calls": calls});
    messages.extend((!calls.is_empty()).then_some(called));
    messages.extend(newest);
    messages
}

/// Removes the tool results at the end of a conversation and returns them.
fn results(import: &mut Import) -> Vec<Part> {
    let mut results = Vec::new();
    let is_result = |last: &mut (_, NewMessage)| last.1.role == Role::Tool;
    while let Some((_, result)) = import.messages.pop_if(is_result) {
        results.push(result.parts);
    }
    results.into_iter().rev().flatten().collect()
}
