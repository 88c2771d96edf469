//! Messages, branches, and the message tree.

use std::collections::BTreeSet;

use async_trait::async_trait;
use bytes::Bytes;
use unisono_api::blob::{Blob, BlobContent, Extent};
use unisono_api::message::{
    AppendedMessage, Message, MessageQuery, NewMessage, Part, ReportedUsage,
};
use unisono_api::run::RunStep;
use unisono_api::service::{Messages, Result as Answer};
use unisono_api::session::{Branch, BranchSegment, NewBranch, TreeMessage, TreeQuery};
use unisono_api::{Code, Page, PageQuery};
use unisono_context::alteration::Form;
use unisono_context::budget::Budgets;
use unisono_context::checkpoint::Body;
use unisono_context::message::{Message as Said, Part as SaidPart, Role};
use unisono_context::tree::Node;
use unisono_context::view::{MessageStatus, View};
use unisono_context::{MessageId, Ordinal, SessionId};
use unisono_session::agent::ContextMode;
use unisono_session::append::AppendedPosition;
use unisono_session::event::RequestKey;
use unisono_session::state::MAIN;
use unisono_session::{Input, State};

use super::runs;
use super::sessions::branch;
use super::{cursor, id, no_cursor};
use crate::Local;
use crate::append;
use crate::attachments::NewContent;
use crate::context::{counting_budgets, pins};
use crate::error::Error;
use crate::fmt;
use crate::message_tree;
use crate::values;
use crate::view::Inspect as _;

/// Default size of a page, and its maximum.
const PAGE: u32 = 100;
const MAX_PAGE: u32 = 1_000;
/// Maximum bytes of the steps on a page, as JSON. The first message has its steps in any case.
const MAX_STEP_BYTES: usize = 4 << 20;
/// Characters of the preview of a stretch's first message.
const TEXT_CHARS: usize = 80;

/// Adds the steps of the message at this index if the page has room for them; else the page ends
/// before that message. The first message has its steps in any case.
fn add_steps(page: &mut Page<Message>, at: usize, steps: Vec<RunStep>, room: &mut usize) -> bool {
    let bytes = serde_json::to_vec(&steps).map_or(0, |json| json.len());
    if at > 0 && bytes > *room {
        page.next = Some(page.items[at].ordinal.to_string());
        page.items.truncate(at);
        return false;
    }
    *room = room.saturating_sub(bytes);
    page.items[at].steps = steps;
    true
}

#[async_trait]
impl Messages for Local {
    async fn messages(&self, session: &str, query: &MessageQuery) -> Answer<Page<Message>> {
        let session = self.view(id("session", session)?).await?;
        let first = cursor(query.cursor.as_deref())?.unwrap_or(1);
        let limit = query
            .limit
            .map_or(PAGE, |limit| u32::try_from(limit.get()).unwrap_or(MAX_PAGE));
        let limit = if query.steps { limit.min(PAGE) } else { limit };
        let (branch, steps) = (query.branch.clone(), query.steps);
        let look = move |state: &State| {
            let page = read(state, &branch, first, limit)?;
            let locations = page.items.iter().enumerate().filter(|_| steps);
            let locations = locations.filter_map(|(at, message)| {
                let id = message.id.parse().ok()?;
                let location = state.step_location(id).or(state.unanswered_steps(id))?;
                Some((at, location))
            });
            let locations: Vec<_> = locations.collect();
            Some((page, locations))
        };
        let found = session.inspect(look).await.map_err(Error::from)?;
        let (mut page, locations) = found.ok_or_else(|| unknown_branch(&query.branch))?;
        let mut room = MAX_STEP_BYTES;
        for (at, location) in locations {
            let steps = runs::steps_at(self, session.id(), location).await?;
            if !add_steps(&mut page, at, steps, &mut room) {
                break;
            }
        }
        Ok(page)
    }

