//! Settings of all sessions and of one session.

use async_trait::async_trait;

use super::Result;
use crate::settings::{Changes, Setting, SettingKeys};

/// Settings of all sessions and of one session.
#[async_trait]
pub trait Settings {
    /// Every setting with its value and its origin.
    async fn settings(&self) -> Result<Vec<Setting>>;

    /// The keys that can be changed while the daemon runs.
    async fn setting_keys(&self) -> Result<SettingKeys>;

    /// Changes settings for turns that begin later, all or none; returns the new settings.
    ///
    /// # Errors
    /// `refused`: a setting cannot be changed, or a value is wrong.
    async fn change_settings(&self, changes: &Changes) -> Result<Vec<Setting>>;

    /// Every setting for turns of a session that begin now.
    ///
    /// # Errors
    /// `not_found`; `refused`: the settings of the session are no longer valid.
    async fn session_settings(&self, session: &str) -> Result<Vec<Setting>>;

    /// Changes settings of a session for turns that begin later, all or none; returns its new
    /// settings.
    ///
    /// # Errors
    /// `not_found`; `refused`: a setting cannot be changed, or a value is wrong.
    async fn change_session_settings(
        &self,
        session: &str,
        changes: &Changes,
    ) -> Result<Vec<Setting>>;
}
