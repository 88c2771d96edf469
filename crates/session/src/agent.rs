//! Agent definitions as values, and the team of a turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::budget::Limits;
use unisono_context::call::CacheWarm;
use unisono_context::digest::Hasher;
use unisono_context::{AgentId, Digest};

use crate::tool::Contract;

/// What carries an agent out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentKind {
    /// A language model, the embedded extractive one included.
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
    /// Nobody: what came of the last stage of its pipeline is its answer.
    Pipeline,
}

/// How a server is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Its address.
    pub url: Arc<str>,
    /// Headers of each request. `${NAME}` stands for a variable of the environment, so that no
    /// secret is recorded.
    pub headers: BTreeMap<Arc<str>, Arc<str>>,
}

/// How an agent of another program is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2a {
    /// The address of its card, or the one that has a card below it.
    pub url: Arc<str>,
    /// Headers of each request. `${NAME}` stands for a variable of the environment, so that no
    /// secret is recorded.
    pub headers: BTreeMap<Arc<str>, Arc<str>>,
    /// The digest that its card must have.
    pub card_digest: Option<Arc<str>>,
    /// What giving it the same message twice does.
    pub contract: Contract,
}

/// How a coding agent is started, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acp {
    /// The program. Its working directory is the one that the agent works in.
    pub command: Command,
    /// Whether each run works in a git worktree of its own.
    pub worktree: bool,
    /// Kinds of tool calls that are allowed where the agent asks.
    pub allow: Vec<ToolKind>,
    /// What giving it the same task twice does.
    pub contract: Contract,
}

/// What a tool call of a coding agent does, as the agent itself says.
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

impl ToolKind {
    /// Every kind.
    pub const ALL: [ToolKind; 9] = [
        ToolKind::Read,
        ToolKind::Edit,
        ToolKind::Delete,
        ToolKind::Move,
        ToolKind::Search,
        ToolKind::Execute,
        ToolKind::Think,
        ToolKind::Fetch,
        ToolKind::Other,
    ];
    /// Those that are allowed where a definition says nothing.
    pub const DEFAULT: [ToolKind; 3] = [ToolKind::Read, ToolKind::Search, ToolKind::Think];

    /// As the protocol and definitions write it.
    pub const fn name(self) -> &'static str {
        match self {
            ToolKind::Read => "read",
            ToolKind::Edit => "edit",
            ToolKind::Delete => "delete",
            ToolKind::Move => "move",
            ToolKind::Search => "search",
            ToolKind::Execute => "execute",
            ToolKind::Think => "think",
            ToolKind::Fetch => "fetch",
            ToolKind::Other => "other",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<ToolKind> {
        let mut all = ToolKind::ALL.into_iter();
        all.find(|kind| kind.name() == name)
    }
}

impl AgentKind {
    /// As definitions write it.
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
}

/// How a program is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program.
    pub program: Arc<str>,
    /// Its arguments.
    pub args: Vec<Arc<str>>,
    /// Variables set for it.
    pub env: BTreeMap<Arc<str>, Arc<str>>,
    /// Its working directory.
    pub cwd: Option<Arc<str>>,
    /// Variables of the environment that it inherits besides those that every program does.
    pub env_pass: Vec<Arc<str>>,
}

/// What an agent is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextMode {
    /// The turn's snapshot and the task.
    #[default]
    Snapshot,
    /// The task only.
    TaskOnly,
}

/// Whether an agent's prompt begins with the bytes its siblings share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrefixMode {
    /// The shared prefix first, persona and task after it.
    #[default]
    Shared,
    /// Its own prompt, persona first.
    Own,
}

/// What a failed delegate does to its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The others go on; the answer says what is missing.
    #[default]
    Continue,
    /// The turn fails and the others are cancelled.
    Fail,
}

/// One of the agents that work one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The agent. One may have several stages.
    pub agent: AgentId,
    /// What it is to do; none: the turn's own input.
    pub task: Option<Arc<str>>,
}

/// An agent as it was loaded. Recorded with the turns that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub id: AgentId,
    /// What it is for.
    pub description: Arc<str>,
    /// Its persona: what it is told before its task.
    pub instructions: Arc<str>,
    /// What carries it out.
    pub kind: AgentKind,
    /// The model, as `provider/model` or `extractive`.
    pub model: Arc<str>,
    /// The model's limits.
    pub limits: Limits,
    /// Tools it may call, sorted.
    pub tools: Vec<Arc<str>>,
    /// Model calls of one run at most.
    pub max_turns: u32,
    /// How long one attempt may take.
    pub timeout_ms: u64,
    /// Attempts after the first.
    pub retries: u32,
    /// Runs of this agent at one time.
    pub max_concurrent: u32,
    /// What it is given.
    pub context: ContextMode,
    /// How its prompt begins.
    pub prefix: PrefixMode,
    /// JSON schema that its answer must fit, as JSON text.
    pub output_schema: Option<Arc<str>>,
    /// Sampling temperature in thousandths; none: the provider's default.
    pub temperature_milli: Option<u32>,
    /// How it and its siblings make use of the provider's prompt cache.
    pub cache_warm: CacheWarm,
    /// What its failure does to the turn.
    pub on_failure: OnFailure,
    /// Agents that always work before it answers.
    pub delegates: Vec<AgentId>,
    /// Agents that work before it answers one after the other, each with what came of those
    /// before it; empty where there are delegates.
    pub pipeline: Vec<Stage>,
    /// Free labels.
    pub tags: Vec<Arc<str>>,
}

impl Definition {
    /// BLAKE3 over every field that changes what the agent does or is sent. A definition without
    /// what came later keeps the digest it was recorded under: journals name it by that.
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
        h.u64(self.max_turns.into())
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
        // One more than the temperature, so that zero says that there is none.
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
        // Unlike a command that is an agent itself, its end is marked.
        let command = &self.command;
        h.str(&command.program);
        list(h, &command.args);
        map(h, &command.env);
        h.opt_str(command.cwd.as_deref());
        list(h, &command.env_pass);
        h.u64(self.worktree.into()).u64(self.allow.len() as u64);
        for kind in &self.allow {
            h.u64(*kind as u64);
        }
        h.u64(self.contract as u64)
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
    /// What it is to do; none: the turn's own input.
    pub task: Option<Arc<str>>,
}

/// The agents of a turn: who answers, and who works before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Team {
    /// The agent that answers.
    pub lead: Arc<Definition>,
    /// The fan-out, or the stages of the lead's pipeline, in the order in which their results are
    /// given to the lead.
    pub delegates: Vec<Assignment>,
    /// Agents that the lead may give tasks to by itself.
    pub available: Vec<Arc<Definition>>,
}

impl Team {
    /// Every definition, the lead's first; one may appear twice.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<Definition>> {
        let delegates = self.delegates.iter().map(|d| &d.agent);
        std::iter::once(&self.lead)
            .chain(delegates)
            .chain(&self.available)
    }
}
