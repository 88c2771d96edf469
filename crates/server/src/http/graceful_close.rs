//! Closes a connection so that its last response arrives.
//!
//! A request may be rejected before its body was read. If the socket were closed at once, the
//! client's remaining bytes would cause a reset, and the client could lose the response.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// The time for which a client may continue to send after the last response.
const AT_MOST: Duration = Duration::from_secs(2);
/// The time for which it may send nothing before the connection is closed.
const SILENT: Duration = Duration::from_millis(500);

/// A stream that reads and discards the remaining input when it is shut down.
pub(super) struct Lingering<S> {
    stream: S,
    closing: Option<Closing>,
}

struct Closing {
    silent: Pin<Box<Sleep>>,
    until: Instant,
}

impl<S> Lingering<S> {
    pub(super) fn new(stream: S) -> Lingering<S> {
        Lingering {
            stream,
            closing: None,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.closing.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            this.closing = Some(Closing {
                silent: Box::pin(tokio::time::sleep(SILENT)),
                until: Instant::now() + AT_MOST,
            });
        }
        let Some(closing) = &mut this.closing else {
            return Poll::Ready(Ok(()));
        };
        let mut thrown_away = [0; 8 * 1024];
        loop {
            if closing.silent.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buf = ReadBuf::new(&mut thrown_away);
            let read = ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buf));
            if read.is_err() || buf.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            let next = (Instant::now() + SILENT).min(closing.until);
            closing.silent.as_mut().reset(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_a_client_still_sends_is_read_until_it_ends() {
        let (mut client, server) = tokio::io::duplex(16);
        let mut server = Lingering::new(server);
        server.write_all(b"answer").await.unwrap();
        let began = Instant::now();
        let closed = tokio::spawn(async move {
            server.shutdown().await.unwrap();
            drop(server);
        });
        client.write_all(&[b'x'; 100_000]).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
        drop(client);
        closed.await.unwrap();
        assert!(began.elapsed() < SILENT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_silent_or_never_ends_holds_nothing_up() {
        let (client, server) = tokio::io::duplex(16);
        let began = Instant::now();
        Lingering::new(server).shutdown().await.unwrap();
        assert!(began.elapsed() <= SILENT + Duration::from_millis(1));
        drop(client);

        let (mut client, server) = tokio::io::duplex(16);
        let sends = tokio::spawn(async move {
            while client.write_all(b"more").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        let began = Instant::now();
        let mut server = Lingering::new(server);
        server.shutdown().await.unwrap();
        assert!(began.elapsed() <= AT_MOST + Duration::from_millis(1));
        drop(server);
        sends.await.unwrap();
    }
}
