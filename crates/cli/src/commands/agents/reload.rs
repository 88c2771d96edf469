//! `unisono agents reload`.

use crate::app::App;
use crate::problem::{Exit, Problem, Result};

const HELP: &str = "\
A daemon reloads changed files automatically (`server.reload_seconds`); this command reloads at
once and reports the result. If one definition is invalid, none is changed. Open turns keep their
definitions.

JSON: applied, added, changed, removed, problems.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {}

pub(crate) async fn run(app: &App, _: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let store = app.store_if_exists(&setup).await?;
    if store.daemon().is_none() {
        let path = setup.loaded.config.store.path.display();
        let problem = format!("no daemon has the store {path} open");
        let problem = Problem::with_exit(Exit::Unreachable, problem);
        return Err(
            problem.hint("nothing to do: without a daemon every call reads the agents again")
        );
    }
    let reload = app.service_on(store, &setup)?.reload_agents().await?;
    if app.out.json {
        app.out.json(&reload);
        return Ok(());
    }
    for problem in &reload.problems {
        app.out.warn(problem);
    }
    let changes = [
        ("new", &reload.added),
        ("changed", &reload.changed),
        ("removed", &reload.removed),
    ];
    let changes = changes.into_iter().filter(|(_, agents)| !agents.is_empty());
    let changes: Vec<String> = changes
        .map(|(word, agents)| format!("{word}: {}", agents.join(", ")))
        .collect();
    match changes.is_empty() {
        true => app.out.message("no agent has changed"),
        false => app.out.message(changes.join("; ")),
    }
    Ok(())
}
