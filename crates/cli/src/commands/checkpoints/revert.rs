//! `unisono checkpoints revert`: a checkpoint is reverted.

use serde_json::json;
use unisono_api::compaction::{RevertCheckpoint, RevertEffect};
use unisono_api::turn::TurnRequest;

use crate::app::App;
use crate::ask::confirmed;
use crate::commands::compact::follow_each;
use crate::live::{Interrupts, conclude};
use crate::problem::{Problem, Result};
use crate::show;

use super::active::ActiveCheckpoint;

const HELP: &str = "\
The messages and summaries that the checkpoint replaced return, unchanged and with all later
messages, to the context of every branch that has the checkpoint in it. If it is the newest
checkpoint of the named branch, messages of this branch that were masked or cut later are
complete again. Automatic compaction of a branch whose newest checkpoint is reverted waits until
the context is nearly full (95 % of the usable tokens); `unisono compact` works at any time.

Examples:
  unisono checkpoints revert latest
  unisono checkpoints revert latest 3 --branch what-if --yes

JSON: session, branch, state (reverted), checkpoint, tokens_before, tokens_after.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    active: ActiveCheckpoint,
    /// Does not ask
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let idle_store = app.idle_store(&setup).await?;
    let (session, detail) = args.active.find(idle_store.service()).await?;
    let number = detail.checkpoint.number;
    let gone = || Problem::failed("the checkpoint has left the context");
    let question = question(number, &detail.revert.ok_or_else(gone)?)?;
    if !args.yes && !confirmed(&app.out, &question)? {
        app.out.message("nothing was changed");
        idle_store.close().await;
        return Ok(());
    }
    let mut interrupts = Interrupts::listen()?;
    let asked = TurnRequest::Revert {
        checkpoint: number.to_string(),
        new: RevertCheckpoint {
            branch: args.active.branch.clone(),
            wait: false,
        },
    };
    let at = (session.as_str(), args.active.branch.as_str());
    let (watch, end) = follow_each(app, idle_store, at, &asked, &mut interrupts, false).await?;
    match watch.amounts() {
        Some(amounts) if watch.outcome() == Some("reverted") => {
            report(app, at, number, amounts);
            Ok(())
        }
        _ => conclude(&app.out, &watch, end),
    }
}

/// The question of the confirmation, or the error that the context would not fit.
fn question(number: u32, effect: &RevertEffect) -> Result<String> {
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
        "Revert checkpoint {number}: {before} tokens become {tokens} of {usable} usable?"
    ))
}

fn report(app: &App, (session, branch): (&str, &str), number: u32, (before, after): (u64, u64)) {
    let report = json!({
        "session": session, "branch": branch, "state": "reverted",
        "checkpoint": number, "tokens_before": before, "tokens_after": after,
    });
    let (before, after) = (show::number(before), show::number(after));
    let text = format!(
        "reverted: {before} → {after} tokens; checkpoint {number} is kept, but not in the context"
    );
    app.out.result(&report, text);
}
