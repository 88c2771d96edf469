//! `/approvals`: tool calls that wait for a person, and calls whose outcome is unknown;
//! `/sessions/{session}/calls/{call}`: one of them with all of its arguments.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::approval::{Approval, ApprovalQuery, Decide, Verdict};
use unisono_api::service::Service;
use unisono_api::{Code, Page, PageQuery, Problem};

use crate::error::PageError;
use crate::extract::{Form, Path, Query};
use crate::layout::{cut_title, layout};
use crate::parts::{counted, encoded, truncate, when};
use crate::text_limit::TextLimit;
use crate::{lists, message, text_parts};

/// The refresh interval of the list in seconds.
const EVERY: u32 = 3;

/// Calls per page.
const SHOWN: Option<NonZeroUsize> = NonZeroUsize::new(25);

/// The calls that wait, the oldest first, a part at a time.
pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Query(query): Query<PageQuery>,
) -> Result<Response, PageError> {
    let later = query.cursor.as_deref().map(page_at);
    let query = ApprovalQuery {
        session: None,
        cursor: query.cursor,
        limit: SHOWN,
    };
    let Page { mut items, next } = service.approvals(&query).await?;
    let mut titles: BTreeMap<String, String> = BTreeMap::new();
    for call in &items {
        if !titles.contains_key(&call.session)
            && let Some(session) = lists::existing(service.session(&call.session).await)?
        {
            titles.insert(call.session.clone(), cut_title(&session.title));
        }
    }
    items.retain(|call| titles.contains_key(&call.session));
    let room = TextLimit::new(message::ROOM);
    let body = html! {
        div id="live" data-every=(EVERY) {
            h1 { "Approvals" }
            @if items.is_empty() { (none(later.is_some())) }
            @for call in &items {
                section id={ "in-" (call.call) } aria-label=(titles[call.session.as_str()]) {
                    h2 { "In " a href={ "/sessions/" (call.session) } { (titles[call.session.as_str()]) } }
                    (card(call, later.as_deref().unwrap_or("/approvals"), &room))
                }
            }
            @if later.is_some() { p { a href="/approvals" { "The calls that have waited longest" } } }
            @if let Some(next) = &next { p { a href=(page_at(next)) { "More" } } }
        }
    };
    Ok(layout("Approvals", &body))
}

/// The address of the part of the list at a cursor.
fn page_at(cursor: &str) -> String {
    format!("/approvals?cursor={}", encoded(cursor))
}

/// What stands in place of the calls. `is_later`: earlier ones may be on other pages.
fn none(is_later: bool) -> Markup {
    html! {
        p class="quiet" {
            @if is_later { "No more calls wait on this page." } @else {
                "No call waits for you. A call does where " code { "approve" }
                " of its agent says so, or after a crash that left unknown whether it was made."
            }
        }
    }
}

/// The part of the arguments of a call that a page shows.
#[derive(Debug, Deserialize)]
pub(crate) struct ArgumentsQuery {
    /// The byte at which it begins.
    #[serde(default)]
    from: usize,
}

/// A waiting call with all of its arguments, a part at a time.
pub(crate) async fn show_call(
    State(service): State<Arc<dyn Service>>,
    Path((session, id)): Path<(String, String)>,
    Query(part): Query<ArgumentsQuery>,
) -> Result<Response, PageError> {
    let waiting = lists::approvals(&*service, &session).await?;
    let Some(call) = waiting.iter().find(|call| call.call == id) else {
        let detail = format!("no call {id} of this session waits for a person");
        return Err(Problem::new(Code::NotFound, detail).into());
    };
    let title = cut_title(&service.session(&session).await?.title);
    let here = page(call);
    let text = text_parts::part(&arguments(call), part.from, |from| {
        format!("{here}?from={from}")
    });
    let turn = format!("/sessions/{}/turns/{}", call.session, call.turn);
    let body = html! {
        h1 { "A call that waits" }
        h2 { "In " a href={ "/sessions/" (call.session) } { (title) } }
        (framed(call, &text, &turn))
        p { a href="/approvals" { "All calls that wait" } }
    };
    Ok(layout("A call that waits", &body))
}

