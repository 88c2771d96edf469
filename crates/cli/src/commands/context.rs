//! `unisono context`: what the model sees, section by section.

mod object;
mod text;

use std::sync::Arc;

use serde_json::Value;
use unisono_api::client::Client;
use unisono_api::context::Context;
use unisono_api::turn::Asked;
use unisono_context::policy::Policy;
use unisono_context::{SessionId, Tokens};
use unisono_daemon::ask::{self, Ask};
use unisono_daemon::context::{self, told};
use unisono_daemon::models;
use unisono_daemon::setup::Setup;
use unisono_runtime::mcp;
use unisono_session::State;
use unisono_session::agent::Team;
use unisono_session::state::MAIN;

use super::sessions::branch::unknown_branch;
use crate::app::App;
use crate::host::Where;
use crate::problem::Result;
use crate::topics;

const HELP: &str = "\
The bar is orange from 80 % and red from 95 % of what is usable. The snapshot id is the one a turn
without new input would freeze: equal content has an equal id, on every machine.

JSON: session, branch, snapshot, encoding, window_tokens, usable_tokens, used_tokens,
occupancy_percent, approximate, exact_tokens (with --exact: by the provider, persona included), system {tokens, text}, tools [{name, description}], tools_tokens,
summaries [{checkpoint, first, last, messages, tokens, model, text}],
topics [{first, last, messages, ended_by (phrase, silence, share, person or null), standing
(verbatim, summarised or in part)}], tiers [{name, tokens, share_tokens}] of the preset tiered,
messages [{ordinal, role, author, tokens, pinned, form (masked, cut or null), text}].

Examples:
  unisono context latest
  unisono context latest --full | less";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    #[arg(default_value = "latest")]
    session: String,
    /// The branch
    #[arg(long, default_value = MAIN)]
    branch: String,
    /// Shows whole texts instead of their first line
    #[arg(long)]
    full: bool,
    /// Also asks the provider of the lead's model how many tokens it has
    #[arg(long)]
    exact: bool,
}

/// All that is shown.
pub(super) struct Shown {
    context: Context,
    topics: Vec<Value>,
    /// What the provider counts for all of it and the lead's persona, where it was asked.
    exact: Option<Tokens>,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let ask = Ask::new("").branch(args.branch.as_str());
    let store = app.store_or_nothing(&setup).await?;
    let sessions = store.sessions();
    let id = sessions.find(&args.session).await?;
    let mut state = sessions.state(id).await?;
    let context = match &store {
        Where::Here(_) => of_here(&mut state, &setup, &ask)?,
        Where::There(client) => of_daemon(client, id, &ask).await?,
    };
    sessions.close().await?;
    let mut shown = Shown::new(&state, &args.branch, context)?;
    if args.exact {
        shown.exact = counted(app, &mut state, &setup, &ask).await?;
    }
    if let Where::Here(_) = store {
        for server in unasked(&ask.team(&setup)?, &shown) {
            app.out.warn(format_args!(
                "the tools of `{server}` are not counted: no turn of this session has asked it yet"
            ));
        }
    }
    shown.print(app, &state, args.full);
    Ok(())
}

/// What the provider of the lead's model counts; none, and a word about it, where it does not.
async fn counted(app: &App, state: &mut State, setup: &Setup, ask: &Ask) -> Result<Option<Tokens>> {
    let team = ask.team(setup)?;
    let (_, context) = seen(state, setup, ask)?;
    match models::count(setup, &team.lead, Arc::new(context.snapshot)).await {
        Ok(Some(exact)) => return Ok(Some(exact)),
        Ok(None) => {
            let model = &team.lead.model;
            app.out.warn(format_args!(
                "{model} cannot be asked how many tokens a text has"
            ));
        }
        Err(error) => app
            .out
            .warn(format_args!("not counted by the provider: {error}")),
    }
    Ok(None)
}

/// What is seen of a branch by those who would be asked here, counted.
pub(crate) fn of_here(state: &mut State, setup: &Setup, ask: &Ask) -> Result<Context> {
    let (policy, shown) = seen(state, setup, ask)?;
    Ok(told::told(&shown, state, ask.on_branch(), &policy))
}

/// The same of those whom a daemon would ask: its agents and settings are its own.
pub(crate) async fn of_daemon(client: &Client, id: SessionId, ask: &Ask) -> Result<Context> {
    let (lead, agents) = match ask.request() {
        Asked::Task(new) => (new.lead, new.agents),
        _ => (None, None),
    };
    let names = agents.map(|agents| {
        let names = agents.iter().map(|agent| match agent.split_once('=') {
            Some((name, _)) => name,
            None => agent,
        });
        names.collect::<Vec<_>>().join(",")
    });
    let (lead, names) = (lead.as_deref(), names.as_deref());
    Ok(client
        .context(&id.to_string(), ask.on_branch(), lead, names)
        .await?)
}

fn seen(state: &mut State, setup: &Setup, ask: &Ask) -> Result<(Policy, context::Shown)> {
    let team = ask.team(setup)?;
    let (policy, safety) = ask::policy(setup, &team);
    let head = state.tree().head(ask.on_branch());
    let head = head.ok_or_else(|| unknown_branch(state, ask.on_branch()))?;
    let shown = context::Shown::new(state, head, &team, (&policy, safety))?;
    Ok((policy, shown))
}

/// The servers whose tools the team may call, and that nothing is known of here.
fn unasked<'t>(team: &'t Team, shown: &Shown) -> Vec<&'t str> {
    let tools = shown.context.tools.iter();
    let known: Vec<&str> = tools
        .filter_map(|tool| mcp::server_of(&tool.name))
        .collect();
    let servers = ask::servers_of(team).into_iter();
    servers.filter(|server| !known.contains(server)).collect()
}

impl Shown {
    /// The context of a branch, with its topics.
    pub(super) fn new(state: &State, branch: &str, context: Context) -> Result<Shown> {
        let head = state.tree().head(branch);
        let view = head.and_then(|head| state.view(head, false));
        let view = view.ok_or_else(|| unknown_branch(state, branch))?;
        Ok(Shown {
            topics: topics::json(state, branch, &view),
            context,
            exact: None,
        })
    }

    /// Prints it; `full`: whole texts instead of their first line.
    pub(super) fn print(&self, app: &App, state: &State, full: bool) {
        if app.out.json {
            app.out.json(&object::json(self));
        } else {
            app.out.data(text::text(self, state, app.out.paint, full));
        }
    }
}
