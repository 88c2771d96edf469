//! `/agents/{agent}`: shows an agent's instructions, tools, runs and cost; edits its file.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::agent::{Agent, AgentDetail, AgentFile, AgentTool, NewAgentFile};
use unisono_api::run::{ListedRun, RunQuery};
use unisono_api::service::{self, Service};
use unisono_api::session::NewSession;
use unisono_api::turn::{NewTurn, TurnRequest};
use unisono_api::usage::{Amounts, UsageQuery};
use unisono_api::{Code, Problem, fmt};

use crate::diff;
use crate::error::{PageError, status};
use crate::extract::{Form, Path};
use crate::layout::layout;
use crate::message::continuation;
use crate::parts::{
    cost, counted, digest, dollars, encoded, length, number, spent_time, truncate, when,
};
use crate::waiting_calls::listed_state;

/// Maximum number of newest runs on the page of an agent.
const RUNS: Option<NonZeroUsize> = NonZeroUsize::new(10);
/// Maximum number of bytes of the instructions, and of the file, on the page.
const MAX_BYTES: usize = 16 * 1024;

/// The model of an agent that is a language model.
pub(crate) fn model_of(agent: &Agent) -> Option<&str> {
    let is_model = matches!(agent.kind.as_str(), "llm" | "extractive");
    agent.model.as_deref().filter(|_| is_model)
}

pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path(name): Path<String>,
) -> Result<Response, PageError> {
    let detail = service.agent(&name).await?;
    let body = agent_page(&*service, &detail, None).await?;
    Ok(layout(&name, &body))
}

async fn agent_page(
    service: &dyn Service,
    detail: &AgentDetail,
    refused: Option<(&str, &str)>,
) -> service::Result<Markup> {
    let query = RunQuery {
        agent: Some(detail.agent.agent.clone()),
        limit: RUNS,
        ..RunQuery::default()
    };
    let runs = service.runs(&query).await?;
    let used = service.usage(&UsageQuery::default()).await?;
    let rows = used.rows.iter();
    let rows = rows.filter(|row| row.agent.as_deref() == Some(&detail.agent.agent));
    let jobs: u64 = rows.clone().map(|row| row.jobs).sum();
    let amounts = Amounts::together(rows.map(|row| &row.amounts));
    Ok(html! {
        h1 { a href="/agents" { "Agents" } " / " (detail.agent.agent) }
        (facts(detail, jobs, &amounts))
        (task_form(detail, refused))
        (instructions(detail))
        @if !detail.calls.is_empty() { (tools(&detail.calls)) }
        section {
            h2 { "Newest runs" }
            @if runs.items.is_empty() { p class="quiet" { "It has no runs yet." } }
            @else { (run_table(&runs.items)) }
        }
        @if let Some(file) = &detail.file { (file_section(detail, file)) }
        @else { p class="quiet" { "No file is shown: it has none of its own, and a file agents/" (detail.agent.agent)
             ".md in the project replaces it; or this needs the scope " code { "admin" } "." } }
    })
}

fn facts(detail: &AgentDetail, jobs: u64, used: &Amounts) -> Markup {
    let agent = &detail.agent;
    html! {
        section class="card" {
            p { (agent.description) }
            dl class="facts" {
                dt { "Kind" } dd { (agent.kind) }
                @if let Some(model) = model_of(agent) {
                    dt { "Model" } dd { (model) ", window " (number(detail.window_tokens)) " "
                        @if detail.usable { span class="state done" { "usable" } }
                        @else { span class="state failed" { "not usable" } } }
                 }
                @if let Some(reason) = &detail.unavailable_reason { dt { "Missing" } dd { (reason) } }
                @if !agent.tags.is_empty() { dt { "Tags" } dd { (agent.tags.join(", ")) } }
                @if !detail.skills.is_empty() { dt { "Skills" } dd { (detail.skills.join(", ")) } }
                @if !detail.delegates.is_empty() { dt { "Works after" } dd { (detail.delegates.join(", ")) } }
                @if !detail.pipeline.is_empty() { dt { "Pipeline" } dd { (detail.pipeline.join(", then ")) } }
                dt { "Limits" } dd { (counted(detail.max_model_calls.into(), "model call")) ", " (length(detail.timeout_ms))
                    ", " @match detail.retries { 1 => "1 retry", n => { (n) " retries" } } }
                dt { "Used" } dd { (counted(jobs, "run")) @if jobs > 0 { ", " (number(used.input_tokens)) " tokens in, "
                    (number(used.output_tokens)) " out, " (dollars(used.cost_usd)) } }
                dt { "Defined in" } dd { (agent.origin) }
                dt { "Definition" } dd { (digest(&detail.digest)) }
            }
        }
    }
}

