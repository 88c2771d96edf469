//! `unisono seal`.

use serde_json::json;
use unisono_session::state::MAIN;

use super::sessions::branch::unknown_branch;
use crate::app::App;
use crate::live::End;
use crate::problem::Result;
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
    let store = app.store_or_nothing(&setup).await?;
    let sessions = store.sessions();
    let id = sessions.find(&args.session).await?;
    let branch = &args.branch;
    let state = sessions.state(id).await?;
    if state.tree().head(branch).is_none() {
        return Err(unknown_branch(&state, branch));
    }
    let host = app.host(store, setup).await?;
    let done = host.seal(id, branch).await;
    host.stop(End::Ended).await;
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
