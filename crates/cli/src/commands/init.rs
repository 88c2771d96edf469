//! `unisono init`: a starter project.

use std::path::PathBuf;

use serde_json::json;
use unisono_config::init;
use unisono_config::settings;

use crate::app::App;
use crate::problem::{Problem, Result};
use crate::show;

const HELP: &str = "\
The project has its own store (store.path in its config/unisono.toml). Earlier sessions stay in
their store; the output names it.

JSON: directory, written, kept, earlier_store (null: no earlier sessions).";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The project's directory; created if missing
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Overwrites existing files, except .gitignore
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(app: &App, args: Args) -> Result<()> {
    let before = used_store(app, &args);
    let done = init::write(&args.directory, args.force).map_err(|error| {
        Problem::failed(format!("{}: {}", error.path.display(), error.source))
            .hint("check that the directory can be written")
    })?;
    let before = before.filter(|before| *before != store_of(app, &args));
    if app.out.json {
        app.out.json(&json!({
            "directory": args.directory.display().to_string(), "written": done.written,
            "kept": done.kept, "earlier_store": before.map(|before| before.display().to_string()),
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
        app.out.message(format_args!(
            "kept  {}",
            args.directory.join(path).display()
        ));
    }
    if let Some(before) = before {
        app.out.message(format_args!(
            "conversations of this project are kept in it from now on; earlier ones stay in {0}: \
             `unisono sessions list --store {1}` shows them",
            before.display(),
            show::argument(&before.to_string_lossy()),
        ));
    }
    let directory = show::argument(&args.directory.to_string_lossy());
    let enter = match args.directory.as_os_str() == "." {
        true => String::new(),
        false => format!("`cd {directory}`, then "),
    };
    app.out.message(format_args!(
        "next: {enter}`unisono run FILE` with a conversation, `unisono agents list`"
    ));
    Ok(())
}

/// The store that this directory used until now, if it has content.
fn used_store(app: &App, args: &Args) -> Option<PathBuf> {
    let store = store_of(app, args);
    std::fs::read_dir(&store).ok()?.next()?.ok()?;
    Some(store)
}

/// The store used in the project's directory, if it can be determined.
fn store_of(app: &App, args: &Args) -> PathBuf {
    let sources = app.sources(Vec::new()).ok().map(|mut sources| {
        if let Ok(directory) = args.directory.canonicalize() {
            sources.directory = directory;
        }
        sources
    });
    let loaded = sources.and_then(|sources| settings::load(sources).ok());
    loaded
        .map(|loaded| loaded.config.store.path)
        .unwrap_or_default()
}
