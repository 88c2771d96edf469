//! What agents were given to do, what became of it, and what they were sent.

use async_trait::async_trait;

use super::Result;
use crate::Page;
use crate::run::{ListedRun, LookupQuery, Matches, Replay, RunDetail, RunQuery, Why, WhyQuery};

/// What agents were given to do, what became of it, and what they were sent.
#[async_trait]
pub trait Runs {
    /// The runs of a session, those of its newest turn first; or those of all sessions, the newest
    /// session first. A part may have fewer than asked for, and still `next`.
    ///
    /// # Errors
    /// `not_found`: the session or its turn; `invalid_request`: there is no such state.
    async fn runs(&self, query: &RunQuery) -> Result<Page<ListedRun>>;

    /// A run with its steps.
    ///
    /// # Errors
    /// `not_found`.
    async fn run(&self, session: &str, run: &str) -> Result<RunDetail>;

    /// The exact bytes that a run's agent was sent, what they share with a sibling's, and the chain
    /// of causes; rebuilt from the journal, with every digest compared.
    ///
    /// # Errors
    /// `not_found`: the run, its request of that number, or the run to compare with.
    async fn why(&self, session: &str, run: &str, query: &WhyQuery) -> Result<Why>;

    /// A turn's requests once more, from the journal and nothing else: every digest compared with
    /// the recorded one, nobody asked.
    ///
    /// # Errors
    /// `not_found`.
    async fn replay(&self, session: &str, turn: &str) -> Result<Replay>;

    /// The runs and turns that a person may mean by a name.
    ///
    /// # Errors
    /// `not_found`: the session; `refused`: the store has more sessions than are looked through.
    async fn lookup(&self, query: &LookupQuery) -> Result<Matches>;
}
