//! `unisono checkpoints restore`: a summary is taken back.

use serde_json::json;
use unisono::ask::Ask;
use unisono_api::compaction::Restoring;
use unisono_context::checkpoint::{Checkpoint, NotActive};
use unisono_context::{MessageId, SessionId};
use unisono_session::State;
use unisono_session::state::MAIN;

use crate::app::App;
use crate::ask::confirmed;
use crate::commands::compact::follow_one;
use crate::commands::sessions::branch::unknown_branch;
use crate::live::{Interrupts, conclude};
use crate::problem::{Problem, Result};
use crate::show;

use super::show::missing;

const HELP: &str = "\
The context of the branch becomes what it was before the checkpoint, byte for byte, with all that
was said since. Nothing is compacted by itself then until the context is nearly full (95 % of what
is usable); `unisono compact` does so at any time.

Examples:
  unisono checkpoints restore latest
  unisono checkpoints restore latest 3 --branch what-if --yes

JSON: session, branch, state (restored), checkpoint, tokens_before, tokens_after.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// The checkpoint's number; without it, the newest one in the context
    number: Option<u32>,
    /// The branch
    #[arg(long, default_value = MAIN)]
    branch: String,
    /// Does not ask
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let mut interrupts = Interrupts::listen()?;
    let store = app.store_or_nothing(&setup).await?;
    let sessions = store.sessions();
    let id = sessions.find(&args.session).await?;
    let state = sessions.state(id).await?;
    let (_, checkpoint) = standing(&state, &args.branch, args.number)?;
    let ask = Ask::restore(checkpoint.id).branch(args.branch.as_str());
    let service = app.service_beside(&store, &setup)?;
    let (session, number) = (id.to_string(), checkpoint.number.to_string());
    let detail = service.checkpoint(&session, &number, &args.branch).await?;
    drop(service);
    let gone = || Problem::failed("the checkpoint is not in the context any more");
    let question = question(checkpoint.number, detail.restore.ok_or_else(gone)?)?;
    if !args.yes && !confirmed(&app.out, &question)? {
        app.out.say("nothing was changed");
        return sessions.close().await;
    }
    let (watch, end) = follow_one(app, setup, store, id, &ask, &mut interrupts).await?;
    match watch.amounts() {
        Some(amounts) if watch.outcome() == Some("restored") => {
            tell(app, id, &args.branch, &checkpoint, amounts);
            Ok(())
        }
        _ => conclude(&app.out, &watch, end),
    }
}

/// The checkpoint a person means, which must stand in the context of the branch.
pub(super) fn standing(
    state: &State,
    branch: &str,
    number: Option<u32>,
) -> Result<(MessageId, Checkpoint)> {
    let (tree, all) = (state.tree(), state.checkpoints());
    let head = tree.head(branch);
    let head = head.ok_or_else(|| unknown_branch(state, branch))?;
    let active = all.active(tree, head);
    let meant = match number {
        Some(number) => all.iter().find(|c| c.number == number),
        None => active.iter().max_by_key(|c| c.number),
    };
    let meant = match (meant, number) {
        (Some(meant), _) => meant,
        (None, None) if all.iter().len() > 0 => {
            let problem = format!("no checkpoint is in the context of branch `{branch}`");
            return Err(Problem::usage(problem).hint("`unisono checkpoints list` shows all"));
        }
        (None, number) => return Err(missing(number, all.iter().len())),
    };
    match all.standing(tree, head, meant.id) {
        Ok(found) => Ok((head, Checkpoint::clone(found))),
        Err(why) => Err(explained(state, meant, &why)),
    }
}

fn explained(state: &State, checkpoint: &Checkpoint, why: &NotActive) -> Problem {
    let problem = Problem::usage(match why.to_string().split_once(": restore") {
        Some((what, _)) => what.to_owned(),
        None => why.to_string(),
    });
    match why {
        NotActive::Superseded { by, .. } | NotActive::GivesWay { to: by, .. } => {
            problem.hint(format!("take checkpoint {by} back first"))
        }
        NotActive::Elsewhere { .. } => {
            let tree = state.tree();
            let branches = tree.branches();
            let applying = branches.filter(|(_, head)| checkpoint.applies_to(tree, *head));
            let names: Vec<&str> = applying.map(|(name, _)| name).collect();
            match names[..] {
                [] => problem.hint("no branch has those messages any more"),
                _ => problem.hint(format!("name the branch: --branch {}", names.join(" or "))),
            }
        }
        NotActive::Unknown | NotActive::Retired { .. } => {
            problem.hint("`unisono checkpoints list` shows which are active")
        }
    }
}

/// What a person is asked; or that it would not fit.
fn question(number: u32, restoring: Restoring) -> Result<String> {
    let usable = show::number(restoring.usable_tokens);
    let tokens = show::number(restoring.tokens_after);
    if !restoring.fits {
        let problem = Problem::failed(format!(
            "without checkpoint {number} the context has {tokens} tokens, but only {usable} are \
             usable"
        ));
        return Err(problem.hint("edit the summary instead: `unisono checkpoints edit`"));
    }
    let before = show::number(restoring.tokens_before);
    Ok(format!(
        "Take checkpoint {number} back: {before} tokens become {tokens} of {usable} usable?"
    ))
}

fn tell(
    app: &App,
    id: SessionId,
    branch: &str,
    checkpoint: &Checkpoint,
    (before, after): (u64, u64),
) {
    let number = checkpoint.number;
    if app.out.json {
        app.out.json(&json!({
            "session": id.to_string(), "branch": branch, "state": "restored",
            "checkpoint": number, "tokens_before": before, "tokens_after": after,
        }));
        return;
    }
    let (before, after) = (show::number(before), show::number(after));
    app.out.data(format_args!(
        "restored: {before} → {after} tokens; checkpoint {number} is kept, but not in the context"
    ));
}
