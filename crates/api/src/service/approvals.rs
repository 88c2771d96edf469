//! Tool calls that wait for a person.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use async_trait::async_trait;

use super::Result;
use crate::Page;
use crate::approval::{Approval, ApprovalQuery, Decide, DecisionResult};

/// Tool calls that wait for a person.
#[async_trait]
pub trait Approvals {
    /// The waiting calls, the oldest first. A call in progress when its program was killed is in
    /// doubt. Without a session only sessions with waiting calls are opened. Calls of sessions that
    /// another program works on may be listed some seconds late.
    ///
    /// # Errors
    /// `not_found`: the session.
    async fn approvals(&self, query: &ApprovalQuery) -> Result<Page<Approval>>;

    /// The number of waiting calls of all sessions, at most `limit`. It takes no longer with more
    /// sessions. Calls of sessions that another program works on may be counted some seconds late.
    ///
    /// # Errors
    /// `unavailable`: the sessions with waiting calls do not respond in time.
    async fn count_approvals(&self, limit: NonZeroUsize) -> Result<usize>;

    /// The number of waiting calls of each of these sessions that has some, by session. Like
    /// [`Approvals::count_approvals`] it opens no session.
    ///
    /// # Errors
    /// `unavailable`: the sessions with waiting calls do not respond in time.
    async fn count_approvals_of(&self, sessions: &[String]) -> Result<BTreeMap<String, usize>>;

    /// Decides a waiting call of any session. The decision is on disk when this returns.
    ///
    /// # Errors
    /// `conflict`: the call is already decided, or the decision does not apply to it; `not_found`:
    /// no such call waits; `invalid_request`: the decision lacks its text.
    async fn decide(&self, call: &str, decide: &Decide) -> Result<DecisionResult>;
}
