//! Tools of MCP servers: configuration, tool lists, calls.
//!
//! ```text
//! effects ─ call ─► Servers ─ Connect ─► server (actor) ─ starts ─► stdio: a program, or HTTP
//!                      └──────────── Connection::call ────────────────►┘
//! ```
//!
//! The model's name of a tool is `<server>__<tool>`. A server is started when one of its tools is
//! first needed; a turn keeps its frozen list of tools, even if the server changes its list.

pub(crate) mod client_servers;
mod connection;
mod http;
mod names;
pub(crate) mod output;
pub(crate) mod server;
mod skills;
mod stdio;
mod tasks;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use unisono_context::snapshot::ToolSpec;
use unisono_model::provider::{Address, Header, Key};
use unisono_session::agent::Command;
use unisono_session::assignment::ToolJob;
use unisono_session::run::calls::CallOutput;
use unisono_session::tool::{Contract, allows, matches};

use crate::address::ActorAddress;
pub use client_servers::{ClientServersGuard, MAX_CLIENT_SERVERS};
use connection::{CallReply, Connection};
pub use skills::{ServerSkill, ServerSkills, SkillFault, SkillReader};
use tasks::{ServerTask, TaskEnd};

pub use names::{LONGEST_NAME, SEPARATOR, is_server_name, server_of, shown_name};

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its name, with which the names of its tools begin.
    pub name: Arc<str>,
    /// Its transport.
    pub transport: ServerTransport,
    /// The timeout for starting and listing its tools.
    pub start_timeout: Duration,
    /// The timeout of one call.
    pub timeout: Duration,
    /// The offered tools, as patterns of the server's own names; `!` excludes.
    pub tools: Vec<Arc<str>>,
    /// The contracts of its tools, by patterns of the server's own names. They override the
    /// server's annotations.
    pub contracts: Vec<(Arc<str>, Contract)>,
    /// Whether its skills are offered to agents.
    pub skills: bool,
}

/// The transport of a server.
#[derive(Clone, Debug)]
pub enum ServerTransport {
    /// A program on this machine, connected by standard input and output.
    Program(Command),
    /// An address, connected by streamable HTTP.
    Address {
        /// The address.
        url: Address,
        /// Headers of every request.
        headers: Vec<Header>,
        /// Sent as a bearer token.
        token: Option<Key>,
    },
    /// An address with a token or a header whose variable is not set. Nothing connects to it.
    Unset {
        /// The variable and its use, for people.
        reason: Arc<str>,
    },
}

/// A tool that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOffer {
    /// `server__tool` with the server's own name; models may know the tool by another one.
    pub own_name: Arc<str>,
    /// Its specification for models.
    pub spec: ToolSpec,
    /// The effect of a repeated call.
    pub contract: Contract,
}

/// A server that is unavailable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tool server `{server}` {reason}")]
pub struct ServerFault {
    /// The server.
    pub server: Arc<str>,
    /// The reason.
    pub reason: Arc<str>,
}

impl Server {
    /// The configured contract of a tool, otherwise the contract that the server declares. The
    /// longest matching pattern applies.
    fn contract(&self, tool: &str, declared: Contract) -> Contract {
        let fit = self
            .contracts
            .iter()
            .filter(|(name, _)| matches(name, tool));
        let longest = fit.max_by_key(|(name, _)| name.len());
        longest.map_or(declared, |(_, contract)| *contract)
    }

    fn offers(&self, tool: &str) -> bool {
        self.tools.is_empty() || allows(&self.tools, tool)
    }

    fn fault(&self, reason: impl Into<Arc<str>>) -> ServerFault {
        ServerFault {
            server: self.name.clone(),
            reason: reason.into(),
        }
    }
}

/// Connects to a server of its own, does the handshake, and returns the number of offered tools.
///
/// # Errors
/// The server does not start or does not answer.
pub async fn check(server: &Server) -> Result<usize, ServerFault> {
    let listed = server::list_once(server).await;
    listed.map_err(|reason| server.fault(reason))
}

#[derive(Clone, Default)]
pub(crate) struct Servers(BTreeMap<Arc<str>, Handle>);

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[derive(Clone)]
struct Handle {
    server: Arc<Server>,
    address: ActorAddress<server::Msg>,
}

impl Servers {
    pub(crate) fn add(&mut self, server: Arc<Server>, address: ActorAddress<server::Msg>) {
        let name = server.name.clone();
        self.0.insert(name, Handle { server, address });
    }

