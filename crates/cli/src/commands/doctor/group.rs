//! The database, whether it takes writes, and whether this machine reaches the daemons on it.

use unisono::local;
use unisono_api::PageQuery;
use unisono_api::cluster::MemberState;
use unisono_api::service::Cluster as _;
use unisono_client::Client;
use unisono_config::setup::Setup;
use unisono_server::deployment::{self, Check};
use unisono_store::{Checkup, Journal};

use super::{
    Args, FROM_A_BACKUP, around, deployment as show_deployment, held, known_of_models, report, text,
};
use crate::app::{self, App};
use crate::place::Place;
use crate::problem::{Exit, Problem, Result};

/// Checks the records in a database, also beside the daemon of this machine that uses it.
pub(super) fn database(app: &App, setup: &Setup, args: &Args) -> Result<()> {
    let store = app::store_name(&setup.loaded.config.store);
    if args.repair || args.acknowledge {
        let problem = Problem::usage(format!(
            "{store} is a database: nothing in it is repaired here"
        ));
        return Err(problem.hint("restore it from a backup, as its operator does"));
    }
    // A connection requires the runtime that made it.
    let checked = app.wait_for(async {
        let opened = match app.store_or_daemon(setup).await? {
            Place::Daemon(client) => return Ok(Err((client, beside(setup).await))),
            Place::Process(opened) => opened,
        };
        let checkup = unisono_store::check(opened.journal.engine().as_ref()).await?;
        let daemons = of_journal(&opened.journal).await?;
        let writes = writes(&opened.journal).await;
        opened.journal.close().await?;
        Ok(Ok((checkup, daemons, writes)))
    })?;
    let (checkup, daemons, writes) = match checked {
        Ok(checked) => checked,
        // The daemon reports a database that does not respond.
        Err((client, checkup)) => return held(app, setup, &client, checkup.ok().as_ref()),
    };
    let mut around = app.wait_for(around(setup, false))?;
    around.push(writes);
    around.extend(app.wait_for(reach(daemons))?);
    if app.out.json {
        let mut report = report(setup, &store, &checkup, &[], &around);
        report["catalogue"] = known_of_models(setup);
        app.out.json(&report);
    } else {
        show_deployment(app, &around);
        text(app, &store, &checkup, &[], FROM_A_BACKUP);
    }
    let works = around.iter().all(|check| check.result.is_ok());
    match works && checkup.findings.is_empty() {
        true => Ok(()),
        false => Err(Problem::silent(Exit::Failed)),
    }
}

/// Checks the records beside a daemon.
async fn beside(setup: &Setup) -> Result<Checkup> {
    let opened = local::open_beside(&setup.loaded.config).await?;
    let checkup = unisono_store::check(opened.journal.engine().as_ref()).await;
    opened.journal.close().await?;
    Ok(checkup?)
}

/// A daemon: its name and its address.
type Daemon = (String, String);

/// The live daemons, from another daemon.
pub(super) async fn of_daemon(client: &Client) -> Result<Vec<Daemon>> {
    let mut daemons = Vec::new();
    let mut query = PageQuery::default();
    loop {
        let part = client.members(&query).await?;
        let live = part.items.into_iter();
        let live = live.filter(|member| member.state != MemberState::Gone);
        daemons.extend(live.filter_map(|member| Some((member.name, member.address?))));
        if part.next.is_none() {
            return Ok(daemons);
        }
        query.cursor = part.next;
    }
}

/// The live daemons, from the database.
pub(super) async fn of_journal(journal: &Journal) -> Result<Vec<Daemon>> {
    let Some(cluster) = journal.cluster() else {
        return Ok(Vec::new());
    };
    let members = cluster.members().await?.into_iter();
    let live = members.filter(|(member, _)| member.is_alive);
    let daemons = live.filter_map(|(member, _)| Some((member.name, member.announced.address?)));
    Ok(daemons.collect())
}

/// Whether the database takes writes.
pub(super) async fn writes(journal: &Journal) -> Check {
    let probed = journal.engine().check_writes().await;
    Check {
        name: "database".to_owned(),
        result: match probed {
            Ok(()) => Ok("it takes writes".to_owned()),
            Err(error) => Err(error.to_string()),
        },
    }
}

pub(super) async fn reach(daemons: Vec<Daemon>) -> Result<Vec<Check>> {
    Ok(deployment::reach(daemons).await)
}