/// The form for a task in a new session, with a refused task and its reason.
fn task_form(detail: &AgentDetail, refused: Option<(&str, &str)>) -> Markup {
    let name = &detail.agent.agent;
    let (task, why) = refused.unzip();
    html! {
        section class="card" {
            h2 { "Try it" }
            form method="post" action={ "/agents/" (encoded(name)) "/try" } {
                label for="task" { "Task (runs in a new session)" }
                textarea id="task" name="task" rows="2" required aria-invalid=[why.map(|_| "true")]
                    aria-describedby=[why.map(|_| "refused")] { "\n" (task.unwrap_or("")) }
                @if let Some(why) = why { p class="trouble" id="refused" role="alert" { (why) } }
                button { "Ask " (name) }
            }
        }
    }
}

fn instructions(detail: &AgentDetail) -> Markup {
    html! {
        details class="summary" {
            summary { "Instructions" }
            (beginning(detail, &detail.instructions))
        }
    }
}

/// The beginning of a long text of an agent, with a link to all of it.
fn beginning(detail: &AgentDetail, text: &str) -> Markup {
    let (shown, left) = truncate(text, MAX_BYTES);
    let json = format!("/v1/agents/{}", encoded(&detail.agent.agent));
    html! { pre class="text" { (shown) } (continuation(left, Some(&json))) }
}

fn tools(calls: &[AgentTool]) -> Markup {
    html! {
        section {
            h2 { "Tools" }
            div class="scroll" tabindex="0" role="group" aria-label="Tools" { table {
                thead { tr { th scope="col" { "Tool" } th scope="col" { "Of" } th scope="col" { "Contract" }
                    th scope="col" { "Waits for a person" } } }
                tbody { @for tool in calls { tr {
                    th scope="row" { code { (tool.name) } }
                    td { @match &tool.server { Some(server) => { "server " (server) }, None => "built in" } }
                    td { @match (&tool.server, tool.contracts.is_empty()) {
                        (_, false) => (tool.contracts.join(", ")),
                        (Some(_), true) => "set by the server",
                        (None, true) => "–",
                    } }
                    td { @if tool.approvals.is_empty() { "no" } @else { (tool.approvals.join(", ")) } }
                } } }
            } }
        }
    }
}

/// The runs. The roles say that it is a table where the style shows its rows as blocks.
fn run_table(runs: &[ListedRun]) -> Markup {
    let columns = ["Opened", "State", "Task", "In", "Out", "Cost", "Time"];
    let class = |name: &str| {
        ["In", "Out", "Cost", "Time"]
            .contains(&name)
            .then_some("number")
    };
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Newest runs" { table class="stacked" role="table" {
            thead role="rowgroup" { tr role="row" { @for name in columns {
                th scope="col" role="columnheader" class=[class(name)] { (name) }
            } } }
            tbody role="rowgroup" { @for listed in runs {
                @let run = &listed.run;
                tr role="row" {
                    td role="cell" { a href={ "/sessions/" (listed.session) "/runs/" (run.run) } { (when(&run.opened_at)) } }
                    td role="cell" { (listed_state(listed)) }
                    td role="cell" { (fmt::line(run.task.as_deref().unwrap_or("the task of the turn"), 60)) }
                    td role="cell" class="number" data-label="In" { (number(run.usage.input_tokens)) }
                    td role="cell" class="number" data-label="Out" { (number(run.usage.output_tokens)) }
                    td role="cell" class="number" data-label="Cost" { (cost(run)) }
                    td role="cell" class="number" data-label="Time" {
                        @match run.duration_ms { Some(ms) => (spent_time(run, ms)), None => "–" } }
                }
            } }
        } }
    }
}

fn file_section(detail: &AgentDetail, file: &AgentFile) -> Markup {
    html! {
        section {
            h2 { "Its file" }
            p { code { (file.path) } }
            details { summary { "The text" } (beginning(detail, &file.text)) }
            @if file.editable {
                p { a class="button" href={ "/agents/" (encoded(&detail.agent.agent)) "/edit" } { "Edit …" } }
            } @else {
                p class="quiet" { "This page cannot change it: " code { "web.edit_agents" } " is off, or other machines can reach this daemon." }
            }
        }
    }
}

/// A task for an agent.
#[derive(Debug, Deserialize)]
pub(crate) struct Attempt {
    task: String,
}

