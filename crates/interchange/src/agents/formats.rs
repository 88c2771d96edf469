//! The keys of each format and their conversion. Sources: the public documentation of each
//! program's agent files, as of 2026.

use super::Format;
use super::rule::Rule::{self, *};
use super::rule::{NO_EFFORT, NOTHING_TO_PERMIT};

/// Keys, with dots between their parts, and their conversion.
pub(super) type Keys = &'static [(&'static str, Rule)];

const HOOKS: Rule = Lost("hooks around an agent's calls are not supported");
const COSMETIC: Rule = Dropped;
const PERMISSIONS: Rule = Lost(NOTHING_TO_PERMIT);
const EFFORT: Rule = Lost(NO_EFFORT);
const NO_COUNTERPART: Rule = Lost("it has no counterpart");

pub(super) fn keys(format: Format) -> Keys {
    match format {
        Format::Claude => CLAUDE,
        Format::Codex => CODEX,
        Format::Copilot => COPILOT,
        Format::OpenCode => OPENCODE,
        Format::Gemini => GEMINI,
        Format::CrewAi => CREWAI,
    }
}

/// The conversion of a key of a format, if it is known.
pub(super) fn rule(format: Format, key: &str) -> Option<Rule> {
    let mut keys = keys(format).iter();
    keys.find(|(known, _)| *known == key).map(|(_, rule)| *rule)
}

const CLAUDE: Keys = &[
    ("name", Name),
    ("description", Description),
    ("tools", Tools),
    ("disallowedTools", Denied),
    ("model", Model(Some("anthropic"))),
    ("maxTurns", Number("max_model_calls")),
    ("permissionMode", ApprovalMode),
    ("skills", Skills),
    ("mcpServers", Servers),
    ("hooks", HOOKS),
    (
        "memory",
        Lost("an agent keeps only the conversation between turns"),
    ),
    ("background", Dropped),
    ("effort", EFFORT),
    ("isolation", Lost("agents have no working directory")),
    ("initialPrompt", Lost("its first message is its task")),
    ("color", COSMETIC),
    ("disabled", Disabled),
];

const CODEX: Keys = &[
    ("name", Name),
    ("description", Description),
    ("developer_instructions", Instructions),
    ("model", Model(Some("openai"))),
    ("model_reasoning_effort", EFFORT),
    ("model_reasoning_summary", EFFORT),
    ("model_verbosity", NO_COUNTERPART),
    (
        "model_provider",
        Lost("write a model with its provider: provider/model"),
    ),
    ("sandbox_mode", PERMISSIONS),
    ("sandbox_workspace_write", PERMISSIONS),
    ("approval_policy", ApprovalMode),
    ("web_search", Lost("there is no such tool")),
    (
        "tools",
        Lost("tools are named in `tools`, and none of these is one"),
    ),
    ("mcp_servers", Servers),
    ("skills", Skills),
    ("nickname_candidates", COSMETIC),
];

const COPILOT: Keys = &[
    ("name", Title),
    ("description", Description),
    ("tools", Tools),
    ("model", Model(None)),
    ("target", Dropped),
    (
        "agents",
        Lost("the agents that a lead may ask are chosen with `turn.agents` or --agents"),
    ),
    (
        "handoffs",
        Lost("a lead with the tool `delegate` decides who goes on"),
    ),
    (
        "infer",
        Lost("any agent may be given tasks; leave it out of `turn.agents` to keep it from them"),
    ),
    (
        "disable-model-invocation",
        Lost("any agent may be given tasks; leave it out of `turn.agents` to keep it from them"),
    ),
    ("user-invocable", Lost("any agent may be asked by name")),
    ("argument-hint", COSMETIC),
    ("metadata", COSMETIC),
    ("mcp-servers", Servers),
    ("hooks", HOOKS),
];

const OPENCODE: Keys = &[
    ("name", Name),
    ("description", Description),
    ("prompt", Instructions),
    ("system", Instructions),
    ("model", Model(None)),
    ("temperature", Temperature),
    ("steps", Number("max_model_calls")),
    ("maxSteps", Number("max_model_calls")),
    ("tools", Switches),
    ("permission", Permissions),
    ("permissions", Permissions),
    ("mode", Changed("any agent may answer and be given tasks")),
    ("top_p", Lost("only the temperature is set per agent")),
    ("variant", EFFORT),
    ("options", NO_COUNTERPART),
    ("request.body.temperature", Temperature),
    (
        "request.body.top_p",
        Lost("only the temperature is set per agent"),
    ),
    ("disable", Disabled),
    ("disabled", Disabled),
    ("hidden", COSMETIC),
    ("color", COSMETIC),
];

const GEMINI: Keys = &[
    ("name", Name),
    ("description", Description),
    ("kind", Local),
    ("display_name", COSMETIC),
    ("tools", Tools),
    ("model", Model(Some("gemini"))),
    ("model.model", Model(Some("gemini"))),
    ("model.temperature", Temperature),
    ("model.top_p", Lost("only the temperature is set per agent")),
    ("model.thinking_budget", EFFORT),
    ("temperature", Temperature),
    ("max_turns", Number("max_model_calls")),
    ("run.max_turns", Number("max_model_calls")),
    ("timeout_mins", Minutes),
    ("run.timeout_mins", Minutes),
    ("prompts.system_prompt", Instructions),
    ("prompts.query", Lost("its first message is its task")),
    ("mcpServers", Servers),
    ("mcp_servers", Servers),
    ("input", Lost("an agent's task is a text")),
    (
        "output",
        Lost("write an `output_schema` if the answer must have a structure"),
    ),
];

const CREWAI: Keys = &[
    ("role", Role),
    ("goal", Goal),
    ("backstory", Backstory),
    ("llm", Model(None)),
    ("max_iter", Number("max_model_calls")),
    ("max_execution_time", Seconds),
    ("max_retry_limit", Number("retries")),
    ("allow_delegation", Delegation),
    ("tools", Tools),
    (
        "max_rpm",
        Lost(
            "requests per minute are limited per provider: `providers.<name>.requests_per_minute`",
        ),
    ),
    (
        "memory",
        Lost("an agent keeps only the conversation between turns"),
    ),
    ("reasoning", EFFORT),
    ("max_reasoning_attempts", EFFORT),
    ("allow_code_execution", PERMISSIONS),
    ("code_execution_mode", PERMISSIONS),
    (
        "function_calling_llm",
        Lost("the agent's own model calls tools"),
    ),
    ("respect_context_window", Dropped),
    ("system_template", NO_COUNTERPART),
    ("prompt_template", NO_COUNTERPART),
    ("response_template", NO_COUNTERPART),
    ("use_system_prompt", NO_COUNTERPART),
    (
        "knowledge_sources",
        Lost("its knowledge comes from the conversation and its instructions"),
    ),
    ("embedder", NO_COUNTERPART),
    ("multimodal", NO_COUNTERPART),
    ("inject_date", NO_COUNTERPART),
    ("date_format", NO_COUNTERPART),
    ("step_callback", HOOKS),
    ("cache", Dropped),
    ("verbose", COSMETIC),
];
