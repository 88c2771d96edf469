//! `unisono runs show`.

use unisono::fmt::{api_role, digest};
use unisono_api::run::{RunDetail, StepContent};
use unisono_api::turn::Run;

use crate::app::App;
use crate::problem::Result;
use crate::service::lookup::LookupScope;
use crate::show;
use crate::terminal::Paint;

const HELP: &str = "\
JSON: as for `list`, with event (its opening), definition, steps [{event, at, kind (model, tools,
named, narrowed, summarised, spent), …}] (of a fallback model: fallback, its name, and
fallback_prefix, the digest of its prompt prefix), attempts [{attempt, event, at, reason}] after
the first, decisions about its tool calls [{event, at, tool, decision, by (null: nobody's, or
the daemon's own token)}], and its budgets (absent: none) [{level, resource, cap, spent, reserved,
remaining}] in dollars, tokens or seconds.";

/// Maximum shown characters of a step or task.
const SHOWN: usize = 100;

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The run: its id or a part of it, `latest`, a turn (its lead's run), or an agent (its newest
    /// run)
    #[arg(default_value = "latest")]
    run: String,
    #[command(flatten)]
    within: LookupScope,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let service = app.reader().await?;
    let (session, run) = args.within.run(&*service, &args.run).await?;
    let detail = service.run(&session, &run).await?;
    service.close().await;
    app.out.result(&detail, text(app.out.paint, &detail));
    Ok(())
}

fn text(paint: Paint, detail: &RunDetail) -> String {
    let rows = facts(detail).into_iter().map(|(name, value)| {
        let name = paint.bold(format_args!("{name:<11}"));
        format!("{name} {value}")
    });
    let mut out = show::wrap(&rows.collect::<Vec<_>>().join("\n"), 12);
    let steps = detail.steps.iter();
    let mut lines: Vec<(u64, String)> = steps.map(|of| (of.event, step(&of.done))).collect();
    lines.extend(detail.attempts.iter().map(|of| {
        let reason = show::line(&of.reason, SHOWN);
        (
            of.event,
            format!("attempt {} follows: {reason}", of.attempt),
        )
    }));
    let decided = detail.decisions.iter();
    lines.extend(decided.map(|of| (of.event, of.text())));
    lines.sort_by_key(|(event, _)| *event);
    for (event, line) in lines {
        out += &show::wrap(&format!("\n  event {event:<5} {line}"), 14);
    }
    if let Some(answer) = &detail.run.text {
        out += &format!("\n\n{}", show::wrap(&show::indented(answer, ""), 0));
    }
    out
}

/// The known values of a run, with their names.
fn facts(detail: &RunDetail) -> Vec<(&'static str, String)> {
    let (run, used) = (&detail.run, &detail.run.usage);
    let agent = match &run.model {
        Some(model) => format!("{} ({model})", run.agent),
        None => run.agent.clone(),
    };
    let task = run.task.as_deref().unwrap_or_default();
    let snapshot = run.snapshot.as_deref().map(digest);
    let mut rows = vec![
        ("run", format!("{} ({})", run.run, api_role(run))),
        (
            "turn",
            format!("{} of session {}", detail.turn, detail.session),
        ),
        ("agent", agent),
        ("task", show::line(task, SHOWN)),
        ("state", format!("{}, attempt {}", run.state, run.attempt)),
        (
            "opened",
            format!(
                "{} UTC, event {}",
                show::minute(&run.opened_at),
                detail.event
            ),
        ),
        (
            "snapshot",
            snapshot.unwrap_or("none: its task only").to_owned(),
        ),
        ("definition", digest(&detail.definition).to_owned()),
        (
            "used",
            format!(
                "{} in, {} out, cost {}",
                show::number(used.input_tokens),
                show::number(used.output_tokens),
                show::price(used.cost_usd)
            ),
        ),
    ];
    let cache = show::cache(used);
    rows.extend(cache.map(|cache| ("cache", cache)));
    rows.extend(run.duration_ms.map(|ms| ("took", show::time(ms))));
    rows.extend(error(run).map(|error| ("error", show::line(&error, 300))));
    rows
}

/// The reason why the answer is missing or incomplete.
fn error(run: &Run) -> Option<String> {
    match &run.error {
        Some(error) if error.code == "partial" => Some(error.reason.clone()),
        Some(error) => Some(format!("{}: {}", error.code, error.reason)),
        None => (run.state == "cancelled").then(|| run.state.clone()),
    }
}

fn step(done: &StepContent) -> String {
    match done {
        StepContent::Model {
            text,
            calls,
            fallback,
            fallback_prefix,
            ..
        } => {
            let calls: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
            let said = show::line(text, SHOWN);
            let by = fallback.as_deref();
            let by = by.map(|model| fallback_note(model, fallback_prefix.as_deref()));
            let by = by.unwrap_or_default();
            format!("model{by} called {}  {said}", calls.join(", "))
        }
        StepContent::Tools { results } => {
            let sizes = results.iter().map(|result| {
                let failed = if result.is_error { " (error)" } else { "" };
                format!("{}{failed}", show::size(result.content.len() as u64))
            });
            format!("tools answered {}", sizes.collect::<Vec<_>>().join(", "))
        }
        StepContent::Named { name, result } => {
            format!("step {name}: {}", show::line(result, SHOWN))
        }
        StepContent::Narrowed {
            room_tokens,
            output_tokens,
        } => {
            let reply = output_tokens.map(|output| format!(", a reply {}", show::number(output)));
            format!(
                "too large for the provider: its exchange may have {} tokens from here{}",
                show::number(*room_tokens),
                reply.unwrap_or_default()
            )
        }
        StepContent::Summarised { steps, text } => {
            format!(
                "its first {steps} steps summarised  {}",
                show::line(text, SHOWN)
            )
        }
        StepContent::Spent {
            fallback,
            input_tokens,
            output_tokens,
            ..
        } => {
            let whose = fallback.as_deref().map(|model| format!(" of {model}"));
            format!(
                "paid besides its replies{}: {} tokens",
                whose.unwrap_or_default(),
                show::number(input_tokens + output_tokens)
            )
        }
    }
}

/// The fallback model that answered, and its prefix.
fn fallback_note(model: &str, prefix: Option<&str>) -> String {
    let prefix = prefix.map(|prefix| format!(", prefix {}", digest(prefix)));
    format!(" (fallback {model}{})", prefix.unwrap_or_default())
}
