//! `unisono context`: what the model sees, section by section.

mod object;
mod text;

use std::sync::Arc;

use serde_json::Value;
use unisono::ask::{self, Ask};
use unisono::context::{self, sections};
use unisono::models;
use unisono_api::agent::Whom;
use unisono_api::context::Context;
use unisono_api::turn::{Asked, Settings};
use unisono_client::Client;
use unisono_config::setup::Setup;
use unisono_context::SessionId;
use unisono_context::policy::Policy;
use unisono_model::calibration::Calibrations;
use unisono_runtime::Extensions;
use unisono_runtime::mcp;
use unisono_session::State;
use unisono_session::agent::Team;
use unisono_session::state::MAIN;

use super::sessions::branch::unknown_branch;
use crate::app::App;
use crate::host::{Where, flags, learnt_here};
use crate::problem::Result;
use crate::show;
use crate::topics;

const HELP: &str = "\
The bar is orange from 80 % and red from 95 % of what is usable. The line `usable` divides the
window, and names the agent that leaves least, where that is not the lead. The snapshot id is the
one a turn without new input would freeze: equal content has an equal id, on every machine.

JSON: session, branch, snapshot, encoding, window_tokens, usable_tokens, usable [{agent, lead,
model, encoding, window_tokens, reply_tokens, safety_tokens, preamble_tokens (system and tools),
assignment_tokens (persona and task), results_tokens (of delegates), calibration_tokens,
usable_tokens}] (by encoding, of the agent that leaves least), used_tokens, occupancy_percent,
approximate, exact_tokens (with --exact: by the provider, persona included), system {tokens, text},
tools [{name, description}], tools_tokens, summaries [{checkpoint, first, last, messages, tier
(conversation, topic, bulk), tokens, tokens_before, compression_ratio, tightened, at, model, text}],
topics [{first, last, messages, title, started_at, last_at, sealed_at, summary (the number of its
checkpoint), ended_by (phrase, silence, share, person or null), standing (verbatim, summarised or in
part)}], tiers [{name, tokens, share_tokens}] of the preset tiered, messages [{ordinal, role, author, tokens, pinned, form (masked, cut or null), text}].

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
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let ask = Ask::new("").branch(args.branch.as_str());
    let store = app.store_to_read(&setup).await?;
    let sessions = store.sessions();
    let id = sessions.find(&args.session).await?;
    let mut state = sessions.state(id).await?;
    if context::tip(&state, &args.branch).is_none() {
        return Err(unknown_branch(&state, &args.branch));
    }
    let setup = store.setup_of(app, &setup, &state)?;
    let context = match &store {
        Where::Here(_) if args.exact => {
            counted(&mut state, (&setup, &app.extensions), &ask).await?
        }
        Where::Here(_) => of_here(&mut state, (&setup, &learnt_here(&setup)), &ask)?,
        Where::There(client) => {
            let ask = ask.clone().with_settings(flags(&setup));
            of_daemon(client, id, &ask, args.exact).await?
        }
    };
    sessions.close().await?;
    if let Some(why) = &context.not_exact {
        app.out.warn(why);
    }
    let shown = Shown::new(&state, &args.branch, context)?;
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

/// The same as [`of_here`], counted by the provider of the lead's model too.
async fn counted(
    state: &mut State,
    (setup, extensions): (&Setup, &Extensions),
    ask: &Ask,
) -> Result<Context> {
    let team = ask.team(setup)?;
    let (policy, shown) = seen(state, (setup, &learnt_here(setup)), ask)?;
    let told = sections::to_api(&shown, state, ask.on_branch(), &policy);
    let exact = models::count(setup, extensions, &team.lead, Arc::new(shown.snapshot)).await;
    Ok(told.counted(exact))
}

/// What is seen of a branch by those who would be asked here, counted.
pub(crate) fn of_here(
    state: &mut State,
    by: (&Setup, &Calibrations),
    ask: &Ask,
) -> Result<Context> {
    let (policy, shown) = seen(state, by, ask)?;
    Ok(sections::to_api(&shown, state, ask.on_branch(), &policy))
}

/// The same of those whom a daemon would ask: its agents and settings are its own.
pub(crate) async fn of_daemon(
    client: &Client,
    id: SessionId,
    ask: &Ask,
    exact: bool,
) -> Result<Context> {
    let (id, branch) = (id.to_string(), ask.on_branch());
    Ok(client.context(&id, branch, &whom(ask), exact).await?)
}

/// Who is asked, and with which settings: of an agent its name alone.
pub(crate) fn whom(ask: &Ask) -> Whom {
    let (lead, agents, settings) = match ask.request() {
        Asked::Task(new) => (new.lead, new.agents, new.settings),
        _ => (None, None, Settings::default()),
    };
    let names = agents.map(|agents| {
        let names = agents.iter().map(|agent| match agent.split_once('=') {
            Some((name, _)) => name,
            None => agent,
        });
        names.collect::<Vec<_>>().join(",")
    });
    Whom {
        session: None,
        lead,
        agents: names,
        settings,
    }
}

fn seen(
    state: &mut State,
    (setup, learnt): (&Setup, &Calibrations),
    ask: &Ask,
) -> Result<(Policy, context::Shown)> {
    let by = ask.measured_by(setup, learnt)?;
    let head = context::tip(state, ask.on_branch());
    let head = head.ok_or_else(|| unknown_branch(state, ask.on_branch()))?;
    let shown = context::Shown::new(state, head, &by)?;
    Ok((by.policy, shown))
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
        if context::tip(state, branch).is_none() {
            return Err(unknown_branch(state, branch));
        }
        Ok(Shown {
            topics: topics::json(state, branch),
            context,
        })
    }

    /// Prints it; `full`: whole texts instead of their first line.
    pub(super) fn print(&self, app: &App, state: &State, full: bool) {
        if app.out.json {
            app.out.json(&object::json(self));
        } else {
            let text = text::text(self, state, app.out.paint, full);
            // Whole texts have the lines that they were written in.
            app.out.data(match full {
                true => text,
                false => show::fitted(&text, 10),
            });
        }
    }
}
