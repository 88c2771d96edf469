//! `unisono acp`: an agent for editors, on standard input and output.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use unisono::Service;
use unisono_server::http::Server;

use super::stdio;
use crate::app::App;
use crate::live::Interrupts;
use crate::place::Place;
use crate::problem::{Problem, Result};
use crate::service::request_settings;

const HELP: &str = "\
For editors that start their agents. If a daemon has the store open, the editor works on the
daemon's sessions. Otherwise this process listens on a free loopback port, so that other commands
work through it.

An editor can start, load, list and resume sessions, choose the lead, follow the runs, let its user
decide about tool calls that need approval, and bring tool servers with a session. Prompts can be
/compact, /context and /agents. Protocol version 1.

  {\"agent_servers\":
    {\"unisono\": {\"type\": \"custom\", \"command\": \"unisono\", \"args\": [\"acp\"]}}}";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {}

pub(crate) async fn run(app: &App, _: Args) -> Result<()> {
    let setup = app.setup(vec![stdio::bind("acp")])?;
    let mut interrupts = Interrupts::listen_patiently()?;
    let directory = setup.loaded.sources().directory.clone();
    let opened = match app.store_or_daemon(&setup).await? {
        Place::Process(opened) => opened,
        Place::Daemon(client) => {
            let mut settings = request_settings(&setup);
            settings.remove(stdio::BIND_KEY);
            let service = Arc::new(client.with_settings(settings));
            let served = tokio::select! {
                served = serve(service, directory, std::future::pending()) => served,
                _ = interrupts.next() => Ok(()),
            };
            let failed = |error| Problem::failed(format!("the client cannot be served: {error}"));
            return served.map_err(failed);
        }
    };
    let client = |server: &Server| {
        let attached = server.attach();
        async move {
            let attached =
                attached.ok_or("the maximum number of clients is connected; try again later")?;
            serve(attached.service.clone(), directory, attached.stopped()).await
        }
    };
    stdio::serve(app, (opened, setup), &mut interrupts, client).await
}

/// Serves the editor until it disconnects, or until `stop` returns the time that its prompts have
/// to end.
async fn serve(
    service: Arc<dyn Service>,
    directory: PathBuf,
    stop: impl Future<Output = Duration>,
) -> Result<(), String> {
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    let served = unisono_acp::serve(service, directory, input, output, stop).await;
    served.map_err(|error| error.to_string())
}
