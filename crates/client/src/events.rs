//! Server-sent events.

use bytes::{Buf as _, Bytes, BytesMut};
use reqwest::Response;

use crate::{Error, first_cause};

/// Maximum size of an event, in bytes.
const EVENT_CAP_BYTES: usize = 16 << 20;

/// Server-sent events.
#[derive(Debug)]
pub struct Events {
    url: String,
    response: Response,
    received: Received,
    has_come: bool,
}

/// The received bytes behind the last complete event.
#[derive(Debug, Default)]
struct Received {
    bytes: BytesMut,
    /// The number of bytes in which no empty line begins.
    searched: usize,
}

impl Received {
    /// The text up to the next empty line.
    fn block(&mut self) -> Option<Bytes> {
        let left = &self.bytes[self.searched..];
        let Some(end) = left.windows(2).position(|pair| pair == b"\n\n") else {
            // The last byte may be the first half of an empty line.
            self.searched = self.bytes.len().saturating_sub(1);
            return None;
        };
        let end = std::mem::take(&mut self.searched) + end;
        let block = self.bytes.split_to(end).freeze();
        self.bytes.advance(2);
        Some(block)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerEvent {
    /// Its number in the journal; none for events that are not stored.
    pub(crate) seq: Option<u64>,
    pub(crate) data: String,
}

impl Events {
    pub(crate) fn new(url: String, response: Response) -> Events {
        Events {
            url,
            response,
            received: Received::default(),
            has_come: false,
        }
    }

    /// The next event; none after the daemon ended the stream.
    ///
    /// # Errors
    /// The connection is lost, or an event is too large.
    pub(crate) async fn next(&mut self) -> Result<Option<ServerEvent>, Error> {
        loop {
            if let Some(block) = self.received.block() {
                let event = parse_event(&block);
                self.has_come |= event.is_some() || block.starts_with(b":");
                match event {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                }
            }
            if self.received.bytes.len() > EVENT_CAP_BYTES {
                return Err(self.wrong("an event that is too large"));
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.received.bytes.extend_from_slice(&bytes),
                Ok(None) => return Ok(None),
                Err(error) => {
                    return Err(Error::Unreachable {
                        url: self.url.clone(),
                        reason: first_cause(&error),
                    });
                }
            }
        }
    }

    /// Whether an event has come, or a comment: the daemon sends one after some time without an event.
    pub(crate) fn has_come(&self) -> bool {
        self.has_come
    }

    pub(crate) fn wrong(&self, reason: &str) -> Error {
        Error::Answer {
            url: self.url.clone(),
            reason: reason.to_owned(),
        }
    }
}

/// Reads an event; none for a comment.
fn parse_event(block: &[u8]) -> Option<ServerEvent> {
    let text = std::str::from_utf8(block).ok()?;
    let field = |name: &str| {
        let mut lines = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        lines
            .next()
            .map(|value| value.strip_prefix(' ').unwrap_or(value))
    };
    Some(ServerEvent {
        seq: field("id").and_then(|id| id.parse().ok()),
        data: field("data")?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use reqwest::Method;

    use super::*;
    use crate::Client;

    #[tokio::test]
    async fn a_stream_that_breaks_off_says_how() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap().is_empty()));
            let head = "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n";
            write!(stream, "{head}data: 1\n\n").unwrap();
        });
        let client = Client::new(url, "token").unwrap();
        let response = client.send(client.request(Method::GET, "/")).await.unwrap();
        let mut events = Events::new(client.url().to_owned(), response);
        assert_eq!(events.next().await.unwrap().unwrap().data, "1");
        let error = events.next().await.unwrap_err();
        assert_eq!(error.code(), unisono_api::Code::Unavailable);
        assert!(!error.to_string().contains("decoding"), "{error}");
    }

    #[test]
    fn a_byte_is_searched_once_in_whatever_pieces_it_comes() {
        let text = b"data: 1\n\n: still\nhere\n\n\n\ndata: 2\n\ndata: 3\n";
        for size in 1..=text.len() {
            let (mut received, mut blocks) = (Received::default(), Vec::new());
            for piece in text.chunks(size) {
                received.bytes.extend_from_slice(piece);
                while let Some(block) = received.block() {
                    blocks.push(block);
                }
                let left = received.bytes.len();
                assert_eq!(received.searched, left.saturating_sub(1), "{size}");
            }
            let expected: [&[u8]; 4] = [b"data: 1", b": still\nhere", b"", b"data: 2"];
            assert_eq!(blocks, expected, "{size}");
            assert_eq!(&*received.bytes, b"data: 3\n");
        }
    }

    #[test]
    fn events_are_read_and_comments_are_none() {
        let found = parse_event(b"event: text\nid: 7\ndata: {\"a\": 1}").unwrap();
        assert_eq!((found.seq, found.data.as_str()), (Some(7), "{\"a\": 1}"));
        assert_eq!(parse_event(b": still here"), None);
    }
}
