//! The conversion of a key.

use std::io;
use std::ops::RangeInclusive;

use super::delegating;
use super::source::Agent;
use super::tool_servers;
use super::write::Draft;
use super::{ConvertedAgent, Error, Format, KeyChange, LocalNames, formats};
use unisono_config::agents::{TOOLS, is_id};
use unisono_config::document::{Entry, Value};

/// The conversion of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    /// The agent's id.
    Name,
    /// The display name; the id is the file's name.
    Title,
    Description,
    Instructions,
    /// Three parts of the instructions.
    Role,
    Goal,
    Backstory,
    /// The model; of this provider if the name has none.
    Model(Option<&'static str>),
    /// Tools by name: a list, or comma-separated.
    Tools,
    Denied,
    /// Tools by name, each on or off.
    Switches,
    /// MCP servers, by name.
    Servers,
    /// Skills, by name.
    Skills,
    /// When calls need approval.
    ApprovalMode,
    /// Permissions by tool: allowed, denied, or with approval.
    Permissions,
    /// Whether it may delegate.
    Delegation,
    /// A whole number under another key.
    Number(&'static str),
    /// The timeout of an attempt.
    Minutes,
    Seconds,
    Temperature,
    /// Must be `local`.
    Local,
    Disabled,
    /// It carries over in another form.
    Changed(&'static str),
    /// It has no effect on the agent's work.
    Dropped,
    /// It does not carry over.
    Lost(&'static str),
}

/// Why permissions do not carry over.
pub(super) const NOTHING_TO_PERMIT: &str = "agents do not change files or run commands; calls of \
     servers' tools wait for approval if `approve` says so";
/// Why the effort of a model does not carry over.
pub(super) const NO_EFFORT: &str = "reasoning effort is not set per agent";
pub(super) const DELEGATE: &str = "delegate";
/// The longest time of an attempt: a year.
const LONGEST_SECONDS: f64 = 31_536_000.0;
const DESCRIPTION_CHARS: usize = 1_000;

pub(super) struct Importer<'s> {
    pub(super) format: Format,
    pub(super) known: LocalNames<'s>,
    pub(super) include: &'s dyn Fn(&str) -> io::Result<String>,
}

impl Importer<'_> {
    pub(super) fn import(&self, agent: &Agent) -> Result<ConvertedAgent, Error> {
        let mut draft = Draft::new(&agent.name);
        if agent.document.lenient {
            let reason = "it is not YAML and was read line by line; check the texts";
            draft.changed.push(key_change("front matter", None, reason));
        }
        if let Some(body) = &agent.document.body {
            draft.instructions = body.trim().to_owned();
        }
        for entry in agent.document.table.iter() {
            self.take(entry, &entry.key, &mut draft)?;
        }
        draft.finish(self.format)
    }

    fn skills(&self, key: &SourceKey<'_>, draft: &mut Draft) {
        for name in key.names(draft) {
            if self.known.skills.contains(&name) {
                draft.skills.insert(name);
                continue;
            }
            let reason = match self.known.refused_skills.get(&name) {
                Some(reason) => format!("the skill `{name}` cannot be copied: {reason}"),
                None => format!(
                    "there is no skill `{name}`: put its folder into `skills/`, then import it \
                     again with --force"
                ),
            };
            key.note_lost(draft, &reason);
        }
    }

    fn take(&self, entry: &Entry, key: &str, draft: &mut Draft) -> Result<(), Error> {
        let keys = formats::keys(self.format);
        let deeper = format!("{key}.");
        if let Value::Table(table) = &entry.node.value
            && keys.iter().any(|(known, _)| known.starts_with(&deeper))
        {
            for below in table.iter() {
                self.take(below, &format!("{key}.{}", below.key), draft)?;
            }
            return Ok(());
        }
        let line = entry.place.at.map(|(line, _)| line);
        let Some((_, rule)) = keys.iter().find(|(known, _)| *known == key) else {
            draft
                .lost
                .push(key_change(key, line, "this key is not known"));
            return Ok(());
        };
        let taken = SourceKey {
            key,
            line,
            value: &entry.node.value,
        };
        self.apply(*rule, &taken, draft)
    }

    fn apply(&self, rule: Rule, key: &SourceKey<'_>, draft: &mut Draft) -> Result<(), Error> {
        match rule {
            Rule::Lost(reason) => key.note_lost(draft, reason),
            Rule::Changed(how) => key.note_changed(draft, how),
            Rule::Name => self.name(key, draft),
            Rule::Title => draft.title = key.text(draft),
            Rule::Description => {
                let text = key.text(draft).unwrap_or_default();
                if text.chars().count() > DESCRIPTION_CHARS {
                    key.note_changed(draft, "it is cut to 1,000 characters");
                }
                let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
                draft.description = words.chars().take(DESCRIPTION_CHARS).collect();
            }
            Rule::Instructions => self.instructions(key, draft),
            Rule::Role => draft.role = key.text(draft),
            Rule::Goal => draft.goal = key.text(draft),
            Rule::Backstory => draft.backstory = key.text(draft),
            Rule::Model(provider) => self.model(provider, key, draft),
            Rule::Tools => self.tools(&key.names(draft), key, draft),
            Rule::Denied => self.denied(&key.names(draft), key, draft),
            Rule::Switches => self.switches(key, draft),
            Rule::Servers => self.servers().take(key, draft),
            Rule::Skills => self.skills(key, draft),
            Rule::ApprovalMode => self.servers().approval_mode(key, draft, NOTHING_TO_PERMIT),
            Rule::Permissions => {
                self.may_delegate(key, draft);
                self.servers().permissions(key, draft, NOTHING_TO_PERMIT);
            }
            Rule::Delegation if key.is_true() => draft.tool(DELEGATE),
            Rule::Delegation | Rule::Dropped => {}
            Rule::Number(name) => match key
                .number()
                .filter(|n| n.fract() == 0.0 && values(name).contains(n))
            {
                Some(n) => draft.number(name, n),
                None => key.note_lost(draft, "it is not a number that is valid here"),
            },
            Rule::Minutes => time(60.0, key, draft),
            Rule::Seconds => time(1.0, key, draft),
            Rule::Temperature => match key.number().filter(|n| (0.0..=2.0).contains(n)) {
                Some(n) => draft.temperature = Some(n),
                None => key.note_lost(draft, "a temperature is between 0 and 2"),
            },
            Rule::Local if key.value.as_text() == Some("local") => {}
            Rule::Local => {
                return Err(key.refusal(
                    draft,
                    "it runs on another service; write an agent of kind `command` that calls it",
                ));
            }
            Rule::Disabled if key.is_true() => {
                return Err(key.refusal(draft, "it is switched off there"));
            }
            Rule::Disabled => {}
        }
        Ok(())
    }

    fn name(&self, key: &SourceKey<'_>, draft: &mut Draft) {
        let Some(name) = key.text(draft) else { return };
        let id = id(&name);
        if id != name {
            key.note_changed(draft, &format!("it is called `{id}`"));
        }
        draft.id = id;
    }

    /// Converts instructions: a text, or `{file:path}`.
    fn instructions(&self, key: &SourceKey<'_>, draft: &mut Draft) {
        let Some(text) = key.text(draft) else { return };
        let file = text
            .strip_prefix("{file:")
            .and_then(|rest| rest.strip_suffix('}'));
        let text = match file.map(|name| (name, (self.include)(name.trim()))) {
            None => text,
            Some((_, Ok(text))) => text,
            Some((name, Err(error))) => {
                return key.note_lost(draft, &format!("the file {name} cannot be read: {error}"));
            }
        };
        draft.instructions = match draft.instructions.is_empty() {
            true => text.trim().to_owned(),
            false => format!("{}\n\n{}", text.trim(), draft.instructions),
        };
    }

    fn model(&self, provider: Option<&str>, key: &SourceKey<'_>, draft: &mut Draft) {
        // Some programs accept a list and use the first available model.
        let name = match key.value {
            Value::List(_) => key.names(draft).into_iter().next(),
            _ => key.text(draft),
        };
        let Some(name) =
            name.filter(|name| !matches!(name.as_str(), "" | "inherit" | "default" | "auto"))
        else {
            return;
        };
        // A model of opencode may name its variant: `provider/model#high`.
        let name = match name.split_once('#') {
            Some((model, _)) => {
                key.note_lost(draft, NO_EFFORT);
                model.to_owned()
            }
            None => name,
        };
        match self.model_of(provider, &name) {
            Some(model) => {
                if model != name {
                    key.note_changed(draft, &format!("`{name}` is `{model}` here"));
                }
                draft.model = Some(model);
            }
            None => {
                let reason = format!(
                    "no model `{name}` is known: the configured one is used; write `model: provider/model`"
                );
                key.note_lost(draft, &reason);
            }
        }
    }

    /// A model as `provider/model`. A name without a provider must be known: another program's
    /// short name cannot be used.
    fn model_of(&self, provider: Option<&str>, name: &str) -> Option<String> {
        let bare = name.split(" (").next().unwrap_or(name).trim();
        let plain = bare.to_lowercase().replace(' ', "-");
        if bare.contains('/') {
            return self
                .known
                .catalogue
                .resolve(bare)
                .ok()
                .map(|model| model.to_string());
        }
        let dashed = plain.replace('.', "-");
        let exact = [bare, &plain, &dashed]
            .into_iter()
            .find_map(|name| self.known.catalogue.resolve(name).ok());
        if let Some(model) = exact {
            return Some(model.to_string());
        }
        // `sonnet` is the newest model of that family.
        let family = format!("claude-{plain}-");
        let newest = self
            .known
            .catalogue
            .entries()
            .filter(|entry| entry.model.model.starts_with(&family))
            .last();
        newest
            .filter(|_| provider == Some("anthropic"))
            .map(|entry| entry.model.to_string())
    }
}

pub(super) struct SourceKey<'t> {
    key: &'t str,
    line: Option<u32>,
    pub(super) value: &'t Value,
}

