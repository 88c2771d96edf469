//! Settings.

use async_trait::async_trait;
use reqwest::{Method, RequestBuilder, header};
use unisono_api::service::{Result, Settings};
use unisono_api::settings::{Changes, Setting, SettingKeys};

use crate::Client;

#[async_trait]
impl Settings for Client {
    async fn settings(&self) -> Result<Vec<Setting>> {
        self.json(self.request(Method::GET, "/v1/settings")).await
    }

    async fn setting_keys(&self) -> Result<SettingKeys> {
        self.json(self.request(Method::GET, "/v1/settings/keys"))
            .await
    }

    async fn change_settings(&self, changes: &Changes) -> Result<Vec<Setting>> {
        self.json(self.patch("/v1/settings", changes)).await
    }

    async fn session_settings(&self, session: &str) -> Result<Vec<Setting>> {
        let path = format!("/v1/sessions/{session}/settings");
        self.json(self.request(Method::GET, &path)).await
    }

    async fn change_session_settings(
        &self,
        session: &str,
        changes: &Changes,
    ) -> Result<Vec<Setting>> {
        let path = format!("/v1/sessions/{session}/settings");
        self.json(self.patch(&path, changes)).await
    }
}

impl Client {
    fn patch(&self, path: &str, changes: &Changes) -> RequestBuilder {
        // Serialising it does not fail.
        let text = serde_json::to_string(changes).unwrap_or_default();
        let request = self.request(Method::PATCH, path);
        request
            .header(header::CONTENT_TYPE, "application/json")
            .body(text)
    }
}
