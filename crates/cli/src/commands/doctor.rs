//! `unisono doctor`: every record of the store is checked.

use serde_json::json;
use unisono_store::{Checkup, Salvage};

use crate::app::App;
use crate::problem::{Exit, Problem, Result};
use crate::show;

const HELP: &str = "\
A store that does not open, or that lost something acknowledged, is repaired when it is opened;
damaged files are kept beside it. Exits with 1 if something is wrong and was not repaired, or lost.
JSON: store, sessions, events, checkpoints, findings [{record, fault}],
salvage {reason, quarantine, sessions, events, lost} or null.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Saves all that is whole into a fresh log where something is wrong
    #[arg(long)]
    repair: bool,
}

pub(crate) fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let store = app.store_path(&setup)?;
    let checkup = if args.repair {
        unisono_store::repair(store)
    } else {
        unisono_store::doctor(store)
    };
    let checkup = checkup?;
    if app.out.json {
        app.out.json(&json(&store.display().to_string(), &checkup));
    } else {
        text(app, &store.display().to_string(), &checkup);
    }
    let lost = checkup
        .salvage
        .as_ref()
        .is_some_and(|salvage| !salvage.lost.is_empty());
    let open = !checkup.findings.is_empty() && checkup.salvage.is_none();
    match open || lost {
        true => Err(Problem::silent(Exit::Failed)),
        false => Ok(()),
    }
}

fn text(app: &App, store: &str, checkup: &Checkup) {
    let Checkup {
        sessions,
        events,
        checkpoints,
        findings,
        salvage,
    } = checkup;
    let (sessions, events) = (
        show::many(*sessions, "session"),
        show::many(*events, "event"),
    );
    app.out.data(format_args!(
        "{store}: {sessions}, {events}, {checkpoints} state checkpoints checked"
    ));
    for finding in findings {
        app.out
            .data(format_args!("{}: {finding}", app.out.paint.red("damaged")));
    }
    if let Some(salvage) = salvage {
        app.tell_salvage(salvage);
    }
    match (findings.is_empty(), salvage) {
        (true, None) => app.out.data(app.out.paint.green("everything is whole")),
        (false, None) => app
            .out
            .say("`unisono doctor --repair` saves all that is whole"),
        _ => {}
    }
}

fn json(store: &str, checkup: &Checkup) -> serde_json::Value {
    let findings = checkup.findings.iter().map(
        |finding| json!({"record": finding.record.to_string(), "fault": finding.fault.to_string()}),
    );
    let salvage = |salvage: &Salvage| {
        let lost: Vec<String> = salvage.lost.iter().map(ToString::to_string).collect();
        json!({
            "reason": salvage.reason, "quarantine": salvage.quarantine,
            "sessions": salvage.sessions, "events": salvage.events, "lost": lost,
        })
    };
    json!({
        "store": store,
        "sessions": checkup.sessions,
        "events": checkup.events,
        "checkpoints": checkup.checkpoints,
        "findings": findings.collect::<Vec<_>>(),
        "salvage": checkup.salvage.as_ref().map(salvage),
    })
}
