//! A server at an address, connected by streamable HTTP.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcMessage, RequestId};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use tokio_util::sync::CancellationToken;
use unisono_model::client::{self, Connections, HeaderName, HeaderValue};
use unisono_model::provider::{Address, Header, Key};

use super::connection::{self, ConnectionError, HttpError, Opened};

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
    // A call in a session that the server has forgotten was not processed: it is sent again.
    config.reinit_on_expired_session = true;
    // A request that waited for others would use up its timeout before it is sent.
    config.max_concurrent_requests = usize::MAX;
    let transport = StreamableHttpClientTransport::with_client(Client(client), config);
    connection::open(transport, trouble, use_legacy_handshake, cancelled).await
}

type Headers = HashMap<HeaderName, HeaderValue>;

/// The HTTP client. It limits the size of events, and recognises errors that name no request, and a
/// forgotten session by the answers that many servers give instead of 404.
#[derive(Clone)]
struct Client(Connections);

impl StreamableHttpClient for Client {
    type Error = <Connections as StreamableHttpClient>::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let has_session = session_id.is_some();
        let request = match &message {
            JsonRpcMessage::Request(request) => Some(Sent {
                id: request.id.clone(),
                is_discovery: matches!(request.request, ClientRequest::DiscoverRequest(_)),
            }),
            _ => None,
        };
        let sent = self.0.post_message_with_max_sse_event_size(
            uri,
            message,
            session_id,
            auth_header,
            headers,
            EVENT_MAX,
        );
        let sent = sent.await;
        match has_session && is_session_unknown(&sent) {
            true => Err(StreamableHttpError::SessionExpired),
            false => understood(sent, request),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        let deleted = self.0.delete_session(uri, session_id, auth_header, headers);
        deleted.await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, HttpError> {
        let stream = self.0.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            headers,
            EVENT_MAX,
        );
        stream.await
    }
}

/// How servers say that they do not know a session.
const UNKNOWN_SESSION: [&str; 7] = [
    "session id",
    "session-id",
    "session not found",
    "unknown session",
    "invalid session",
    "session expired",
    // Of a server that was started again and has only one session.
    "server not initialized",
];

struct Sent {
    id: RequestId,
    /// Whether it is the question for the revisions of the server.
    is_discovery: bool,
}

impl Sent {
    /// Whether this failure may mean that a server does not know the question for its revisions.
    fn may_be_unknown(&self, failure: &HttpError) -> bool {
        let is_other = |reason: &str| {
            let mut others = ["HTTP 3", "HTTP 401 ", "HTTP 403 "].iter();
            others.any(|status| reason.starts_with(status))
        };
        self.is_discovery
            && match failure {
                StreamableHttpError::UnexpectedServerResponse(reason) => !is_other(reason),
                StreamableHttpError::UnexpectedContentType(_)
                | StreamableHttpError::HttpStatus(_) => true,
                _ => false,
            }
    }
}

/// The answer to a message, as it was meant. Errors that precede the handling of a request have no id,
/// or another one: the caller would wait for its answer in vain. A message that is no request has no
/// answer, whatever the body of the response holds.
fn understood(
    sent: Result<StreamableHttpPostResponse, HttpError>,
    request: Option<Sent>,
) -> Result<StreamableHttpPostResponse, HttpError> {
    use StreamableHttpPostResponse::{Accepted, Json, Sse};
    match (sent, request) {
        (Ok(Json(JsonRpcMessage::Error(refused), session)), Some(request)) => {
            let error = JsonRpcMessage::error(refused.error, Some(request.id));
            Ok(Json(error, session))
        }
        (Err(failure), Some(request)) if request.may_be_unknown(&failure) => {
            let unknown = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, failure.to_string(), None);
            Ok(Json(JsonRpcMessage::error(unknown, Some(request.id)), None))
        }
        (Ok(Sse(..)) | Err(StreamableHttpError::UnexpectedContentType(_)), None) => Ok(Accepted),
        (sent, _) => sent.map_err(with_redirection),
    }
}

