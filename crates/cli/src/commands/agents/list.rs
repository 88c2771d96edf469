//! `unisono agents list`.

use unisono_api::agent::{Agent, AgentQuery};

use crate::app::App;
use crate::problem::Result;
use crate::show;

/// Longest description shown in a list.
const DESCRIPTION_CHARS: usize = 90;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "JSON: a list of {agent, description, kind, model (null: its kind uses none), tools, tags,\n\
                  origin, role (lead, delegate or available in a turn as it is configured, or null)}."
)]
pub(crate) struct Args {}

pub(crate) async fn run(app: &App, _: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let service = app.configured(&setup)?;
    let agents = service.agents(&AgentQuery::default()).await?;
    let header = ["AGENT", "KIND", "MODEL", "FROM", "FOR"];
    let table = show::table(&header, &[], agents.iter().map(row).collect());
    app.out.result(&agents, table);
    Ok(())
}

fn row(agent: &Agent) -> Vec<String> {
    let description = show::line(&agent.description, DESCRIPTION_CHARS);
    vec![
        agent.agent.clone(),
        agent.kind.clone(),
        agent.model.clone().unwrap_or_default(),
        agent.origin.clone(),
        description,
    ]
}
