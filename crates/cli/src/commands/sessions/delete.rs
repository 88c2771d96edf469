//! `unisono sessions delete`.

use serde_json::json;

use crate::app::App;
use crate::ask::confirmed;
use crate::problem::Result;
use crate::service::find_session;
use crate::show;

const HELP: &str = "\
The session is deleted at once; its bytes are removed from the disk by the next `unisono vacuum`.
A daemon vacuums automatically if that frees enough (`store.vacuum_over_mib`). With --purge they
are removed before this returns: journal and search index are rewritten, which needs room for a
second copy of the live data. Copies elsewhere (exports, backups, the `quarantine` of a repair)
are not touched.
JSON: session, deleted, purged.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// Does not ask
    #[arg(long, short)]
    yes: bool,
    /// Also removes its bytes from the disk
    #[arg(long)]
    purge: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let service = app.changer_with(&setup).await?;
    let found = find_session(&*service, &args.session).await?;
    let session = service.session(&found.session).await?;
    let messages = show::many(session.messages, "message");
    let title = show::line(&session.title, 60);
    if !args.yes
        && !confirmed(
            &app.out,
            &format!("Delete {title:?} with {messages} for good?"),
        )?
    {
        app.out.message("kept");
        service.close().await;
        return Ok(());
    }
    service.delete_session(&session.session, args.purge).await?;
    if args.purge && setup.loaded.config.store.path.join("quarantine").exists() {
        app.out
            .warn("copies from repairs may remain in the directory `quarantine` of the store");
    }
    let id = session.session;
    let report = json!({"session": id, "deleted": true, "purged": args.purge});
    let message = format!("deleted session {id} with {messages}");
    app.out.outcome(&report, message);
    service.close().await;
    Ok(())
}
