//! The scope that each route requires, in one table for all APIs.
//!
//! A route outside the table requires `admin`. A test proves that the table has every route of the
//! API description.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use unisono_api::token::Scope;

use super::problem::{self, ApiError};
use super::{Shared, guard};
use crate::a2a;
use crate::audit::Note;

/// The scopes of routes, by method and by path pattern.
const SCOPES: &[(Scope, &str, &[&str])] = &[
    (
        Scope::Read,
        "GET",
        &[
            "/v1/openapi.json",
            "/v1/agents",
            "/v1/agents/{agent}",
            "/v1/approvals",
            "/v1/blobs/{digest}",
            "/v1/lookup",
            "/v1/models",
            "/v1/runs",
            "/v1/schedules",
            "/v1/search",
            "/v1/sessions",
            "/v1/sessions/{session}",
            "/v1/sessions/{session}/branches",
            "/v1/sessions/{session}/chat/{chat}/stream",
            "/v1/sessions/{session}/checkpoints",
            "/v1/sessions/{session}/checkpoints/{number}",
            "/v1/sessions/{session}/compactions/{turn}",
            "/v1/sessions/{session}/context",
            "/v1/sessions/{session}/context/history",
            "/v1/sessions/{session}/delegations/{turn}",
            "/v1/sessions/{session}/ended-turns",
            "/v1/sessions/{session}/events",
            "/v1/sessions/{session}/export",
            "/v1/sessions/{session}/messages",
            "/v1/sessions/{session}/pins",
            "/v1/sessions/{session}/runs",
            "/v1/sessions/{session}/runs/{run}",
            "/v1/sessions/{session}/runs/{run}/request",
            "/v1/sessions/{session}/search",
            "/v1/sessions/{session}/settings",
            "/v1/sessions/{session}/snapshots/{snapshot}",
            "/v1/sessions/{session}/topics",
            "/v1/sessions/{session}/tree",
            "/v1/sessions/{session}/tree/messages",
            "/v1/sessions/{session}/turns",
            "/v1/sessions/{session}/turns/{turn}",
            "/v1/sessions/{session}/turns/{turn}/events",
            "/v1/sessions/{session}/turns/{turn}/replay",
            "/v1/sessions/{session}/turns/{turn}/timeline",
            "/v1/settings/keys",
            "/v1/usage",
            "/v1/usage/sessions",
            "/openai/v1/models",
            "/openai/v1/models/{model}",
            "/",
            "/agents",
            "/agents/{agent}",
            "/approvals",
            "/approvals/count",
            "/blobs/{digest}",
            "/import",
            "/schedules",
            "/sessions/{session}",
            "/sessions/{session}/ask",
            "/sessions/{session}/calls/{call}",
            "/sessions/{session}/checkpoints",
            "/sessions/{session}/checkpoints/{number}",
            "/sessions/{session}/checkpoints/{number}/compare",
            "/sessions/{session}/checkpoints/{number}/revert",
            "/sessions/{session}/compact",
            "/sessions/{session}/context",
            "/sessions/{session}/delete",
            "/sessions/{session}/export",
            "/sessions/{session}/export/file",
            "/sessions/{session}/history",
            "/sessions/{session}/messages/{ordinal}",
            "/sessions/{session}/runs/{run}",
            "/sessions/{session}/settings",
            "/sessions/{session}/snapshots/{snapshot}",
            "/sessions/{session}/tree",
            "/sessions/{session}/turns",
            "/sessions/{session}/turns/{turn}",
            "/usage",
            // A2A operations check their own scopes. Their patterns are for the audit log.
            "/a2a/tasks",
            "/a2a/tasks/{task}",
            "/a2a/tasks/{task}/pushNotificationConfigs",
            "/a2a/tasks/{task}/pushNotificationConfigs/{callback}",
            "/a2a/extendedAgentCard",
            "/a2a/agents/{agent}/tasks",
            "/a2a/agents/{agent}/tasks/{task}",
            "/a2a/agents/{agent}/tasks/{task}/pushNotificationConfigs",
            "/a2a/agents/{agent}/tasks/{task}/pushNotificationConfigs/{callback}",
            "/a2a/agents/{agent}/extendedAgentCard",
        ],
    ),
    (
        Scope::Read,
        "POST",
        &[
            // A login link has the rights of its caller.
            "/v1/login-links",
            // These change nothing.
            "/v1/imports/dry-run",
            "/v1/sessions/{session}/compactions/dry-run",
            "/v1/sessions/{session}/turns/estimate",
            "/sessions/{session}/estimate",
            // MCP tools check their own scopes.
            "/mcp",
            // So do A2A operations.
            "/a2a",
            "/a2a/",
            "/a2a/message:send",
            "/a2a/message:stream",
            "/a2a/tasks/{task}",
            "/a2a/tasks/{task}/pushNotificationConfigs",
            "/a2a/agents/{agent}",
            "/a2a/agents/{agent}/",
            "/a2a/agents/{agent}/message:send",
            "/a2a/agents/{agent}/message:stream",
            "/a2a/agents/{agent}/tasks/{task}",
            "/a2a/agents/{agent}/tasks/{task}/pushNotificationConfigs",
            // A login needs no token, but has a pattern for the audit log.
            "/login",
            "/logout",
        ],
    ),
    (
        Scope::Ask,
        "POST",
        &[
            "/v1/blobs",
            "/v1/imports",
            "/v1/imports/conversations",
            "/v1/schedules/{schedule}/runs",
            "/v1/sessions",
            "/v1/sessions/{session}/branches",
            "/v1/sessions/{session}/chat",
            "/v1/sessions/{session}/checkpoints/{number}/edit",
            "/v1/sessions/{session}/checkpoints/{number}/regenerate",
            "/v1/sessions/{session}/checkpoints/{number}/revert",
            "/v1/sessions/{session}/compactions",
            "/v1/sessions/{session}/delegations",
            "/v1/sessions/{session}/messages",
            "/v1/sessions/{session}/runs/{run}/cancel",
            "/v1/sessions/{session}/topics/seal",
            "/v1/sessions/{session}/turns",
            "/v1/sessions/{session}/turns/{turn}/retry",
            "/v1/sessions/{session}/turns/{turn}/cancel",
            "/openai/v1/chat/completions",
            "/openai/v1/responses",
            "/",
            "/agents/{agent}/try",
            "/examples",
            "/import",
            "/schedules/{schedule}/run",
            "/sessions/{session}/ask",
            "/sessions/{session}/checkpoints/{number}/edit",
            "/sessions/{session}/checkpoints/{number}/regenerate",
            "/sessions/{session}/checkpoints/{number}/revert",
            "/sessions/{session}/compact",
            "/sessions/{session}/delete",
            "/sessions/{session}/fork",
            "/sessions/{session}/pin",
            "/sessions/{session}/runs/{run}/cancel",
            "/sessions/{session}/seal",
            "/sessions/{session}/settings",
            "/sessions/{session}/turns/{turn}/again",
            "/sessions/{session}/turns/{turn}/retry",
            "/sessions/{session}/turns/{turn}/cancel",
        ],
    ),
    (
        Scope::Ask,
        "PUT",
        &["/v1/sessions/{session}/pins/{message}"],
    ),
    (
        Scope::Read,
        "DELETE",
        &[
            // A2A operations check their own scopes.
            "/a2a/tasks/{task}/pushNotificationConfigs/{callback}",
            "/a2a/agents/{agent}/tasks/{task}/pushNotificationConfigs/{callback}",
        ],
    ),
    (Scope::Ask, "PATCH", &["/v1/sessions/{session}/settings"]),
    (
        Scope::Ask,
        "DELETE",
        &[
            "/v1/sessions/{session}",
            "/v1/sessions/{session}/pins/{message}",
        ],
    ),
    (
        Scope::Approve,
        "POST",
        &["/v1/approvals/{call}", "/approvals/{call}"],
    ),
    (
        Scope::Admin,
        "GET",
        &[
            "/agents/{agent}/edit",
            "/cluster",
            "/cluster/{member}",
            "/doctor",
            "/import/agents",
            "/metrics",
            "/settings",
            "/v1/archive",
            "/v1/audit",
            "/v1/cluster",
            "/v1/cluster/{member}/sessions",
            "/v1/health",
            "/v1/losses",
            "/v1/settings",
            "/v1/tokens",
        ],
    ),
    (
        Scope::Admin,
        "POST",
        &[
            "/agents/{agent}/edit",
            "/import/agents",
            "/schedules/{schedule}",
            "/settings",
            "/v1/agent-imports",
            "/v1/agents/reload",
            // A definition may name files of this machine, which the check reads.
            "/v1/agents/{agent}/check",
            "/v1/cluster/{member}",
            "/v1/losses/acknowledge",
            "/v1/schedules/{schedule}/pause",
            "/v1/schedules/{schedule}/resume",
            "/v1/sessions/{session}/tool-servers",
            "/v1/tokens",
            "/v1/vacuum",
        ],
    ),
    (Scope::Admin, "PATCH", &["/v1/settings"]),
    (Scope::Admin, "PUT", &["/v1/agents/{agent}"]),
    (Scope::Admin, "DELETE", &["/v1/tokens/{token}"]),
];

