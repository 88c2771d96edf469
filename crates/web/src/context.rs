//! `/sessions/{session}/context`: the context of a branch, by section.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use unisono_api::context::{ContextMessage, Summary, Tool};
use unisono_api::fmt;
use unisono_api::service::Service;

use crate::branch_view::{BranchView, MessagesQuery};
use crate::error::PageError;
use crate::extract::{Path, Query};
use crate::layout::layout;
use crate::lists::first_of_branch;
use crate::message::continuation;
use crate::parts::{counted, digest, encoded, name, number};
use crate::pictures::context::{Places, bar};
use crate::pictures::history::columns;
use crate::text_limit::TextLimit;

/// Maximum turns whose sizes are drawn, newest first.
const TURNS: Option<NonZeroUsize> = NonZeroUsize::new(100);
/// Messages per page.
const MESSAGES: usize = 50;
/// Bytes of texts that are shown as a whole: the newest messages first, then the rest of the context.
const ROOM: usize = 24 * 1024;
/// Maximum shown tools and summaries.
const TOOLS: usize = 100;
const SUMMARIES: usize = 60;

pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(which): Query<MessagesQuery>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &which.branch).await?;
    let context = place.context(&*service).await?;
    let sizes = match place.length {
        0 => Vec::new(),
        _ => {
            service
                .context_history(&id, &first_of_branch(&which.branch, TURNS))
                .await?
                .items
        }
    };
    let body = place.page(&html! {
        h2 { "Context" }
        @match &context {
            None => p class="quiet" { "There are no messages yet." },
            Some(Err(wrong)) => p class="trouble" { (wrong) },
            Some(Ok(context)) => {
                (bar(context, &Places {
                    message: Box::new(|number| place.message(number).unwrap_or_default()),
                    checkpoint: Box::new(|number| place.path(&format!("/checkpoints/{number}"))),
                }))
                p { "Snapshot " (digest(&context.snapshot)) ", counted with " (context.encoding) }
                @if !sizes.is_empty() { section { h2 { "Over the turns" } (columns(&sizes, &place)) } }
                (ContextView {
                    system: &context.system,
                    tools: &context.tools,
                    summaries: &context.summaries,
                    messages: &context.messages,
                    from: which.from,
                    at: &place.path("/context"),
                    whole: &|ordinal| place.path(&format!("/messages/{ordinal}")),
                    json: &format!("/v1/sessions/{id}/context?branch={}", encoded(&which.branch)),
                }.sections())
            },
        }
    });
    Ok(layout("Context", &body))
}

/// A context, by section.
pub(crate) struct ContextView<'c> {
    pub(crate) system: &'c str,
    pub(crate) tools: &'c [Tool],
    pub(crate) summaries: &'c [Summary],
    pub(crate) messages: &'c [ContextMessage],
    /// The first shown message; none: the newest ones are shown.
    pub(crate) from: Option<u32>,
    /// The address of the page.
    pub(crate) at: &'c str,
    /// The address of a message as a whole.
    pub(crate) whole: &'c dyn Fn(u32) -> String,
    /// The address of all of the context, as JSON.
    pub(crate) json: &'c str,
}

