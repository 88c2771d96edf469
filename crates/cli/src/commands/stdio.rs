//! A client on standard input and output, on a store that this process has opened. The process
//! answers other calls of the program on a free port of loopback meanwhile.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use unisono::local::OpenedStore;
use unisono_config::settings::Override;
use unisono_config::setup::Setup;
use unisono_server::http::Server;

use super::serve::running;
use crate::app::App;
use crate::live::Interrupts;
use crate::problem::{Problem, Result};

/// The setting for the address at which other processes of the program reach this one.
pub(super) const BIND_KEY: &str = "server.bind";
const BIND: &str = "127.0.0.1:0";
/// The time for writing the last answers after everything else has stopped.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// That setting, for the setup of the verb.
pub(super) fn bind(verb: &str) -> Override {
    Override::new(format!("unisono {verb}"), BIND_KEY, BIND)
}

/// Serves the client until it disconnects or the program is stopped. Open turns then get the drain
/// time of the daemon.
pub(super) async fn serve<F>(
    app: &App,
    (opened, setup): (OpenedStore, Setup),
    interrupts: &mut Interrupts,
    client: impl FnOnce(&Server) -> F,
) -> Result<()>
where
    F: Future<Output = Result<(), String>>,
{
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
    let client = client(&server);
    let left = Notify::new();
    let serving = async {
        let served = client.await;
        left.notify_one();
        served
    };
    let stop = async {
        tokio::select! {
            _ = interrupts.next() => {}
            () = left.notified() => {}
        }
    };
    let answering = server.answer(stop);
    tokio::pin!(serving, answering);
    let mut served = None;
    let failed = loop {
        tokio::select! {
            ended = &mut serving, if served.is_none() => served = Some(ended),
            failed = &mut answering => break failed,
        }
    };
    // A client that does not read its end would keep the program.
    let served = match served {
        Some(served) => served,
        None => timeout(LAST_ANSWERS, serving).await.unwrap_or(Ok(())),
    };
    drop(announced);
    served.map_err(|error| Problem::failed(format!("the client cannot be served: {error}")))?;
    match failed {
        None => Ok(()),
        Some(reason) => Err(Problem::failed(format!("the runtime gave up: {reason}"))),
    }
}
