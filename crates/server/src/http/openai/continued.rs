//! Finds the new messages of a request in a session.
//!
//! A client tells all it knows of a conversation with each request. That is compared with what the
//! session has, from its first message on; or from a later one on, where the client tells only the
//! end of the conversation. What follows is new: it is appended, and the last of it is asked. A list
//! of one message is new as it stands, and so are results of tools alone.

mod compare;

use std::collections::BTreeSet;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use unisono_api::Code;
use unisono_api::session::NewSession;
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::{MessageId, Ordinal};
use unisono_runtime::Handle;
use unisono_session::State;
use unisono_session::machine::{Import, Preceding};
use unisono_session::state::MAIN;

use super::{Refused, check_attachments};
use crate::http::Shared;
use compare::{Comparable, Compared};
use unisono::ask::Ask;

/// Messages of a session that are looked at together.
const LOOKED_AT: u32 = 256;
/// Messages at the end of a session among which the beginning of a list is looked for.
const END: u32 = 4_096;
/// Places there at which it is tried.
const TRIED: usize = 64;

/// The messages of a request, and the field that holds them.
pub(super) struct List {
    pub(super) messages: Vec<Value>,
    pub(super) field: &'static str,
}

impl List {
    /// The task of a request without a session: earlier messages are the conversation.
    pub(super) fn whole(mut self, shared: &Shared) -> Result<(Import, Ask), Refused> {
        let messages = std::mem::take(&mut self.messages);
        let mut import = self.read(shared, messages)?;
        let ask = self.last(&mut import, false)?;
        Ok((import, ask))
    }

    /// The task of a request in a session, with the other new messages.
    pub(super) async fn new_in(
        mut self,
        shared: &Shared,
        session: &Handle,
    ) -> Result<Ask, Refused> {
        let messages = std::mem::take(&mut self.messages);
        let first = messages.iter().take_while(is_system).count();
        if !is_alone(messages.get(first..).unwrap_or_default()) {
            let mut import = self.read(shared, messages)?;
            let last = import.messages.last().map(|(_, last)| last.role);
            if !matches!(last, Some(Role::User | Role::Tool)) {
                return Err(self.asks_nothing());
            }
            self.check_system(&import, session).await?;
            let preceding = self.anew(&mut import, first, session).await?;
            let ask = self.last(&mut import, false)?;
            let messages = import.messages.into_iter().map(|(_, message)| message);
            return Ok(ask.behind(Preceding {
                messages: messages.collect(),
                ..preceding
            }));
        }
        let known = session.inspect(brought).await?;
        let mut import = self.read(shared, newest(messages, first, &known))?;
        self.check_system(&import, session).await?;
        self.last(&mut import, true)
    }

    fn refused(&self, code: Code, detail: impl Into<String>) -> Refused {
        Refused::field(self.field, code, detail)
    }

    fn read(&self, shared: &Shared, messages: Vec<Value>) -> Result<Import, Refused> {
        let messages = messages.iter().map(to_raw_value).collect::<Result<_, _>>();
        let messages = messages.map_err(|error| self.refused(Code::Refused, error.to_string()))?;
        let new = NewSession {
            messages,
            title: Some("chat completion".to_owned()),
            ..NewSession::default()
        };
        let most = shared.local.setup().loaded.config.server.import_messages;
        let import = unisono::service::sessions::import(new, most);
        let import = import.map_err(|error| Refused(error.into(), Some(self.field)))?;
        check_attachments(shared, &import, self.field)?;
        Ok(import)
    }

    async fn check_system(&self, import: &Import, session: &Handle) -> Result<(), Refused> {
        let own = session.inspect(|state| state.system().clone()).await?;
        if import.system.is_empty() || import.system == own {
            return Ok(());
        }
        let detail = "message 1 is not the system text of the session: leave it out, or continue a \
                      session that was made with it as its `system`";
        Err(self.refused(Code::Conflict, detail))
    }

    /// Leaves of a list what the session does not have, and gives where it begins. `first` messages
    /// came before the list.
    async fn anew(
        &self,
        import: &mut Import,
        first: usize,
        session: &Handle,
    ) -> Result<Preceding, Refused> {
        let branch = session.inspect(Branch::of).await?;
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
            // The turn that it was the input of came to nothing: it is asked once more.
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
        Ok(Preceding {
            head: branch.head,
            messages: Vec::new(),
        })
    }

