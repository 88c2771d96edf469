//! Every key of the configuration.

mod agents;

use crate::schema::{Key, Kind, key};
pub(crate) use agents::AGENT;

const TOKENS: Kind = Kind::Whole(0, i64::MAX);
const SOME: Kind = Kind::Whole(1, u32::MAX as i64);
const DOLLARS: Kind = Kind::Between(0.0, 1e6);
const SECONDS: Kind = Kind::Whole(1, 31_536_000);

pub(crate) const ALL: &[Key] = &[
    key("store", Kind::Section(STORE)),
    key("models", Kind::Section(MODELS)),
    key("providers", Kind::Named(PROVIDER)),
    key("mcp", Kind::Named(MCP)),
    key("approvals", Kind::Section(APPROVALS)),
    key("hooks", Kind::Named(HOOK)),
    key("schedules", Kind::Named(SCHEDULE)),
    key("triggers", Kind::Named(TRIGGER)),
    key("compaction", Kind::Section(COMPACTION)),
    key("turn", Kind::Section(TURN)),
    key("delegation", Kind::Section(DELEGATION)),
    key("budget", Kind::Section(BUDGET)),
    key("agent_defaults", Kind::Section(AGENT_DEFAULTS)),
    key("agents", Kind::Named(AGENT)),
    key("runtime", Kind::Section(RUNTIME)),
    key("server", Kind::Section(SERVER)),
    key("attachments", Kind::Section(ATTACHMENTS)),
    key("cluster", Kind::Section(CLUSTER)),
    key("audit", Kind::Section(AUDIT)),
    key("log", Kind::Section(LOG)),
    key("telemetry", Kind::Section(TELEMETRY)),
    key("web", Kind::Section(WEB)),
];

const STORE: &[Key] = &[
    key("path", Kind::Path),
    key("url", Kind::Text),
    key("password_file", Kind::Path),
    key("search_index", Kind::Choice(&["disk", "memory"])),
    key("retention_days", Kind::Whole(0, 36_500)),
    key("vacuum", Kind::Choice(&["auto", "off"])),
    key("vacuum_every_seconds", SECONDS),
    key("vacuum_over_mib", SOME),
    key("vacuum_mib_per_second", SOME),
];

const CLUSTER: &[Key] = &[
    key("address", Kind::Text),
    key("takeover_after", Kind::DurationFrom(1_000)),
];

const MODELS: &[Key] = &[
    key("default", Kind::Text),
    key("override", Kind::Text),
    key("fallback", Kind::Texts),
    key("catalogue", Kind::Path),
];

/// The keys of `[providers.<name>]`.
const PROVIDER: &[Key] = &[
    key("like", Kind::Choice(PROVIDERS)),
    key("api", Kind::Choice(&["chat", "responses"])),
    key("base_url", Kind::Text),
    key("api_version", Kind::Text),
    key("api_key_env", Kind::Text),
    key("api_key_file", Kind::Path),
    key("headers", Kind::TextMap),
    key("default_model", Kind::Text),
    key("connect_timeout", Kind::Duration),
    key("first_byte_timeout", Kind::Duration),
    key("idle_timeout", Kind::Duration),
    key("total_timeout", Kind::Duration),
    key("attempts", Kind::Whole(1, 20)),
    key("reply_cap_bytes", Kind::Whole(1_024, i64::MAX)),
    key("requests_per_minute", SOME),
    key("tokens_per_minute", Kind::Whole(1, i64::MAX)),
    key("max_concurrent", SOME),
    key("queue_timeout", Kind::Duration),
    key("slots", SOME),
];

/// The available built-in providers.
const PROVIDERS: &[&str] = &[
    "openai",
    "anthropic",
    "gemini",
    "azure",
    "openai-compatible",
];

/// The keys of `[mcp.<name>]`.
const MCP: &[Key] = &[
    key("command", Kind::Program),
    key("args", Kind::Texts),
    key("env", Kind::TextMap),
    key("env_pass", Kind::Texts),
    key("cwd", Kind::Path),
    key("url", Kind::Text),
    key("headers", Kind::TextMap),
    key("token_env", Kind::Text),
    key("start_timeout", Kind::Duration),
    key("timeout", Kind::Duration),
    key("tools", Kind::Texts),
    key("contracts", Kind::TextMap),
    key("approve", Kind::Texts),
    key("skills", Kind::Flag),
];

