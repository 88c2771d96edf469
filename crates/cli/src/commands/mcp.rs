//! `unisono mcp`: the server of the Model Context Protocol on standard input and output.

mod bridge;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use unisono_server::mcp::Server;

use crate::app::App;
use crate::host::Where;
use crate::live::Interrupts;
use crate::problem::{Problem, Result};

/// Calls at the same time; more are told to come back.
const CALLS: u32 = 64;
/// How long a call may take to notice that the program stops.
const CALLS_WITHIN: Duration = Duration::from_secs(1);

const HELP: &str = "\
For programs that start their servers themselves; the daemon answers the same at /mcp. Where a
daemon has the store open, messages are passed on to it.

Tools: ask, delegate, wait, recall, search, compact, sessions. Resources:
unisono://sessions/SESSION, …/context and …/snapshots/TURN. Revisions of the protocol: 2026-07-28 and
those before it.

  {\"mcpServers\": {\"unisono\": {\"command\": \"unisono\", \"args\": [\"mcp\"]}}}";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {}

pub(crate) async fn run(app: &App, _: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let mut interrupts = Interrupts::listen()?;
    let opened = match app.store_or_daemon(&setup).await? {
        Where::Here(opened) => opened,
        Where::There(client) => return bridge::run(&app.out, client, &mut interrupts).await,
    };
    let local = Arc::new(app.daemon(opened, setup).await?);
    let (stop, stopping) = watch::channel(false);
    let calls = Arc::new(Semaphore::new(CALLS as usize));
    let serving = Server::new(&local, stopping, calls.clone()).serve_stdio();
    tokio::pin!(serving);
    let served = tokio::select! {
        served = &mut serving => served,
        _ = interrupts.next() => {
            stop.send_replace(true);
            serving.await
        }
    };
    stop.send_replace(true);
    // A call that is being answered lets go of the daemon before its place.
    let calls = calls.acquire_many(CALLS);
    if tokio::time::timeout(CALLS_WITHIN, calls).await.is_err() {
        tracing::warn!("a call of a tool did not end in time");
    }
    match Arc::into_inner(local) {
        Some(local) => local.shutdown().await,
        None => tracing::warn!("a call is still held; the store closes with the process"),
    }
    served.map_err(|error| Problem::failed(format!("the client cannot be served: {error}")))
}
