//! `unisono doctor`: checks the providers, the environment of a daemon and every record of the store,
//! and repairs the search index.

mod agents;
mod group;

use std::fmt::Display;
use std::path::Path;

use serde_json::{Value, json};
use unisono::local;
use unisono::models::notices;
use unisono::service::store::loss;
use unisono_api::Page;
use unisono_api::service::Store as _;
use unisono_api::store::{Loss, LossQuery};
use unisono_client::Client;
use unisono_config::providers::Access;
use unisono_config::settings::SearchIndex;
use unisono_config::setup::Setup;
use unisono_search::Condition;
use unisono_server::deployment::Check;
use unisono_server::http::DaemonInfo;
use unisono_store::{Checkup, Error as StoreError, ReadOnlyDisk, Salvage};

use crate::app::{self, App, learnt_here};
use crate::problem::{Exit, Problem, Result, alone};
use crate::show;

const HELP: &str = "\
A damaged store is repaired when it is opened; damaged files are kept beside it. The search index
is checked, updated, and rebuilt if it is damaged. A store that cannot be written, because the
disk is full or read-only, is only read. Permissions of other users are removed. Losses of a
repair are reported until --acknowledge. Exits with 1 if damage was found and not repaired, if
events were lost, if the store is only read, or if a check of the deployment fails.
JSON: store, sessions, events, checkpoints, narrowed (files whose permissions were too wide),
findings [{record, fault}], salvage {reason, quarantine, sessions, events, lost} or null, losses
[{session, first, last, found_at, quarantine}] that are not acknowledged, search {sessions, messages,
rebuilt_because (the reason, or null)} or null without an index, providers [{provider, usable,
unavailable_reason, address, key (its origin)}], catalogue {generated, stale_days (null: it is
fresh), models [{model, problem, help}]}: the date of the catalogue and notes on available models,
deployment [{name, good, message}]: the daemon's token and address, free disk space, whether each
tool server does the handshake and lists its tools, and whether the receiver of traces, and the
daemons on the same database, can be reached, and whether these daemons have the same agents,
read_only_reason (absent: the store can be written). While a daemon has the store open, its
readiness is checked, and its records only in a database: store, daemon {url, pid,
unavailable_reason}, losses, checked (the report on a database, or null), providers, catalogue,
deployment. With --acknowledge: acknowledged (a number of losses).";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// If damage is found, saves all undamaged records in a new log
    #[arg(long)]
    repair: bool,
    /// Acknowledges the losses of repairs: they are no longer reported
    #[arg(long, conflicts_with = "repair")]
    acknowledge: bool,
}

pub(crate) fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    if !app.out.json {
        providers(app, &setup);
        catalogue(app, &setup);
    }
    if setup.loaded.config.store.url.is_some() {
        return group::database(app, &setup, &args);
    }
    let store = &setup.loaded.config.store.path;
    if args.acknowledge {
        return acknowledge(app, &setup, store);
    }
    if !app.has_store(&setup)? {
        return fresh(app, &setup);
    }
    let checkup = match args.repair {
        true => unisono_store::repair(store),
        false => unisono_store::doctor(store),
    };
    match checkup {
        Ok(checkup) => checked(app, &setup, &checkup, args.repair),
        Err(error) => unopened(app, &setup, error, args.repair),
    }
}

/// Reports on a store after all its records were checked, and checks the search index. `repair`: a repair
/// was requested.
fn checked(app: &App, setup: &Setup, checkup: &Checkup, repair: bool) -> Result<()> {
    let store = &setup.loaded.config.store.path;
    let search = app.wait_for(index(app, setup, checkup, repair))?;
    let around = app.wait_for(around(setup, false))?;
    let losses = losses(store)?;
    let name = store.display().to_string();
    if app.out.json {
        let mut report = report(setup, &name, checkup, &losses, &around);
        report["search"] = search.as_ref().map(condition).into();
        app.out.json(&report);
    } else {
        deployment(app, &around);
        text(app, &name, checkup, &losses, BY_REPAIR);
        if let Some(condition) = &search {
            index_text(app, condition);
        }
    }
    ending(losses.is_empty() && is_whole(checkup), &around)
}

/// Exits with a code if something is wrong, in the store or around it. It was already reported.
fn ending(is_sound: bool, around: &[Check]) -> Result<()> {
    match is_sound && around.iter().all(|check| check.result.is_ok()) {
        true => Ok(()),
        false => Err(Problem::silent(Exit::Failed)),
    }
}

