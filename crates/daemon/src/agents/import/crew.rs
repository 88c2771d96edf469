//! The tasks of a CrewAI crew that are done one after the other: an agent with a pipeline.
//!
//! The agents of a crew are in `agents.yaml`, its tasks in `tasks.yaml` beside it, and in which order
//! and how they are done in `crew.py` above. Of the program no more is read than the names of its
//! tasks and its process. A single file may have `agents`, `tasks` and `process` as well.

use std::path::Path;

use super::rule::{id, loss};
use super::source::{self, Document};
use super::write::Draft;
use super::{Agents, Error, Format, Lost, included};
use crate::document::{Entry, Table, Value};

const TASKS: &str = "tasks.yaml";
const PROCESS: &str = "process";
const SEQUENTIAL: &str = "sequential";

/// The keys of a task that do not carry over, and why.
const LOST: [(&str, &str); 13] = [
    ("tools", "tools are an agent's: name them in its definition"),
    (
        "async_execution",
        "stages of a pipeline work one after the other: agents that are to work at once are named \
         in `run.agents` or --agents",
    ),
    (
        "human_input",
        "nobody is asked about an answer; calls of tools wait for a person where `approve` says so",
    ),
    (
        "output_file",
        "agents here write no files; `unisono run --json` has what each answered",
    ),
    ("create_directory", "agents here write no files"),
    (
        "output_json",
        "write an `output_schema` for the agent where its answer has to have a shape",
    ),
    (
        "output_pydantic",
        "write an `output_schema` for the agent where its answer has to have a shape",
    ),
    (
        "guardrail",
        "an answer is checked by its `output_schema` alone",
    ),
    (
        "guardrails",
        "an answer is checked by its `output_schema` alone",
    ),
    (
        "guardrail_max_retries",
        "`retries` of the agent count for all its attempts",
    ),
    (
        "max_retries",
        "`retries` of the agent count for all its attempts",
    ),
    ("callback", "there are no hooks around an agent's calls"),
    ("converter_cls", "it has no counterpart"),
];

/// What a crew is made of.
#[derive(Debug)]
pub(super) struct Crew {
    name: String,
    tasks: Table,
    /// Where the tasks are, before their keys.
    at: &'static str,
    process: String,
    /// Keys of the crew itself.
    own: Vec<Entry>,
    /// The tasks as the program names them, in its order.
    order: Vec<String>,
}

/// The crew of a document, or of the files around it; none where it has no tasks.
///
/// # Errors
/// Its tasks cannot be read.
pub(super) fn find(path: &Path, document: &Document) -> Result<Option<Crew>, Error> {
    let base = path.parent().unwrap_or(Path::new(""));
    let top = match base.file_name() {
        Some(name) if name == "config" => base.parent().unwrap_or(base),
        _ => base,
    };
    let directory = top.canonicalize().ok();
    let directory = directory.as_deref().and_then(Path::file_name);
    let directory = directory.map(|name| id(&name.to_string_lossy()));
    let name = directory.filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| "crew".to_owned());
    if let Some(tasks) = document.table.table("tasks") {
        let process = document.table.get(PROCESS);
        let process = process.and_then(|node| node.value.as_text());
        let own = document.table.iter();
        let own = own.filter(|entry| !["agents", "tasks", PROCESS].contains(&entry.key.as_str()));
        return Ok(Some(Crew {
            name,
            tasks: tasks.clone(),
            at: "tasks.",
            process: process.unwrap_or(SEQUENTIAL).to_owned(),
            own: own.cloned().collect(),
            order: Vec::new(),
        }));
    }
    let Ok(text) = included(base, TASKS) else {
        return Ok(None);
    };
    let script = included(top, "crew.py").unwrap_or_default();
    Ok(Some(Crew {
        name,
        tasks: source::parse(&base.join(TASKS), &text)?.table,
        at: "tasks.yaml ",
        process: process(&script),
        own: Vec::new(),
        order: order(&script),
    }))
}

/// The agents of a crew's own file.
pub(super) fn agents(document: &Document) -> &Table {
    let own = document.table.table("agents");
    own.filter(|_| document.table.table("tasks").is_some())
        .unwrap_or(&document.table)
}

impl Crew {
    /// Adds the agent whose pipeline the crew is to those it is made of; where it cannot be one, the
    /// first of them says so.
    pub(super) fn join(self, agents: &mut Agents) {
        let mut ids: Vec<String> = agents.iter().flatten().map(|one| one.id.clone()).collect();
        let mut draft = Draft::new(&self.name);
        if ids.contains(&draft.id) {
            draft.id += "-crew";
        }
        ids.sort();
        for entry in &self.own {
            let line = entry.place.at.map(|(line, _)| line);
            draft.lost.push(loss(
                &entry.key,
                line,
                "a crew has no settings of its own here",
            ));
        }
        self.stages(&ids, &mut draft);
        let why_not = match (self.process.as_str(), draft.pipeline.is_empty()) {
            (SEQUENTIAL, false) => None,
            (SEQUENTIAL, true) => Some("no task of the crew names an agent of it".to_owned()),
            (other, _) => Some(format!(
                "the process `{other}` does not carry over: give a lead the tool `delegate` and name \
                 the agents in its `delegates`, and it decides who does what"
            )),
        };
        match why_not {
            Some(why) => {
                if let Some(first) = agents.iter_mut().flatten().next() {
                    first.lost.push(loss(PROCESS, None, &why));
                }
            }
            None => {
                draft.description = format!("Has {} work one after the other", named(&draft));
                agents.push(draft.finish(Format::CrewAi));
            }
        }
    }

