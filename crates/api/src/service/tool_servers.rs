//! Tool servers that a client brings with a session.

use std::pin::Pin;

use async_trait::async_trait;
use futures_core::Stream;

use super::Result;
use crate::tool_server::{ConnectedToolServer, NewToolServers};

/// The servers of a client, each once it has answered or failed. The stream ends only if the
/// connection to the daemon is lost; dropping it disconnects the servers.
pub type ToolServerStates = Pin<Box<dyn Stream<Item = Result<ConnectedToolServer>> + Send>>;

/// Tool servers that a client brings with a session.
#[async_trait]
pub trait ToolServers {
    /// Offers the tools of these servers to the agents of a session, from its next turn on, as long
    /// as the returned stream lives. Nothing about the servers is stored except the specifications
    /// of their tools, in the turns that have them.
    ///
    /// # Errors
    /// `not_found`; `refused`: a server is neither a program nor an address; `busy`: clients bring as
    /// many servers as are possible; `forbidden`: the caller may not start programs.
    async fn connect_tool_servers(
        &self,
        session: &str,
        new: &NewToolServers,
    ) -> Result<ToolServerStates>;
}
