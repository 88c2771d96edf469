//! `unisono why`: the exact bytes an agent was sent, what it shares with a sibling, and the
//! chain of causes.

mod sibling;

use serde_json::{Value, json};
use unisono::why::causes::{self, Cause};
use unisono::why::{Difference, requests};
use unisono_context::RunId;
use unisono_runtime::replay::{Rebuilt, Requests, Sent};

use crate::app::App;
use crate::commands::replay::check_json;
use crate::output::Paint;
use crate::problem::{Problem, Result};
use crate::show;
use crate::traces::{self, Found, Within, role};

const HELP: &str = "\
Requests are rebuilt from the journal: the frozen context from its manifest, the definition and
the steps as they were recorded. A request that was repeated after a failure had the same bytes.
One that only writes the provider's cache (cache_warm = prewarm) is not an agent's, and not shown.

Examples:
  unisono why latest
  unisono why risks
  unisono why 5f0c2b8e41aa
  unisono why 5f0c2b8e41aa --against 91d3c07a2b16
  unisono why 5f0c2b8e41aa --request 2 --raw | jq .

JSON: run, turn, session, agent, role, task, causes [{event, at, cause, text}], requests [{number,
to, stand_in_prefix (absent: no other model stood in), head_bytes, bytes, digest, after_steps,
masked, wrap_up, attempt, head, tail}], unknown (why they cannot be rebuilt), checks as of `replay`,
against {run, agent, request, shared_bytes, own, theirs, differs} (null: it has no sibling).";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The run: its id or a part of it, `latest`, a turn (its lead's run), or an agent (its newest
    /// run)
    #[arg(default_value = "latest")]
    run: String,
    #[command(flatten)]
    within: Within,
    /// The run of the same turn to compare with; without it, the first sibling
    #[arg(long, value_name = "RUN")]
    against: Option<String>,
    /// The request that is meant, from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    request: u32,
    /// Writes the request's body as it was sent, and nothing else
    #[arg(long, conflicts_with = "against")]
    raw: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let sessions = app.sessions(&setup).await?;
    let found = args.within.run(&sessions, &args.run).await?;
    let Some(turn) = found.trace.run(found.id).map(|run| run.opened.1.turn) else {
        return Err(Problem::failed("the run has no turn"));
    };
    let replay = traces::replay(&sessions, found.session, turn).await?;
    sessions.close().await?;
    let rebuilt = traces::rebuild(&setup, &app.extensions, &replay);
    let own = requests(&rebuilt, found.id).ok_or_else(|| unreadable(&rebuilt))?;
    if app.out.json {
        let against = sibling::find(&found, args.against.as_deref())?;
        app.out.json(&json(&args, &found, &rebuilt, own, against));
        return Ok(());
    }
    let chosen = chosen(own, args.request)?;
    if args.raw {
        exact(&rebuilt, found.id)?;
        chosen.body.iter().for_each(|piece| app.out.bytes(piece));
        return Ok(());
    }
    let against = sibling::find(&found, args.against.as_deref())?;
    app.out
        .data(text(app.out.paint, &args, &found, own, chosen));
    if let Some(difference) = against.and_then(|run| compare(&args, &found, &rebuilt, run)) {
        app.out.data(sibling::text(&difference, app.out.paint));
    }
    if let Err(problem) = exact(&rebuilt, found.id) {
        app.out.warn(problem.message);
    }
    Ok(())
}

/// Nothing was rebuilt at all.
fn unreadable(rebuilt: &Rebuilt) -> Problem {
    let why = rebuilt.mismatches().next();
    let why = why.map_or_else(
        || "it is not in the journal".to_owned(),
        |c| c.rebuilt.clone(),
    );
    Problem::failed(format!("the context of the run cannot be rebuilt: {why}"))
        .hint("run `unisono doctor` to see whether the store is damaged")
}

fn chosen(own: &Requests, number: u32) -> Result<&Sent> {
    let at = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
    if let Some(sent) = at.and_then(|at| own.sent.get(at)) {
        return Ok(sent);
    }
    Err(match (&own.unknown, own.sent.len()) {
        (Some(why), 0) => Problem::failed(format!("cannot rebuild the run's requests: {why}")),
        (None, 0) => {
            Problem::failed("the run sent no request: it ended before its first model call")
        }
        (_, count) => Problem::usage(format!("the run has no request {number}"))
            .hint(format!("it has 1 to {count}")),
    })
}

/// Whether what was rebuilt is what was sent, as far as was recorded.
fn exact(rebuilt: &Rebuilt, run: RunId) -> Result<()> {
    let mut wrong = rebuilt.mismatches();
    let Some(check) = wrong.find(|check| check.run.is_none_or(|of| of == run)) else {
        return Ok(());
    };
    let problem = format!(
        "these are not the bytes that were sent: {} was recorded as {} and is {}",
        check.what, check.recorded, check.rebuilt
    );
    Err(Problem::failed(problem).hint("`unisono replay` says what differs"))
}

