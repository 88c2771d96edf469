//! `unisono context`: what the model sees, section by section.

mod object;
mod text;

use std::sync::Arc;

use serde_json::Value;
use unisono_context::{SessionId, Tokens};
use unisono_daemon::ask::{self, Ask};
use unisono_daemon::setup::Setup;
use unisono_daemon::{context, models};
use unisono_runtime::mcp;
use unisono_session::State;
use unisono_session::agent::Team;
use unisono_session::state::MAIN;

use super::sessions::branch::unknown_branch;
use crate::app::App;
use crate::problem::Result;
use crate::topics::{self, TierLoad};

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
    session: String,
    branch: String,
    context: context::Shown,
    /// What each tier has, where the preset has tiers.
    tiers: Vec<TierLoad>,
    topics: Vec<Value>,
    /// What the provider counts for all of it and the lead's persona, where it was asked.
    exact: Option<Tokens>,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let team = Ask::new("").team(&setup)?;
    let sessions = app.sessions(&setup).await?;
    let id = sessions.find(&args.session).await?;
    let mut state = sessions.state(id).await?;
    sessions.close().await?;
    let mut shown = Shown::of(&mut state, id, &args.branch, &setup, &team)?;
    if args.exact {
        let snapshot = Arc::new(shown.context.snapshot.clone());
        match models::count(&setup, &team.lead, snapshot).await {
            Ok(Some(exact)) => shown.exact = Some(exact),
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
    }
    for server in unasked(&team, &shown) {
        app.out.warn(format_args!(
            "the tools of `{server}` are not counted: no turn of this session has asked it yet"
        ));
    }
    shown.print(app, &state, args.full);
    Ok(())
}

/// The servers whose tools the team may call, and that nothing is known of here.
fn unasked<'t>(team: &'t Team, shown: &Shown) -> Vec<&'t str> {
    let tools = shown.context.measured.preamble.tools().iter();
    let known: Vec<&str> = tools
        .filter_map(|tool| mcp::server_of(&tool.name))
        .collect();
    let servers = ask::servers_of(team).into_iter();
    servers.filter(|server| !known.contains(server)).collect()
}

impl Shown {
    /// The context of a branch for a team, counted.
    pub(super) fn of(
        state: &mut State,
        id: SessionId,
        branch: &str,
        setup: &Setup,
        team: &Team,
    ) -> Result<Shown> {
        let (policy, safety) = ask::policy(setup, team);
        let head = state.tree().head(branch);
        let head = head.ok_or_else(|| unknown_branch(state, branch))?;
        let context = context::Shown::new(state, head, team, safety)?;
        let view = state
            .view(head, false)
            .ok_or_else(|| unknown_branch(state, branch))?;
        Ok(Shown {
            session: id.to_string(),
            branch: branch.to_owned(),
            tiers: topics::loads(&view, &policy, &context.measured.budget),
            topics: topics::json(state, branch, &view),
            context,
            exact: None,
        })
    }

    /// Prints it; `full`: whole texts instead of their first line.
    pub(super) fn print(&self, app: &App, state: &State, full: bool) {
        if app.out.json {
            app.out.json(&object::json(self, state));
        } else {
            app.out.data(text::text(self, state, app.out.paint, full));
        }
    }
}