/// Routes that change nothing despite their method.
const READS: [(&str, &str); 5] = [
    ("POST", "/v1/imports/dry-run"),
    ("POST", "/v1/sessions/{session}/compactions/dry-run"),
    ("POST", "/v1/sessions/{session}/turns/estimate"),
    ("POST", "/v1/agents/{agent}/check"),
    ("POST", "/sessions/{session}/estimate"),
];

/// Whether a route changes nothing despite its method.
pub(super) fn only_reads(method: &Method, route: &str) -> bool {
    READS.contains(&(method.as_str(), route))
}

pub(super) fn pattern(method: &Method, path: &str) -> Option<&'static str> {
    let matches = |pattern: &str| {
        let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
        loop {
            match (pattern.next(), path.next()) {
                (None, None) => return true,
                (Some(part), Some(given)) if part == given => {}
                (Some(part), Some(given)) if part.starts_with('{') && !given.is_empty() => {}
                _ => return false,
            }
        }
    };
    let method = match *method {
        Method::HEAD => "GET",
        ref method => method.as_str(),
    };
    let of_method = SCOPES.iter().filter(|(_, of, _)| *of == method);
    let paths = of_method.flat_map(|(.., paths)| paths.iter().copied());
    // An exact pattern precedes a pattern with parameters.
    let exact = |pattern: &&str| *pattern == path;
    let found = paths.clone().find(exact);
    found.or_else(|| paths.clone().find(|pattern| matches(pattern)))
}

