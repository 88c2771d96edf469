//! The work of a coding agent on its prompt, derived from its messages.

use std::collections::HashMap;

use serde_json::Value;
use unisono_session::agent::{Acp, ToolKind};
use unisono_session::machine::NewCall;
use unisono_session::run::{ToolResult, calls};

use super::open_calls::OpenCalls;
use super::protocol::{
    self, CallUpdate, Choice, Content, Message, Permission, PlanEntry, SessionUpdate, Update, Usage,
};
use super::report::{self, EndedCall, Report};
use crate::kinds::command::MAX_OUTPUT_BYTES;
use crate::tools::fields_of;

/// The maximum number of journaled tool calls, and of requests for permission; further ones are
/// rejected.
pub(super) const JOURNALED: u32 = 500;
/// The maximum number of tracked tool calls.
const TRACKED: usize = 2_000;
/// The maximum number of bytes of the id of a tracked call.
const ID_BYTES: usize = 1_000;
/// The maximum number of characters of a title.
const TITLE_CHARS: usize = 200;
/// The number of bytes of text between two progress reports.
const PROGRESS_EVERY: usize = 1_000;

/// A request for permission. The session answers it like the approval of a tool call.
#[derive(Debug, PartialEq)]
pub(super) struct PermissionRequest {
    /// Its number in this turn, from 1.
    pub(super) number: u32,
    pub(super) call: NewCall,
    id: Value,
    title: String,
    options: Vec<Choice>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    Progress(String),
    /// Journal the tool call with this number, which has ended.
    Called(u32, EndedCall),
    /// Ask for permission, then send the response.
    Ask(Box<PermissionRequest>),
    /// Withdraw the request for permission with this number.
    Withdraw(u32),
    Count(Usage),
    Reply(Value),
}

/// A request for permission without a response.
#[derive(Debug)]
struct WaitingRequest {
    id: Value,
    number: u32,
    is_withdrawn: bool,
}

/// A prompt in progress.
#[derive(Debug, Default)]
pub(super) struct Turn {
    session: String,
    allow: Vec<ToolKind>,
    deny: Vec<ToolKind>,
    text: String,
    /// The start of the text after the last tool call.
    last: usize,
    /// The message id of the current text.
    message: Option<String>,
    is_broken: bool,
    calls: HashMap<String, EndedCall>,
    open: OpenCalls,
    report: Report,
    has_acted: bool,
    ended: u32,
    asked: u32,
    waiting: Vec<WaitingRequest>,
    rejected: Option<String>,
}

impl Turn {
    pub(super) fn new(session: String, acp: &Acp) -> Turn {
        Turn {
            session,
            allow: acp.allow.clone(),
            deny: acp.deny.clone(),
            ..Turn::default()
        }
    }

    /// The text after the last tool call, or the whole text if there is none after it.
    pub(super) fn answer(&self) -> &str {
        match self.last_text() {
            "" => self.text.trim(),
            last => last,
        }
    }

    /// Whether there is a text after the last tool call.
    pub(super) fn has_answer(&self) -> bool {
        !self.last_text().is_empty()
    }

    fn last_text(&self) -> &str {
        self.text.get(self.last..).unwrap_or_default().trim()
    }

    /// The reports besides the answer and the ended calls.
    pub(super) fn report(&self) -> Report {
        let all = self.text.trim();
        let before = match self.answer() {
            answer if answer == all => "",
            _ => self.text.get(..self.last).unwrap_or_default(),
        };
        let calls = self.calls.values();
        self.report
            .ended(before, calls.filter(|call| !is_over(&call.status)))
    }

    /// Whether the agent has begun a tool call, or got a permission.
    pub(super) fn has_acted(&self) -> bool {
        self.has_acted
    }

    /// The first call for which it did not get permission, with its kind and the reason.
    pub(super) fn rejected(&self) -> Option<&str> {
        self.rejected.as_deref()
    }

    /// Handles a message that is not a response.
    ///
    /// # Errors
    /// The message is invalid.
    pub(super) fn take(&mut self, message: Message) -> Result<Vec<Effect>, String> {
        let method = message.method.unwrap_or_default();
        match (&*method, message.id) {
            ("session/update", None) => {
                let update: SessionUpdate =
                    serde_json::from_value(message.params).map_err(|error| garbled(&error))?;
                match update.session_id == self.session {
                    true => self.update(update.update),
                    false => Ok(Vec::new()),
                }
            }
            (protocol::PERMISSION, Some(id)) => Ok(self.permission(&id, message.params)),
            (protocol::CANCEL_REQUEST, None) => Ok(self.withdraw(&message.params["requestId"])),
            (_, Some(id)) => Ok(vec![Effect::Reply(protocol::unknown(&id, &method))]),
            (_, None) => Ok(Vec::new()),
        }
    }

