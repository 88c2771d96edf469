//! `unisono serve`: the daemon over HTTP.

mod memory;

use std::io::ErrorKind;
use std::path::Path;

use serde_json::json;
use unisono_api::Code;
use unisono_config::settings::Override;
use unisono_server::http::{self, DaemonFile, DaemonInfo, Server};

use crate::app::App;
use crate::live::Interrupts;
use crate::place::Place;
use crate::port;
use crate::problem::{Problem, Result};

const HELP: &str = "\
Open turns of all sessions continue automatically. Every request needs the token in the token
file. On SIGINT, SIGTERM and SIGHUP the daemon drains: it takes no new requests, finishes the
current ones (server.drain_seconds), and continues turns that are still open at the next start.

  curl -H \"Authorization: Bearer $(cat ~/.config/unisono/token)\" \\
      http://127.0.0.1:7007/v1/sessions

JSON: one line when it listens: url, token_file, pid.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The address to listen on, in place of the configured one; port 0 chooses a free port
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
    /// Allows an address that other machines can reach
    #[arg(long)]
    allow_remote: bool,
}

impl Args {
    fn overrides(&self) -> Vec<Override> {
        let bind = self.bind.iter();
        let bind = bind.map(|address| Override::new("--bind", "server.bind", address));
        let remote = self
            .allow_remote
            .then(|| Override::new("--allow-remote", "server.allow_remote", "true"));
        bind.chain(remote).collect()
    }
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(args.overrides())?;
    let mut interrupts = Interrupts::listen_patiently()?;
    let opened = match app.store_to_serve(&setup).await? {
        Place::Process(opened) => opened,
        Place::Daemon(client) => {
            let problem = format!("the daemon at {} has the store open", client.url());
            let hint = "use that one, stop it first, or name another store (--store DIR)";
            return Err(Problem::failed(problem).hint(hint));
        }
    };
    let degraded = opened.degraded;
    let local = app.daemon(opened, setup).await?;
    let journal = local.journal().clone();
    let store = local.setup().loaded.config.store.path.clone();
    let server = Server::bind(local).await?;
    let url = format!("http://{}", server.address());
    let announced = match announce(&server, &store) {
        Err(problem) if degraded => {
            app.out.warn(format_args!(
                "{}: other calls do not find this daemon until the store takes writes",
                problem.message
            ));
            Err(running(&server))
        }
        announced => Ok(announced?),
    };
    // Held, or made as soon as it can be, until the daemon ends.
    let announcing = tokio::spawn(async move {
        let _announced = match announced {
            Ok(announced) => Some(announced),
            Err(running) => {
                let writable = journal.writable().await.is_ok();
                writable.then(|| running.announce(&store).ok()).flatten()
            }
        };
        std::future::pending::<()>().await;
    });
    report_ready(app, &server, &url).await;
    let stop = async {
        interrupts.next().await;
    };
    let giving_back = tokio::spawn(memory::give_back_freed());
    let ended = server.run(stop).await;
    giving_back.abort();
    announcing.abort();
    // Removed in every case: no process should find the daemon after this.
    let _ = announcing.await;
    match ended {
        None => {
            app.out.last_message("stopped");
            Ok(())
        }
        Some(reason) => Err(Problem::failed(format!("the runtime gave up: {reason}"))),
    }
}

/// Reports the address, the token's file and a login link.
async fn report_ready(app: &App, server: &Server, url: &str) {
    let token_file = server.token_file().display().to_string();
    if app.out.json {
        let pid = std::process::id();
        let ready = json!({"url": url, "token_file": token_file, "pid": pid});
        return app.out.json(&ready);
    }
    app.out.message(format_args!("listening  {url}"));
    app.out.message(format_args!("token      in {token_file}"));
    if let Some(link) = server.login_link().await {
        let line = format_args!("page       {link} (works once, for an hour)");
        app.out.message(line);
    }
}

/// Announces the daemon beside the store, so that other processes find it.
fn announce(server: &Server, store: &Path) -> Result<DaemonFile> {
    let announced = running(server).announce(store);
    announced.map_err(|error| Problem::failed(format!("cannot write {}: {error}", store.display())))
}

/// The address of a server for processes that find it beside the store.
pub(super) fn running(server: &Server) -> DaemonInfo {
    DaemonInfo {
        url: format!("http://{}", server.authority()),
        token_file: server.token_file().to_owned(),
        pid: std::process::id(),
    }
}

impl From<http::Error> for Problem {
    fn from(error: http::Error) -> Problem {
        match error {
            http::Error::Remote(_) => Problem::usage(error),
            http::Error::Listen { address, ref error } if error.kind() == ErrorKind::AddrInUse => {
                let by = match port::owner(address) {
                    Some((program, id)) => format!("{program} (process {id}) listens there"),
                    None => "another program listens there".to_owned(),
                };
                let problem = Problem::failed(format!("{address} is in use: {by}"));
                let problem = problem.code(Code::Conflict);
                match port::next_free(address) {
                    Some(free) => problem.hint(format!(
                        "`unisono serve --bind {free}` listens beside it; `server.bind` sets it for good"
                    )),
                    None => problem.hint("`unisono serve --bind 127.0.0.1:0` takes a free port"),
                }
            }
            http::Error::Cluster(error) => error.into(),
            http::Error::UserHeader(_) => Problem::usage(error),
            http::Error::Listen { .. } | http::Error::Token { .. } => Problem::failed(error),
        }
    }
}
