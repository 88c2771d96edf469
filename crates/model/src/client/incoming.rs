//! A response that arrives piece by piece: the timeout of each piece, and the maximum size.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Response;
use tokio::time::{Instant, timeout, timeout_at};

use super::transport;
use crate::dialect::Failure;
use crate::language::{Class, Stage};
use crate::provider::Settings;

/// The maximum time and bytes for reading after a reply's end, so that its connection can be
/// reused.
const REST: (Duration, usize) = (Duration::from_secs(1), 64 * 1024);

/// A response that is being received. Dropping it before its end drops the connection.
pub(super) struct Incoming<'s> {
    settings: &'s Settings,
    response: Response,
    /// The deadline of the first byte; `None` after it arrived.
    first_byte: Option<Instant>,
    /// A piece that was received and not read yet.
    ahead: Option<Bytes>,
    read: usize,
    ended: bool,
}

impl<'s> Incoming<'s> {
    pub(super) fn new(
        settings: &'s Settings,
        response: Response,
        first_byte: Instant,
    ) -> Incoming<'s> {
        Incoming {
            settings,
            response,
            first_byte: Some(first_byte),
            ahead: None,
            read: 0,
            ended: false,
        }
    }

    pub(super) fn response(&self) -> &Response {
        &self.response
    }

    /// The first byte of the body that is not white space, which stays to be read; `None` if there is
    /// none. White space before it is dropped, because it means nothing in events and in JSON. If the
    /// announced length of the body is above the cap, nothing is read.
    pub(super) async fn peek(&mut self) -> Result<Option<u8>, Failure> {
        self.check_announced()?;
        while let Some(piece) = self.receive().await? {
            let first = piece.iter().find(|byte| !byte.is_ascii_whitespace());
            if let Some(&first) = first {
                self.ahead = Some(piece);
                return Ok(Some(first));
            }
        }
        Ok(None)
    }

    /// The next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        match self.ahead.take() {
            Some(piece) => Ok(Some(piece)),
            None => self.receive().await,
        }
    }

    async fn receive(&mut self) -> Result<Option<Bytes>, Failure> {
        if self.ended {
            return Ok(None);
        }
        let timeouts = &self.settings.timeouts;
        let (until, stage) = match self.first_byte {
            Some(first_byte) => (first_byte, Stage::FirstByte),
            None => (Instant::now() + timeouts.idle, Stage::Idle),
        };
        match timeout_at(until, self.response.chunk()).await {
            Err(_) => Err(transport::timeout_failure(stage, timeouts)),
            Ok(Err(error)) => Err(transport::connection_failure(&error, self.settings)),
            Ok(Ok(None)) => {
                self.ended = true;
                Ok(None)
            }
            Ok(Ok(Some(piece))) => {
                self.first_byte = None;
                self.read += piece.len();
                if self.read > self.settings.caps.response {
                    return Err(self.too_large());
                }
                Ok(Some(piece))
            }
        }
    }

    /// The whole body. If its announced length is above the cap, nothing is read.
    pub(super) async fn read_all(&mut self) -> Result<Vec<u8>, Failure> {
        let announced = self.check_announced()?;
        let mut body = Vec::with_capacity(announced as usize);
        while let Some(piece) = self.next().await? {
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// Reads the rest after the end of a reply in the background: a connection can be reused only
    /// if its response was read to the end.
    pub(super) fn drain_in_background(self) {
        if self.ended {
            return;
        }
        let mut response = self.response;
        let (time, mut most) = REST;
        tokio::spawn(timeout(time, async move {
            while let Ok(Some(piece)) = response.chunk().await {
                most = most.saturating_sub(piece.len());
                if most == 0 {
                    break;
                }
            }
        }));
    }

    /// The announced length of the rest of the body; zero if there is none.
    fn check_announced(&self) -> Result<u64, Failure> {
        let announced = self.response.content_length().unwrap_or(0);
        if announced > self.settings.caps.response as u64 {
            return Err(self.too_large());
        }
        Ok(announced)
    }

    fn too_large(&self) -> Failure {
        let cap = self.settings.caps.response;
        Failure::new(
            Class::TooLarge,
            format!("the reply is larger than {cap} bytes, the limit for a reply"),
        )
    }
}
