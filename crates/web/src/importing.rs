//! `/import`: imports a conversation from a file or from the example; exports sessions.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use unisono_api::service::{self, Service};
use unisono_api::session::{Content, ExportQuery, ImportFile, ImportResult};

use crate::assets::href;
use crate::error::PageError;
use crate::extract::{FormFile, FormWithFiles, Path, Query};
use crate::import_results::{self, FileResult};
use crate::layout::layout;

/// The formats, with their descriptions.
const FORMATS: [(&str, &str); 12] = [
    ("", "detect automatically"),
    ("unisono", "an export of unisono"),
    ("openai", "OpenAI messages"),
    ("anthropic", "Anthropic messages"),
    ("sharegpt", "ShareGPT"),
    ("chatgpt", "an export of ChatGPT"),
    ("claude", "an export of Claude"),
    ("claude-code", "a session of Claude Code"),
    ("codex", "a session of Codex"),
    ("gemini-cli", "a session of Gemini CLI"),
    ("slack", "a channel of Slack"),
    ("text", "a text with speaker names"),
];

/// The example conversation.
const EXAMPLE: &str = include_str!("../assets/example.jsonl");

/// The fields of the form, and the error of a refused file.
#[derive(Debug, Default)]
struct FormData {
    format: String,
    pick: String,
    skip_bad: bool,
    error: Option<String>,
}

impl FormData {
    fn read(fields: Vec<(String, String)>) -> FormData {
        let mut form_data = FormData::default();
        for (name, text) in fields {
            match name.as_str() {
                "format" => form_data.format = text,
                "pick" => form_data.pick = text.trim().to_owned(),
                "skip_bad" => form_data.skip_bad = text == "true",
                _ => {}
            }
        }
        form_data
    }

    /// The import of a file.
    fn import_of(&self, file: FormFile) -> ImportFile {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ImportFile {
            name: some(&file.filename).unwrap_or_else(|| "conversation".to_owned()),
            format: some(&self.format),
            pick: some(&self.pick),
            skip_bad: self.skip_bad,
            copy: false,
            bounded: true,
            content: Content::Bytes(file.bytes),
        }
    }
}

/// The form.
pub(crate) async fn show() -> Response {
    layout("Import", &form(&FormData::default()))
}

fn form(form_data: &FormData) -> Markup {
    html! {
        h1 { "Import a conversation" }
        script type="module" src=(href("drop.js")) {}
        form class="card drop" id="import" method="post" action="/import" enctype="multipart/form-data" {
            @if let Some(error) = &form_data.error {
                p class="trouble" id="refused" role="alert" { (error) }
            }
            label for="file" { "Files" }
            input id="file" name="file" type="file" multiple required aria-describedby=[form_data.error.as_ref().map(|_| "refused")];
            p class="quiet" id="drop-says" { "JSON, JSON lines, or exports of another program." }
            label for="format" { "Format" }
            select id="format" name="format" {
                @for (name, says) in FORMATS { option value=(name) selected[form_data.format == name] { (says) } }
            }
            label for="pick" { "Number or id of the conversation, if the file has several" }
            input id="pick" name="pick" value=(form_data.pick);
            span class="chip" {
                input id="skip" name="skip_bad" type="checkbox" value="true" checked[form_data.skip_bad];
                label for="skip" { "Skip invalid lines" }
            }
            button { "Import" }
        }
        form class="card" method="post" action="/examples" {
            p { "Or start from an example: a conversation of 159 messages about a migration." }
            button class="small plain" { "Start from the example" }
        }
    }
}

/// Imports files. For a single refused file it shows the form again with the error; of several it says
/// what became of each.
pub(crate) async fn import(
    State(service): State<Arc<dyn Service>>,
    sent: FormWithFiles,
) -> Result<Response, PageError> {
    let mut form_data = FormData::read(sent.fields);
    if sent.files.len() > 1 {
        return import_each(&*service, &form_data, sent.files).await;
    }
    let file = sent.files.into_iter().next().unwrap_or_default();
    match service.import_file(form_data.import_of(file)).await {
        Ok(imported) => Ok(imported_page(&imported)),
        Err(service::Error::Problem(problem)) => {
            let status = StatusCode::from_u16(problem.status);
            form_data.error = Some(problem.detail);
            let page = layout("Import", &form(&form_data));
            Ok((status.unwrap_or(StatusCode::BAD_REQUEST), page).into_response())
        }
        Err(error) => Err(error.into()),
    }
}

/// Imports several files one after the other; one that is refused does not keep the others out.
async fn import_each(
    service: &dyn Service,
    form_data: &FormData,
    files: Vec<FormFile>,
) -> Result<Response, PageError> {
    let mut all = Vec::new();
    for file in files {
        let name = file.filename.clone();
        let outcome = match service.import_file(form_data.import_of(file)).await {
            Ok(made) => Ok(Box::new(made)),
            Err(service::Error::Problem(problem)) => Err(problem.detail),
            Err(error) => return Err(error.into()),
        };
        all.push(FileResult { name, outcome });
    }
    let body = html! {
        (import_results::list(&all))
        @if all.iter().any(|file| file.outcome.is_err()) { (form(form_data)) }
        p { a href="/" { "To the sessions" } }
    };
    Ok(layout("Imported", &body))
}

/// Redirects to the session, or first shows the skipped parts of the import.
fn imported_page(imported: &ImportResult) -> Response {
    let session = &imported.session;
    let to = format!("/sessions/{}", session.session);
    if !import_results::has_losses(imported) {
        return Redirect::to(&to).into_response();
    }
    let body = html! {
        section class="card" {
            h1 { "Imported: " (session.title) }
            (import_results::losses(imported))
            p { a class="button" href=(to) { "Open the conversation" } }
        }
    };
    layout("Imported", &body)
}

/// Imports the example.
pub(crate) async fn example(
    State(service): State<Arc<dyn Service>>,
) -> Result<Redirect, PageError> {
    let file = ImportFile {
        name: "orders-migration.jsonl".to_owned(),
        format: None,
        pick: None,
        skip_bad: false,
        copy: true,
        bounded: false,
        content: Content::Bytes(EXAMPLE.as_bytes().to_vec()),
    };
    let made = service.import_file(file).await?;
    Ok(Redirect::to(&format!("/sessions/{}", made.session.session)))
}

/// Exports a session as a file.
pub(crate) async fn export(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, PageError> {
    let text = service.export(&id, &query).await?;
    let plain: String = id
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(32)
        .collect();
    let named = format!("attachment; filename=\"session-{plain}.jsonl\"");
    let named = HeaderValue::from_str(&named);
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        ),
        (
            header::CONTENT_DISPOSITION,
            named.unwrap_or(HeaderValue::from_static("attachment")),
        ),
    ];
    Ok((headers, text).into_response())
}
