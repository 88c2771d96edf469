//! `unisono sessions delete`.

use serde_json::json;
use unisono_context::SessionId;
use unisono_daemon::setup::Setup;
use unisono_search::Search;

use crate::app::App;
use crate::ask::confirmed;
use crate::host::Where;
use crate::problem::Result;
use crate::sessions::Sessions;
use crate::show;

#[derive(Debug, clap::Args)]
#[command(after_help = "Space on disk is given back by `unisono vacuum`. JSON: session, deleted.")]
pub(crate) struct Args {
    /// The session
    session: String,
    /// Does not ask
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let store = app.store_or_nothing(&setup).await?;
    let sessions = store.sessions();
    let id = sessions.find(&args.session).await?;
    let state = sessions.state(id).await?;
    let messages = show::many(state.tree().len() as u64, "message");
    let title = show::line(state.title(), 60);
    if !args.yes
        && !confirmed(
            &app.out,
            &format!("Delete {title:?} with {messages} for good?"),
        )?
    {
        app.out.say("kept");
        return sessions.close().await;
    }
    let deleted = store.delete(id).await?;
    if let Where::Here(_) = store {
        forget(&setup, &sessions, id).await?;
    }
    if app.out.json {
        app.out
            .json(&json!({"session": id.to_string(), "deleted": deleted}));
    } else {
        app.out
            .say(format_args!("deleted session {id} with {messages}"));
    }
    sessions.close().await
}

/// Takes it out of the search index as well, if there is one.
async fn forget(setup: &Setup, sessions: &Sessions, id: SessionId) -> Result<()> {
    let index = unisono_search::directory(&setup.loaded.config.store.path);
    if index.exists() {
        let search = Search::on_disk(sessions.journal().clone(), index);
        search.removed(id);
        let settled = search.settle(None).await;
        search.close().await;
        settled?;
    }
    Ok(())
}
