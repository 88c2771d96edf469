//! The server: a listener on loopback, and what a test asks it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;

use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::cache::CacheSim;
use crate::connection::{Shared, serve};
use crate::recorded::{Keep, Log, Recorded};
use crate::script::Script;

/// A server that speaks the providers' wire formats. It stops, and drops its connections, when it
/// is dropped.
#[derive(Debug)]
pub struct FakeProvider {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Ends the accepting of connections by being dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A server before it is started.
#[derive(Debug, Default)]
pub struct Builder {
    port: u16,
    script: Script,
    counts: Option<Script>,
    cache: Option<CacheSim>,
    keep: Keep,
    pages: BTreeMap<String, String>,
    every_path: bool,
}

impl FakeProvider {
    /// A server that answers everything with a short answer.
    pub async fn start() -> FakeProvider {
        FakeProvider::builder().start().await
    }

    /// A server that plays a script.
    pub async fn play(script: impl Into<Script>) -> FakeProvider {
        FakeProvider::builder().script(script).start().await
    }

    /// A server that plays a script on a thread of its own: see [`Builder::start_on_thread`].
    pub fn play_on_thread(script: impl Into<Script>) -> FakeProvider {
        FakeProvider::builder().script(script).start_on_thread()
    }

    /// A server with more to say about it.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Its address without a path: `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its socket address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Plays another script from the next request on.
    pub fn set_script(&self, script: impl Into<Script>) {
        let mut current = self
            .shared
            .script
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *current = script.into();
    }

    /// What it received so far, in the order in which the requests' headers came in.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.log.kept()
    }

    /// How many requests there were so far; also when none are kept.
    pub fn request_count(&self) -> usize {
        self.shared.log.tallies().begun
    }

    /// Waits until that many requests have been received, whole or as far as they came.
    ///
    /// # Panics
    /// They have not within [`PATIENCE`](crate::PATIENCE).
    pub async fn wait_for(&self, requests: usize) -> Vec<Recorded> {
        let what = format!("{requests} requests");
        let log = &self.shared.log;
        log.wait(&what, |tallies| tallies.received >= requests)
            .await;
        log.kept()
    }

    /// Waits until clients have closed that many connections on which they were still owed a
    /// response or a part of it.
    ///
    /// # Panics
    /// They have not within [`PATIENCE`](crate::PATIENCE).
    pub async fn wait_for_abandoned(&self, connections: usize) {
        let what = format!("{connections} abandoned connections");
        let log = &self.shared.log;
        log.wait(&what, |tallies| tallies.abandoned >= connections)
            .await;
    }

    /// Waits until no response is under way.
    ///
    /// # Panics
    /// One is still after [`PATIENCE`](crate::PATIENCE).
    pub async fn wait_for_quiet(&self) {
        let log = &self.shared.log;
        log.wait("no response under way", |tallies| tallies.in_flight == 0)
            .await;
    }

    /// Connections on which clients were still owed a response when they closed them.
    pub fn abandoned(&self) -> usize {
        self.shared.log.tallies().abandoned
    }

    /// Responses under way, the reading of their requests included.
    pub fn in_flight(&self) -> usize {
        self.shared.log.tallies().in_flight
    }

    /// The most of them at any one time.
    pub fn max_in_flight(&self) -> usize {
        self.shared.log.tallies().max_in_flight
    }

    /// Connections that were accepted.
    pub fn connections(&self) -> u64 {
        self.shared.log.tallies().connections
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It panics only if a connection's task did, which the test has seen.
            let _ = thread.join();
        }
    }
}

impl Builder {
    /// Listens on that port of loopback instead of a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Builder {
        self.port = port;
        self
    }

    /// Plays a script.
    #[must_use]
    pub fn script(mut self, script: impl Into<Script>) -> Builder {
        self.script = script.into();
        self
    }

    /// Answers requests for a number of tokens by a script of their own: with the input of an
    /// answer's usage. Otherwise four bytes of the body are one token.
    #[must_use]
    pub fn counts(mut self, script: impl Into<Script>) -> Builder {
        self.counts = Some(script.into());
        self
    }

    /// Has a prompt cache, which decides what answers say of their input.
    #[must_use]
    pub fn cache(mut self, cache: &CacheSim) -> Builder {
        self.cache = Some(cache.clone());
        self
    }

    /// Keeps that much of requests.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Builder {
        self.keep = keep;
        self
    }

    /// Has a JSON document at a path, for those who look at the server. They are not among its
    /// requests.
    #[must_use]
    pub fn page(mut self, path: &str, document: impl Into<String>) -> Builder {
        self.pages.insert(path.to_owned(), document.into());
        self
    }

    /// Plays the script for every method and path: a server that is no provider.
    #[must_use]
    pub fn every_path(mut self) -> Builder {
        self.every_path = true;
        self
    }

    /// Starts it on the runtime of the caller.
    ///
    /// # Panics
    /// The port cannot be listened on.
    pub async fn start(self) -> FakeProvider {
        let listener = self.listen().expect("a free port of loopback");
        let (provider, accepting) = self.assemble(listener);
        let accepting = accepting.expect("a listener for this runtime");
        tokio::spawn(accepting.run());
        provider
    }

    /// Starts it on a thread and a runtime of its own, for tests that are not async and for
    /// benchmarks of a runtime that is not to do its work.
    ///
    /// # Panics
    /// The port cannot be listened on, or there is no thread to be had.
    pub fn start_on_thread(self) -> FakeProvider {
        let listener = self.listen().expect("a free port of loopback");
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let entered = runtime.enter();
        let (mut provider, accepting) = self.assemble(listener);
        let accepting = accepting.expect("a listener for this runtime");
        drop(entered);
        let thread = std::thread::Builder::new().name("fake-provider".into());
        let thread = thread.spawn(move || runtime.block_on(accepting.run()));
        provider.thread = Some(thread.expect("a thread"));
        provider
    }

    fn listen(&self) -> io::Result<std::net::TcpListener> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", self.port))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    fn assemble(self, listener: std::net::TcpListener) -> (FakeProvider, io::Result<Accepting>) {
        let address = listener
            .local_addr()
            .expect("a bound listener has an address");
        let shared = Arc::new(Shared {
            log: Log::new(self.keep),
            pages: self.pages,
            every_path: self.every_path,
            script: RwLock::new(self.script),
            counts: self.counts,
            cache: self.cache,
        });
        let (stop, stopped) = oneshot::channel();
        let accepting = TcpListener::from_std(listener).map(|listener| Accepting {
            listener,
            shared: Arc::clone(&shared),
            stopped,
        });
        let provider = FakeProvider {
            address,
            shared,
            stop: Some(stop),
            thread: None,
        };
        (provider, accepting)
    }
}

/// Accepts connections until it is told to stop, and then drops them all.
struct Accepting {
    listener: TcpListener,
    shared: Arc<Shared>,
    stopped: oneshot::Receiver<()>,
}

impl Accepting {
    async fn run(mut self) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                _ = &mut self.stopped => return,
                // A closed connection's task is forgotten.
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => {
                    let Ok((socket, _)) = accepted else { continue };
                    // Each write is to be a segment of its own; without it they still arrive.
                    let _ = socket.set_nodelay(true);
                    let number = self.shared.log.connected();
                    connections.spawn(serve(Arc::clone(&self.shared), socket, number));
                }
            }
        }
    }
}
