//! A request body of several pieces that are sent one after the other, never joined or copied.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The pieces that remain to be sent. The length is known, so it is sent as `Content-Length` and
/// not in chunks.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    pieces: [Bytes; 4],
    next: usize,
}

impl Pieces {
    pub(super) fn new(pieces: [Bytes; 4]) -> Pieces {
        Pieces { pieces, next: 0 }
    }

    fn left(&self) -> impl Iterator<Item = &Bytes> {
        let left = self.pieces.get(self.next..).unwrap_or_default();
        left.iter().filter(|piece| !piece.is_empty())
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        while let Some(piece) = self.pieces.get(self.next).cloned() {
            self.next += 1;
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.left().next().is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left().map(|piece| piece.len() as u64).sum())
    }
}

#[cfg(test)]
mod tests;
