//! `unisono doctor`: which providers can be asked, what a daemon has around it, every record of the
//! store checked, and the search index made right.

use serde_json::{Value, json};
use unisono_daemon::config::SearchIndex;
use unisono_daemon::deployment::Check;
use unisono_daemon::http::Running;
use unisono_daemon::providers::Access;
use unisono_daemon::setup::Setup;
use unisono_search::Condition;
use unisono_store::{Checkup, Salvage};

use crate::app::{self, App};
use crate::problem::{Exit, Problem, Result, alone};
use crate::show;

const HELP: &str = "\
A store that does not open, or that lost something acknowledged, is repaired when it is opened;
damaged files are kept beside it. The search index is checked, brought up to the journal, and made
anew where it is damaged. Exits with 1 if something is wrong and was not repaired, or lost.
JSON: store, sessions, events, checkpoints, findings [{record, fault}],
salvage {reason, quarantine, sessions, events, lost} or null,
search {sessions, messages, remade (why, or null)} or null where no index is kept,
providers [{provider, usable, lacks, address, key (where it came from)}],
deployment [{what, good, says}]: the daemon's token and address, room on the disk, and whether servers
of tools and of traces can be reached. While a daemon has the store
its records are not checked, only whether the daemon is ready: store, daemon {url, pid, lacks}, providers,
deployment.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Saves all that is whole into a fresh log where something is wrong
    #[arg(long)]
    repair: bool,
}

pub(crate) fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    if !app.out.json {
        providers(app, &setup);
    }
    let store = &setup.loaded.config.store.path;
    if !store.exists() {
        return fresh(app, &setup);
    }
    let checkup = if args.repair {
        unisono_store::repair(store)
    } else {
        unisono_store::doctor(store)
    };
    let checkup = match checkup {
        Ok(checkup) => checkup,
        Err(error) => match app.holder(&setup, &error) {
            Some(running) if args.repair => {
                return Err(alone("doctor repairs", &running.url));
            }
            Some(running) => return held(app, &setup, &running),
            None => return Err(error.into()),
        },
    };
    let search = app.wait_for(index(app, &setup, checkup.salvage.is_some()))?;
    let around = app.wait_for(around(&setup, false))?;
    let works = around.iter().all(|check| check.found.is_ok());
    if app.out.json {
        let mut report = json(&store.display().to_string(), &checkup);
        report["search"] = search.as_ref().map(condition).into();
        report["providers"] = setup.loaded.providers.iter().map(provider).collect();
        report["deployment"] = around.iter().map(looked_at).collect();
        app.out.json(&report);
    } else {
        deployment(app, &around);
        text(app, &store.display().to_string(), &checkup);
        if let Some(Condition {
            sessions,
            messages,
            remade,
        }) = search
        {
            let (messages, sessions) = (
                show::many(messages, "message"),
                show::many(sessions, "session"),
            );
            let remade = remade.map(|why| format!("; made anew, because {why}"));
            let remade = remade.unwrap_or_default();
            app.out.data(format_args!(
                "search index: {messages} of {sessions}{remade}"
            ));
        }
    }
    let lost = checkup
        .salvage
        .as_ref()
        .is_some_and(|salvage| !salvage.lost.is_empty());
    let open = !checkup.findings.is_empty() && checkup.salvage.is_none();
    match open || lost || !works {
        true => Err(Problem::silent(Exit::Failed)),
        false => Ok(()),
    }
}

/// What can be said before there is a store: that is no fault.
fn fresh(app: &App, setup: &Setup) -> Result<()> {
    let around = app.wait_for(around(setup, false))?;
    let store = setup.loaded.config.store.path.display().to_string();
    if app.out.json {
        let mut report = json(&store, &Checkup::default());
        report["search"] = Value::Null;
        report["providers"] = setup.loaded.providers.iter().map(provider).collect();
        report["deployment"] = around.iter().map(looked_at).collect();
        app.out.json(&report);
    } else {
        deployment(app, &around);
        app.out.data(format_args!(
            "{store}: no store yet; `unisono run FILE` or `unisono import FILE` makes one"
        ));
    }
    match around.iter().all(|check| check.found.is_ok()) {
        true => Ok(()),
        false => Err(Problem::silent(Exit::Failed)),
    }
}

