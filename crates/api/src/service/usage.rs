//! What model calls used.

use async_trait::async_trait;

use super::Result;
use crate::usage::Usage as Used;

/// What model calls used.
#[async_trait]
pub trait Usage {
    /// What a session used, or all of them, by agent and model.
    ///
    /// # Errors
    /// `not_found`.
    async fn usage(&self, session: Option<&str>) -> Result<Used>;
}
