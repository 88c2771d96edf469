//! The tasks of a CrewAI crew in sequence: an agent with a pipeline.
//!
//! The agents of a crew are in `agents.yaml`, its tasks in `tasks.yaml` beside it. Their order,
//! agents and process are in the [`script`] above. A single file may also have `agents`, `tasks`
//! and `process`.

use std::path::Path;

use super::formats;
use super::rule::{Rule, id, key_change};
use super::script::{self, CrewClass, MethodKind, SEQUENTIAL};
use super::source::{self, Document};
use super::write::Draft;
use super::{Agents, Error, Format, KeyChange, read_included};
use unisono_config::document::{Entry, Table, Value};

const TASKS: &str = "tasks.yaml";
const PROCESS: &str = "process";
/// The usual name of the program that builds a crew.
const SCRIPT: &str = "crew.py";
/// A word that only a program that builds a crew contains.
const BUILDS: &str = "tasks_config";

/// The keys of a task that do not carry over, with the reasons.
const LOST_KEYS: [(&str, &str); 14] = [
    (
        "tools",
        "tools belong to agents: list them in an agent's definition",
    ),
    (
        "async_execution",
        "stages of a pipeline work one after the other: agents that are to work at once are named \
         in `turn.agents` or --agents",
    ),
    (
        "human_input",
        "answers need no approval; tool calls wait for approval if `approve` says so",
    ),
    (
        "output_file",
        "agents do not write files; `unisono run --json` has what each answered",
    ),
    ("create_directory", "agents do not write files"),
    (
        "output_json",
        "write an `output_schema` for the agent if its answer must have a structure",
    ),
    (
        "output_pydantic",
        "write an `output_schema` for the agent if its answer must have a structure",
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
    (
        "callback",
        "hooks around an agent's calls are not supported",
    ),
    ("converter_cls", "it has no counterpart"),
    ("condition", "every stage of a pipeline is done"),
];

#[derive(Debug)]
pub(super) struct Crew {
    name: String,
    tasks: Table,
    /// The prefix of a task's key in reports.
    key_prefix: &'static str,
    process: String,
    settings: Vec<Entry>,
    /// The class that builds the crew, if there is a program.
    program: Option<CrewClass>,
    /// Tasks of the file that no crew of the program uses.
    unused: Vec<String>,
}

/// The crews of a document, or of the files next to it; empty without tasks.
///
/// # Errors
/// Its tasks cannot be read.
pub(super) fn find(path: &Path, document: &Document) -> Result<Vec<Crew>, Error> {
    let base = path.parent().unwrap_or(Path::new(""));
    let top = match base.file_name() {
        Some(name) if name == "config" => base.parent().unwrap_or(base),
        _ => base,
    };
    let name = name(top);
    if let Some(tasks) = document.table.table("tasks") {
        let process = document.table.get(PROCESS);
        let process = process.and_then(|node| node.value.as_text());
        let own = document.table.iter();
        let own = own.filter(|entry| !["agents", "tasks", PROCESS].contains(&entry.key.as_str()));
        return Ok(vec![Crew {
            name,
            tasks: tasks.clone(),
            key_prefix: "tasks.",
            process: process.unwrap_or(SEQUENTIAL).to_owned(),
            settings: own.cloned().collect(),
            program: None,
            unused: Vec::new(),
        }]);
    }
    let Ok(text) = read_included(base, TASKS) else {
        return Ok(Vec::new());
    };
    let tasks = source::parse(&base.join(TASKS), &text)?.table;
    Ok(crews_of_classes(
        &name,
        &tasks,
        script::crews(&program(top)),
    ))
}

fn name(top: &Path) -> String {
    let directory = top.canonicalize().ok();
    let directory = directory.as_deref().and_then(Path::file_name);
    let directory = directory.map(|name| id(&name.to_string_lossy()));
    let name = directory.filter(|name| !name.is_empty());
    name.unwrap_or_else(|| "crew".to_owned())
}

/// The program next to a crew's settings that builds it; empty if there is none.
fn program(top: &Path) -> String {
    if let Ok(script) = read_included(top, SCRIPT) {
        return script;
    }
    let files = std::fs::read_dir(top).into_iter().flatten().flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".py")).collect();
    names.sort();
    let mut scripts = names
        .iter()
        .filter_map(|name| read_included(top, name).ok());
    scripts
        .find(|script| script.contains(BUILDS))
        .unwrap_or_default()
}

/// The crews that the classes of a program build; one crew with all tasks if they build none.
fn crews_of_classes(name: &str, tasks: &Table, mut programs: Vec<CrewClass>) -> Vec<Crew> {
    let process = programs.iter().find_map(|program| program.process.clone());
    programs.retain(|program| !program.tasks.is_empty());
    let is_done = |key: &str| {
        programs
            .iter()
            .any(|p| p.tasks.iter().any(|step| step.key == key))
    };
    let (done, unused): (Vec<&Entry>, Vec<&Entry>) =
        tasks.iter().partition(|entry| is_done(&entry.key));
    let mut unused: Vec<String> = unused.iter().map(|entry| entry.key.clone()).collect();
    if done.is_empty() {
        unused.clear();
    }
    let several = programs.len() > 1;
    if programs.is_empty() {
        programs.push(CrewClass {
            process,
            ..CrewClass::default()
        });
    }
    let crews = programs.into_iter().map(|program| Crew {
        name: match several {
            true => id(&hyphenated(&program.name)),
            false => name.to_owned(),
        },
        tasks: tasks.clone(),
        key_prefix: "tasks.yaml ",
        process: program
            .process
            .clone()
            .unwrap_or_else(|| SEQUENTIAL.to_owned()),
        settings: Vec::new(),
        program: Some(program),
        unused: std::mem::take(&mut unused),
    });
    crews.collect()
}

