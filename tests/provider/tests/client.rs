//! A client that sees every byte: a plain socket and a few lines of HTTP.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use unisono_fake_provider::{Dialect, FakeProvider};

/// How long a read may take before a test fails.
const BOUND: Duration = Duration::from_secs(20);

/// A connection to the server.
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    ahead: Vec<u8>,
}

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    /// Without its framing.
    pub(crate) body: Vec<u8>,
    /// The chunks it came in; empty where it had a length.
    pub(crate) chunks: Vec<Vec<u8>>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    Reset,
}

impl Client {
    pub(crate) async fn of(provider: &FakeProvider) -> Client {
        let socket = TcpStream::connect(provider.address())
            .await
            .expect("connects");
        Client {
            socket,
            ahead: Vec::new(),
        }
    }

    /// Sends bytes as they are.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).await.expect("sends");
    }

    /// Posts a body.
    pub(crate) async fn post(&mut self, path: &str, body: &str) {
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: fake\r\ncontent-length: {length}\r\n\r\n");
        self.send(head + body).await;
    }

    /// Asks for a stream, or a document, in that dialect.
    pub(crate) async fn ask(&mut self, dialect: Dialect, stream: bool) {
        let (path, body) = question(dialect, stream);
        self.post(path, body).await;
    }

    /// Reads one response to its end.
    pub(crate) async fn response(&mut self) -> Response {
        let head = self.head().await;
        let (mut body, mut chunks) = (Vec::new(), Vec::new());
        match head.header("content-length") {
            Some(length) => body = self.take(length.parse().expect("a length")).await,
            None => {
                assert_eq!(
                    head.header("transfer-encoding"),
                    Some("chunked"),
                    "{head:?}"
                );
                while let Some(chunk) = self.chunk().await {
                    body.extend_from_slice(&chunk);
                    chunks.push(chunk);
                }
            }
        }
        Response {
            body,
            chunks,
            ..head
        }
    }

    /// Reads status line and headers.
    pub(crate) async fn head(&mut self) -> Response {
        let end = self.find(b"\r\n\r\n").await;
        let head = String::from_utf8(self.take(end + 4).await).expect("text");
        let status = head.split(' ').nth(1).expect("a status");
        Response {
            status: status.parse().expect("a number"),
            head,
            body: Vec::new(),
            chunks: Vec::new(),
        }
    }

    /// Reads a chunk; none: it was the last one.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let end = self.find(b"\r\n").await;
        let line = String::from_utf8(self.take(end + 2).await).expect("text");
        let size = usize::from_str_radix(line.trim(), 16).expect("a size");
        let mut content = self.take(size + 2).await;
        assert_eq!(content.split_off(size), b"\r\n");
        (size > 0).then_some(content)
    }

    /// Reads all there is until the connection ends.
    pub(crate) async fn rest(&mut self) -> (Vec<u8>, End) {
        loop {
            match self.more().await {
                Ok(0) => return (std::mem::take(&mut self.ahead), End::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return (std::mem::take(&mut self.ahead), End::Reset);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// What has come so far, without waiting for more.
    pub(crate) fn come(&mut self) -> Vec<u8> {
        let mut room = [0; 1 << 16];
        while let Ok(read) = self.socket.try_read(&mut room) {
            assert_ne!(read, 0, "the connection is open");
            self.ahead.extend_from_slice(&room[..read]);
        }
        self.ahead.clone()
    }

    /// Takes that many bytes.
    pub(crate) async fn take(&mut self, bytes: usize) -> Vec<u8> {
        while self.ahead.len() < bytes {
            assert_ne!(self.more().await.expect("reads"), 0, "the connection ended");
        }
        self.ahead.drain(..bytes).collect()
    }

    async fn find(&mut self, what: &[u8]) -> usize {
        loop {
            let found = self.ahead.windows(what.len()).position(|seen| seen == what);
            if let Some(at) = found {
                return at;
            }
            assert_ne!(self.more().await.expect("reads"), 0, "the connection ended");
        }
    }

    async fn more(&mut self) -> std::io::Result<usize> {
        let read = self.socket.read_buf(&mut self.ahead);
        tokio::time::timeout(BOUND, read)
            .await
            .expect("something comes")
    }
}

impl Response {
    /// A header; its name is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// A path and a body that ask for a stream, or a document.
pub(crate) fn question(dialect: Dialect, stream: bool) -> (&'static str, &'static str) {
    match (dialect, stream) {
        (Dialect::OpenAiChat, true) => (
            "/v1/chat/completions",
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#,
        ),
        (Dialect::OpenAiChat, false) => ("/v1/chat/completions", r#"{"model":"m"}"#),
        (Dialect::OpenAiResponses, true) => ("/v1/responses", r#"{"model":"m","stream":true}"#),
        (Dialect::OpenAiResponses, false) => ("/v1/responses", r#"{"model":"m"}"#),
        (Dialect::Anthropic, true) => ("/v1/messages", r#"{"model":"m","stream":true}"#),
        (Dialect::Anthropic, false) => ("/v1/messages", r#"{"model":"m"}"#),
        (Dialect::Gemini, true) => ("/v1beta/models/m:streamGenerateContent?alt=sse", "{}"),
        (Dialect::Gemini, false) => ("/v1beta/models/m:generateContent", "{}"),
    }
}
