//! One agent with its definition, and changes of the file that defines it.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unisono_api::Code;
use unisono_api::agent::{AgentCheck, AgentDetail, AgentFile, AgentTool, NewAgentFile, Reload};
use unisono_config::agents::Roster;
use unisono_config::setup::Setup;
use unisono_context::Digest;
use unisono_runtime::mcp;
use unisono_session::agent::AgentKind;
use unisono_session::tool::allows;

use super::reload_to_api;
use crate::Local;
use crate::agents;
use crate::error::Error;
use crate::local::off_thread;
use crate::models;

/// Bytes of a definition.
const MAX_BYTES: usize = 256 * 1024;

/// An agent, perhaps with its file, which is read; none: there is no such agent.
pub(super) fn agent_detail(setup: &Setup, name: &str, with_file: bool) -> Option<AgentDetail> {
    let found = setup
        .roster
        .iter()
        .find(|agent| agent.definition.id.as_str() == name)?;
    let definition = &found.definition;
    let entry = setup.loaded.catalogue.get(None, &definition.model).ok();
    let unavailable_reason = match definition.kind {
        AgentKind::Llm => entry.and_then(|one| models::unavailable_reason(&setup.loaded, &one)),
        _ => None,
    };
    let names = |ids: &[unisono_context::AgentId]| ids.iter().map(ToString::to_string).collect();
    let stages = definition
        .pipeline
        .iter()
        .map(|stage| stage.agent.to_string());
    let path = with_file.then(|| Roster::file_of(&setup.loaded, &definition.id));
    let file = path.flatten().and_then(|path| {
        let text = std::fs::read_to_string(&path).ok()?;
        Some(AgentFile {
            path: path.display().to_string(),
            digest: digest(&text),
            editable: setup.loaded.edits_agents(),
            text,
        })
    });
    Some(AgentDetail {
        agent: agents::to_api(found, None),
        usable: unavailable_reason.is_none(),
        unavailable_reason,
        instructions: definition.instructions.to_string(),
        skills: setup.roster.skills_of(&definition.id),
        delegates: names(&definition.delegates),
        pipeline: stages.collect(),
        calls: definition
            .tools
            .iter()
            .map(|tool| tool_settings(setup, tool, &definition.id))
            .collect(),
        window_tokens: definition.limits.window.0,
        max_model_calls: definition.max_model_calls,
        timeout_ms: definition.timeout_ms,
        retries: definition.retries,
        digest: definition.digest().to_string(),
        file,
    })
}

fn digest(text: &str) -> String {
    Digest::of_bytes(text.as_bytes()).to_string()
}

/// The settings about a tool, or about a pattern of tools.
fn tool_settings(setup: &Setup, tool: &Arc<str>, agent: &unisono_context::AgentId) -> AgentTool {
    let server = mcp::server_of(tool.trim_start_matches('!'));
    let known = setup.loaded.tools.servers.iter();
    let known = known.filter(|known| Some(&*known.name) == server);
    let contracts = known.flat_map(|known| &known.contracts);
    let contracts = contracts.map(|(tool, contract)| format!("{tool}: {}", contract.name()));
    let own = setup.roster.approvals(agent).iter();
    let rules = setup.loaded.tools.approvals.iter().chain(own);
    let pattern = [tool.clone()];
    let concerns = rules.filter(|rule| {
        let other = [rule.tool.clone()];
        allows(&pattern, &rule.tool) || allows(&other, tool)
    });
    AgentTool {
        name: tool.to_string(),
        server: server.map(str::to_owned),
        contracts: contracts.collect(),
        approvals: concerns.map(|rule| rule.tool.to_string()).collect(),
    }
}

/// The file of an agent and its current text.
async fn read(setup: &Arc<Setup>, agent: &str) -> Result<(PathBuf, String), Error> {
    let definition = setup.roster.get(agent);
    let definition = definition.map_err(|_| Error::not_found("agent", agent))?;
    let (setup, id) = (setup.clone(), definition.id.clone());
    let file = off_thread(move || {
        let path = Roster::file_of(&setup.loaded, &id)?;
        let text = std::fs::read_to_string(&path).ok()?;
        Some((path, text))
    });
    file.await.ok_or_else(|| {
        let detail = format!(
            "no file defines agent {agent:?}: it is built in, or defined by settings or the program; \
             a file agents/{agent}.md of the project takes its place"
        );
        Error::new(Code::NotFound, detail)
    })
}

/// Replaces a file and keeps its permissions; a symbolic link is followed. The file has the old or
/// the new text, also after a crash.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let file = file.canonicalize()?;
    let directory = file.parent().unwrap_or(Path::new("."));
    let hidden = tempfile::Builder::new()
        .prefix(".")
        .suffix(".new")
        .tempfile_in(directory);
    let mut new = hidden?;
    new.write_all(text.as_bytes())?;
    new.as_file()
        .set_permissions(file.metadata()?.permissions())?;
    new.as_file().sync_all()?;
    new.persist(&file).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

/// Checks a new text with all other definitions.
pub(super) async fn check(
    local: &Local,
    agent: &str,
    new: &NewAgentFile,
) -> Result<AgentCheck, Error> {
    if new.text.len() > MAX_BYTES {
        let detail = format!(
            "the definition has {} bytes: at most {MAX_BYTES}",
            new.text.len()
        );
        return Err(Error::new(Code::TooLarge, detail));
    }
    let setup = local.setup();
    let (path, text) = read(&setup, agent).await?;
    let (draft, named) = (new.text.clone(), agent.to_owned());
    let checked = off_thread(move || {
        let checked = setup.with_agent_draft(path, draft);
        checked.map(|checked| (checked.roster.get(&named).is_ok(), checked.warnings))
    });
    let (valid, problems) = match checked.await {
        Ok((is_there, warnings)) => (is_there, warnings),
        Err(found) => (false, found),
    };
    Ok(AgentCheck {
        valid,
        problems: problems.iter().map(ToString::to_string).collect(),
        outdated: digest(&text) != new.digest,
    })
}

/// Whether files of agents may be changed by requests.
///
/// # Errors
/// They may not.
pub(super) fn check_may_edit(local: &Local) -> Result<(), Error> {
    if local.setup().loaded.edits_agents() {
        return Ok(());
    }
    let detail = "files of agents cannot be changed by requests: `web.edit_agents` is off, or other \
                  machines reach this daemon";
    Err(Error::new(Code::Forbidden, detail))
}

pub(super) async fn save(local: &Local, agent: &str, new: &NewAgentFile) -> Result<Reload, Error> {
    check_may_edit(local)?;
    // Others that save wait: the file is compared and replaced by one after the other.
    let one_at_a_time = local.editing().await;
    let checked = check(local, agent, new).await?;
    if checked.outdated {
        let detail = format!(
            "the file of agent {agent:?} has changed since it was read: read it again, and make the \
             change in what it has now"
        );
        return Err(Error::new(Code::Conflict, detail));
    }
    if !checked.valid {
        return Err(Error::new(Code::Refused, checked.problems.join("\n")));
    }
    let (path, _) = read(&local.setup(), agent).await?;
    let text = new.text.clone();
    let written = off_thread(move || replace(&path, &text)).await;
    written.map_err(|error| {
        Error::new(
            Code::Failed,
            format!("the file of agent {agent:?} cannot be written: {error}"),
        )
    })?;
    let reload = reload_to_api(&local.reload_agents().await);
    drop(one_at_a_time);
    match reload.applied {
        true => Ok(reload),
        false => Err(Error::new(Code::Refused, reload.problems.join("\n"))),
    }
}
