//! Messages of the Model Context Protocol, passed on to the daemon's MCP server.

use reqwest::{Method, header};
use serde_json::Value;

use crate::events::Events;
use crate::{Client, Error};

/// The position of the revision in a message of the current revision.
const REVISION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";

/// The response to a message.
#[derive(Debug)]
pub enum Messages {
    /// A message without a response.
    None,
    /// One message.
    One(String),
    /// Some that tell of progress, then the answer.
    Stream(Events),
}

impl Client {
    /// Sends a message to the daemon. `revision` is the one agreed on in a handshake; a message
    /// that names its own revision uses that.
    ///
    /// # Errors
    /// The daemon cannot be reached, or rejects the message.
    pub async fn mcp(&self, message: &Value, revision: Option<&str>) -> Result<Messages, Error> {
        let own = message.pointer(REVISION).and_then(Value::as_str);
        let mut request = self
            .request(Method::POST, "/mcp")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .body(message.to_string());
        let method = message["method"].as_str().unwrap_or_default();
        if let Some(revision) = own.or(revision) {
            request = request.header("MCP-Protocol-Version", revision);
        }
        if own.is_some() {
            request = request.header("Mcp-Method", method);
            if let Some(name) = named(method, &message["params"]) {
                request = request.header("Mcp-Name", name);
            }
        }
        let response = request.send().await.map_err(|error| self.broken(&error))?;
        let kind = response.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if response.status().is_success() && kind.starts_with("text/event-stream") {
            return Ok(Messages::Stream(Events::new(self.url.clone(), response)));
        }
        let status = response.status();
        let bytes = response
            .bytes()
            .await
            .map_err(|error| self.broken(&error))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let message: Option<Value> = serde_json::from_str(&text).ok();
        match message {
            // A refusal is also a message.
            Some(message) if message.get("jsonrpc").is_some() => {
                Ok(Messages::One(message.to_string()))
            }
            _ if status.is_success() => Ok(Messages::None),
            _ => Err(self.refused(status, text.as_bytes())),
        }
    }
}

impl Messages {
    /// The next message, on one line.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        match std::mem::replace(self, Messages::None) {
            Messages::None => Ok(None),
            Messages::One(message) => Ok(Some(message)),
            Messages::Stream(mut events) => {
                let event = events.next().await?;
                *self = Messages::Stream(events);
                Ok(event.map(|event| event.data))
            }
        }
    }
}

/// The subject of a message for its header, if the method has one.
fn named<'m>(method: &str, params: &'m Value) -> Option<&'m str> {
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return None,
    };
    let name = params[key].as_str()?;
    // The other end rejects a name that is invalid in a header.
    name.bytes()
        .all(|b| (0x21..0x7f).contains(&b))
        .then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_message_is_about_stands_in_a_header_where_that_is_due() {
        let cases = [
            ("tools/call", json!({"name": "ask"}), Some("ask")),
            (
                "resources/read",
                json!({"uri": "unisono://s"}),
                Some("unisono://s"),
            ),
            ("resources/read", json!({"name": "ask"}), None),
            ("tasks/get", json!({"taskId": "s.t.ask"}), Some("s.t.ask")),
            (
                "tasks/update",
                json!({"taskId": "s.t.ask"}),
                Some("s.t.ask"),
            ),
            (
                "tasks/cancel",
                json!({"taskId": "s.t.ask"}),
                Some("s.t.ask"),
            ),
            ("tools/list", json!({"name": "ask"}), None),
            ("tools/call", json!({"name": "a\r\nb"}), None),
        ];
        for (method, params, expected) in cases {
            assert_eq!(named(method, &params), expected, "{method} {params}");
        }
    }
}