const APPROVALS: &[Key] = &[
    key("require", Kind::Texts),
    key("timeout", Kind::Duration),
    key("contracts", Kind::TextMap),
];

/// The keys of `[hooks.<name>]`.
const HOOK: &[Key] = &[
    key("on", Kind::Texts),
    key("tools", Kind::Texts),
    key("command", Kind::Program),
    key("args", Kind::Texts),
    key("env", Kind::TextMap),
    key("env_pass", Kind::Texts),
    key("cwd", Kind::Path),
    key("url", Kind::Text),
    key("headers", Kind::TextMap),
    key("timeout", Kind::Duration),
    key("on_failure", Kind::Choice(&["ignore", "deny"])),
];

/// The keys of a schedule's or a trigger's task.
macro_rules! task_keys {
    ($($more:expr),*) => {
        &[
            $($more,)*
            key("session", Kind::Text),
            key("branch", Kind::Text),
            key("lead", Kind::Text),
            key("agents", Kind::Texts),
            key("settings", Kind::TextMap),
            key("task", Kind::Text),
        ]
    };
}

/// The keys of `[schedules.<name>]`.
const SCHEDULE: &[Key] = task_keys!(
    key("cron", Kind::Text),
    key("every", Kind::Duration),
    key("timezone", Kind::Text),
    key("missed", Kind::Choice(&["run", "skip"])),
    key("enabled", Kind::Flag)
);

/// The keys of `[triggers.<name>]`.
const TRIGGER: &[Key] = task_keys!(
    key("secret_env", Kind::Text),
    key("secret_file", Kind::Path)
);

const TURN: &[Key] = &[
    key("lead", Kind::Text),
    key("agents", Kind::Texts),
    key("agents_md_bytes", Kind::Whole(0, 1_048_576)),
    key("skills_bytes", Kind::Whole(0, 1_048_576)),
    key("timeout_seconds", SECONDS),
    key("calls_per_reply", SOME),
];

const DELEGATION: &[Key] = &[
    key("depth", Kind::Whole(0, 32)),
    key("live_runs", Kind::Whole(2, u32::MAX as i64)),
    key("results_share", Kind::Margin),
];

const BUDGET: &[Key] = &[
    key("daemon", Kind::Section(DAEMON_BUDGET)),
    key("owner", Kind::Section(OWNER_BUDGET)),
    key("owners", Kind::Named(OWNER_BUDGET)),
    key("session", Kind::Section(BOUNDS_OF_MANY)),
    key("turn", Kind::Section(BOUNDS_OF_MANY)),
    key("run", Kind::Section(BOUNDS)),
];

const OWNER_BUDGET: &[Key] = &[
    key("max_cost_usd", DOLLARS),
    key("max_tokens", Kind::Whole(1, i64::MAX)),
];

const DAEMON_BUDGET: &[Key] = &[
    key("max_cost_usd", DOLLARS),
    key("max_tokens", Kind::Whole(1, i64::MAX)),
    key("period_hours", Kind::Whole(1, 87_600)),
    key("live_runs", SOME),
    key("time", Kind::Refused(NO_DAEMON_TIME)),
];

/// Sessions work in parallel: the sum of their times is not a time of the daemon.
const NO_DAEMON_TIME: &str = "sessions work at the same time, so the time they take together says \
    neither how late it is nor what was used; bound each with budget.session.time and \
    budget.turn.time, how many work at a time with budget.daemon.live_runs, and what all of them \
    use in a period with max_cost_usd or max_tokens";

const BOUNDS_OF_MANY: &[Key] = &[
    key("max_cost_usd", DOLLARS),
    key("max_tokens", Kind::Whole(1, i64::MAX)),
    key("time", Kind::Duration),
    key("live_runs", SOME),
];

const BOUNDS: &[Key] = &[
    key("max_cost_usd", DOLLARS),
    key("max_tokens", Kind::Whole(1, i64::MAX)),
    key("time", Kind::Duration),
];

