//! `unisono runs show`.

use serde_json::{Value, json};
use unisono_context::RunId;
use unisono_session::run::{Ending, Spent, StandIn, Step};
use unisono_session::trace::{Moment, RunTrace};

use super::list;
use crate::app::App;
use crate::output::Paint;
use crate::problem::Result;
use crate::show;
use crate::traces::{Found, Within, role};

const HELP: &str = "\
JSON: as of `list`, with task, definition, snapshot, prefix, cache_expected_tokens,
cache_write_tokens, cache_missed (less than half of what was expected was read), steps [{event, at,
kind (model, tools, named, narrowed, spent), …}] (of a model that stood in: stand_in, its name,
and stand_in_prefix, the digest of its prompt bytes), attempts [{attempt, event, at, reason}] after
the first, and answer.";

/// Characters of a step's or task's text that are shown.
const SHOWN: usize = 100;

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The run: its id or a part of it, `latest`, a turn (its lead's run), or an agent (its newest
    /// run)
    #[arg(default_value = "latest")]
    run: String,
    #[command(flatten)]
    within: Within,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let sessions = app.sessions(&setup).await?;
    let found = args.within.run(&sessions, &args.run).await?;
    if let Some(run) = found.trace.run(found.id) {
        if app.out.json {
            app.out.json(&whole(&found, run));
        } else {
            app.out.data(text(app.out.paint, &found, run));
        }
    }
    sessions.close().await
}

fn text(paint: Paint, found: &Found<RunId>, run: &RunTrace) -> String {
    let (opened, given) = &run.opened;
    let usage = run.usage();
    let task = found.trace.task(found.id).unwrap_or_default();
    let definition = run.definition.as_ref();
    let model = definition.map_or("?", |definition| &*definition.model);
    let snapshot = given.snapshot.map(|id| id.short());
    let mut rows = vec![
        ("run", format!("{} ({})", found.id, role(run))),
        (
            "turn",
            format!("{} of session {}", given.turn, found.session),
        ),
        ("agent", format!("{} ({model})", given.agent)),
        ("task", show::line(&task, SHOWN)),
        (
            "state",
            format!("{}, attempt {}", run.status().name(), run.attempt()),
        ),
        (
            "opened",
            format!("{} UTC, event {}", show::date(opened.at), opened.seq),
        ),
        (
            "snapshot",
            snapshot.unwrap_or_else(|| "none: its task only".to_owned()),
        ),
        ("definition", given.definition.short()),
        (
            "used",
            format!(
                "{} in, {} out, cost {}",
                show::tokens(usage.input),
                show::tokens(usage.output),
                show::cost(usage.cost)
            ),
        ),
    ];
    if let Some(cache) = show::cache(&usage) {
        rows.push(("cache", cache));
    }
    if let Some(ms) = list::duration(run) {
        rows.push(("took", show::time(ms)));
    }
    if let Some(error) = list::error(run) {
        rows.push(("error", show::line(&error, 300)));
    }
    let rows = rows.iter().map(|(name, value)| {
        let name = paint.bold(format_args!("{name:<11}"));
        format!("{name} {value}")
    });
    let mut out = rows.collect::<Vec<_>>().join("\n");
    let mut lines: Vec<(Moment, String)> = run.steps.iter().map(|(m, s)| (*m, step(s))).collect();
    lines.extend(run.retries.iter().map(|(moment, attempt, reason)| {
        let reason = show::line(reason, SHOWN);
        (*moment, format!("attempt {attempt} follows: {reason}"))
    }));
    lines.sort_by_key(|(moment, _)| moment.seq);
    for (moment, line) in lines {
        out += &format!("\n  event {:<5} {line}", moment.seq);
    }
    if let Some(answer) = answer(run) {
        out += &format!("\n\n{}", show::indented(answer, ""));
    }
    out
}

fn answer(run: &RunTrace) -> Option<&str> {
    match &*run.ended.as_ref()?.1 {
        Ending::Finished { text, .. } => Some(text),
        Ending::Failed { .. } | Ending::Cancelled => None,
    }
}

