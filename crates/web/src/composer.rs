//! The form for a turn: a task and its agents.

use std::collections::HashSet;

use maud::{Markup, html};
use unisono_api::Problem;
use unisono_api::agent::{Agent, AgentQuery};
use unisono_api::service::{self, Service};
use unisono_api::session::main_branch;
use unisono_api::turn::{NewAttachment, NewTurn, Turn};

use crate::blob;
use crate::branch_view::BranchView;
use crate::extract::FormFile;
use crate::parts::counted;
use crate::session_settings::SessionSettings;
use crate::text_limit::TextLimit;

/// The files that can be chosen.
const DOCUMENTS: &str = "application/pdf";

/// The prefix of the field with an agent's task; the agent's name follows.
const TASK_OF: &str = "task:";

/// Maximum number of offered agents, without those that are chosen.
const AGENTS: usize = 60;
/// Bytes of the descriptions of agents that are shown as a whole.
const ABOUTS: usize = 4 * 1024;
const PRESETS: [&str; 6] = [
    "checkpoint",
    "retention",
    "progressive",
    "tiered",
    "truncate",
    "off",
];

/// The content of the form, also of a rejected one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) branch: String,
    task: String,
    /// The idempotency key, so that a repeated submission is not a second turn.
    pub(crate) key: Option<String>,
    /// The model of all agents; none: as configured.
    model: Option<String>,
    /// The compaction preset; none: as configured.
    preset: Option<String>,
    /// The lead; none: the configured one.
    lead: Option<String>,
    agents: Vec<String>,
    /// Tasks of individual agents.
    tasks: Vec<(String, String)>,
    /// Stored files: digest and name.
    stored: Vec<(String, String)>,
    /// The reason for the rejection.
    pub(crate) error: Option<String>,
}

impl Draft {
    /// An empty form with the configured agents, each `agent` or `agent=task`.
    pub(crate) fn new(settings: &SessionSettings) -> Draft {
        let mut draft = Draft::default();
        for named in &settings.agents {
            let (agent, task) = named.split_once('=').unwrap_or((named, ""));
            draft.agents.push(agent.to_owned());
            draft.tasks.push((agent.to_owned(), task.to_owned()));
        }
        draft
    }

    /// The task of a turn once more, with its attachments: for its agents, or without runs for the
    /// configured ones.
    pub(crate) fn again(turn: &Turn, settings: &SessionSettings) -> Draft {
        let mut draft = match turn.runs.is_empty() {
            true => Draft::new(settings),
            false => Draft::default(),
        };
        // The stages of a pipeline come with its lead.
        let named = turn.runs.iter();
        let named = named.filter(|run| run.role == "delegate" && run.stage.is_none());
        for run in named {
            draft.agents.push(run.agent.clone());
            let own = run.task.clone().unwrap_or_default();
            draft.tasks.push((run.agent.clone(), own));
        }
        draft.lead.clone_from(&turn.lead);
        draft.branch.clone_from(&turn.branch);
        draft.task = turn.task.clone().unwrap_or_default();
        let stored = turn.attachments.iter().filter_map(|attachment| {
            let digest = attachment.digest.clone()?;
            Some((digest, attachment.filename.clone()))
        });
        draft.stored.extend(stored);
        draft
    }

    pub(crate) fn read(fields: Vec<(String, String)>) -> Draft {
        let mut draft = Draft {
            branch: main_branch(),
            ..Draft::default()
        };
        for (name, value) in fields {
            match name.as_str() {
                "branch" => draft.branch = value,
                "task" => draft.task = value.replace("\r\n", "\n"),
                "key" => draft.key = Some(value).filter(|key| !key.is_empty()),
                "model" => draft.model = Some(value).filter(|model| !model.is_empty()),
                "preset" => draft.preset = Some(value).filter(|preset| !preset.is_empty()),
                "lead" => draft.lead = Some(value).filter(|lead| !lead.is_empty()),
                "agent" => draft.agents.push(value),
                "stored" => {
                    let (digest, name) = value.split_once('/').unwrap_or((&value, ""));
                    draft.stored.push((digest.to_owned(), name.to_owned()));
                }
                _ => {
                    if let Some(agent) = name.strip_prefix(TASK_OF) {
                        draft.add_task(agent, value);
                    }
                }
            }
        }
        draft.name_once_for_each_task();
        draft
    }