    /// The current tools of a server, by name. Starts the server if necessary.
    pub(crate) async fn offers(&self, name: &str) -> Result<Vec<ToolOffer>, ServerFault> {
        let handle = self.get(name)?;
        let connection = handle.connect().await?;
        let limit = handle.server.start_timeout;
        let listing = connection.list(&handle.server);
        let listed = within(limit, "did not list its tools", listing).await;
        let tools = listed.map_err(|reason| handle.server.fault(reason))?;
        Ok(names::offers(&handle.server, &tools))
    }

    /// Makes a call, or polls the task of an earlier call. Errors become results for the model.
    /// Files of its result have at most `max_file_bytes` bytes each. `began` receives the id of a task that the
    /// server begins. None: the server has forgotten the task, and the call must not be made again.
    pub(crate) async fn call(
        &self,
        job: &ToolJob,
        max_file_bytes: u64,
        began: &(dyn Fn(Arc<str>) + Send + Sync),
    ) -> Option<CallOutput> {
        let output = match self.try_call(job, max_file_bytes, began).await {
            Ok(TaskEnd::Output(output)) => output,
            Ok(TaskEnd::Forgotten) => return None,
            Err(reason) => CallOutput::text(format!("[failed: {reason}]"), true),
        };
        Some(CallOutput {
            content: output::truncate_middle(&output.content, job.max_chars),
            ..output
        })
    }

    pub(crate) async fn cancel_task(&self, tool: &str, task: &str) {
        if let Some(Ok(handle)) = server_of(tool).map(|name| self.get(name)) {
            tasks::cancel(handle, task).await;
        }
    }

    async fn try_call(
        &self,
        job: &ToolJob,
        max_file_bytes: u64,
        began: &(dyn Fn(Arc<str>) + Send + Sync),
    ) -> Result<TaskEnd, String> {
        let missing = || format!("tool `{}` is no longer part of this program", job.tool);
        let name = server_of(&job.tool).ok_or_else(missing)?;
        let handle = self.get(name).map_err(|fault| fault.to_string())?;
        let unknown = |reason: String| format!("{reason}{}", unknown_effect(job.contract));
        if let Some(id) = &job.task {
            let known = ServerTask::known(id.clone());
            match tasks::follow(handle, &known, max_file_bytes)
                .await
                .map_err(unknown)?
            {
                TaskEnd::Forgotten if job.contract.is_repeatable() => {}
                end => return Ok(end),
            }
        }
        let task = match handle.call(job, max_file_bytes).await? {
            CallReply::Output(output) => return Ok(TaskEnd::Output(output)),
            CallReply::Task(task) => task,
        };
        began(task.id.clone());
        match tasks::follow(handle, &task, max_file_bytes)
            .await
            .map_err(unknown)?
        {
            TaskEnd::Forgotten if job.contract.is_repeatable() => {
                let reason = "forgot the task that it began for this call";
                Err(handle.server.fault(reason).to_string())
            }
            end => Ok(end),
        }
    }

    fn get(&self, name: &str) -> Result<&Handle, ServerFault> {
        self.0.get(name).ok_or_else(|| ServerFault {
            server: name.into(),
            reason: "is no longer configured or connected".into(),
        })
    }
}

/// The failure of a server that does not answer in time.
const NO_ANSWER: &str = "gave no answer";

/// The result of a request to a server, or the failure `late` after the limit.
async fn within<T>(
    limit: Duration,
    late: &str,
    request: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let done = tokio::time::timeout(limit, request).await;
    done.unwrap_or_else(|_| Err(format!("{late} within {:.1} s", limit.as_secs_f64())))
}

/// The end of an error about a call with an unknown effect.
fn unknown_effect(contract: Contract) -> &'static str {
    match contract {
        Contract::Pure => "",
        Contract::Idempotent | Contract::AtMostOnce => {
            "; the outcome is unknown: check it before you call it again"
        }
    }
}

impl Handle {
    async fn call(&self, job: &ToolJob, max_file_bytes: u64) -> Result<CallReply, String> {
        let connection = self.connect().await.map_err(|fault| fault.to_string())?;
        let describe = |reason: String| self.server.fault(reason).to_string();
        let tool = connection.find(&self.server, &job.tool).await;
        let tool = tool.map_err(describe)?;
        let call = connection.call(tool, job, max_file_bytes);
        let called = within(self.server.timeout, NO_ANSWER, call).await;
        called.map_err(|reason| format!("{}{}", describe(reason), unknown_effect(job.contract)))
    }

    async fn connect(&self) -> Result<Connection, ServerFault> {
        let gone = || {
            self.server
                .fault("is not available: the runtime is stopping")
        };
        let (reply, connected) = tokio::sync::oneshot::channel();
        let sent = self.address.send(server::Msg::Connect(reply)).await;
        sent.map_err(|_| gone())?;
        connected.await.map_err(|_| gone())?
    }
}