/// What can be said of a store that a daemon has open.
fn held(app: &App, setup: &Setup, running: &Running) -> Result<()> {
    let client = app::client(running)?;
    let ready = app.wait_for(async { Ok(client.ready().await?) })?;
    let around = app.wait_for(around(setup, true))?;
    let works = around.iter().all(|check| check.found.is_ok());
    let store = setup.loaded.config.store.path.display();
    if app.out.json {
        app.out.json(&json!({
            "store": store.to_string(),
            "daemon": {"url": running.url, "pid": running.pid, "lacks": ready.as_ref().err()},
            "providers": setup.loaded.providers.iter().map(provider).collect::<Vec<_>>(),
            "deployment": around.iter().map(looked_at).collect::<Vec<_>>(),
        }));
    } else {
        deployment(app, &around);
        let health = match &ready {
            Ok(()) => app.out.paint.green("ready"),
            Err(lacks) => app.out.paint.red(lacks),
        };
        app.out
            .data(format_args!("daemon at {}: {health}", running.url));
        app.out.say(format_args!(
            "the records in {store} were not checked: that takes a store that nobody uses; stop the \
             daemon, then call again"
        ));
    }
    match ready.is_ok() && works {
        true => Ok(()),
        false => Err(Problem::silent(Exit::Failed)),
    }
}

async fn around(setup: &Setup, runs: bool) -> Result<Vec<Check>> {
    Ok(unisono_daemon::deployment::check(setup, runs).await)
}

/// What is around the daemon.
fn deployment(app: &App, checks: &[Check]) {
    for Check { what, found } in checks {
        match found {
            Ok(says) => app.out.data(format_args!("{what}: {says}")),
            Err(says) => app
                .out
                .data(format_args!("{what}: {}", app.out.paint.red(says))),
        }
    }
}

fn looked_at(check: &Check) -> Value {
    let (Ok(says) | Err(says)) = &check.found;
    json!({"what": check.what, "good": check.found.is_ok(), "says": says})
}

/// The search index as it is once it is up to the journal; none where none is kept. One of a store
/// that was repaired is made anew.
async fn index(app: &App, setup: &Setup, repaired: bool) -> Result<Option<Condition>> {
    let store = &setup.loaded.config.store;
    if store.search_index == SearchIndex::Memory {
        return Ok(None);
    }
    if repaired {
        unisono_search::remove(&unisono_search::directory(&store.path))?;
    }
    let opened = app.store(setup).await?;
    let search = opened.search(setup)?;
    let condition = search.condition().await;
    search.close().await;
    opened.journal.close().await?;
    Ok(Some(condition?))
}

fn condition(of: &Condition) -> Value {
    json!({"sessions": of.sessions, "messages": of.messages, "remade": of.remade})
}

/// Which providers can be asked, and what the others lack. A key is never shown.
fn providers(app: &App, setup: &Setup) {
    for (name, access) in setup.loaded.providers.iter() {
        match &access.settings {
            Ok(settings) => {
                let key = setup.loaded.providers.key_of(name).unwrap_or_default();
                let usable = app.out.paint.green("usable");
                let address = &settings.address;
                app.out
                    .data(format_args!("provider {name}: {usable} at {address}{key}"));
            }
            Err(lacks) => app
                .out
                .data(format_args!("provider {name}: not usable: {lacks}")),
        }
    }
}

fn provider((name, access): (&str, &Access)) -> Value {
    let settings = access.settings.as_ref();
    json!({
        "provider": name,
        "usable": settings.is_ok(),
        "lacks": settings.err().map(ToString::to_string),
        "address": settings.ok().map(|settings| settings.address.to_string()),
        "key": settings.ok().and_then(|s| s.auth.key()).map(|key| key.source().to_string()),
    })
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
