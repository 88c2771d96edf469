//! `unisono delegate`: gives tasks to several agents at once, on one frozen snapshot of a session.

use std::time::Duration;

use unisono_api::session::MAIN_BRANCH;
use unisono_api::turn::NewTurn;

use crate::app::App;
use crate::live::{Interrupts, Limits, Screen, conclude_delegation};
use crate::options::time;
use crate::problem::{Problem, Result};
use crate::service::find_session;

use super::run::{self, From};

const HELP: &str = "\
Each AGENT gets the task, or its own task after `=`. All agents work in parallel on the same
frozen snapshot. The lead then answers from their results. This is a turn of the session: task,
results and answer become messages of its branch.

Examples:
  unisono delegate latest risks facts --task \"May we ship on Friday?\"
  unisono delegate latest risks=\"only the money\" dates --task \"Sum up.\"
  echo \"What is left?\" | unisono delegate latest actions --task - --json

JSON: as for `run`, with missing [{agent, state, reason}]: results that are missing or incomplete.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "SESSION")]
    session: String,
    /// The agents, each optionally with its own task
    #[arg(required = true, value_name = "AGENT[=TASK]")]
    agents: Vec<String>,
    /// The task, or `-` for standard input
    #[arg(long, short, value_name = "TEXT")]
    task: String,
    /// The agent that answers, in place of the configured one
    #[arg(long, value_name = "AGENT")]
    lead: Option<String>,
    /// The branch to continue
    #[arg(long, default_value = MAIN_BRANCH)]
    branch: String,
    /// Ends the command after this, and cancels its turn, also while a call waits for approval:
    /// 30s, 2m, 1h
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
}

impl Args {
    fn new_turn(&self, task: &str) -> Result<NewTurn> {
        if task.trim().is_empty() {
            return Err(Problem::usage("--task is empty").hint("describe the task"));
        }
        let mut agents = Vec::with_capacity(self.agents.len());
        for given in &self.agents {
            let (agent, own) = match given.split_once('=') {
                Some((agent, own)) => (agent.trim(), Some(own.trim())),
                None => (given.trim(), None),
            };
            if agent.is_empty() || own.is_some_and(str::is_empty) {
                let problem = format!("{given:?} is not AGENT or AGENT=TASK");
                return Err(Problem::usage(problem).hint("as in risks=\"only the money\""));
            }
            // Each with a task: a delegating lead chooses among agents without one.
            agents.push(format!("{agent}={}", own.unwrap_or(task.trim())));
        }
        Ok(NewTurn {
            branch: self.branch.clone(),
            lead: self.lead.clone(),
            agents: Some(agents),
            ..NewTurn::new(task.trim())
        })
    }
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let deadline = run::deadline(args.timeout);
    let setup = app.setup(args.timeout.map(run::limit).into_iter().collect())?;
    let task = args.task.clone();
    let task = run::read_until(deadline, move || run::task_text(task)).await?;
    let new = args.new_turn(&task)?;
    let mut interrupts = Interrupts::listen()?;
    let idle_store = app.idle_store(&setup).await?;
    let screen = Screen::new(&app.out);
    if let Some(url) = idle_store.daemon() {
        screen.headline("daemon", url);
    }
    let found = find_session(idle_store.service(), &args.session).await?;
    let from = From::Session(found.session);
    let limits = Limits::leaving(&mut interrupts).until(deadline);
    let (watch, end) =
        run::run_turn(app, (setup, idle_store), from, &new, (screen, limits)).await?;
    conclude_delegation(&app.out, &watch, end)
}
