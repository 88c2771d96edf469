//! `unisono sessions list`.

use std::cmp::Reverse;

use serde_json::json;
use unisono::labels::Label;
use unisono_context::Timestamp;
use unisono_session::Fact;

use crate::app::App;
use crate::problem::Result;
use crate::sessions::{self, Listed};
use crate::show;

/// Longest title shown in a list.
const TITLE_CHARS: usize = 60;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "JSON: a list of {session, title, labels, events, bytes, created, updated}."
)]
pub(crate) struct Args {
    /// Only sessions with this label: NAME=VALUE, or NAME with any value; may be repeated
    #[arg(long, value_name = "LABEL")]
    label: Vec<Label>,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let sessions = app.sessions(&setup).await?;
    let mut listed = sessions.listed().await?;
    listed.retain(|session| match &session.created {
        Fact::Created { labels, .. } => args.label.iter().all(|label| label.is_of(labels)),
        _ => false,
    });
    listed.sort_by_key(|session| Reverse((session.info.updated_unix_ms, session.id)));
    if app.out.json {
        app.out.json(&listed.iter().map(json).collect::<Vec<_>>());
    } else if listed.is_empty() && !args.label.is_empty() {
        app.out.say("no session has these labels");
    } else if listed.is_empty() {
        app.out
            .say("no sessions yet: `unisono run FILE` or `unisono import FILE` makes one");
    } else {
        let rows = listed.iter().map(row).collect();
        let header = ["SESSION", "UPDATED (UTC)", "EVENTS", "SIZE", "TITLE"];
        app.out.data(show::table(&header, &[2, 3], rows));
    }
    sessions.close().await
}

fn title(session: &Listed) -> &str {
    match &session.created {
        Fact::Created { title, .. } => title,
        _ => "",
    }
}

fn at(unix_ms: u64) -> Timestamp {
    Timestamp(i64::try_from(unix_ms).unwrap_or(i64::MAX))
}

fn row(session: &Listed) -> Vec<String> {
    vec![
        sessions::short(session.id),
        show::date(at(session.info.updated_unix_ms)),
        show::number(session.info.last_seq),
        show::size(session.info.payload_bytes),
        show::line(title(session), TITLE_CHARS),
    ]
}

fn json(session: &Listed) -> serde_json::Value {
    let labels = match &session.created {
        Fact::Created { labels, .. } => labels.clone(),
        _ => Default::default(),
    };
    json!({
        "session": session.id.to_string(),
        "title": title(session),
        "labels": labels,
        "events": session.info.last_seq,
        "bytes": session.info.payload_bytes,
        "created": show::instant(at(session.info.created_unix_ms)),
        "updated": show::instant(at(session.info.updated_unix_ms)),
    })
}
