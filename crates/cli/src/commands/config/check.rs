//! `unisono config check`.

use serde_json::json;
use unisono_config::diagnostic::{Diagnostic, Severity};
use unisono_config::setup;

use crate::app::App;
use crate::problem::{Exit, Problem, Result};

const HELP: &str = "\
Exits with 2 if there is an error. An unknown key is one, a warning is none.
JSON: a list of {severity, origin, line, column, key, problem, help}.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {}

/// Reports all problems of settings and agents.
pub(crate) fn run(app: &App, _: Args) -> Result<()> {
    let found = setup::check(app.sources(Vec::new())?);
    if app.out.json {
        app.out.json(&found.iter().map(json).collect::<Vec<_>>());
    } else if found.is_empty() {
        app.out.data("settings and agents are right");
    } else {
        found
            .iter()
            .for_each(|diagnostic| app.out.data(line(app, diagnostic)));
    }
    if found.has_errors() {
        return Err(Problem::silent(Exit::Usage));
    }
    Ok(())
}

fn line(app: &App, diagnostic: &Diagnostic) -> String {
    let paint = app.out.paint;
    let severity = match diagnostic.severity {
        Severity::Error => paint.red("error"),
        Severity::Warning => paint.yellow("warning"),
    };
    let help = diagnostic
        .help
        .as_ref()
        .map(|help| format!("; {help}"))
        .unwrap_or_default();
    format!(
        "{}: {severity}: {}{help}",
        diagnostic.place, diagnostic.problem
    )
}

fn json(diagnostic: &Diagnostic) -> serde_json::Value {
    let place = &diagnostic.place;
    json!({
        "severity": diagnostic.severity.to_string(),
        "origin": place.origin.to_string(),
        "line": place.at.map(|(line, _)| line),
        "column": place.at.map(|(_, column)| column),
        "key": diagnostic.key,
        "problem": diagnostic.problem,
        "help": diagnostic.help,
    })
}
