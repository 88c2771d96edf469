//! The crews of a CrewAI program: `crew.py`, or another file that builds the crew.
//!
//! It is not run. Of each class, the methods with the decorators `@agent` and `@task` are read: the
//! keys of `agents.yaml` and `tasks.yaml` that they name, the agent of a task, and the tasks whose
//! results it reads; and of the call of `Crew`, its own list of tasks. Outside of classes, the
//! assignments of an `Agent`, a `Task` or a `Crew` are read in the same way. The rest is ignored.

/// The classes of a program in order, after a first one for the code outside of classes.
pub(super) fn crews(script: &str) -> Vec<CrewClass> {
    let mut all = vec![CrewClass::default()];
    for method in methods(script) {
        match method {
            ScriptPart::Class(name) => all.push(CrewClass {
                name,
                ..CrewClass::default()
            }),
            ScriptPart::Method { kind, name, body } => {
                if let Some(program) = all.last_mut() {
                    program.add_method(kind, name, &body);
                }
            }
            ScriptPart::Assignment { kind, name, body } => {
                if let Some(outside) = all.first_mut() {
                    outside.add_method(kind, name, &body);
                }
            }
        }
    }
    all.iter_mut().for_each(CrewClass::keep_listed);
    all
}

/// The default process.
pub(super) const SEQUENTIAL: &str = "sequential";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CrewClass {
    pub(super) name: String,
    /// The process: `sequential`, `hierarchical`; `None`: not specified.
    pub(super) process: Option<String>,
    /// Its methods that make agents, with the agents' keys in `agents.yaml`.
    pub(super) agents: Vec<(String, String)>,
    pub(super) tasks: Vec<Step>,
    /// The body of each such method without comments and spaces, with the key of its agent or task.
    pub(super) bodies: Vec<(MethodKind, String, String)>,
    /// The methods in the crew's list of tasks, in order; empty: the crew has all tasks.
    pub(super) listed: Vec<String>,
}

/// A method that makes a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    method: String,
    /// The task's key in `tasks.yaml`.
    pub(super) key: String,
    /// The method that makes its agent.
    agent: Option<String>,
    /// The methods that make the tasks whose results it gets; `None`: not specified.
    context: Option<Vec<String>>,
}

impl CrewClass {
    /// The key in `agents.yaml` of a task's agent.
    pub(super) fn agent_of(&self, task: &str) -> Option<&str> {
        let step = self.tasks.iter().find(|step| step.key == task)?;
        let method = step.agent.as_deref()?;
        let made = self.agents.iter().rev().find(|(name, _)| name == method);
        Some(made.map_or(method, |(_, key)| key))
    }

