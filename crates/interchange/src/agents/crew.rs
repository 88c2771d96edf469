//! The tasks of a CrewAI crew, done one after the other: an agent with a pipeline.
//!
//! The agents of a crew are in `agents.yaml`, its tasks in `tasks.yaml` beside it. Their order,
//! agents and process are in the [`script`] above. A single file may also have `agents`, `tasks`
//! and `process`.

use std::path::Path;

use super::formats;
use super::rule::{Rule, id, loss};
use super::script::{self, Kind, Program, SEQUENTIAL};
use super::source::{self, Document};
use super::write::Draft;
use super::{Agents, Error, Format, Lost, included};
use unisono_config::document::{Entry, Table, Value};

const TASKS: &str = "tasks.yaml";
const PROCESS: &str = "process";
/// Where a crew is built, mostly.
const SCRIPT: &str = "crew.py";
/// What is only in a program that builds one.
const BUILDS: &str = "tasks_config";

/// The keys of a task that do not carry over, and why.
const LOST: [(&str, &str); 13] = [
    ("tools", "tools are an agent's: name them in its definition"),
    (
        "async_execution",
        "stages of a pipeline work one after the other: agents that are to work at once are named \
         in `turn.agents` or --agents",
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
    /// The class that makes the crew, where a program does.
    program: Option<Program>,
    /// Tasks of the file that no crew of the program does.
    unused: Vec<String>,
}

/// The crews of a document, or of the files around it; none where it has no tasks.
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
            at: "tasks.",
            process: process.unwrap_or(SEQUENTIAL).to_owned(),
            own: own.cloned().collect(),
            program: None,
            unused: Vec::new(),
        }]);
    }
    let Ok(text) = included(base, TASKS) else {
        return Ok(Vec::new());
    };
    let tasks = source::parse(&base.join(TASKS), &text)?.table;
    Ok(made(&name, &tasks, script::crews(&program(top))))
}

/// What a crew in that directory is called.
fn name(top: &Path) -> String {
    let directory = top.canonicalize().ok();
    let directory = directory.as_deref().and_then(Path::file_name);
    let directory = directory.map(|name| id(&name.to_string_lossy()));
    let name = directory.filter(|name| !name.is_empty());
    name.unwrap_or_else(|| "crew".to_owned())
}

/// The program beside a crew's settings that builds it; empty where there is none.
fn program(top: &Path) -> String {
    if let Ok(script) = included(top, SCRIPT) {
        return script;
    }
    let files = std::fs::read_dir(top).into_iter().flatten().flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".py")).collect();
    names.sort();
    let mut scripts = names.iter().filter_map(|name| included(top, name).ok());
    scripts
        .find(|script| script.contains(BUILDS))
        .unwrap_or_default()
}

/// The crews that a program makes of tasks; one with all of them where it makes none.
fn made(name: &str, tasks: &Table, mut programs: Vec<Program>) -> Vec<Crew> {
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
        programs.push(Program {
            process,
            ..Program::default()
        });
    }
    let crews = programs.into_iter().map(|program| Crew {
        name: match several {
            true => id(&apart(&program.name)),
            false => name.to_owned(),
        },
        tasks: tasks.clone(),
        at: "tasks.yaml ",
        process: program
            .process
            .clone()
            .unwrap_or_else(|| SEQUENTIAL.to_owned()),
        own: Vec::new(),
        program: Some(program),
        unused: std::mem::take(&mut unused),
    });
    crews.collect()
}

/// `LampCrew` as `Lamp-Crew`.
fn apart(class: &str) -> String {
    let mut out = String::new();
    for c in class.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c);
    }
    out
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
        self.report_arguments(agents);
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

    /// Says of each agent what its method in the program gives it, which is not run.
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
            for name in program.arguments(Kind::Agent, key, names) {
                let why = match formats::rule(Format::CrewAi, name) {
                    Some(Rule::Lost(why)) => why,
                    _ => "the program is not run: write it into the agent's definition",
                };
                let told = loss(&format!("@agent {key}.{name}"), None, why);
                if !agent.lost.contains(&told) {
                    agent.lost.push(told);
                }
            }
        }
    }

    fn stages(&self, ids: &[String], draft: &mut Draft) {
        for key in &self.unused {
            let key = format!("{}{key}", self.at);
            draft
                .lost
                .push(loss(&key, None, "no crew of the program does it"));
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

    /// Says what the program gives a task that does not carry over.
    fn report_task_arguments(&self, task: &str, draft: &mut Draft) {
        let names = LOST.iter().map(|(name, _)| *name);
        let program = self.program.as_ref();
        let given = program.map(|program| program.arguments(Kind::Task, task, names));
        for name in given.unwrap_or_default() {
            let known = LOST.iter().find(|(known, _)| *known == name);
            let why = known.map_or("this key is not known", |(_, why)| why);
            let key = format!("@task {task}.{name}");
            draft.lost.push(loss(&key, None, why));
        }
    }

    /// The tasks as the program does them; all in the order of the file where it names none of them.
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
                draft.changed.push(loss("order", None, how));
            }
            return tasks;
        }
        let missing = steps
            .iter()
            .filter(|step| tasks.iter().all(|(entry, _)| entry.key != step.key));
        for step in missing {
            let key = format!("{}{}", self.at, step.key);
            let why = "the program does it, and the file does not say what it is";
            draft.lost.push(loss(&key, None, why));
        }
        named
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
        let program = self.program.as_ref();
        let by = text("agent").or_else(|| program?.agent_of(&entry.key));
        let agent = by.map(id).filter(|agent| ids.contains(agent));
        let Some(agent) = agent else {
            let why = match by {
                Some(name) => format!("it is no stage: the crew has no agent `{name}`"),
                None => "it is no stage: it names no agent".to_owned(),
            };
            return draft.lost.push(told("", &why));
        };
        for below in task.iter() {
            let key = format!(".{}", below.key);
            match below.key.as_str() {
                "agent" | "description" | "expected_output" | "name" => {}
                "context" => match &below.node.value {
                    Value::List(items) => {
                        let items = items.iter().filter_map(|item| item.value.as_text());
                        context(&items.collect::<Vec<_>>(), before, draft, |why| {
                            told(&key, why)
                        });
                    }
                    _ => draft.lost.push(told(&key, "it is no list of tasks")),
                },
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
        if task.get("context").is_none()
            && let Some(named) = program.and_then(|program| program.context_of(&entry.key))
        {
            context(&named, before, draft, |why| told(".context", why));
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
fn context(named: &[&str], before: &[&str], draft: &mut Draft, told: impl Fn(&str) -> Lost) {
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
