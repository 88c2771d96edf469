//! `unisono mcp`: the server of the Model Context Protocol on standard input and output.

mod bridge;

use tokio::sync::Notify;
use unisono_config::settings::Override;
use unisono_server::http::Server;

use super::serve::running;
use crate::app::App;
use crate::live::Interrupts;
use crate::place::Place;
use crate::problem::{Problem, Result};

/// Where other calls of the program reach this one.
const BIND: &str = "127.0.0.1:0";

const HELP: &str = "\
For programs that start their servers themselves; the daemon answers the same at /mcp. Where a
daemon has the store open, messages are passed on to it. Where none has, this process listens on
a free port of loopback, and other verbs work through it: `unisono approvals` decides about
calls.

Tools: ask, delegate, wait, recall, search, compact, sessions. Resources:
unisono://sessions/SESSION, …/context and …/snapshots/TURN. Revisions of the protocol: 2026-07-28 and
those before it.

  {\"mcpServers\": {\"unisono\": {\"command\": \"unisono\", \"args\": [\"mcp\"]}}}";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {}

pub(crate) async fn run(app: &App, _: Args) -> Result<()> {
    let setup = app.setup(vec![Override::new("unisono mcp", "server.bind", BIND)])?;
    let mut interrupts = Interrupts::listen()?;
    let opened = match app.store_or_daemon(&setup).await? {
        Place::Process(opened) => opened,
        Place::Daemon(client) => return bridge::run(&app.out, client, &mut interrupts).await,
    };
    let store = setup.loaded.config.store.path.clone();
    let local = app.daemon(opened, setup).await?;
    let server = Server::bind(local).await?;
    let announced = running(&server).announce(&store);
    if let Err(error) = &announced {
        let store = store.display();
        app.out.warn(format_args!(
            "cannot write {store}: {error}; other calls do not find this process"
        ));
    }
    let clients = server.mcp();
    let left = Notify::new();
    let serving = async {
        let served = clients.serve_stdio().await;
        left.notify_one();
        served
    };
    let stop = async {
        tokio::select! {
            _ = interrupts.next() => {}
            () = left.notified() => {}
        }
    };
    let (served, failed) = tokio::join!(serving, server.answer(stop));
    drop(announced);
    served.map_err(|error| Problem::failed(format!("the client cannot be served: {error}")))?;
    match failed {
        None => Ok(()),
        Some(reason) => Err(Problem::failed(format!("the runtime gave up: {reason}"))),
    }
}
