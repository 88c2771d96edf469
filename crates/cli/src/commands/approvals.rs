//! `unisono approvals`: calls of tools that wait for a person.

use std::num::NonZeroUsize;

use clap::{ArgGroup, Subcommand};
use unisono::Service;
use unisono::fmt::end;
use unisono_api::Page;
use unisono_api::approval::{Approval, ApprovalQuery, Decide, Verdict};

use crate::app::App;
use crate::approvals;
use crate::problem::{Problem, Result};
use crate::service::lookup::only_match;
use crate::service::session_if_named;
use crate::show;
use unisono::service::sessions::is_meant;

const LIST_HELP: &str = "\
A call waits for approval if a rule requires it (`approve` of an agent or a server,
`approvals.require`); it is denied after `approvals.timeout`. A call is in doubt if the program
was killed during the call and its contract does not allow a repetition: check whether it took
effect, then settle it. CALL is the end of the call's id. Long arguments are cut; --json has them
whole.

JSON: a list of {call, kind (approval, in_doubt), session, turn, run, agent, tool,
arguments, contract (pure, idempotent, at_most_once), rule, requested_at, expires_at (null: no limit)}.";

const DECIDE_HELP: &str = "\
The turn continues with `unisono resume`; under `unisono serve` and `unisono mcp` it continues at
once. In an active `unisono run`, calls are decided at its terminal, because that process has the
store open.

JSON: call, session, turn, decision.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists waiting tool calls
    #[command(after_help = LIST_HELP)]
    List(List),
    /// Approves a call
    #[command(after_help = DECIDE_HELP)]
    Approve(Approve),
    /// Denies a call; the model gets the denial as its result
    #[command(after_help = DECIDE_HELP)]
    Deny(Deny),
    /// Settles a call whose outcome is unknown
    #[command(after_help = DECIDE_HELP)]
    Settle(SettleArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    /// The call: its id, or the start or end of its id
    call: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Deny {
    /// The call: its id, or the start or end of its id
    call: String,
    /// Why, for the model
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("outcome").required(true).args(["done", "failed", "repeat"])))]
pub(crate) struct SettleArgs {
    /// The call: its id, or the start or end of its id
    call: String,
    /// The call was made: its result, for the model
    #[arg(long, value_name = "TEXT")]
    done: Option<String>,
    /// The call was made and failed: its error, for the model
    #[arg(long, value_name = "TEXT")]
    failed: Option<String>,
    /// The call was not made, or may be repeated: repeats it under the same key
    #[arg(long)]
    repeat: bool,
}

pub(crate) async fn run(app: &App, command: Command) -> Result<()> {
    let of = |decision, text| Decide { decision, text };
    match command {
        Command::List(args) => list(app, args).await,
        Command::Approve(args) => decide(app, &args.call, of(Verdict::Approve, None)).await,
        Command::Deny(args) => decide(app, &args.call, of(Verdict::Deny, args.reason)).await,
        Command::Settle(args) => {
            let decision = match (args.done, args.failed) {
                (Some(text), _) => of(Verdict::Done, Some(text)),
                (None, Some(text)) => of(Verdict::Failed, Some(text)),
                (None, None) => of(Verdict::Repeat, None),
            };
            decide(app, &args.call, decision).await
        }
    }
}

async fn list(app: &App, args: List) -> Result<()> {
    let service = app.reader().await?;
    let session = session_if_named(&*service, args.session.as_deref()).await?;
    let open = waiting(&*service, session).await?;
    let header = [
        "CALL",
        "WAITS FOR",
        "AGENT",
        "WHAT",
        "ASKED (UTC)",
        "UNTIL (UTC)",
    ];
    let none = "no call waits for a person";
    app.out.list(&open, none, (&header, &[]), row);
    service.close().await;
    Ok(())
}

/// All calls that wait, of one session or of every one, the oldest first.
async fn waiting(service: &dyn Service, session: Option<String>) -> Result<Vec<Approval>> {
    // Without a daemon, each page looks at every session.
    let mut query = ApprovalQuery {
        session,
        limit: NonZeroUsize::new(500),
        ..ApprovalQuery::default()
    };
    Ok(Page::all(async |cursor| {
        query.cursor = cursor;
        service.approvals(&query).await
    })
    .await?)
}

fn row(open: &Approval) -> Vec<String> {
    vec![
        end(&open.call),
        open.kind.clone(),
        open.agent.clone(),
        approvals::line(open),
        show::minute(&open.requested_at),
        open.expires_at
            .as_deref()
            .map(show::minute)
            .unwrap_or_default(),
    ]
}

/// The call with this id, or the only one whose id begins or ends with it.
async fn find(service: &dyn Service, name: &str) -> Result<Approval> {
    let mut all = waiting(service, None).await?;
    all.retain(|open| is_meant(name, &open.call));
    only_match(name, "call that waits for a person", &all).map_err(hinted)
}

fn hinted(problem: Problem) -> Problem {
    match problem.hint {
        Some(_) => problem,
        None => problem.hint("`unisono approvals list` shows the waiting calls"),
    }
}

async fn decide(app: &App, name: &str, decide: Decide) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let store = app.store_if_exists(&setup).await?;
    let who = match store.daemon().is_some() {
        true => "the daemon",
        false => "`unisono resume`",
    };
    let service = app.service_on(store, &setup)?;
    let call = find(&*service, name).await?;
    let decided = service.decide(&call.call, &decide).await;
    let decided = decided.map_err(|error| hinted(error.into()))?;
    let (word, what) = (&decided.decision, approvals::line(&call));
    let message = format!("{word}: {what}; {who} continues the turn");
    app.out.outcome(&decided, message);
    service.close().await;
    Ok(())
}
