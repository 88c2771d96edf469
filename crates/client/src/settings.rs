//! Settings.

use async_trait::async_trait;
use reqwest::Method;
use unisono_api::service::{Result, Settings};
use unisono_api::settings::{Changes, Setting, SettingKeys};

use crate::{Client, resource_path};

#[async_trait]
impl Settings for Client {
    async fn settings(&self) -> Result<Vec<Setting>> {
        self.get("/v1/settings").await
    }

    async fn setting_keys(&self) -> Result<SettingKeys> {
        self.get("/v1/settings/keys").await
    }

    async fn change_settings(&self, changes: &Changes) -> Result<Vec<Setting>> {
        let request = self.with_body(Method::PATCH, "/v1/settings", changes);
        self.json(request).await
    }

    async fn session_settings(&self, session: &str) -> Result<Vec<Setting>> {
        self.get(&resource_path(["sessions", session, "settings"]))
            .await
    }

    async fn change_session_settings(
        &self,
        session: &str,
        changes: &Changes,
    ) -> Result<Vec<Setting>> {
        let path = resource_path(["sessions", session, "settings"]);
        self.json(self.with_body(Method::PATCH, &path, changes))
            .await
    }
}
