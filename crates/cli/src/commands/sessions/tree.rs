//! `unisono sessions tree`.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use unisono_context::{MessageId, Tree};
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
        let drawing = Drawing::new(state.tree(), args.full);
        app.out
            .data(drawing.draw() + &open::lines(&state, app.out.paint));
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

/// The tree as text: forks are indented below the message they leave from.
struct Drawing<'t> {
    tree: &'t Tree,
    children: HashMap<Option<MessageId>, Vec<MessageId>>,
    heads: HashMap<MessageId, Vec<&'t str>>,
    full: bool,
}

impl<'t> Drawing<'t> {
    fn new(tree: &'t Tree, full: bool) -> Drawing<'t> {
        let mut children: HashMap<Option<MessageId>, Vec<MessageId>> = HashMap::new();
        for node in tree.iter() {
            children
                .entry(node.message.parent)
                .or_default()
                .push(node.message.id);
        }
        let mut heads: HashMap<MessageId, Vec<&str>> = HashMap::new();
        for (name, head) in tree.branches() {
            heads.entry(head).or_default().push(name);
        }
        Drawing {
            tree,
            children,
            heads,
            full,
        }
    }

    fn draw(&self) -> String {
        let mut out = String::new();
        // What is still to be drawn, the next one last: a deep tree needs no deep stack.
        let roots = self.children.get(&None).into_iter().flatten().rev();
        let mut todo: Vec<(MessageId, usize)> = roots.map(|id| (*id, 0)).collect();
        while let Some((first, depth)) = todo.pop() {
            let (last, shown) = self.chain(first);
            out.push_str(&self.line(first, last, shown, depth));
            let next = self
                .children
                .get(&Some(last))
                .map_or(&[][..], Vec::as_slice);
            let deeper = depth + usize::from(next.len() > 1);
            todo.extend(next.iter().rev().map(|id| (*id, deeper)));
        }
        out
    }

    /// From `first` to where something happens: a fork, an end, a branch's head.
    fn chain(&self, first: MessageId) -> (MessageId, usize) {
        let (mut last, mut shown) = (first, 1);
        while !self.full && !self.heads.contains_key(&last) {
            match self.children.get(&Some(last)).map(Vec::as_slice) {
                Some([next]) => (last, shown) = (*next, shown + 1),
                _ => break,
            }
        }
        (last, shown)
    }

    fn line(&self, first: MessageId, last: MessageId, shown: usize, depth: usize) -> String {
        let indent = "  ".repeat(depth);
        let (Some(start), Some(end)) = (self.tree.get(first), self.tree.get(last)) else {
            return String::new();
        };
        let heads = self
            .heads
            .get(&last)
            .map(|names| format!("  ← {}", names.join(", ")));
        let heads = heads.unwrap_or_default();
        let (from, to) = (start.message.ordinal, end.message.ordinal);
        let text = show::line(&start.message.countable_text(), 70);
        let role = start.message.role;
        if shown == 1 {
            return format!("{indent}{from} {role}: {text}{heads}\n");
        }
        format!("{indent}{from}–{to} {role}: {text}  ({shown} messages){heads}\n")
    }
}