impl SourceKey<'_> {
    pub(super) fn note_lost(&self, draft: &mut Draft, reason: &str) {
        draft.lost.push(key_change(self.key, self.line, reason));
    }

    pub(super) fn note_changed(&self, draft: &mut Draft, how: &str) {
        draft.changed.push(key_change(self.key, self.line, how));
    }

    fn refusal(&self, draft: &Draft, reason: &str) -> Error {
        Error::Refused {
            name: draft.id.clone(),
            reason: reason.to_owned(),
        }
    }

    /// The text; another value is reported as lost.
    fn text(&self, draft: &mut Draft) -> Option<String> {
        match self.value {
            Value::Null => None,
            Value::Text(text) => Some(text.trim().to_owned()),
            other => {
                self.note_lost(draft, &format!("it is {}, not text", other.kind()));
                None
            }
        }
    }

    /// The items of a list, or of a text with commas or lines between them.
    pub(super) fn names(&self, draft: &mut Draft) -> Vec<String> {
        match self.value {
            Value::List(items) => {
                // An unquoted list is split at every comma.
                let items = items.iter().filter_map(|item| item.value.as_text());
                delegating::items(&items.collect::<Vec<_>>().join(", "))
            }
            Value::Text(text) => {
                // Front matter that was read line by line may have a list with a dash per line.
                let lines = text.lines().map(str::trim);
                let lines = lines.map(|line| line.strip_prefix("- ").unwrap_or(line));
                let text = lines.collect::<Vec<_>>().join(", ");
                delegating::items(text.trim_matches(['[', ']']))
            }
            Value::Null => Vec::new(),
            other => {
                self.note_lost(draft, &format!("it is {}, not a list", other.kind()));
                Vec::new()
            }
        }
    }

    fn number(&self) -> Option<f64> {
        match self.value {
            Value::Integer(n) => Some(*n as f64),
            Value::Float(n) => Some(*n),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    fn is_true(&self) -> bool {
        match self.value {
            Value::Bool(value) => *value,
            Value::Text(text) => text.trim() == "true",
            _ => false,
        }
    }
}

pub(super) fn key_change(key: &str, line: Option<u32>, reason: &str) -> KeyChange {
    KeyChange {
        key: key.to_owned(),
        line,
        reason: reason.to_owned(),
    }
}

/// The values of a key that a definition may have.
fn values(key: &str) -> RangeInclusive<f64> {
    match key {
        "retries" => 0.0..=100.0,
        _ => 1.0..=f64::from(u32::MAX),
    }
}

fn time(seconds: f64, key: &SourceKey<'_>, draft: &mut Draft) {
    match key
        .number()
        .map(|n| (n * seconds).round())
        .filter(|n| (1.0..=LONGEST_SECONDS).contains(n))
    {
        Some(seconds) => draft.timeout_seconds = Some(seconds),
        None => key.note_lost(draft, "it is not a duration of a second to a year"),
    }
}

impl Importer<'_> {
    fn servers(&self) -> tool_servers::Servers<'_> {
        tool_servers::Servers(self.known.servers)
    }

    /// The corresponding tool here, built in or of the same server.
    fn local_tool(&self, name: &str) -> Option<String> {
        let built_in = local_tool(name).map(str::to_owned);
        built_in.or_else(|| self.servers().tool(name))
    }

    /// Converts the tools that exist here.
    fn tools(&self, names: &[String], key: &SourceKey<'_>, draft: &mut Draft) {
        let mut lost = Vec::new();
        for name in names {
            if delegating::is_delegation(name) {
                self.may_delegate_to(&delegating::named_agents(name), key, draft);
                continue;
            }
            match self.local_tool(name) {
                Some(tool) => draft.tool(&tool),
                None => lost.push(name.as_str()),
            }
        }
        if !lost.is_empty() && lost != ["*"] {
            let reason = format!("no such tools here: {}", lost.join(", "));
            key.note_lost(draft, &reason);
        }
    }

    fn denied(&self, names: &[String], key: &SourceKey<'_>, draft: &mut Draft) {
        for name in names {
            let agents = delegating::named_agents(name).join(", ");
            if delegating::is_delegation(name) && !agents.is_empty() {
                let reason = format!(
                    "single agents cannot be excluded: {agents}; name the others with --agents"
                );
                key.note_lost(draft, &reason);
                continue;
            }
            // A missing tool need not be denied.
            draft.denied.extend(self.local_tool(name));
        }
    }

    fn switches(&self, key: &SourceKey<'_>, draft: &mut Draft) {
        let Value::Table(table) = key.value else {
            return self.tools(&key.names(draft), key, draft);
        };
        let on = |entry: &&Entry| entry.node.value == Value::Bool(true);
        let named = |entry: &Entry| entry.key.clone();
        let names: Vec<String> = table.iter().filter(on).map(named).collect();
        self.tools(&names, key, draft);
        let off = table.iter().filter(|entry| !on(entry));
        self.denied(&off.map(named).collect::<Vec<_>>(), key, draft);
    }
}

