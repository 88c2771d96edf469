//! The keys of a coding agent.

use std::sync::Arc;

use unisono_session::agent::{Acp, AgentKind, ToolKind};

use super::define::{no_address_keys, no_card_keys, no_model_keys, program, texts_by_name};
use super::files::Source;
use super::http::contract;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::Value;

/// A coding agent, if it names its program and the kinds of calls are known.
pub(super) fn coding_agent(source: &Source, found: &mut Diagnostics) -> Option<AgentKind> {
    no_model_keys(source, "acp", found);
    no_address_keys(source, "acp", found);
    no_card_keys(source, "acp", found);
    let command = program(source, "acp", found);
    let allow = match source.table.entry("allow") {
        Some(_) => kinds(source, "allow", found),
        None => Some(ToolKind::DEFAULT.to_vec()),
    };
    let deny = kinds(source, "deny", found);
    Some(AgentKind::Acp(Acp {
        command: command?,
        worktree: matches!(
            source.table.get("worktree").map(|node| &node.value),
            Some(Value::Bool(true))
        ),
        allow: allow?,
        deny: deny?,
        contract: contract(source),
        options: texts_by_name(source, "options"),
        login: source.text("login").map(Arc::from),
    }))
}

/// The kinds of tool calls in a list, each once.
fn kinds(source: &Source, key: &str, found: &mut Diagnostics) -> Option<Vec<ToolKind>> {
    let (mut kinds, mut is_usable) = (Vec::new(), true);
    for item in source.texts(key) {
        match ToolKind::from_name(item.text) {
            Some(kind) if kinds.contains(&kind) => {}
            Some(kind) => kinds.push(kind),
            None => {
                let unknown = item.text;
                let problem = format!(
                    "agent `{}`: `{key}` has an unknown kind `{unknown}`",
                    source.id
                );
                let diagnostic = Diagnostic::error(item.place.clone(), problem).with_key(key);
                found.push(
                    diagnostic.suggest(unknown, ToolKind::ALL.into_iter().map(ToolKind::name)),
                );
                is_usable = false;
            }
        }
    }
    is_usable.then_some(kinds)
}
