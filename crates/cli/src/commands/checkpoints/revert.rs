//! `unisono checkpoints revert`: a checkpoint is reverted.

use serde_json::json;
use unisono::Service;
use unisono_api::compaction::{
    CheckpointDetail, InactiveCheckpoint, RevertCheckpoint, RevertEffect,
};
use unisono_api::session::MAIN_BRANCH;
use unisono_api::turn::TurnRequest;

use crate::app::App;
use crate::ask::confirmed;
use crate::commands::compact::follow_one;
use crate::live::{Interrupts, conclude};
use crate::problem::{Problem, Result};
use crate::service::{all_checkpoints, find_session, spoken_length};
use crate::show;

use super::show::missing;

const HELP: &str = "\
The context of the branch becomes the one before the checkpoint, byte for byte, with all later
messages. Automatic compaction then waits until the context is nearly full (95 % of the usable
tokens); `unisono compact` works at any time.

Examples:
  unisono checkpoints revert latest
  unisono checkpoints revert latest 3 --branch what-if --yes

JSON: session, branch, state (reverted), checkpoint, tokens_before, tokens_after.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// The checkpoint's number; without it, the newest one in the context
    number: Option<u32>,
    /// The branch
    #[arg(long, default_value = MAIN_BRANCH)]
    branch: String,
    /// Does not ask
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let mut interrupts = Interrupts::listen()?;
    let idle_store = app.idle_store(&setup).await?;
    let (session, detail) = select_checkpoint(
        idle_store.service(),
        &args.session,
        &args.branch,
        args.number,
    )
    .await?;
    let number = detail.checkpoint.number;
    let gone = || Problem::failed("the checkpoint has left the context");
    let question = question(number, detail.revert.ok_or_else(gone)?)?;
    if !args.yes && !confirmed(&app.out, &question)? {
        app.out.message("nothing was changed");
        idle_store.close().await;
        return Ok(());
    }
    let asked = TurnRequest::Revert {
        checkpoint: number.to_string(),
        new: RevertCheckpoint {
            branch: args.branch.clone(),
            wait: false,
        },
    };
    let at = (session.as_str(), args.branch.as_str());
    let (watch, end) = follow_one(app, idle_store, at, asked, &mut interrupts).await?;
    match watch.amounts() {
        Some(amounts) if watch.outcome() == Some("reverted") => {
            report(app, at, number, amounts);
            Ok(())
        }
        _ => conclude(&app.out, &watch, end),
    }
}

/// The session and the named checkpoint, which must be in the context of the branch; without a
/// number, the newest one in the context.
pub(super) async fn select_checkpoint(
    service: &dyn Service,
    session: &str,
    branch: &str,
    number: Option<u32>,
) -> Result<(String, CheckpointDetail)> {
    let session = find_session(service, session).await?.session;
    spoken_length(service, &session, branch).await?;
    let all = all_checkpoints(service, &session, branch).await?;
    let meant = match number {
        Some(number) => all.iter().find(|one| one.number == number),
        None => all.iter().find(|one| one.active),
    };
    let number = match (meant, number) {
        (Some(meant), _) => meant.number.to_string(),
        (None, None) if !all.is_empty() => {
            let problem = format!("no checkpoint is in the context of branch `{branch}`");
            return Err(Problem::usage(problem).hint("`unisono checkpoints list` shows all"));
        }
        (None, number) => return Err(missing(number, all.len())),
    };
    let detail = service.checkpoint(&session, &number, branch).await?;
    match &detail.inactive {
        Some(why) => Err(not_active(why)),
        None => Ok((session, detail)),
    }
}

fn not_active(why: &InactiveCheckpoint) -> Problem {
    let problem = Problem::usage(&why.reason);
    match (why.revert_first, why.branches.as_deref()) {
        (Some(first), _) => problem.hint(format!("take checkpoint {first} back first")),
        (None, Some([])) => problem.hint("no branch has these messages"),
        (None, Some(branches)) => {
            let names = branches.join(" or ");
            problem.hint(format!("name the branch: --branch {names}"))
        }
        (None, None) => problem.hint("`unisono checkpoints list` shows which are active"),
    }
}

/// The question of the confirmation, or the error that the context would not fit.
fn question(number: u32, effect: RevertEffect) -> Result<String> {
    let usable = show::number(effect.usable_tokens);
    let tokens = show::number(effect.tokens_after);
    if !effect.fits {
        let problem = Problem::failed(format!(
            "without checkpoint {number} the context has {tokens} tokens, but only {usable} are \
             usable"
        ));
        return Err(problem.hint("edit the summary instead: `unisono checkpoints edit`"));
    }
    let before = show::number(effect.tokens_before);
    Ok(format!(
        "Take checkpoint {number} back: {before} tokens become {tokens} of {usable} usable?"
    ))
}

fn report(app: &App, (session, branch): (&str, &str), number: u32, (before, after): (u64, u64)) {
    if app.out.json {
        app.out.json(&json!({
            "session": session, "branch": branch, "state": "reverted",
            "checkpoint": number, "tokens_before": before, "tokens_after": after,
        }));
        return;
    }
    let (before, after) = (show::number(before), show::number(after));
    app.out.data(format_args!(
        "reverted: {before} → {after} tokens; checkpoint {number} is kept, but not in the context"
    ));
}
