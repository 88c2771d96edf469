//! Makes a definition from the keys of one agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::attachment::FileRules;
use unisono_context::budget::Limits;
use unisono_context::call::CacheWarm;
use unisono_context::{AgentId, Cost};
use unisono_model::catalogue::{EXTRACTIVE, Entry};
use unisono_model::media::Accepts;
use unisono_session::agent::{AgentKind, Command, ContextMode, Definition, OnFailure, PrefixMode};

use super::files::Source;
use super::{acp, http, pipeline, tools};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::Value;
use crate::schema::duration_ms;
use crate::settings::{BUILT_IN_KINDS, Loaded, dollars, models};

pub(super) struct Setting<'l> {
    pub(super) loaded: &'l Loaded,
}

impl Setting<'_> {
    /// The definition, if it has no errors.
    pub(super) fn define(&self, source: &Source, found: &mut Diagnostics) -> Option<Definition> {
        let description = self.description(source, found);
        let kind = self.kind(source, found)?;
        let model = self.model(source, &kind, found)?;
        let defaults = &self.loaded.config.agent_defaults;
        let whole = |key, default| whole(source, key).unwrap_or(default);
        Some(Definition {
            id: source.id.clone(),
            description: description?,
            instructions: instructions(source),
            tools: tools::allowed(source, &kind, &self.loaded.tools, found),
            kind,
            limits: Limits {
                files: self.file_rules(&model),
                ..limits(&model)
            },
            model: model.model.to_string().into(),
            max_model_calls: whole("max_model_calls", defaults.max_model_calls),
            timeout_ms: time_ms(source).unwrap_or_else(|| defaults.timeout.ms()),
            retries: whole("retries", defaults.retries),
            max_concurrent: whole("max_concurrent", defaults.max_concurrent),
            context: match source.text("context") {
                Some("task_only") => ContextMode::TaskOnly,
                _ => ContextMode::Snapshot,
            },
            prefix: match source.text("prefix") {
                Some("own") => PrefixMode::Own,
                _ => PrefixMode::Shared,
            },
            output_schema: source.output_schema.clone(),
            temperature_milli: temperature_milli(source),
            cache_warm: match source.text("cache_warm") {
                Some("prewarm") => CacheWarm::Prewarm,
                Some("off") => CacheWarm::Off,
                _ => CacheWarm::Leader,
            },
            on_failure: match source.text("on_failure") {
                Some("fail") => OnFailure::Fail,
                _ => OnFailure::Continue,
            },
            delegates: source
                .texts("delegates")
                .map(|item| AgentId::from(item.text))
                .collect(),
            pipeline: pipeline::stages(source),
            tags: source.texts("tags").map(|item| item.text.into()).collect(),
        })
    }

    /// How a model gets attachments; unknown for a model of the program itself.
    fn file_rules(&self, model: &Entry) -> FileRules {
        let provider = self.loaded.providers.get(&model.model.provider);
        match model.dialect.or(provider.map(|access| access.dialect)) {
            Some(dialect) => {
                let Accepts { images, documents } = model.accepts;
                FileRules::for_model(dialect.attachment_rule(), images, documents)
            }
            None if model.model.provider == EXTRACTIVE => FileRules::TEXTS,
            None => FileRules::default(),
        }
    }

    fn description(&self, source: &Source, found: &mut Diagnostics) -> Option<Arc<str>> {
        let missing = source.table.entry("description").is_none();
        if missing && !found.has(&source.place.origin, "description") {
            let problem = format!("agent `{}` has no `description`", source.id);
            let help = "add a line about its purpose; the lead chooses delegates by it";
            found.push(Diagnostic::error(source.place.clone(), problem).help(help));
        }
        source.text("description").map(Arc::from)
    }

    fn kind(&self, source: &Source, found: &mut Diagnostics) -> Option<AgentKind> {
        let name = source
            .text("kind")
            .unwrap_or(match pipeline::alone(source) {
                true => pipeline::KIND,
                false => "llm",
            });
        let own = &self.loaded.sources().program.kinds;
        let kind = match name {
            "llm" | EXTRACTIVE => AgentKind::Llm,
            pipeline::KIND => AgentKind::Pipeline,
            "command" => return command(source, found),
            "acp" => return acp::coding_agent(source, found),
            "http" => return http::http_server(source, &self.loaded.sources().variables, found),
            "a2a" => return http::remote_agent(source, &self.loaded.sources().variables, found),
            registered if own.contains(registered) => AgentKind::Custom(registered.into()),
            unknown => {
                let problem = format!("agent `{}` has an unknown kind `{unknown}`", source.id);
                let known = BUILT_IN_KINDS
                    .into_iter()
                    .chain(own.iter().map(String::as_str));
                let diagnostic =
                    Diagnostic::error(source.key_place("kind"), problem).with_key("kind");
                found.push(diagnostic.suggest(unknown, known));
                return None;
            }
        };
        no_program_keys(source, name, found);
        no_server_keys(source, name, found);
        if name != "llm" {
            no_model_keys(source, name, found);
        }
        Some(kind)
    }

    /// The model's entry. An agent that names no model has the configured default;
    /// `models.override` replaces the model of every agent that uses one.
    fn model(&self, source: &Source, kind: &AgentKind, found: &mut Diagnostics) -> Option<Entry> {
        let extractive = source.text("kind") == Some(EXTRACTIVE);
        let overridden = self.loaded.config.models.instead.is_some() && kind.uses_model();
        let own = source.text("model");
        if let (true, Some(name)) = (extractive && own != Some(EXTRACTIVE), own) {
            let problem = format!("model `{name}` contradicts kind `{EXTRACTIVE}`");
            let help = "leave one of the two out";
            found.push(
                Diagnostic::error(source.key_place("model"), problem)
                    .with_key("model")
                    .help(help),
            );
            return None;
        }
        let own = own.filter(|_| !overridden);
        let default = &self.loaded.default_model;
        let name = if extractive {
            EXTRACTIVE
        } else {
            own.unwrap_or(default)
        };
        let entry = match self.loaded.catalogue.get(None, name) {
            Ok(entry) => entry,
            // An invalid default is reported once, at its setting.
            Err(_) if own.is_none() => return None,
            Err(error) => {
                let problem = format!("agent `{}`: {error}", source.id);
                found.push(Diagnostic::error(source.key_place("model"), problem).with_key("model"));
                return None;
            }
        };
        if own.is_some() && *kind == AgentKind::Llm {
            models::warn(&entry, &source.key_place("model"), "model", found);
        }
        Some(entry)
    }
}

