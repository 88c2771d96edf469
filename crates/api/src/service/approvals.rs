//! Calls of tools that wait for a person.

use async_trait::async_trait;

use super::Result;
use crate::Page;
use crate::approval::{Approval, ApprovalQuery, Decide, Decided};

/// Calls of tools that wait for a person.
#[async_trait]
pub trait Approvals {
    /// The calls that wait, the oldest first. A call that was being made when its program was
    /// killed is in doubt.
    ///
    /// # Errors
    /// `not_found`: the session.
    async fn approvals(&self, query: &ApprovalQuery) -> Result<Page<Approval>>;

    /// Decides about a call, in whichever session it waits. On disk when it returns.
    ///
    /// # Errors
    /// `conflict`: it is decided already, or the decision does not fit it; `not_found`: no such call
    /// waits; `invalid_request`: the decision lacks its text.
    async fn decide(&self, call: &str, decide: &Decide) -> Result<Decided>;
}