/// Whether no damage was found, or a repair saved everything.
fn is_whole(checkup: &Checkup) -> bool {
    match &checkup.salvage {
        Some(salvage) => salvage.lost.is_empty(),
        None => checkup.findings.is_empty(),
    }
}

/// The report on a store that another program has open, or that cannot be written.
fn unopened(app: &App, setup: &Setup, error: StoreError, repair: bool) -> Result<()> {
    match app.holder(setup, &error) {
        Some(running) if repair => Err(alone("doctor repairs", &running.url)),
        Some(running) => held(app, setup, &app::client(&running)?, None),
        None if error.is_unwritable() && !repair => look(app, setup, error),
        None => Err(error.into()),
    }
}

/// The report without a store. This is not an error.
fn fresh(app: &App, setup: &Setup) -> Result<()> {
    let around = app.wait_for(around(setup, false))?;
    let store = setup.loaded.config.store.path.display().to_string();
    if app.out.json {
        let checkup = Checkup::default();
        app.out.json(&report(setup, &store, &checkup, &[], &around));
    } else {
        deployment(app, &around);
        let none = "no store yet; `unisono run FILE` or `unisono import FILE` makes one";
        report_line(app, format_args!("{store}: {none}"));
    }
    ending(true, &around)
}

fn acknowledge(app: &App, setup: &Setup, store: &Path) -> Result<()> {
    let losses = match app.has_store(setup)? {
        true => app.wait_for(acknowledge_losses(app, setup, store))?,
        false => 0,
    };
    let message = format!("acknowledged: {}", show::many(losses, "lost range"));
    app.out.outcome(&json!({"acknowledged": losses}), message);
    Ok(())
}

/// Acknowledges the losses in the store, or in the daemon that has it open. Returns their number.
async fn acknowledge_losses(app: &App, setup: &Setup, store: &Path) -> Result<u64> {
    let opened = match local::open_configured(&setup.loaded.config).await {
        Ok(opened) => opened,
        Err(error) => {
            let Some(running) = app.holder(setup, &error) else {
                return Err(error.into());
            };
            let noted = app::client(&running)?.acknowledge_losses().await?;
            return Ok(noted.losses);
        }
    };
    app.report_opening(&opened);
    let losses = unisono_store::acknowledge_losses(store)? as u64;
    if losses > 0 {
        let about = ("losses", losses.to_string());
        app.record_change(&opened, setup, about).await;
    }
    opened.journal.close().await?;
    Ok(losses)
}

/// The report on a read-only store.
fn look(app: &App, setup: &Setup, error: StoreError) -> Result<()> {
    let store = &setup.loaded.config.store.path;
    let reason = error.to_string();
    // If the store is unreadable too, this reports the first error.
    let disk = ReadOnlyDisk::open(store, &*reason).map_err(|_| error)?;
    let checkup = disk.check()?;
    let losses = losses(store)?;
    let around = app.wait_for(around(setup, false))?;
    if app.out.json {
        let store = store.display().to_string();
        let mut report = report(setup, &store, &checkup, &losses, &around);
        report["read_only_reason"] = reason.into();
        app.out.json(&report);
    } else {
        deployment(app, &around);
        text(
            app,
            &store.display().to_string(),
            &checkup,
            &losses,
            BY_REPAIR,
        );
        app.out
            .warn(format_args!("the store is open for reading only: {reason}"));
    }
    Err(Problem::silent(Exit::Failed))
}

