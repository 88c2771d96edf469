//! Agent definitions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unisono_context::{AgentId, Tokens, budget, call};
use unisono_session::agent;

use super::Invalid;
use super::codes::codes;
use super::text_map::TextMap;
use super::tokens::Encoding;

codes!(
    /// What an agent is given.
    ContextMode = agent::ContextMode { Snapshot, TaskOnly }
);

codes!(
    /// How an agent's prompt begins.
    PrefixMode = agent::PrefixMode { Shared, Own }
);

codes!(
    /// How a provider's prompt cache is made use of.
    CacheWarm = call::CacheWarm {
        Leader,
        Prewarm,
        Off,
    }
);

codes!(
    /// What a failed delegate does to its turn.
    OnFailure = agent::OnFailure { Continue, Fail }
);

/// An agent as it was loaded.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Definition {
    pub(super) id: Arc<str>,
    pub(super) description: Arc<str>,
    pub(super) instructions: Arc<str>,
    pub(super) kind: Kind,
    pub(super) model: Arc<str>,
    pub(super) limits: Limits,
    pub(super) tools: Vec<Arc<str>>,
    pub(super) max_turns: u32,
    pub(super) timeout_ms: u64,
    pub(super) retries: u32,
    pub(super) max_concurrent: u32,
    pub(super) context: ContextMode,
    pub(super) prefix: PrefixMode,
    pub(super) on_failure: OnFailure,
    pub(super) delegates: Vec<Arc<str>>,
    pub(super) tags: Vec<Arc<str>>,
    pub(super) output_schema: Option<Arc<str>>,
    pub(super) temperature_milli: Option<u32>,
    pub(super) cache_warm: CacheWarm,
}

/// One of the agents that work one after the other.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stage {
    agent: Arc<str>,
    task: Option<Arc<str>>,
}

/// What carries an agent out. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Kind {
    Llm,
    Command(Command),
    Custom(Arc<str>),
    Http(Http),
    Pipeline,
    CommandPassing(Command, Vec<Arc<str>>),
}

impl Kind {
    /// The version that knew it first, of those since 2.
    pub(super) const fn since(&self) -> u16 {
        match self {
            Self::Llm | Self::Command(_) | Self::Custom(_) => 2,
            Self::Http(_) | Self::Pipeline | Self::CommandPassing(..) => 3,
        }
    }
}

/// How a server is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Http {
    url: Arc<str>,
    headers: TextMap,
}

/// How a program is started.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Command {
    program: Arc<str>,
    args: Vec<Arc<str>>,
    env: TextMap,
    cwd: Option<Arc<str>>,
}

/// The limits of a model.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Limits {
    window_tokens: u64,
    max_output_tokens: u64,
    encoding: Encoding,
    per_message_tokens: u64,
}

impl From<&agent::Definition> for Definition {
    fn from(definition: &agent::Definition) -> Self {
        Self {
            id: definition.id.as_str().into(),
            description: definition.description.clone(),
            instructions: definition.instructions.clone(),
            kind: (&definition.kind).into(),
            model: definition.model.clone(),
            limits: definition.limits.into(),
            tools: definition.tools.clone(),
            max_turns: definition.max_turns,
            timeout_ms: definition.timeout_ms,
            retries: definition.retries,
            max_concurrent: definition.max_concurrent,
            context: definition.context.into(),
            prefix: definition.prefix.into(),
            on_failure: definition.on_failure.into(),
            delegates: definition
                .delegates
                .iter()
                .map(|id| id.as_str().into())
                .collect(),
            tags: definition.tags.clone(),
            output_schema: definition.output_schema.clone(),
            temperature_milli: definition.temperature_milli,
            cache_warm: definition.cache_warm.into(),
        }
    }
}

impl TryFrom<Definition> for agent::Definition {
    type Error = Invalid;

    fn try_from(definition: Definition) -> Result<Self, Invalid> {
        Ok(Self {
            id: AgentId::new(definition.id),
            description: definition.description,
            instructions: definition.instructions,
            kind: definition.kind.try_into()?,
            model: definition.model,
            limits: definition.limits.into(),
            tools: definition.tools,
            max_turns: definition.max_turns,
            timeout_ms: definition.timeout_ms,
            retries: definition.retries,
            max_concurrent: definition.max_concurrent,
            context: definition.context.into(),
            prefix: definition.prefix.into(),
            on_failure: definition.on_failure.into(),
            delegates: definition.delegates.into_iter().map(AgentId::new).collect(),
            pipeline: Vec::new(),
            tags: definition.tags,
            output_schema: definition.output_schema,
            temperature_milli: definition.temperature_milli,
            cache_warm: definition.cache_warm.into(),
        })
    }
}

impl From<&agent::Stage> for Stage {
    fn from(stage: &agent::Stage) -> Self {
        Self {
            agent: stage.agent.as_str().into(),
            task: stage.task.clone(),
        }
    }
}

impl From<Stage> for agent::Stage {
    fn from(stage: Stage) -> Self {
        Self {
            agent: AgentId::new(stage.agent),
            task: stage.task,
        }
    }
}

impl From<&agent::Kind> for Kind {
    fn from(kind: &agent::Kind) -> Self {
        match kind {
            agent::Kind::Llm => Self::Llm,
            agent::Kind::Command(command) if command.env_pass.is_empty() => {
                Self::Command(command.into())
            }
            agent::Kind::Command(command) => {
                Self::CommandPassing(command.into(), command.env_pass.clone())
            }
            agent::Kind::Custom(name) => Self::Custom(name.clone()),
            agent::Kind::Http(http) => Self::Http(Http {
                url: http.url.clone(),
                headers: (&http.headers).into(),
            }),
            agent::Kind::Pipeline => Self::Pipeline,
        }
    }
}

impl TryFrom<Kind> for agent::Kind {
    type Error = Invalid;

    fn try_from(kind: Kind) -> Result<Self, Invalid> {
        Ok(match kind {
            Kind::Llm => Self::Llm,
            Kind::Command(command) => Self::Command(command.try_into()?),
            Kind::CommandPassing(command, env_pass) => Self::Command(agent::Command {
                env_pass,
                ..command.try_into()?
            }),
            Kind::Custom(name) => Self::Custom(name),
            Kind::Http(http) => Self::Http(agent::Http {
                url: http.url,
                headers: http.headers.try_into()?,
            }),
            Kind::Pipeline => Self::Pipeline,
        })
    }
}

impl From<&agent::Command> for Command {
    fn from(command: &agent::Command) -> Self {
        Self {
            program: command.program.clone(),
            args: command.args.clone(),
            env: (&command.env).into(),
            cwd: command.cwd.clone(),
        }
    }
}

impl TryFrom<Command> for agent::Command {
    type Error = Invalid;

    fn try_from(command: Command) -> Result<Self, Invalid> {
        Ok(Self {
            program: command.program,
            args: command.args,
            env: command.env.try_into()?,
            cwd: command.cwd,
            env_pass: Vec::new(),
        })
    }
}

impl From<budget::Limits> for Limits {
    fn from(limits: budget::Limits) -> Self {
        Self {
            window_tokens: limits.window.0,
            max_output_tokens: limits.max_output.0,
            encoding: limits.encoding.into(),
            per_message_tokens: limits.per_message.0,
        }
    }
}

impl From<Limits> for budget::Limits {
    fn from(limits: Limits) -> Self {
        Self {
            window: Tokens(limits.window_tokens),
            max_output: Tokens(limits.max_output_tokens),
            encoding: limits.encoding.into(),
            per_message: Tokens(limits.per_message_tokens),
        }
    }
}
