//! Taking connections: how many, how long a request's head may take, and how they end.

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

use super::lingering::Lingering;
use super::open_files;

/// Maximum number of accepted connections beyond the limit; they get refusals and health checks. A
/// further connection closes the oldest of them, so idle connections cannot block active ones.
const SPARE: usize = 32;
/// How long one of those may take.
const SPARE_WITHIN: Duration = Duration::from_secs(2);
/// Bytes of a request's head, and of what is read ahead.
const HEAD_BYTES: usize = 64 * 1024;
/// Headers of a request.
const HEADERS: usize = 100;
/// A pause after a connection could not be taken: descriptors are used up.
const PAUSE: Duration = Duration::from_millis(100);

/// How many, and how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections at the same time.
    pub(super) connections: usize,
    /// How long a client may take to send the next head or to take the next part of an answer.
    pub(super) stall: Duration,
    /// How long those that are being answered may take once there are to be no more.
    pub(super) drain: Duration,
}

/// Raises the limit of open files, and returns how many of the `wanted` connections it allows; logs
/// a lower number.
pub(super) fn fitting(wanted: usize) -> usize {
    let files = open_files::raise();
    let fit = open_files::fitting(wanted, SPARE, files);
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

/// Answers connections until `until`, then finishes those that are being answered, as long as the
/// limit allows. Those that are too many get one answer, by `full`. All are gone when it returns.
pub(super) async fn serve<T>(
    listener: TcpListener,
    router: Router,
    full: Router,
    limits: Limits,
    until: impl Future<Output = T>,
) -> T {
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut spare = Spare::default();
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
                        spare.add(task);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be taken");
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

/// The connections beyond those that are allowed, the oldest first.
#[derive(Default)]
struct Spare(VecDeque<AbortHandle>);

impl Spare {
    /// Takes another one, in the place of the oldest where there are as many as there may be.
    fn add(&mut self, connection: AbortHandle) {
        self.0.retain(|known| !known.is_finished());
        if self.0.len() >= SPARE
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
    let mut http = http(SPARE_WITHIN);
    http.keep_alive(false);
    http
}

fn connection(
    http: &http1::Builder,
    stream: TcpStream,
    stall: Duration,
    router: Router,
) -> Connection {
    // Only a matter of speed: what is answered is written whole.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(stall));
    let io = TokioIo::new(Lingering::new(Box::pin(stream)));
    http.serve_connection(io, TowerToHyperService::new(router))
}