fn step(step: &Step) -> String {
    match step {
        Step::Model(reply) => {
            let calls: Vec<&str> = reply.calls.iter().map(|call| &*call.name).collect();
            let said = show::line(&reply.text, SHOWN);
            let by = reply.stand_in.as_ref().map(stood_in).unwrap_or_default();
            format!("model{by} called {}  {said}", calls.join(", "))
        }
        Step::Tools(results) => {
            let sizes = results.iter().map(|result| {
                let failed = if result.is_error { " (error)" } else { "" };
                format!("{}{failed}", show::size(result.content.len() as u64))
            });
            format!("tools answered {}", sizes.collect::<Vec<_>>().join(", "))
        }
        Step::Named { name, result } => {
            format!("step {name}: {}", show::line(result, SHOWN))
        }
        Step::Narrowed { room, output } => {
            let reply = output.map(|output| format!(", a reply {}", show::tokens(output)));
            format!(
                "too large for the provider: its exchange may have {} tokens from here{}",
                show::tokens(*room),
                reply.unwrap_or_default()
            )
        }
        Step::Spent(Spent { usage, stand_in }) => {
            let whose = stand_in.as_deref().map(|model| format!(" of {model}"));
            format!(
                "paid besides its replies{}: {} tokens",
                whose.unwrap_or_default(),
                show::tokens(usage.input + usage.output)
            )
        }
    }
}

/// Who answered, and on which prefix.
fn stood_in(by: &StandIn) -> String {
    let prefix = by
        .prefix()
        .map(|prefix| format!(", prefix {}", prefix.short()));
    format!(" ({} stood in{})", by.model, prefix.unwrap_or_default())
}

fn step_json((moment, step): &(Moment, std::sync::Arc<Step>)) -> Value {
    let mut value = match &**step {
        Step::Model(reply) => {
            let by = reply.stand_in.as_ref();
            let mut replied = json!({
                "kind": "model",
                "text": reply.text,
                "calls": reply.calls.iter().map(|call| json!({
                    "id": call.id, "name": call.name, "arguments": call.arguments,
                })).collect::<Vec<_>>(),
                "stand_in": by.map(|by| &by.model),
                "input_tokens": reply.usage.input.0,
                "output_tokens": reply.usage.output.0,
                "cost_usd": show::dollars(reply.usage.cost),
            });
            if let Some(prefix) = by.and_then(StandIn::prefix) {
                replied["stand_in_prefix"] = prefix.to_string().into();
            }
            replied
        }
        Step::Tools(results) => json!({
            "kind": "tools",
            "results": results.iter().map(|result| json!({
                "call_id": result.call_id, "content": result.content, "is_error": result.is_error,
            })).collect::<Vec<_>>(),
        }),
        Step::Named { name, result } => json!({"kind": "named", "name": name, "result": result}),
        Step::Narrowed { room, output } => {
            let mut narrowed = json!({"kind": "narrowed", "room_tokens": room.0});
            if let Some(output) = output {
                narrowed["output_tokens"] = output.0.into();
            }
            narrowed
        }
        Step::Spent(Spent { usage, stand_in }) => json!({
            "kind": "spent",
            "stand_in": stand_in,
            "input_tokens": usage.input.0,
            "output_tokens": usage.output.0,
            "cost_usd": show::dollars(usage.cost),
        }),
    };
    show::merge(&mut value, when(*moment));
    value
}

/// A moment, as JSON has it.
fn when(moment: Moment) -> Value {
    json!({"event": moment.seq, "at": show::instant(moment.at)})
}

fn whole(found: &Found<RunId>, run: &RunTrace) -> Value {
    let given = &run.opened.1;
    let usage = run.usage();
    let attempts = run.retries.iter().map(|(moment, attempt, reason)| {
        let mut value = json!({"attempt": attempt, "reason": reason});
        show::merge(&mut value, when(*moment));
        value
    });
    let mut value = list::json(found.session, found.id, run);
    show::merge(
        &mut value,
        json!({
            "task": found.trace.task(found.id),
            "definition": given.definition.to_string(),
            "snapshot": given.snapshot.map(|id| id.to_string()),
            "prefix": given.prefix.to_string(),
            "cache_expected_tokens": usage.cache_expected.0,
            "cache_write_tokens": usage.cache_write.0,
            "cache_missed": usage.missed(),
            "steps": run.steps.iter().map(step_json).collect::<Vec<_>>(),
            "attempts": attempts.collect::<Vec<_>>(),
            "answer": answer(run),
        }),
    );
    value
}
