//! A session and one of its branches: addresses within them, and the frame of their pages.

use std::num::NonZeroUsize;

use axum::response::Redirect;
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::context::{Context, ContextQuery};
use unisono_api::service::{self, Service};
use unisono_api::session::{Branch, Session, main_branch};
use unisono_api::{Code, PageQuery, Problem};

use crate::error::PageError;
use crate::layout::cut_title;
use crate::parts::{encoded, name};

/// Branches of a part of their list: the most that a service answers.
const PART: Option<NonZeroUsize> = NonZeroUsize::new(500);

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct BranchQuery {
    #[serde(default = "main_branch")]
    pub(crate) branch: String,
}

/// A part of a list of a branch.
#[derive(Debug, Deserialize)]
pub(crate) struct PartQuery {
    #[serde(default = "main_branch")]
    pub(crate) branch: String,
    pub(crate) cursor: Option<String>,
}

/// Messages of a branch, from one on if it is named.
#[derive(Debug, Deserialize)]
pub(crate) struct MessagesQuery {
    #[serde(default = "main_branch")]
    pub(crate) branch: String,
    pub(crate) from: Option<u32>,
}

/// A session and the shown branch.
pub(crate) struct BranchView {
    pub(crate) about: Session,
    pub(crate) branch: String,
    /// Number of messages of the branch; none if the branch does not exist yet.
    pub(crate) length: u32,
}

impl BranchView {
    pub(crate) async fn load(
        service: &dyn Service,
        session: &str,
        branch: &str,
    ) -> Result<BranchView, PageError> {
        BranchView::of_session(service, service.session(session).await?, branch).await
    }

    /// Reads a branch of a session before anything else of its page: later events then update the
    /// page.
    pub(crate) async fn of_session(
        service: &dyn Service,
        about: Session,
        branch: &str,
    ) -> Result<BranchView, PageError> {
        let found = branch_named(service, &about, branch).await?;
        if found.is_none() && branch != main_branch() {
            let detail = format!("there is no branch {branch:?}");
            return Err(Problem::new(Code::NotFound, detail).into());
        }
        Ok(BranchView {
            length: found.map_or(0, |found| found.messages),
            branch: branch.to_owned(),
            about,
        })
    }

    /// The context of the branch for the configured agents, or why it cannot be built; `None` for an
    /// empty branch.
    pub(crate) async fn context(
        &self,
        service: &dyn Service,
    ) -> service::Result<Option<Result<Context, String>>> {
        if self.length == 0 {
            return Ok(None);
        }
        let query = ContextQuery {
            branch: self.branch.clone(),
            ..ContextQuery::default()
        };
        match service.context(&self.about.session, &query).await {
            Ok(context) => Ok(Some(Ok(context))),
            Err(service::Error::Problem(problem)) if problem.code == Code::Refused => {
                Ok(Some(Err(problem.detail)))
            }
            Err(error) => Err(error),
        }
    }

    /// An address within the session, on this branch.
    pub(crate) fn path(&self, rest: &str) -> String {
        let sign = if rest.contains('?') { '&' } else { '?' };
        let (id, branch) = (&self.about.session, encoded(&self.branch));
        format!("/sessions/{id}{rest}{sign}branch={branch}")
    }

    /// The path of a message of the branch; none if there is no such message.
    pub(crate) fn message(&self, ordinal: u32) -> Option<String> {
        let from = ordinal.saturating_sub(3).max(1);
        (1..=self.length)
            .contains(&ordinal)
            .then(|| format!("{}#m{ordinal}", self.path(&format!("/history?from={from}"))))
    }

    /// A page about the session, which is updated live.
    pub(crate) fn page(&self, body: &Markup) -> Markup {
        self.frame(body, self.length > 0)
    }

    /// A page about the session with a search field of its own.
    pub(crate) fn page_of_search(&self, body: &Markup) -> Markup {
        self.frame(body, false)
    }

    fn frame(&self, body: &Markup, searched: bool) -> Markup {
        let about = &self.about;
        html! {
            div id="live" data-session=(about.session) data-after=(about.events) {
                h1 { a href=(self.path("")) { (cut_title(&about.title)) } }
                div class="ways" {
                nav aria-label="Branches" class="tabs" {
                    @for other in &about.branches.items {
                        a href={ "/sessions/" (about.session) "?branch=" (encoded(&other.name)) }
                            aria-current=[(other.name == self.branch).then_some("true")] {
                            (name(&other.name)) " " span class="quiet" { (other.messages) }
                        }
                    }
                    @if about.branches.items.iter().all(|other| other.name != self.branch) && self.length > 0 {
                        a href=(self.path("")) aria-current="true" {
                            (name(&self.branch)) " " span class="quiet" { (self.length) }
                        }
                    }
                    @if about.branches.has_more {
                        a href=(self.path("/tree")) { "all " (about.branches.count) " branches" }
                    }
                }
                @if searched {
                    form method="get" action={ "/sessions/" (about.session) "/history" } role="search" aria-label="In this conversation" class="within" data-dialog {
                        input type="hidden" name="branch" value=(self.branch);
                        label for="within" class="hidden" { "Find in this conversation" }
                        input id="within" name="q" type="search" placeholder="Find in this conversation";
                        button class="small plain" { "Find" }
                    }
                }
                nav aria-label="Session" class="links" {
                    a href=(self.path("")) { "Conversation" }
                    a href=(self.path("/context")) { "Context" }
                    a href=(self.path("/history")) { "Full history" }
                    a href=(self.path("/tree")) { "Branch tree" }
                    a href={ "/usage?session=" (about.session) } { "Usage" }
                    a data-dialog href=(self.path("/export")) { "Export …" }
                    a href=(self.path("/settings")) { "Settings" }
                    a data-dialog href={ "/sessions/" (about.session) "/delete" } { "Delete …" }
                }
                }
                (body)
            }
        }
    }
}

pub(crate) fn back(id: &str, branch: &str) -> Redirect {
    Redirect::to(&back_path(id, branch))
}

pub(crate) fn back_path(id: &str, branch: &str) -> String {
    format!("/sessions/{id}?branch={}", encoded(branch))
}

pub(crate) async fn branch_named(
    service: &dyn Service,
    about: &Session,
    name: &str,
) -> service::Result<Option<Branch>> {
    let named = |branch: &Branch| branch.name == name;
    let first = about.branches.items.iter().find(|branch| named(branch));
    if first.is_some() || !about.branches.has_more {
        return Ok(first.cloned());
    }
    let mut query = PageQuery {
        cursor: None,
        limit: PART,
    };
    loop {
        let part = service.branches(&about.session, &query).await?;
        let found = part.items.into_iter().find(named);
        if found.is_some() || part.next.is_none() {
            return Ok(found);
        }
        query.cursor = part.next;
    }
}
