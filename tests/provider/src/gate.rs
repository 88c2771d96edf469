//! Gates: a test decides when an answer goes on, so that no test has to sleep.

use tokio::sync::watch;

use crate::patience::patiently;

/// A gate that answers wait at until a test opens it. Clones are the same gate. It stays open.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<State>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    open: bool,
    reached: usize,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Gate {
        Gate(watch::Sender::new(State::default()))
    }

    /// Opens it for all that wait and all that will come.
    pub fn open(&self) {
        self.0.send_modify(|state| state.open = true);
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.0.borrow().open
    }

    /// Waits until that many answers have come to the gate, open or not.
    ///
    /// # Panics
    /// They have not within [`PATIENCE`](crate::PATIENCE).
    pub async fn reached(&self, answers: usize) {
        let mut watched = self.0.subscribe();
        let come = watched.wait_for(|state| state.reached >= answers);
        let what = || {
            let reached = self.0.borrow().reached;
            format!("{answers} answers at a gate; {reached} came")
        };
        patiently(what, come)
            .await
            .expect("the gate itself is held");
    }

    /// Passes when it is open.
    pub(crate) async fn pass(&self) {
        self.0.send_modify(|state| state.reached += 1);
        let mut watched = self.0.subscribe();
        watched
            .wait_for(|state| state.open)
            .await
            .expect("the gate itself is held");
    }
}

impl Default for Gate {
    fn default() -> Gate {
        Gate::new()
    }
}