const AGENT_DEFAULTS: &[Key] = &[
    key("max_model_calls", SOME),
    key("timeout", Kind::Duration),
    key("retries", Kind::Whole(0, 100)),
    key("max_concurrent", SOME),
];

const RUNTIME: &[Key] = &[
    key("queue_per_agent", SOME),
    key("queue_per_session", SOME),
    key("compactions", SOME),
    key("compaction_queue", SOME),
    key("countings", SOME),
    key("stuck_after_seconds", SECONDS),
    key("passivate_after_seconds", SECONDS),
    key("sessions_in_memory", SOME),
    key("session_bytes_in_memory", Kind::Whole(1, i64::MAX)),
    key("recall", Kind::Choice(&["branch", "session", "owner"])),
];

const SERVER: &[Key] = &[
    key("bind", Kind::Address),
    key("allow_remote", Kind::Flag),
    key("hosts", Kind::Texts),
    key("public_url", Kind::AnyText),
    key("callback_hosts", Kind::Texts),
    key("a2a_agents", Kind::Texts),
    key("token_file", Kind::Path),
    key("requests", SOME),
    key("streams", SOME),
    key("requests_per_second", Kind::Whole(0, u32::MAX as i64)),
    key("token_requests_per_minute", Kind::Whole(0, u32::MAX as i64)),
    key("trusted_user_header", Kind::AnyText),
    key(
        "trusted_user_scope",
        Kind::Choice(&["read", "ask", "approve"]),
    ),
    key("connections", SOME),
    key("body_limit_bytes", Kind::Whole(1_024, u32::MAX as i64)),
    key("bodies_bytes", Kind::Whole(1_024, i64::MAX)),
    key("import_messages", SOME),
    key("stall_seconds", SECONDS),
    key("drain_seconds", SECONDS),
    key("mcp_task_after", Kind::Duration),
    key("attachments", Kind::Choice(&["refuse", "note"])),
    key("reload_seconds", Kind::Whole(0, 86_400)),
];

const ATTACHMENTS: &[Key] = &[
    key("max_bytes", Kind::Whole(1_024, 48 << 20)),
    key("session_bytes", Kind::Whole(1_024, i64::MAX)),
    key("store_bytes", Kind::Whole(1_024, i64::MAX)),
    key("allowed_hosts", Kind::Texts),
];

const AUDIT: &[Key] = &[
    key("enabled", Kind::Flag),
    key("keep_days", Kind::Whole(1, 36_500)),
    key("max_entries", Kind::Whole(1_000, 100_000_000)),
];

const LOG: &[Key] = &[
    key("level", Kind::Text),
    key("format", Kind::Choice(&["text", "json"])),
];

const TELEMETRY: &[Key] = &[key("otlp_endpoint", Kind::AnyText)];

const WEB: &[Key] = &[key("edit_agents", Kind::Choice(&["auto", "on", "off"]))];

/// The presets' names, as [`unisono_context::policy::Preset`] has them.
const PRESETS: &[&str] = &[
    "off",
    "truncate",
    "checkpoint",
    "retention",
    "progressive",
    "tiered",
];

/// The styles of summaries, as [`unisono_model::summariser::Style`] has them.
const STYLES: &[&str] = &["standard", "detailed", "concise", "telegraphic"];