/// The scope of a method and a path pattern; none: it is not in the table.
pub(super) fn listed(method: &str, path: &str) -> Option<Scope> {
    let mut all = SCOPES.iter();
    let found = all.find(|(_, of, paths)| *of == method && paths.contains(&path));
    found.map(|(scope, ..)| *scope)
}

/// The scope that a path in the table requires.
pub(super) fn needed(method: &Method, path: &str) -> Option<Scope> {
    listed(method.as_str(), pattern(method, path)?)
}

fn required(method: &Method, path: &str) -> Scope {
    // Operations of A2A check their own scopes: JSON-RPC has one address for all of them.
    if a2a::is_under(path) {
        return Scope::Read;
    }
    let method = match *method {
        Method::HEAD => "GET",
        ref method => method.as_str(),
    };
    listed(method, path).unwrap_or(Scope::Admin)
}

/// Refuses a request that its caller's scope does not cover.
pub(super) async fn check(
    State(shared): State<Arc<Shared>>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    Note::from_extensions(request.extensions()).set_route(path.as_str());
    // A route without a token requires no scope.
    if guard::is_free(request.uri().path()) {
        return next.run(request).await;
    }
    match shared
        .local
        .check_scope(required(request.method(), path.as_str()))
    {
        Ok(()) => next.run(request).await,
        Err(refused) => problem::format_for(request.uri(), ApiError::from(refused)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::openai;
    use super::*;

    /// Described paths that require no token or another secret.
    const FREE: [&str; 4] = [
        "/healthz",
        "/readyz",
        "/problems/{code}",
        "/v1/triggers/{trigger}",
    ];

    fn described() -> BTreeSet<(String, String)> {
        let description: serde_json::Value =
            serde_json::from_str(&super::super::description()).unwrap();
        let paths = description["paths"].as_object().unwrap();
        let each = paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(|method| (method.to_uppercase(), path.clone()))
        });
        each.filter(|(_, path)| !FREE.contains(&path.as_str()))
            .collect()
    }

    #[test]
    fn every_route_of_the_description_has_a_scope() {
        let described = described();
        assert!(described.len() > 60, "{}", described.len());
        for (method, path) in &described {
            assert!(listed(method, path).is_some(), "{method} {path}");
        }
    }

    #[test]
    fn the_table_names_each_route_once_and_no_other_route() {
        let described = described();
        let mut seen = BTreeSet::new();
        for (_, method, paths) in SCOPES {
            for path in *paths {
                assert!(seen.insert((method, path)), "{method} {path} twice");
                let is_described = path.starts_with("/v1/")
                    || path.starts_with(openai::BASE)
                    || *path == "/metrics";
                if is_described && *path != "/v1/openapi.json" {
                    let known = described.contains(&((*method).to_owned(), (*path).to_owned()));
                    assert!(known, "{method} {path}");
                }
            }
        }
    }

    #[test]
    fn read_only_routes_are_in_the_table_and_a_path_has_its_pattern() {
        for (method, path) in READS {
            assert!(listed(method, path).is_some(), "{path}");
        }
        for (path, expected) in rows! {
            ("/v1/tokens", Some("/v1/tokens")),
            ("/v1/sessions/x/turns", Some("/v1/sessions/{session}/turns")),
            ("/v1/agents/reload", Some("/v1/agents/reload")),
            ("/v1/sessions//turns", None),
            ("/v1/nothing", None),
            ("/a2a", Some("/a2a")),
            ("/a2a/tasks/x:cancel", Some("/a2a/tasks/{task}")),
            ("/a2a/agents/x/message:send", Some("/a2a/agents/{agent}/message:send")),
            ("/a2a/nothing", None),
        } {
            assert_eq!(pattern(&Method::POST, path), expected, "{path}");
        }
    }

    #[test]
    fn a_login_leads_to_every_page() {
        // Files, and a part of a page.
        let not_opened = [
            "/approvals/count",
            "/blobs/{digest}",
            "/sessions/{session}/export/file",
        ];
        let read = SCOPES.iter().filter(|(_, method, _)| *method == "GET");
        for path in read.flat_map(|(.., paths)| paths.iter().copied()) {
            let is_opened = unisono_web::is_page(path) && !not_opened.contains(&path);
            assert_eq!(unisono_web::is_opened(path), is_opened, "{path}");
        }
    }

    #[test]
    fn a_check_of_an_agent_requires_the_scope_that_saves_it() {
        let [check, save] = [
            (Method::POST, "/v1/agents/{agent}/check"),
            (Method::PUT, "/v1/agents/{agent}"),
        ]
        .map(|(method, path)| required(&method, path));
        assert_eq!((check, save), (Scope::Admin, Scope::Admin));
    }

    #[test]
    fn an_unknown_route_requires_admin() {
        assert_eq!(required(&Method::GET, "/v1/new"), Scope::Admin);
        assert_eq!(required(&Method::POST, "/v1/search"), Scope::Admin);
        assert_eq!(required(&Method::HEAD, "/v1/sessions"), Scope::Read);
        assert_eq!(required(&Method::POST, "/a2a/"), Scope::Read);
        assert_eq!(required(&Method::GET, "/a2a/tasks"), Scope::Read);
    }
}
