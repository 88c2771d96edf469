//! `unisono runs list`.

use std::cmp::Reverse;

use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use unisono_context::{RunId, SessionId, Timestamp};
use unisono_session::trace::{RunTrace, Status};

use unisono::past::runs::{self, Among, Place};

use crate::app::App;
use crate::problem::Result;
use crate::show;
use crate::traces::{Within, end, role_json};

const HELP: &str = "\
RUN is the end of the run's id; every verb takes it. `?` is an unknown cost, which is not free. The
newest are first; beyond --limit the output names the next cursor.

Examples:
  unisono runs list --state running
  unisono runs list --session latest --agent risks --json

JSON: a list of {run, turn, session, agent, model, role (lead, delegate, child), state
(running, waiting for those it gave tasks to, done, partial, failed, cancelled), attempt, steps,
input_tokens, output_tokens, cache_read_tokens, cost_usd, opened, ended (null: it has not),
duration_ms, error}.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    within: Within,
    /// Only runs in this state
    #[arg(long, value_parser = PossibleValuesParser::new(Status::ALL.map(Status::name)))]
    state: Option<String>,
    /// Only runs of this agent
    #[arg(long)]
    agent: Option<String>,
    /// How many at most: the newest sessions' newest
    #[arg(long, default_value = "100", value_name = "N", value_parser = at_least_one)]
    limit: usize,
    /// Goes on where a list that was not all of them ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<Place>,
}

fn at_least_one(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().ok().filter(|n| *n > 0);
    number.ok_or_else(|| "write a number from 1 on".to_owned())
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let sessions = app.sessions(&setup).await?;
    let state = args.state.as_deref().and_then(Status::named);
    let among = Among {
        session: args.within.only(&sessions).await?,
        open: state.is_some_and(Status::is_open),
    };
    let (mut listed, mut next) = (Vec::new(), args.cursor);
    loop {
        let left = args.limit - listed.len();
        let part = runs::part(sessions.journal(), among, next, left, |session, trace| {
            let wanted = trace.runs().filter(|(_, run)| is_wanted(&args, run));
            wanted
                .map(|(id, run)| (id, (session, id, run.clone())))
                .collect()
        });
        let (found, after) = part.await?;
        listed.extend(found);
        next = after;
        if next.is_none() || listed.len() >= args.limit {
            break;
        }
    }
    listed.sort_by_key(|(_, id, run)| Reverse((run.opened.0.at, run.opened.0.seq, *id)));
    if app.out.json {
        let all: Vec<Value> = listed
            .iter()
            .map(|(s, id, run)| json(*s, *id, run))
            .collect();
        app.out.json(&all);
    } else if listed.is_empty() {
        app.out.say("no such run; `unisono run FILE` makes some");
    } else {
        let header = ["RUN", "TURN", "AGENT", "STATE", "IN", "OUT", "COST", "TIME"];
        let rows = listed.iter().map(|(_, id, run)| row(*id, run)).collect();
        app.out.data(show::table(&header, &[4, 5, 6, 7], rows));
    }
    if let Some(next) = next {
        let older = format_args!("there are older ones: --cursor {next} goes on with them");
        app.out.say(older);
    }
    sessions.close().await
}

fn is_wanted(args: &Args, run: &RunTrace) -> bool {
    let state = args.state.as_deref();
    let agent = args.agent.as_deref();
    state.is_none_or(|state| run.status().name() == state)
        && agent.is_none_or(|agent| run.opened.1.agent.as_str() == agent)
}

fn row(id: RunId, run: &RunTrace) -> Vec<String> {
    let usage = run.usage();
    let (_, run_of) = &run.opened;
    vec![
        end(&id),
        end(&run_of.turn),
        run_of.agent.to_string(),
        run.status().name().to_owned(),
        show::tokens(usage.input),
        show::tokens(usage.output),
        show::cost(usage.cost),
        duration(run).map_or_else(String::new, show::time),
    ]
}

/// How long it took; none while it is open.
pub(super) fn duration(run: &RunTrace) -> Option<u64> {
    let since = |at: Timestamp| u64::try_from(at.ms_since(run.opened.0.at)).unwrap_or(0);
    run.ended.as_ref().map(|(moment, _)| since(moment.at))
}

/// Why there is no answer, or why it is not complete.
pub(super) fn error(run: &RunTrace) -> Option<String> {
    use unisono_session::run::Ending;
    match &*run.ended.as_ref()?.1 {
        Ending::Finished { partial, .. } => partial.as_ref().map(ToString::to_string),
        Ending::Failed { cause, reason, .. } => Some(format!("{}: {reason}", cause.code())),
        Ending::Cancelled => Some("cancelled".to_owned()),
    }
}

pub(crate) fn json(session: SessionId, id: RunId, run: &RunTrace) -> Value {
    let usage = run.usage();
    let (opened, run_of) = &run.opened;
    let mut value = json!({
        "run": id.to_string(),
        "turn": run_of.turn.to_string(),
        "session": session.to_string(),
        "agent": run_of.agent.as_str(),
        "model": run.definition.as_ref().map(|definition| &*definition.model),
        "state": run.status().name(),
        "attempt": run.attempt(),
        "steps": run.steps.len(),
        "input_tokens": usage.input.0,
        "output_tokens": usage.output.0,
        "cache_read_tokens": usage.cache_read.0,
        "cost_usd": show::dollars(usage.cost),
        "opened": show::instant(opened.at),
        "ended": run.ended.as_ref().map(|(moment, _)| show::instant(moment.at)),
        "duration_ms": duration(run),
        "error": error(run),
    });
    show::merge(&mut value, role_json(run));
    value
}