    async fn append(
        &self,
        session: &str,
        new: &NewMessage,
        key: Option<&str>,
    ) -> Answer<AppendedMessage> {
        let session = id("session", session)?;
        let key = key.map(|name| append::key(name, new)).transpose();
        let key = key.map_err(wrong_message)?;
        let contents: Vec<NewContent<'_>> =
            new.parts.iter().filter_map(NewContent::of_part).collect();
        let is_repeated = !contents.is_empty() && self.has_key(session, key.as_ref()).await?;
        let attachments = match is_repeated {
            // An address may have no content any more.
            true => Vec::new(),
            false => self.attachment_parts(contents).await?,
        };
        let asked = append::message(new, key, attachments);
        let mut asked = asked.map_err(wrong_message)?;
        if asked.message.role == Role::User {
            asked.message.author = self.author_for(asked.message.author.as_ref())?;
        }
        let message = asked.message.id;
        let place = match self.runtime() {
            Ok(_) => {
                let session = self.open(session).await?;
                session.append(asked).await.map_err(Error::from)?
            }
            Err(_) => {
                let key = asked.key.clone();
                self.settle(session, Input::Append(asked)).await?;
                let find =
                    move |state: &State| AppendedPosition::find(state, message, key.as_ref());
                let view = self.view(session).await?;
                view.inspect(find).await.map_err(Error::from)?
            }
        };
        let state = match place.ordinal {
            Some(_) => "appended",
            None => "waiting",
        };
        Ok(AppendedMessage {
            session: session.to_string(),
            branch: new.branch.clone(),
            message: place.message.to_string(),
            state: state.to_owned(),
            ordinal: place.ordinal.map(|ordinal| ordinal.0),
            repeated: place.message != message,
        })
    }

    async fn put_blob(&self, bytes: Vec<u8>, mime: Option<&str>) -> Answer<Blob> {
        Ok(self.upload(bytes, mime).await?)
    }

    async fn blob(&self, digest: &str) -> Answer<BlobContent> {
        let (kind, bytes) = self.content(digest).await?;
        Ok(BlobContent {
            mime: kind.mime().to_owned(),
            bytes: Bytes::from_owner(bytes),
        })
    }

    async fn branches(&self, session: &str, query: &PageQuery) -> Answer<Page<Branch>> {
        let session = self.view(id("session", session)?).await?;
        let (after, limit) = (query.cursor.clone(), Page::<()>::size(query.limit));
        let look = move |state: &State| {
            let tree = state.tree();
            if let Some(after) = &after {
                // A branch is never removed.
                tree.head(after)?;
            }
            let all = tree.branches();
            let left = all.filter(|(name, _)| after.as_deref().is_none_or(|after| *name > after));
            let left = left.map(|(name, head)| branch(state, name, head));
            Some(Page::first(left, limit, |last| last.name.clone()))
        };
        let found = session.inspect(look).await.map_err(Error::from)?;
        Ok(found.ok_or_else(|| no_place(query.cursor.as_deref()))?)
    }

    async fn fork(&self, session: &str, new: &NewBranch) -> Answer<Branch> {
        let session = self.view(id("session", session)?).await?;
        let at = match new.at.strip_prefix('#').map(str::parse) {
            Some(Ok(ordinal)) => {
                let from = new.from.clone();
                let look = move |state: &State| message_at(state, &from, ordinal);
                session.inspect(look).await.map_err(Error::from)??
            }
            Some(Err(_)) => {
                let detail = format!("{:?} is not #n", new.at);
                return Err(Error::new(Code::InvalidRequest, detail).into());
            }
            None => id("message", &new.at)?,
        };
        let name = new.name.clone();
        let input = Input::Fork {
            branch: name.as_str().into(),
            at,
        };
        self.apply_input(&session, input).await?;
        let session = self.view(session.id()).await?;
        let look = move |state: &State| branch(state, &name, at);
        Ok(session.inspect(look).await.map_err(Error::from)?)
    }

    async fn tree(&self, session: &str, query: &TreeQuery) -> Answer<Page<BranchSegment>> {
        let session = self.view(id("session", session)?).await?;
        let after = cursor::<MessageId>(query.cursor.as_deref())?;
        let (limit, full) = (Page::<()>::size(query.limit), query.full);
        let look = move |state: &State| {
            let stretches = message_tree::stretches(state.tree(), full);
            let before = match after {
                None => 0,
                Some(after) => 1 + stretches.iter().position(|one| one.first.id == after)?,
            };
            let left = stretches.into_iter().skip(before).map(stretch);
            Some(Page::first(left, limit, |last| last.first.clone()))
        };
        let found = session.inspect(look).await.map_err(Error::from)?;
        Ok(found.ok_or_else(|| no_place(query.cursor.as_deref()))?)
    }

