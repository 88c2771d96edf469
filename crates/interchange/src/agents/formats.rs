//! The keys of each format and their conversion. Sources: the public documentation of each
//! program's agent files, as of 2026.

use super::Format;
use super::rule::NOTHING_TO_PERMIT;
use super::rule::Rule::{self, *};

/// A key, with dots between its parts, and what becomes of it.
pub(super) type Keys = &'static [(&'static str, Rule)];

const HOOKS: Rule = Lost("there are no hooks around an agent's calls");
const LOOK: Rule = Dropped;
const RIGHTS: Rule = Lost(NOTHING_TO_PERMIT);
const EFFORT: Rule = Lost("how much a model thinks is not set per agent");
const PASSED: Rule = Lost("it has no counterpart");

/// The keys of a format.
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

/// What becomes of a key of a format, where it is known.
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
    ("maxTurns", Whole("max_model_calls")),
    ("permissionMode", Asks),
    ("skills", Skills),
    ("mcpServers", Servers),
    ("hooks", HOOKS),
    (
        "memory",
        Lost("an agent remembers nothing between turns but the conversation"),
    ),
    ("background", Dropped),
    ("effort", EFFORT),
    ("isolation", Lost("agents have no working directory")),
    ("initialPrompt", Lost("its task is what it is told first")),
    ("color", LOOK),
    ("disabled", Disabled),
];

const CODEX: Keys = &[
    ("name", Name),
    ("description", Description),
    ("developer_instructions", Instructions),
    ("model", Model(Some("openai"))),
    ("model_reasoning_effort", EFFORT),
    ("model_reasoning_summary", EFFORT),
    ("model_verbosity", PASSED),
    (
        "model_provider",
        Lost("a model is named with its provider: provider/model"),
    ),
    ("sandbox_mode", RIGHTS),
    ("sandbox_workspace_write", RIGHTS),
    ("approval_policy", Asks),
    ("web_search", Lost("there is no such tool")),
    (
        "tools",
        Lost("tools are named in `tools`, and none of these is one"),
    ),
    ("mcp_servers", Servers),
    ("skills", Skills),
    ("nickname_candidates", LOOK),
];

const COPILOT: Keys = &[
    ("name", Title),
    ("description", Description),
    ("tools", Tools),
    ("model", Model(None)),
    ("target", Dropped),
    (
        "agents",
        Lost("whom a lead may ask is chosen with `turn.agents` or --agents"),
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
    ("argument-hint", LOOK),
    ("metadata", LOOK),
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
    ("steps", Whole("max_model_calls")),
    ("maxSteps", Whole("max_model_calls")),
    ("tools", Switches),
    ("permission", Rights),
    ("permissions", Rights),
    ("mode", Changed("any agent may answer and be given tasks")),
    ("top_p", Lost("only the temperature is set per agent")),
    ("variant", EFFORT),
    ("options", PASSED),
    ("disable", Disabled),
    ("disabled", Disabled),
    ("hidden", LOOK),
    ("color", LOOK),
];

const GEMINI: Keys = &[
    ("name", Name),
    ("description", Description),
    ("kind", Local),
    ("display_name", LOOK),
    ("tools", Tools),
    ("model", Model(Some("gemini"))),
    ("model.model", Model(Some("gemini"))),
    ("model.temperature", Temperature),
    ("model.top_p", Lost("only the temperature is set per agent")),
    ("model.thinking_budget", EFFORT),
    ("temperature", Temperature),
    ("max_turns", Whole("max_model_calls")),
    ("run.max_turns", Whole("max_model_calls")),
    ("timeout_mins", Minutes),
    ("run.timeout_mins", Minutes),
    ("prompts.system_prompt", Instructions),
    ("prompts.query", Lost("its task is what it is told first")),
    ("mcpServers", Servers),
    ("mcp_servers", Servers),
    ("input", Lost("an agent is given a task in words")),
    (
        "output",
        Lost("write an `output_schema` where the answer has to have a shape"),
    ),
];

const CREWAI: Keys = &[
    ("role", Role),
    ("goal", Goal),
    ("backstory", Backstory),
    ("llm", Model(None)),
    ("max_iter", Whole("max_model_calls")),
    ("max_execution_time", Seconds),
    ("max_retry_limit", Whole("retries")),
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
        Lost("an agent remembers nothing between turns but the conversation"),
    ),
    ("reasoning", EFFORT),
    ("max_reasoning_attempts", EFFORT),
    ("allow_code_execution", RIGHTS),
    ("code_execution_mode", RIGHTS),
    (
        "function_calling_llm",
        Lost("the agent's own model calls tools"),
    ),
    ("respect_context_window", Dropped),
    ("system_template", PASSED),
    ("prompt_template", PASSED),
    ("response_template", PASSED),
    ("use_system_prompt", PASSED),
    (
        "knowledge_sources",
        Lost("what it has to know is in the conversation or its instructions"),
    ),
    ("embedder", PASSED),
    ("multimodal", PASSED),
    ("inject_date", PASSED),
    ("date_format", PASSED),
    ("step_callback", HOOKS),
    ("cache", Dropped),
    ("verbose", LOOK),
];
