//! `unisono agents list`.

use serde_json::{Value, json};
use unisono_config::agents::Agent;

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

fn row(agent: &Agent) -> Vec<String> {
    let definition = &agent.definition;
    vec![
        definition.id.to_string(),
        definition.kind.name().to_owned(),
        definition.model.to_string(),
        agent.origin.to_string(),
        show::line(&definition.description, DESCRIPTION_CHARS),
    ]
}

pub(super) fn json(agent: &Agent) -> Value {
    let definition = &agent.definition;
    json!({
        "agent": definition.id.to_string(),
        "kind": definition.kind.name(),
        "model": definition.model,
        "description": definition.description,
        "tools": definition.tools,
        "tags": definition.tags,
        "origin": agent.origin.to_string(),
    })
}