/// The report on a store that a daemon has open. The records of a database can be checked beside it.
fn held(app: &App, setup: &Setup, client: &Client, checkup: Option<&Checkup>) -> Result<()> {
    let (ready, losses, daemons, same_agents) = app.wait_for(async {
        let (ready, losses) = (client.ready().await?, all_losses(client).await?);
        // `ready` reports an unavailable database.
        let daemons = group::of_daemon(client).await.unwrap_or_default();
        let same_agents = agents::of_daemon(client).await.unwrap_or_default();
        Ok((ready, losses, daemons, same_agents))
    })?;
    let pid = DaemonInfo::find(&setup.loaded.config.store.path).map(|running| running.pid);
    let mut around = app.wait_for(around(setup, true))?;
    around.extend(app.wait_for(group::reach(setup, daemons))?);
    around.extend(same_agents);
    let store = app::store_name(&setup.loaded.config.store);
    if app.out.json {
        app.out.json(&json!({
            "store": store,
            "daemon": {"url": client.url(), "pid": pid, "unavailable_reason": ready.as_ref().err()},
            "losses": losses,
            "checked": checkup.map(|checkup| report(setup, &store, checkup, &[], &[])),
            "providers": setup.loaded.providers.iter().map(provider).collect::<Vec<_>>(),
            "catalogue": known_of_models(setup),
            "deployment": around.iter().map(looked_at).collect::<Vec<_>>(),
        }));
    } else {
        deployment(app, &around);
        let health = match &ready {
            Ok(()) => app.out.paint.green("ready"),
            Err(reason) => app.out.paint.red(reason),
        };
        app.out
            .data(format_args!("daemon at {}: {health}", client.url()));
        losses.iter().for_each(|loss| report_loss(app, loss));
        match checkup {
            Some(checkup) => text(app, &store, checkup, &[], FROM_A_BACKUP),
            None => app.out.message(format_args!(
                "the records in {store} were not checked: that takes a store that nobody uses; stop \
                 the daemon, then call again"
            )),
        }
    }
    let is_whole = checkup.is_none_or(|checkup| checkup.findings.is_empty());
    let is_sound = ready.is_ok() && losses.is_empty() && is_whole;
    ending(is_sound, &around)
}

async fn around(setup: &Setup, runs: bool) -> Result<Vec<Check>> {
    Ok(unisono_server::deployment::check(setup, runs).await)
}

/// Shows a line of the report; on a terminal, what does not fit is indented below it.
fn report_line(app: &App, text: impl Display) {
    app.out.data(show::wrap(&text.to_string(), 2));
}

/// The checks of the daemon's environment.
fn deployment(app: &App, checks: &[Check]) {
    for Check { name, result } in checks {
        match result {
            Ok(message) => report_line(app, format_args!("{name}: {message}")),
            Err(message) => {
                report_line(app, format_args!("{name}: {}", app.out.paint.red(message)));
            }
        }
    }
}

fn looked_at(check: &Check) -> Value {
    let (Ok(message) | Err(message)) = &check.result;
    json!({"name": check.name, "good": check.result.is_ok(), "message": message})
}

/// Brings the search index up to date and checks it; none without an index. After a repair of the
/// store it rebuilds the index.
async fn index(
    app: &App,
    setup: &Setup,
    checkup: &Checkup,
    repair: bool,
) -> Result<Option<Condition>> {
    let is_repaired = checkup.salvage.is_some();
    if is_repaired || checkup.narrowed > 0 {
        app.record_checkup(setup, checkup, repair).await;
    }
    let store = &setup.loaded.config.store;
    if store.search_index == SearchIndex::Memory {
        return Ok(None);
    }
    if is_repaired {
        unisono_search::remove(&unisono_search::directory(&store.path))?;
    }
    let opened = app.store(setup).await?;
    let search = opened.search(setup)?;
    let condition = search.condition().await;
    search.close().await;
    opened.journal.close().await?;
    Ok(Some(condition?))
}

fn losses(store: &Path) -> Result<Vec<Loss>> {
    let losses = unisono_store::losses(store)?;
    Ok(losses.iter().rev().map(loss).collect())
}

async fn all_losses(client: &Client) -> Result<Vec<Loss>> {
    let mut query = LossQuery::default();
    Ok(Page::all(async |cursor| {
        query.cursor = cursor;
        client.losses(&query).await
    })
    .await?)
}

fn report_loss(app: &App, loss: &Loss) {
    let Loss { session, events } = loss;
    app.out.data(format_args!(
        "{}: events {} to {} of session {session}; the damaged files are in quarantine/{}, \
         `unisono doctor --acknowledge` takes note of it",
        app.out.paint.red("lost"),
        events.first,
        events.last,
        events.quarantine
    ));
}

fn index_text(app: &App, condition: &Condition) {
    let messages = show::many(condition.messages, "message");
    let sessions = show::many(condition.sessions, "session");
    let why = condition.rebuilt_because.as_ref();
    let rebuilt = why.map(|why| format!("; rebuilt, because {why}"));
    let rebuilt = rebuilt.unwrap_or_default();
    app.out.data(format_args!(
        "search index: {messages} of {sessions}{rebuilt}"
    ));
}

fn condition(of: &Condition) -> Value {
    json!({"sessions": of.sessions, "messages": of.messages, "rebuilt_because": of.rebuilt_because})
}

