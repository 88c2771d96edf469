//! `/import/agents`: imports agents of other programs and reports everything that cannot be
//! converted.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use unisono_api::agent::{
    AgentImport, FileNote, ImportedAgent, ImportedFile, KeyChange, NewAgentImport,
};
use unisono_api::service::{self, Service};
use unisono_api::{Code, Problem};

use crate::error::{PageError, status};
use crate::extract::{FormFile, FormWithFiles};
use crate::layout::layout;
use crate::parts::{counted, encoded, truncate};

/// The programs and the type of their files.
const FORMATS: [(&str, &str); 7] = [
    ("", "recognise it"),
    ("claude", "Claude Code: .claude/agents/*.md"),
    ("codex", "Codex: .codex/agents/*.toml"),
    ("copilot", "Copilot: .github/agents/*.agent.md"),
    ("opencode", "opencode: .opencode/agents/*.md, opencode.json"),
    ("gemini", "Gemini CLI: .gemini/agents/*.md, *.toml"),
    ("crewai", "CrewAI: agents.yaml, tasks.yaml, crew.py"),
];
/// Maximum shown bytes of a definition.
const MAX_BYTES: usize = 64 * 1024;

pub(crate) async fn show(State(service): State<Arc<dyn Service>>) -> Result<Response, PageError> {
    // The page says before the upload whether agent files may be changed.
    let nothing = NewAgentImport {
        dry_run: true,
        ..NewAgentImport::default()
    };
    service.import_agents(&nothing).await?;
    Ok(layout("Import agents", &form("", None)))
}

fn form(from: &str, refused: Option<&str>) -> Markup {
    html! {
        h1 { a href="/agents" { "Agents" } " / import" }
        form class="card" method="post" action="/import/agents" enctype="multipart/form-data" {
            @if let Some(why) = refused { p class="trouble" id="refused" role="alert" { (why) } }
            label for="file" { "Files of the agents, with the files that they name" }
            input id="file" name="file" type="file" multiple required aria-describedby=[refused.map(|_| "refused")];
            label for="from" { "Program" }
            select id="from" name="from" {
                @for (name, says) in FORMATS { option value=(name) selected[from == name] { (says) } }
            }
            button { "Preview the import" }
        }
    }
}

/// Reads the form: files to preview, or the confirmation of a preview.
fn read(form: FormWithFiles) -> Result<NewAgentImport, Problem> {
    let invalid = |detail: String| Problem::new(Code::InvalidRequest, detail);
    let mut new = NewAgentImport {
        dry_run: true,
        ..NewAgentImport::default()
    };
    for FormFile { filename, bytes } in form.files {
        let text = String::from_utf8(bytes.into());
        let text = text.map_err(|_| invalid(format!("{filename} is not a text in UTF-8")))?;
        new.files.push(ImportedFile {
            name: filename,
            text,
        });
    }
    for (name, text) in form.fields {
        match name.as_str() {
            "from" => new.from = Some(text).filter(|text| !text.is_empty()),
            "import" => {
                let confirmed = serde_json::from_str(&text);
                new = confirmed
                    .map_err(|error| invalid(format!("the import cannot be read: {error}")))?;
                new.dry_run = false;
            }
            _ => {}
        }
    }
    Ok(new)
}

/// Previews the files and the losses of an import, and writes a confirmed import.
pub(crate) async fn import(
    State(service): State<Arc<dyn Service>>,
    form: FormWithFiles,
) -> Result<Response, PageError> {
    let new = read(form)?;
    match service.import_agents(&new).await {
        Ok(report) => Ok(layout("Import agents", &preview(&new, &report))),
        Err(service::Error::Problem(problem)) if problem.code != Code::Forbidden => {
            let from = new.from.as_deref().unwrap_or_default();
            let page = layout("Import agents", &self::form(from, Some(&problem.detail)));
            Ok((status(&problem), page).into_response())
        }
        Err(error) => Err(error.into()),
    }
}

fn preview(new: &NewAgentImport, report: &AgentImport) -> Markup {
    let of = |state: &str| {
        let agents = report.agents.iter();
        agents.filter(|agent| agent.state == state).count() as u64
    };
    let lost: usize = report.agents.iter().map(|agent| agent.lost.len()).sum();
    let (would, written) = (of("would_write"), of("written"));
    let again = serde_json::to_string(new).unwrap_or_default();
    html! {
        h1 { a href="/agents" { "Agents" } " / import" }
        p role="status" {
            @if new.dry_run { (counted(would, "agent")) " to write" } @else { (counted(written, "agent")) " written" }
            ", " (counted(lost as u64, "key")) " did not carry over."
        }
        (notes("Not imported", &report.problems))
        @for agent in &report.agents { (one(agent)) }
        (notes("Files that define no agent", &report.skipped))
        @if let Some(reload) = &report.reload {
            @for problem in &reload.problems { p class="warn" { (problem) } }
        }
        @if would > 0 {
            form method="post" action="/import/agents" enctype="multipart/form-data" {
                input type="hidden" name="import" value=(again);
                button { "Write " (counted(would, "file")) }
            }
        }
        p { a href="/import/agents" { "Other files" } " · " a href="/agents" { "All agents" } }
    }
}

fn notes(title: &str, all: &[FileNote]) -> Markup {
    html! {
        @if !all.is_empty() { section {
            h2 { (title) }
            ul { @for note in all { li { code { (note.file) } ": " (note.reason) } } }
        } }
    }
}

fn one(agent: &ImportedAgent) -> Markup {
    let state = match agent.state.as_str() {
        "written" => "written",
        "would_write" => "to write",
        "exists" => "kept: a file of that name is there",
        _ => "left out: another of the files has an agent of that name",
    };
    let (text, left) = truncate(&agent.text, MAX_BYTES);
    html! {
        section class="card imported" {
            h2 { @if agent.state == "written" { a href={ "/agents/" (encoded(&agent.agent)) } { (agent.agent) } }
                @else { (agent.agent) } " " span class="tag" { (state) } }
            p class="quiet" { "From " code { (agent.from) } " (" (agent.format) ") to " code { (agent.file) } }
            (keys("Lost", &agent.lost))
            (keys("Changed", &agent.changed))
            details { summary { "The definition" } pre { (text) }
                @if left > 0 { p class="warn" { "… " (counted(left as u64, "more byte")) } } }
        }
    }
}

fn keys(title: &str, all: &[KeyChange]) -> Markup {
    html! {
        @if !all.is_empty() {
            h3 { (title) }
            ul { @for key in all { li { code { (key.key) }
                @if let Some(line) = key.line { " (line " (line) ")" } ": " (key.reason) } } }
        }
    }
}
