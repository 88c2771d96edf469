//! Problems, as pages.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, PreEscaped, html};
use unisono_api::{Code, Problem, fmt, service};

use crate::layout::layout;
use crate::parts::truncate;
use crate::refusal;

/// Maximum shown bytes of the detail of a problem.
const DETAIL: usize = 4 * 1024;

/// The reason why a page cannot be shown.
#[derive(Debug)]
pub(crate) struct PageError(Box<Problem>);

impl From<Problem> for PageError {
    fn from(problem: Problem) -> PageError {
        PageError(Box::new(problem))
    }
}

impl From<service::Error> for PageError {
    fn from(error: service::Error) -> PageError {
        match error {
            service::Error::Problem(problem) => PageError(problem),
            error => Problem::new(error.code(), error.to_string()).into(),
        }
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        problem(&self.0)
    }
}

/// The page of a problem.
pub fn problem(problem: &Problem) -> Response {
    if problem.code == Code::Unauthorized {
        // Browsers keep the cookie back where a page of another site leads here.
        return login_page(
            &why_not_logged_in(&problem.detail),
            &html! {
                p { "You may be logged in if a link on another site led here: " a href="" { "open this page again" } "." }
                (PreEscaped(refusal::PLACEHOLDER))
            },
            None,
        );
    }
    let body = html! {
        section class="card trouble" {
            h1 { (problem.title) }
            @let (detail, left) = truncate(&problem.detail, DETAIL);
            p { (detail) @if left > 0 { "…" } }
            @if problem.code == Code::Busy { p { "Try again in a moment." } }
            (PreEscaped(refusal::PLACEHOLDER))
            p { a href="/" { "Back to the sessions" } }
        }
    };
    (status(problem), layout(&problem.title, &body)).into_response()
}

/// Why a request has no login: what is wrong with its token, if it came with one.
fn why_not_logged_in(detail: &str) -> String {
    match detail.strip_prefix("the token ") {
        Some(wrong) => format!("The token {wrong}."),
        None => "This browser is not logged in.".to_owned(),
    }
}

/// The status of the answer to a request with a problem.
pub(crate) fn status(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Suggested pages, with descriptions.
const PAGES: [(&str, &str); 9] = [
    ("/", "Sessions"),
    ("/agents", "Agents"),
    ("/approvals", "Approvals"),
    ("/schedules", "Schedules"),
    ("/usage", "Usage"),
    ("/settings", "Settings"),
    ("/import", "Import a conversation"),
    ("/doctor", "Doctor"),
    ("/cluster", "Cluster"),
];

/// The page for an unknown path: suggestions and all pages.
pub fn unknown(path: &str) -> Response {
    let near = PAGES.iter().skip(1).find(|(page, _)| {
        let first = path.trim_matches('/').split('/').next().unwrap_or("");
        is_near(&first.to_lowercase(), page.trim_start_matches('/'))
    });
    let body = html! {
        section class="card" {
            h1 { "Nothing is here" }
            p { "There is no page at " code { (fmt::line(path, 200)) } "." }
            @if let Some((page, says)) = near { p { "Did you mean " a href=(page) { (says) } "?" } }
            p { "All pages:" }
            ul { @for (page, says) in PAGES { li { a href=(page) { (says) } } } }
            form method="get" action="/" role="search" class="search" {
                label for="q" { "Search all messages" }
                input id="q" name="q" type="search";
                button { "Search" }
            }
        }
    };
    (StatusCode::NOT_FOUND, layout("page not found", &body)).into_response()
}

/// Whether a word is another one with at most two letters changed, added or left out.
fn is_near(word: &str, other: &str) -> bool {
    let (word, other): (Vec<char>, Vec<char>) =
        (word.chars().take(40).collect(), other.chars().collect());
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in word.iter().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (place, b) in other.iter().enumerate() {
            let changed = before + usize::from(a != b);
            before = row[place + 1];
            row[place + 1] = changed.min(before + 1).min(row[place] + 1);
        }
    }
    row[other.len()] <= 2
}

/// The page for a browser that is not logged in. `page`: where its form leads to; none: to the page
/// that was opened.
pub fn refused(why: &str, page: Option<&str>) -> Response {
    login_page(why, &html! {}, page)
}

fn login_page(why: &str, advice: &Markup, page: Option<&str>) -> Response {
    let body = html! {
        section class="card" {
            h1 { "You are not logged in" }
            p { (why) }
            (advice)
            form method="post" action="/login" {
                @if let Some(page) = page { input type="hidden" name="page" value=(page); }
                label for="secret" { "Login link or token" }
                input id="secret" name="secret" type="password" required autocomplete="off" aria-describedby="secret-says";
                p class="quiet" id="secret-says" { "The daemon prints a link when it starts. A link works once, within an hour. \
                    A token works until it is revoked or expires." }
                button { "Log in" }
            }
            p { "Another link comes from:" }
            pre { "curl -X POST -H \"Authorization: Bearer $(cat TOKEN_FILE)\" http://ADDRESS/v1/login-links" }
        }
    };
    (StatusCode::UNAUTHORIZED, layout("not logged in", &body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_whose_token_ended_is_told_so() {
        for (detail, shown) in rows! {
            ("the token of this login is revoked; log in with another link",
             "The token of this login is revoked; log in with another link."),
            ("the token ada has expired; use another one",
             "The token ada has expired; use another one."),
            ("there is no `Authorization: Bearer <token>`", "This browser is not logged in."),
        } {
            assert_eq!(why_not_logged_in(detail), shown);
        }
    }

    #[test]
    fn a_typo_is_near_what_was_meant() {
        for (word, other, near) in [
            ("agnets", "agents", true),
            ("setings", "settings", true),
            ("usage", "usage", true),
            ("", "agents", false),
            ("sessions", "doctor", false),
        ] {
            assert_eq!(is_near(word, other), near, "{word} {other}");
        }
    }
}
