//! What every dialect's tail says in words: who the agent is, what it may use, what it is to do.

use std::fmt::Write as _;

use crate::language::Request;
use crate::prompt::{Group, Outcome};

/// The text of the message that follows the shared context: persona, tools, colleagues, task,
/// what delegates brought back.
pub(super) fn assignment(request: &Request) -> String {
    let mut out = String::new();
    if !matches!(request.group, Group::Own(_)) {
        persona(&mut out, request);
    }
    tools(&mut out, request);
    colleagues(&mut out, request);
    let _ = write!(out, "# Task\n\n{}", request.task);
    for delegated in request.results.iter() {
        let _ = write!(
            out,
            "\n\n# Result of {}\n\nIts task was: {}\n\n",
            delegated.agent, delegated.task
        );
        let _ = match &delegated.outcome {
            Outcome::Complete(text) => write!(out, "{text}"),
            Outcome::Partial { text, missing } => write!(out, "{text}\n\n[incomplete: {missing}]"),
            Outcome::Failed(reason) => write!(out, "[failed: {reason}]"),
        };
    }
    out
}

/// What the system text begins with for an agent whose prefix is its own.
pub(super) fn own_system(persona: &crate::prompt::Persona) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "You are the agent \"{}\": {}",
        persona.agent, persona.description
    );
    if !persona.instructions.trim().is_empty() {
        let _ = write!(out, "\n\n{}", persona.instructions.trim());
    }
    out
}

fn persona(out: &mut String, request: &Request) {
    let _ = write!(out, "# Your role\n\n{}\n\n", own_system(&request.persona));
}

fn tools(out: &mut String, request: &Request) {
    if request.tools.is_empty() {
        return;
    }
    let _ = match &request.allowed[..] {
        [] => write!(
            out,
            "You may not call tools: answer from what you know.\n\n"
        ),
        allowed => write!(
            out,
            "Of the tools you may call: {}.\n\n",
            allowed.join(", ")
        ),
    };
}

fn colleagues(out: &mut String, request: &Request) {
    if request.colleagues.is_empty() {
        return;
    }
    out.push_str("You may delegate to these agents, several at once; each sees this conversation as you do:\n");
    for colleague in request.colleagues.iter() {
        let _ = writeln!(out, "- {}: {}", colleague.agent, colleague.description);
    }
    out.push('\n');
}
