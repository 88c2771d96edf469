//! `unisono replay`: rebuilds and verifies the requests of a turn from its journal.

use unisono::fmt::end;
use unisono_api::run::{DigestCheck, Replay, ReplayedRun};

use crate::app::App;
use crate::problem::{Problem, Result};
use crate::service::lookup::LookupScope;
use crate::show;

const HELP: &str = "\
No model is called and nothing is started. Exits with 1 if anything differs from the record: a
changed catalogue entry of a model, an altered record, or another version of this program.

JSON: session, turn, state (`open` or how it ended), text (the same for people), error {code,
reason}, requests (how many), runs [{run, agent, requests [{to, bytes, digest, attempt, sent}],
unknown}], prepared (the checkpoints that were written ahead), checks [{check (snapshot, definition, prefix, steps, results; the prefix of a fallback follows its
name), run, recorded, rebuilt, matches}], mismatches.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The turn: its id or a part of it, `latest`, one of its runs, or an agent (the turn of its
    /// newest run)
    #[arg(default_value = "latest")]
    turn: String,
    #[command(flatten)]
    within: LookupScope,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let service = app.reader().await?;
    let found = args.within.work(&*service, &args.turn).await?;
    let replay = service.replay(&found.session, &found.turn).await?;
    service.close().await;
    app.out.result(&replay, text(app, &replay));
    if replay.mismatches == 0 {
        return Ok(());
    }
    let wrong = show::many(replay.mismatches, "wrong digest");
    let problem = format!("the replay of turn {} has {wrong}", replay.turn);
    Err(Problem::failed(problem)
        .hint("the settings, the catalogue, the program or the journal changed after the turn"))
}

fn text(app: &App, replay: &Replay) -> String {
    let paint = app.out.paint;
    let mut out = format!("{} {}: {}\n", paint.bold("turn"), replay.turn, replay.text);
    for number in &replay.prepared {
        out += &format!("checkpoint {number} was written ahead, after an earlier turn\n");
    }
    let rows = replay.runs.iter().map(row).collect();
    if replay.runs.is_empty() {
        out += "no agent received a request\n";
    } else {
        let header = ["RUN", "AGENT", "REQUESTS", "BYTES", ""];
        out += &show::table(&header, &[2, 3], rows);
        out.push('\n');
    }
    for check in replay.checks.iter().filter(|check| !check.matches) {
        out += &mismatch(app, check);
    }
    let held = replay.checks.iter().filter(|check| check.matches).count();
    let unsent = replay.runs.iter().flat_map(|run| &run.requests);
    let unsent = match unsent.filter(|request| !request.sent).count() {
        0 => String::new(),
        unsent => format!(" ({unsent} not sent)"),
    };
    out += &format!(
        "{}{unsent} rebuilt without a call to a model, {held} of {} hold\n",
        show::many(replay.requests, "request"),
        show::many(replay.checks.len() as u64, "check")
    );
    out
}

fn row(run: &ReplayedRun) -> Vec<String> {
    let bytes: u64 = run.requests.iter().map(|request| request.bytes).sum();
    vec![
        end(&run.run),
        run.agent.clone(),
        run.requests.len().to_string(),
        show::number(bytes),
        run.unknown.clone().unwrap_or_default(),
    ]
}

fn mismatch(app: &App, check: &DigestCheck) -> String {
    let whose = match &check.run {
        Some(run) => format!(" of run {}", end(run)),
        None => String::new(),
    };
    format!(
        "{} {}{whose}\n  recorded {}\n  now      {}\n",
        app.out.paint.red("differs:"),
        check.check,
        check.recorded,
        check.rebuilt
    )
}
