//! A server that is sent what happens: callbacks, traces, questions of hooks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};

use unisono_fake_provider::{Act, FakeProvider, Recorded, Script};

use crate::support::PATIENCE;

pub(crate) struct Receiving {
    pub(crate) url: String,
    received: Receiver<Recorded>,
    _server: FakeProvider,
}

impl Receiving {
    /// `answer`: how the request of that number, from 0, is answered.
    pub(crate) fn start(answer: impl Fn(usize) -> Act + Send + Sync + 'static) -> Receiving {
        let (send, received) = mpsc::channel();
        let count = AtomicUsize::new(0);
        let script = Script::by(move |request| {
            send.send(request.clone()).ok();
            answer(count.fetch_add(1, Ordering::SeqCst))
        });
        let server = FakeProvider::builder().script(script).every_path();
        let server = server.start_on_thread();
        Receiving {
            url: server.url(),
            received,
            _server: server,
        }
    }

    /// The next complete request.
    #[track_caller]
    pub(crate) fn next(&self) -> Recorded {
        self.received.recv_timeout(PATIENCE).unwrap()
    }

    /// The requests so far that nobody has taken.
    pub(crate) fn rest(&self) -> Vec<Recorded> {
        self.received.try_iter().collect()
    }
}