/// Asks an agent in a new session, without delegates. It shows a refused task again with the reason.
pub(crate) async fn attempt(
    State(service): State<Arc<dyn Service>>,
    Path(name): Path<String>,
    Form(attempt): Form<Attempt>,
) -> Result<Response, PageError> {
    let detail = service.agent(&name).await?;
    let new = NewSession {
        title: Some(format!("Trying {name}")),
        labels: [("scratch".to_owned(), name.clone())].into(),
        ..NewSession::default()
    };
    let session = service.create_session(new).await?.session;
    let turn = NewTurn {
        lead: Some(name.clone()),
        agents: Some(Vec::new()),
        ..NewTurn::new(attempt.task.trim())
    };
    match service
        .begin(&session, &TurnRequest::Task(turn), None)
        .await
    {
        Ok(_) => Ok(Redirect::to(&format!("/sessions/{session}")).into_response()),
        Err(service::Error::Problem(problem)) => {
            service.delete_session(&session, false).await?;
            let refused = (attempt.task.as_str(), problem.detail.as_str());
            let body = agent_page(&*service, &detail, Some(refused)).await?;
            Ok((status(&problem), layout(&name, &body)).into_response())
        }
        Err(error) => Err(error.into()),
    }
}

/// The form that edits the file of an agent.
pub(crate) async fn edit(
    State(service): State<Arc<dyn Service>>,
    Path(name): Path<String>,
) -> Result<Response, PageError> {
    let (detail, file) = editable(&*service, &name).await?;
    let draft = Draft {
        text: file.text.clone(),
        digest: file.digest.clone(),
        ..Draft::default()
    };
    Ok(layout(&name, &editing(&detail, &file, &draft, &html! {})))
}

