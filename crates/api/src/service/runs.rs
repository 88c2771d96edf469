//! Runs: their tasks, outcomes and requests.

use async_trait::async_trait;

use super::Result;
use crate::Page;
use crate::run::{
    ListedRun, LookupQuery, LookupResult, Replay, RunDetail, RunQuery, Why, WhyQuery,
};

/// Runs: their tasks, outcomes and requests.
#[async_trait]
pub trait Runs {
    /// The runs of a session, those of its newest turn first; or the runs of all sessions, the
    /// newest session first. A page may have fewer items than requested and still have `next`.
    ///
    /// # Errors
    /// `not_found`: the session or its turn; `invalid_request`: the state does not exist.
    async fn runs(&self, query: &RunQuery) -> Result<Page<ListedRun>>;

    /// A run with its steps.
    ///
    /// # Errors
    /// `not_found`.
    async fn run(&self, session: &str, run: &str) -> Result<RunDetail>;

    /// The exact bytes of a run's requests, the part shared with a sibling, and the chain of
    /// causes; rebuilt from the journal, with every digest compared.
    ///
    /// # Errors
    /// `not_found`: the run, its request of that number, or the run to compare with.
    async fn why(&self, session: &str, run: &str, query: &WhyQuery) -> Result<Why>;

    /// The requests of a turn, rebuilt from the journal alone, with every digest compared. No model
    /// is called.
    ///
    /// # Errors
    /// `not_found`.
    async fn replay(&self, session: &str, turn: &str) -> Result<Replay>;

    /// The runs and turns to which a name may refer.
    ///
    /// # Errors
    /// `not_found`: the session; `refused`: the store has more sessions than the search limit.
    async fn lookup(&self, query: &LookupQuery) -> Result<LookupResult>;
}
