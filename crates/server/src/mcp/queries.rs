//! Tools that look: messages of a session, a search over all, the list of sessions.

use std::num::NonZeroUsize;
use std::sync::Arc;

use serde_json::{Value, json};
use unisono::context::tip;
use unisono::values;
use unisono::view::{Inspect as _, View};
use unisono_api::service::Sessions as _;
use unisono_api::session::SessionQuery;
use unisono_context::{Message, MessageId, Ordinal};
use unisono_runtime::{Handle, clock};
use unisono_search::{Branch, Query, excerpt};

use super::tools::{ListArgs, RecallArgs, SearchArgs};
use super::turns::{open_session, value};
use super::{AnswerResult, Outcome};
use unisono::Local;
use unisono::service::sessions as listing;

/// Default and maximum number of search results in a session, and the maximum number of messages
/// that are read by number.
const FOUND: usize = 8;
const MAX_FOUND: usize = 20;
const MAX_MESSAGES: u32 = 50;
/// Default and maximum number of search results over all sessions.
const RESULTS: usize = 10;
const MAX_RESULTS: usize = 50;
/// Default and maximum number of sessions of a list.
const PAGE: usize = 50;
const MAX_PAGE: usize = 200;
/// Characters of an excerpt.
const EXCERPT_CHARS: usize = 600;

/// A branch with its head and the number of its last message; none if it is empty.
async fn branch_head(
    session: &Handle,
    branch: &str,
) -> Result<Option<(Branch, MessageId, Ordinal)>, String> {
    let (id, name) = (session.id(), branch.to_owned());
    let look = move |state: &unisono_session::State| {
        let head = tip(state, &name)?;
        Some(head.and_then(|head| {
            let last = state.tree().get(head)?.message.ordinal;
            Some((Branch::new(id, state.tree(), head), head, last))
        }))
    };
    let found = session.inspect(look).await.map_err(|e| e.to_string())?;
    found.ok_or_else(|| format!("there is no branch {branch:?}"))
}

pub(super) async fn recall(local: &Local, wanted: RecallArgs) -> AnswerResult {
    let session = open_session(local, &wanted.session).await?;
    let id = session.id();
    let place = branch_head(&session, &wanted.branch).await?;
    let Some((branch, head, last)) = place else {
        let none = json!({"session": id.to_string(), "messages": []});
        return Ok(Outcome::search_answer("there are no messages yet", none));
    };
    let limit = wanted.limit.unwrap_or(FOUND).clamp(1, MAX_FOUND);
    let (ordinals, stems) = match (&wanted.query, wanted.from, wanted.to) {
        (Some(query), None, None) => {
            let search = local.search();
            let found = search
                .recall(&branch, query, limit)
                .await
                .map_err(|e| e.to_string())?;
            (found.messages, Some(found.stems))
        }
        (None, Some(from), to) => {
            let to = to.unwrap_or(from).min(last.0);
            if from == 0 || from > to || to - from >= MAX_MESSAGES {
                return Err(format!(
                    "`from` and `to` are numbers of messages from 1 to {}, at most {MAX_MESSAGES} of them",
                    last.0
                ));
            }
            ((from..=to).map(Ordinal).collect(), None)
        }
        _ => return Err("give either `query`, or `from` and `to`".to_owned()),
    };
    let read = move |state: &unisono_session::State| -> Vec<std::sync::Arc<Message>> {
        let nodes = ordinals
            .iter()
            .filter_map(|ordinal| state.tree().node_at(head, *ordinal));
        nodes.map(|node| node.message.clone()).collect()
    };
    let messages = session.inspect(read).await.map_err(|e| e.to_string())?;
    let mut text = String::new();
    let mut structured = Vec::new();
    for message in messages {
        let whole = message.countable_text();
        let shown = match &stems {
            Some(stems) => excerpt(&whole, stems, EXCERPT_CHARS).text,
            None => whole,
        };
        text += &format!("[{}] {shown}\n\n", said_by(&message));
        let mut one = described(&message);
        one["text"] = shown.into();
        structured.push(one);
    }
    if structured.is_empty() {
        text = "nothing found; try other words".to_owned();
    }
    Ok(Outcome::search_answer(
        &text,
        json!({"session": id.to_string(), "messages": structured}),
    ))
}

