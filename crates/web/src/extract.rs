//! Parts of a request; an unreadable part is a problem page.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use unisono_api::{Code, Problem};

use crate::trouble::Trouble;

/// The body: a form of the page.
pub(crate) struct Form<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Form<T> {
    type Rejection = Trouble;

    async fn from_request(request: Request, state: &S) -> Result<Form<T>, Trouble> {
        match axum::Form::from_request(request, state).await {
            Ok(axum::Form(form)) => Ok(Form(form)),
            Err(rejection) => {
                let code = match rejection.status() {
                    StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
                    StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
                    _ => Code::InvalidRequest,
                };
                Err(Problem::new(code, rejection.body_text()).into())
            }
        }
    }
}

/// The parameters in the path of the address.
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Trouble> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(path)) => Ok(Path(path)),
            Err(rejection) => Err(unreadable(rejection.body_text())),
        }
    }
}

/// The parameters after the question mark of the address.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Query<T>, Trouble> {
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(query)) => Ok(Query(query)),
            Err(rejection) => Err(unreadable(rejection.body_text())),
        }
    }
}

fn unreadable(detail: String) -> Trouble {
    Problem::new(Code::InvalidRequest, detail).into()
}
