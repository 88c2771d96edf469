//! `unisono sessions prune`.

use serde_json::json;
use unisono::labels::Label;
use unisono::retention::{self, Old};
use unisono_context::Timestamp;
use unisono_runtime::clock;
use unisono_search::{Bound, Search, instant};

use crate::app::App;
use crate::ask::confirmed;
use crate::host::Where;
use crate::problem::{Problem, Result};
use crate::sessions;
use crate::show;

const HELP: &str = "\
A session is as old as its last change. Sessions with open turns are never deleted. With
`store.retention_days` the daemon prunes automatically.

Examples:
  unisono sessions prune --older-than 30d --dry-run
  unisono sessions prune --older-than 2026-01-01 --label channel=test --yes

JSON: before, dry_run, sessions [{session, title, updated, events}], open (as old, but with open
turns).";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Deletes sessions without a change since: an age (30m 12h 7d 2w), a date, or an instant
    #[arg(long, value_name = "TIME")]
    older_than: String,
    /// Only sessions with this label: NAME=VALUE, or NAME with any value; may be repeated
    #[arg(long, value_name = "LABEL")]
    label: Vec<Label>,
    /// Lists the sessions that it would delete, and deletes nothing
    #[arg(long)]
    dry_run: bool,
    /// Does not ask
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let wrong = |wrong| Problem::usage(format!("--older-than {}: {wrong}", args.older_than));
    let before = instant(&args.older_than, clock::now(), Bound::Since).map_err(wrong)?;
    let setup = app.setup(Vec::new())?;
    let store = app.store_or_nothing(&setup).await?;
    let sessions = store.sessions();
    let found = retention::older_than(sessions.journal(), before, &args.label).await?;
    let many = show::many(found.old.len() as u64, "session");
    let mut gone = Vec::new();
    if args.dry_run {
        gone = found.old;
    } else if !found.old.is_empty() {
        let question = format!("Delete {many} that did not change since {}?", date(before));
        if !args.yes && !confirmed(&app.out, &question)? {
            app.out.say("kept");
            return sessions.close().await;
        }
        for old in found.old {
            if retention::is_still_old(sessions.journal(), &old).await? {
                store.delete(old.session, false).await?;
                gone.push(old);
            }
        }
        if let Where::Here(opened) = &store
            && let Some(directory) = &opened.directory
        {
            let index = unisono_search::directory(directory);
            if index.exists() {
                let search = Search::on_disk(sessions.journal().clone(), index);
                gone.iter().for_each(|old| search.removed(old.session));
                let settled = search.settle(None).await;
                search.close().await;
                settled?;
            }
        }
    }
    tell(app, &args, before, &gone, found.open);
    sessions.close().await
}

fn tell(app: &App, args: &Args, before: Timestamp, gone: &[Old], open: usize) {
    if app.out.json {
        let each = gone.iter().map(|old| {
            json!({
                "session": old.session.to_string(), "title": old.title,
                "updated": show::instant(updated(old)), "events": old.info.last_seq,
            })
        });
        app.out.json(&json!({
            "before": show::instant(before), "dry_run": args.dry_run,
            "sessions": each.collect::<Vec<_>>(), "open": open,
        }));
        return;
    }
    let rows: Vec<Vec<String>> = gone
        .iter()
        .map(|old| {
            let (id, title) = (sessions::short(old.session), show::line(&old.title, 60));
            vec![id, date(updated(old)), title]
        })
        .collect();
    let many = show::many(rows.len() as u64, "session");
    if !rows.is_empty() {
        app.out.data(show::table(
            &["SESSION", "UPDATED (UTC)", "TITLE"],
            &[],
            rows,
        ));
    }
    let done = if args.dry_run {
        "would delete"
    } else {
        "deleted"
    };
    app.out.say(format_args!("{done} {many}"));
    if open > 0 {
        let open = show::many(open as u64, "session");
        app.out.say(format_args!(
            "kept {open} of that age: their turns are open"
        ));
    }
}

fn date(at: Timestamp) -> String {
    show::date(at)
}

fn updated(old: &Old) -> Timestamp {
    Timestamp(i64::try_from(old.info.updated_unix_ms).unwrap_or(i64::MAX))
}