async fn editable(
    service: &dyn Service,
    name: &str,
) -> Result<(AgentDetail, AgentFile), PageError> {
    let mut detail = service.agent(name).await?;
    let none = || {
        Problem::new(
            Code::NotFound,
            format!("agent {name:?} has no file: write agents/{name}.md in the project"),
        )
    };
    let file = detail.file.take().ok_or_else(none)?;
    if !file.editable {
        let why = "agents cannot be edited here: `web.edit_agents` is off, or other machines can reach this daemon";
        return Err(Problem::new(Code::Forbidden, why).into());
    }
    Ok((detail, file))
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Draft {
    text: String,
    /// The digest of the file at the beginning of the edit.
    digest: String,
    /// The mark of the last text that was compared with the file.
    #[serde(default)]
    seen: String,
    /// What is wrong with the text.
    #[serde(skip)]
    problems: Vec<String>,
}

fn editing(detail: &AgentDetail, file: &AgentFile, draft: &Draft, found: &Markup) -> Markup {
    let name = &detail.agent.agent;
    html! {
        h1 { a href={ "/agents/" (encoded(name)) } { (name) } " / its file" }
        (found)
        form class="card" method="post" action={ "/agents/" (encoded(name)) "/edit" } {
            input type="hidden" name="digest" value=(draft.digest);
            input type="hidden" name="seen" value=(draft.seen);
            label for="text" { code { (file.path) } }
            @if !draft.problems.is_empty() {
                ul class="trouble" id="refused" role="alert" { @for problem in &draft.problems { li { (problem) } } }
            }
            textarea id="text" name="text" rows="24" spellcheck="false" required
                aria-invalid=[(!draft.problems.is_empty()).then_some("true")]
                aria-describedby=[(!draft.problems.is_empty()).then_some("refused")] { "\n" (draft.text) }
            @if draft.seen.is_empty() {
                button { "Check and show the difference" }
            } @else {
                button { "Save these changes" }
            }
        }
        p { a href={ "/agents/" (encoded(name)) } { "Cancel" } }
    }
}

/// Checks a text and shows its difference from the file. A text whose difference was shown is
/// saved.
pub(crate) async fn save(
    State(service): State<Arc<dyn Service>>,
    Path(name): Path<String>,
    Form(mut draft): Form<Draft>,
) -> Result<Response, PageError> {
    let (detail, file) = editable(&*service, &name).await?;
    draft.text = with_line_ends_of(&file.text, &draft.text);
    let new = NewAgentFile {
        text: draft.text.clone(),
        digest: draft.digest.clone(),
    };
    let checked = service.check_agent(&name, &new).await?;
    let confirmed = draft.seen == mark(&draft.text, &draft.digest);
    if checked.valid && !checked.outdated && confirmed {
        match service.save_agent(&name, &new).await {
            Ok(_) => {
                return Ok(Redirect::to(&format!("/agents/{}", encoded(&name))).into_response());
            }
            // The file has changed; the page below shows the difference from its new text.
            Err(service::Error::Problem(problem)) if problem.code == Code::Conflict => {}
            Err(error) => return Err(error.into()),
        }
    }
    let current = service.agent(&name).await?.file.unwrap_or(file);
    let (own, others): (Vec<String>, Vec<String>) = checked
        .problems
        .iter()
        .cloned()
        .partition(|problem| is_of_file(problem, &current.path));
    draft.problems = own;
    let outdated = current.digest != draft.digest;
    let found = html! {
        section class="card" aria-live="polite" {
            @if outdated {
                p class="trouble" role="alert" { "Somebody else changed the file since you began. The difference below compares your \
                     text with the new file; saving replaces their changes." }
            }
            @if !checked.valid { p class="trouble" { "The text cannot be saved." } }
            @if !others.is_empty() { details { summary { "Other files" } ul { @for problem in &others { li { (problem) } } } } }
            @if checked.valid && checked.problems.is_empty() { p { "The text is valid." } }
            h2 { "The difference" }
            @if current.text == draft.text { p class="quiet" { "The text equals the file." } }
            @else { (diff::texts(("the file", &current.text), ("your text", &draft.text))) }
        }
    };
    draft.digest = current.digest.clone();
    draft.seen = match checked.valid && current.text != draft.text {
        true => mark(&draft.text, &draft.digest),
        false => String::new(),
    };
    let page = layout(&name, &editing(&detail, &current, &draft, &found));
    let status = match (outdated, checked.valid) {
        (true, _) => StatusCode::CONFLICT,
        (false, false) => StatusCode::UNPROCESSABLE_ENTITY,
        (false, true) => StatusCode::OK,
    };
    Ok((status, page).into_response())
}

/// A text of a form with the line ends of a file. A browser sends CRLF whatever the file has.
fn with_line_ends_of(file: &str, text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let first = file.split_inclusive('\n').next().unwrap_or_default();
    match first.ends_with("\r\n") {
        true => text.replace('\n', "\r\n"),
        false => text,
    }
}

/// Whether a problem is one of a file: it begins with the file's path, as a whole or within the project.
fn is_of_file(problem: &str, path: &str) -> bool {
    let named = problem.split(':').next().unwrap_or_default();
    !named.is_empty()
        && (path == named
            || path.ends_with(&format!("/{named}"))
            || named.ends_with(&format!("/{path}")))
}

/// The mark of a text and of the file digest with which it was compared.
fn mark(text: &str, digest: &str) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (text, digest).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_saved_only_after_its_difference_was_shown() {
        assert_eq!(mark("a", "d"), mark("a", "d"));
        assert_ne!(mark("a", "d"), mark("b", "d"));
        assert_ne!(mark("a", "d"), mark("a", "e"));
    }

    #[test]
    fn a_text_gets_the_line_ends_of_its_file() {
        for (file, text, expected) in [
            ("a\r\nb\r\n", "a\r\nc\r\n", "a\r\nc\r\n"),
            ("a\r\nb\r\n", "a\nc\n", "a\r\nc\r\n"),
            ("a\nb\n", "a\r\nc\r\n", "a\nc\n"),
            ("a", "a\r\nc", "a\nc"),
            ("", "a\r\n", "a\n"),
        ] {
            assert_eq!(with_line_ends_of(file, text), expected, "{file:?} {text:?}");
        }
    }

    #[test]
    fn a_problem_is_of_the_file_that_it_names_first() {
        for (problem, own) in [
            ("agents/poet.md:3:1: unknown key", true),
            ("/srv/x/agents/poet.md:3:1: unknown key", true),
            ("agents/other.md:3:1: as in agents/poet.md", false),
            ("nothing", false),
        ] {
            assert_eq!(is_of_file(problem, "agents/poet.md"), own, "{problem}");
        }
        assert!(is_of_file("agents/poet.md:1:1: x", "/srv/x/agents/poet.md"));
    }

    #[test]
    fn names_and_tools_of_an_agent_are_only_text() {
        let tool = AgentTool {
            name: "<b>".to_owned(),
            server: Some("<i>".to_owned()),
            contracts: Vec::new(),
            approvals: vec!["<u>".to_owned()],
        };
        let shown = tools(&[tool]).into_string();
        assert!(!shown.contains("<b>") && !shown.contains("<i>") && !shown.contains("<u>"));
    }
}