    async fn tree_messages(&self, session: &str, query: &PageQuery) -> Answer<Page<TreeMessage>> {
        let session = self.view(id("session", session)?).await?;
        let after = cursor::<MessageId>(query.cursor.as_deref())?;
        let limit = Page::<()>::size(query.limit);
        let look = move |state: &State| {
            let all = || state.tree().iter();
            let before = match after {
                None => 0,
                Some(after) => 1 + all().position(|node| node.message.id == after)?,
            };
            let left = all().skip(before).map(tree_message);
            Some(Page::first(left, limit, |last| last.id.clone()))
        };
        let found = session.inspect(look).await.map_err(Error::from)?;
        Ok(found.ok_or_else(|| no_place(query.cursor.as_deref()))?)
    }
}

impl Local {
    async fn has_key(&self, session: SessionId, key: Option<&RequestKey>) -> Result<bool, Error> {
        let Some(key) = key else {
            return Ok(false);
        };
        let (session, name) = (self.view(session).await?, key.name.clone());
        let look = move |state: &State| state.key_target(&name).is_some();
        Ok(session.inspect(look).await?)
    }
}

/// The error for a cursor that does not belong to the list.
fn no_place(cursor: Option<&str>) -> Error {
    no_cursor(cursor.unwrap_or_default())
}

fn tree_message(node: &Node) -> TreeMessage {
    let said = &node.message;
    TreeMessage {
        id: said.id.to_string(),
        parent: said.parent.map(|id| id.to_string()),
        ordinal: said.ordinal.0,
        role: said.role.name().to_owned(),
        author: said.author.as_ref().map(ToString::to_string),
        at: values::known_instant(said.at),
        text: said.countable_text(),
    }
}

fn wrong_message(error: append::Error) -> Error {
    let code = match error {
        // Each field is valid; together they are not a valid message.
        append::Error::Both | append::Error::Arguments(_) => Code::Refused,
        _ => Code::InvalidRequest,
    };
    Error::new(code, error.to_string())
}

pub(super) fn unknown_branch(branch: &str) -> Error {
    Error::new(Code::NotFound, format!("there is no branch {branch:?}"))
}

/// The messages of a branch from one on; none if the branch does not exist.
fn read(state: &State, branch: &str, first: u32, limit: u32) -> Option<Page<Message>> {
    let none = Page {
        items: Vec::new(),
        next: None,
    };
    let Some(head) = state.tree().head(branch) else {
        // A session without messages nevertheless has its first branch.
        let empty = state.tree().is_empty() && branch == MAIN;
        return empty.then_some(none);
    };
    let view = state.view(head, false)?;
    let first = first.max(1);
    let limit = limit.clamp(1, MAX_PAGE);
    let last = first.saturating_add(limit - 1).min(view.len().0);
    if first > last {
        return Some(none);
    }
    let nodes = state.tree().range(head, Ordinal(first)..=Ordinal(last));
    let pinned = pins::pinned(state, head).into_iter();
    let pinned: BTreeSet<MessageId> = pinned.map(|message| message.id).collect();
    let budgets = session_budgets(state);
    let each = nodes.into_iter().map(|node| Message {
        pinned: pinned.contains(&node.message.id),
        run: state
            .step_location(node.message.id)
            .map(|steps| steps.run.to_string()),
        ..message(&view, node, budgets.as_ref())
    });
    Some(Page {
        items: each.collect(),
        next: (last < view.len().0).then(|| (last + 1).to_string()),
    })
}

/// The budgets of the agents that got contexts of the session; none before its first turn.
fn session_budgets(state: &State) -> Option<Budgets> {
    let agents = state.definitions().map(|(_, agent)| agent);
    counting_budgets(agents.filter(|agent| agent.context == ContextMode::Snapshot))
}

fn message(view: &View<'_>, node: &Node, budgets: Option<&Budgets>) -> Message {
    let said: &Said = &node.message;
    let counted = node.counts.iter().next().map(|(encoding, largest)| {
        let mut each = budgets.into_iter().flat_map(Budgets::iter);
        let budget = each.find(|budget| budget.encoding == encoding);
        budget.and_then(|by| node.count(by)).unwrap_or(largest)
    });
    Message {
        id: said.id.to_string(),
        parent: said.parent.map(|id| id.to_string()),
        ordinal: said.ordinal.0,
        role: said.role.name().to_owned(),
        author: said.author.as_ref().map(ToString::to_string),
        at: values::known_instant(said.at),
        parts: said.parts.iter().map(part).collect(),
        tokens: counted.map(|count| count.tokens.0),
        usage: said.usage.map(|usage| ReportedUsage {
            input_tokens: usage.input.0,
            output_tokens: usage.output.0,
        }),
        form: form(view, node).to_owned(),
        pinned: false,
        run: None,
        steps: Vec::new(),
    }
}

