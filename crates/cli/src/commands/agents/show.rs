//! `unisono agents show`.

use serde_json::json;
use unisono::models;
use unisono_api::Code;
use unisono_config::agents::Agent;
use unisono_context::Tokens;
use unisono_session::agent::{
    A2a, Acp, AgentKind, Command, ContextMode, Http, OnFailure, Stage, ToolKind,
};

use crate::app::{App, learnt_here};
use crate::problem::{Problem, Result};
use crate::show;

const HELP: &str = "\
JSON: agent, kind, model (null: its kind uses none), description, tools, tags, origin,
instructions, digest, window_tokens, max_model_calls, timeout_ms, retries, max_concurrent,
context, on_failure, delegates, pipeline [{agent, task}], and by kind: command {program, args},
http {url, headers}, a2a {url, headers, card_digest, contract}, acp {program, args, cwd, worktree,
allow, deny, contract, options, login}.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The agent
    agent: String,
}

pub(crate) fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let definition = setup.roster.get(&args.agent);
    let definition = definition.map_err(|error| Problem::from(error).code(Code::NotFound))?;
    let found = setup
        .roster
        .iter()
        .find(|agent| agent.definition.id == definition.id);
    let agent = found.ok_or_else(|| Problem::usage(format!("unknown agent `{}`", args.agent)))?;
    let window = models::effective_limits(&agent.definition, &learnt_here(&setup)).window;
    let text = text(app, agent, window);
    app.out.result(&whole(agent, window), text);
    Ok(())
}

fn context(mode: ContextMode) -> &'static str {
    match mode {
        ContextMode::Snapshot => "snapshot",
        ContextMode::TaskOnly => "task_only",
    }
}

fn on_failure(mode: OnFailure) -> &'static str {
    match mode {
        OnFailure::Continue => "continue",
        OnFailure::Fail => "fail",
    }
}

fn text(app: &App, agent: &Agent, window: Tokens) -> String {
    let d = &agent.definition;
    let list = |items: Vec<&str>| {
        if items.is_empty() {
            "none".to_owned()
        } else {
            items.join(", ")
        }
    };
    let what = match &d.kind {
        AgentKind::Command(Command { program, args, .. })
        | AgentKind::Acp(Acp {
            command: Command { program, args, .. },
            ..
        }) => {
            let all: Vec<&str> = std::iter::once(&**program)
                .chain(args.iter().map(|a| &**a))
                .collect();
            format!("{}: {}", d.kind.name(), all.join(" "))
        }
        AgentKind::Http(Http { url, .. }) => format!("http: {url}"),
        AgentKind::A2a(A2a { url, .. }) => format!("a2a: {url}"),
        other => other.name().to_owned(),
    };
    let window = show::tokens(window);
    let model = d.kind.uses_model().then_some(&*d.model);
    let rows = [
        ("agent", d.id.to_string()),
        ("for", d.description.to_string()),
        ("from", agent.origin.to_string()),
        ("kind", what),
        (
            "model",
            format!(
                "{} (window {window}, {})",
                model.unwrap_or("none"),
                d.limits.encoding.name()
            ),
        ),
        ("context", context(d.context).to_owned()),
        ("tools", list(d.tools.iter().map(|tool| &**tool).collect())),
        (
            "delegates",
            list(d.delegates.iter().map(|id| id.as_str()).collect()),
        ),
        ("pipeline", pipeline(&d.pipeline)),
        ("limits", limits(agent)),
        ("digest", d.digest().short()),
    ];
    let paint = app.out.paint;
    let rows =
        rows.map(|(name, value)| format!("{} {value}", paint.bold(format_args!("{name:<10}"))));
    format!(
        "{}\n\n{}",
        show::wrap(&rows.join("\n"), 11),
        show::wrap(&show::indented(&d.instructions, ""), 0)
    )
}

/// `outline, then draft, then review (Check it.)`.
fn pipeline(stages: &[Stage]) -> String {
    let stages = stages.iter().map(|stage| match &stage.task {
        Some(task) => format!("{} ({task})", stage.agent),
        None => stage.agent.to_string(),
    });
    match stages.collect::<Vec<_>>() {
        none if none.is_empty() => "none".to_owned(),
        stages => stages.join(", then "),
    }
}

fn limits(agent: &Agent) -> String {
    let d = &agent.definition;
    format!(
        "{} an attempt, {} more after a failure, {} model calls, {} at a time, on failure {}",
        show::time(d.timeout_ms),
        d.retries,
        d.max_model_calls,
        d.max_concurrent,
        on_failure(d.on_failure)
    )
}

fn whole(agent: &Agent, window: Tokens) -> serde_json::Value {
    let d = &agent.definition;
    let model = d.kind.uses_model().then_some(&d.model);
    let mut value = json!({
        "agent": d.id.to_string(), "kind": d.kind.name(), "model": model,
        "description": d.description, "tools": d.tools, "tags": d.tags,
        "origin": agent.origin.to_string(),
    });
    value["instructions"] = (*d.instructions).into();
    value["digest"] = d.digest().to_string().into();
    value["window_tokens"] = window.0.into();
    value["max_model_calls"] = d.max_model_calls.into();
    value["timeout_ms"] = d.timeout_ms.into();
    value["retries"] = d.retries.into();
    value["max_concurrent"] = d.max_concurrent.into();
    value["context"] = context(d.context).into();
    value["on_failure"] = on_failure(d.on_failure).into();
    value["delegates"] = d
        .delegates
        .iter()
        .map(|id| id.as_str())
        .collect::<Vec<_>>()
        .into();
    let stages = d.pipeline.iter();
    let stages = stages.map(|stage| json!({"agent": stage.agent.as_str(), "task": stage.task}));
    value["pipeline"] = stages.collect();
    match &d.kind {
        AgentKind::Command(Command { program, args, .. }) => {
            value["command"] = json!({"program": program, "args": args});
        }
        AgentKind::Http(Http { url, headers }) => {
            value["http"] = json!({"url": url, "headers": headers});
        }
        AgentKind::A2a(remote) => {
            value["a2a"] = json!({"url": remote.url, "headers": remote.headers,
                "card_digest": remote.card_digest, "contract": remote.contract.name()});
        }
        AgentKind::Acp(Acp {
            command,
            worktree,
            allow,
            deny,
            contract,
            options,
            login,
        }) => {
            let names =
                |kinds: &[ToolKind]| kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>();
            let (allow, deny) = (names(allow), names(deny));
            value["acp"] = json!({"program": command.program, "args": command.args,
                "cwd": command.cwd, "worktree": worktree, "allow": allow, "deny": deny,
                "contract": contract.name(), "options": options, "login": login});
        }
        AgentKind::Llm | AgentKind::Custom(_) | AgentKind::Pipeline => {}
    }
    value
}
