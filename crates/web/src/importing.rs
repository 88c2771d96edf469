//! `/import`: a conversation from a file; and the example, and exports.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use unisono_api::service::{self, Service};
use unisono_api::session::{Content, ExportQuery, ImportFile, Imported};

use crate::assets::href;
use crate::extract::{FormWithFiles, Path, Query};
use crate::layout::layout;
use crate::parts::many;
use crate::trouble::Trouble;

/// The formats that are recognised, and what they are.
const FORMATS: [(&str, &str); 12] = [
    ("", "recognise it"),
    ("unisono", "an export of unisono"),
    ("openai", "messages of OpenAI"),
    ("anthropic", "messages of Anthropic"),
    ("sharegpt", "ShareGPT"),
    ("chatgpt", "an export of ChatGPT"),
    ("claude", "an export of Claude"),
    ("claude-code", "a session of Claude Code"),
    ("codex", "a session of Codex"),
    ("gemini-cli", "a session of Gemini CLI"),
    ("slack", "a channel of Slack"),
    ("text", "a text that says who speaks"),
];

/// A conversation to begin with.
const EXAMPLE: &str = include_str!("../assets/example.jsonl");

/// What was sent, and why it was refused.
#[derive(Debug, Default)]
struct Sent {
    name: String,
    format: String,
    pick: String,
    skip_bad: bool,
    content: Vec<u8>,
    error: Option<String>,
}

/// The form.
pub(crate) async fn show() -> Response {
    layout("Import", &form(&Sent::default()))
}

fn form(sent: &Sent) -> Markup {
    html! {
        h1 { "Import a conversation" }
        script type="module" src=(href("drop.js")) {}
        form class="card drop" id="import" method="post" action="/import" enctype="multipart/form-data" {
            @if let Some(error) = &sent.error {
                p class="trouble" id="refused" role="alert" { (error) }
            }
            label for="file" { "File" }
            input id="file" name="file" type="file" required aria-describedby=[sent.error.as_ref().map(|_| "refused")];
            p class="quiet" id="drop-says" { "JSON, lines of JSON, or an export of another program." }
            label for="format" { "Format" }
            select id="format" name="format" {
                @for (name, says) in FORMATS { option value=(name) selected[sent.format == name] { (says) } }
            }
            label for="pick" { "Which one, where the file has several: its number or id" }
            input id="pick" name="pick" value=(sent.pick);
            span class="chip" {
                input id="skip" name="skip_bad" type="checkbox" value="true" checked[sent.skip_bad];
                label for="skip" { "Leave bad lines out" }
            }
            button { "Import" }
        }
        form class="card" method="post" action="/examples" {
            p { "Or begin with an example: a conversation of 160 messages about a migration." }
            button class="small plain" { "Start from the example" }
        }
    }
}

fn read(form: FormWithFiles) -> Sent {
    let mut sent = Sent::default();
    if let Some(file) = form.files.into_iter().next() {
        sent.name = file.filename;
        sent.content = file.bytes;
    }
    for (name, text) in form.fields {
        match name.as_str() {
            "format" => sent.format = text,
            "pick" => sent.pick = text.trim().to_owned(),
            "skip_bad" => sent.skip_bad = text == "true",
            _ => {}
        }
    }
    sent
}

/// Imports a file. One that is refused leads back to the form, with what is wrong in it.
pub(crate) async fn import(
    State(service): State<Arc<dyn Service>>,
    sent: FormWithFiles,
) -> Result<Response, Trouble> {
    let mut sent = read(sent);
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let file = ImportFile {
        name: some(&sent.name).unwrap_or_else(|| "conversation".to_owned()),
        format: some(&sent.format),
        pick: some(&sent.pick),
        skip_bad: sent.skip_bad,
        copy: false,
        bounded: true,
        content: Content::Bytes(std::mem::take(&mut sent.content)),
    };
    match service.import_file(file).await {
        Ok(imported) => Ok(done(&imported)),
        Err(service::Error::Problem(problem)) => {
            let status = StatusCode::from_u16(problem.status);
            sent.error = Some(problem.detail);
            let page = layout("Import", &form(&sent));
            Ok((status.unwrap_or(StatusCode::BAD_REQUEST), page).into_response())
        }
        Err(error) => Err(error.into()),
    }
}

/// Leads to the session, or says first what was left out.
fn done(imported: &Imported) -> Response {
    let session = &imported.session;
    let to = format!("/sessions/{}", session.session);
    let nothing = imported.left_out == 0 && imported.left_out_parts == 0;
    if nothing && imported.left_behind.is_empty() {
        return Redirect::to(&to).into_response();
    }
    let body = html! {
        section class="card" {
            h1 { "Imported: " (session.title) }
            ul {
                @if imported.left_out > 0 { li { (many(imported.left_out, "bad message or line")) " left out" } }
                @if imported.left_out_parts > 0 { li { (many(imported.left_out_parts, "bad part")) " of messages left out" } }
                @for (what, count) in &imported.left_behind { li { (many(*count, what)) " that a session cannot hold" } }
            }
            p { a class="button" href=(to) { "To the conversation" } }
        }
    };
    layout("Imported", &body)
}

/// Begins with the example.
pub(crate) async fn example(State(service): State<Arc<dyn Service>>) -> Result<Redirect, Trouble> {
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

/// A session as a file.
pub(crate) async fn export(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, Trouble> {
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
