//! Tokens of people and programs.

use async_trait::async_trait;

use super::Result;
use crate::token::{CreatedToken, NewToken, Token};
use crate::{Page, PageQuery};

/// Tokens of people and programs.
#[async_trait]
pub trait Tokens {
    /// The tokens that are not revoked, by name.
    ///
    /// # Errors
    /// The store fails.
    async fn tokens(&self, query: &PageQuery) -> Result<Page<Token>>;

    /// Creates a token. Its secret is returned once, and only its digest is stored. It is on disk when
    /// this returns.
    ///
    /// # Errors
    /// `invalid_request`: a name has other characters than are allowed; `conflict`: a token has that
    /// name; `refused`: there are as many as there may be.
    async fn create_token(&self, new: &NewToken) -> Result<CreatedToken>;

    /// Revokes a token, at once and for good. Its event streams end, its downloads break off, and
    /// browsers that logged in with it are logged out.
    ///
    /// # Errors
    /// `not_found`.
    async fn revoke_token(&self, name: &str) -> Result<Token>;
}
