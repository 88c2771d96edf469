//! `unisono mcp`: the server of the Model Context Protocol on standard input and output.

mod bridge;

use std::time::Duration;

use tokio::sync::mpsc;
use unisono_acp::{LONGEST_MESSAGE, Lines};
use unisono_server::http::Server;
use unisono_server::mcp::Line;

use super::stdio;
use crate::app::App;
use crate::live::Interrupts;
use crate::place::Place;
use crate::problem::Result;

const HELP: &str = "\
For programs that start their MCP servers; the daemon serves the same at /mcp. If a daemon has the
store open, messages are forwarded to it. Otherwise this process listens on a free loopback port,
so that other commands, such as `unisono approvals`, work through it.

Tools: ask, delegate, wait, recall, search, compact, sessions. Resources:
unisono://sessions/SESSION, …/context and …/snapshots/TURN. Protocol revisions: 2026-07-28 and
earlier.

  {\"mcpServers\": {\"unisono\": {\"command\": \"unisono\", \"args\": [\"mcp\"]}}}";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {}

pub(crate) async fn run(app: &App, _: Args) -> Result<()> {
    let setup = app.setup(vec![stdio::bind("mcp")])?;
    let mut interrupts = Interrupts::listen_patiently()?;
    let opened = match app.store_or_daemon(&setup).await? {
        Place::Process(opened) => opened,
        Place::Daemon(client) => {
            let drain = Duration::from_secs(setup.loaded.config.server.drain_seconds);
            return bridge::run(&app.out, client, &mut interrupts, drain).await;
        }
    };
    let client = |server: &Server| {
        let (send, lines) = mpsc::channel(1);
        let serving = server.mcp().serve_stdio(lines);
        async move {
            let reading = tokio::spawn(read(send));
            let served = serving.await;
            reading.abort();
            served
        }
    };
    stdio::serve(app, (opened, setup), &mut interrupts, client).await
}

/// Passes the lines of standard input on until it ends.
async fn read(send: mpsc::Sender<Line>) {
    let mut lines = Lines::new(tokio::io::stdin(), LONGEST_MESSAGE);
    while let Ok(Some(line)) = lines.next().await {
        let line = line.map_err(|bad| (bad.code(), bad.to_string()));
        if send.send(line).await.is_err() {
            return;
        }
    }
}
