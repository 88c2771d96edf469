//! `unisono checkpoints regenerate`: a summary is written anew.

use unisono::ask::Ask;
use unisono_session::state::MAIN;

use crate::app::App;
use crate::args::Writer;
use crate::ask::confirmed;
use crate::commands::compact::{Otherwise, follow_each, report};
use crate::live::{Interrupts, Watch};
use crate::problem::Result;

use super::restore::standing;

const HELP: &str = "\
The summary is made again of what it was made of: the summary before it, and the messages it stands
for. The old one is kept, and `checkpoints restore` brings it back. Where none can be made, nothing
changes.

Examples:
  unisono checkpoints regenerate latest --instructions \"Keep every figure.\"
  unisono checkpoints regenerate latest 3 --summariser openai/gpt-4.1-mini --yes

JSON: as of `compact`.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// The checkpoint's number; without it, the newest one in the context
    number: Option<u32>,
    /// The branch
    #[arg(long, default_value = MAIN)]
    branch: String,
    #[command(flatten)]
    writer: Writer,
    /// Does not ask
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let mut interrupts = Interrupts::listen()?;
    let store = app.store_or_nothing(&setup).await?;
    let sessions = store.sessions();
    let id = sessions.find(&args.session).await?;
    let state = sessions.state(id).await?;
    let (_, checkpoint) = standing(&state, &args.branch, args.number)?;
    let (number, model) = (checkpoint.number, &checkpoint.model);
    let question = format!("Write checkpoint {number} (by {model}) anew?");
    if !args.yes && !confirmed(&app.out, &question)? {
        app.out.say("nothing was changed");
        return sessions.close().await;
    }
    let anew = |writing| {
        let ask = Ask::regenerate(checkpoint.id, writing);
        ask.branch(args.branch.as_str())
    };
    let otherwise = Otherwise {
        asks: !args.yes && args.writer.is_open(),
        writing: args.writer.writing(),
        ask: &anew,
    };
    let next = |watch: &Watch| otherwise.next(app, watch);
    let ask = anew(args.writer.writing());
    let (watch, end) = follow_each(app, setup, store, id, ask, &mut interrupts, next).await?;
    report(app, &watch, end)
}
