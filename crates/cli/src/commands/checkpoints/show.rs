//! `unisono checkpoints show`.

use std::sync::Arc;

use serde_json::json;
use unisono_context::checkpoint::{Body, Checkpoint};
use unisono_session::State;

use super::list::{active, json, kind};
use crate::app::App;
use crate::problem::{Problem, Result};
use crate::show;

const HELP: &str = "\
JSON: as of `list`, with covers [{first, last}], text, key_facts [{text, ordinal}], duration_ms, degraded and
cost_usd_millionths (null: unknown).";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// The checkpoint's number; without it, the newest
    number: Option<u32>,
    /// Only the text of its summary, as `edit` takes it
    #[arg(long, conflicts_with = "json")]
    summary: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let sessions = app.sessions(&setup).await?;
    let state = sessions.state(sessions.find(&args.session).await?).await?;
    let mut all = state.checkpoints().iter();
    let found = match args.number {
        Some(number) => all.find(|checkpoint| checkpoint.number == number),
        None => all.last(),
    };
    let checkpoint = found.ok_or_else(|| missing(args.number, state.checkpoints().iter().len()))?;
    if let (true, Body::Summary(text)) = (args.summary, &checkpoint.body) {
        app.out.data(text);
    } else if app.out.json {
        let mut value = json(checkpoint, &state, active(&state).contains(&checkpoint.id));
        let facts = checkpoint.key_facts.iter();
        let facts = facts.map(|fact| json!({"text": fact.text, "ordinal": fact.ordinal.0}));
        let covers = checkpoint.covers.iter();
        let covers = covers.map(|span| json!({"first": span.first.0, "last": span.last.0}));
        value["covers"] = covers.collect::<Vec<_>>().into();
        value["text"] = checkpoint.context_text().into();
        value["key_facts"] = facts.collect::<Vec<_>>().into();
        value["duration_ms"] = checkpoint.duration_ms.into();
        value["degraded"] = checkpoint.degraded.into();
        value["cost_usd_millionths"] = checkpoint.cost_micros.into();
        app.out.json(&value);
    } else {
        app.out.say(about(checkpoint, &state));
        app.out.data(show::indented(&checkpoint.context_text(), ""));
    }
    sessions.close().await
}

pub(super) fn missing(number: Option<u32>, known: usize) -> Problem {
    let problem = match number {
        Some(number) => Problem::not_found(format!("the session has no checkpoint {number}")),
        None => Problem::not_found("the session has no checkpoint"),
    };
    match known {
        0 => problem.hint("`unisono compact` makes one"),
        _ => problem.hint(format!("it has 1 to {known}")),
    }
}

fn about(c: &Arc<Checkpoint>, state: &State) -> String {
    let (before, after) = (
        show::tokens(c.original),
        show::tokens(show::block_tokens(c)),
    );
    let (messages, at) = (
        show::many(c.messages_included.into(), "message"),
        show::date(c.at),
    );
    let degraded = if c.degraded {
        ", to be redone by a model"
    } else {
        ""
    };
    let tightened = match state.checkpoints().is_tightened(c.id) {
        true => ", less kept than was asked for",
        false => "",
    };
    let ratio = show::compression(c.original, show::block_tokens(c));
    format!(
        "checkpoint {} ({}, {}, {}), {messages}, {before} → {after} tokens{ratio}, by {}, {}, {at} UTC{degraded}{tightened}\n",
        c.number,
        kind(c),
        c.tier.name(),
        c.preset,
        c.model,
        show::time(c.duration_ms),
    )
}
