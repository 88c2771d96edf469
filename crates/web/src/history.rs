//! `/sessions/{session}/history` and `…/tree`: all messages, including compacted ones.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::Problem;
use unisono_api::message::Message;
use unisono_api::search::{Hit, Neighbour, SearchQuery, SearchResults};
use unisono_api::service::{self, Service};
use unisono_api::session::{BranchSegment, MAIN_BRANCH, TreeQuery, main_branch};

use crate::branch_view::{BranchView, PartQuery};
use crate::error::{self, PageError};
use crate::extract::{Path, Query};
use crate::layout::{cut_title, layout};
use crate::lists;
use crate::message;
use crate::parts::{counted, encoded, name, number, when_known};
use crate::pictures::tree;
use crate::text_limit::TextLimit;

/// Messages per page.
const MESSAGES: u32 = 50;
/// Messages that a search shows.
const FOUND: usize = 50;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct HistoryQuery {
    #[serde(default = "main_branch")]
    branch: String,
    /// The first message; none: the page shows the newest ones.
    from: Option<u32>,
    /// The search query.
    #[serde(default)]
    q: String,
}

/// The messages of a branch, oldest first, or search results.
pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(which): Query<HistoryQuery>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &which.branch).await?;
    if !which.q.trim().is_empty() {
        return search(&*service, &place, &which.q).await;
    }
    let newest = place.length.saturating_sub(MESSAGES - 1);
    let first = which.from.unwrap_or(newest);
    let first = first.clamp(1, place.length.max(1));
    let messages = lists::messages(&*service, &place, first, MESSAGES).await?;
    let part = part(&place, &Section { first, messages });
    Ok(layout(&title(&place), &place.page_of_search(&part)))
}

fn title(place: &BranchView) -> String {
    format!("history of {}", place.about.title)
}

/// The messages of a branch that match. A refused search is shown again with the reason.
async fn search(service: &dyn Service, place: &BranchView, q: &str) -> Result<Response, PageError> {
    let sought = SearchQuery {
        q: q.to_owned(),
        branch: place.branch.clone(),
        cursor: None,
        limit: NonZeroUsize::new(FOUND),
    };
    let page = |found: &Markup| {
        let body = place.page_of_search(&results(place, q, found));
        layout(&title(place), &body)
    };
    match service.search(Some(&place.about.session), &sought).await {
        Ok(found) => Ok(page(&search_results(&found, &place.branch))),
        Err(service::Error::Problem(problem)) => {
            Ok((error::status(&problem), page(&refused(&problem))).into_response())
        }
        Err(error) => Err(error.into()),
    }
}

/// Why a search is refused.
pub(crate) fn refused(problem: &Problem) -> Markup {
    html! { p class="trouble" role="alert" { (problem.detail) } }
}

/// A part of a branch.
struct Section {
    first: u32,
    messages: Vec<Message>,
}

fn searching(place: &BranchView, q: &str) -> Markup {
    html! {
        form method="get" action={ "/sessions/" (place.about.session) "/history" } role="search" class="search" {
            input type="hidden" name="branch" value=(place.branch);
            label for="q" { "Search, such as " code { "rollback role:user since:7d" } }
            input id="q" name="q" type="search" value=(q);
            button { "Search" }
        }
    }
}

fn part(place: &BranchView, part: &Section) -> Markup {
    let last = part.messages.last().map_or(0, |last| last.ordinal);
    html! {
        section {
            h2 { "Full history" }
            p class="quiet" { "Compaction never changes these messages. Messages marked "
                span class="tag" { "not in the context" } " have left the context of the models." }
            (searching(place, ""))
            @if part.messages.is_empty() { p class="quiet" { "There are no messages yet." } }
            @if part.first > 1 {
                p { a href=(place.path(&format!("/history?from={}", part.first.saturating_sub(MESSAGES).max(1)))) { "Older messages" } }
            }
            (message::list(&part.messages, place, u32::MAX, &TextLimit::new(message::ROOM)))
            @if last > 0 && last < place.length {
                p { a href=(place.path(&format!("/history?from={}", part.first + MESSAGES))) { "Newer messages" } }
            }
        }
    }
}

