//! `unisono init`: a starter project.

use std::path::PathBuf;

use serde_json::json;
use unisono_daemon::init;

use crate::app::App;
use crate::problem::{Problem, Result};

#[derive(Debug, clap::Args)]
#[command(after_help = "JSON: directory, written, kept.")]
pub(crate) struct Args {
    /// The project's directory; made where it does not exist
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Overwrites files that are there
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(app: &App, args: Args) -> Result<()> {
    let done = init::write(&args.directory, args.force).map_err(|error| {
        Problem::failed(format!("{}: {}", error.path.display(), error.source))
            .hint("check that the directory can be written")
    })?;
    if app.out.json {
        app.out.json(&json!({
            "directory": args.directory, "written": done.written, "kept": done.kept,
        }));
        return Ok(());
    }
    for path in &done.written {
        app.out.data(format_args!(
            "wrote {}",
            args.directory.join(path).display()
        ));
    }
    for path in &done.kept {
        app.out.say(format_args!(
            "kept  {}",
            args.directory.join(path).display()
        ));
    }
    app.out
        .say("next: `unisono run FILE` with a conversation, `unisono agents list`");
    Ok(())
}
