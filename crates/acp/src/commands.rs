//! Slash commands: prompts that begin with `/name`.

use serde_json::{Value, json};
use unisono_api::agent::AgentQuery;
use unisono_api::compaction::NewCompaction;
use unisono_api::context::ContextQuery;
use unisono_api::service::Service;
use unisono_api::turn::TurnRequest;

use crate::client::Error;
use crate::protocol::{AvailableCommand, CommandInput, Update};

/// The commands: name, description, and a hint about the input if there may be one.
const ALL: [(&str, &str, Option<&str>); 3] = [
    (
        "compact",
        "Summarises the older messages of the conversation.",
        Some("instructions for the summary"),
    ),
    (
        "context",
        "Shows the parts and the occupancy of the context.",
        None,
    ),
    ("agents", "Lists the agents and their roles.", None),
];

#[derive(Debug)]
pub(crate) enum Command {
    Turn(Box<TurnRequest>),
    /// The sizes of the context.
    Context,
    Agents,
}

/// All commands, for the editor.
pub(crate) fn available() -> Update {
    let each = ALL.map(|(name, description, hint)| AvailableCommand {
        name,
        description,
        input: hint.map(|hint| CommandInput { hint }),
    });
    Update::AvailableCommands {
        available_commands: each.to_vec(),
    }
}

/// The command of a prompt; none for an ordinary prompt, such as a text that begins with a path, or
/// with a command without input followed by text.
pub(crate) fn read(text: &str) -> Option<Command> {
    let text = text.strip_prefix('/')?;
    let (name, input) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let input = input.trim();
    match name {
        "compact" => {
            let instructions = (!input.is_empty()).then(|| Value::from(input));
            let new: NewCompaction =
                serde_json::from_value(json!({"instructions": instructions})).ok()?;
            Some(Command::Turn(TurnRequest::Compact(new).into()))
        }
        "context" if input.is_empty() => Some(Command::Context),
        "agents" if input.is_empty() => Some(Command::Agents),
        _ => None,
    }
}

/// The sizes of the context of a session, as Markdown.
pub(crate) async fn context(service: &dyn Service, session: &str) -> Result<String, Error> {
    let context = service.context(session, &ContextQuery::default()).await?;
    let about = if context.approximate { "about " } else { "" };
    let messages: u64 = context.messages.iter().map(|entry| entry.tokens).sum();
    let summaries: u64 = context.summaries.iter().map(|summary| summary.tokens).sum();
    let mut text = format!(
        "{about}{} of {} tokens are used ({} %)\n\n",
        context.used_tokens, context.usable_tokens, context.occupancy_percent
    );
    let rows = [
        ("messages", context.messages.len(), messages),
        ("summaries", context.summaries.len(), summaries),
        ("tools", context.tools.len(), context.tools_tokens),
        ("system text", 1, context.system_tokens),
    ];
    for (what, count, tokens) in rows {
        text.push_str(&format!("- {count} {what}: {tokens} tokens\n"));
    }
    Ok(text)
}

/// The agents of a session, as Markdown.
pub(crate) async fn agents(service: &dyn Service, session: &str) -> Result<String, Error> {
    let query = AgentQuery {
        session: Some(session.to_owned()),
        ..AgentQuery::default()
    };
    let agents = service.agents(&query).await?;
    let lines = agents.iter().map(|agent| {
        let role = agent.role.as_deref();
        let role = role.map(|role| format!(" ({role})")).unwrap_or_default();
        format!("- {}{role}: {}\n", agent.agent, agent.description)
    });
    Ok(lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_a_command_only_if_it_is_exactly_one() {
        for (text, expected) in [
            ("/context", Some("Context")),
            ("/agents ", Some("Agents")),
            ("/compact", Some("instructions: None")),
            (
                "/compact keep\nthe numbers",
                Some("instructions: Some(\"keep\\nthe numbers\")"),
            ),
            ("/context of the letter", None),
            ("/compactness", None),
            ("/etc/hosts is wrong", None),
            ("what is /context", None),
            ("/", None),
        ] {
            let read = read(text).map(|command| format!("{command:?}"));
            match expected {
                None => assert_eq!(read, None, "{text}"),
                Some(part) => assert!(read.clone().is_some_and(|r| r.contains(part)), "{read:?}"),
            }
        }
    }
}
