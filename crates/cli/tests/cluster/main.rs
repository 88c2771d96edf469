//! The crash harness of a cluster: three daemons on one database, of which any may be killed, stopped
//! for longer than its lease, drained, cut off, or set to a wrong time; and the database may crash. Clients ask whichever
//! answers. What was acknowledged is there, each turn has ended once, what a client saw finished is not
//! done again, and no call is made twice that must not be.
//!
//! `UNISONO_SOAK_ROUNDS` sets the number of rounds, `UNISONO_CLUSTER_SEED` where the choices begin.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    dead_code,
    reason = "tests; what is shared with others is not all used here"
)]

mod client;
mod clocks;
mod history;
mod nodes;
mod proxy;
#[path = "../it/support.rs"]
mod support;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use unisono_fake_provider::tools::serve_if_asked;
use unisono_test_postgres::Server;

use history::Counts;
use nodes::{Cluster, Fault};

/// Rounds where nobody says otherwise.
const ROUNDS: u64 = 12;
/// Turns that are open in each round.
const TURNS: u64 = 4;

fn main() -> ExitCode {
    serve_if_asked();
    // As other tests, it is left out where a filter names others.
    let filters: Vec<String> = std::env::args().skip(1).collect();
    let named = filters.iter().filter(|argument| !argument.starts_with('-'));
    if named.clone().count() > 0 && !named.clone().any(|name| "cluster".contains(name.as_str())) {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let Some(server) = Server::start(&[]) else {
        return ExitCode::SUCCESS;
    };
    let local = tokio::task::LocalSet::new();
    match runtime.block_on(local.run_until(all(server))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            println!("{wrong}");
            ExitCode::FAILURE
        }
    }
}

async fn all(server: Server) -> Result<(), String> {
    let started = Instant::now();
    let rounds = number("UNISONO_SOAK_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("UNISONO_CLUSTER_SEED").unwrap_or(1);
    let mut cluster = Cluster::start(server)?;
    let mut counts = Counts::default();
    for round in 0..rounds {
        let fault = Fault::of(seed.wrapping_add(round));
        let done = one(&mut cluster, round, &fault).await;
        counts.add(done.map_err(|wrong| format!("round {round}, {fault:?}: {wrong}"))?);
    }
    cluster.stop()?;
    counts.close(&cluster).await?;
    counts.tell(rounds, started.elapsed());
    Ok(())
}

/// A round: turns are handed in, something happens, and all of them end.
async fn one(cluster: &mut Cluster, round: u64, fault: &Fault) -> Result<Counts, String> {
    let people = cluster.people();
    let turns = (0..TURNS).map(|n| {
        let people = people.clone();
        tokio::task::spawn_local(async move { client::turn(people, round * TURNS + n).await })
    });
    let turns: Vec<_> = turns.collect();
    cluster.suffer(fault).await?;
    people.may_decide();
    let mut counts = Counts::default();
    for turn in turns {
        let ended = turn.await.map_err(|error| error.to_string())?;
        counts.turn(ended?, &people)?;
    }
    Ok(counts)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// How long anything may take before a round has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