fn command(source: &Source, found: &mut Diagnostics) -> Option<AgentKind> {
    no_model_keys(source, "command", found);
    no_server_keys(source, "command", found);
    program(source, "command", found).map(AgentKind::Command)
}

pub(super) fn program(source: &Source, kind: &str, found: &mut Diagnostics) -> Option<Command> {
    let Some(program) = source.text("command") else {
        if !found.has(&source.place.origin, "command") {
            let problem = format!("agent `{}` of kind `{kind}` has no `command`", source.id);
            found.push(
                Diagnostic::error(source.key_place("kind"), problem).help("name its program"),
            );
        }
        return None;
    };
    Some(Command {
        program: program.into(),
        args: source.texts("args").map(|item| item.text.into()).collect(),
        env: texts_by_name(source, "env"),
        cwd: source.text("cwd").map(Arc::from),
        env_pass: source
            .texts("env_pass")
            .map(|item| item.text.into())
            .collect(),
    })
}

/// Its instructions, with the text of its skills.
fn instructions(source: &Source) -> Arc<str> {
    let own = source.text("instructions").unwrap_or_default();
    format!("{own}{}", source.skills).trim_start().into()
}

/// Warns of keys that only apply to programs.
pub(super) fn no_program_keys(source: &Source, kind: &str, found: &mut Diagnostics) {
    let help = "set kind = \"command\" to run a program";
    let keys = ["command", "args", "env", "env_pass", "cwd"];
    without_effect(source, &keys, kind, help, found);
}

