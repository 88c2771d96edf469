//! `unisono sessions delete`.

use serde_json::json;

use crate::app::App;
use crate::ask::confirmed;
use crate::problem::Result;
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
    let sessions = app.sessions(&setup).await?;
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
    let deleted = sessions.journal().delete(id).await?;
    if app.out.json {
        app.out
            .json(&json!({"session": id.to_string(), "deleted": deleted}));
    } else {
        app.out
            .say(format_args!("deleted session {id} with {messages}"));
    }
    sessions.close().await
}