/// A search with its results, which the conversation shows in a dialog.
fn results(place: &BranchView, q: &str, found: &Markup) -> Markup {
    html! {
        section class="card dialog" aria-labelledby="results" {
            h2 id="results" { "Messages that match" }
            (searching(place, q))
            (found)
        }
    }
}

fn search_results(found: &SearchResults, searched: &str) -> Markup {
    html! {
        p role="status" { (found_count(found)) }
        @for note in &found.notes { p class="quiet" { (note) } }
        @if !found.complete { p class="quiet" { "The newest messages are not indexed yet: search again in a moment." } }
        @for hit in &found.hits { (self::hit(hit, searched, false)) }
    }
}

/// How many messages were found, or that these are the first of more.
pub(crate) fn found_count(found: &SearchResults) -> String {
    let shown = number(found.hits.len() as u64);
    match found.next {
        Some(_) => format!("The first {shown}; there are more: add a word to narrow the search"),
        None => format!("{shown} found"),
    }
}

/// A search result. It leads to the searched branch, or to another one that has the message.
pub(crate) fn hit(hit: &Hit, searched: &str, with_session: bool) -> Markup {
    let mut branches = hit.branches.iter();
    let branch = branches.find(|branch| *branch == searched);
    let branch = branch.or(hit.branches.first());
    let branch = branch.map_or(MAIN_BRANCH, String::as_str);
    let who = hit.author.as_deref().unwrap_or(&hit.role);
    let there = format!(
        "/sessions/{}/history?branch={}&from={}#m{}",
        hit.session,
        encoded(branch),
        hit.ordinal.saturating_sub(3).max(1),
        hit.ordinal
    );
    html! {
        article class={ "message " (hit.role) @if !hit.active { " gone" } } {
            header class="quiet" {
                a href=(there) { @if with_session { (cut_title(&hit.title)) " " } "#" (hit.ordinal) }
                " " strong { (name(who)) } (when_known(" ", hit.at.as_deref())) " "
                @match (hit.active, hit.checkpoint) {
                    (true, _) => @if hit.status != "verbatim" { span class="tag" { (hit.status) } },
                    (false, Some(number)) => span class="tag" { "not in the context: checkpoint " (number) " stands for it" },
                    (false, None) => span class="tag" { @if hit.status == "elsewhere" { "on branch " (branch) } @else { "not in the context" } },
                }
            }
            @if let Some(before) = &hit.before { (neighbour(before)) }
            p { (marked(&hit.excerpt, &hit.marks)) }
            @if let Some(after) = &hit.after { (neighbour(after)) }
        }
    }
}

/// The message before or after a search result.
fn neighbour(message: &Neighbour) -> Markup {
    let who = message.author.as_deref().unwrap_or(&message.role);
    html! { p class="quiet" { "#" (message.ordinal) " " (name(who)) ": " (message.excerpt) } }
}

/// A text with its search matches marked.
fn marked(text: &str, marks: &[[u64; 2]]) -> Markup {
    let mut pieces = Vec::new();
    let mut from = 0;
    for [start, end] in marks {
        let (start, end) = (*start as usize, *end as usize);
        let (Some(before), Some(word)) = (text.get(from..start), text.get(start..end)) else {
            break;
        };
        pieces.push((before, word));
        from = end;
    }
    html! {
        @for (before, word) in pieces { (before) mark { (word) } }
        (text.get(from..).unwrap_or_default())
    }
}

/// Maximum indentation of the tree.
const DEEPEST: u32 = 4;

/// Maximum shown branches that end with a stretch.
const HEADS: usize = 2;

/// Stretches per page.
const STRETCHES: Option<NonZeroUsize> = NonZeroUsize::new(60);