impl ContextView<'_> {
    pub(crate) fn sections(&self) -> Markup {
        let room = TextLimit::new(ROOM);
        let entries = self.entries(&room);
        let left = self.summaries.len().saturating_sub(SUMMARIES);
        html! {
            @if !self.system.is_empty() {
                details { summary { "System" } (text(self.system, self.json, &room)) }
            }
            @if !self.tools.is_empty() {
                details { summary { (counted(self.tools.len() as u64, "tool")) }
                    ul { @for tool in self.tools.iter().take(TOOLS) { li { code { (tool.name) } " " (fmt::line(&tool.description, 120)) } } }
                    p { a href=(self.json) { "All of the tools, as JSON" } } }
            }
            @if left > 0 { p { a href=(self.json) { (counted(left as u64, "earlier summary")) ", as JSON" } } }
            @for summary in &self.summaries[left..] { (checkpoint(summary, self.json, &room)) }
            (entries)
        }
    }

    /// The position of the first shown message.
    fn first(&self) -> usize {
        match self.from {
            Some(from) => self
                .messages
                .partition_point(|entry| entry.ordinal < from)
                .min(self.messages.len().saturating_sub(1)),
            None => self.messages.len().saturating_sub(MESSAGES),
        }
    }

    fn entries(&self, room: &TextLimit) -> Markup {
        let first = self.first();
        let end = (first + MESSAGES).min(self.messages.len());
        let sign = if self.at.contains('?') { '&' } else { '?' };
        let to = |at: usize| {
            let ordinal = self.messages.get(at).map_or(1, |entry| entry.ordinal);
            format!("{}{sign}from={ordinal}", self.at)
        };
        let newest = self.messages[first..end].iter().rev();
        let texts: Vec<Markup> = newest
            .map(|entry| text(&entry.text, &(self.whole)(entry.ordinal), room))
            .collect();
        html! {
            p class="quiet" { (counted(self.messages.len() as u64, "message"))
                @if end - first < self.messages.len() { ", of these " (number(first as u64 + 1)) " to " (number(end as u64)) } }
            @if first > 0 { p { a href=(to(first.saturating_sub(MESSAGES))) { "Earlier messages" } } }
            @for (entry, text) in self.messages[first..end].iter().zip(texts.iter().rev()) {
                details id={ "e" (entry.ordinal) } {
                    summary {
                        "#" (entry.ordinal) " " (name(entry.author.as_deref().unwrap_or(&entry.role))) " "
                        @if let Some(form) = &entry.form { span class="tag" { (form) } }
                        @if entry.pinned { span class="badge" { "pinned" } }
                        span class="quiet" { (number(entry.tokens)) " tokens · " (fmt::line(&entry.text, 80)) }
                    }
                    (text)
                }
            }
            @if end < self.messages.len() { p { a href=(to(end)) { "Later messages" } } }
        }
    }
}

fn checkpoint(summary: &Summary, json: &str, room: &TextLimit) -> Markup {
    html! {
        details class="summary" id={ "c" (summary.checkpoint) } {
            summary {
                span class="badge" { (counted(summary.messages.into(), "message")) }
                " Checkpoint " (summary.checkpoint) ": #" (summary.first) "–#" (summary.last) " "
                @if summary.tier != "conversation" { span class="tag" { (summary.tier) } }
                @if summary.tightened { span class="tag" { "less kept than requested" } }
                span class="quiet" { (number(summary.tokens)) " tokens"
                    @if let Some(ratio) = fmt::compression(summary.tokens_before, summary.tokens) { " (" (ratio) ")" }
                    ", " (summary.model) }
            }
            (text(&summary.text, json, room))
        }
    }
}

/// A text as the model sees it; `whole` is the address of all of it.
fn text(text: &str, whole: &str, room: &TextLimit) -> Markup {
    let (shown, left) = room.cut(text);
    html! { pre class="text" { (shown) } (continuation(left, Some(whole))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(entries: &[ContextMessage], from: Option<u32>) -> String {
        let seen = ContextView {
            system: "",
            tools: &[],
            summaries: &[],
            messages: entries,
            from,
            at: "/context?branch=main",
            whole: &|ordinal| format!("/messages/{ordinal}"),
            json: "/v1",
        };
        seen.sections().into_string()
    }

    #[test]
    fn a_long_context_is_shown_in_parts_that_lead_to_each_other() {
        let entry = |ordinal| ContextMessage {
            ordinal,
            role: "user".to_owned(),
            author: None,
            tokens: 1,
            pinned: false,
            form: None,
            text: "<b>".to_owned(),
        };
        let all: Vec<ContextMessage> = (1001..=1120).map(entry).collect();
        let newest = seen(&all, None);
        assert_eq!(newest.matches("<details").count(), MESSAGES);
        assert!(newest.contains("id=\"e1120\"") && newest.contains("from=1021\">Earlier"));
        assert!(!newest.contains("Later messages") && !newest.contains("<b>"));
        let middle = seen(&all, Some(1021));
        assert!(middle.contains("from=1001\">Earlier") && middle.contains("from=1071\">Later"));
        assert!(seen(&all, Some(9_999)).contains("id=\"e1120\""));
        assert!(seen(&[], Some(5)).contains("0 messages"));
    }
}
