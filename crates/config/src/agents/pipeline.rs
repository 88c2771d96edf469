//! Agents that work one after the other before another one answers: `pipeline = ["outline",
//! "draft", "review=Check it against the outline"]`.

use unisono_context::AgentId;
use unisono_session::agent::Stage;

use super::files::{Item, Source};
use super::team::agent_of;
use crate::diagnostic::{Diagnostic, Diagnostics};

const KEY: &str = "pipeline";
/// The kind of an agent that has only a pipeline.
pub(super) const KIND: &str = "pipeline";

/// The stages in their order, each `agent` or `agent=task`.
pub(super) fn stages(source: &Source) -> Vec<Stage> {
    let stage = |item: Item<'_>| Stage {
        agent: AgentId::from(agent_of(item.text)),
        task: task_of(item.text).map(Into::into),
    };
    source.texts(KEY).map(stage).collect()
}

/// Whether an agent without a kind has only a pipeline: without instructions it adds nothing to the
/// result of the last stage.
pub(super) fn alone(source: &Source) -> bool {
    let instructions = source.text("instructions").unwrap_or_default();
    source.table.entry(KEY).is_some() && instructions.trim().is_empty()
}

/// Errors of the pipeline of an agent, or of its absence.
pub(super) fn check(source: &Source, all: &[Source], known: &[&str], found: &mut Diagnostics) {
    let id = &source.id;
    if source.table.entry(KEY).is_none() {
        if source.text("kind") == Some(KIND) {
            let problem = format!("agent `{id}` of kind `{KIND}` has no `{KEY}`");
            let help = "name the agents that work one after the other";
            found.push(
                Diagnostic::error(source.key_place("kind"), problem)
                    .with_key("kind")
                    .help(help),
            );
        }
        return;
    }
    let error = |problem: String| Diagnostic::error(source.key_place(KEY), problem).with_key(KEY);
    if source.texts(KEY).next().is_none() && !found.has(&source.place.origin, KEY) {
        let problem = format!("the pipeline of agent `{id}` is empty");
        found.push(error(problem).help("name at least one agent, or leave the key out"));
    }
    if source.texts("delegates").next().is_some() {
        let problem = format!("agent `{id}` has both `delegates` and a `{KEY}`");
        let help = "delegates work side by side, a pipeline one after the other: leave one out";
        found.push(error(problem).help(help));
    }
    for item in source.texts(KEY) {
        if let Some(diagnostic) = wrong(source, &item, all, known) {
            found.push(diagnostic.with_key(KEY));
        }
    }
}

/// Errors of one stage.
fn wrong(source: &Source, item: &Item<'_>, all: &[Source], known: &[&str]) -> Option<Diagnostic> {
    let (id, name) = (&source.id, agent_of(item.text));
    let error = |problem: String| Diagnostic::error(item.place.clone(), problem);
    if name.is_empty() || task_of(item.text).is_some_and(str::is_empty) {
        let problem = format!("`{}` must be an agent, or agent=task", item.text);
        return Some(error(problem));
    }
    if name == id.as_str() {
        let problem = format!("agent `{id}` names itself in its pipeline");
        let help = "it answers when all stages have ended; they need not name it";
        return Some(error(problem).help(help));
    }
    if !known.contains(&name) {
        let problem = format!("the pipeline of agent `{id}` names an unknown agent `{name}`");
        return Some(error(problem).suggest(name, known.iter().copied()));
    }
    // This makes circles impossible.
    has(all, name).then(|| {
        let problem = format!(
            "the pipeline of agent `{id}` names agent `{name}`, which has its own pipeline"
        );
        error(problem).help(instead(name))
    })
}

/// Whether the agent of that name has a pipeline: only a lead can use one.
pub(super) fn has(all: &[Source], name: &str) -> bool {
    let mut named = all.iter().filter(|source| source.id.as_str() == name);
    named.any(|source| source.table.entry(KEY).is_some())
}

/// The remedy for a task to an agent with a pipeline.
pub(super) fn instead(name: &str) -> String {
    format!("name the agents of its pipeline in place of `{name}`")
}

fn task_of(stage: &str) -> Option<&str> {
    stage.split_once('=').map(|(_, task)| task.trim())
}
