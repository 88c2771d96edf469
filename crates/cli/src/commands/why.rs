//! `unisono why`: the exact bytes of a request, the bytes shared with a sibling, and the
//! chain of causes.

mod sibling;

use unisono::fmt::{api_role, digest};
use unisono_api::run::{RequestBody, RunRequest, Why, WhyQuery};
use unisono_context::Digest;

use crate::app::App;
use crate::problem::{Problem, Result};
use crate::service::lookup::LookupScope;
use crate::show;
use crate::terminal::Paint;

/// Columns before the text of a cause.
const BEFORE_CAUSE: usize = 33;

const HELP: &str = "\
Requests are rebuilt from the journal: the frozen context from its manifest, the recorded
definition and the recorded steps. `was not sent` marks a request that the journal has no trace of,
because a budget or the window did not allow it, or its run was cancelled first. A retried request has the same bytes. Requests that only warm
the provider's cache (cache_warm = prewarm) are not shown.

Examples:
  unisono why latest
  unisono why risks
  unisono why 5f0c2b8e41aa
  unisono why 5f0c2b8e41aa --against 91d3c07a2b16
  unisono why 5f0c2b8e41aa --request 2 --raw | jq .

JSON: as for `runs list`, with causes [{event, at, cause, text}], requests [{number, to,
fallback_prefix (absent: no fallback), head_bytes, bytes, digest, after_steps, masked,
wrap_up, attempt, sent, head, tail}], unknown (why they cannot be rebuilt), body {number, head, tail} of
the selected request, checks as for `replay`, against {run, agent, request, shared_bytes, suffix,
sibling_suffix, differing_keys} (null: no sibling).";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The run: its id or a part of it, `latest`, a turn (its lead's run), or an agent (its newest
    /// run)
    #[arg(default_value = "latest")]
    run: String,
    #[command(flatten)]
    within: LookupScope,
    /// The run of the same turn to compare with (default: the first sibling)
    #[arg(long, value_name = "RUN")]
    against: Option<String>,
    /// The number of the request, from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    request: u32,
    /// Writes only the body of the request, unchanged; on a terminal, control characters are
    /// escaped
    #[arg(long, conflicts_with = "against")]
    raw: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let service = app.reader().await?;
    let (session, run) = args.within.run(&*service, &args.run).await?;
    let against = match &args.against {
        Some(name) => Some(sibling::find(&*service, (&session, &run), name).await?),
        None => None,
    };
    let query = WhyQuery {
        // The first needs not be there.
        number: Some(args.request).filter(|n| *n > 1),
        against,
        bodies: app.out.json,
    };
    let why = service.why(&session, &run, &query).await?;
    service.close().await;
    if app.out.json {
        app.out.json(&why);
        return Ok(());
    }
    let body = why.body.as_ref().ok_or_else(|| no_request(&why))?;
    if args.raw {
        exact(&why)?;
        app.out.exact_json(&[&body.head, &body.tail]);
        return Ok(());
    }
    app.out.data(text(app.out.paint, &why, body));
    if let Some(against) = &why.against {
        app.out.data(sibling::text(&why, against, app.out.paint));
    }
    if let Err(problem) = exact(&why) {
        app.out.warn(problem.message);
    }
    Ok(())
}

/// The run has no request, or its bytes are unknown.
fn no_request(why: &Why) -> Problem {
    match &why.unknown {
        Some(unknown) => Problem::failed(format!("cannot rebuild the run's requests: {unknown}"))
            .hint("run `unisono doctor` to see whether the store is damaged"),
        None => Problem::failed("the run sent no request: it ended before its first model call"),
    }
}

/// Whether the rebuilt request matches the recorded digests.
fn exact(why: &Why) -> Result<()> {
    let Some(check) = why.checks.iter().find(|check| !check.matches) else {
        return Ok(());
    };
    let problem = format!(
        "these are not the original bytes: {} was recorded as {} and is {}",
        check.check, check.recorded, check.rebuilt
    );
    Err(Problem::failed(problem).hint("`unisono replay` shows the differences"))
}

fn text(paint: Paint, why: &Why, body: &RequestBody) -> String {
    let run = &why.run;
    let mut out = format!(
        "{} {} {} ({})\n\n",
        paint.bold("run"),
        run.run,
        run.agent,
        api_role(run)
    );
    out += &format!("{}\n", paint.bold("causes"));
    for cause in &why.causes {
        let at = show::minute(&cause.at);
        let entry = format!("  event {:<6} {at}  {}\n", cause.event, cause.text);
        out += &show::wrap(&entry, BEFORE_CAUSE);
    }
    out += &format!("\n{}\n", paint.bold("requests"));
    for request in &why.requests {
        out += &show::wrap(&format!("  {}\n", line(request)), 5);
    }
    out += &format!(
        "\n{} the first {} bytes (digest {}) are shared with its siblings; then\n{}\n",
        paint.bold(format_args!("request {}:", body.number)),
        show::number(body.head.len() as u64),
        Digest::of_bytes(body.head.as_bytes()).short(),
        show::indented(&body.tail, "  ")
    );
    if let Some(said) = &run.last_text {
        let heading = paint.bold("no answer; the last text of its model:");
        out += &format!("\n{heading}\n{}\n", show::indented(said, "  "));
    }
    out
}

fn line(request: &RunRequest) -> String {
    let prefix = request.fallback_prefix.as_deref();
    let fallback = prefix.map(|prefix| format!(" (fallback, prefix {})", digest(prefix)));
    let mut line = format!(
        "{}  to {}{}, {} bytes ({} of its own), digest {}",
        request.number,
        request.to,
        fallback.unwrap_or_default(),
        show::number(request.bytes),
        show::number(request.bytes - request.head_bytes),
        digest(&request.digest)
    );
    if request.masked > 0 {
        let results = show::many(request.masked, "tool result");
        line += &format!(", {results} left out");
    }
    if let Some(why) = &request.wrap_up {
        line += &format!(", the last: {why}");
    }
    if let Some(attempt) = request.attempt {
        line += &format!(", attempt {attempt}");
    }
    if !request.sent {
        line += ", was not sent";
    }
    line
}