    fn update(&mut self, update: Value) -> Result<Vec<Effect>, String> {
        let is_message = update["sessionUpdate"] == protocol::MESSAGE;
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        // Thoughts, usage and plans change nothing.
        let is_act = !["agent_thought_chunk", "usage_update", "plan"].contains(&kind);
        let update: Update = match serde_json::from_value(update) {
            Ok(update) => update,
            Err(error) if is_message => return Err(garbled(&error)),
            Err(error) => {
                tracing::debug!(%error, "a coding agent sent an update that cannot be read");
                self.has_acted |= is_act;
                return Ok(Vec::new());
            }
        };
        match update {
            Update::AgentMessageChunk {
                content,
                message_id,
            } => self.message(content, message_id),
            Update::Call(call) => {
                self.begin_call();
                Ok(self.call(call))
            }
            Update::CallChange(call) => {
                if self.is_new(&call.tool_call_id) {
                    self.begin_call();
                }
                Ok(self.call(call))
            }
            Update::Plan { entries } => {
                let progress = plan(&entries);
                self.report.set_plan(entries);
                Ok(vec![Effect::Progress(progress)])
            }
            Update::AgentThoughtChunk {
                content: Content::Text { text },
            } => {
                self.report.add_thought(&text);
                Ok(Vec::new())
            }
            Update::Usage(usage) => {
                self.report.set_usage(usage.clone());
                Ok(vec![Effect::Count(usage)])
            }
            Update::AgentThoughtChunk { .. } | Update::Unknown => Ok(Vec::new()),
        }
    }

    /// Adds a part of a message. A file is a paragraph of its own.
    fn message(
        &mut self,
        content: Content,
        message: Option<String>,
    ) -> Result<Vec<Effect>, String> {
        let is_in_text = matches!(content, Content::Text { .. } | Content::ResourceLink { .. });
        let Some(text) = report::text_of(content) else {
            return Ok(Vec::new());
        };
        self.is_broken |= !is_in_text;
        let effects = self.add_text(&text, message);
        self.is_broken |= !is_in_text;
        effects
    }

    fn add_text(&mut self, text: &str, message: Option<String>) -> Result<Vec<Effect>, String> {
        let before = self.text.len();
        // A text without an id, such as a warning, is not a part of a message with one.
        let is_other = message.is_some() && message != self.message;
        if (self.is_broken || is_other) && !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.is_broken = false;
        self.message = message.or(self.message.take());
        self.text.push_str(text);
        if self.text.len() > MAX_OUTPUT_BYTES {
            return Err(format!("said more than {MAX_OUTPUT_BYTES} bytes"));
        }
        let after = self.text.len();
        Ok(match before / PROGRESS_EVERY == after / PROGRESS_EVERY {
            true => Vec::new(),
            false => vec![Effect::Progress(format!(
                "answering, {} KB so far",
                after.div_ceil(1_000)
            ))],
        })
    }

    /// Ends the text before a call.
    fn begin_call(&mut self) {
        self.last = self.text.len();
        self.is_broken = true;
    }

    /// Whether a call begins with this message, and is tracked. Some agents report a call only when
    /// they ask for permission, or when it has ended.
    fn is_new(&self, id: &str) -> bool {
        let has_room = self.calls.len() < TRACKED && id.len() <= ID_BYTES;
        has_room && !self.calls.contains_key(id)
    }

    fn call(&mut self, update: CallUpdate) -> Vec<Effect> {
        self.has_acted = true;
        let id = update.tool_call_id.clone();
        match self.calls.get(&id) {
            Some(known) if is_over(&known.status) => return Vec::new(),
            None if !self.is_new(&id) => return Vec::new(),
            _ => self.open.note(&update),
        }
        let call = self
            .calls
            .entry(update.tool_call_id)
            .or_insert_with(|| EndedCall {
                title: "a tool".to_owned(),
                kind: ToolKind::Other.name().to_owned(),
                status: "pending".to_owned(),
                ..EndedCall::default()
            });
        if let Some(raw) = &update.raw_input {
            call.input = report::input(raw);
        }
        if let Some(locations) = &update.locations {
            call.locations = report::locations(locations);
        }
        if let Some(content) = &update.content {
            call.diffs = report::diffs(content);
            call.output = report::output(content);
        }
        if let Some(raw) = update.raw_output.filter(|_| call.output.is_empty()) {
            call.output = report::input(&raw);
        }
        let before = (call.title.clone(), call.kind.clone(), call.status.clone());
        if let Some(title) = update.title {
            call.title = title.chars().take(TITLE_CHARS).collect();
        }
        if let Some(kind) = update.kind {
            call.kind = protocol::kind(&kind).name().to_owned();
        }
        if let Some(status) = update.status {
            call.status = status.chars().take(TITLE_CHARS).collect();
        }
        if (&call.title, &call.kind, &call.status) == (&before.0, &before.1, &before.2) {
            return Vec::new();
        }
        let call = call.clone();
        let text = format!("{} ({}): {}", call.title, call.kind, call.status);
        let mut effects = vec![Effect::Progress(text)];
        if is_over(&call.status) {
            self.open.end(&id);
            if self.ended < JOURNALED {
                self.ended += 1;
                effects.push(Effect::Called(self.ended, call));
            }
        }
        effects
    }