/// The usable providers, and the reasons why the others are not. It never shows a key.
fn providers(app: &App, setup: &Setup) {
    for (name, access) in setup.loaded.providers.iter() {
        match &access.settings {
            Ok(settings) => {
                let key = setup.loaded.providers.key_of(name).unwrap_or_default();
                let usable = app.out.paint.green("usable");
                let address = &settings.address;
                report_line(
                    app,
                    format_args!("provider {name}: {usable} at {address}{key}"),
                );
            }
            Err(reason) => report_line(app, format_args!("provider {name}: not usable: {reason}")),
        }
    }
}

/// Notices about retired and unknown models, and about an outdated catalogue.
fn catalogue(app: &App, setup: &Setup) {
    let today = notices::today();
    if let Some(notice) = notices::outdated(&setup.loaded.catalogue, today) {
        app.out.warn(notice);
    }
    for notice in notices::of_setup(setup, &learnt_here(setup), today) {
        app.out.warn(notice);
    }
}

fn known_of_models(setup: &Setup) -> Value {
    let (catalogue, today) = (&setup.loaded.catalogue, notices::today());
    let notices = notices::of_setup(setup, &learnt_here(setup), today).into_iter();
    let notices = notices.map(
        |notice| json!({"model": notice.model, "problem": notice.problem, "help": notice.help}),
    );
    json!({
        "generated": catalogue.generated().map(|day| day.to_string()),
        "stale_days": catalogue.outdated_days(today),
        "models": notices.collect::<Vec<_>>(),
    })
}

fn provider((name, access): (&str, &Access)) -> Value {
    let settings = access.settings.as_ref();
    json!({
        "provider": name,
        "usable": settings.is_ok(),
        "unavailable_reason": settings.err().map(ToString::to_string),
        "address": settings.ok().map(|settings| settings.address.to_string()),
        "key": settings.ok().and_then(|s| s.auth.key()).map(|key| key.source().to_string()),
    })
}

/// The ways out for a directory and for a database with damaged records.
const BY_REPAIR: &str = "`unisono doctor --repair` saves all that is whole";
const FROM_A_BACKUP: &str =
    "nothing in a database is repaired here: restore it from a backup, as its operator does";

fn text(app: &App, store: &str, checkup: &Checkup, losses: &[Loss], way_out: &str) {
    let Checkup {
        sessions,
        events,
        checkpoints,
        findings,
        salvage,
        narrowed,
    } = checkup;
    if *narrowed > 0 {
        app.report_narrowed(*narrowed);
    }
    let (sessions, events) = (
        show::many(*sessions, "session"),
        show::many(*events, "event"),
    );
    let checked = format!("{sessions}, {events}, {checkpoints} state checkpoints checked");
    report_line(app, format_args!("{store}: {checked}"));
    for finding in findings {
        let damaged = app.out.paint.red("damaged");
        report_line(app, format_args!("{damaged}: {finding}"));
    }
    if let Some(salvage) = salvage {
        app.report_salvage(salvage);
    }
    match (findings.is_empty(), salvage) {
        (true, None) if losses.is_empty() => {
            app.out.data(app.out.paint.green("everything is whole"));
        }
        (true, None) => app.out.data("the remaining data is undamaged"),
        (false, None) => app.out.message(way_out),
        _ => {}
    }
    losses.iter().for_each(|loss| report_loss(app, loss));
}

/// The report as JSON, without the search index.
fn report(
    setup: &Setup,
    store: &str,
    checkup: &Checkup,
    losses: &[Loss],
    around: &[Check],
) -> Value {
    let findings = checkup.findings.iter().map(
        |finding| json!({"record": finding.record.to_string(), "fault": finding.fault.to_string()}),
    );
    let salvage = |salvage: &Salvage| {
        let lost: Vec<String> = salvage.lost.iter().map(ToString::to_string).collect();
        json!({
            "reason": salvage.reason, "quarantine": salvage.quarantine.display().to_string(),
            "sessions": salvage.sessions, "events": salvage.events, "lost": lost,
        })
    };
    json!({
        "store": store,
        "sessions": checkup.sessions,
        "events": checkup.events,
        "checkpoints": checkup.checkpoints,
        "narrowed": checkup.narrowed,
        "findings": findings.collect::<Vec<_>>(),
        "salvage": checkup.salvage.as_ref().map(salvage),
        "search": null,
        "losses": losses,
        "providers": setup.loaded.providers.iter().map(provider).collect::<Vec<_>>(),
        "catalogue": known_of_models(setup),
        "deployment": around.iter().map(looked_at).collect::<Vec<_>>(),
    })
}
