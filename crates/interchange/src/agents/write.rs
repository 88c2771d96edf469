//! Writes a definition as Markdown with front matter.

use std::collections::BTreeSet;

use serde_norway::{Mapping, Value};

use super::rule::{DELEGATE, id, key_change};
use super::{ConvertedAgent, Error, Format, KeyChange};
use unisono_config::agents::DEFAULT_TOOLS;
use unisono_config::agents::{EMBEDDED, is_id};

/// An agent during its conversion.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) id: String,
    pub(super) title: Option<String>,
    pub(super) description: String,
    pub(super) instructions: String,
    pub(super) role: Option<String>,
    pub(super) goal: Option<String>,
    pub(super) backstory: Option<String>,
    pub(super) model: Option<String>,
    pub(super) temperature: Option<f64>,
    pub(super) timeout_seconds: Option<f64>,
    /// Tools in addition to the default ones.
    tools: Vec<String>,
    pub(super) denied: Vec<String>,
    /// Whether it may give tasks to no agent, whatever its list of tools says.
    pub(super) is_delegation_denied: bool,
    /// Servers whose tools are all allowed.
    pub(super) servers: BTreeSet<String>,
    /// Skills whose full text it gets.
    pub(super) skills: BTreeSet<String>,
    /// Calls that need approval.
    pub(super) approve: Vec<String>,
    /// Whether calls of all servers' tools need approval.
    pub(super) approve_all: bool,
    numbers: Vec<(&'static str, f64)>,
    /// The stages of its pipeline, each `agent` or `agent=task`.
    pub(super) pipeline: Vec<String>,
    pub(super) lost: Vec<KeyChange>,
    pub(super) changed: Vec<KeyChange>,
}

impl Draft {
    pub(super) fn new(name: &str) -> Draft {
        Draft {
            id: id(name),
            ..Draft::default()
        }
    }

    pub(super) fn tool(&mut self, name: &str) {
        let known = self.tools.iter().any(|tool| tool == name);
        if !known && !DEFAULT_TOOLS.contains(&name) {
            self.tools.push(name.to_owned());
        }
    }

    pub(super) fn number(&mut self, key: &'static str, n: f64) {
        self.numbers.push((key, n));
    }

    pub(super) fn finish(mut self, format: Format) -> Result<ConvertedAgent, Error> {
        if !is_id(&self.id) {
            return Err(self.refusal("its name has no letter or digit (a-z, 0-9)"));
        }
        self.combine_role_texts();
        self.add_approvals();
        if self.is_delegation_denied {
            self.tools.retain(|tool| tool != DELEGATE);
        }
        if self.description.is_empty() {
            self.description = self.description_from_texts()?;
            self.changed.push(KeyChange {
                key: "description".to_owned(),
                line: None,
                reason: "there is none; it is taken from its other texts".to_owned(),
            });
        }
        // An agent that only runs a pipeline needs no instructions.
        if self.instructions.is_empty() && self.pipeline.is_empty() {
            self.instructions.clone_from(&self.description);
        }
        let file = format!("{}.md", self.id);
        if EMBEDDED.iter().any(|(name, _)| *name == file) {
            let reason = format!(
                "it takes the place of the built-in agent `{}`; rename the file to keep that one",
                self.id
            );
            self.changed.push(key_change("name", None, &reason));
        }
        let front = serde_norway::to_string(&self.front()).unwrap_or_default();
        Ok(ConvertedAgent {
            text: format!("---\n{front}---\n{}\n", self.instructions.trim())
                .trim_end()
                .to_owned()
                + "\n",
            skills: self.skills,
            id: self.id,
            format,
            lost: self.lost,
            changed: self.changed,
        })
    }

