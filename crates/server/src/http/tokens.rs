//! `/v1/tokens`: the tokens of people and programs.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use unisono_api::service::Tokens as _;
use unisono_api::token::{CreatedToken, NewToken, Scope, Token};
use unisono_api::{Page, PageQuery};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{self, Path, Query};
use super::problem::ApiError;
use crate::audit::Note;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(revoke))
}

/// The tokens by name, without revoked ones and without the daemon's own token.
#[utoipa::path(
    get, path = "/v1/tokens", tag = "tokens",
    params(PageQuery),
    responses((status = 200, description = "A part of the list", body = Page<Token>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Token>>, ApiError> {
    Ok(Json(shared.local.tokens(&query).await?))
}

/// Creates a token. Its secret is in this response only.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "tokens",
    request_body = NewToken,
    responses((status = 201, description = "It is on disk", body = CreatedToken))
)]
async fn create(
    State(shared): State<Arc<Shared>>,
    Extension(note): Extension<Note>,
    extract::Json(new): extract::Json<NewToken>,
) -> Result<(StatusCode, Json<CreatedToken>), ApiError> {
    note.set_object(names(&new.name, new.scope, new.owner.as_deref()));
    let made = shared.local.create_token(&new).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// Revokes a token immediately and permanently: its event streams end, its downloads break off, and
/// browsers that logged in with it are logged out.
#[utoipa::path(
    delete, path = "/v1/tokens/{token}", tag = "tokens",
    params(("token" = String, Path, description = "The token's name")),
    responses((status = 200, description = "It is revoked, and that is on disk", body = Token))
)]
async fn revoke(
    State(shared): State<Arc<Shared>>,
    Extension(note): Extension<Note>,
    Path(name): Path<String>,
) -> Result<Json<Token>, ApiError> {
    let token = shared.local.revoke_token(&name).await?;
    note.set_object(names(&token.name, token.scope, token.owner.as_deref()));
    Ok(Json(token))
}

/// The token in the audit log.
fn names(name: &str, scope: Scope, owner: Option<&str>) -> Vec<(&'static str, String)> {
    let mut names = vec![
        ("token", name.to_owned()),
        ("scope", scope.name().to_owned()),
    ];
    names.extend(owner.map(|owner| ("owner", owner.to_owned())));
    names
}