    fn permission(&mut self, id: &Value, params: Value) -> Vec<Effect> {
        let permission: Permission = match serde_json::from_value(params) {
            Ok(permission) => permission,
            Err(error) => {
                let reply = protocol::unreadable(id, &error.to_string());
                return vec![Effect::Reply(reply)];
            }
        };
        let (call, options) = (permission.tool_call, permission.options);
        if self.is_new(&call.tool_call_id) {
            self.begin_call();
        }
        let known = self.calls.get(&call.tool_call_id);
        let kind = match (&call.kind, known) {
            (Some(kind), _) => protocol::kind(kind),
            (None, Some(known)) => protocol::kind(&known.kind),
            (None, None) => ToolKind::Other,
        };
        let title = call.title.as_deref().or(known.map(|known| &*known.title));
        let title = report::beginning(title.unwrap_or("a tool"), TITLE_CHARS);
        if self.asked >= JOURNALED {
            let text = format!("rejected, because the limit of requests is reached: {title}");
            let rejected = choose(&options, false).map(|option| &*option.option_id);
            return vec![
                Effect::Progress(text),
                Effect::Reply(protocol::chosen(id, rejected)),
            ];
        }
        let seen = self.open.with(&call);
        let is_forgotten = seen.is_forgotten;
        let arguments = seen.arguments(&title);
        let new = NewCall {
            call_id: report::beginning(&call.tool_call_id, ID_BYTES).into(),
            tool: kind.name().into(),
            fields: fields_of(&arguments),
            arguments: report::bounded(arguments).to_string().into(),
            permission: Some(match kind {
                // Rules that have to see all of it cannot.
                _ if is_forgotten => calls::Permission::Denied,
                kind if self.deny.contains(&kind) => calls::Permission::Denied,
                kind if self.allow.contains(&kind) => calls::Permission::Allowed,
                _ => calls::Permission::Unlisted,
            }),
        };
        self.asked += 1;
        self.has_acted = true;
        self.waiting.push(WaitingRequest {
            id: id.clone(),
            number: self.asked,
            is_withdrawn: false,
        });
        let request = PermissionRequest {
            number: self.asked,
            call: new,
            id: id.clone(),
            title,
            options,
        };
        vec![Effect::Ask(Box::new(request))]
    }

    /// Withdraws a request for permission of the agent. It gets its response when the session has
    /// ended the call: a decision that came before counts.
    fn withdraw(&mut self, id: &Value) -> Vec<Effect> {
        let mut waiting = self.waiting.iter_mut();
        let withdrawn = waiting.find(|one| one.id == *id && !one.is_withdrawn);
        let withdrawn = withdrawn.map(|one| {
            one.is_withdrawn = true;
            Effect::Withdraw(one.number)
        });
        withdrawn.into_iter().collect()
    }

    pub(super) fn decided(
        &mut self,
        request: &PermissionRequest,
        answer: &ToolResult,
    ) -> (String, Value) {
        let PermissionRequest {
            id, title, options, ..
        } = request;
        let kind = &request.call.tool;
        let place = |one: &WaitingRequest| one.number == request.number;
        let place = self.waiting.iter().position(place);
        let is_withdrawn = place.is_some_and(|place| self.waiting.remove(place).is_withdrawn);
        if is_withdrawn && answer.is_error {
            let progress = format!("{title} ({kind}): withdrawn");
            return (progress, protocol::withdrawn(id));
        }
        let option = choose(options, !answer.is_error);
        let decision = option.map_or("cancelled", |option| &*option.kind);
        if !decision.starts_with("allow") {
            let why = match answer.is_error {
                true => answer.content.trim_matches(['[', ']']),
                false => "it offers no option that allows it once",
            };
            self.rejected
                .get_or_insert_with(|| format!("`{title}` ({kind}): {why}"));
        }
        let reply = protocol::chosen(id, option.map(|option| &*option.option_id));
        (format!("{title} ({kind}): {decision}"), reply)
    }

    /// Cancels the requests for permission without an answer.
    pub(super) fn cancel(&mut self) -> Vec<Value> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        waiting.map(|one| protocol::chosen(&one.id, None)).collect()
    }
}

fn garbled(error: &serde_json::Error) -> String {
    format!("sent an invalid update: {error}")
}

fn is_over(status: &str) -> bool {
    matches!(status, "completed" | "failed")
}

/// The option that allows a call, or rejects it, preferably this call only. An option that allows
/// later calls, too, is never chosen: the agent may remember it for good.
fn choose(options: &[Choice], is_allowed: bool) -> Option<&Choice> {
    let find = |kind: &str| options.iter().find(|option| option.kind == kind);
    let rejects = || find("reject_once").or_else(|| find("reject_always"));
    match is_allowed {
        true => find("allow_once").or_else(rejects),
        false => rejects(),
    }
}

fn plan(entries: &[PlanEntry]) -> String {
    let done = |entry: &&PlanEntry| entry.status == "completed";
    let done = entries.iter().filter(done).count();
    let now = entries.iter().find(|entry| entry.status == "in_progress");
    let now: String = now.map_or_else(String::new, |entry| {
        let content: String = entry.content.chars().take(TITLE_CHARS).collect();
        format!(": {content}")
    });
    format!("plan, {done} of {} done{now}", entries.len())
}

#[cfg(test)]
mod tests;
