//! `unisono runs list`.

use std::num::NonZeroUsize;

use clap::builder::PossibleValuesParser;
use unisono::Service;
use unisono::fmt::end;
use unisono_api::run::{ListedRun, RunQuery};
use unisono_session::trace::RunStatus;

use crate::app::App;
use crate::options::at_least_one;
use crate::problem::Result;
use crate::service::lookup::LookupScope;
use crate::show;

const HELP: &str = "\
RUN is the end of the run's id; every command accepts it. `?` is an unknown cost, not zero. The run
that was opened last comes first. If there are more than --limit runs, the output names the next
cursor.

Examples:
  unisono runs list --state running
  unisono runs list --session latest --agent risks --json

JSON: a list of {session, turn, run, agent, model, role (lead, delegate, child), stage, parent,
round, index, task, state (running, waiting, done, partial, failed, cancelled), waits_for (person or
delegates, while it waits), waited_ms (for decisions of people), attempt, step_count, snapshot, prefix,
text (its answer), last_text (of its model, if it ended without an answer), error {code, reason}, usage
{input_tokens, output_tokens, cache_read_tokens, cost_usd, …}, charged {tokens, cost_usd} (what the
budgets count, if it is not the usage), opened_at, ended_at (null: open), duration_ms}.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    within: LookupScope,
    /// Only runs in this state
    #[arg(long, value_parser = PossibleValuesParser::new(RunStatus::ALL.map(RunStatus::name)))]
    state: Option<String>,
    /// Only runs of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Maximum number of runs
    #[arg(long, default_value = "100", value_name = "N", value_parser = at_least_one)]
    limit: NonZeroUsize,
    /// Continues a list at its next cursor
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl Args {
    const fn is_unfiltered(&self) -> bool {
        let any_run = self.agent.is_none() && self.state.is_none();
        any_run && self.within.is_everywhere() && self.cursor.is_none()
    }
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let service = app.reader().await?;
    let (listed, next) = part(&*service, &args).await?;
    service.close().await;
    let header = ["RUN", "TURN", "AGENT", "STATE", "IN", "OUT", "COST", "TIME"];
    let none = match args.is_unfiltered() {
        true => "no runs yet: `unisono run FILE` starts some",
        false => "no run matches: `unisono runs list` shows all of them",
    };
    app.out.list(&listed, none, (&header, &[4, 5, 6, 7]), row);
    if let Some(next) = next {
        let older = format_args!("more runs: --cursor {next} shows the next page");
        app.out.message(older);
    }
    Ok(())
}

/// The requested number of runs, and the cursor of the next page.
async fn part(service: &dyn Service, args: &Args) -> Result<(Vec<ListedRun>, Option<String>)> {
    let mut listed = Vec::new();
    let mut query = RunQuery {
        session: args.within.session_id(service).await?,
        agent: args.agent.clone(),
        state: args.state.clone(),
        cursor: args.cursor.clone(),
        ..RunQuery::default()
    };
    while let Some(left) = NonZeroUsize::new(args.limit.get() - listed.len()) {
        query.limit = Some(left);
        let part = service.runs(&query).await?;
        listed.extend(part.items);
        query.cursor = part.next;
        if query.cursor.is_none() {
            break;
        }
    }
    Ok((listed, query.cursor))
}

fn row(of: &ListedRun) -> Vec<String> {
    let (run, used) = (&of.run, &of.run.usage);
    vec![
        end(&run.run),
        end(&of.turn),
        run.agent.clone(),
        run.state.clone(),
        show::number(used.input_tokens),
        show::number(used.output_tokens),
        show::price(used.cost_usd),
        run.duration_ms.map_or_else(String::new, show::time),
    ]
}