/// Warns of keys that only apply to servers.
fn no_server_keys(source: &Source, kind: &str, found: &mut Diagnostics) {
    no_address_keys(source, kind, found);
    no_remote_keys(source, kind, found);
    no_coding_keys(source, kind, found);
}

/// Warns of keys about an address, which agents of this kind do not have.
pub(super) fn no_address_keys(source: &Source, kind: &str, found: &mut Diagnostics) {
    let help = "set kind = \"http\" to ask a server";
    without_effect(source, &["url", "headers"], kind, help, found);
}

/// Warns of keys about a remote agent, which agents of this kind do not have.
pub(super) fn no_card_keys(source: &Source, kind: &str, found: &mut Diagnostics) {
    let help = "set kind = \"a2a\" to ask an agent of another program";
    without_effect(source, &["card_digest"], kind, help, found);
}

/// Warns of keys about agents of other programs, which agents of this kind do not have.
pub(super) fn no_remote_keys(source: &Source, kind: &str, found: &mut Diagnostics) {
    no_card_keys(source, kind, found);
    let help = "set kind = \"a2a\" or \"acp\" to ask an agent of another program";
    without_effect(source, &["contract"], kind, help, found);
}

/// Warns of keys about coding agents, which agents of this kind do not have.
pub(super) fn no_coding_keys(source: &Source, kind: &str, found: &mut Diagnostics) {
    let help = "set kind = \"acp\" to run a coding agent";
    let keys = ["worktree", "allow", "deny", "options", "login"];
    without_effect(source, &keys, kind, help, found);
}

/// Warns of keys that only apply to models.
pub(super) fn no_model_keys(source: &Source, kind: &str, found: &mut Diagnostics) {
    let help = "it is for agents of kind `llm`";
    let keys = ["temperature", "output_schema", "cache_warm"];
    without_effect(source, &keys, kind, help, found);
}

fn without_effect(source: &Source, keys: &[&str], kind: &str, help: &str, found: &mut Diagnostics) {
    for key in keys.iter().filter(|key| source.table.entry(key).is_some()) {
        let problem = format!("`{key}` has no effect: the agent's kind is `{kind}`");
        let diagnostic = Diagnostic::warning(source.key_place(key), problem).with_key(*key);
        found.push(diagnostic.help(help));
    }
}

/// The limits of a model, as the catalogue has them, without its way to get attachments.
pub fn limits(model: &Entry) -> Limits {
    Limits {
        window: model.window,
        max_output: model.max_output,
        encoding: model.encoding,
        per_message: model.per_message(),
        files: Default::default(),
    }
}

pub(super) fn texts_by_name(source: &Source, key: &str) -> BTreeMap<Arc<str>, Arc<str>> {
    let table = source.table.table(key).into_iter();
    let entries = table.flat_map(|table| table.iter());
    entries
        .filter_map(|entry| {
            Some((
                entry.key.as_str().into(),
                entry.node.value.as_text()?.into(),
            ))
        })
        .collect()
}

fn whole(source: &Source, key: &str) -> Option<u32> {
    match source.table.get(key)?.value {
        Value::Integer(n) => u32::try_from(n).ok(),
        _ => None,
    }
}

/// Thousandths, rounded to the nearest.
fn temperature_milli(source: &Source) -> Option<u32> {
    let degrees = number(source, "temperature")?;
    // The schema keeps it between 0 and 2.
    Some((degrees * 1_000.0).round() as u32)
}

/// The maximum cost of one of its runs.
pub(super) fn max_cost(source: &Source) -> Option<Cost> {
    number(source, "max_cost_usd").map(dollars)
}

fn number(source: &Source, key: &str) -> Option<f64> {
    match source.table.get(key)?.value {
        Value::Integer(n) => Some(n as f64),
        Value::Float(x) => Some(x),
        _ => None,
    }
}

fn time_ms(source: &Source) -> Option<u64> {
    match &source.table.get("timeout")?.value {
        Value::Integer(seconds) => u64::try_from(*seconds).ok()?.checked_mul(1_000),
        Value::Text(text) => duration_ms(text),
        _ => None,
    }
}
