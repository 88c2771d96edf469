//! Requests of HTTP/1.1, read from a socket: headers, bodies by length and by chunks.

use std::io;

use bytes::{Bytes, BytesMut};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::recorded::Recorded;

/// The longest head, bytes.
const HEAD_LIMIT: usize = 1 << 20;
/// Room for one read, bytes.
const READ: usize = 64 << 10;

/// A socket, and what has been read from it ahead.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) socket: TcpStream,
    ahead: BytesMut,
}

/// Why there is no request.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The client closed the connection or it failed.
    Gone,
    /// It is not HTTP, for that reason.
    Malformed(&'static str),
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Broken {
        Broken::Gone
    }
}

impl Wire {
    pub(crate) fn new(socket: TcpStream) -> Wire {
        Wire {
            socket,
            ahead: BytesMut::new(),
        }
    }

    /// The next request's head. Its body is still empty.
    pub(crate) async fn head(&mut self) -> Result<Recorded, Broken> {
        let mut searched = 0;
        let end = loop {
            if let Some(at) = memmem::find(&self.ahead[searched..], b"\r\n\r\n") {
                break searched + at + 4;
            }
            if self.ahead.len() > HEAD_LIMIT {
                return Err(Broken::Malformed("the head is longer than is read"));
            }
            searched = self.ahead.len().saturating_sub(3);
            self.more().await?;
        };
        let head = self.ahead.split_to(end);
        parse_head(&head).map_err(Broken::Malformed)
    }

    /// Reads the body that belongs to a head. What came before the connection broke is kept.
    pub(crate) async fn body(&mut self, request: &mut Recorded) -> Result<(), Broken> {
        if request.header("expect") == Some("100-continue") {
            self.socket
                .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                .await?;
        }
        let chunked = request
            .header("transfer-encoding")
            .is_some_and(|encoding| encoding.eq_ignore_ascii_case("chunked"));
        if chunked {
            let mut body = BytesMut::new();
            let outcome = self.chunks(&mut body).await;
            request.body = body.freeze();
            outcome?;
        } else if let Some(length) = request.header("content-length") {
            let length = length.trim().parse();
            let length = length.map_err(|_| Broken::Malformed("content-length is no number"))?;
            let outcome = self.fill(length).await;
            request.body = self.ahead.split_to(length.min(self.ahead.len())).freeze();
            outcome?;
        }
        request.complete = true;
        Ok(())
    }

    /// Returns when the client has gone. What it sends until then is kept for later.
    pub(crate) async fn gone(&mut self) {
        loop {
            if self.ahead.len() > HEAD_LIMIT {
                // No client sends that much ahead; it is left in the socket.
                std::future::pending::<()>().await;
            }
            if self.more().await.is_err() {
                return;
            }
        }
    }

    async fn chunks(&mut self, body: &mut BytesMut) -> Result<(), Broken> {
        loop {
            let line = self.line().await?;
            let size = parse_chunk_size(&line).map_err(Broken::Malformed)?;
            if size == 0 {
                // Trailers, up to an empty line.
                while self.line().await?.len() > 2 {}
                return Ok(());
            }
            let outcome = self.fill(size + 2).await;
            let content = self.ahead.split_to(size.min(self.ahead.len()));
            body.extend_from_slice(&content);
            outcome?;
            if self.ahead.split_to(2) != b"\r\n"[..] {
                return Err(Broken::Malformed("a chunk is not as long as it says"));
            }
        }
    }

    /// The next line, its end included.
    async fn line(&mut self) -> Result<Bytes, Broken> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.ahead) {
                return Ok(self.ahead.split_to(at + 1).freeze());
            }
            self.more().await?;
        }
    }

    /// Reads until that many bytes are there.
    async fn fill(&mut self, bytes: usize) -> Result<(), Broken> {
        self.ahead.reserve(bytes.saturating_sub(self.ahead.len()));
        while self.ahead.len() < bytes {
            self.more().await?;
        }
        Ok(())
    }

    async fn more(&mut self) -> Result<(), Broken> {
        if self.ahead.capacity() == self.ahead.len() {
            self.ahead.reserve(READ);
        }
        match self.socket.read_buf(&mut self.ahead).await? {
            0 => Err(Broken::Gone),
            _ => Ok(()),
        }
    }
}

fn parse_head(head: &[u8]) -> Result<Recorded, &'static str> {
    let text = std::str::from_utf8(head).map_err(|_| "the head is no text")?;
    let mut lines = text.trim_end().split("\r\n");
    let mut start = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1")) = (start.next(), start.next(), start.next())
    else {
        return Err("the first line is no request of HTTP/1.1");
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    let headers: Option<Vec<_>> = headers.collect();
    Ok(Recorded {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers: headers.ok_or("a header has no colon")?,
        ..Recorded::default()
    })
}

fn parse_chunk_size(line: &[u8]) -> Result<usize, &'static str> {
    let text = std::str::from_utf8(line).unwrap_or_default().trim_end();
    let size = text.split(';').next().unwrap_or_default().trim();
    usize::from_str_radix(size, 16).map_err(|_| "a chunk's size is no number")
}

#[cfg(test)]
mod tests {
    //! Heads and chunk sizes as text.

    use super::*;

    #[test]
    fn a_head_is_read_into_its_parts() {
        let head = "POST /v1/x?a=1&b HTTP/1.1\r\nHost: h\r\nX-Key:  v: w \r\n\r\n";
        let request = parse_head(head.as_bytes()).expect("valid");
        assert_eq!(request.method, "POST");
        assert_eq!(
            (request.path.as_str(), request.query.as_str()),
            ("/v1/x", "a=1&b")
        );
        assert_eq!(request.header("x-key"), Some("v: w"));
        assert_eq!(request.header("host"), Some("h"));
        assert!(!request.complete);
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for head in [
            "POST /\r\n\r\n",
            "POST / HTTP/2\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        ] {
            assert!(parse_head(head.as_bytes()).is_err(), "{head:?}");
        }
    }

    #[test]
    fn chunk_sizes_are_hexadecimal_and_may_have_extensions() {
        assert_eq!(parse_chunk_size(b"1a\r\n"), Ok(26));
        assert_eq!(parse_chunk_size(b"0;name=value\r\n"), Ok(0));
        assert!(parse_chunk_size(b"x\r\n").is_err());
    }
}
