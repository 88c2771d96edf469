//! Taking connections: how many, how long a request's head may take, and how they end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How long the head of a request may take, also that of the next one on the same connection.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
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
    /// How long those that are being answered may take once there are to be no more.
    pub(super) drain: Duration,
}

/// Answers connections until `until`, then finishes those that are being answered, as long as the
/// limit allows. All are gone when it returns.
pub(super) async fn serve<T>(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    until: impl Future<Output = T>,
) -> T {
    let room = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let mut open = JoinSet::new();
    tokio::pin!(until);
    let ended = loop {
        let next = async {
            // Never closed.
            let place = room.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            ended = &mut until => break ended,
            Some(_) = open.join_next() => {}
            (place, taken) = next => match taken {
                Ok((stream, _)) => {
                    let answering = graceful.watch(connection(stream, router.clone()));
                    open.spawn(async move {
                        let _place = place;
                        if let Err(error) = answering.await {
                            tracing::debug!(%error, "a connection ended early");
                        }
                    });
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

type Connection = http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>>;

fn connection(stream: TcpStream, router: Router) -> Connection {
    // Only a matter of speed: what is answered is written whole.
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS);
    http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
}
