//! `unisono sessions tree`.

use std::collections::BTreeMap;

use serde_json::json;
use unisono::Service;
use unisono_api::PageQuery;
use unisono_api::session::{BranchSegment, TreeMessage, TreeQuery};
use unisono_context::Ordinal;

use crate::app::App;
use crate::live::open;
use crate::problem::Result;
use crate::service::{all_branches, all_pages, find_session};
use crate::show;

const HELP: &str = "\
Consecutive messages without a fork are one line; --full shows each of them. Open turns follow,
with the states of their runs.
JSON: messages [{id, parent, ordinal, role, author, at, text}], branches {name: message id},
open_runs as for `sessions show`.";

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
    let service = app.reader().await?;
    let id = find_session(&*service, &args.session).await?.session;
    let session = service.session(&id).await?;
    if app.out.json {
        let branches = all_branches(&*service, &id).await?.into_iter();
        let branches = branches.map(|branch| (branch.name, branch.head));
        app.out.json(&json!({
            "messages": messages(&*service, &id).await?,
            "branches": branches.collect::<BTreeMap<_, _>>(),
            "open_runs": open::list(&session),
        }));
    } else {
        let stretches = stretches(&*service, &id, args.full).await?;
        let drawing: String = stretches.iter().map(line).collect();
        let drawn = drawing + &open::lines(&*service, &session, app.out.paint).await?;
        app.out.data(show::wrap(&drawn, 4));
    }
    service.close().await;
    Ok(())
}

/// All messages in the order of their creation.
async fn messages(service: &dyn Service, session: &str) -> Result<Vec<TreeMessage>> {
    all_pages(async |page| service.tree_messages(session, &page).await).await
}

async fn stretches(service: &dyn Service, session: &str, full: bool) -> Result<Vec<BranchSegment>> {
    all_pages(async |PageQuery { cursor, limit }| {
        let query = TreeQuery {
            full,
            cursor,
            limit,
        };
        service.tree(session, &query).await
    })
    .await
}

fn line(stretch: &BranchSegment) -> String {
    let indent = "  ".repeat(usize::try_from(stretch.depth).unwrap_or_default());
    let heads = match &stretch.branches[..] {
        [] => String::new(),
        names => format!("  ← {}", names.join(", ")),
    };
    let (from, to) = (
        Ordinal(stretch.first_ordinal),
        Ordinal(stretch.last_ordinal),
    );
    let role = &stretch.role;
    let (head, tail) = match stretch.messages {
        1 => (format!("{indent}{from} {role}: "), heads),
        many => (
            format!("{indent}{from}–{to} {role}: "),
            format!("  ({many} messages){heads}"),
        ),
    };
    let taken = head.chars().count() + tail.chars().count();
    let text = show::line(&stretch.text, show::line_room(taken, 70));
    format!("{head}{text}{tail}\n")
}
