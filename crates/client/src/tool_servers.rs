//! Tool servers that a client brings with a session.

use async_trait::async_trait;
use futures_util::stream;
use reqwest::header;
use unisono_api::service::{Result, ToolServerStates, ToolServers};
use unisono_api::tool_server::{ConnectedToolServer, NewToolServers};

use crate::events::Events;
use crate::{Client, resource_path};

#[async_trait]
impl ToolServers for Client {
    async fn connect_tool_servers(
        &self,
        session: &str,
        new: &NewToolServers,
    ) -> Result<ToolServerStates> {
        let path = resource_path(["sessions", session, "tool-servers"]);
        let request = self.post(&path, new);
        let request = request.header(header::ACCEPT, "text/event-stream");
        let events = Events::new(self.url.clone(), self.send(request).await?);
        Ok(Box::pin(stream::unfold(Some(events), step)))
    }
}

/// The next server; nothing after a lost connection.
async fn step(events: Option<Events>) -> Option<(Result<ConnectedToolServer>, Option<Events>)> {
    let mut events = events?;
    match events.next().await {
        Ok(event) => {
            let read = serde_json::from_str(&event?.data);
            let read = read.map_err(|error| events.wrong(&error.to_string()));
            Some((read, Some(events)))
        }
        Err(error) => Some((Err(error), None)),
    }
}
