//! Parts of a request; an unreadable part is a problem page.

use axum::body::Bytes;
use axum::extract::multipart::{Multipart, MultipartError};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;
use unisono_api::{Code, Problem};

use crate::error::PageError;

/// The body: a form of the page.
pub(crate) struct Form<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Form<T> {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> Result<Form<T>, PageError> {
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

/// The body: a form of the page that can have files.
#[derive(Debug, Default)]
pub(crate) struct FormWithFiles {
    /// Its texts by the names of their fields.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) files: Vec<FormFile>,
}

#[derive(Debug, Default)]
pub(crate) struct FormFile {
    pub(crate) filename: String,
    pub(crate) bytes: Bytes,
}

/// Maximum number of files in a form, and of other fields.
const MAX_FILES: usize = 64;
const MAX_FIELDS: usize = 1_000;

impl<S: Send + Sync> FromRequest<S> for FormWithFiles {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> Result<FormWithFiles, PageError> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("multipart/form-data") {
            let Form(fields) = Form::<Vec<(String, String)>>::from_request(request, state).await?;
            if fields.len() > MAX_FIELDS {
                return Err(too_many_fields());
            }
            let files = Vec::new();
            return Ok(FormWithFiles { fields, files });
        }
        let parts = Multipart::from_request(request, state).await;
        let mut parts = parts.map_err(|rejection| unreadable(rejection.body_text()))?;
        let mut form = FormWithFiles::default();
        while let Some(part) = parts.next_field().await.map_err(unreadable_part)? {
            let name = part.name().unwrap_or_default().to_owned();
            let Some(filename) = part.file_name().map(decoded_name) else {
                let text = part.text().await.map_err(unreadable_part)?;
                if form.fields.len() == MAX_FIELDS {
                    return Err(too_many_fields());
                }
                form.fields.push((name, text));
                continue;
            };
            let bytes = part.bytes().await.map_err(unreadable_part)?;
            // A browser sends an empty part if no file is selected.
            if filename.is_empty() && bytes.is_empty() {
                continue;
            }
            if form.files.len() == MAX_FILES {
                return Err(unreadable(format!("a form has at most {MAX_FILES} files")));
            }
            form.files.push(FormFile { filename, bytes });
        }
        Ok(form)
    }
}

fn too_many_fields() -> PageError {
    unreadable(format!("a form has at most {MAX_FIELDS} fields"))
}

/// The name of a file: a browser writes a quotation mark in it as `%22`.
fn decoded_name(filename: &str) -> String {
    filename.replace("%22", "\"")
}

fn unreadable_part(error: MultipartError) -> PageError {
    let code = match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
        _ => Code::InvalidRequest,
    };
    Problem::new(code, error.body_text()).into()
}

pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, PageError> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(path)) => Ok(Path(path)),
            Err(rejection) => Err(unreadable(rejection.body_text())),
        }
    }
}

/// The parameters after the question mark of the address.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Query<T>, PageError> {
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(query)) => Ok(Query(query)),
            Err(rejection) => Err(unreadable(rejection.body_text())),
        }
    }
}

fn unreadable(detail: String) -> PageError {
    Problem::new(Code::InvalidRequest, detail).into()
}
