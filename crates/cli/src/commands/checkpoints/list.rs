//! `unisono checkpoints list`.

use unisono_api::compaction::Checkpoint;
use unisono_api::session::MAIN_BRANCH;
use unisono_context::Tokens;

use crate::app::App;
use crate::problem::Result;
use crate::service::{all_checkpoints, find_session};
use crate::show;

const HELP: &str = "\
A checkpoint is active if the context of a branch has it; the others are kept. The newest come
first.

JSON: a list of {id, number, active (on the branch `main`), active_branches (number of branches
with it in their context), retired (reverted), first, last, messages, tokens_before, tokens_after, kind (auto,
manual), tier (conversation, topic, bulk), preset, model, degraded, tightened (fewer messages were
kept than requested, so that the context fits), compression_ratio (before by after), coverage
{facts, kept, quoted} (the days, names and ids of the messages, and those in a model's summary and in
quotes of its size; or null), at, text}.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    #[arg(default_value = "latest")]
    session: String,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let service = app.reader().await?;
    let session = find_session(&*service, &args.session).await?.session;
    let all = all_checkpoints(&*service, &session, MAIN_BRANCH).await?;
    service.close().await;
    let header = [
        "NUMBER", "MESSAGES", "TOKENS", "KIND", "TIER", "PRESET", "MODEL", "STATE", "AT (UTC)",
    ];
    let none = "no checkpoints: nothing was summarised yet";
    app.out.list(&all, none, (&header, &[0]), row);
    Ok(())
}

/// Why a checkpoint is inactive differs by branch: `checkpoints show --json` says it.
fn state(c: &Checkpoint) -> &'static str {
    match (c.active_branches > 0, &c.text) {
        (true, None) => "active note",
        (true, _) => "active",
        (false, _) if c.retired => "reverted",
        (false, _) => "inactive",
    }
}

fn row(c: &Checkpoint) -> Vec<String> {
    let (before, after) = (Tokens(c.tokens_before), Tokens(c.tokens_after));
    let state = state(c);
    vec![
        c.number.to_string(),
        format!("#{}–#{}", c.first, c.last),
        format!(
            "{} → {}{}",
            show::tokens(before),
            show::tokens(after),
            show::compression(before, after)
        ),
        c.kind.clone(),
        c.tier.clone(),
        c.preset.clone(),
        c.model.clone(),
        match c.tightened {
            true => format!("{state}, tightened"),
            false => state.to_owned(),
        },
        show::minute(&c.at),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn a_checkpoint_of_messages_that_no_branch_has_is_not_superseded() {
        for (active_branches, retired, text, expected) in [
            (1, false, Some("so"), "active"),
            (1, false, None, "active note"),
            (0, true, Some("so"), "reverted"),
            (0, false, Some("so"), "inactive"),
        ] {
            let checkpoint = json!({"id": "c", "number": 1, "active": false,
                "active_branches": active_branches, "retired": retired, "first": 1, "last": 2,
                "messages": 2, "tokens_before": 9, "tokens_after": 1, "kind": "auto",
                "tier": "topic", "preset": "tiered", "model": "a/b", "degraded": false,
                "compression_ratio": 9.0, "at": "", "text": text, "coverage": null});
            let checkpoint: Checkpoint = from_value(checkpoint).unwrap();
            assert_eq!(state(&checkpoint), expected);
        }
    }
}
