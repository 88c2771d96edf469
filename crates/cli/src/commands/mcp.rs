//! `unisono mcp`: the server of the Model Context Protocol on standard input and output.

mod bridge;

use unisono_server::http::Server;

use super::stdio;
use crate::app::App;
use crate::live::Interrupts;
use crate::place::Place;
use crate::problem::Result;

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
    let setup = app.setup(vec![stdio::bind("mcp")])?;
    let mut interrupts = Interrupts::listen()?;
    let opened = match app.store_or_daemon(&setup).await? {
        Place::Process(opened) => opened,
        Place::Daemon(client) => return bridge::run(&app.out, client, &mut interrupts).await,
    };
    let client = |server: &Server| server.mcp().serve_stdio();
    stdio::serve(app, (opened, setup), &mut interrupts, client).await
}
