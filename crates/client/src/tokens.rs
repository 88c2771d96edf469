//! Tokens of people and programs.

use async_trait::async_trait;
use reqwest::Method;
use unisono_api::service::{Result, Tokens};
use unisono_api::token::{CreatedToken, NewToken, Token};
use unisono_api::{Page, PageQuery};

use crate::{Client, resource_path};

#[async_trait]
impl Tokens for Client {
    async fn tokens(&self, query: &PageQuery) -> Result<Page<Token>> {
        self.get_with("/v1/tokens", query).await
    }

    async fn create_token(&self, new: &NewToken) -> Result<CreatedToken> {
        self.json(self.post("/v1/tokens", new)).await
    }

    async fn revoke_token(&self, name: &str) -> Result<Token> {
        self.json(self.request(Method::DELETE, &resource_path(["tokens", name])))
            .await
    }
}
