//! `unisono checkpoints list`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use unisono_context::CheckpointId;
use unisono_context::checkpoint::{Body, Checkpoint, Kind};
use unisono_session::State;

use crate::app::App;
use crate::problem::Result;
use crate::show;

const HELP: &str = "\
A checkpoint is active where it stands in the context of a branch; the others are kept. The newest
are first.

JSON: a list of {id, number, first, last, messages, kind (auto, manual), tier (conversation, topic,
bulk), preset, model, tokens_before, tokens_after, compression_ratio (before by after), tightened
(less was kept than was asked for, so that the context fits), active, retired (taken back), at}.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    #[arg(default_value = "latest")]
    session: String,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let sessions = app.sessions(&setup).await?;
    let state = sessions.state(sessions.find(&args.session).await?).await?;
    let active = active(&state);
    let all = state.checkpoints().iter().rev();
    if app.out.json {
        let all = all.map(|checkpoint| json(checkpoint, &state, active.contains(&checkpoint.id)));
        app.out.json(&all.collect::<Vec<_>>());
    } else if all.len() == 0 {
        app.out.say("no checkpoints: nothing was summarised yet");
    } else {
        let rows = all.map(|checkpoint| row(checkpoint, &state, active.contains(&checkpoint.id)));
        let header = [
            "NUMBER", "MESSAGES", "TOKENS", "KIND", "TIER", "PRESET", "MODEL", "STATE", "AT (UTC)",
        ];
        app.out.data(show::table(&header, &[0], rows.collect()));
    }
    sessions.close().await
}

/// Those in the context of any branch.
pub(super) fn active(state: &State) -> BTreeSet<CheckpointId> {
    let branches = state.tree().branches();
    let active = branches.flat_map(|(_, head)| state.checkpoints().active(state.tree(), head));
    active.map(|checkpoint| checkpoint.id).collect()
}

pub(super) fn kind(checkpoint: &Checkpoint) -> &'static str {
    match checkpoint.kind {
        Kind::Auto => "auto",
        Kind::Manual => "manual",
    }
}

fn row(c: &Checkpoint, all: &State, active: bool) -> Vec<String> {
    let (before, after) = (
        show::tokens(c.original),
        show::tokens(show::block_tokens(c)),
    );
    let state = match (active, &c.body) {
        (true, Body::Tombstone) => "active note",
        (true, _) => "active",
        (false, _) if all.checkpoints().is_retired(c.id) => "taken back",
        (false, _) => "superseded",
    };
    vec![
        c.number.to_string(),
        format!("{}–{}", c.first(), c.cutoff),
        format!(
            "{before} → {after}{}",
            show::compression(c.original, show::block_tokens(c))
        ),
        kind(c).to_owned(),
        c.tier.name().to_owned(),
        c.preset.to_string(),
        c.model.to_string(),
        match all.checkpoints().is_tightened(c.id) {
            true => format!("{state}, tightened"),
            false => state.to_owned(),
        },
        show::date(c.at),
    ]
}

pub(super) fn json(c: &Checkpoint, all: &State, active: bool) -> Value {
    json!({
        "id": c.id.to_string(),
        "number": c.number,
        "first": c.first().0,
        "last": c.cutoff.0,
        "messages": c.messages_included,
        "kind": kind(c),
        "tier": c.tier.name(),
        "preset": c.preset.name(),
        "model": c.model,
        "tokens_before": c.original.0,
        "tokens_after": show::block_tokens(c).0,
        "compression_ratio": show::ratio(c.original.0, show::block_tokens(c).0),
        "tightened": all.checkpoints().is_tightened(c.id),
        "active": active,
        "retired": all.checkpoints().is_retired(c.id),
        "at": show::instant(c.at),
    })
}
