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
use crate::extract::{FormWithFiles, Path, Query};
use crate::layout::layout;
use crate::parts::counted;

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
    name: String,
    format: String,
    pick: String,
    skip_bad: bool,
    content: Vec<u8>,
    error: Option<String>,
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
            label for="file" { "File" }
            input id="file" name="file" type="file" required aria-describedby=[form_data.error.as_ref().map(|_| "refused")];
            p class="quiet" id="drop-says" { "JSON, JSON lines, or an export of another program." }
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

fn read(form: FormWithFiles) -> FormData {
    let mut form_data = FormData::default();
    if let Some(file) = form.files.into_iter().next() {
        form_data.name = file.filename;
        form_data.content = file.bytes;
    }
    for (name, text) in form.fields {
        match name.as_str() {
            "format" => form_data.format = text,
            "pick" => form_data.pick = text.trim().to_owned(),
            "skip_bad" => form_data.skip_bad = text == "true",
            _ => {}
        }
    }
    form_data
}

/// Imports a file. For a refused file it shows the form again with the error.
pub(crate) async fn import(
    State(service): State<Arc<dyn Service>>,
    sent: FormWithFiles,
) -> Result<Response, PageError> {
    let mut form_data = read(sent);
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let file = ImportFile {
        name: some(&form_data.name).unwrap_or_else(|| "conversation".to_owned()),
        format: some(&form_data.format),
        pick: some(&form_data.pick),
        skip_bad: form_data.skip_bad,
        copy: false,
        bounded: true,
        content: Content::Bytes(std::mem::take(&mut form_data.content)),
    };
    match service.import_file(file).await {
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

/// Redirects to the session, or first shows the skipped parts of the import.
fn imported_page(imported: &ImportResult) -> Response {
    let session = &imported.session;
    let to = format!("/sessions/{}", session.session);
    let nothing = imported.skipped_messages == 0 && imported.skipped_parts == 0;
    if nothing && imported.dropped_content.is_empty() {
        return Redirect::to(&to).into_response();
    }
    let body = html! {
        section class="card" {
            h1 { "Imported: " (session.title) }
            ul {
                @match imported.skipped_messages {
                    0 => {}
                    1 => li { "1 invalid message or line skipped" },
                    more => li { (more) " invalid messages or lines skipped" },
                }
                @if imported.skipped_parts > 0 { li { (counted(imported.skipped_parts, "invalid message part")) " skipped" } }
                @for (what, count) in &imported.dropped_content { li { (counted(*count, what)) " not supported by sessions" } }
            }
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