/// `LampCrew` as `Lamp-Crew`.
fn hyphenated(class: &str) -> String {
    let mut out = String::new();
    for c in class.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c);
    }
    out
}

/// The agents in a crew's file.
pub(super) fn agents(document: &Document) -> &Table {
    let own = document.table.table("agents");
    own.filter(|_| document.table.table("tasks").is_some())
        .unwrap_or(&document.table)
}

impl Crew {
    /// Adds an agent with the crew's pipeline to the crew's agents. If there can be none, the first
    /// of them gets a note.
    pub(super) fn join(self, agents: &mut Agents) {
        let mut ids: Vec<String> = agents.iter().flatten().map(|one| one.id.clone()).collect();
        let mut draft = Draft::new(&self.name);
        if ids.contains(&draft.id) {
            draft.id += "-crew";
        }
        ids.sort();
        for entry in &self.settings {
            let line = entry.place.at.map(|(line, _)| line);
            draft.lost.push(key_change(
                &entry.key,
                line,
                "a crew has no settings of its own here",
            ));
        }
        self.report_arguments(agents);
        self.stages(&ids, &mut draft);
        let why_not = match (self.process.as_str(), draft.pipeline.is_empty()) {
            (SEQUENTIAL, false) => None,
            (SEQUENTIAL, true) => Some("no task of the crew names an agent of it".to_owned()),
            (other, _) => Some(format!(
                "the process `{other}` does not carry over: give a lead the tool `delegate` and run \
                 it with these agents (--agents): it decides who does what"
            )),
        };
        match why_not {
            Some(why) => {
                if let Some(first) = agents.iter_mut().flatten().next() {
                    first.lost.push(key_change(PROCESS, None, &why));
                }
            }
            None => {
                draft.description =
                    format!("Has {} work one after the other", stage_agents(&draft));
                agents.push(draft.finish(Format::CrewAi));
            }
        }
    }

    /// Reports the arguments that the program's method gives each agent: the program is not run.
    fn report_arguments(&self, agents: &mut Agents) {
        let Some(program) = &self.program else {
            return;
        };
        for (_, key) in &program.agents {
            let own = id(key);
            let Some(agent) = agents.iter_mut().flatten().find(|agent| agent.id == own) else {
                continue;
            };
            let keys = formats::keys(Format::CrewAi).iter();
            let matter = keys.filter(|(_, rule)| *rule != Rule::Dropped);
            let names = matter.map(|(name, _)| *name).chain(["mcps", "apps"]);
            for name in program.arguments(MethodKind::Agent, key, names) {
                let why = match formats::rule(Format::CrewAi, name) {
                    Some(Rule::Lost(why)) => why,
                    _ => "the program is not run: write it into the agent's definition",
                };
                let note = key_change(&format!("@agent {key}.{name}"), None, why);
                if !agent.lost.contains(&note) {
                    agent.lost.push(note);
                }
            }
        }
    }

    fn stages(&self, ids: &[String], draft: &mut Draft) {
        for key in &self.unused {
            let key = format!("{}{key}", self.key_prefix);
            draft
                .lost
                .push(key_change(&key, None, "no crew of the program does it"));
        }
        let tasks = self.ordered(draft);
        for at in 0..tasks.len() {
            let before: Vec<&str> = tasks[..at]
                .iter()
                .map(|(task, _)| task.key.as_str())
                .collect();
            let known = draft.pipeline.len();
            self.stage(tasks[at], &before, ids, draft);
            if draft.pipeline.len() > known {
                self.report_task_arguments(&tasks[at].0.key, draft);
            }
        }
    }

    /// Reports the program's arguments of a task that do not carry over.
    fn report_task_arguments(&self, task: &str, draft: &mut Draft) {
        let names = LOST_KEYS.iter().map(|(name, _)| *name);
        let program = self.program.as_ref();
        let given = program.map(|program| program.arguments(MethodKind::Task, task, names));
        for name in given.unwrap_or_default() {
            let known = LOST_KEYS.iter().find(|(known, _)| *known == name);
            let why = known.map_or("this key is not known", |(_, why)| why);
            let key = format!("@task {task}.{name}");
            draft.lost.push(key_change(&key, None, why));
        }
    }

