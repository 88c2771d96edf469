//! `POST /login`: a person enters a link, its code, or a token.

use std::sync::Arc;

use axum::Form;
use axum::body::{Body, to_bytes};
use axum::extract::{Extension, FromRequest as _, Request, State};
use axum::http::header;
use axum::response::Response;
use serde::Deserialize;
use unisono_api::Code;

use super::super::Shared;
use super::super::people;
use super::super::problem::ApiError;
use super::{NewLogin, Proof, fail, log_in, refuse, welcome};
use crate::audit::Note;

const MAX_BYTES: usize = 4 * 1024;
/// Why a login is refused.
const INVALID: &str =
    "What you entered is neither an unused login link of the last hour nor a valid token.";

/// Maximum bytes of the address in the form of a refused login, so that the form stays small.
const MAX_PAGE: usize = 1024;

#[derive(Deserialize)]
struct Entered {
    secret: String,
    /// The page to lead to, after a refused login: the form is not at its address then.
    page: Option<String>,
}

/// Logs a browser in by its form. The form must come from a page of this server.
pub(in crate::http) async fn submit(
    State(shared): State<Arc<Shared>>,
    Extension(note): Extension<Note>,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    let entered = match read(request).await {
        Ok(entered) => entered,
        Err(error) => return fail(&headers, error),
    };
    let page = entered.page.filter(|page| unisono_web::is_opened(page));
    let page = page.or_else(|| unisono_web::opened_page(&headers));
    let page = page.unwrap_or_else(|| "/".to_owned());
    let _sharing = shared.logins.sharing.lock().await;
    match enter(&shared, entered.secret.trim()).await {
        Ok(Some(new)) => welcome(&shared, &note, &headers, (new, page.as_str())).await,
        Ok(None) => {
            let page = Some(page.as_str()).filter(|page| page.len() <= MAX_PAGE);
            refuse(&headers, INVALID, page)
        }
        Err(error) => fail(&headers, error),
    }
}

/// Reads the form of a request. The guard has refused other origins.
async fn read(request: Request) -> Result<Entered, ApiError> {
    if !request.headers().contains_key(header::ORIGIN) {
        let detail = "the request does not say which page it is from";
        return Err(ApiError::new(Code::Forbidden, detail));
    }
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, MAX_BYTES).await.map_err(|_| {
        let detail = format!("the form is larger than {MAX_BYTES} bytes, or it did not arrive");
        ApiError::new(Code::TooLarge, detail)
    })?;
    let request = Request::from_parts(parts, Body::from(bytes));
    let form = Form::<Entered>::from_request(request, &()).await;
    let Form(entered) = form.map_err(|rejection| {
        // The text of the rejection could quote the secret.
        let detail = format!("the form is invalid ({})", rejection.status());
        ApiError::new(Code::InvalidRequest, detail)
    })?;
    Ok(entered)
}

/// Logs a browser in by a link, its code, or a token; none if it is neither.
async fn enter(shared: &Shared, secret: &str) -> Result<Option<NewLogin>, ApiError> {
    let code = Proof::Code(code(secret).to_owned());
    if let Some(new) = log_in(shared, &code).await? {
        return Ok(Some(new));
    }
    match people::login_with(shared, secret).await {
        Some(login) => log_in(shared, &Proof::Token(login)).await,
        None => Ok(None),
    }
}

/// The code of a link, or the text as a code.
fn code(entered: &str) -> &str {
    let code = entered.split_once("code=").map(|(_, code)| code);
    let code = code.unwrap_or(entered);
    code.split(['&', '#']).next().unwrap_or(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_as_its_code() {
        for (entered, expected) in [
            ("http://127.0.0.1:7/login?code=ab12", "ab12"),
            ("/login?x=y&code=ab12&z=1#top", "ab12"),
            ("code=ab12", "ab12"),
            ("ab12", "ab12"),
            ("", ""),
        ] {
            assert_eq!(code(entered), expected, "{entered}");
        }
    }
}
