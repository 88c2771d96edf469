//! Checks the environment of a daemon besides its store and its providers: a secret token, an
//! address, free disk space, and reachable servers.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use axum::http::Uri;
use tokio::net::TcpStream;
use unisono_runtime::mcp::{self, Server};
use unisono_store::private;

use crate::http::{self, token};
use unisono_config::settings;
use unisono_config::setup::Setup;

/// The time limit for reaching a server.
const REACHED_WITHIN: Duration = Duration::from_secs(3);
/// A disk with less room than this is as good as full, in bytes.
const LEAST_ROOM: u64 = 256 * 1024 * 1024;

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The name of the check.
    pub name: String,
    /// The result, or the fault and its fix.
    pub result: Result<String, String>,
}

/// Runs all checks. It changes nothing and sends no request to a model. If a daemon `runs`, its
/// address is in use and is not checked.
pub async fn check(setup: &Setup, runs: bool) -> Vec<Check> {
    let config = &setup.loaded.config;
    let mut checks = vec![
        Check {
            name: "token".to_owned(),
            result: token(&config.server.token_file),
        },
        Check {
            name: "address".to_owned(),
            result: address(&config.server, runs).await,
        },
        Check {
            name: "privacy".to_owned(),
            result: privacy(&config.store.path),
        },
        Check {
            name: "disk".to_owned(),
            result: disk(&config.store.path),
        },
    ];
    let servers = setup.loaded.tools.servers.iter().map(tools);
    checks.extend(futures_util::future::join_all(servers).await);
    let traces = &config.telemetry.otlp_endpoint;
    if !traces.is_empty() {
        checks.push(Check {
            name: "traces".to_owned(),
            result: reached(traces).await,
        });
    }
    checks
}

/// Checks whether this machine reaches the other daemons, given by name and address: daemons
/// forward requests to each other.
pub async fn reach(daemons: impl IntoIterator<Item = (String, String)>) -> Vec<Check> {
    let checks = daemons.into_iter().map(|(name, address)| async move {
        let result = match reached(&address).await {
            Ok(message) => Ok(message),
            Err(why) => Err(format!(
                "{why}; requests to this machine for its sessions get 503: set its `cluster.address` to \
                 an address that this machine reaches"
            )),
        };
        Check {
            name: format!("daemon {name}"),
            result,
        }
    });
    futures_util::future::join_all(checks).await
}

fn token(path: &Path) -> Result<String, String> {
    let shown = path.display();
    match token::check(path) {
        Ok(true) => Ok(format!("{shown}; only its owner can access it")),
        Ok(false) => Ok(format!("{shown} will be made at the first start")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

async fn address(server: &settings::Server, runs: bool) -> Result<String, String> {
    let at = server.bind;
    if !at.ip().is_loopback() && !server.allow_remote {
        return Err(http::Error::Remote(at).to_string());
    }
    let reach = reach_of(at, &server.hosts);
    let url = format!("http://{}", http::authority(at));
    Ok(
        match !runs && at.port() > 0 && reached(&url).await.is_ok() {
            true => format!(
                "{reach}; something else listens there now, to serve takes another `server.bind`"
            ),
            false => reach,
        },
    )
}

/// Describes which machines can reach an address.
fn reach_of(at: SocketAddr, hosts: &[String]) -> String {
    if at.ip().is_loopback() {
        return format!("{at}, from this machine");
    }
    let named = match hosts {
        [] => "no `server.hosts`: others must ask by its address".to_owned(),
        hosts => format!("as {}", hosts.join(", ")),
    };
    format!("{at}, from other machines too, without TLS; {named}")
}

/// Whether other users of this machine have rights to anything of the store.
fn privacy(store: &Path) -> Result<String, String> {
    let shown = store.display();
    match private::exposed(store) {
        Ok(None) => Ok(format!("{shown}; only its owner can access it")),
        Ok(Some(path)) => Err(format!(
            "other users may read {}: run chmod -R go-rwx {shown}",
            path.display()
        )),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

fn disk(store: &Path) -> Result<String, String> {
    // The store may not have been made yet.
    let there = store.ancestors().find(|path| path.exists());
    let there = there.unwrap_or(Path::new("/"));
    let about = rustix::fs::statvfs(there).map_err(|e| format!("{}: {e}", there.display()))?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    let shown = format!(
        "{:.1} GiB free for {}",
        free as f64 / 1_073_741_824.0,
        store.display()
    );
    match free < LEAST_ROOM {
        true => Err(format!("{shown}: make room, a full disk stops every turn")),
        false => Ok(shown),
    }
}

/// Does the handshake with a tool server and lists its tools.
async fn tools(server: &Server) -> Check {
    let listed = mcp::check(server).await;
    Check {
        name: format!("tools of {}", server.name),
        result: match listed {
            Ok(1) => Ok("answers, and offers 1 tool".to_owned()),
            Ok(tools) => Ok(format!("answers, and offers {tools} tools")),
            Err(fault) => Err(fault.reason.to_string()),
        },
    }
}

/// Opens a connection and closes it.
async fn reached(url: &str) -> Result<String, String> {
    let place = url.parse::<Uri>().ok().and_then(|uri| {
        let port = match uri.scheme_str() {
            Some("https") => 443,
            _ => 80,
        };
        Some((uri.host()?.to_owned(), uri.port_u16().unwrap_or(port)))
    });
    let (host, port) = place.ok_or_else(|| format!("{url} is not an address"))?;
    let host = host.trim_matches(['[', ']']);
    match tokio::time::timeout(REACHED_WITHIN, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(format!("{url} can be reached")),
        Ok(Err(error)) => Err(format!("{url} cannot be reached: {error}")),
        Err(_) => Err(format!(
            "{url} does not answer within {} s",
            REACHED_WITHIN.as_secs()
        )),
    }
}
