//! Agent definitions as values, and the team of a turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::attachment::FileRules;
use unisono_context::budget::Limits;
use unisono_context::call::CacheWarm;
use unisono_context::digest::Hasher;
use unisono_context::{AgentId, Digest};

use crate::tool::Contract;

/// The implementation of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentKind {
    /// A language model, including the embedded extractive one.
    Llm,
    /// A program: the assignment as JSON on its standard input, its answer on standard output.
    Command(Command),
    /// A Rust type registered under this name.
    Custom(Arc<str>),
    /// A server: the assignment as JSON by POST, its answer in the reply.
    Http(Http),
    /// An agent of another program, asked over the Agent2Agent protocol.
    A2a(A2a),
    /// A coding agent: a program that speaks the Agent Client Protocol.
    Acp(Acp),
    /// No implementation: the result of the last stage of its pipeline is its answer.
    Pipeline,
}

/// The address and headers of an agent that is a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Its address.
    pub url: Arc<str>,
    /// Headers of each request. `${NAME}` stands for a variable of the environment, so that no
    /// secret is recorded.
    pub headers: BTreeMap<Arc<str>, Arc<str>>,
}

/// The address and contract of an agent of another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2a {
    /// The address of its agent card, or the address below which the card is.
    pub url: Arc<str>,
    /// Headers of each request. `${NAME}` stands for a variable of the environment, so that no
    /// secret is recorded.
    pub headers: BTreeMap<Arc<str>, Arc<str>>,
    /// The digest that its card must have; none: any card is accepted.
    pub card_digest: Option<Arc<str>>,
    /// The effect of giving it the same message twice.
    pub contract: Contract,
}

/// The program and permissions of a coding agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acp {
    /// The program. Its working directory is the agent's.
    pub command: Command,
    /// Whether each run works in its own git worktree.
    pub worktree: bool,
    /// Kinds of tool calls that are allowed when the agent asks for permission.
    pub allow: Vec<ToolKind>,
    /// Kinds that are refused, whatever the approval rules say.
    pub deny: Vec<ToolKind>,
    /// The effect of giving it the same task twice.
    pub contract: Contract,
    /// Options of its session, such as its mode, with the values to set before it works.
    pub options: BTreeMap<Arc<str>, Arc<str>>,
    /// The id of the method by which it logs in, if it requires a login.
    pub login: Option<Arc<str>>,
}

/// The kind of a coding agent's tool call, as the agent reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// Reads files or data.
    Read,
    /// Changes files.
    Edit,
    /// Deletes files.
    Delete,
    /// Moves or renames files.
    Move,
    /// Searches.
    Search,
    /// Runs a command.
    Execute,
    /// Plans, or thinks.
    Think,
    /// Reads from the network.
    Fetch,
    /// Anything else.
    Other,
}

unisono_context::names!(ToolKind {
    Read = "read",
    Edit = "edit",
    Delete = "delete",
    Move = "move",
    Search = "search",
    Execute = "execute",
    Think = "think",
    Fetch = "fetch",
    Other = "other",
});

impl ToolKind {
    /// The kinds that are allowed if a definition lists none.
    pub const DEFAULT: [ToolKind; 3] = [ToolKind::Read, ToolKind::Search, ToolKind::Think];
}

impl AgentKind {
    /// The name in definitions.
    pub fn name(&self) -> &str {
        match self {
            AgentKind::Llm => "llm",
            AgentKind::Command(_) => "command",
            AgentKind::Http(_) => "http",
            AgentKind::A2a(_) => "a2a",
            AgentKind::Acp(_) => "acp",
            AgentKind::Pipeline => "pipeline",
            AgentKind::Custom(name) => name,
        }
    }

    /// Whether its agents use the model of their definition for their runs: language models, and
    /// types of an author, which may.
    pub fn uses_model(&self) -> bool {
        matches!(self, AgentKind::Llm | AgentKind::Custom(_))
    }
}

