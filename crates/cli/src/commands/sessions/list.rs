//! `unisono sessions list`.

use unisono::labels::Label;
use unisono_api::session::SessionListItem;

use crate::app::App;
use crate::problem::Result;
use crate::service::all_sessions;
use crate::show;

/// Longest title shown in a list.
const TITLE_CHARS: usize = 60;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The newest session comes first; `latest` is the one that changed
last, except sessions of MCP clients.

JSON: a list of {session, title, labels, events, bytes, created_at, updated_at, lost {first, last,
found_at, quarantine} (events lost in a repair of the store)}."
)]
pub(crate) struct Args {
    /// Only sessions with this label: NAME=VALUE, or NAME with any value; may be repeated
    #[arg(long, value_name = "LABEL")]
    label: Vec<Label>,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let service = app.reader().await?;
    let mut listed = all_sessions(&*service).await?;
    listed.retain(|session| args.label.iter().all(|label| label.is_of(&session.labels)));
    if app.out.json {
        app.out.json(&listed);
    } else if listed.is_empty() && !args.label.is_empty() {
        app.out.message("no session has these labels");
    } else if listed.is_empty() {
        app.out
            .message("no sessions yet: `unisono run FILE` or `unisono import FILE` makes one");
    } else {
        app.out.data(table(&listed));
    }
    for session in &listed {
        if let Some(lost) = &session.lost {
            app.report_lost(&show::short_id(&session.session), lost);
        }
    }
    service.close().await;
    Ok(())
}

pub(in crate::commands) fn table(listed: &[SessionListItem]) -> String {
    let header = ["SESSION", "UPDATED (UTC)", "EVENTS", "SIZE", "TITLE"];
    show::table(&header, &[2, 3], listed.iter().map(row).collect())
}

fn row(session: &SessionListItem) -> Vec<String> {
    vec![
        show::short_id(&session.session),
        show::minute(&session.updated_at),
        show::number(session.events),
        show::size(session.bytes),
        show::line(&session.title, TITLE_CHARS),
    ]
}