    /// The tasks in the order of the program; all tasks in the order of the file if it names none.
    fn ordered(&self, draft: &mut Draft) -> Vec<(&Entry, &Table)> {
        let tasks = self
            .tasks
            .iter()
            .filter_map(|entry| match &entry.node.value {
                Value::Table(task) => Some((entry, task)),
                _ => None,
            });
        let tasks: Vec<(&Entry, &Table)> = tasks.collect();
        let steps = self.program.as_ref().map(|program| &program.tasks[..]);
        let steps = steps.unwrap_or_default();
        let named = steps.iter().filter_map(|step| {
            tasks
                .iter()
                .find(|(entry, _)| entry.key == step.key)
                .copied()
        });
        let named: Vec<(&Entry, &Table)> = named.collect();
        if named.is_empty() {
            if !steps.is_empty() {
                let how =
                    "the program names its tasks otherwise: they are in the order of the file";
                draft.changed.push(key_change("order", None, how));
            }
            return tasks;
        }
        let missing = steps
            .iter()
            .filter(|step| tasks.iter().all(|(entry, _)| entry.key != step.key));
        for step in missing {
            let key = format!("{}{}", self.key_prefix, step.key);
            let why = "the program does it, and the file does not say what it is";
            draft.lost.push(key_change(&key, None, why));
        }
        named
    }

    /// Adds a task as the next stage.
    fn stage(
        &self,
        (entry, task): (&Entry, &Table),
        before: &[&str],
        ids: &[String],
        draft: &mut Draft,
    ) {
        let program = self.program.as_ref();
        let by = text(task, "agent").or_else(|| program?.agent_of(&entry.key));
        let agent = by.map(id).filter(|agent| ids.contains(agent));
        let Some(agent) = agent else {
            let why = match by {
                Some(name) => format!("it is not a stage: the crew has no agent `{name}`"),
                None => "it is not a stage: it names no agent".to_owned(),
            };
            return draft.lost.push(self.note(entry, "", &why));
        };
        self.report_keys((entry, task), before, draft);
        let task = task_text(task);
        if task.contains('{') {
            let why = "placeholders in braces stay as they are: write what they stand for";
            draft.changed.push(self.note(entry, "", why));
        }
        draft.pipeline.push(match &*task {
            "" => agent,
            task => format!("{agent}={task}"),
        });
    }

    /// Reports the keys of a task that do not carry over, and differences of its context.
    fn report_keys(&self, (entry, task): (&Entry, &Table), before: &[&str], draft: &mut Draft) {
        let note = |key: &str, why: &str| self.note(entry, key, why);
        for below in task.iter() {
            let key = format!(".{}", below.key);
            match below.key.as_str() {
                "agent" | "description" | "expected_output" | "name" => {}
                "context" => match &below.node.value {
                    Value::List(items) => {
                        let items = items.iter().filter_map(|item| item.value.as_text());
                        report_context(&items.collect::<Vec<_>>(), before, draft, |why| {
                            note(&key, why)
                        });
                    }
                    _ => draft.lost.push(note(&key, "it is not a list of tasks")),
                },
                other => {
                    let known = LOST_KEYS.iter().find(|(name, _)| *name == other);
                    let is_off = below.node.value == Value::Bool(false);
                    if !is_off {
                        let why = known.map_or("this key is not known", |(_, why)| why);
                        draft.lost.push(note(&key, why));
                    }
                }
            }
        }
        let program = self.program.as_ref();
        if task.get("context").is_none()
            && let Some(named) = program.and_then(|program| program.context_of(&entry.key))
        {
            report_context(&named, before, draft, |why| note(".context", why));
        }
    }

    /// A note on a task, or on one of its keys: `.tools`.
    fn note(&self, entry: &Entry, key: &str, why: &str) -> KeyChange {
        let line = entry.place.at.map(|(line, _)| line);
        key_change(&format!("{}{}{key}", self.key_prefix, entry.key), line, why)
    }
}

fn text<'t>(task: &'t Table, key: &str) -> Option<&'t str> {
    task.get(key).and_then(|node| node.value.as_text())
}

/// The text that the agent of the stage gets as its task.
fn task_text(task: &Table) -> String {
    let description = text(task, "description").unwrap_or_default().trim();
    match text(task, "expected_output") {
        Some(expected) => format!("{description}\n\nThe answer is: {}", expected.trim())
            .trim()
            .to_owned(),
        None => description.to_owned(),
    }
}

/// Reports differences in the results that a task gets: a stage gets the results of all earlier
/// stages.
fn report_context(
    named: &[&str],
    before: &[&str],
    draft: &mut Draft,
    note: impl Fn(&str) -> KeyChange,
) {
    let later: Vec<&str> = named
        .iter()
        .copied()
        .filter(|name| !before.contains(name))
        .collect();
    if !later.is_empty() {
        let why = format!("not done before it: {}", later.join(", "));
        draft.lost.push(note(&why));
    }
    if before.iter().any(|name| !named.contains(name)) {
        let why = "it receives the results of all earlier stages, not only of these";
        draft.changed.push(note(why));
    }
}

/// The agents of the stages, for messages.
fn stage_agents(draft: &Draft) -> String {
    let names = draft
        .pipeline
        .iter()
        .map(|stage| match stage.split_once('=') {
            Some((agent, _)) => agent,
            None => stage,
        });
    names.collect::<Vec<_>>().join(", ")
}
