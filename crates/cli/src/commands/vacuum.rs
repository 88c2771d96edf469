//! `unisono vacuum`: frees the space of deleted and outdated data.

use std::path::Path;

use serde_json::json;
use unisono::local::OpenedStore;
use unisono::service::store::vacuum_result;
use unisono_api::service::Store as _;
use unisono_api::store::VacuumResult;
use unisono_config::settings::SearchIndex;
use unisono_config::setup::Setup;
use unisono_store::Disk;

use crate::app::{self, App};
use crate::place::Place;
use crate::problem::Result;
use crate::show;

const HELP: &str = "\
A daemon that has the store open continues to answer. Disk space for a second copy of the live
data is needed meanwhile. After an interruption, either the old or the new store is complete. The
search index is shrunk too. JSON: store, before_bytes, after_bytes, sessions, events.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {}

pub(crate) fn run(app: &App, _: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    if setup.loaded.config.store.url.is_some() {
        return app.wait_for(database(app, &setup));
    }
    let store = app.store_path(&setup)?;
    let done = match unisono_store::vacuum(store) {
        Ok(done) => {
            shrink_index(app, &setup, store)?;
            app.wait_for(async {
                app.record_maintenance(&setup).await;
                Ok(())
            })?;
            vacuum_result(done)
        }
        Err(error) => {
            let Some(running) = app.holder(&setup, &error) else {
                return Err(error.into());
            };
            let client = app::client(&running)?;
            app.wait_for(async { Ok(client.vacuum().await?) })?
        }
    };
    let sessions = show::many(done.sessions, "session");
    report(app, &store.display().to_string(), &done, &sessions);
    Ok(())
}

/// Reports the result. `kept` is the number of kept sessions, or says that the database did it.
fn report(app: &App, store: &str, done: &VacuumResult, kept: &str) {
    let json = json!({
        "store": store, "before_bytes": done.before_bytes, "after_bytes": done.after_bytes,
        "sessions": done.sessions, "events": done.events,
    });
    let (before, after) = (show::size(done.before_bytes), show::size(done.after_bytes));
    let text = format!("{store}: {before} → {after}, {kept}");
    app.out.result(&json, text);
}

async fn database(app: &App, setup: &Setup) -> Result<()> {
    let place = app::store_name(&setup.loaded.config.store);
    let done = match app.store_or_daemon(setup).await? {
        Place::Daemon(client) => client.vacuum().await?,
        Place::Process(opened) => {
            let done = opened.journal.engine().vacuum(None).await?;
            if let Err(error) = purge_index(setup, &opened).await {
                app.out.warn(error);
            }
            opened.journal.close().await?;
            vacuum_result(done)
        }
    };
    report(app, &place, &done, "by the database");
    Ok(())
}

/// Compacts the search index while no other process has the store open, or removes it if it is not
/// used. The index can be rebuilt, so a failure does not fail the vacuum.
fn shrink_index(app: &App, setup: &Setup, store: &Path) -> Result<()> {
    let _held = Disk::open(store)?;
    let index = unisono_search::directory(store);
    let shrunk = match setup.loaded.config.store.search_index {
        SearchIndex::Disk => unisono_search::compact(&index),
        SearchIndex::Memory => unisono_search::remove(&index),
    };
    if let Err(error) = shrunk {
        app.out.warn(error);
    }
    Ok(())
}

/// Removes the words of deleted sessions from the index that this machine has of a database, or the index
/// if it is not used. It can be rebuilt, so a failure does not fail the vacuum.
async fn purge_index(setup: &Setup, opened: &OpenedStore) -> Result<(), unisono_search::Error> {
    let store = &setup.loaded.config.store;
    let index = unisono_search::directory(&store.path);
    if store.search_index == SearchIndex::Memory || !index.exists() {
        return unisono_search::remove(&index);
    }
    let search = opened.search(setup)?;
    let purged = search.purge().await;
    search.close().await;
    purged
}
