//! What the server received, byte for byte, and waiting for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use crate::dialect::Endpoint;
use crate::patience::patiently;

/// One request as it was received. Cheap to clone in its body only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Its method.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// What follows the question mark; empty without one.
    pub query: String,
    /// Its headers in the order they came in, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body, without the framing; as much of it as came.
    pub body: Bytes,
    /// The connection it came on, from 0 in the order in which they were accepted.
    pub connection: u64,
    /// Whether all of it came and was read.
    pub complete: bool,
}

impl Recorded {
    /// The first header of that name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// It is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the recorded body is JSON")
    }

    /// What it asks for; none: no provider has such a path.
    pub fn endpoint(&self) -> Option<Endpoint> {
        Endpoint::of(&self.path, &self.query, &self.body)
    }
}

/// What is kept of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// All of them.
    #[default]
    Everything,
    /// All but their bodies.
    Heads,
    /// Nothing but their number.
    Nothing,
}

/// The requests so far, in the order in which their headers came in.
#[derive(Debug)]
pub(crate) struct Log {
    keep: Keep,
    requests: Mutex<Vec<Recorded>>,
    tallies: watch::Sender<Tallies>,
}

/// Numbers that grow with the traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tallies {
    /// Connections that were accepted.
    pub(crate) connections: u64,
    /// Requests whose headers came in.
    pub(crate) begun: usize,
    /// Requests that came in as far as they will.
    pub(crate) received: usize,
    /// Responses that are under way, the reading of their requests included.
    pub(crate) in_flight: usize,
    /// The most of them at once.
    pub(crate) max_in_flight: usize,
    /// Connections that the client closed before it had a whole response.
    pub(crate) abandoned: usize,
}

/// The place of a request in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) usize);

impl Log {
    pub(crate) fn new(keep: Keep) -> Log {
        Log {
            keep,
            requests: Mutex::default(),
            tallies: watch::Sender::new(Tallies::default()),
        }
    }

    /// A connection was accepted. Returns its number.
    pub(crate) fn connected(&self) -> u64 {
        let mut number = 0;
        self.tallies.send_modify(|tallies| {
            number = tallies.connections;
            tallies.connections += 1;
        });
        number
    }

    /// A request's headers came in.
    pub(crate) fn begun(&self, request: &Recorded) -> Number {
        let mut requests = self.requests();
        if self.keep != Keep::Nothing {
            requests.push(request.clone());
        }
        let mut number = 0;
        self.tallies.send_modify(|tallies| {
            number = tallies.begun;
            tallies.begun += 1;
            tallies.in_flight += 1;
            tallies.max_in_flight = tallies.max_in_flight.max(tallies.in_flight);
        });
        Number(number)
    }

    /// A request came in as far as it will.
    pub(crate) fn received(&self, number: Number, request: &Recorded) {
        if let Some(kept) = self.requests().get_mut(number.0) {
            kept.complete = request.complete;
            if self.keep == Keep::Everything {
                kept.body = request.body.clone();
            }
        }
        self.tallies.send_modify(|tallies| tallies.received += 1);
    }

    /// A response has ended, one way or another.
    pub(crate) fn ended(&self) {
        self.tallies.send_modify(|tallies| tallies.in_flight -= 1);
    }

    /// A client closed its connection before it had a whole response.
    pub(crate) fn abandoned(&self) {
        self.tallies.send_modify(|tallies| tallies.abandoned += 1);
    }

    pub(crate) fn kept(&self) -> Vec<Recorded> {
        self.requests().clone()
    }

    pub(crate) fn tallies(&self) -> Tallies {
        *self.tallies.borrow()
    }

    /// Waits until the numbers are as `reached` wants them.
    pub(crate) async fn wait(&self, what: &str, reached: impl Fn(&Tallies) -> bool) {
        let mut watched = self.tallies.subscribe();
        let what = || format!("{what}; so far: {:?}", self.tallies());
        let settled = watched.wait_for(|tallies| reached(tallies));
        patiently(what, settled)
            .await
            .expect("the log itself is held");
    }

    fn requests(&self) -> MutexGuard<'_, Vec<Recorded>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
