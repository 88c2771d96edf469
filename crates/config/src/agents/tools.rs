//! The tools of an agent, and its approval rules.

use std::sync::Arc;

use unisono_context::AgentId;
use unisono_runtime::mcp::{server_of, shown_name};
use unisono_session::agent::AgentKind;
use unisono_session::tool::ApprovalRule;

use super::files::Source;
use super::{DEFAULT_TOOLS, TOOLS};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity, nearest, suggestion};
use crate::settings::{Tools, mcp};

/// Its tools, sorted, as patterns: the named tools, by default the read-only ones for a model; all
/// tools of its servers; denied tools with a leading `!`.
pub(super) fn allowed(
    source: &Source,
    kind: &AgentKind,
    known: &Tools,
    found: &mut Diagnostics,
) -> Vec<Arc<str>> {
    for key in ["tools", "deny_tools"] {
        for item in source.texts(key).filter(|item| !is_known(item.text, known)) {
            let name = item.text;
            let problem = format!("agent `{}` names an unknown tool `{name}`", source.id);
            let mut diagnostic = Diagnostic::error(item.place.clone(), problem).with_key(key);
            let server = server_of(name);
            if key == "deny_tools" && server.is_some_and(|server| !is_mistyped(server, known)) {
                // An editor may bring the server.
                diagnostic.severity = Severity::Warning;
            }
            diagnostic.help = match server {
                Some(server) => Some(unknown_server_of(server, known)),
                None => {
                    let own = known.own.iter().map(String::as_str);
                    suggestion(name, TOOLS.into_iter().chain(own))
                }
            };
            found.push(diagnostic);
        }
    }
    for item in source
        .texts("mcp_servers")
        .filter(|item| !known.has(item.text))
    {
        let name = item.text;
        let problem = format!(
            "agent `{}` names an unknown tool server `{name}`",
            source.id
        );
        let mut diagnostic = Diagnostic::error(item.place.clone(), problem).with_key("mcp_servers");
        diagnostic.help = unknown_server(name, known);
        found.push(diagnostic);
    }
    let named: Vec<&str> = match (source.table.entry("tools"), kind) {
        (Some(_), _) => source.texts("tools").map(|item| item.text).collect(),
        (None, AgentKind::Llm) => DEFAULT_TOOLS.to_vec(),
        (None, _) => Vec::new(),
    };
    let denied: Vec<&str> = source.texts("deny_tools").map(|item| item.text).collect();
    let named = named.into_iter().filter(|name| !denied.contains(name));
    let servers = source.texts("mcp_servers");
    let servers = servers.map(|item| Arc::from(format!("{}__*", item.text)));
    let outside = denied.iter().filter(|name| server_of(name).is_some());
    let outside = outside.map(|name| Arc::from(format!("!{}", shown_name(name))));
    let named = named.map(|name| Arc::from(shown_name(name)));
    let mut tools: Vec<Arc<str>> = named.chain(servers).chain(outside).collect();
    tools.sort();
    tools.dedup();
    tools
}

/// Whether it is a built-in tool, a tool of the program, or one of a configured server, whose tools
/// are listed when the server is asked.
fn is_known(name: &str, known: &Tools) -> bool {
    let inside = TOOLS.contains(&name) || known.own.contains(name);
    inside || server_of(name).is_some_and(|server| known.has(server))
}

/// Whether an unknown server is rather a configured one with a wrong name: then a tool that was to be
/// denied is not. An editor's server with the name of a configured one has a number at its end.
fn is_mistyped(server: &str, known: &Tools) -> bool {
    let names = known.names.iter().map(String::as_str);
    nearest(server, names).is_some_and(|similar| !server.starts_with(similar))
}

/// What to do about a tool of an unknown server. The tools of servers are unknown until a server is
/// asked, so only servers can be named.
fn unknown_server_of(server: &str, known: &Tools) -> String {
    let names: Vec<&str> = known.names.iter().map(String::as_str).collect();
    match nearest(server, names.iter().copied()) {
        Some(similar) => format!("did you mean the tool server `{similar}`?"),
        None if names.is_empty() => format!("configure its server as [mcp.{server}]"),
        None => format!("known tool servers are: {}", names.join(", ")),
    }
}

fn unknown_server(name: &str, known: &Tools) -> Option<String> {
    let names = known.names.iter().map(String::as_str);
    suggestion(name, names).or_else(|| Some(format!("configure it as [mcp.{name}]")))
}

pub(super) fn approvals(
    source: &Source,
    known: &Tools,
    found: &mut Diagnostics,
) -> Vec<ApprovalRule> {
    let mut rules = Vec::new();
    for item in source.texts("approve") {
        match mcp::rule(item.text, &known.own) {
            Ok(rule) => rules.push(ApprovalRule {
                agent: Some(AgentId::from(source.id.as_str())),
                ..rule
            }),
            Err(wrong) => {
                found.push(Diagnostic::error(item.place.clone(), wrong).with_key("approve"));
            }
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_an_unknown_server_is_answered_with_servers() {
        let known = |names: &[&str]| {
            let mut tools = Tools::default();
            tools.names = names.iter().map(|name| (*name).to_owned()).collect();
            tools
        };
        let rows = [
            (known(&[]), "configure its server as [mcp.nothing]"),
            (known(&["mail"]), "known tool servers are: mail"),
            (
                known(&["mail", "nothings"]),
                "did you mean the tool server `nothings`?",
            ),
        ];
        for (known, help) in rows {
            assert_eq!(unknown_server_of("nothing", &known), help);
        }
    }
}
