//! A chat: messages to the agents, and commands.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use serde_json::json;
use unisono_api::compaction::NewCompaction;
use unisono_api::context::Context;
use unisono_api::message::{Message, MessageQuery};
use unisono_api::session::MAIN_BRANCH;
use unisono_api::session::{Branch, NewBranch, NewSession};
use unisono_api::turn::{NewTurn, TurnRequest};
use unisono_config::settings::SessionOverrides;
use unisono_config::setup::Setup;
use unisono_context::Role;

use super::input::{Input, Prompt};
use super::{Args, HELP, Order};
use crate::app::App;
use crate::commands::{compact, context, seal};
use crate::live::{Answer, End, Interrupts, Limits, Screen, Watch, ending, follow, report};
use crate::options::Workers;
use crate::problem::{Problem, Result};
use crate::service::{all_branches, unknown_branch};
use crate::show;
use crate::terminal::terminal_safe;
use crate::turn_service::TurnService;

/// Characters of the first message that name a new session.
const TITLE_CHARS: usize = 60;
/// Maximum messages of the person in the line history.
const RECALLED: usize = 200;
/// Messages per read.
const READ: u32 = 500;

/// The step after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The next line.
    GoOn,
    Stop,
    /// The chat ended while a turn was open.
    Left,
}

#[derive(Debug)]
pub(super) struct Talk<'t> {
    app: &'t App,
    setup: &'t Setup,
    turns: &'t TurnService,
    /// The session after the last line; none before the first message of a new one.
    session: Option<CurrentSession>,
    branch: String,
    workers: Workers,
    reported_notices: BTreeSet<String>,
    left: bool,
}

#[derive(Debug)]
struct CurrentSession {
    id: String,
    title: String,
    own: SessionOverrides,
    branches: Vec<Branch>,
}

