//! `/cluster`: the members that share the database, and the number of sessions of each;
//! `/cluster/{member}`: the sessions of one.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use unisono_api::cluster::ClusterMember;
use unisono_api::service::Service;
use unisono_api::session::SessionListItem;
use unisono_api::{Page, PageQuery};

use crate::error::PageError;
use crate::extract::{Path, Query};
use crate::layout::{cut_title, layout};
use crate::lists;
use crate::parts::{counted, encoded, length, number, when};
use crate::pictures::{attribute, scaled};

/// Seconds between two updates of an open page.
const EVERY: u32 = 5;
/// Sessions of a member per page.
const SHOWN: Option<NonZeroUsize> = NonZeroUsize::new(50);

pub(crate) async fn show(State(service): State<Arc<dyn Service>>) -> Result<Response, PageError> {
    let query = PageQuery {
        cursor: None,
        limit: lists::PART,
    };
    let all = service.members(&query).await?;
    let body = html! { div id="live" data-every=(EVERY) {
        h1 { "Cluster" }
        @if all.items.is_empty() {
            p class="quiet" { "The store is a directory, which only this daemon uses. Several daemons can share a \
                 PostgreSQL database: set " code { "store.url" } "." }
        } @else { (owners(&all.items)) (table(&all)) }
    } };
    Ok(layout("Cluster", &body))
}

/// The sessions of a member, a part at a time.
pub(crate) async fn show_member(
    State(service): State<Arc<dyn Service>>,
    Path(member): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Response, PageError> {
    let query = PageQuery {
        limit: SHOWN,
        ..query
    };
    let part = service.member_sessions(&member, &query).await?;
    let all = PageQuery {
        cursor: None,
        limit: lists::PART,
    };
    let all = service.members(&all).await?;
    let known = all.items.iter().find(|one| one.member == member);
    let title = format!("Sessions of {}", known.map_or(&*member, |one| &*one.name));
    let body = html! { div id="live" data-every=(EVERY) {
        h1 { (title) }
        @if let Some(known) = known { p class="quiet" { (counted(known.sessions, "session")) } }
        @if part.items.is_empty() { p class="quiet" { "No session is here. A session on which no program works is in no list." } }
        @else { (sessions(&part.items)) }
        p class="links" {
            @if let Some(next) = &part.next { a href={ (path(&member)) "?cursor=" (encoded(next)) } { "Older sessions" } }
            a href="/cluster" { "All members" }
        }
    } };
    Ok(layout(&title, &body))
}

fn sessions(all: &[SessionListItem]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Sessions" { table {
            thead { tr { th scope="col" { "Session" } th scope="col" { "Created (UTC)" } th scope="col" { "Changed (UTC)" }
                th scope="col" class="number" { "Events" } } }
            tbody { @for session in all { tr {
                th scope="row" { a href={ "/sessions/" (session.session) } { (cut_title(&session.title)) } }
                td { (when(&session.created_at)) }
                td { (when(&session.updated_at)) }
                td class="number" { (number(session.events)) }
            } } }
        } }
    }
}

/// The address of the page of a member.
fn path(member: &str) -> String {
    format!("/cluster/{}", encoded(member))
}

/// The number of sessions of each member, as bars.
fn owners(all: &[ClusterMember]) -> Markup {
    let whole: u64 = all.iter().map(|member| member.sessions).sum();
    html! {
        section {
            h2 { "Sessions by member" }
            p class="quiet" { (counted(whole, "session")) " of " (counted(all.len() as u64, "member")) }
            ol class="lanes owners" { @for member in all { li {
                span class="name" { a href=(path(&member.member)) { (member.name) } @if member.is_self { " " span class="tag" { "this daemon" } } }
                svg viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
                    rect class="room" x="0" y="3" width="1000" height="14" {}
                    rect class={ "spent" @if member.state.name() == "gone" { " over" } } x="0" y="3" height="14"
                        width=(attribute(scaled(member.sessions as f64, whole as f64))) {}
                }
                span class="number quiet" { (number(member.sessions)) }
            } } }
        }
    }
}

fn table(all: &Page<ClusterMember>) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Members" { table {
            thead { tr { th scope="col" { "Member" } th scope="col" { "State" } th scope="col" class="number" { "Sessions" }
                th scope="col" { "Address" } th scope="col" { "Version" } th scope="col" { "Joined (UTC)" }
                th scope="col" class="number" { "Last seen" } th scope="col" { "Agents" } } }
            tbody { @for member in &all.items { tr {
                th scope="row" { a href=(path(&member.member)) { (member.name) } }
                td { span class={ "state " @match member.state.name() { "alive" => "done", "gone" => "failed", _ => "waiting" } }
                    { (member.state.name()) } }
                td class="number" { (number(member.sessions)) }
                td { (member.address.as_deref().unwrap_or("not a daemon")) }
                td { (member.version) }
                td { (when(&member.joined)) }
                td class="number" { (length(member.last_seen_ms)) " ago" }
                td { @match member.same_agents { Some(true) => "the same", Some(false) => "different", None => "–" } }
            } } }
        } }
        @if all.next.is_some() { p class="quiet" { "The list is incomplete." } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::HasAll as _;
    use serde_json::json;

    #[test]
    fn each_member_has_a_bar_of_its_share() {
        let member = |name: &str, sessions: u64| -> ClusterMember {
            serde_json::from_value(json!({
                "member": "m", "name": name, "version": "1", "address": null, "state": "alive",
                "self": name == "a", "sessions": sessions, "joined": "2026-03-06T10:00:00Z",
                "last_seen_ms": 5, "same_agents": null,
            }))
            .unwrap()
        };
        let all = [member("a", 3), member("<b>", 1)];
        let shown = owners(&all).into_string();
        shown.has_all(&["width=\"750\"", "width=\"250\""]);
        assert!(!shown.contains("<b>") && shown.contains("<a href=\"/cluster/m\">"));
        let none = owners(&[member("a", 0)]).into_string();
        assert!(none.contains("width=\"0\""), "{none}");
    }
}
