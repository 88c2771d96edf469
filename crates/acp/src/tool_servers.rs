//! Tool servers of the editor: connected for one session, as long as the editor has it open.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::task::JoinSet;
use unisono_api::Code;
use unisono_api::service::{Service, ToolServerStates};
use unisono_api::tool_server::{NewToolServer, NewToolServers};

use crate::client::Error;
use crate::protocol::{McpServer, NamedValue};

/// The pause after a lost connection to the daemon, and the longest one.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Holds the servers of each session. The servers are disconnected with it.
#[derive(Default)]
pub(crate) struct ToolServers(HashMap<String, JoinSet<()>>);

impl ToolServers {
    /// Replaces the servers of a session. A session works without servers that cannot be connected.
    ///
    /// # Errors
    ///
    /// A server is refused, for example for its address.
    pub(crate) async fn connect(
        &mut self,
        service: &Arc<dyn Service>,
        session: &str,
        servers: Vec<NewToolServer>,
    ) -> Result<(), Error> {
        self.disconnect(session);
        if servers.is_empty() {
            return Ok(());
        }
        let new = NewToolServers { servers };
        match service.connect_tool_servers(session, &new).await {
            Ok(states) => {
                let mut holding = JoinSet::new();
                holding.spawn(hold(service.clone(), session.to_owned(), new, states));
                self.0.insert(session.to_owned(), holding);
            }
            Err(error) if matches!(error.code(), Code::Refused | Code::InvalidRequest) => {
                return Err(error.into());
            }
            Err(error) => tracing::warn!(%error, "tool servers of the editor are not connected"),
        }
        Ok(())
    }

    pub(crate) fn disconnect(&mut self, session: &str) {
        self.0.remove(session);
    }
}

/// Holds the servers; connects them again after the daemon was gone.
async fn hold(
    service: Arc<dyn Service>,
    session: String,
    new: NewToolServers,
    mut states: ToolServerStates,
) {
    loop {
        while let Some(Ok(state)) = states.next().await {
            let (name, tools) = (&state.name, state.tools.len());
            match &state.error {
                None => {
                    tracing::info!(%session, name, tools, "a tool server of the editor answers")
                }
                Some(error) => tracing::warn!(%session, name, error, "a tool server of the editor"),
            }
        }
        let mut pause = PAUSE;
        states = loop {
            tokio::time::sleep(pause).await;
            pause = LONGEST_PAUSE.min(2 * pause);
            match service.connect_tool_servers(&session, &new).await {
                Ok(states) => break states,
                Err(error) if error.code() == Code::NotFound => return,
                Err(error) => tracing::debug!(%session, %error, "tool servers stay unconnected"),
            }
        };
    }
}

/// Converts the editor's servers to the types of the service. A program works in the directory of
/// the session.
///
/// # Errors
///
/// A server is neither a program nor an address with streamable HTTP, or there are too many.
pub(crate) fn read(servers: Vec<McpServer>, cwd: &Path) -> Result<Vec<NewToolServer>, Error> {
    if servers.len() > NewToolServers::MAX {
        let most = NewToolServers::MAX;
        return Err(Error::invalid(format!(
            "at most {most} tool servers are possible"
        )));
    }
    let each = servers.into_iter().map(|server| {
        let pairs = |pairs: Vec<NamedValue>| pairs.into_iter().map(|pair| (pair.name, pair.value));
        let new = NewToolServer {
            name: server.name,
            command: server.command,
            args: server.args,
            env: pairs(server.env).collect(),
            cwd: None,
            url: server.url,
            headers: pairs(server.headers).collect(),
        };
        match (server.kind.as_deref(), &new.command, &new.url) {
            (None | Some("stdio"), Some(_), None) => Ok(NewToolServer {
                cwd: Some(cwd.display().to_string()),
                ..new
            }),
            (Some("http"), None, Some(_)) => Ok(new),
            _ => Err(Error::invalid(format!(
                "tool server {:?} is neither a program (`command`) nor of the type \"http\" (`url`)",
                new.name
            ))),
        }
    });
    each.collect()
}