/// The request that is meant beside a sibling's.
fn compare(
    args: &Args,
    found: &Found<RunId>,
    rebuilt: &Rebuilt,
    other: RunId,
) -> Option<Difference> {
    let at = usize::try_from(args.request).ok()?.checked_sub(1)?;
    Difference::between(&found.trace, rebuilt, (found.id, at), other)
}

fn text(paint: Paint, args: &Args, found: &Found<RunId>, own: &Requests, chosen: &Sent) -> String {
    let run = found.trace.run(found.id);
    let place = run.map(role).unwrap_or_default();
    let mut out = format!(
        "{} {} {} ({place})\n\n",
        paint.bold("run"),
        found.id,
        own.agent
    );
    out += &format!("{}\n", paint.bold("causes"));
    for cause in causes::of(&found.trace, found.id) {
        let at = show::date(cause.moment.at);
        out += &format!("  event {:<6} {at}  {}\n", cause.moment.seq, cause.text);
    }
    out += &format!("\n{}\n", paint.bold("requests"));
    for (number, sent) in own.sent.iter().enumerate() {
        out += &format!("  {}\n", line(number + 1, sent));
    }
    let [head, tail] = &chosen.body;
    out += &format!(
        "\n{} the first {} bytes (digest {}) are shared with its siblings; then\n{}\n",
        paint.bold(format_args!("request {}:", args.request)),
        show::number(head.len() as u64),
        unisono_context::Digest::of_bytes(head).short(),
        show::indented(&String::from_utf8_lossy(tail), "  ")
    );
    out
}

fn line(number: usize, sent: &Sent) -> String {
    let [head, tail] = &sent.body;
    let prefix = sent.stand_in_prefix;
    let stood_in = prefix.map(|prefix| format!(" (stood in, prefix {})", prefix.short()));
    let mut line = format!(
        "{number}  to {}{}, {} bytes ({} of its own), digest {}",
        sent.to,
        stood_in.unwrap_or_default(),
        show::number((head.len() + tail.len()) as u64),
        show::number(tail.len() as u64),
        sent.digest.short()
    );
    if sent.masked > 0 {
        let results = show::many(sent.masked as u64, "tool result");
        line += &format!(", {results} left out");
    }
    if let Some(why) = &sent.wrap_up {
        line += &format!(", the last: {why}");
    }
    if let Some(attempt) = sent.attempt {
        line += &format!(", attempt {attempt}");
    }
    line
}

fn json(
    args: &Args,
    found: &Found<RunId>,
    rebuilt: &Rebuilt,
    own: &Requests,
    against: Option<RunId>,
) -> Value {
    let causes = causes::of(&found.trace, found.id);
    let difference = against.and_then(|run| compare(args, found, rebuilt, run));
    let of_this =
        |check: &&unisono_runtime::replay::Check| check.run.is_none_or(|run| run == found.id);
    let checks = rebuilt.checks.iter().filter(of_this).map(check_json);
    let run = found.trace.run(found.id);
    let mut value = json!({
        "run": found.id.to_string(),
        "turn": run.map(|run| run.opened.1.turn.to_string()),
        "session": found.session.to_string(),
        "agent": own.agent.as_str(),
        "task": found.trace.task(found.id),
        "causes": causes.iter().map(cause_json).collect::<Vec<_>>(),
        "requests": own.sent.iter().enumerate().map(request_json).collect::<Vec<_>>(),
        "unknown": own.unknown,
        "checks": checks.collect::<Vec<_>>(),
        "against": difference.as_ref().map(sibling::json),
    });
    if let Some(run) = run {
        show::merge(&mut value, traces::role_json(run));
    }
    value
}

fn cause_json(cause: &Cause) -> Value {
    json!({
        "event": cause.moment.seq,
        "at": show::instant(cause.moment.at),
        "cause": cause.name,
        "text": cause.text,
    })
}

fn request_json((at, sent): (usize, &Sent)) -> Value {
    let [head, tail] = &sent.body;
    let mut value = json!({
        "number": at + 1,
        "to": sent.to,
        "head_bytes": head.len(),
        "bytes": head.len() + tail.len(),
        "digest": sent.digest.to_string(),
        "after_steps": sent.known,
        "masked": sent.masked,
        "wrap_up": sent.wrap_up,
        "attempt": sent.attempt,
        "head": String::from_utf8_lossy(head),
        "tail": String::from_utf8_lossy(tail),
    });
    if let Some(prefix) = sent.stand_in_prefix {
        value["stand_in_prefix"] = prefix.to_string().into();
    }
    value
}