/// The numbers of a compaction policy: for all models, for a provider, or for one model.
macro_rules! policy_keys {
    ($($more:expr),*) => {
        &[
            key("preset", Kind::Choice(PRESETS)),
            key("trigger_tokens", Kind::Whole(1, i64::MAX)),
            key("trigger_of_window", Kind::Share),
            key("trigger_of_usable", Kind::Share),
            key("minimum_tokens", TOKENS),
            key("target", Kind::Share),
            key("keep_messages", SOME),
            key("keep_tokens", Kind::Whole(1, i64::MAX)),
            key("keep_share", Kind::Share),
            key("align", Kind::Whole(0, u32::MAX as i64)),
            key("summary_cap_tokens", Kind::Whole(1, i64::MAX)),
            key("mask_over_tokens", TOKENS),
            key("mask_keep_newest", Kind::Whole(0, u32::MAX as i64)),
            key("model_checkpoints", Kind::Whole(0, u32::MAX as i64)),
            key("model_checkpoints_per_hours", Kind::Whole(1, 8_760)),
            key("safety", Kind::Margin),
            key("summarisers", Kind::Texts),
            key("prompt", Kind::Prompt),
            key("style", Kind::Choice(STYLES)),
            key("tier_topic", Kind::Share),
            key("tier_topics", Kind::Share),
            key("tier_bulks", Kind::Share),
            key("topic_cap_tokens", Kind::Whole(32, i64::MAX)),
            key("bulk_cap_tokens", Kind::Whole(32, i64::MAX)),
            key("topics_keep", Kind::Whole(0, u32::MAX as i64)),
            key("bulk_merge", Kind::Whole(2, u32::MAX as i64)),
            key("attention", Kind::Margin),
            key("large_message", Kind::Share),
            key("large_message_chars", Kind::Whole(12, u32::MAX as i64)),
            key("silence_minutes", Kind::Whole(0, 525_600)),
            key("topic_ends_over", Kind::Margin),
            key("topic_phrases", Kind::Texts),
            $($more),*
        ]
    };
}

/// The keys of `[compaction.providers.<p>]` and `[compaction.models."p/m"]`.
pub(crate) const POLICY: &[Key] = policy_keys!();

const COMPACTION: &[Key] = policy_keys!(
    key("deadline_seconds", SECONDS),
    key("notice", Kind::Choice(&["on", "off"])),
    key("prepare", Kind::Choice(&["on", "off"])),
    key("summariser_retries", Kind::Whole(0, 100)),
    key("providers", Kind::Named(POLICY)),
    key("models", Kind::Named(POLICY))
);

/// Keys for the same value in different units: at most one of each group.
pub(crate) const EXCLUSIVE: &[&[&str]] = &[
    &["trigger_tokens", "trigger_of_window", "trigger_of_usable"],
    &["keep_messages", "keep_tokens", "keep_share"],
    &["large_message", "large_message_chars"],
];

#[cfg(test)]
mod tests {
    use unisono_context::policy::Preset;
    use unisono_model::summariser::Style;

    use super::{ALL, Key, Kind};
    use crate::settings::DEFAULTS;

    /// Every section with keys of its own, by its dotted name.
    fn sections(path: &str, keys: &'static [Key]) -> Vec<(String, &'static [Key])> {
        let inner = keys.iter().filter_map(|key| match key.kind {
            Kind::Section(keys) => Some((format!("{path}{}", key.name), keys)),
            _ => None,
        });
        let all = inner.flat_map(|(name, keys)| {
            let nested = sections(&format!("{name}."), keys);
            std::iter::once((name, keys)).chain(nested)
        });
        // A table of tables alone has no head.
        let is_table = |key: &Key| matches!(key.kind, Kind::Section(_) | Kind::Named(_));
        all.filter(|(_, keys)| !keys.iter().all(is_table)).collect()
    }

    #[test]
    fn the_defaults_file_shows_every_key() {
        for (name, keys) in sections("", ALL) {
            let head = format!("\n[{name}]\n");
            let (_, body) = DEFAULTS.split_once(&head).expect(&name);
            let body = body.split("\n[").next().unwrap_or_default();
            for key in keys.iter().filter(|key| {
                !matches!(
                    key.kind,
                    Kind::Named(_) | Kind::Section(_) | Kind::Refused(_)
                )
            }) {
                let shown = |line: &str| {
                    let line = line.strip_prefix("# ").unwrap_or(line);
                    line.starts_with(&format!("{} = ", key.name))
                };
                let line = body.lines().position(shown).expect(key.name);
                let above = body.lines().take(line).any(|line| line.starts_with("# "));
                assert!(above, "{} has no comment", key.name);
            }
        }
    }

    #[test]
    fn the_presets_are_those_of_the_planner() {
        assert_eq!(super::PRESETS, Preset::ALL.map(Preset::name));
        assert_eq!(super::STYLES, Style::ALL.map(Style::name));
    }
}
