//! `unisono replay`: a turn's requests once more, from the journal and nothing else.

use serde_json::{Value, json};
use unisono_context::{SessionId, TurnId};
use unisono_runtime::replay::{Check, Rebuilt, Requests};
use unisono_session::Replay;
use unisono_session::event::Outcome;

use crate::app::App;
use crate::problem::{Problem, Result};
use crate::show;
use crate::traces::{self, Within, end};

const HELP: &str = "\
Nobody is asked and nothing is started. Exits with 1 where something is not as it was recorded:
a model that the catalogue describes otherwise since, a record that was altered, another version
of this program.

JSON: session, turn, state (`open` or how it ended), error {code, reason}, runs [{run, agent, requests [{to, bytes, digest,
attempt}], unknown}], checks [{check (snapshot, definition, prefix, steps, results; a prefix of a
model that stood in follows its name), run, recorded, rebuilt, holds}], mismatches.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The turn: its id or a part of it, `latest`, one of its runs, or an agent: the turn of its
    /// newest run
    #[arg(default_value = "latest")]
    turn: String,
    #[command(flatten)]
    within: Within,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let sessions = app.sessions(&setup).await?;
    let found = args.within.turn(&sessions, &args.turn).await?;
    let replay = traces::replay(&sessions, found.session, found.id).await?;
    sessions.close().await?;
    let rebuilt = traces::rebuild(&setup, &app.extensions, &replay);
    if app.out.json {
        app.out
            .json(&json(found.session, found.id, &replay, &rebuilt));
    } else {
        app.out.data(text(app, found.id, &replay, &rebuilt));
    }
    match rebuilt.mismatches().count() as u64 {
        0 => Ok(()),
        wrong => {
            let wrong = show::many(wrong, "wrong digest");
            let problem = Problem::failed(format!("the replay of turn {} has {wrong}", found.id));
            Err(problem.hint(
                "the settings, the catalogue, the program or the journal changed after the turn",
            ))
        }
    }
}

fn text(app: &App, turn: TurnId, replay: &Replay, rebuilt: &Rebuilt) -> String {
    let paint = app.out.paint;
    let outcome = replay.outcome().map(ToString::to_string);
    let outcome = outcome.unwrap_or_else(|| "open".to_owned());
    let mut out = format!("{} {turn}: {outcome}\n", paint.bold("turn"));
    let rows = rebuilt.runs.iter().map(row).collect();
    if rebuilt.runs.is_empty() {
        out += "no agent received a request\n";
    } else {
        let header = ["RUN", "AGENT", "REQUESTS", "BYTES", ""];
        out += &show::table(&header, &[2, 3], rows);
        out.push('\n');
    }
    for check in rebuilt.mismatches() {
        out += &mismatch(app, check);
    }
    let requests: usize = rebuilt.runs.iter().map(|run| run.sent.len()).sum();
    let held = rebuilt.checks.iter().filter(|check| check.holds()).count();
    out += &format!(
        "{} rebuilt without a call to a model, {held} of {} hold\n",
        show::many(requests as u64, "request"),
        show::many(rebuilt.checks.len() as u64, "check")
    );
    out
}

fn row(run: &Requests) -> Vec<String> {
    let bytes: usize = run.sent.iter().map(|sent| size(&sent.body)).sum();
    vec![
        end(&run.run),
        run.agent.to_string(),
        run.sent.len().to_string(),
        show::number(bytes as u64),
        run.unknown.clone().unwrap_or_default(),
    ]
}

fn size(body: &[impl AsRef<[u8]>; 2]) -> usize {
    body.iter().map(|piece| piece.as_ref().len()).sum()
}

fn mismatch(app: &App, check: &Check) -> String {
    let whose = match &check.run {
        Some(run) => format!(" of run {}", end(run)),
        None => String::new(),
    };
    format!(
        "{} {}{whose}\n  recorded {}\n  now      {}\n",
        app.out.paint.red("differs:"),
        check.what,
        check.recorded,
        check.rebuilt
    )
}

fn json(session: SessionId, turn: TurnId, replay: &Replay, rebuilt: &Rebuilt) -> Value {
    let runs = rebuilt.runs.iter().map(|run| {
        let requests = run.sent.iter().map(|sent| {
            json!({
                "to": sent.to,
                "bytes": size(&sent.body),
                "digest": sent.digest.to_string(),
                "attempt": sent.attempt,
            })
        });
        json!({
            "run": run.run.to_string(),
            "agent": run.agent.as_str(),
            "requests": requests.collect::<Vec<_>>(),
            "unknown": run.unknown,
        })
    });
    json!({
        "session": session.to_string(),
        "turn": turn.to_string(),
        "state": replay.outcome().map_or("open", Outcome::name),
        "error": replay.outcome().and_then(show::fault),
        "runs": runs.collect::<Vec<_>>(),
        "checks": rebuilt.checks.iter().map(check_json).collect::<Vec<_>>(),
        "mismatches": rebuilt.mismatches().count(),
    })
}

pub(crate) fn check_json(check: &Check) -> Value {
    json!({
        "check": check.what,
        "run": check.run.map(|run| run.to_string()),
        "recorded": check.recorded,
        "rebuilt": check.rebuilt,
        "holds": check.holds(),
    })
}