    fn stages(&self, ids: &[String], draft: &mut Draft) {
        let tasks = self
            .tasks
            .iter()
            .filter_map(|entry| match &entry.node.value {
                Value::Table(task) => Some((entry, task)),
                _ => None,
            });
        let mut tasks: Vec<(&Entry, &Table)> = tasks.collect();
        let place = |entry: &Entry| self.order.iter().position(|name| *name == entry.key);
        if tasks.iter().all(|(entry, _)| place(entry).is_some()) {
            tasks.sort_by_key(|(entry, _)| place(entry));
        } else if !self.order.is_empty() {
            let how = "the program names its tasks otherwise: they are in the order of the file";
            draft.changed.push(loss("order", None, how));
        }
        for at in 0..tasks.len() {
            let before: Vec<&str> = tasks[..at]
                .iter()
                .map(|(task, _)| task.key.as_str())
                .collect();
            self.stage(tasks[at], &before, ids, draft);
        }
    }

    /// One task as a stage behind those before it.
    fn stage(
        &self,
        (entry, task): (&Entry, &Table),
        before: &[&str],
        ids: &[String],
        draft: &mut Draft,
    ) {
        let told = |key: &str, why: &str| -> Lost {
            let line = entry.place.at.map(|(line, _)| line);
            loss(&format!("{}{}{key}", self.at, entry.key), line, why)
        };
        let text = |key: &str| task.get(key).and_then(|node| node.value.as_text());
        let agent = text("agent").map(id).filter(|agent| ids.contains(agent));
        let Some(agent) = agent else {
            let why = match text("agent") {
                Some(name) => format!("it is no stage: the crew has no agent `{name}`"),
                None => "it is no stage: it names no agent".to_owned(),
            };
            return draft.lost.push(told("", &why));
        };
        for below in task.iter() {
            let key = format!(".{}", below.key);
            match below.key.as_str() {
                "agent" | "description" | "expected_output" | "name" => {}
                "context" => context(below, before, draft, |why| told(&key, why)),
                other => {
                    let known = LOST.iter().find(|(name, _)| *name == other);
                    let is_off = below.node.value == Value::Bool(false);
                    if !is_off {
                        let why = known.map_or("this key is not known", |(_, why)| why);
                        draft.lost.push(told(&key, why));
                    }
                }
            }
        }
        let mut said = text("description").unwrap_or_default().trim().to_owned();
        if let Some(expected) = text("expected_output") {
            said = format!("{said}\n\nThe answer is: {}", expected.trim());
        }
        if said.contains('{') {
            let why = "placeholders in braces stay as they are: write what they stand for";
            draft.changed.push(told("", why));
        }
        draft.pipeline.push(match said.trim() {
            "" => agent,
            said => format!("{agent}={said}"),
        });
    }
}

/// What a task is given of others: a stage is given what all before it came back with.
fn context(entry: &Entry, before: &[&str], draft: &mut Draft, told: impl Fn(&str) -> Lost) {
    let Value::List(items) = &entry.node.value else {
        return draft.lost.push(told("it is no list of tasks"));
    };
    let named: Vec<&str> = items
        .iter()
        .filter_map(|item| item.value.as_text())
        .collect();
    let later: Vec<&str> = named
        .iter()
        .copied()
        .filter(|name| !before.contains(name))
        .collect();
    if !later.is_empty() {
        let why = format!("not done before it: {}", later.join(", "));
        draft.lost.push(told(&why));
    }
    if before.iter().any(|name| !named.contains(name)) {
        let why = "it is given what all stages before it came back with, not of these alone";
        draft.changed.push(told(why));
    }
}

/// The agents of the stages, for people.
fn named(draft: &Draft) -> String {
    let names = draft
        .pipeline
        .iter()
        .map(|stage| match stage.split_once('=') {
            Some((agent, _)) => agent,
            None => stage,
        });
    names.collect::<Vec<_>>().join(", ")
}

/// Lines of a program without its comments.
fn lines(script: &str) -> impl Iterator<Item = &str> {
    let lines = script.lines();
    lines.map(|line| line.split('#').next().unwrap_or(line).trim())
}

/// How the tasks are done; where nothing is said, one after the other.
fn process(script: &str) -> String {
    let mut named = lines(script).filter_map(|line| {
        let (_, rest) = line.split_once("Process.")?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        Some(rest[..end.unwrap_or(rest.len())].to_owned())
    });
    named.next().unwrap_or_else(|| SEQUENTIAL.to_owned())
}

/// The tasks in the order in which the program makes them.
fn order(script: &str) -> Vec<String> {
    let mut is_task = false;
    let mut names = Vec::new();
    for line in lines(script) {
        let made = line
            .strip_prefix("def ")
            .and_then(|rest| rest.split_once('('));
        match made {
            Some((name, _)) => {
                if is_task {
                    names.push(name.trim().to_owned());
                }
                is_task = false;
            }
            None => is_task |= line == "@task",
        }
    }
    names
}