impl<'t> Talk<'t> {
    pub(super) fn new(
        app: &'t App,
        setup: &'t Setup,
        turns: &'t TurnService,
        args: &Args,
    ) -> Talk<'t> {
        Talk {
            app,
            setup,
            turns,
            session: None,
            branch: args.branch.clone(),
            workers: args.workers.clone(),
            reported_notices: BTreeSet::new(),
            left: false,
        }
    }

    pub(super) async fn open(&mut self, session: String) -> Result<()> {
        self.look(session).await?;
        let branches = self.branches();
        match self.has(&self.branch) {
            false if !branches.is_empty() => Err(unknown_branch(branches, &self.branch)),
            _ => Ok(()),
        }
    }

    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.id.as_str())
    }

    /// The branches after the last line.
    fn branches(&self) -> &[Branch] {
        let known = self.session.as_ref();
        known.map_or(&[], |session| &session.branches)
    }

    fn has(&self, branch: &str) -> bool {
        self.branches().iter().any(|one| one.name == branch)
    }

    /// The number of messages of the branch.
    fn length(&self) -> u32 {
        let mut branches = self.branches().iter();
        let found = branches.find(|one| one.name == self.branch);
        found.map_or(0, |branch| branch.messages)
    }

    /// The current branch, unless it is the first one.
    pub(super) fn other_branch(&self) -> Option<&str> {
        Some(self.branch.as_str()).filter(|branch| *branch != MAIN_BRANCH)
    }

    pub(super) fn end(&self) -> End {
        match self.left {
            true => End::Interrupted,
            false => End::Ended,
        }
    }

    /// Reports the session.
    pub(super) fn greet(&self) {
        let about = match &self.session {
            Some(session) => {
                let messages = show::many(self.length().into(), "message");
                format!("{}: {messages}", session.title)
            }
            None => "a new conversation".to_owned(),
        };
        self.app.out.message(format_args!(
            "{about}; /help lists the commands, Ctrl-D ends the chat"
        ));
    }

    /// The messages of the branch from one number to another.
    async fn messages(&self, first: u32, last: u32) -> Result<Vec<Message>> {
        let query = MessageQuery {
            branch: self.branch.clone(),
            cursor: Some(first.to_string()),
            limit: NonZeroUsize::new((last - first + 1) as usize),
            steps: false,
        };
        let service = self.turns.service();
        Ok(service.messages(self.session_id()?, &query).await?.items)
    }

    /// The user's messages on this branch, the oldest first.
    pub(super) async fn said_before(&self) -> Result<Vec<String>> {
        let (mut lines, mut last) = (Vec::new(), self.length());
        while last > 0 && lines.len() < RECALLED {
            let first = last.saturating_sub(READ - 1).max(1);
            let messages = self.messages(first, last).await?.into_iter();
            let said = messages.filter(|message| message.role == Role::User.name());
            let said = said.map(|message| message.text());
            lines = said.chain(lines).collect();
            last = first - 1;
        }
        lines.drain(..lines.len().saturating_sub(RECALLED));
        Ok(lines)
    }

    /// The prompt: the branch and the occupancy of its context.
    pub(super) async fn prompt(&self) -> Prompt {
        let paint = self.app.out.paint;
        let branch = &self.branch;
        match self.percent().await {
            Ok(percent) => {
                let full = format!("{percent} %");
                let painted = match percent {
                    95.. => paint.red(&full),
                    80.. => paint.orange(&full),
                    _ => paint.dim(&full),
                };
                Prompt {
                    plain: terminal_safe(&format!("{branch} {full} > ")),
                    painted: terminal_safe(&format!("{branch} {painted} > ")),
                }
            }
            Err(error) => {
                tracing::debug!(message = error.message, "the context is not counted");
                Prompt::plain(format!("{branch} > "))
            }
        }
    }

    /// The occupancy of the context in percent.
    async fn percent(&self) -> Result<u64> {
        match self.session {
            Some(_) if self.length() > 0 => Ok(self.read_context().await?.occupancy_percent),
            _ => Ok(0),
        }
    }

    /// The context of the branch, computed by the daemon if there is one.
    async fn read_context(&self) -> Result<Context> {
        self.turns
            .context(self.session_id()?, &self.new_turn(""))
            .await
    }

    fn new_turn(&self, text: &str) -> NewTurn {
        self.workers.apply_to(NewTurn {
            branch: self.branch.clone(),
            ..NewTurn::new(text)
        })
    }

    pub(super) async fn send(
        &mut self,
        text: &str,
        input: &mut Input,
        interrupts: &mut Interrupts,
    ) -> Result<Next> {
        let session = match self.session() {
            Some(session) => session.to_owned(),
            None => self.create(text).await?,
        };
        let own = self.session.as_ref().map(|session| &session.own);
        let setup = match own {
            Some(own) => self.app.setup_beside(self.setup, own),
            None => self.setup.clone(),
        };
        let config = &setup.loaded.config;
        let followed = self.turns.ask(&session, &self.new_turn(text)).await?;
        followed.report_notices(&self.app.out, &mut self.reported_notices);
        let mut followed = followed.notifying(&config.compaction);
        let mut answer = Answer::new(&self.app.out, input);
        let limits = Limits::cancelling(Some(config.turn.timeout()), interrupts);
        let end = follow(self.turns.service(), &mut followed, &mut answer, limits).await?;
        let watch = followed.leave();
        let out = &self.app.out;
        if out.json {
            report(out, &watch, end);
        } else {
            answer.finish(watch.answer());
        }
        if input.is_asked() {
            out.message("that question is settled; the next line is a message");
        }
        self.ended(&watch, end).await
    }

    /// Makes the session of a first message.
    async fn create(&mut self, text: &str) -> Result<String> {
        let new = NewSession {
            title: Some(show::line(text, TITLE_CHARS)),
            ..NewSession::default()
        };
        let made = self.turns.service().create_session(new).await?;
        self.look(made.session.clone()).await?;
        Ok(made.session)
    }

    /// Adopts the state after a turn, and reports its end.
    async fn ended(&mut self, watch: &Watch, end: End) -> Result<Next> {
        self.left = end == End::Interrupted;
        let done = ending(&self.app.out, watch, end);
        if self.left {
            return Ok(Next::Left);
        }
        self.look(watch.session.clone()).await?;
        match watch.outcome() {
            Some("cancelled") if end == End::Ended => {
                self.app.out.message("cancelled");
                Ok(Next::GoOn)
            }
            _ => done.map(|()| Next::GoOn),
        }
    }

    async fn look(&mut self, id: String) -> Result<()> {
        let service = self.turns.service();
        let session = service.session(&id).await?;
        let own = session.settings.into_iter();
        let branches = all_branches(service, &id).await?;
        self.session = Some(CurrentSession {
            id,
            title: session.title,
            own: own.map(|(key, value)| (key.into(), value.into())).collect(),
            branches,
        });
        Ok(())
    }

    /// The session, if it was created.
    fn session_id(&self) -> Result<&str> {
        self.session().ok_or_else(|| {
            Problem::usage("there are no messages yet").hint("write a message first")
        })
    }

    pub(super) async fn carry_out(
        &mut self,
        order: Order,
        interrupts: &mut Interrupts,
    ) -> Result<Next> {
        match order {
            Order::Context { full } => self.context(full).await?,
            Order::Compact(instructions) => return self.compact(instructions, interrupts).await,
            Order::Branches => self.list_branches()?,
            Order::Branch { name, at } => self.branch(name, at).await?,
            Order::Agents => self.list_agents().await?,
            Order::Choose(agents) => self.choose(agents).await?,
            Order::Seal => self.seal().await?,
            Order::History(newest) => self.history(newest).await?,
            Order::Help => self.app.out.message(orders()),
            Order::Quit => return Ok(Next::Stop),
        }
        Ok(Next::GoOn)
    }

    async fn context(&self, full: bool) -> Result<()> {
        let context = self.read_context().await?;
        let title = self.session.as_ref().map_or("", |session| &session.title);
        context::print(self.app, title, (&context, None), full);
        Ok(())
    }

    async fn compact(
        &mut self,
        instructions: Option<String>,
        interrupts: &mut Interrupts,
    ) -> Result<Next> {
        let session = self.session_id()?.to_owned();
        let new = NewCompaction {
            instructions,
            ..NewCompaction::new(self.branch.as_str())
        };
        let estimate = self.turns.service().estimate(&session, &new).await?;
        if estimate.step.is_none() {
            let why = estimate.no_change_reason.as_deref().unwrap_or_default();
            compact::report_unchanged(self.app, &session, Some(estimate.tokens_before), why);
            return Ok(Next::GoOn);
        }
        let request = TurnRequest::Compact(new);
        let mut followed = self.turns.begin(&session, &request, &self.branch).await?;
        let mut screen = Screen::plain(&self.app.out);
        let limits = Limits::cancelling(None, interrupts);
        let end = follow(self.turns.service(), &mut followed, &mut screen, limits).await?;
        let watch = followed.leave();
        if watch.outcome() == Some("compacted") {
            compact::report(self.app, &watch, end)?;
        }
        self.ended(&watch, end).await
    }

    fn list_branches(&self) -> Result<()> {
        self.session_id()?;
        let rows = self.branches().iter().map(|branch| {
            let mark = if branch.name == self.branch { "*" } else { "" };
            vec![
                mark.to_owned(),
                branch.name.clone(),
                show::number(branch.messages.into()),
            ]
        });
        let table = show::table(&["", "BRANCH", "MESSAGES"], &[2], rows.collect());
        self.app.out.result(&self.branches(), table);
        Ok(())
    }

    async fn branch(&mut self, name: String, at: Option<u32>) -> Result<()> {
        let session = self.session_id()?.to_owned();
        let exists = self.has(&name);
        if exists && at.is_some() {
            let problem = Problem::usage(format!("branch `{name}` exists"));
            return Err(problem.hint("choose another name, or go to it without a number"));
        }
        if !exists {
            let (from, last) = (&self.branch, self.length());
            if !self.has(from) {
                return Err(unknown_branch(self.branches(), from));
            }
            let at = at.unwrap_or(last);
            if !(1..=last).contains(&at) {
                let problem = format!("branch `{from}` has no message #{at}");
                let problem = Problem::not_found(problem);
                return Err(problem.hint(format!("the last message is #{last}")));
            }
            let new = NewBranch {
                name: name.clone(),
                at: format!("#{at}"),
                from: from.clone(),
            };
            self.turns.service().fork(&session, &new).await?;
            self.app
                .out
                .message(format_args!("branch {name} begins after #{at}"));
        }
        self.branch = name;
        self.look(session).await
    }

    async fn list_agents(&self) -> Result<()> {
        let agents = self
            .turns
            .agents(self.session(), &self.new_turn(""))
            .await?;
        let rows = agents.iter().map(|agent| {
            let works = match agent.role.as_deref() {
                Some("lead") => "answers",
                Some("delegate") => "works",
                Some(_) => "may be asked",
                None => "",
            };
            let about = show::line(&agent.description, 80);
            let name = agent.agent.clone();
            let model = agent.model.clone().unwrap_or_default();
            vec![name, works.to_owned(), model, about]
        });
        let table = show::table(&["AGENT", "HERE", "MODEL", "FOR"], &[], rows.collect());
        self.app.out.result(&agents, table);
        Ok(())
    }

    async fn choose(&mut self, agents: Option<String>) -> Result<()> {
        let before = self.workers.clone();
        self.workers.choose(agents);
        let agents = match self.turns.agents(self.session(), &self.new_turn("")).await {
            Ok(agents) => agents,
            Err(problem) => {
                self.workers = before;
                return Err(problem);
            }
        };
        let (mut lead, mut others) = (String::new(), Vec::new());
        for agent in agents {
            match agent.role.as_deref() {
                Some("lead") => lead = agent.agent,
                Some(_) => others.push(agent.agent),
                None => {}
            }
        }
        let with = match others.is_empty() {
            true => "alone".to_owned(),
            false => format!("with {}", others.join(", ")),
        };
        self.app.out.message(format_args!("{lead} answers {with}"));
        Ok(())
    }

    async fn seal(&mut self) -> Result<()> {
        let session = self.session_id()?.to_owned();
        let service = self.turns.service();
        let topic = service.seal(&session, &self.branch).await?;
        seal::report(self.app, &topic);
        self.look(session).await
    }

    async fn history(&self, newest: u32) -> Result<()> {
        let last = self.length();
        if last == 0 {
            self.app.out.message("there are no messages yet");
            return Ok(());
        }
        let mut first = last.saturating_sub(newest - 1).max(1);
        let mut messages = Vec::new();
        while first <= last {
            let end = last.min(first.saturating_add(READ - 1));
            messages.extend(self.messages(first, end).await?);
            first = end + 1;
        }
        if self.app.out.json {
            let session = self.session();
            self.app.out.json(&json!({
                "session": session, "branch": self.branch, "messages": messages,
            }));
            return Ok(());
        }
        let paint = self.app.out.paint;
        for message in messages {
            let name = message.author.as_deref().unwrap_or(&message.role);
            let head = paint.bold(format_args!("#{} {name}", message.ordinal));
            let text = show::indented(&message.text(), "  ");
            self.app.out.data(format_args!("{head}\n{text}"));
        }
        Ok(())
    }
}

/// The orders, as the help has them.
fn orders() -> String {
    let lines = HELP.lines().filter(|line| line.starts_with("  /"));
    lines.collect::<Vec<_>>().join("\n")
}