    /// Adds a field of an agent. A further one without a task is none.
    fn add_task(&mut self, agent: &str, task: String) {
        let is_first = self.tasks.iter().all(|(name, _)| name != agent);
        if is_first || !task.trim().is_empty() {
            self.tasks.push((agent.to_owned(), task));
        }
    }

    /// Names the chosen agents once for each of their tasks: the form has one box for an agent.
    fn name_once_for_each_task(&mut self) {
        let named = self.tasks.iter().enumerate();
        let further = named.filter(|(at, (agent, _))| {
            let mut before = self.tasks[..*at].iter();
            self.chosen(agent) && before.any(|(name, _)| name == agent)
        });
        let further: Vec<String> = further.map(|(_, (agent, _))| agent.clone()).collect();
        self.agents.extend(further);
    }

    /// Stores the uploaded files. They belong to the turn, or to the form if it is shown again. The
    /// content of a file determines its type. A refused file does not keep the others out.
    pub(crate) async fn store(
        &mut self,
        service: &dyn Service,
        files: Vec<FormFile>,
    ) -> service::Result<()> {
        let mut refused: Option<Box<Problem>> = None;
        for file in files {
            match service.put_blob(file.bytes.into(), None).await {
                Ok(stored) => self.stored.push((stored.digest, file.filename)),
                Err(service::Error::Problem(mut problem)) => {
                    problem.detail = format!("{}: {}", file.filename, problem.detail);
                    match &mut refused {
                        Some(first) => {
                            first.detail = format!("{}; {}", first.detail, problem.detail);
                        }
                        None => refused = Some(problem),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        match refused {
            Some(problem) => Err(service::Error::Problem(problem)),
            None => Ok(()),
        }
    }

    /// The tasks of an agent in the fields of the form. In an empty one, which is the first, it works on
    /// the task of the turn.
    fn tasks_of(&self, agent: &str) -> Vec<&str> {
        let own = self.tasks.iter().filter(|(name, _)| name == agent);
        let mut own: Vec<&str> = own.map(|(_, task)| task.trim()).collect();
        own.sort_by_key(|task| !task.is_empty());
        if own.is_empty() {
            own.push("");
        }
        own
    }

    /// An agent with several tasks is named once for each.
    fn nth_task_of(&self, agent: &str, at: usize) -> &str {
        let mut own = self.tasks.iter().filter(|(name, _)| name == agent);
        own.nth(at).map_or("", |(_, task)| task.trim())
    }

    fn chosen(&self, agent: &str) -> bool {
        self.agents.iter().any(|chosen| chosen == agent)
    }

    /// Chooses the agents of a session that the task names with `@`, but the lead.
    pub(crate) async fn choose_named_agents(
        &mut self,
        service: &dyn Service,
        session: &str,
    ) -> service::Result<()> {
        if !self.task.contains('@') {
            return Ok(());
        }
        let query = AgentQuery {
            session: Some(session.to_owned()),
            ..AgentQuery::default()
        };
        let agents = service.agents(&query).await.unwrap_or_default();
        let settings = SessionSettings::read(service, session).await?;
        let names = agents.iter().map(|agent| agent.agent.as_str());
        self.choose_named(names, &settings.lead);
        Ok(())
    }

    fn choose_named<'a>(
        &mut self,
        agents: impl IntoIterator<Item = &'a str>,
        configured_lead: &str,
    ) {
        let lead = self.lead.as_deref().unwrap_or(configured_lead).to_owned();
        let named = named_in(&self.task);
        for agent in agents.into_iter().filter(|agent| *agent != lead) {
            if named.contains(agent) && !self.chosen(agent) {
                self.agents.push(agent.to_owned());
            }
        }
    }

    pub(crate) fn turn(&self) -> NewTurn {
        let named = |(at, agent): (usize, &String)| {
            let before = self.agents[..at].iter().filter(|one| *one == agent);
            match self.nth_task_of(agent, before.count()) {
                "" => agent.clone(),
                task => format!("{agent}={task}"),
            }
        };
        let own = [
            ("models.override", &self.model),
            ("compaction.preset", &self.preset),
        ];
        let own = own.into_iter().filter_map(|(key, value)| {
            let value = value.clone()?;
            Some((key.to_owned(), value.into()))
        });
        NewTurn {
            settings: own.collect(),
            branch: self.branch.clone(),
            lead: self.lead.clone(),
            attachments: self.stored.iter().map(attachment).collect(),
            agents: Some(self.agents.iter().enumerate().map(named).collect()),
            ..NewTurn::new(self.task.trim())
        }
    }
}

/// The names that a text has after an `@`, in one pass: texts are long, and agents can be many.
fn named_in(text: &str) -> HashSet<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let words = text.split_whitespace();
    let names = words.filter_map(|word| word.strip_prefix('@'));
    let names = names.map(|word| &word[..word.find(|c| !is_name(c)).unwrap_or(word.len())]);
    names.collect()
}

fn attachment((digest, filename): &(String, String)) -> NewAttachment {
    NewAttachment {
        filename: filename.clone(),
        digest: Some(digest.clone()),
        ..NewAttachment::default()
    }
}

pub(crate) fn form(
    place: &BranchView,
    settings: &SessionSettings,
    agents: &[Agent],
    draft: &Draft,
) -> Markup {
    let lead = settings.lead.as_str();
    let shown_lead = draft.lead.as_deref().unwrap_or(lead);
    let refused = draft.error.is_some();
    let others = agents.iter().filter(|agent| agent.agent != lead);
    let others: Vec<(&str, &str)> = others
        .map(|agent| (agent.agent.as_str(), agent.description.as_str()))
        .collect();
    let known = |agent: &&String| others.iter().all(|(name, _)| name != agent);
    let gone = draft.agents.iter().filter(known);
    let gone: Vec<(&str, &str)> = gone
        .map(|agent| (agent.as_str(), "There is no such agent."))
        .collect();
    let (others, more_agents) = shown_agents(others, draft);
    let room = TextLimit::new(ABOUTS);
    html! {
        section class="composer" id="composer" aria-labelledby="asking" data-keep[refused] data-at=[refused.then(|| place.path(""))] {
            h2 id="asking" class="hidden" { "Ask" }
            form method="post" action={ "/sessions/" (place.about.session) "/ask" } enctype="multipart/form-data" {
                input type="hidden" name="branch" value=(place.branch);
                // The script sets it: without the script, a browser submits a form once.
                input type="hidden" name="key" value="";
                label for="task" { "Task" }
                textarea id="task" name="task" rows="2" required aria-invalid=[refused.then_some("true")]
                    aria-describedby=[refused.then_some("refused")] autofocus[refused] { "\n" (draft.task) }
                (files(draft))
                @if let Some(error) = &draft.error { p class="trouble" id="refused" role="alert" { (error) } }
                @if !others.is_empty() || !gone.is_empty() {
                    fieldset class="chips" {
                        legend { "Agents that work before " span data-lead=(lead) { (shown_lead) } }
                        @for (agent, about) in others.iter().chain(&gone) { (chip(agent, about, draft, &room)) }
                        @if more_agents > 0 { p class="quiet" { (counted(more_agents as u64, "more agent"))
                            ": name them with @ in the task, such as @facts" } }
                    }
                }
                (more(settings, &others, draft))
                div class="send" {
                    // First in order: the Enter key takes the first button.
                    button class="ask" { "Ask " span data-lead=(lead) { (shown_lead) } }
                    button class="small plain" id="estimating" formenctype="application/x-www-form-urlencoded"
                        formaction={ "/sessions/" (place.about.session) "/estimate" } { "Estimate" }
                    div id="estimate" aria-live="polite" {}
                    span id="unsent" class="warn" role="status" {}
                }
            }
        }
    }
}

/// The field for files, with the stored ones.
fn files(draft: &Draft) -> Markup {
    let types = [&blob::SHOWN[..], &[DOCUMENTS]].concat().join(",");
    html! {
        div class="files" id="attaching" {
            label for="files" { "Images and PDFs" }
            input type="file" id="files" name="file" multiple accept=(types);
            @for (at, (digest, name)) in draft.stored.iter().enumerate() {
                span class="chip" {
                    input type="checkbox" name="stored" id={ "stored-" (at) } value={ (digest) "/" (name) } checked;
                    label for={ "stored-" (at) } { (name) }
                }
            }
        }
    }
}

/// The agents that the form offers: of many only the first and the chosen ones. Also the number of the
/// others.
fn shown_agents<'a>(
    mut agents: Vec<(&'a str, &'a str)>,
    draft: &Draft,
) -> (Vec<(&'a str, &'a str)>, usize) {
    let (all, mut left) = (agents.len(), AGENTS);
    agents.retain(|(agent, _)| {
        let is_first = left > 0;
        left = left.saturating_sub(1);
        is_first || draft.chosen(agent) || draft.lead.as_deref() == Some(*agent)
    });
    let more = all - agents.len();
    (agents, more)
}

fn chip(agent: &str, about: &str, draft: &Draft, room: &TextLimit) -> Markup {
    html! {
        span class="chip" title=(room.line(about, 300)) {
            input type="checkbox" name="agent" id={ "agent-" (agent) } value=(agent) checked[draft.chosen(agent)];
            label for={ "agent-" (agent) } { (agent) }
        }
    }
}

/// Fields for individual tasks, the lead, the model and the preset.
fn more(settings: &SessionSettings, agents: &[(&str, &str)], draft: &Draft) -> Markup {
    let lead = &settings.lead;
    let own = draft.tasks.iter().any(|(_, task)| !task.trim().is_empty());
    let other = draft.lead.is_some() || draft.model.is_some() || draft.preset.is_some();
    let named = draft
        .model
        .iter()
        .filter(|one| !settings.models.contains(one));
    html! {
        details class="tasks" id="tasks" open[own || other] {
            summary { "Tasks of their own, another lead, model or preset" }
            p class="quiet" { "An agent without one works on the task above." }
            @for (agent, _) in agents {
                @for (at, task) in draft.tasks_of(agent).into_iter().enumerate() {
                    @let field = if at == 0 { format!("task-{agent}") } else { format!("task-{agent}:{at}") };
                    label for=(field) { (agent) }
                    input id=(field) name={ (TASK_OF) (agent) } value=(task);
                }
            }
            label for="lead" { "Lead" }
            select id="lead" name="lead" {
                option value="" { (lead) ", as configured" }
                @for (agent, _) in agents {
                    option value=(agent) selected[draft.lead.as_deref() == Some(*agent)] { (agent) }
                }
            }
            label for="model" { "Model of all agents, for this turn" }
            select id="model" name="model" {
                option value="" { "as configured" }
                @for model in settings.models.iter().chain(named) {
                    option value=(model) selected[draft.model.as_ref() == Some(model)] { (model) }
                }
            }
            label for="preset" { "Compaction preset, for this turn" }
            select id="preset" name="preset" {
                option value="" { "as configured" }
                @for preset in PRESETS {
                    option value=(preset) selected[draft.preset.as_deref() == Some(preset)] { (preset) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(of: &[(&str, &str)]) -> Vec<(String, String)> {
        let each = of.iter();
        each.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_form_asks_those_that_are_chosen_each_with_its_task() {
        let draft = Draft::read(fields(&[
            ("branch", "what if"),
            ("task", " Which\r\nday? "),
            ("agent", "facts"),
            ("agent", "risks"),
            ("task:facts", " Find = dates. "),
            ("task:risks", ""),
            ("task:actions", "Not asked."),
            ("lead", "coordinator"),
            ("key", "k1"),
            ("model", "extractive"),
            ("preset", ""),
            ("stored", "5f0c/screen/1.png"),
        ]));
        assert_eq!(draft.key.as_deref(), Some("k1"));
        let turn = draft.turn();
        assert_eq!(turn.lead.as_deref(), Some("coordinator"));
        assert_eq!(turn.task, "Which\nday?");
        let own = [("models.override".to_owned(), "extractive".into())];
        assert_eq!(turn.settings, own.into());
        assert_eq!(turn.branch, "what if");
        let file = &turn.attachments[0];
        assert_eq!(file.digest.as_deref(), Some("5f0c"));
        assert_eq!(file.filename, "screen/1.png");
        let asked = ["facts=Find = dates.".to_owned(), "risks".to_owned()];
        assert_eq!(turn.agents, Some(asked.to_vec()));
        let alone = Draft::read(fields(&[("task", "x"), ("lead", "")])).turn();
        assert_eq!((alone.agents, alone.lead), (Some(vec![]), None));
    }

    #[test]
    fn a_turn_is_asked_again_of_its_lead_and_for_each_task_of_its_agents() {
        let used = serde_json::json!({
            "input_tokens": 0, "output_tokens": 0, "cache_expected_tokens": 0,
            "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": 0.0,
        });
        let run = |agent: &str, role: &str, task: Option<&str>, stage: Option<u32>| {
            serde_json::json!({
                "run": "r", "agent": agent, "model": null, "role": role, "stage": stage,
                "parent": null, "task": task, "state": "failed", "attempt": 1, "snapshot": null,
                "prefix": "", "text": null, "error": null, "usage": used, "opened_at": "",
                "ended_at": null, "duration_ms": null,
            })
        };
        let turn: Turn = serde_json::from_value(serde_json::json!({
            "session": "s", "turn": "t", "branch": "main", "lead": "decisions", "task": "x",
            "state": "failed", "error": null, "answer": null, "snapshot": null,
            "snapshot_agents": 1, "checkpoints": [], "cost_usd": 0.0, "accepted_at": "",
            "ended_at": null,
            "runs": [
                run("facts", "delegate", Some("Amounts."), None),
                run("facts", "delegate", Some("Dates."), None),
                run("risks", "delegate", None, None),
                run("actions", "child", Some("Ask."), None),
                run("outline", "delegate", None, Some(1)),
            ],
        }))
        .unwrap();
        let settings = SessionSettings {
            lead: "lead".to_owned(),
            agents: Vec::new(),
            notifies: true,
            models: Vec::new(),
        };
        let again = Draft::again(&turn, &settings).turn();
        assert_eq!(again.lead.as_deref(), Some("decisions"));
        let agents = ["facts=Amounts.", "facts=Dates.", "risks"].map(str::to_owned);
        assert_eq!(again.agents, Some(agents.to_vec()));
    }

    #[test]
    fn an_agent_that_the_text_names_is_chosen() {
        let mut draft = Draft::read(fields(&[(
            "task",
            "@facts, and mail to a@risks or @lead: when?",
        )]));
        draft.choose_named(["lead", "facts", "risks"], "lead");
        assert_eq!(draft.agents, ["facts"]);
    }

    #[test]
    fn an_agent_with_several_tasks_has_a_field_for_each() {
        let agents = ["facts=Amounts.", "risks", "facts", "facts=Dates."];
        let settings = SessionSettings {
            lead: "lead".to_owned(),
            agents: agents.map(str::to_owned).to_vec(),
            notifies: true,
            models: Vec::new(),
        };
        let draft = Draft::new(&settings);
        assert_eq!(draft.tasks_of("facts"), ["", "Amounts.", "Dates."]);
        let shown = more(&settings, &[("facts", "")], &draft).into_string();
        assert_eq!(shown.matches("name=\"task:facts\"").count(), 3);
        for (third, asked) in [
            (
                "Dates.",
                &["facts", "risks", "facts=Amounts.", "facts=Dates."][..],
            ),
            (" ", &["facts", "risks", "facts=Amounts."][..]),
        ] {
            let sent = Draft::read(fields(&[
                ("task", "x"),
                ("agent", "facts"),
                ("agent", "risks"),
                ("task:facts", ""),
                ("task:facts", "Amounts."),
                ("task:facts", third),
                ("task:actions", "Not asked."),
                ("task:actions", "Nor this."),
            ]));
            let named = sent.turn().agents.unwrap();
            assert_eq!(named, asked, "{third:?}");
        }
    }

    #[test]
    fn the_names_of_a_text_are_found_once() {
        let text = "@facts @facts. (@risks) a@b @ @a-b_ü!x";
        assert_eq!(named_in(text), HashSet::from(["facts", "", "a-b_ü"]));
    }

    #[test]
    fn of_many_agents_the_first_and_the_chosen_ones_are_offered() {
        let names: Vec<String> = (0..200).map(|n| format!("agent-{n}")).collect();
        let agents: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        let draft = Draft::read(fields(&[("agent", "agent-150"), ("lead", "agent-199")]));
        let (shown, more) = shown_agents(agents.clone(), &draft);
        assert_eq!((shown.len(), more), (AGENTS + 2, 200 - AGENTS - 2));
        assert_eq!(shown[AGENTS..], [agents[150], agents[199]]);
        let (few, more) = shown_agents(agents[..AGENTS].to_vec(), &draft);
        assert_eq!((few.len(), more), (AGENTS, 0));
    }

    #[test]
    fn what_is_configured_is_chosen_first() {
        let settings = SessionSettings {
            lead: "lead".to_owned(),
            agents: vec!["risks".to_owned(), "facts=Find.".to_owned()],
            notifies: true,
            models: Vec::new(),
        };
        let draft = Draft::new(&settings);
        assert!(draft.chosen("risks") && draft.chosen("facts") && !draft.chosen("lead"));
        assert_eq!(draft.tasks_of("facts"), ["Find."]);
        assert_eq!(draft.tasks_of("risks"), [""]);
    }
}