fn part(part: &SaidPart) -> Part {
    match part {
        SaidPart::Text(text) => Part::Text {
            text: text.to_string(),
        },
        SaidPart::ToolCall {
            id,
            name,
            arguments,
        } => Part::ToolCall {
            id: id.to_string(),
            name: name.to_string(),
            arguments: arguments.to_string(),
        },
        SaidPart::ToolResult {
            call_id,
            content,
            is_error,
        } => Part::ToolResult {
            call_id: call_id.to_string(),
            content: content.to_string(),
            is_error: *is_error,
        },
        SaidPart::Attachment {
            filename,
            mime,
            size_bytes,
            content,
        } => Part::Attachment {
            filename: filename.to_string(),
            mime: mime.to_string(),
            size_bytes: *size_bytes,
            digest: content.as_ref().map(|content| content.digest.to_string()),
            url: None,
            data: None,
            extent: content
                .as_ref()
                .map_or_else(Extent::default, |content| values::extent(content.extent)),
        },
    }
}

fn form(view: &View<'_>, node: &Node) -> &'static str {
    match view.status(node.ordinal()) {
        Some(MessageStatus::Covered(checkpoint)) => match checkpoint.body {
            Body::Summary(_) => "summarised",
            Body::Tombstone => "dropped",
        },
        Some(MessageStatus::Shortened(Form::Masked { .. })) => "masked",
        Some(MessageStatus::Shortened(Form::Cut { .. } | Form::Truncated { .. })) => "cut",
        Some(MessageStatus::Verbatim) | None => "verbatim",
    }
}

fn stretch(of: message_tree::BranchSegment) -> BranchSegment {
    BranchSegment {
        depth: u32::try_from(of.depth).unwrap_or(u32::MAX),
        parent: of.first.parent.map(|id| id.to_string()),
        first: of.first.id.to_string(),
        last: of.last.id.to_string(),
        first_ordinal: of.first.ordinal.0,
        last_ordinal: of.last.ordinal.0,
        messages: of.messages as u64,
        role: of.first.role.name().to_owned(),
        text: fmt::line(&of.first.countable_text(), TEXT_CHARS),
        branches: of.heads,
    }
}

pub(super) fn message_at(state: &State, branch: &str, ordinal: u32) -> Result<MessageId, Error> {
    let ordinal = Ordinal(ordinal);
    let head = state.tree().head(branch);
    let head = head.ok_or_else(|| unknown_branch(branch))?;
    let node = state.tree().node_at(head, ordinal);
    let missing = || Error::not_found("message", format!("{ordinal} on branch {branch:?}"));
    node.map(|node| node.message.id).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(ordinal: u32) -> Message {
        let json = json!({
            "id": "", "parent": null, "ordinal": ordinal, "role": "assistant", "author": null,
            "at": null, "parts": [], "tokens": null, "form": "verbatim",
        });
        serde_json::from_value(json).unwrap()
    }

    fn steps(bytes: usize) -> Vec<RunStep> {
        let json = json!({
            "event": 1, "at": "", "kind": "named", "name": "", "result": "x".repeat(bytes),
        });
        vec![serde_json::from_value(json).unwrap()]
    }

    #[test]
    fn a_page_ends_before_the_steps_for_which_it_has_no_room() {
        for (sizes, room, kept) in [
            ([10, 10, 10], 1_000, 3),
            ([400, 400, 400], 1_000, 2),
            ([4_000, 10, 10], 1_000, 1),
            ([10, 4_000, 10], 1_000, 1),
        ] {
            let messages = (1..=3).map(message).collect();
            let mut page = Page {
                items: messages,
                next: Some("4".to_owned()),
            };
            let mut room = room;
            for (at, bytes) in sizes.into_iter().enumerate() {
                if !add_steps(&mut page, at, steps(bytes), &mut room) {
                    break;
                }
            }
            assert_eq!(page.items.len(), kept, "{sizes:?}");
            assert!(page.items.iter().all(|message| !message.steps.is_empty()));
            assert_eq!(page.next, Some((kept + 1).to_string()), "{sizes:?}");
        }
    }
}
