//! `unisono seal`.

use serde_json::json;
use unisono_session::state::MAIN;

use super::sessions::branch::unknown_branch;
use crate::app::App;
use crate::commands::run::stop;
use crate::live::End;
use crate::problem::Result;
use crate::sessions::Sessions;
use crate::show;

const HELP: &str = "\
What is said next opens another topic. With `--preset tiered`, topics that have ended are summarised
one by one when they take more than their share; other presets take no notice of topics.

Examples:
  unisono seal latest
  unisono seal latest --branch what-if

JSON: session, branch, first, last, messages.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// The branch
    #[arg(long, default_value = MAIN)]
    branch: String,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let opened = app.store(&setup).await?;
    let sessions = Sessions::new(opened.journal.clone());
    let id = sessions.find(&args.session).await?;
    let branch = &args.branch;
    let state = sessions.state(id).await?;
    if state.tree().head(branch).is_none() {
        return Err(unknown_branch(&state, branch));
    }
    let daemon = app.daemon(opened, setup).await?;
    let done = seal(&daemon, id, branch).await;
    stop(daemon, End::Ended).await;
    tell(app, id, branch, done?);
    Ok(())
}

/// Says which messages the topic has.
pub(super) fn tell(
    app: &App,
    id: unisono_context::SessionId,
    branch: &str,
    (first, last): (u32, u32),
) {
    let messages = last + 1 - first;
    if app.out.json {
        app.out.json(&json!({
            "session": id.to_string(), "branch": branch,
            "first": first, "last": last, "messages": messages,
        }));
    } else {
        let many = show::many(u64::from(messages), "message");
        app.out.say(format_args!(
            "sealed the topic of #{first}–#{last} ({many})"
        ));
    }
}

/// Seals the topic and says where it is.
pub(super) async fn seal(
    daemon: &unisono_daemon::Daemon,
    id: unisono_context::SessionId,
    branch: &str,
) -> Result<(u32, u32)> {
    let session = daemon.open(id).await?;
    session.seal(branch).await?;
    let branch = branch.to_owned();
    let span = session.inspect(move |state| {
        let head = state.tree().head(&branch)?;
        let topics = state.topics().of_branch(state.tree(), head);
        topics.last().map(|topic| topic.span)
    });
    let span = span.await?;
    Ok(span.map_or((0, 0), |span| (span.first.0, span.last.0)))
}
