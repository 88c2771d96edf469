//! Accepts connections, limits their number and the time of a request's head, and closes them.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio_io_timeout::TimeoutStream;

use super::graceful_close::Lingering;
use super::open_files;

/// Maximum number of accepted connections beyond the limit; they get refusals and health checks. A
/// further connection closes the oldest of them, so idle connections cannot block active ones.
const EXCESS: usize = 32;
/// The time limit of such a connection.
const EXCESS_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum bytes of a request's head, and of the read-ahead buffer.
const HEAD_BYTES: usize = 64 * 1024;
/// Headers of a request.
const HEADERS: usize = 100;
/// A pause after a connection could not be taken: descriptors are used up.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections at the same time.
    pub(super) connections: usize,
    /// The time in which a client must send the next head or receive the next part of an answer.
    pub(super) stall: Duration,
    /// The time for current requests after the server stops accepting connections.
    pub(super) drain: Duration,
}

/// Raises the limit of open files, and returns how many of the `wanted` connections it allows; logs
/// a lower number.
pub(super) fn max_connections(wanted: usize) -> usize {
    let files = open_files::raise();
    let fit = open_files::max_connections(wanted, EXCESS, files);
    if fit < wanted {
        tracing::warn!(
            connections = fit,
            wanted,
            open_files = files,
            "the limit of open files allows fewer connections than `server.connections`; raise \
             it (ulimit -n, LimitNOFILE=)"
        );
    }
    fit
}

/// Serves connections until `until` completes, then finishes current requests within the drain
/// time. Connections over the limit get one answer from `full`. All connections are closed when it
/// returns.
pub(super) async fn serve<T>(
    listener: TcpListener,
    router: Router,
    full: Router,
    limits: Limits,
    until: impl Future<Output = T>,
) -> T {
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut excess = ExcessConnections::default();
    let graceful = GracefulShutdown::new();
    let mut open = JoinSet::new();
    tokio::pin!(until);
    let ended = loop {
        tokio::select! {
            ended = &mut until => break ended,
            Some(_) = open.join_next() => {}
            taken = listener.accept() => match taken {
                Ok((stream, _)) => {
                    let place = room.clone().try_acquire_owned().ok();
                    let beyond = place.is_none();
                    let (http, router) = match beyond {
                        false => (http(limits.stall), &router),
                        true => (spare_http(), &full),
                    };
                    let answering = connection(&http, stream, limits.stall, router.clone());
                    let answering = graceful.watch(answering);
                    let task = open.spawn(async move {
                        let _place = place;
                        if let Err(error) = answering.await {
                            tracing::debug!(%error, "a connection ended early");
                        }
                    });
                    if beyond {
                        excess.add(task);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    };
    drop(listener);
    if tokio::time::timeout(limits.drain, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!(left = open.len(), "requests were not finished in time");
    }
    open.shutdown().await;
    ended
}

/// The connections beyond the limit, oldest first.
#[derive(Default)]
struct ExcessConnections(VecDeque<AbortHandle>);

impl ExcessConnections {
    /// Adds a connection; at the maximum it closes the oldest one.
    fn add(&mut self, connection: AbortHandle) {
        self.0.retain(|known| !known.is_finished());
        if self.0.len() >= EXCESS
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
        }
        self.0.push_back(connection);
    }
}

type Connection = http1::Connection<
    TokioIo<Lingering<Pin<Box<TimeoutStream<TcpStream>>>>>,
    TowerToHyperService<Router>,
>;

fn http(head_within: Duration) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(head_within)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS);
    http
}

/// One answer, soon.
fn spare_http() -> http1::Builder {
    let mut http = http(EXCESS_TIMEOUT);
    http.keep_alive(false);
    http
}

fn connection(
    http: &http1::Builder,
    stream: TcpStream,
    stall: Duration,
    router: Router,
) -> Connection {
    // This only affects speed: an answer is written as a whole.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(stall));
    let io = TokioIo::new(Lingering::new(Box::pin(stream)));
    http.serve_connection(io, TowerToHyperService::new(router))
}