/// The number, author and time of a message, for people.
fn said_by(message: &Message) -> String {
    let author = message.author.as_ref().map(|author| format!(" {author}"));
    let at = values::known_instant(message.at);
    let day = at.and_then(|at| Some(format!(" {}", at.split_once('T')?.0)));
    let (ordinal, role) = (message.ordinal, message.role.name());
    let (author, day) = (author.unwrap_or_default(), day.unwrap_or_default());
    format!("{ordinal} {role}{author}{day}")
}

/// The same for programs.
fn described(message: &Message) -> Value {
    json!({
        "ordinal": message.ordinal.0, "role": message.role.name(),
        "author": message.author.as_ref().map(ToString::to_string),
        "at": values::known_instant(message.at),
    })
}

pub(super) async fn search(local: &Local, wanted: SearchArgs) -> AnswerResult {
    let query = Query::parse(&wanted.query, clock::now()).map_err(|e| e.to_string())?;
    if query.is_empty() {
        let notes = query.notes.join("; ");
        return Err(
            format!("there is nothing to search for: write a word. {notes}")
                .trim_end()
                .to_owned(),
        );
    }
    let limit = wanted.limit.unwrap_or(RESULTS).clamp(1, MAX_RESULTS);
    let only = match query.session.as_deref() {
        Some(name) => vec![
            listing::find_only(local, name)
                .await
                .map_err(|e| e.to_string())?,
        ],
        None => Vec::new(),
    };
    let search = local.search();
    let answer = search
        .find(&query, &only, limit)
        .await
        .map_err(|e| e.to_string())?;
    let stems = query.stems();
    let mut text = String::new();
    let mut structured = Vec::new();
    for found in answer.found {
        let session = local.view_listed(found.session).await;
        let Some(session) = session.map_err(|e| e.to_string())? else {
            continue;
        };
        let Some((title, message)) = titled(&session, found.message).await? else {
            continue;
        };
        let part = excerpt(&message.countable_text(), &stems, EXCERPT_CHARS).text;
        let (session, said) = (found.session.to_string(), said_by(&message));
        text += &format!("[session {session} {said}, {title}] {part}\n\n");
        let mut one = described(&message);
        one["session"] = session.into();
        one["title"] = title.into();
        one["score"] = found.score.into();
        one["excerpt"] = part.into();
        structured.push(one);
    }
    if structured.is_empty() {
        text = "nothing found; try other words".to_owned();
    }
    for note in &query.notes {
        text = format!("{}\n\n({note})", text.trim_end());
    }
    Ok(Outcome::search_answer(
        &text,
        json!({
            "found": structured, "complete": answer.complete, "notes": query.notes,
        }),
    ))
}

/// A message of a session, and the session's title.
async fn titled(session: &View, id: MessageId) -> Result<Option<(String, Arc<Message>)>, String> {
    let look = move |state: &unisono_session::State| {
        let message = state.tree().get(id)?.message.clone();
        Some((state.title().to_owned(), message))
    };
    session.inspect(look).await.map_err(|e| e.to_string())
}

pub(super) async fn sessions(local: &Local, wanted: ListArgs) -> AnswerResult {
    let limit = wanted.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE);
    let query = SessionQuery {
        label: wanted.label,
        cursor: wanted.cursor,
        limit: NonZeroUsize::new(limit),
        ..SessionQuery::default()
    };
    let found = local.sessions(&query).await.map_err(|e| e.to_string())?;
    let mut text = String::new();
    let mut all = Vec::new();
    for listed in found.items {
        text += &format!(
            "{}  {}  {}\n",
            listed.session, listed.updated_at, listed.title
        );
        all.push(value(&listed)?);
    }
    if all.is_empty() {
        text = "there are no sessions".to_owned();
    }
    Ok(Outcome::search_answer(
        &text,
        json!({"sessions": all, "next": found.next}),
    ))
}
