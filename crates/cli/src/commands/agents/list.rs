//! `unisono agents list`.

use serde_json::{Value, json};
use unisono_daemon::agents::Agent;
use unisono_session::agent::Kind;

use crate::app::App;
use crate::problem::Result;
use crate::show;

/// Longest description shown in a list.
const DESCRIPTION_CHARS: usize = 90;

#[derive(Debug, clap::Args)]
#[command(after_help = "JSON: a list of {agent, kind, model, description, tools, tags, origin}.")]
pub(crate) struct Args {}

pub(crate) fn run(app: &App, _: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let agents = setup.roster.iter();
    if app.out.json {
        app.out.json(&agents.map(json).collect::<Vec<_>>());
    } else {
        let rows = agents.map(row).collect();
        app.out.data(show::table(
            &["AGENT", "KIND", "MODEL", "FROM", "FOR"],
            &[],
            rows,
        ));
    }
    Ok(())
}

/// What carries it out, as definitions write it.
pub(super) fn kind(kind: &Kind) -> &str {
    match kind {
        Kind::Llm => "llm",
        Kind::Command(_) => "command",
        Kind::Custom(name) => name,
    }
}

fn row(agent: &Agent) -> Vec<String> {
    let definition = &agent.definition;
    vec![
        definition.id.to_string(),
        kind(&definition.kind).to_owned(),
        definition.model.to_string(),
        agent.origin.to_string(),
        show::line(&definition.description, DESCRIPTION_CHARS),
    ]
}

pub(super) fn json(agent: &Agent) -> Value {
    let definition = &agent.definition;
    json!({
        "agent": definition.id.to_string(),
        "kind": kind(&definition.kind),
        "model": definition.model,
        "description": definition.description,
        "tools": definition.tools,
        "tags": definition.tags,
        "origin": agent.origin.to_string(),
    })
}
