//! `/import`: imports conversations from files or from the example.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use unisono_api::Problem;
use unisono_api::service::{self, Service};
use unisono_api::session::{Content, ConversationImport, FileConversation, ImportFile};

use crate::assets::href;
use crate::conversation_list;
use crate::error::{PageError, status};
use crate::extract::{FormFile, FormWithFiles};
use crate::import_results::{self, FileResult, lines};
use crate::layout::layout;
use crate::parts::counted;

const FORMATS: [(&str, &str); 14] = [
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
    ("telegram", "a chat of Telegram"),
    ("messenger", "a chat of Messenger or Instagram"),
    ("text", "a text with speaker names"),
];

const FILES: &str = "JSON, JSON lines, or exports of another program.";

/// The label of the option that skips lines which cannot be read.
const SKIP_LABEL: &str = "Skip invalid lines";

/// The label of the option that imports a file without its list.
const ALL_LABEL: &str = "Import all conversations of a file";

/// The answer to a list without a selection.
const NONE_SELECTED: &str = "No conversation is selected: select some, or import all of them.";

const EXAMPLE: &str = include_str!("../assets/example.jsonl");

/// The fields of the form, and what the answer to it shows.
#[derive(Debug, Default)]
struct FormData {
    format: String,
    picks: Vec<String>,
    all: bool,
    /// Whether the list of conversations was shown.
    listed: bool,
    skip_bad: bool,
    copy: bool,
    error: Option<String>,
    /// The conversations of a file with several, or the one that was imported before.
    found: Vec<FileConversation>,
}

impl FormData {
    fn read(fields: Vec<(String, String)>) -> FormData {
        let mut form_data = FormData::default();
        for (name, text) in fields {
            match name.as_str() {
                "format" => form_data.format = text,
                "pick" => form_data.picks.push(text),
                "all" => form_data.all = text == "true",
                "listed" => form_data.listed = text == "true",
                "skip_bad" => form_data.skip_bad = text == "true",
                "copy" => form_data.copy = text == "true",
                _ => {}
            }
        }
        form_data
    }

    fn import_of(&self, file: &FormFile) -> ImportFile {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ImportFile {
            name: some(&file.filename).unwrap_or_else(|| "conversation".to_owned()),
            format: some(&self.format),
            pick: None,
            skip_bad: self.skip_bad,
            copy: self.copy,
            bounded: true,
            content: Content::Bytes(file.bytes.clone()),
        }
    }

    /// Whether the conversations of a file must be picked first.
    fn must_pick(&self, found: &[FileConversation]) -> bool {
        found.len() > 1 && !self.all && self.picks.is_empty()
    }

    /// Whether there is nothing in a file that is new.
    fn is_known(&self, found: &[FileConversation]) -> bool {
        matches!(found, [only] if only.session.is_some()) && !self.copy
    }
}

pub(crate) async fn show() -> Response {
    layout("Import", &form(&FormData::default()))
}

fn form(form_data: &FormData) -> Markup {
    html! {
        h1 { "Import a conversation" }
        script type="module" src=(href("drop.js")) {}
        form class="card drop" id="import" method="post" action="/import" enctype="multipart/form-data" {
            @if let Some(error) = &form_data.error {
                p class="trouble" id="refused" role="alert" { (lines(error)) }
            }
            label for="file" { "Files" }
            input id="file" name="file" type="file" multiple required aria-describedby=[form_data.error.as_ref().map(|_| "refused")];
            p class="quiet" id="drop-says" role="status" { (FILES) }
            (conversation_list::show(&form_data.found))
            label for="format" { "Format" }
            select id="format" name="format" {
                @for (name, says) in FORMATS { option value=(name) selected[form_data.format == name] { (says) } }
            }
            span class="chip" {
                input id="skip" name="skip_bad" type="checkbox" value="true" checked[form_data.skip_bad];
                label for="skip" { (SKIP_LABEL) }
            }
            @if form_data.found.len() <= 1 {
                span class="chip" {
                    input id="all" name="all" type="checkbox" value="true" checked[form_data.all];
                    label for="all" { (ALL_LABEL) }
                }
            }
            span class="chip" {
                input id="copy" name="copy" type="checkbox" value="true" checked[form_data.copy];
                label for="copy" { "Import again what was imported before" }
            }
            @if form_data.found.len() > 1 {
                noscript { p { "Choose the file again: without scripts the browser forgets it." } }
                div class="actions" {
                    button { "Import the selected" }
                    " " button class="plain" name="all" value="true" { "Import all " (form_data.found.len()) }
                }
            } @else {
                button { "Import" }
            }
        }
        form class="card" method="post" action="/examples" {
            p { "Or start from an example: a conversation of 159 messages about a migration." }
            button class="small plain" { "Start from the example" }
        }
    }
}

