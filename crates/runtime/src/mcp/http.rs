//! A server at an address, connected by streamable HTTP.

use std::time::Duration;

use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use tokio_util::sync::CancellationToken;
use unisono_model::client;
use unisono_model::provider::{Address, Header, Key};

use super::connection::{self, ConnectionError, Opened};

/// The maximum size of a server's event, in bytes.
const EVENT_MAX: usize = 8 * 1024 * 1024;
const CONNECT: Duration = Duration::from_secs(10);

/// Connects to a server.
pub(super) async fn open(
    (url, headers, token): (&Address, &[Header], Option<&Key>),
    trouble: ConnectionError,
    use_legacy_handshake: bool,
    cancelled: CancellationToken,
) -> Result<Opened, (String, bool)> {
    let client =
        client::connections_to(url, token, headers, CONNECT).map_err(|reason| (reason, false))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.to_string());
    config.max_sse_event_size = EVENT_MAX;
    // A call in a session that the server has forgotten was not processed: it is sent again.
    config.reinit_on_expired_session = true;
    let transport = StreamableHttpClientTransport::with_client(client, config);
    connection::open(transport, trouble, use_legacy_handshake, cancelled).await
}
