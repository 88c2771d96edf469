//! Tool calls that wait for a person.

use async_trait::async_trait;

use super::Result;
use crate::Page;
use crate::approval::{Approval, ApprovalQuery, Decide, DecisionResult};

/// Tool calls that wait for a person.
#[async_trait]
pub trait Approvals {
    /// The waiting calls, the oldest first. A call in progress when its program was killed is in
    /// doubt.
    ///
    /// # Errors
    /// `not_found`: the session.
    async fn approvals(&self, query: &ApprovalQuery) -> Result<Page<Approval>>;

    /// Decides a waiting call of any session. The decision is on disk when this returns.
    ///
    /// # Errors
    /// `conflict`: the call is already decided, or the decision does not apply to it; `not_found`:
    /// no such call waits; `invalid_request`: the decision lacks its text.
    async fn decide(&self, call: &str, decide: &Decide) -> Result<DecisionResult>;
}