    /// The keys in `tasks.yaml` of the tasks whose results a task gets, if specified.
    pub(super) fn context_of(&self, task: &str) -> Option<Vec<&str>> {
        let step = self.tasks.iter().find(|step| step.key == task)?;
        let methods = step.context.as_ref()?.iter();
        let key = |method: &'_ String| {
            let known = self.tasks.iter().find(|step| step.method == *method);
            known.map_or_else(|| method.clone(), |step| step.key.clone())
        };
        let keys: Vec<String> = methods.map(key).collect();
        let tasks = self.tasks.iter().map(|step| step.key.as_str());
        Some(
            tasks
                .filter(|task| keys.iter().any(|key| key == task))
                .collect(),
        )
    }

    /// The arguments of `names` that the program gives an agent or a task, except `False` and
    /// `None`.
    pub(super) fn arguments<'a>(
        &self,
        of: MethodKind,
        key: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> Vec<&'a str> {
        let bodies = self.bodies.iter().rev();
        let mut bodies = bodies.filter(|(kind, of_key, _)| *kind == of && of_key == key);
        let Some((_, _, body)) = bodies.next() else {
            return Vec::new();
        };
        let is_given = |name: &&str| {
            let value = argument(body, name);
            value.is_some_and(|value| !matches!(word(value), "False" | "None"))
        };
        names.filter(is_given).collect()
    }

    fn add_method(&mut self, kind: MethodKind, name: String, body: &str) {
        if let Some((_, rest)) = body.split_once("Process.") {
            let process = self.process.get_or_insert_default();
            if process.is_empty() {
                *process = word(rest).to_owned();
            }
        }
        match kind {
            MethodKind::Agent => {
                let key = config_key(body, "agents_config").unwrap_or_else(|| name.clone());
                self.bodies.push((kind, key.clone(), body.to_owned()));
                self.agents.push((name, key));
            }
            MethodKind::Task => {
                let step = Step {
                    key: config_key(body, "tasks_config").unwrap_or_else(|| name.clone()),
                    agent: argument(body, "agent").and_then(called_method),
                    context: argument(body, "context").map(called_methods),
                    method: name,
                };
                self.bodies.push((kind, step.key.clone(), body.to_owned()));
                // A later method replaces an earlier one of the same name.
                match self
                    .tasks
                    .iter_mut()
                    .find(|known| known.method == step.method)
                {
                    Some(known) => *known = step,
                    None => self.tasks.push(step),
                }
            }
            MethodKind::Other => {
                let crew = body.split_once("Crew(").map(|(_, arguments)| arguments);
                let listed = crew.and_then(|arguments| argument(arguments, "tasks"));
                self.listed
                    .extend(listed.map(called_methods).unwrap_or_default());
            }
        }
    }

    /// Keeps the tasks of the crew's own list, in its order.
    fn keep_listed(&mut self) {
        let place = |step: &Step| self.listed.iter().position(|name| *name == step.method);
        if self.tasks.iter().any(|step| place(step).is_some()) {
            self.tasks.retain(|step| place(step).is_some());
            self.tasks.sort_by_key(place);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MethodKind {
    Agent,
    Task,
    Other,
}

enum ScriptPart {
    Class(String),
    /// A method and its body without comments and spaces.
    Method {
        kind: MethodKind,
        name: String,
        body: String,
    },
    /// The same of an assignment outside of classes: `name = Task(…)`.
    Assignment {
        kind: MethodKind,
        name: String,
        body: String,
    },
}

/// The classes and methods of a program, in order.
fn methods(script: &str) -> Vec<ScriptPart> {
    let mut kind = MethodKind::Other;
    let mut parts = vec![ScriptPart::Method {
        kind,
        name: String::new(),
        body: String::new(),
    }];
    for written in script.lines() {
        let line = without_comment(written).trim();
        if let Some(decorator) = line.strip_prefix('@') {
            kind = match word(decorator) {
                "agent" => MethodKind::Agent,
                "task" => MethodKind::Task,
                // There may be several decorators.
                _ => kind,
            };
        } else if let Some(rest) = line.strip_prefix("class ") {
            parts.push(ScriptPart::Class(word(rest).to_owned()));
            kind = MethodKind::Other;
        } else if let Some(rest) = line
            .strip_prefix("def ")
            .or_else(|| line.strip_prefix("async def "))
        {
            parts.push(ScriptPart::Method {
                kind,
                name: word(rest).to_owned(),
                body: without_spaces(after_signature(rest)),
            });
            kind = MethodKind::Other;
        } else if let Some((kind, name, call)) = assigned(line).filter(|_| is_outside(written)) {
            parts.push(ScriptPart::Assignment {
                kind,
                name: name.to_owned(),
                body: without_spaces(call),
            });
        } else if let Some(ScriptPart::Method { body, .. } | ScriptPart::Assignment { body, .. }) =
            parts.last_mut()
        {
            body.push_str(&without_spaces(line));
        }
    }
    parts
}

/// Whether a line is not indented.
fn is_outside(line: &str) -> bool {
    !line.starts_with(char::is_whitespace)
}

/// What a line assigns, and to which name: an agent, a task or a crew.
fn assigned(line: &str) -> Option<(MethodKind, &str, &str)> {
    let (name, call) = line.split_once('=')?;
    let (name, call) = (name.trim_end(), call.trim_start());
    let kind = match call.split_once('(')?.0 {
        "Agent" => MethodKind::Agent,
        "Task" => MethodKind::Task,
        "Crew" => MethodKind::Other,
        _ => return None,
    };
    (!name.is_empty() && word(name) == name).then_some((kind, name, call))
}

fn without_spaces(line: &str) -> String {
    line.chars().filter(|c| !c.is_whitespace()).collect()
}

/// The body of a method that is on the line of its signature.
fn after_signature(line: &str) -> &str {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, ':') if depth == 0 => return &line[at + 1..],
            _ => {}
        }
    }
    ""
}

