//! `unisono runs cancel`.

use serde_json::json;
use unisono_context::{RunId, TurnId};
use unisono_session::Trace;

use crate::app::App;
use crate::host::Cancel;
use crate::problem::{Problem, Result};
use crate::show;
use crate::traces::{Within, Work, end, trace};

const HELP: &str = "\
Of a turn that was interrupted, one run or all of it is given up; what is open besides goes on
with `unisono resume`. A lead's run is its turn. Work of a daemon is stopped in it; work of a `run`
that is going on is stopped there (ctrl-c): the store is that process's until it ends.

JSON: session, turn, cancelled [run ids], turn_ended.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The run or the turn: its id, or a start or an end of it
    id: String,
    #[command(flatten)]
    within: Within,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let store = app.store_or_nothing(&setup).await?;
    let sessions = store.sessions();
    let found = args.within.work(&sessions, &args.id).await?;
    let (turn, what) = match found.id {
        Work::Turn(turn) => (Some(turn), Cancel::Turn(turn)),
        Work::Run(run) => {
            let turn = found.trace.run(run).map(|run| run.opened.1.turn);
            (turn, Cancel::Run(run))
        }
    };
    let turn = turn.ok_or_else(|| Problem::failed("the run has no turn"))?;
    store.cancel(found.session, what).await?;
    let after = trace(&sessions, found.session).await?;
    let cancelled: Vec<RunId> = newly_ended(&found.trace, &after, turn).collect();
    let ended = after.turn(turn).is_some_and(|turn| turn.ended.is_some());
    if app.out.json {
        let cancelled: Vec<String> = cancelled.iter().map(RunId::to_string).collect();
        app.out.json(&json!({
            "session": found.session.to_string(), "turn": turn.to_string(),
            "cancelled": cancelled, "turn_ended": ended,
        }));
    } else {
        let ids: Vec<String> = cancelled.iter().map(end).collect();
        let rest = match ended {
            true => format!("turn {} has ended", end(&turn)),
            false if store.is_there() => "the daemon goes on with the rest".to_owned(),
            false => "`unisono resume` goes on with the rest".to_owned(),
        };
        let runs = show::many(ids.len() as u64, "run");
        app.out
            .say(format_args!("cancelled {runs} {}; {rest}", ids.join(", ")));
    }
    sessions.close().await
}

/// The runs of a turn that were open before and are not now.
fn newly_ended(before: &Trace, after: &Trace, turn: TurnId) -> impl Iterator<Item = RunId> {
    let open = |trace: &Trace, id: &RunId| trace.run(*id).is_some_and(|run| run.ended.is_none());
    let runs = after
        .turn(turn)
        .map(|turn| &turn.runs[..])
        .unwrap_or_default();
    let ended = runs
        .iter()
        .filter(move |id| open(before, id) && !open(after, id));
    ended.copied()
}
