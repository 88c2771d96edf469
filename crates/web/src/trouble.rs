//! Problems, as pages.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::html;
use unisono_api::{Code, Problem, service};

use crate::layout::layout;

/// Why a page cannot be shown.
#[derive(Debug)]
pub(crate) struct Trouble(Box<Problem>);

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Trouble {
        Trouble(Box::new(problem))
    }
}

impl From<service::Error> for Trouble {
    fn from(error: service::Error) -> Trouble {
        match error {
            service::Error::Problem(problem) => Trouble(problem),
            error => Problem::new(error.code(), error.to_string()).into(),
        }
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        problem(&self.0)
    }
}

/// The page of a problem.
pub fn problem(problem: &Problem) -> Response {
    if problem.code == Code::Unauthorized {
        return refused("Nothing is shown to a browser that did not come by a link.");
    }
    let status = StatusCode::from_u16(problem.status);
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = html! {
        section class="card trouble" {
            h1 { (problem.title) }
            p { (problem.detail) }
            @if problem.code == Code::Busy { p { "Try again in a moment." } }
            p { a href="/" { "Back to the sessions" } }
        }
    };
    (status, layout(&problem.title, &body)).into_response()
}

/// The page for a browser that is not logged in.
pub fn refused(why: &str) -> Response {
    let body = html! {
        section class="card" {
            h1 { "You are not logged in" }
            p { (why) }
            p { "The daemon prints a link that works once when it starts. Another one comes from:" }
            pre { "curl -X POST -H \"Authorization: Bearer $(cat TOKEN_FILE)\" http://ADDRESS/v1/login-links" }
        }
    };
    (StatusCode::UNAUTHORIZED, layout("not logged in", &body)).into_response()
}
