//! What is set.

use async_trait::async_trait;

use super::Result;
use crate::settings::{Changes, Setting, SettingKeys};

/// What is set: for all sessions, and for one.
#[async_trait]
pub trait Settings {
    /// Every setting with its value and where it was written.
    async fn settings(&self) -> Result<Vec<Setting>>;

    /// The keys that can be changed while the daemon runs.
    async fn setting_keys(&self) -> Result<SettingKeys>;

    /// Changes settings for turns that begin later, all or none; answers what is set then.
    ///
    /// # Errors
    /// `refused`: one cannot be changed, or a value is wrong.
    async fn change_settings(&self, changes: &Changes) -> Result<Vec<Setting>>;

    /// Every setting as it counts for turns of a session that begin now.
    ///
    /// # Errors
    /// `not_found`; `refused`: with its settings, something is wrong by now.
    async fn session_settings(&self, session: &str) -> Result<Vec<Setting>>;

    /// Changes settings of a session for turns that begin later, all or none; answers what is set
    /// for it then.
    ///
    /// # Errors
    /// `not_found`; `refused`: one cannot be changed, or a value is wrong.
    async fn change_session_settings(
        &self,
        session: &str,
        changes: &Changes,
    ) -> Result<Vec<Setting>>;
}
