//! `unisono sessions tree`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use unisono::outline::{self, Stretch};
use unisono_session::State;

use crate::app::App;
use crate::live::open;
use crate::problem::Result;
use crate::show;

const HELP: &str = "\
A run of messages without a fork is one line; --full shows each of them. Open turns follow, with
what their agents are at.
JSON: messages [{id, parent, ordinal, role, author, at, text}], branches {name: message id},
open_runs as of `sessions show`.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    #[arg(default_value = "latest")]
    session: String,
    /// Shows every message
    #[arg(long)]
    full: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let sessions = app.sessions(&setup).await?;
    let state = sessions.state(sessions.find(&args.session).await?).await?;
    if app.out.json {
        app.out.json(&json(&state));
    } else {
        let stretches = outline::stretches(state.tree(), args.full);
        let drawing: String = stretches.iter().map(line).collect();
        let drawn = drawing + &open::lines(&state, app.out.paint);
        app.out.data(show::fitted(&drawn, 4));
    }
    sessions.close().await
}

fn json(state: &State) -> Value {
    let tree = state.tree();
    let messages = tree.iter().map(|node| {
        let message = &node.message;
        json!({
            "id": message.id.to_string(),
            "parent": message.parent.map(|id| id.to_string()),
            "ordinal": message.ordinal.0,
            "role": message.role.name(),
            "author": message.author.as_ref().map(ToString::to_string),
            "at": show::instant(message.at),
            "text": message.countable_text(),
        })
    });
    let branches = tree.branches().map(|(name, head)| (name, head.to_string()));
    json!({
        "messages": messages.collect::<Vec<_>>(),
        "branches": branches.collect::<BTreeMap<_, _>>(),
        "open_runs": open::list(state),
    })
}

/// A stretch as text.
fn line(stretch: &Stretch) -> String {
    let indent = "  ".repeat(stretch.depth);
    let heads = match &stretch.heads[..] {
        [] => String::new(),
        names => format!("  ← {}", names.join(", ")),
    };
    let (from, to) = (stretch.first.ordinal, stretch.last.ordinal);
    let role = stretch.first.role;
    let (head, tail) = match stretch.messages {
        1 => (format!("{indent}{from} {role}: "), heads),
        many => (
            format!("{indent}{from}–{to} {role}: "),
            format!("  ({many} messages){heads}"),
        ),
    };
    let taken = head.chars().count() + tail.chars().count();
    let text = show::line(&stretch.first.countable_text(), show::room(taken, 70));
    format!("{head}{text}{tail}\n")
}
