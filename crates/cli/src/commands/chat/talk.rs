//! A chat: what is said to the agents, and the orders between.

use unisono::ask::Ask;
use unisono_api::context::Context;
use unisono_config::settings::own;
use unisono_config::setup::Setup;
use unisono_context::{Ordinal, Role, SessionId};
use unisono_session::State;
use unisono_session::event::Writing;
use unisono_session::state::MAIN;

use super::input::{Input, Prompt};
use super::{Args, HELP, Order, unknown_branch};
use crate::app::App;
use crate::args::Workers;
use crate::commands::sessions::branch::message_at;
use crate::commands::{compact, context, seal};
use crate::host::Host;
use crate::live::{Answer, End, Interrupts, Limits, Screen, Watch, ending, follow, report};
use crate::problem::{Problem, Result};
use crate::show;

/// Characters of the first message that name a new session.
const TITLE_CHARS: usize = 60;
/// Messages of a person that the arrow keys go back to.
const RECALLED: usize = 200;

/// What comes after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The next line.
    GoOn,
    /// The end.
    Stop,
    /// The end, with a turn that is open.
    Left,
}

/// A chat and where it is.
#[derive(Debug)]
pub(super) struct Talk<'t> {
    app: &'t App,
    setup: &'t Setup,
    host: &'t Host,
    /// None before the first message of a new one.
    session: Option<SessionId>,
    /// As the journal has it after the last line.
    state: State,
    branch: String,
    workers: Workers,
    left: bool,
}