/// The address of the page of a call.
fn page(call: &Approval) -> String {
    format!("/sessions/{}/calls/{}", call.session, call.call)
}

/// A call with the forms for its decision, below a heading of the second level. `back` is the page
/// after the decision.
pub(crate) fn card(call: &Approval, back: &str, room: &TextLimit) -> Markup {
    framed(call, &beginning(call, room), back)
}

/// A call around its shown arguments.
fn framed(call: &Approval, arguments: &Markup, back: &str) -> Markup {
    let in_doubt = call.kind == "in_doubt";
    let turn = format!("/sessions/{}/turns/{}", call.session, call.turn);
    let run = format!("/sessions/{}/runs/{}", call.session, call.run);
    html! {
        article class="card" id={ "call-" (call.call) } aria-labelledby={ "asks-" (call.call) } {
            h3 id={ "asks-" (call.call) } {
                (call.agent) @if in_doubt { " may have called " } @else { " asks to call " }
                code { (call.tool) }
            }
            (arguments)
            p class="quiet" {
                (when(&call.requested_at)) " · " (call.contract)
                @if let Some(rule) = &call.rule { " · by the rule " code { (rule) } }
                @if let Some(until) = &call.expires_at { " · denied by itself at " (when(until)) " UTC" }
                " · " a href=(turn) { "turn" } " · " a href=(run) { "run" }
            }
            @if in_doubt { (doubtful(call, back)) } @else { (approval_forms(call, back)) }
        }
    }
}

/// Bytes of arguments that are shown unfolded.
const UNFOLDED: usize = 4 * 1024;

fn arguments(call: &Approval) -> String {
    serde_json::to_string_pretty(&call.arguments).unwrap_or_default()
}

/// The arguments of a call as far as there is room, with a link to all of them: a person decides about
/// all of them.
fn beginning(call: &Approval, room: &TextLimit) -> Markup {
    let text = arguments(call);
    let (shown, left) = room.cut(&text);
    let (unfolded, folded) = truncate(shown, UNFOLDED);
    html! {
        pre { (unfolded) }
        @if folded > 0 {
            details id={ "rest-" (call.call) } {
                summary class="warn" { (counted(folded as u64, "more byte")) " of its arguments: look at them first" }
                pre { (&shown[unfolded.len()..]) }
            }
        }
        @if left > 0 {
            p class="warn" { "… " (counted(left as u64, "more byte")) ": "
                a href=(page(call)) { "look at all of its arguments first" } }
        }
    }
}

fn approval_forms(call: &Approval, back: &str) -> Markup {
    html! {
        (at_once(call, back, "approve", "Approve"))
        (with_text(call, back, "deny", "Deny …", "Why, for the model (may be left empty)", false))
    }
}

fn doubtful(call: &Approval, back: &str) -> Markup {
    html! {
        p class="warn" { "A crash hides the outcome of this call. Check whether it was made: the turn waits, "
            "and the call is not repeated automatically." }
        (with_text(call, back, "done", "It was made …", "Its result, for the model", true))
        (with_text(call, back, "failed", "It failed …", "The error, for the model", true))
        (at_once(call, back, "repeat", "Make it again"))
    }
}

fn at_once(call: &Approval, back: &str, decision: &str, says: &str) -> Markup {
    html! {
        form method="post" action={ "/approvals/" (call.call) } {
            input type="hidden" name="decision" value=(decision);
            input type="hidden" name="back" value=(back);
            button class="small" { (says) }
        }
    }
}

