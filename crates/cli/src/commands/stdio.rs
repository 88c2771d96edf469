//! A client on standard input and output, on a store that this process has opened. The process
//! answers other calls of the program on a free port of loopback meanwhile.

use tokio::sync::Notify;
use unisono::local::Opened;
use unisono_config::settings::Override;
use unisono_config::setup::Setup;
use unisono_server::http::Server;

use super::serve::running;
use crate::app::App;
use crate::live::Interrupts;
use crate::problem::{Problem, Result};

/// The setting of the address where other calls of the program reach this one.
pub(super) const BIND_KEY: &str = "server.bind";
const BIND: &str = "127.0.0.1:0";

/// That setting, for the setup of the verb.
pub(super) fn bind(verb: &str) -> Override {
    Override::new(format!("unisono {verb}"), BIND_KEY, BIND)
}

/// Serves the client until it leaves or the program is stopped; turns that are open then are worked
/// on for as long as the daemon would.
pub(super) async fn serve<F>(
    app: &App,
    (opened, setup): (Opened, Setup),
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
    let (served, failed) = tokio::join!(serving, server.answer(stop));
    drop(announced);
    served.map_err(|error| Problem::failed(format!("the client cannot be served: {error}")))?;
    match failed {
        None => Ok(()),
        Some(reason) => Err(Problem::failed(format!("the runtime gave up: {reason}"))),
    }
}