impl<'t> Talk<'t> {
    pub(super) fn new(app: &'t App, setup: &'t Setup, host: &'t Host, args: &Args) -> Talk<'t> {
        Talk {
            app,
            setup,
            host,
            session: None,
            state: State::default(),
            branch: args.branch.clone(),
            workers: args.workers.clone(),
            left: false,
        }
    }

    /// Continues a session.
    pub(super) async fn open(&mut self, id: SessionId) -> Result<()> {
        self.session = Some(id);
        self.look().await?;
        match self.state.tree().head(&self.branch) {
            None if !self.state.tree().is_empty() => Err(unknown_branch(&self.state, &self.branch)),
            _ => Ok(()),
        }
    }

    pub(super) fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// The branch that is talked on, unless it is the first one.
    pub(super) fn other_branch(&self) -> Option<&str> {
        Some(self.branch.as_str()).filter(|branch| *branch != MAIN)
    }

    pub(super) fn end(&self) -> End {
        match self.left {
            true => End::Interrupted,
            false => End::Ended,
        }
    }

    /// Says where it is.
    pub(super) fn greet(&self) {
        let messages = self.state.tree().head(&self.branch).map_or(0, |head| {
            let node = self.state.tree().get(head);
            node.map_or(0, |node| node.message.ordinal.0)
        });
        let about = match &self.session {
            Some(_) => format!(
                "{}: {}",
                self.state.title(),
                show::many(messages.into(), "message")
            ),
            None => "a new conversation".to_owned(),
        };
        self.app
            .out
            .say(format_args!("{about}; /help lists orders, Ctrl-D ends"));
    }

    /// What a person said on this branch, the oldest first.
    pub(super) fn said_before(&self) -> Vec<String> {
        let tree = self.state.tree();
        let Some(head) = tree.head(&self.branch) else {
            return Vec::new();
        };
        let nodes = tree.range(head, Ordinal::FIRST..=Ordinal(u32::MAX));
        let said = nodes.iter().map(|node| &node.message);
        let said = said.filter(|message| message.role == Role::User);
        let mut lines: Vec<String> = said.map(|message| message.countable_text()).collect();
        lines.drain(..lines.len().saturating_sub(RECALLED));
        lines
    }

    /// What stands in front of the input: the branch, and how full its context is.
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
                    plain: format!("{branch} {full} > "),
                    painted: format!("{branch} {painted} > "),
                }
            }
            Err(error) => {
                tracing::debug!(message = error.message, "the context is not counted");
                Prompt::plain(format!("{branch} > "))
            }
        }
    }

    /// How full the context is.
    async fn percent(&self) -> Result<u64> {
        match self.session {
            Some(_) if self.state.tree().head(&self.branch).is_some() => {
                Ok(self.seen().await?.occupancy_percent)
            }
            _ => Ok(0),
        }
    }

    /// What those who are asked see of the branch: as the daemon has them, where one works.
    async fn seen(&self) -> Result<Context> {
        self.host.context(self.begun()?, &self.ask("")).await
    }

    fn ask(&self, text: &str) -> Ask {
        self.workers
            .given(Ask::new(text).branch(self.branch.as_str()))
    }

    /// Asks the agents.
    pub(super) async fn say(
        &mut self,
        text: &str,
        input: &mut Input,
        interrupts: &mut Interrupts,
    ) -> Result<Next> {
        let session = match self.session {
            Some(session) => session,
            None => self.host.create(&show::line(text, TITLE_CHARS)).await?,
        };
        self.session = Some(session);
        let setup = self.app.setup_beside(self.setup, &own(&self.state));
        let config = &setup.loaded.config;
        let followed = self.host.begin(session, &self.ask(text)).await?;
        let mut followed = followed.notifying(&config.compaction);
        let mut answer = Answer::new(&self.app.out, input);
        let limits = Limits::cancelling(Some(config.run.timeout()), interrupts);
        let end = follow(self.host.service(), &mut followed, &mut answer, limits).await?;
        let watch = followed.leave();
        let out = &self.app.out;
        if out.json {
            report(out, &watch, end);
        } else {
            answer.finish(watch.answer());
        }
        if input.is_asked() {
            out.say("that question is settled; what is written next is a message");
        }
        self.ended(&watch, end).await
    }

    /// Takes over what a turn left behind, and says how it ended.
    async fn ended(&mut self, watch: &Watch, end: End) -> Result<Next> {
        self.left = end == End::Interrupted;
        let done = ending(&self.app.out, watch, end);
        if self.left {
            return Ok(Next::Left);
        }
        self.look().await?;
        match watch.outcome() {
            Some("cancelled") if end == End::Ended => {
                self.app.out.say("cancelled");
                Ok(Next::GoOn)
            }
            _ => done.map(|()| Next::GoOn),
        }
    }

    /// Looks at the session again.
    async fn look(&mut self) -> Result<()> {
        match self.session {
            Some(session) => self.host.look(session, &mut self.state).await,
            None => Ok(()),
        }
    }

    /// The session, where there is one to do something with.
    fn begun(&self) -> Result<SessionId> {
        self.session
            .ok_or_else(|| Problem::usage("nothing was said yet").hint("write a message first"))
    }

    pub(super) async fn carry_out(
        &mut self,
        order: Order,
        interrupts: &mut Interrupts,
    ) -> Result<Next> {
        match order {
            Order::Context { full } => self.context(full).await?,
            Order::Compact(instructions) => return self.compact(instructions, interrupts).await,
            Order::Branches => self.branches()?,
            Order::Branch { name, at } => self.branch(name, at).await?,
            Order::Agents => self.list_agents().await?,
            Order::Choose(agents) => self.choose(agents).await?,
            Order::Seal => self.seal().await?,
            Order::History(newest) => self.history(newest),
            Order::Help => self.app.out.say(orders()),
            Order::Quit => return Ok(Next::Stop),
        }
        Ok(Next::GoOn)
    }

    async fn context(&self, full: bool) -> Result<()> {
        let context = self.seen().await?;
        context::print(self.app, self.state.title(), &context, full);
        Ok(())
    }

    async fn compact(
        &mut self,
        instructions: Option<String>,
        interrupts: &mut Interrupts,
    ) -> Result<Next> {
        let session = self.begun()?;
        let ask = Ask::compaction(None, Writing::with_instructions(instructions))
            .branch(self.branch.as_str());
        let mut followed = self.host.begin(session, &ask).await?;
        let mut screen = Screen::plain(&self.app.out);
        let limits = Limits::cancelling(None, interrupts);
        let end = follow(self.host.service(), &mut followed, &mut screen, limits).await?;
        let watch = followed.leave();
        if watch.outcome() == Some("compacted") {
            compact::report(self.app, &watch, end)?;
        }
        self.ended(&watch, end).await
    }

    fn branches(&self) -> Result<()> {
        self.begun()?;
        let tree = self.state.tree();
        let rows = tree.branches().map(|(name, head)| {
            let mark = if name == self.branch { "*" } else { "" };
            let messages = tree.get(head).map_or(0, |node| node.message.ordinal.0);
            vec![
                mark.to_owned(),
                name.to_owned(),
                show::number(messages.into()),
            ]
        });
        let rows = rows.collect();
        self.app
            .out
            .data(show::table(&["", "BRANCH", "MESSAGES"], &[2], rows));
        Ok(())
    }

    async fn branch(&mut self, name: String, at: Option<u32>) -> Result<()> {
        let session = self.begun()?;
        let exists = self.state.tree().head(&name).is_some();
        if exists && at.is_some() {
            let problem = Problem::usage(format!("branch `{name}` exists"));
            return Err(problem.hint("choose another name, or go to it without a number"));
        }
        if !exists {
            let (at, ordinal) = message_at(&self.state, &self.branch, at)?;
            self.host.fork(session, &name, at).await?;
            self.app
                .out
                .say(format_args!("branch {name} begins after {ordinal}"));
        }
        self.branch = name;
        self.look().await
    }

    async fn list_agents(&self) -> Result<()> {
        let agents = self.host.agents(self.session, &self.ask("")).await?;
        let rows = agents.into_iter().map(|agent| {
            let works = match agent.role.as_deref() {
                Some("lead") => "answers",
                Some("delegate") => "works",
                Some(_) => "may be asked",
                None => "",
            };
            let about = show::line(&agent.description, 80);
            vec![agent.agent, works.to_owned(), agent.model, about]
        });
        let rows = rows.collect();
        self.app
            .out
            .data(show::table(&["AGENT", "HERE", "MODEL", "FOR"], &[], rows));
        Ok(())
    }

    async fn choose(&mut self, agents: Option<String>) -> Result<()> {
        let before = self.workers.clone();
        self.workers.choose(agents);
        let agents = match self.host.agents(self.session, &self.ask("")).await {
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
        self.app.out.say(format_args!("{lead} answers {with}"));
        Ok(())
    }

    async fn seal(&mut self) -> Result<()> {
        let id = self.begun()?;
        let service = self.host.service();
        let topic = service.seal(&id.to_string(), &self.branch).await?;
        seal::tell(self.app, &topic);
        self.look().await
    }

    fn history(&self, newest: u32) {
        let tree = self.state.tree();
        let Some(head) = tree.head(&self.branch) else {
            return self.app.out.say("nothing was said yet");
        };
        let last = tree
            .get(head)
            .map_or(Ordinal::FIRST, |node| node.message.ordinal);
        let first = Ordinal(last.0.saturating_sub(newest - 1).max(1));
        let paint = self.app.out.paint;
        for node in tree.range(head, first..=last) {
            let message = &node.message;
            let name = message
                .author
                .as_ref()
                .map_or(message.role.name(), |author| author.as_str());
            let head = paint.bold(format_args!("{} {name}", message.ordinal));
            let text = show::indented(&message.countable_text(), "  ");
            self.app.out.data(format_args!("{head}\n{text}"));
        }
    }
}

/// The orders, as the help has them.
fn orders() -> String {
    let lines = HELP.lines().filter(|line| line.starts_with("  /"));
    lines.collect::<Vec<_>>().join("\n")
}