fn local_tool(name: &str) -> Option<&'static str> {
    let bare = name
        .split(['(', '/'])
        .next()
        .unwrap_or(name)
        .trim()
        .to_lowercase();
    if delegating::is_delegation(name) {
        return Some(DELEGATE);
    }
    TOOLS.into_iter().find(|tool| *tool == bare)
}

/// The most similar valid id.
pub(super) fn id(name: &str) -> String {
    let plain = name.trim().to_lowercase();
    if is_id(&plain) {
        return plain;
    }
    let kept = |c: char| {
        if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' {
            c
        } else {
            '-'
        }
    };
    let mapped: String = plain.chars().map(kept).collect();
    let parts: Vec<&str> = mapped.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-").trim_start_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use unisono_model::catalogue::Catalogue;

    use super::*;

    #[test]
    fn numbers_that_no_definition_may_have_are_lost() {
        let catalogue = Catalogue::built_in().unwrap();
        let (names, refused_skills) = (BTreeSet::new(), BTreeMap::new());
        let importer = Importer {
            format: Format::CrewAi,
            known: LocalNames {
                catalogue: &catalogue,
                servers: &names,
                skills: &names,
                refused_skills: &refused_skills,
                agents: &names,
            },
            include: &|_| Err(io::ErrorKind::NotFound.into()),
        };
        let (calls, retries) = (Rule::Number("max_model_calls"), Rule::Number("retries"));
        for (rule, number, lost) in [
            (calls, 1.0, 0),
            (calls, 0.0, 1),
            (calls, 1e10, 1),
            (retries, 0.0, 0),
            (retries, 100.0, 0),
            (retries, 101.0, 1),
            (Rule::Minutes, 525_600.0, 0),
            (Rule::Minutes, 999_999.0, 1),
            (Rule::Seconds, 0.1, 1),
            (Rule::Seconds, f64::INFINITY, 1),
        ] {
            let (mut draft, value) = (Draft::new("a"), Value::Float(number));
            let key = SourceKey {
                key: "key",
                line: None,
                value: &value,
            };
            importer.apply(rule, &key, &mut draft).unwrap();
            assert_eq!(draft.lost.len(), lost, "{rule:?} {number}");
        }
    }
}