/// An error that says what to do about a redirection, if it is one that is not followed.
fn with_redirection(error: HttpError) -> HttpError {
    match error {
        StreamableHttpError::UnexpectedServerResponse(reason) if reason.starts_with("HTTP 3") => {
            let status = reason.split(": ").next().unwrap_or_default();
            let reason =
                format!("the address redirects to another one ({status}); set that one instead");
            StreamableHttpError::UnexpectedServerResponse(reason.into())
        }
        error => error,
    }
}

/// Whether an answer to a request in a session says that the server does not know the session: status
/// 400, or an error without the id of the request.
fn is_session_unknown(sent: &Result<StreamableHttpPostResponse, HttpError>) -> bool {
    let reason = match sent {
        Err(StreamableHttpError::UnexpectedServerResponse(reason))
            if reason.starts_with("HTTP 400 ") =>
        {
            &**reason
        }
        Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(refused), _))
            if refused.id.is_none() =>
        {
            &*refused.error.message
        }
        _ => return false,
    };
    let reason = reason.to_ascii_lowercase();
    let mut unknown = UNKNOWN_SESSION.iter();
    unknown.any(|words| reason.contains(words))
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::{Barrier, Mutex};
    use std::thread;

    use serde_json::{Value, json};
    use tokio::task::JoinSet;

    use super::super::{ServerTransport, names};
    use super::*;

    #[derive(Default)]
    struct Server {
        /// The media type and the body of its answer to a request in an unknown session. It then
        /// forgets each session after its first list, as a server that is started again; none: it
        /// forgets none.
        unknown: Option<(&'static str, &'static str)>,
        /// The number of lists that it answers together; none: each alone.
        together: Option<Barrier>,
        /// The cursor in each of its lists, which then have one tool; none: they have none.
        cursor: Option<&'static str>,
        /// Where it redirects requests to `/mcp`; none: it answers them.
        moved_to: Option<&'static str>,
        /// The headers and the body of its responses to notifications; none: they are accepted.
        noted: Option<(&'static str, &'static str)>,
        /// Whether it is at another address.
        is_elsewhere: bool,
        /// The status and the body of its response to the question for its revisions; none: as to a
        /// notification.
        discovered: Option<(&'static str, &'static str)>,
        sessions: Mutex<Sessions>,
    }

    #[derive(Default)]
    struct Sessions {
        begun: usize,
        known: Option<String>,
    }

    impl Server {
        /// Serves on loopback; returns the address.
        fn start(self: &Arc<Server>) -> Address {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/mcp", listener.local_addr().unwrap());
            let server = self.clone();
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let server = server.clone();
                    thread::spawn(move || drop(server.converse(stream)));
                }
            });
            Address::parse(&url).unwrap()
        }

        fn converse(&self, stream: TcpStream) -> io::Result<()> {
            let mut writer = stream.try_clone()?;
            let mut reader = BufReader::new(stream);
            loop {
                let (mut line, mut session, mut length) = (String::new(), None, 0);
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                let is_post = line.starts_with("POST");
                let moved_to = self.moved_to.filter(|_| line.contains(" /mcp "));
                loop {
                    line.clear();
                    reader.read_line(&mut line)?;
                    match line.trim().to_ascii_lowercase().split_once(": ") {
                        Some(("content-length", bytes)) => length = bytes.parse().unwrap_or(0),
                        Some(("mcp-session-id", id)) => session = Some(id.to_owned()),
                        Some(_) => {}
                        None => break,
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body)?;
                let message: Value = serde_json::from_slice(&body).unwrap_or_default();
                if let (Some("tools/list"), Some(together)) =
                    (message["method"].as_str(), &self.together)
                {
                    together.wait();
                }
                let answer = match (is_post, moved_to) {
                    (_, Some(place)) => {
                        let location = format!("Location: {place}\r\n");
                        response("307 Temporary Redirect", &location, "")
                    }
                    (true, None) if self.is_elsewhere => {
                        response("404 Not Found", "Content-Type: text/html\r\n", "not here")
                    }
                    (true, None) => self.answer(&message, session.as_deref()),
                    (false, None) => response("405 Method Not Allowed", "", ""),
                };
                writer.write_all(answer.as_bytes())?;
            }
        }

        fn answer(&self, message: &Value, session: Option<&str>) -> String {
            let mut sessions = self.sessions.lock().unwrap();
            let result = |headers: &str, result: Value| {
                let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                let headers = format!("Content-Type: application/json\r\n{headers}");
                response("200 OK", &headers, &body.to_string())
            };
            match message["method"].as_str().unwrap_or_default() {
                "initialize" => {
                    sessions.begun += 1;
                    let name = format!("s{}", sessions.begun);
                    let header = format!("Mcp-Session-Id: {name}\r\n");
                    sessions.known = Some(name);
                    let about = json!({"protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "forgets", "version": "1"}});
                    result(&header, about)
                }
                "tools/list" if session.is_some() && sessions.known.as_deref() == session => {
                    sessions.known.take_if(|_| self.unknown.is_some());
                    let tool = json!({"name": "read", "inputSchema": {"type": "object"}});
                    let tools: Vec<Value> = self.cursor.map(|_| tool).into_iter().collect();
                    result("", json!({"tools": tools, "nextCursor": self.cursor}))
                }
                "tools/list" => {
                    let (kind, body) = self.unknown.unwrap_or_default();
                    let headers = format!("Content-Type: {kind}\r\n");
                    response("400 Bad Request", &headers, body)
                }
                "server/discover" if self.discovered.is_some() => {
                    let (status, body) = self.discovered.unwrap_or_default();
                    response(status, "Content-Type: text/html\r\n", body)
                }
                _ => match self.noted {
                    Some((headers, body)) => response("200 OK", headers, body),
                    None => response("202 Accepted", "", ""),
                },
            }
        }
    }

    fn response(status: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
    }

    async fn opened(url: &Address) -> Opened {
        let (trouble, cancelled) = (ConnectionError::default(), CancellationToken::new());
        let opened = open((url, &[], None), trouble, true, cancelled);
        opened.await.unwrap()
    }

    #[tokio::test]
    async fn no_request_waits_for_the_answers_to_others() {
        let together = 32;
        let server = Arc::new(Server {
            together: Some(Barrier::new(together)),
            ..Server::default()
        });
        let (connection, _service) = opened(&server.start()).await;
        let mut lists = JoinSet::new();
        for _ in 0..together {
            let connection = connection.clone();
            lists.spawn(async move { connection.peer.list_all_tools().await.unwrap().len() });
        }
        assert_eq!(lists.join_all().await, vec![0; together]);
    }

    #[tokio::test]
    async fn a_server_that_was_started_again_is_used_in_a_new_session() {
        for unknown in rows! {
            ("text/plain", "Invalid session ID"),
            ("application/json", r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#),
            ("application/json", r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}"#),
        } {
            let server = Arc::new(Server {
                unknown: Some(unknown),
                ..Server::default()
            });
            let (connection, _service) = opened(&server.start()).await;
            for sessions in 1..=3 {
                let tools = connection.peer.list_all_tools().await.unwrap();
                assert_eq!(tools.len(), 0, "{unknown:?}");
                assert_eq!(server.sessions.lock().unwrap().begun, sessions);
            }
        }
    }

    #[tokio::test]
    async fn a_redirection_is_followed_within_the_origin() {
        let moved = |place| {
            Arc::new(Server {
                moved_to: Some(place),
                ..Server::default()
            })
        };
        let (connection, _service) = opened(&moved("/mcp/").start()).await;
        assert_eq!(connection.peer.list_all_tools().await.unwrap().len(), 0);
        let url = moved("http://localhost:9/mcp/").start();
        let (trouble, cancelled) = (ConnectionError::default(), CancellationToken::new());
        let refused = open((&url, &[], None), trouble, true, cancelled).await;
        let (reason, _) = refused.map(|_| ()).unwrap_err();
        assert!(
            reason.contains("(HTTP 307 Temporary Redirect); set that one instead"),
            "{reason}"
        );
    }

    #[tokio::test]
    async fn a_server_that_knows_no_question_for_its_revisions_is_connected() {
        for discovered in rows! {
            ("500 Internal Server Error", "<h1>oops</h1>"),
            ("404 Not Found", "<h1>no such method</h1>"),
            ("200 OK", "<h1>hello</h1>"),
        } {
            let server = Arc::new(Server {
                discovered: Some(discovered),
                ..Server::default()
            });
            let (trouble, cancelled) = (ConnectionError::default(), CancellationToken::new());
            let opened = open((&server.start(), &[], None), trouble, false, cancelled).await;
            let (connection, _service) = opened.unwrap();
            let tools = connection.peer.list_all_tools().await.unwrap();
            assert_eq!(tools.len(), 0, "{discovered:?}");
        }
    }

    #[tokio::test]
    async fn the_error_of_a_wrong_address_has_its_status() {
        let server = Arc::new(Server {
            is_elsewhere: true,
            ..Server::default()
        });
        let (trouble, cancelled) = (ConnectionError::default(), CancellationToken::new());
        let opened = open((&server.start(), &[], None), trouble, false, cancelled).await;
        let (reason, _) = opened.map(|_| ()).unwrap_err();
        assert!(reason.contains("HTTP 404 Not Found: not here"), "{reason}");
    }

    #[tokio::test]
    async fn the_error_of_a_server_that_does_not_listen_has_its_cause() {
        let url = Address::parse("http://127.0.0.1:9/mcp").unwrap();
        let (trouble, cancelled) = (ConnectionError::default(), CancellationToken::new());
        let opened = open((&url, &[], None), trouble, false, cancelled).await;
        let (reason, _) = opened.map(|_| ()).unwrap_err();
        assert!(reason.contains("Connection refused"), "{reason}");
        assert!(!reason.contains("rmcp"), "{reason}");
    }

    #[tokio::test]
    async fn a_notification_needs_no_right_response() {
        for noted in rows! {
            ("", "ok"),
            ("Content-Type: text/plain\r\n", "No response"),
            ("Content-Type: application/json\r\n", "null"),
            ("Content-Type: text/event-stream\r\n", ": noted\n\n"),
        } {
            let server = Arc::new(Server {
                noted: Some(noted),
                ..Server::default()
            });
            let (connection, _service) = opened(&server.start()).await;
            let tools = connection.peer.list_all_tools().await.unwrap();
            assert_eq!(tools.len(), 0, "{noted:?}");
        }
    }

    #[tokio::test]
    async fn an_error_that_does_not_name_its_request_is_its_answer() {
        for unknown in rows! {
            ("application/json", r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal server error"},"id":null}"#),
            ("application/json", r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal server error"},"id":"server-error"}"#),
        } {
            let server = Arc::new(Server {
                unknown: Some(unknown),
                ..Server::default()
            });
            let (connection, _service) = opened(&server.start()).await;
            connection.peer.list_all_tools().await.unwrap();
            let error = connection.peer.list_all_tools().await.unwrap_err();
            assert!(
                error.to_string().contains("Internal server error"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn a_list_of_a_server_that_repeats_its_cursor_ends() {
        let configured = super::super::Server {
            name: "files".into(),
            transport: ServerTransport::Unset { reason: "".into() },
            start_timeout: Duration::ZERO,
            timeout: Duration::ZERO,
            tools: Vec::new(),
            contracts: Vec::new(),
            skills: false,
        };
        for cursor in ["", "2"] {
            let server = Arc::new(Server {
                cursor: Some(cursor),
                ..Server::default()
            });
            let (connection, _service) = opened(&server.start()).await;
            let tools = connection.list(&configured).await.unwrap();
            assert_eq!(names::offers(&configured, &tools).len(), 1, "{cursor:?}");
        }
    }
}