/// The tree of a session's messages, a part at a time.
pub(crate) async fn tree(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(part): Query<PartQuery>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &part.branch).await?;
    let query = TreeQuery {
        full: false,
        cursor: part.cursor,
        limit: STRETCHES,
    };
    let found = service.tree(&id, &query).await?;
    let stretches = &found.items;
    let body = place.page(&html! {
        section {
            h2 { "Branch tree" }
            p class="quiet" { "Each line is a series of messages. Its forks are indented below it. A branch can start after the last message of each line." }
            @if stretches.is_empty() { p class="quiet" { "There are no messages yet." } }
            (tree::lines(stretches, &|stretch| in_tree(stretch, &place)))
            ul class="tree" { @for stretch in stretches { (line(stretch, &place)) } }
            @if let Some(next) = &found.next {
                p { a href={ (place.path("/tree")) "&cursor=" (encoded(next)) } { "More of the tree" } }
            }
        }
    });
    Ok(layout(&format!("tree of {}", place.about.title), &body))
}

/// The path of the branch that ends with a stretch.
fn in_tree(stretch: &BranchSegment, place: &BranchView) -> Option<String> {
    let branch = stretch.branches.first()?;
    let session = &place.about.session;
    Some(format!("/sessions/{session}?branch={}", encoded(branch)))
}

fn line(stretch: &BranchSegment, place: &BranchView) -> Markup {
    let (first, last) = (stretch.first_ordinal, stretch.last_ordinal);
    html! {
        li class={ "depth" (stretch.depth.min(DEEPEST)) } {
            span class="quiet" { "#" (first) @if last > first { "–#" (last) } " " (stretch.role) " " }
            (stretch.text) " "
            @for head in stretch.branches.iter().take(HEADS) {
                a class="badge" href={ "/sessions/" (place.about.session) "?branch=" (encoded(head)) } { (name(head)) } " "
            }
            @if stretch.branches.len() > HEADS {
                a href={ "/v1/sessions/" (place.about.session) "/branches" } {
                    (counted((stretch.branches.len() - HEADS) as u64, "more branch head")) ", as JSON" }
            }
            details class="fork" {
                summary aria-label={ "Fork after message " (last) } { "Fork" }
                form method="post" action={ "/sessions/" (place.about.session) "/fork" } {
                    input type="hidden" name="at" value=(stretch.last);
                    label for={ "tree" (stretch.last) } { "Name of the branch that starts after #" (last) }
                    input id={ "tree" (stretch.last) } name="name" required maxlength="60";
                    button class="small" { "Fork" }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_on(branches: &[&str]) -> Hit {
        serde_json::from_value(serde_json::json!({
            "session": "s", "title": "t", "message": "m", "ordinal": 1, "role": "user",
            "author": null, "at": null, "branches": branches, "active": true, "checkpoint": null,
            "status": "verbatim", "excerpt": "e", "marks": [], "score": 1.0,
        }))
        .unwrap()
    }

    #[test]
    fn a_search_result_leads_to_the_searched_branch() {
        for (branches, searched, leads) in [
            (&["draft", "main"][..], "main", "branch=main&amp;"),
            (&["draft", "main"][..], "draft", "branch=draft&amp;"),
            (&["draft"][..], "main", "branch=draft&amp;"),
            (&[][..], "draft", "branch=main&amp;"),
        ] {
            let shown = hit(&found_on(branches), searched, false).into_string();
            assert!(shown.contains(leads), "{leads}: {shown}");
        }
    }

    #[test]
    fn the_first_part_of_the_results_is_not_their_number() {
        let hit = found_on(&[]);
        let found = |next: Option<&str>| SearchResults {
            notes: Vec::new(),
            complete: true,
            hits: vec![hit.clone(); 50],
            next: next.map(str::to_owned),
        };
        assert_eq!(found_count(&found(None)), "50 found");
        assert!(found_count(&found(Some("c"))).starts_with("The first 50; there are more"));
    }
}