/// A line up to its comment; a `#` in quotes is not a comment.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') => return &line[..at],
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    line
}

/// The name at the beginning of a text.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The key in `table["key"]`, or `table.get("key")`.
fn config_key(body: &str, table: &str) -> Option<String> {
    let (_, rest) = body.split_once(table)?;
    let rest = rest
        .strip_prefix('[')
        .or_else(|| rest.strip_prefix(".get("))?;
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (key, _) = rest[1..].split_once(quote)?;
    Some(key.to_owned())
}

/// The text after `name=` in the arguments of a call.
fn argument<'b>(body: &'b str, name: &str) -> Option<&'b str> {
    let named = format!("{name}=");
    let begins = |at: &usize| {
        let before = body[..*at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
    };
    let at = body.match_indices(&named).map(|(at, _)| at).find(begins)?;
    Some(&body[at + named.len()..])
}

/// The first called method, or the first name: `self.name()`, `name`.
fn called_method(text: &str) -> Option<String> {
    let name = word(text.strip_prefix("self.").unwrap_or(text));
    (!matches!(name, "" | "None")).then(|| name.to_owned())
}

fn called_methods(text: &str) -> Vec<String> {
    let list = text.strip_prefix('[').unwrap_or_default();
    let list = list.split(']').next().unwrap_or_default();
    list.split(',').filter_map(called_method).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIGHTHOUSE: &str = r#"
class Lamp():
    agents_config = 'config/agents.yaml'

    @agent
    def keeper_agent(self) -> Agent:
        return Agent(
            config=self.agents_config['keeper'],  # the one who climbs, not self.agents_config['x']
            tools=[Ladder()], llm=LLM(model="x/y"), reasoning=False, memory = None,
        )

	@agent
	def clerk(self) -> Agent:
		return Agent(role="Clerk # 1")

    @task
    def trim(self) -> Task:
        return Task(config=self.tasks_config["trim_task"], agent = self.keeper_agent())

    @task
    def log(self) -> Task:
        return Task(
            config=self.tasks_config.get("log_task"),
            manager_agent=self.nobody(),
            agent=self.clerk(),
            context=[self.trim(), self.unknown()], async_execution=True,
        )

    @crew
    def crew(self) -> Crew:
        # process=Process.hierarchical
        return Crew(agents=self.agents, process=Process.sequential)

class Fog:
    @task
    def horn(self):
        return Task(config=self.tasks_config["horn"])

    @crew
    def crew(self):
        return Crew(process = Process.hierarchical)
"#;

    #[test]
    fn agents_tasks_and_process_are_read_of_each_class() {
        let all = crews(LIGHTHOUSE);
        let [_, lamp, fog] = &all[..] else {
            panic!("{all:#?}");
        };
        assert_eq!(
            (&*lamp.name, lamp.process.as_deref()),
            ("Lamp", Some("sequential"))
        );
        let keys: Vec<&str> = lamp.tasks.iter().map(|step| &*step.key).collect();
        assert_eq!(keys, ["trim_task", "log_task"]);
        assert_eq!(lamp.agent_of("trim_task"), Some("keeper"));
        assert_eq!(lamp.agent_of("log_task"), Some("clerk"));
        assert_eq!(lamp.context_of("log_task"), Some(vec!["trim_task"]));
        assert_eq!(lamp.context_of("trim_task"), None);
        assert_eq!(
            (&*fog.name, fog.process.as_deref()),
            ("Fog", Some("hierarchical"))
        );
        assert_eq!(fog.agent_of("horn"), None);
        let names = ["tools", "llm", "reasoning", "memory", "async_execution"];
        let given = |kind, key| lamp.arguments(kind, key, names.into_iter());
        assert_eq!(given(MethodKind::Agent, "keeper"), ["tools", "llm"]);
        assert_eq!(given(MethodKind::Task, "log_task"), ["async_execution"]);
        assert!(given(MethodKind::Agent, "log_task").is_empty());
    }

    #[test]
    fn the_list_of_a_crew_chooses_and_orders_its_tasks() {
        let keys = |tasks: &str| -> Vec<String> {
            let script = format!(
                "class C():\n    @task\n    def a(self):\n        return Task(description='x')\n    @task\n    \
                 def b(self):\n        return Task(description='y')\n    @crew\n    def crew(self):\n        \
                 return Crew(agents=self.agents, tasks={tasks}, process=Process.sequential)\n"
            );
            let class = crews(&script).pop().unwrap();
            class.tasks.into_iter().map(|step| step.key).collect()
        };
        assert_eq!(keys("self.tasks"), ["a", "b"]);
        assert_eq!(keys("[self.b(), self.a()]"), ["b", "a"]);
        assert_eq!(keys("[self.b()]"), ["b"]);
        assert_eq!(keys("[self.unknown()]"), ["a", "b"]);
    }

    #[test]
    fn a_method_on_one_line_is_read() {
        let all = crews(
            r#"
class Lamp:
    @agent
    def keeper(self) -> Agent: return Agent(config=self.agents_config["watch"])

    @task
    def t1(self): return Task(config=self.tasks_config["trim"], agent=self.keeper())

    @task
    def t2(self, tint: str = ":", **more: dict[str, int]) -> Task: return Task(agent=self.other(), context=[self.t1()])

    @crew
    def crew(self): return Crew(process=Process.sequential)
"#,
        );
        let lamp = &all[1];
        assert_eq!(lamp.process.as_deref(), Some("sequential"));
        assert_eq!(lamp.agent_of("trim"), Some("watch"));
        assert_eq!(lamp.agent_of("t2"), Some("other"));
        assert_eq!(lamp.context_of("t2"), Some(vec!["trim"]));
    }

    #[test]
    fn a_crew_is_built_outside_of_classes() {
        let all = crews(
            r#"
tasks_config = yaml.safe_load(file)
keeper = Agent(config=agents_config["watch"], verbose=True)
clerk = Agent(
    config=agents_config["office"], tools=[ledger],
)
trim = Task(description=tasks_config["trim"]["description"], agent=keeper)
note = Task(
    description=tasks_config["log"]["description"],
    agent=clerk,
    context=[trim],
)
spare = Task(description=tasks_config["spare"]["description"], agent=None)
crew = Crew(agents=[keeper, clerk], tasks=[trim, note], process=Process.sequential)
print(crew.kickoff())

class Other:
    def ask(self):
        task = Task(description="x")
"#,
        );
        let [outside, other] = &all[..] else {
            panic!("{all:#?}");
        };
        let keys: Vec<&str> = outside.tasks.iter().map(|step| &*step.key).collect();
        assert_eq!(keys, ["trim", "log"]);
        assert_eq!(outside.process.as_deref(), Some("sequential"));
        assert_eq!(outside.agent_of("trim"), Some("watch"));
        assert_eq!(outside.agent_of("log"), Some("office"));
        assert_eq!(outside.context_of("log"), Some(vec!["trim"]));
        let given = outside.arguments(MethodKind::Agent, "office", ["tools"].into_iter());
        assert_eq!(given, ["tools"]);
        assert!(other.tasks.is_empty());
    }

    #[test]
    fn a_program_of_any_text_is_read_without_a_fault() {
        for text in [
            "",
            "def",
            "def (",
            "@task\ndef x(",
            "class\n@task\ndef é(self):\n agent=self.é(",
        ] {
            let _ = crews(text);
        }
        let bare = crews("Crew(process=Process.hierarchical)\n");
        assert_eq!(bare[0].process.as_deref(), Some("hierarchical"));
        let again =
            "@task\ndef a(self): \n T(agent=self.x())\n@task\ndef a(self):\n T(agent=self.y())";
        let all = crews(again);
        assert_eq!(all[0].tasks.len(), 1);
        assert_eq!(all[0].agent_of("a"), Some("y"));
    }
}