/// The command line of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program.
    pub program: Arc<str>,
    /// Its arguments.
    pub args: Vec<Arc<str>>,
    /// Environment variables set for it.
    pub env: BTreeMap<Arc<str>, Arc<str>>,
    /// Its working directory.
    pub cwd: Option<Arc<str>>,
    /// Environment variables that it inherits in addition to those that every program inherits.
    pub env_pass: Vec<Arc<str>>,
}

/// The input of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextMode {
    /// The turn's snapshot and the task.
    #[default]
    Snapshot,
    /// The task only.
    TaskOnly,
}

/// Whether an agent's prompt begins with the bytes that it shares with its siblings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrefixMode {
    /// The shared prefix first, instructions and task after it.
    #[default]
    Shared,
    /// Its own prompt, with the instructions first.
    Own,
}

/// The effect of a failed delegate on its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The other delegates continue; the answer names the missing result.
    #[default]
    Continue,
    /// The turn fails, and the other delegates are cancelled.
    Fail,
}

/// A stage of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The agent. One agent may have several stages.
    pub agent: AgentId,
    /// The task; none: the turn's own input.
    pub task: Option<Arc<str>>,
}

/// An agent definition as it was loaded. It is recorded with the turns that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub id: AgentId,
    /// The purpose of the agent.
    pub description: Arc<str>,
    /// The instructions before its task.
    pub instructions: Arc<str>,
    /// Its implementation.
    pub kind: AgentKind,
    /// The model, as `provider/model` or `extractive`.
    pub model: Arc<str>,
    /// The model's limits.
    pub limits: Limits,
    /// Tools it may call, sorted.
    pub tools: Vec<Arc<str>>,
    /// The maximum number of model calls of one run.
    pub max_model_calls: u32,
    /// The time limit of one attempt, in milliseconds.
    pub timeout_ms: u64,
    /// Attempts after the first.
    pub retries: u32,
    /// The maximum number of concurrent runs of this agent.
    pub max_concurrent: u32,
    /// The input of its runs.
    pub context: ContextMode,
    /// The beginning of its prompt.
    pub prefix: PrefixMode,
    /// JSON schema of its answer, as JSON text.
    pub output_schema: Option<Arc<str>>,
    /// Sampling temperature in thousandths; none: the provider's default.
    pub temperature_milli: Option<u32>,
    /// How it and its siblings use the provider's prompt cache.
    pub cache_warm: CacheWarm,
    /// The effect of its failure on the turn.
    pub on_failure: OnFailure,
    /// Agents that always work before it answers.
    pub delegates: Vec<AgentId>,
    /// Agents that work one after the other before it answers, each with the results of the stages
    /// before it; empty if there are delegates.
    pub pipeline: Vec<Stage>,
    /// Free labels.
    pub tags: Vec<Arc<str>>,
}

impl Definition {
    /// BLAKE3 over every field that changes the behaviour or the prompt of the agent. A definition
    /// that has no fields added later keeps the digest under which journals recorded it.
    pub fn digest(&self) -> Digest {
        let mut h = Hasher::new("unisono/agent-definition", 1);
        h.str(self.id.as_str())
            .str(&self.description)
            .str(&self.instructions);
        match &self.kind {
            AgentKind::Llm => h.u64(0),
            AgentKind::Command(command) => command.digest_into(h.u64(1)),
            AgentKind::Custom(name) => h.u64(2).str(name),
            AgentKind::Http(http) => http.digest_into(h.u64(3)),
            AgentKind::Pipeline => h.u64(4),
            AgentKind::A2a(remote) => remote.digest_into(h.u64(5)),
            AgentKind::Acp(program) => program.digest_into(h.u64(6)),
        };
        h.str(&self.model)
            .u64(self.limits.window.0)
            .u64(self.limits.max_output.0);
        h.str(self.limits.encoding.name())
            .u64(self.limits.per_message.0);
        list(&mut h, &self.tools);
        h.u64(self.max_model_calls.into())
            .u64(self.timeout_ms)
            .u64(self.retries.into());
        h.u64(self.max_concurrent.into());
        h.u64(self.context as u64)
            .u64(self.prefix as u64)
            .u64(self.on_failure as u64);
        h.u64(self.delegates.len() as u64);
        for delegate in &self.delegates {
            h.str(delegate.as_str());
        }
        list(&mut h, &self.tags);
        self.digest_later_fields(&mut h);
        if self.limits.files != FileRules::default() {
            h.str("files").u64(self.limits.files.bits().into());
        }
        h.finish()
    }
}

