//! Server-sent events.

use bytes::{Buf as _, Bytes, BytesMut};
use reqwest::Response;

use crate::Error;

/// Maximum size of an event, in bytes.
const EVENT_CAP_BYTES: usize = 16 << 20;

/// Server-sent events.
#[derive(Debug)]
pub struct Events {
    url: String,
    response: Response,
    buffer: BytesMut,
    has_come: bool,
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
            buffer: BytesMut::new(),
            has_come: false,
        }
    }

    /// The next event; none after the daemon ended the stream.
    ///
    /// # Errors
    /// The connection is lost, or an event is too large.
    pub(crate) async fn next(&mut self) -> Result<Option<ServerEvent>, Error> {
        loop {
            if let Some(block) = self.block() {
                let event = parse_event(&block);
                self.has_come |= event.is_some() || block.starts_with(b":");
                match event {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                }
            }
            if self.buffer.len() > EVENT_CAP_BYTES {
                return Err(self.wrong("an event that is too large"));
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.buffer.extend_from_slice(&bytes),
                Ok(None) => return Ok(None),
                Err(error) => {
                    return Err(Error::Unreachable {
                        url: self.url.clone(),
                        reason: error.to_string(),
                    });
                }
            }
        }
    }

    /// Whether an event has come, or a comment: the daemon sends one after some time without an event.
    pub(crate) fn has_come(&self) -> bool {
        self.has_come
    }

    /// The text up to the next empty line.
    fn block(&mut self) -> Option<Bytes> {
        let end = self.buffer.windows(2).position(|pair| pair == b"\n\n")?;
        let block = self.buffer.split_to(end).freeze();
        self.buffer.advance(2);
        Some(block)
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
    use super::*;

    #[test]
    fn events_are_read_and_comments_are_none() {
        let found = parse_event(b"event: text\nid: 7\ndata: {\"a\": 1}").unwrap();
        assert_eq!((found.seq, found.data.as_str()), (Some(7), "{\"a\": 1}"));
        assert_eq!(parse_event(b": still here"), None);
    }
}