fn with_text(
    call: &Approval,
    back: &str,
    decision: &str,
    says: &str,
    about: &str,
    required: bool,
) -> Markup {
    let field = format!("{decision}-{}", call.call);
    html! {
        details {
            summary { (says) }
            form method="post" action={ "/approvals/" (call.call) } {
                input type="hidden" name="decision" value=(decision);
                input type="hidden" name="back" value=(back);
                label for=(field) { (about) }
                input id=(field) name="text" required[required];
                button class="small" { (says.trim_end_matches(" …")) }
            }
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct DecisionForm {
    decision: Verdict,
    text: Option<String>,
    back: String,
}

pub(crate) async fn decide(
    State(service): State<Arc<dyn Service>>,
    Path(call): Path<String>,
    Form(said): Form<DecisionForm>,
) -> Result<Redirect, PageError> {
    let (decision, text) = (said.decision, said.text);
    let decide = Decide { decision, text };
    service.decide(&call, &decide).await?;
    Ok(Redirect::to(local_path(&said.back)))
}

/// An address of this page; any other is not followed.
fn local_path(back: &str) -> &str {
    let own = ["/approvals", "/sessions/"];
    let plain = !back.contains("//") && !back.contains('\\');
    match own.iter().any(|start| back.starts_with(start)) && plain {
        true => back,
        false => "/approvals",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(text: &str) -> Approval {
        serde_json::from_value(json!({
            "call": "c", "kind": "approval", "session": "s", "turn": "t", "run": "r",
            "agent": "<b>", "tool": "mail", "arguments": {"text": text}, "contract": "at_most_once",
            "rule": null, "requested_at": "2026-03-06T10:00:00Z", "expires_at": null,
        }))
        .unwrap()
    }

    #[test]
    fn a_person_is_led_to_all_arguments_of_a_call_before_deciding() {
        let shown =
            |text: &str, room: &TextLimit| card(&call(text), "/approvals", room).into_string();
        let folded = "more bytes of its arguments: look at them first";
        let whole = "<a href=\"/sessions/s/calls/c\">look at all of its arguments first</a>";
        let short = shown("<i>", &TextLimit::new(100));
        assert!(!short.contains("<b>") && !short.contains("<i>"), "{short}");
        for (bytes, unfolds, leads) in [
            (100, false, false),
            (6_000, true, false),
            (15_000, true, true),
            (200_000, true, true),
        ] {
            let room = TextLimit::new(10 * 1024);
            let shown = shown(&"é".repeat(bytes / 2), &room);
            assert_eq!(shown.contains(folded), unfolds && !leads, "{bytes}");
            assert_eq!(shown.contains(whole), leads, "{bytes}");
            assert_eq!(shown.matches('é').count() == bytes / 2, !leads, "{bytes}");
        }
    }

    #[test]
    fn a_deadline_names_its_time_zone() {
        let mut call = call("x");
        call.expires_at = Some("2026-03-06T18:00:00Z".to_owned());
        let shown = card(&call, "/approvals", &TextLimit::new(100)).into_string();
        let deadline = "denied by itself at <time datetime=\"2026-03-06T18:00:00Z\">2026-03-06 18:00</time> UTC";
        assert!(shown.contains(deadline), "{shown}");
    }

    #[test]
    fn calls_with_long_arguments_share_the_room_of_a_page() {
        let room = TextLimit::new(28 * 1024);
        let long = call(&"<".repeat(100_000));
        let all: usize = (0..25)
            .map(|_| {
                beginning(&long, &room)
                    .into_string()
                    .matches("&lt;")
                    .count()
            })
            .sum();
        assert!((20 * 1024..=40 * 1024).contains(&all), "{all}");
    }

    #[test]
    fn the_end_of_the_list_does_not_say_that_no_call_waits() {
        assert!(none(false).into_string().contains("No call waits for you"));
        assert!(!none(true).into_string().contains("No call waits for you"));
    }

    #[test]
    fn only_the_page_itself_is_gone_back_to() {
        for own in [
            "/approvals",
            &page_at("7.01a2.1.0"),
            "/sessions/01a2?branch=main",
        ] {
            assert_eq!(local_path(own), own);
        }
        for foreign in [
            "https://evil.example",
            "//evil.example",
            "/sessions//evil",
            "/sessions/\\evil",
            "",
        ] {
            assert_eq!(local_path(foreign), "/approvals");
        }
    }
}