impl Definition {
    fn digest_later_fields(&self, h: &mut Hasher) {
        let (schema, temperature) = (self.output_schema.as_deref(), self.temperature_milli);
        let warm = self.cache_warm;
        let alone = self.pipeline.is_empty();
        if (schema, temperature, warm, alone) == (None, None, CacheWarm::default(), true) {
            return;
        }
        h.opt_str(schema);
        // Temperature plus one; zero means none.
        h.u64(temperature.map_or(0, |milli| u64::from(milli) + 1))
            .u64(warm as u64);
        if alone {
            return;
        }
        h.u64(self.pipeline.len() as u64);
        for stage in &self.pipeline {
            h.str(stage.agent.as_str()).opt_str(stage.task.as_deref());
        }
    }
}

impl Command {
    fn digest_into<'h>(&self, h: &'h mut Hasher) -> &'h mut Hasher {
        h.str(&self.program);
        list(h, &self.args);
        map(h, &self.env);
        h.opt_str(self.cwd.as_deref());
        if !self.env_pass.is_empty() {
            list(h, &self.env_pass);
        }
        h
    }
}

impl Http {
    fn digest_into<'h>(&self, h: &'h mut Hasher) -> &'h mut Hasher {
        h.str(&self.url);
        map(h, &self.headers);
        h
    }
}

impl A2a {
    fn digest_into<'h>(&self, h: &'h mut Hasher) -> &'h mut Hasher {
        h.str(&self.url);
        map(h, &self.headers);
        h.opt_str(self.card_digest.as_deref())
            .u64(self.contract as u64)
    }
}

impl Acp {
    fn digest_into<'h>(&self, h: &'h mut Hasher) -> &'h mut Hasher {
        // Unlike the command of a command agent, this one has an end marker.
        let command = &self.command;
        h.str(&command.program);
        list(h, &command.args);
        map(h, &command.env);
        h.opt_str(command.cwd.as_deref());
        list(h, &command.env_pass);
        h.u64(self.worktree.into());
        for kinds in [&self.allow, &self.deny] {
            h.u64(kinds.len() as u64);
            for kind in kinds {
                h.u64(*kind as u64);
            }
        }
        h.u64(self.contract as u64);
        if !self.options.is_empty() || self.login.is_some() {
            map(h.str("options"), &self.options);
            h.opt_str(self.login.as_deref());
        }
        h
    }
}

fn map(h: &mut Hasher, items: &BTreeMap<Arc<str>, Arc<str>>) {
    h.u64(items.len() as u64);
    for (name, value) in items {
        h.str(name).str(value);
    }
}

fn list(h: &mut Hasher, items: &[Arc<str>]) {
    h.u64(items.len() as u64);
    for item in items {
        h.str(item);
    }
}

/// One task for one agent of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The agent.
    pub agent: Arc<Definition>,
    /// The task; none: the turn's own input.
    pub task: Option<Arc<str>>,
}

/// The agents of a turn: the lead and its delegates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Team {
    /// The agent that answers.
    pub lead: Arc<Definition>,
    /// The fan-out, or the stages of the lead's pipeline, in the order in which the lead gets their
    /// results.
    pub delegates: Vec<Assignment>,
    /// Agents to which the lead may delegate by itself.
    pub available: Vec<Arc<Definition>>,
}

impl Team {
    /// All definitions, the lead's first; a definition may occur twice.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<Definition>> {
        let delegates = self.delegates.iter().map(|d| &d.agent);
        std::iter::once(&self.lead)
            .chain(delegates)
            .chain(&self.available)
    }
}
