//! The database, whether it takes writes, and whether this machine reaches the daemons on it.

use std::time::Duration;

use futures_util::future::join_all;
use unisono::local;
use unisono_api::cluster::MemberState;
use unisono_client::Client;
use unisono_config::setup::Setup;
use unisono_server::deployment::{self, Check};
use unisono_store::{Checkup, Journal};

use super::{
    Args, FROM_A_BACKUP, agents, around, deployment as show_deployment, ending, held, report, text,
};
use crate::app::{self, App};
use crate::commands::cluster;
use crate::place::Place;
use crate::problem::{Problem, Result};

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
        let same_agents = agents::of_journal(&opened.journal).await?;
        let writes = writes(&opened.journal).await;
        opened.journal.close().await?;
        Ok(Ok((checkup, daemons, same_agents, writes)))
    })?;
    let (checkup, daemons, same_agents, writes) = match checked {
        Ok(checked) => checked,
        // The daemon reports a database that does not respond.
        Err((client, checkup)) => return held(app, setup, &client, checkup.ok().as_ref()),
    };
    let mut around = app.wait_for(around(setup, false))?;
    around.push(writes);
    around.extend(app.wait_for(reach(setup, daemons))?);
    around.extend(same_agents);
    if app.out.json {
        app.out.json(&report(setup, &store, &checkup, &[], &around));
    } else {
        show_deployment(app, &around);
        text(app, &store, &checkup, &[], FROM_A_BACKUP);
    }
    ending(checkup.findings.is_empty(), &around)
}

/// Checks the records beside a daemon.
async fn beside(setup: &Setup) -> Result<Checkup> {
    let opened = local::open_beside(&setup.loaded.config).await?;
    let checkup = unisono_store::check(opened.journal.engine().as_ref()).await;
    opened.journal.close().await?;
    Ok(checkup?)
}

/// The time limit for the answer of a daemon about itself.
const IDENTIFIED_WITHIN: Duration = Duration::from_secs(3);

/// A daemon as it announces itself.
pub(super) struct Daemon {
    member: String,
    name: String,
    address: String,
}

/// The live daemons, from another daemon.
pub(super) async fn of_daemon(client: &Client) -> Result<Vec<Daemon>> {
    let members = cluster::members(client).await?.into_iter();
    let live = members.filter(|member| member.state != MemberState::Gone);
    let daemons = live.filter_map(|known| {
        Some(Daemon {
            member: known.member,
            name: known.name,
            address: known.address?,
        })
    });
    Ok(daemons.collect())
}

/// The live daemons, from the database.
pub(super) async fn of_journal(journal: &Journal) -> Result<Vec<Daemon>> {
    let Some(cluster) = journal.cluster() else {
        return Ok(Vec::new());
    };
    let members = cluster.members().await?.into_iter();
    let live = members.filter(|(member, _)| member.is_alive);
    let daemons = live.filter_map(|(known, _)| {
        Some(Daemon {
            member: known.id.to_string(),
            name: known.name,
            address: known.announced.address?,
        })
    });
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

/// Whether this machine reaches the daemons, and each of them answers at its own address. The latter
/// requires the token.
pub(super) async fn reach(setup: &Setup, daemons: Vec<Daemon>) -> Result<Vec<Check>> {
    let places = daemons.iter();
    let places = places.map(|daemon| (daemon.name.clone(), daemon.address.clone()));
    let mut checks = deployment::reach(places).await;
    let Ok(token) = std::fs::read_to_string(&setup.loaded.config.server.token_file) else {
        return Ok(checks);
    };
    let token = token.as_str();
    let reached = daemons.iter().zip(&mut checks);
    let reached = reached.filter(|(_, check)| check.result.is_ok());
    let identifying = reached.map(|(daemon, check)| async move {
        if let Err(why) = identify(daemon, token).await {
            check.result = Err(why);
        }
    });
    join_all(identifying).await;
    Ok(checks)
}

/// Checks that the daemon itself answers at its address.
async fn identify(daemon: &Daemon, token: &str) -> Result<(), String> {
    let address = daemon.address.as_str();
    let asked = async {
        let client = Client::new(address, token)?;
        cluster::members(&client).await
    };
    let why = match tokio::time::timeout(IDENTIFIED_WITHIN, asked).await {
        Err(_) => format!(
            "{address} accepts connections and answers nothing within {} s",
            IDENTIFIED_WITHIN.as_secs()
        ),
        Ok(Err(error)) => format!(
            "{address} does not answer as a daemon with this token: {}",
            error.message
        ),
        Ok(Ok(members)) => match members.into_iter().find(|known| known.is_self) {
            Some(known) if known.member == daemon.member => return Ok(()),
            Some(known) => format!("{address} is also the address of {}", known.name),
            None => format!("{address} is the address of a daemon with another store"),
        },
    };
    Err(format!(
        "{why}; requests to other daemons for its sessions fail: set its `cluster.address` to an \
         address of its own"
    ))
}
