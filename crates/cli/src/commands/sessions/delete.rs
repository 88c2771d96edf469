//! `unisono sessions delete`.

use serde_json::json;
use unisono_config::setup::Setup;
use unisono_context::SessionId;
use unisono_search::Search;

use crate::app::App;
use crate::ask::confirmed;
use crate::host::Where;
use crate::problem::Result;
use crate::sessions::Sessions;
use crate::show;

const HELP: &str = "\
The session is gone at once; its bytes leave the disk with the next `unisono vacuum`, which a daemon
makes by itself. With --purge they have left it when this returns: journal and search index are written
anew without them, which needs room for a second copy of what is live. Copies elsewhere (exports,
backups, what a repair has put into `quarantine`) are not touched.
JSON: session, deleted, purged.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// Does not ask
    #[arg(long, short)]
    yes: bool,
    /// Leaves nothing of it on disk
    #[arg(long)]
    purge: bool,
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
    let deleted = store.delete(id, args.purge).await?;
    if let Where::Here(_) = store {
        forget(&setup, &sessions, id, args.purge).await?;
        if args.purge {
            sessions.journal().vacuum(None).await?;
        }
    }
    if args.purge && setup.loaded.config.store.path.join("quarantine").exists() {
        app.out.warn(
            "what repairs have put into the directory `quarantine` of the store may still hold it",
        );
    }
    if app.out.json {
        app.out.json(&json!({
            "session": id.to_string(), "deleted": deleted, "purged": args.purge,
        }));
    } else {
        app.out
            .say(format_args!("deleted session {id} with {messages}"));
    }
    sessions.close().await
}

/// Takes it out of the search index as well, if there is one.
async fn forget(setup: &Setup, sessions: &Sessions, id: SessionId, purge: bool) -> Result<()> {
    let index = unisono_search::directory(&setup.loaded.config.store.path);
    if index.exists() {
        let search = Search::on_disk(sessions.journal().clone(), index);
        search.removed(id);
        let settled = match purge {
            true => search.purge().await,
            false => search.settle(None).await,
        };
        search.close().await;
        settled?;
    }
    Ok(())
}
