//! `unisono sessions prune`.

use std::collections::BTreeSet;

use serde_json::json;
use unisono::Service;
use unisono::labels::Label;
use unisono_api::Code;
use unisono_api::session::SessionListItem;
use unisono_context::Timestamp;
use unisono_runtime::clock;
use unisono_search::{Bound, instant};

use crate::app::App;
use crate::ask::confirmed;
use crate::problem::{Problem, Result};
use crate::service::{all_sessions, unfinished};
use crate::show;

const HELP: &str = "\
A session is as old as its last change. Sessions with open turns are never deleted. With
`store.retention_days` the daemon prunes automatically.

Examples:
  unisono sessions prune --older-than 30d --dry-run
  unisono sessions prune --older-than 2026-01-01 --label channel=test --yes

JSON: before, dry_run, sessions [{session, title, updated_at, events}], open (as old, but with open
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
    let service = app.changer().await?;
    let PruneCandidates { old, open } = older_than(&*service, before, &args.label).await?;
    let many = show::many(old.len() as u64, "session");
    let (mut gone, mut done) = (Vec::new(), Ok(()));
    if args.dry_run {
        gone = old;
    } else if !old.is_empty() {
        let question = format!("Delete {many} that did not change since {}?", date(before));
        if !args.yes && !confirmed(&app.out, &question)? {
            app.out.message("kept");
            service.close().await;
            return Ok(());
        }
        for old in old {
            match is_deleted(&*service, &old).await {
                Ok(true) => gone.push(old),
                Ok(false) => {}
                Err(error) => {
                    done = Err(error);
                    break;
                }
            }
        }
    }
    service.close().await;
    // Also what was deleted before an error.
    report(app, &args, before, &gone, open);
    done
}

struct PruneCandidates {
    /// Sessions without open turns, oldest first.
    old: Vec<SessionListItem>,
    /// The number of equally old sessions that may have open turns.
    open: usize,
}

/// The sessions with these labels that last changed before then.
async fn older_than(
    service: &dyn Service,
    before: Timestamp,
    labels: &[Label],
) -> Result<PruneCandidates> {
    let mut old = all_sessions(service).await?;
    old.retain(|one| updated(one) < before && labels.iter().all(|label| label.is_of(&one.labels)));
    let all = old.len();
    // Otherwise nothing is asked about the turns of the other sessions.
    if all > 0 {
        let unfinished = unfinished(service).await?.into_iter();
        let unfinished: BTreeSet<String> = unfinished.map(|one| one.session).collect();
        old.retain(|one| !unfinished.contains(&one.session));
    }
    old.sort_by_key(updated);
    let open = all - old.len();
    Ok(PruneCandidates { old, open })
}

/// Deletes a session if it has not changed since it was found. Returns whether it was deleted.
async fn is_deleted(service: &dyn Service, old: &SessionListItem) -> Result<bool> {
    match service.session(&old.session).await {
        Ok(now) if now.events == old.events && now.open_turns.count == 0 => {}
        Ok(_) => return Ok(false),
        Err(error) if error.code() == Code::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    match service.delete_session(&old.session, false).await {
        Ok(()) => Ok(true),
        // It was continued or deleted meanwhile.
        Err(error) if matches!(error.code(), Code::Conflict | Code::NotFound) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn report(app: &App, args: &Args, before: Timestamp, gone: &[SessionListItem], open: usize) {
    if app.out.json {
        let each = gone.iter().map(|old| {
            json!({
                "session": old.session, "title": old.title,
                "updated_at": show::instant(updated(old)), "events": old.events,
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
            let (id, title) = (show::short_id(&old.session), show::line(&old.title, 60));
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
    app.out.message(format_args!("{done} {many}"));
    if open > 0 {
        let open = show::many(open as u64, "session");
        app.out.message(format_args!(
            "kept {open} of that age: their turns are open"
        ));
    }
}

fn date(at: Timestamp) -> String {
    show::date(at)
}

/// The time of its last change.
fn updated(old: &SessionListItem) -> Timestamp {
    let updated: Option<jiff::Timestamp> = old.updated_at.parse().ok();
    // A session with an invalid time is not old.
    Timestamp(updated.map_or(i64::MAX, |at| at.as_millisecond()))
}
