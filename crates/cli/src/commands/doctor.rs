//! `unisono doctor`: which providers can be asked, every record of the store checked, and the search
//! index made right.

use serde_json::{Value, json};
use unisono_daemon::config::SearchIndex;
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
providers [{provider, usable, lacks, address, key (where it came from)}]. While a daemon has the store
its records are not checked, only whether the daemon is ready: store, daemon {url, pid, lacks}, providers.";

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
    let store = app.store_path(&setup)?;
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
    if app.out.json {
        let mut report = json(&store.display().to_string(), &checkup);
        report["search"] = search.as_ref().map(condition).into();
        report["providers"] = setup.loaded.providers.iter().map(provider).collect();
        app.out.json(&report);
    } else {
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
    match open || lost {
        true => Err(Problem::silent(Exit::Failed)),
        false => Ok(()),
    }
}

/// What can be said of a store that a daemon has open.
fn held(app: &App, setup: &Setup, running: &Running) -> Result<()> {
    let client = app::client(running)?;
    let ready = app.wait_for(async { Ok(client.ready().await?) })?;
    let store = setup.loaded.config.store.path.display();
    if app.out.json {
        app.out.json(&json!({
            "store": store.to_string(),
            "daemon": {"url": running.url, "pid": running.pid, "lacks": ready.as_ref().err()},
            "providers": setup.loaded.providers.iter().map(provider).collect::<Vec<_>>(),
        }));
    } else {
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
    match ready {
        Ok(()) => Ok(()),
        Err(_) => Err(Problem::silent(Exit::Failed)),
    }
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