/// The form of another page, which detects the formats of its files.
pub(crate) fn short_form() -> Markup {
    html! {
        script type="module" src=(href("drop.js")) {}
        form class="card drop" id="import" method="post" action="/import" enctype="multipart/form-data" {
            h2 { "Import conversations" }
            label for="file" { "Files" }
            input id="file" name="file" type="file" multiple required;
            p class="quiet" id="drop-says" role="status" { (FILES) }
            button { "Import" }
        }
    }
}

/// Imports files. Of a file with several conversations it first shows the list; a refused file leads
/// back to the form.
pub(crate) async fn import(
    State(service): State<Arc<dyn Service>>,
    sent: FormWithFiles,
) -> Result<Response, PageError> {
    let mut form_data = FormData::read(sent.fields);
    if sent.files.len() > 1 {
        return import_each(&*service, &form_data, sent.files).await;
    }
    let file = sent.files.into_iter().next().unwrap_or_default();
    match import_one(&*service, &form_data, &file).await {
        Ok(Outcome::Listed(found)) => {
            form_data.error =
                (form_data.listed && found.len() > 1).then(|| NONE_SELECTED.to_owned());
            form_data.found = found;
            Ok(layout("Import", &form(&form_data)))
        }
        Ok(Outcome::Imported(all)) => Ok(imported_page(&all)),
        Err(service::Error::Problem(problem)) => {
            let status = status(&problem);
            form_data.error = Some(refusal(*problem));
            let page = layout("Import", &form(&form_data));
            Ok((status, page).into_response())
        }
        Err(error) => Err(error.into()),
    }
}

/// Why a file is refused, and what to do on this page about lines that cannot be read.
fn refusal(problem: Problem) -> String {
    match problem.bad_lines {
        Some(_) => format!(
            "{}; correct the lines, or choose “{SKIP_LABEL}”",
            problem.detail
        ),
        None => problem.detail,
    }
}

/// What became of a file.
enum Outcome {
    /// Its conversations must be picked, or there is nothing new.
    Listed(Vec<FileConversation>),
    /// These conversations were imported, or not.
    Imported(Vec<ConversationImport>),
}

async fn import_one(
    service: &dyn Service,
    form_data: &FormData,
    file: &FormFile,
) -> service::Result<Outcome> {
    if form_data.picks.is_empty() {
        let found = service.conversations(form_data.import_of(file)).await?;
        if form_data.must_pick(&found) || form_data.is_known(&found) {
            return Ok(Outcome::Listed(found));
        }
    }
    let picks = match form_data.all {
        true => &[][..],
        false => &form_data.picks,
    };
    let file = form_data.import_of(file);
    let all = service.import_conversations(file, picks).await?;
    Ok(Outcome::Imported(all))
}

/// Imports several files one after the other; one that is refused does not keep the others out.
async fn import_each(
    service: &dyn Service,
    form_data: &FormData,
    files: Vec<FormFile>,
) -> Result<Response, PageError> {
    let mut all = Vec::new();
    for file in files {
        let outcome = match import_one(service, form_data, &file).await {
            Ok(Outcome::Imported(done)) => Ok(done),
            Ok(Outcome::Listed(found)) if form_data.is_known(&found) => {
                Ok(found.into_iter().map(ConversationImport::known).collect())
            }
            Ok(Outcome::Listed(found)) => {
                let conversations = counted(found.len() as u64, "conversation");
                Err(format!(
                    "it has {conversations}: choose it alone to select some, or “{ALL_LABEL}”"
                ))
            }
            Err(service::Error::Problem(problem)) => Err(refusal(*problem)),
            Err(error) => return Err(error.into()),
        };
        all.push(FileResult {
            name: file.filename,
            outcome,
        });
    }
    let body = html! {
        (import_results::of_files(&all))
        @if all.iter().any(|file| file.outcome.is_err()) { (form(form_data)) }
        p { a href="/" { "To the sessions" } }
    };
    Ok(layout("Imported", &body))
}

/// Redirects to the only session, or shows what became of each conversation.
fn imported_page(all: &[ConversationImport]) -> Response {
    if let [only] = all
        && !import_results::has_report(&only.losses)
        && let Some(session) = &only.conversation.session
    {
        return Redirect::to(&format!("/sessions/{session}")).into_response();
    }
    let body = html! {
        (import_results::of_conversations(all))
        p { a href="/" { "To the sessions" } }
    };
    layout("Imported", &body)
}

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
        content: Content::Bytes(EXAMPLE.as_bytes().into()),
    };
    let made = service.import_file(file).await?;
    Ok(Redirect::to(&format!("/sessions/{}", made.session.session)))
}