    /// The title, else the first line of the instructions.
    fn description_from_texts(&mut self) -> Result<String, Error> {
        let title = self.title.take().unwrap_or_default();
        if !title.is_empty() {
            return Ok(title);
        }
        let mut lines = self.instructions.lines();
        let first = lines.find(|line| !line.trim().is_empty() && !line.starts_with('#'));
        match first {
            Some(line) => Ok(line.trim().chars().take(200).collect()),
            None => Err(self.refusal("it has neither a description nor instructions")),
        }
    }

    fn refusal(&self, reason: &str) -> Error {
        Error::Refused {
            name: self.id.clone(),
            reason: reason.to_owned(),
        }
    }

    /// Adds approval rules for all tools of servers if the agent asks before calls.
    fn add_approvals(&mut self) {
        if self.approve_all {
            let served = self.tools.iter().filter(|tool| tool.contains("__"));
            self.approve.extend(served.cloned());
            let servers = self.servers.iter().map(|server| format!("{server}__*"));
            self.approve.extend(servers);
        }
        self.approve.sort();
        self.approve.dedup();
    }

    /// Combines role, goal and backstory to a description and instructions.
    fn combine_role_texts(&mut self) {
        let (Some(role), goal) = (self.role.take(), self.goal.take()) else {
            return;
        };
        let goal = goal.unwrap_or_default();
        let placeholder = [&role, &goal, self.backstory.as_ref().unwrap_or(&role)]
            .iter()
            .any(|text| text.contains('{'));
        if placeholder {
            self.changed.push(KeyChange {
                key: "role, goal, backstory".to_owned(),
                line: None,
                reason:
                    "placeholders in braces stay as they are; say what they stand for in the task"
                        .to_owned(),
            });
        }
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let role = one_line(&role);
        let role = role.trim_end_matches('.');
        self.description = one_line(&format!("{role}: {goal}"))
            .trim_end_matches(": ")
            .to_owned();
        let mut text = format!("You are {role}.");
        if !goal.is_empty() {
            text += &format!("\n\nYour goal: {}", goal.trim());
        }
        if let Some(backstory) = self.backstory.take() {
            text += &format!("\n\n{}", backstory.trim());
        }
        self.instructions = text;
    }

    fn front(&self) -> Mapping {
        let mut front = Mapping::new();
        let mut set = |key: &str, value: Value| {
            front.insert(Value::from(key), value);
        };
        set("description", Value::from(self.description.as_str()));
        if let Some(model) = &self.model {
            set("model", Value::from(model.as_str()));
        }
        if !self.tools.is_empty() {
            let own = DEFAULT_TOOLS.iter().map(|tool| (*tool).to_owned());
            let all: Vec<Value> = self
                .tools
                .iter()
                .cloned()
                .chain(own)
                .map(Value::from)
                .collect();
            set("tools", Value::Sequence(all));
        }
        if !self.denied.is_empty() {
            let all = self.denied.iter().map(|tool| Value::from(tool.as_str()));
            set("deny_tools", Value::Sequence(all.collect()));
        }
        let servers: Vec<Value> = self
            .servers
            .iter()
            .map(|name| name.as_str().into())
            .collect();
        if !servers.is_empty() {
            set("mcp_servers", Value::Sequence(servers));
        }
        if !self.skills.is_empty() {
            let all = self.skills.iter().map(|name| name.as_str().into());
            set("skills", Value::Sequence(all.collect()));
        }
        if !self.approve.is_empty() {
            let all = self.approve.iter().map(|rule| Value::from(rule.as_str()));
            set("approve", Value::Sequence(all.collect()));
        }
        if !self.pipeline.is_empty() {
            let all = self.pipeline.iter().map(|stage| stage.as_str().into());
            set("pipeline", Value::Sequence(all.collect()));
        }
        for (key, n) in &self.numbers {
            set(key, Value::from(*n as u64));
        }
        if let Some(seconds) = self.timeout_seconds {
            set("timeout", Value::from(format!("{seconds}s")));
        }
        if let Some(degrees) = self.temperature {
            set("temperature", Value::from(degrees));
        }
        front
    }
}
