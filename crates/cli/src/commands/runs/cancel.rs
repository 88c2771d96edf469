//! `unisono runs cancel`.

use serde_json::json;
use unisono::fmt::end;
use unisono_api::run::ListedRun;
use unisono_api::turn::Turn;

use crate::app::App;
use crate::problem::Result;
use crate::service::lookup::{LookupScope, runs_of};
use crate::show;

const HELP: &str = "\
Cancels one run of an interrupted turn, or the whole turn; the rest continues with `unisono
resume`. Cancelling the lead's run cancels the turn. If a daemon works on the turn, the daemon
cancels it. A turn of an active `unisono run` is cancelled there (Ctrl-C), because that process
has the store open.

JSON: session, turn, cancelled [run ids], turn_ended.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The run or turn: its id, or the start or end of its id
    id: String,
    #[command(flatten)]
    within: LookupScope,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let store = app.store_if_exists(&setup).await?;
    let in_daemon = store.daemon().is_some();
    let service = app.service_on(store, &setup)?;
    let found = args.within.work(&*service, &args.id).await?;
    let before = runs_of(&*service, &found.session, &found.turn).await?;
    let after = match &found.run {
        Some(run) => service.cancel_run(&found.session, run).await?,
        None => service.cancel_turn(&found.session, &found.turn).await?,
    };
    service.close().await;
    let cancelled = newly_ended(&before, &after);
    let ended = after.ended_at.is_some();
    let report = json!({
        "session": after.session, "turn": after.turn,
        "cancelled": cancelled, "turn_ended": ended,
    });
    let ids: Vec<String> = cancelled.iter().map(end).collect();
    let rest = match ended {
        true => format!("turn {} has ended", end(&after.turn)),
        false if in_daemon => "the daemon continues the other runs".to_owned(),
        false => "`unisono resume` continues the other runs".to_owned(),
    };
    let (runs, ids) = (show::many(ids.len() as u64, "run"), ids.join(", "));
    let message = format!("cancelled {runs} {ids}; {rest}");
    app.out.outcome(&report, message);
    Ok(())
}

/// The runs of a turn that were open before and have ended now.
fn newly_ended<'t>(before: &[ListedRun], after: &'t Turn) -> Vec<&'t str> {
    let was_open = |run: &str| {
        let mut before = before.iter().map(|listed| &listed.run);
        before.any(|one| one.run == run && one.ended_at.is_none())
    };
    let ended = after.runs.iter().filter(|run| run.ended_at.is_some());
    let ids = ended.map(|run| run.run.as_str());
    ids.filter(|run| was_open(run)).collect()
}