    /// What is asked: the last message, which is taken out of the conversation, or all the results
    /// it ends with. With `results`, those before a last message are given with it.
    fn last(&self, import: &mut Import, with_results: bool) -> Result<Ask, Refused> {
        let last = import.messages.last().map(|(_, last)| last);
        match last.map(|last| last.role) {
            Some(Role::User) => {
                let last = import.messages.pop();
                let parts = last.map(|(_, last)| last.parts).unwrap_or_default();
                let ask = match parts.iter().any(|part| part.content().is_some()) {
                    true => Ask::from_parts(parts),
                    false => Ask::new(compare::text(&parts)),
                };
                Ok(match with_results {
                    true => ask.after(results(import)),
                    false => ask,
                })
            }
            Some(Role::Tool) => Ok(Ask::go_on(results(import))),
            _ => Err(self.asks_nothing()),
        }
    }

    fn asks_nothing(&self) -> Refused {
        let detail = "the last message must be a user's, which is what is asked, or what a tool \
                      came back with";
        self.refused(Code::InvalidRequest, detail)
    }
}

/// Where a list and a session differ.
struct Mismatch {
    /// How many messages of the list the session has.
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
        format!("{what}. Send the new message alone, or continue another session or none")
    }
}

/// The branch that is continued.
struct Branch {
    head: Option<MessageId>,
    messages: u32,
    is_busy: bool,
}

impl Branch {
    fn of(state: &State) -> Branch {
        let head = state.tree().head(MAIN);
        let newest = head.and_then(|head| state.tree().get(head));
        Branch {
            head,
            messages: newest.map_or(0, |node| node.ordinal().0),
            is_busy: state
                .open_turns()
                .any(|turn| &*turn.accepted.branch == MAIN),
        }
    }

    /// How many messages of a list the branch has, from its first one on: all it has.
    async fn compare(
        &self,
        session: &Handle,
        list: &[Comparable],
    ) -> Result<Result<usize, Mismatch>, Refused> {
        let mut compared = Compared::new(list);
        let mut first = 1;
        while first <= self.messages {
            let last = self.messages.min(first.saturating_add(LOOKED_AT - 1));
            for (ordinal, own) in self.said(session, first, last).await? {
                if !compared.takes(&own) {
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
    async fn end(&self, session: &Handle, list: &[Comparable]) -> Result<Option<usize>, Refused> {
        let first = self.messages.saturating_sub(END - 1).max(1);
        let own = self.said(session, first, self.messages).await?;
        let own: Vec<Comparable> = own.into_iter().map(|(_, own)| own).collect();
        Ok(compare::end(list, &own, TRIED))
    }

    async fn said(
        &self,
        session: &Handle,
        first: u32,
        last: u32,
    ) -> Result<Vec<(Ordinal, Comparable)>, Refused> {
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

/// Whether it is one message, or results with at most one message behind them.
fn is_alone(messages: &[Value]) -> bool {
    let before = messages.split_last().map_or(messages, |(_, before)| before);
    before.iter().all(is_result)
}

/// The calls whose results a session ends with: clients tell them again with all the rest.
fn brought(state: &State) -> BTreeSet<String> {
    let head = state.tree().head(MAIN);
    let path = head.into_iter().flat_map(|head| state.tree().path(head));
    let results = path.take_while(|node| node.role() == Role::Tool);
    let parts = results.flat_map(|node| &node.message.parts);
    let ids = parts.filter_map(|part| match part {
        Part::ToolResult { call_id, .. } => Some(call_id.to_string()),
        _ => None,
    });
    ids.collect()
}

/// Results with at most one message behind them, but those that are `known`; behind calls that they
/// answer. `first` messages come before them, and stay.
fn newest(mut messages: Vec<Value>, first: usize, known: &BTreeSet<String>) -> Vec<Value> {
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

/// The results that a conversation ends with, taken out of it.
fn results(import: &mut Import) -> Vec<Part> {
    let mut results = Vec::new();
    let is_result = |last: &mut (_, NewMessage)| last.1.role == Role::Tool;
    while let Some((_, result)) = import.messages.pop_if(is_result) {
        results.push(result.parts);
    }
    results.into_iter().rev().flatten().collect()
}
