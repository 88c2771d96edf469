//! `unisono checkpoints regenerate`: writes a summary again.

use unisono_api::turn::{RegenerateSummary, Settings, TurnRequest};

use crate::app::App;
use crate::ask::confirmed;
use crate::commands::compact::{follow_each, report};
use crate::live::Interrupts;
use crate::options::Writer;
use crate::problem::Result;

use super::active::ActiveCheckpoint;

const HELP: &str = "\
The summary is regenerated from its sources: the summary before it, and the messages it covers.
The old one is kept, and `checkpoints revert` brings it back. If no summary can be written,
nothing changes.

Examples:
  unisono checkpoints regenerate latest --instructions \"Keep every figure.\"
  unisono checkpoints regenerate latest 3 --summariser openai/gpt-4.1-mini --yes

JSON: as for `compact`.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    active: ActiveCheckpoint,
    #[command(flatten)]
    writer: Writer,
    /// Does not ask
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let idle_store = app.idle_store(&setup).await?;
    let (session, detail) = args.active.find(idle_store.service()).await?;
    let (number, model) = (detail.checkpoint.number, &detail.checkpoint.model);
    let question = format!("Write checkpoint {number} (by {model}) again?");
    if !args.yes && !confirmed(&app.out, &question)? {
        app.out.message("nothing was changed");
        idle_store.close().await;
        return Ok(());
    }
    let mut interrupts = Interrupts::listen()?;
    let request = TurnRequest::Regenerate {
        checkpoint: detail.checkpoint.id,
        new: RegenerateSummary {
            instructions: args.writer.instructions.clone(),
            summariser: args.writer.summariser.clone(),
            on_failure: args.writer.on_failure(),
            settings: Settings::new(),
            branch: args.active.branch.clone(),
            wait: false,
        },
    };
    let asks = !args.yes && args.writer.is_open();
    let at = (session.as_str(), args.active.branch.as_str());
    let (watch, end) = follow_each(app, idle_store, at, &request, &mut interrupts, asks).await?;
    report(app, &watch, end)
}
