//! `unisono approvals`: calls of tools that wait for a person.

use clap::{ArgGroup, Subcommand};
use serde_json::{Value, json};
use unisono_session::run::calls::Decision;

use crate::app::App;
use crate::approvals::{self, Open};
use crate::problem::Result;
use crate::show;
use crate::traces::end;

const LIST_HELP: &str = "\
A call waits for approval where a rule asks for it (`approve` of an agent or a server,
`approvals.require`); it is denied when nobody decides in time (`approvals.timeout`). A call is
in doubt when the program was killed while it was being made and its tool may not be called
twice: look whether it took effect, then settle it. CALL is the end of the call's id.

JSON: a list of {call, waits_for (approval, in_doubt), session, turn, run, agent, tool,
arguments, contract (pure, idempotent, at_most_once), rule, asked, until (null: for ever)}.";

const DECIDE_HELP: &str = "\
The turn goes on with `unisono resume`, under `unisono serve` at once. In a `run` on a terminal calls
are answered there: the store is that process's until it ends.

JSON: call, session, turn, decision.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists calls that wait for a person
    #[command(after_help = LIST_HELP)]
    List(List),
    /// Lets a call be made
    #[command(after_help = DECIDE_HELP)]
    Approve(Approve),
    /// Denies a call; the model is told so
    #[command(after_help = DECIDE_HELP)]
    Deny(Deny),
    /// Settles a call whose outcome is unknown
    #[command(after_help = DECIDE_HELP)]
    Settle(Settle),
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Of this session only
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    /// The call: its id, or a start or an end of it
    call: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Deny {
    /// The call: its id, or a start or an end of it
    call: String,
    /// Why, for the model
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("outcome").required(true).args(["done", "failed", "repeat"])))]
pub(crate) struct Settle {
    /// The call: its id, or a start or an end of it
    call: String,
    /// The call was made: its result, for the model
    #[arg(long, value_name = "TEXT")]
    done: Option<String>,
    /// The call was made and failed: its error, for the model
    #[arg(long, value_name = "TEXT")]
    failed: Option<String>,
    /// It was not made, or may be made twice: it is made again, under the same key
    #[arg(long)]
    repeat: bool,
}

pub(crate) async fn run(app: &App, command: Command) -> Result<()> {
    match command {
        Command::List(args) => list(app, args).await,
        Command::Approve(args) => decide(app, &args.call, Decision::Approved).await,
        Command::Deny(args) => {
            let reason = args.reason.map(Into::into);
            decide(app, &args.call, Decision::Denied { reason }).await
        }
        Command::Settle(args) => {
            let decision = match (args.done, args.failed) {
                (Some(text), _) => Decision::Done { text: text.into() },
                (None, Some(text)) => Decision::Failed { text: text.into() },
                (None, None) => Decision::Repeat,
            };
            decide(app, &args.call, decision).await
        }
    }
}

async fn list(app: &App, args: List) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let store = app.store_to_read(&setup).await?;
    let open = approvals::open(&store, args.session.as_deref()).await?;
    if app.out.json {
        let all: Vec<Value> = open.iter().map(approvals::json).collect();
        app.out.json(&all);
    } else if open.is_empty() {
        app.out.say("no call waits for a person");
    } else {
        let header = [
            "CALL",
            "WAITS FOR",
            "AGENT",
            "WHAT",
            "ASKED (UTC)",
            "UNTIL (UTC)",
        ];
        let rows = open.iter().map(row).collect();
        app.out.data(show::table(&header, &[], rows));
    }
    store.sessions().close().await
}

fn row(open: &Open) -> Vec<String> {
    let (waiting, call) = (&open.waiting, &open.waiting.call);
    let until = call.planned.approval.as_ref().and_then(|held| held.until);
    vec![
        end(&waiting.id),
        approvals::waits_for(waiting).to_owned(),
        waiting.agent.to_string(),
        approvals::line(waiting),
        show::date(call.asked_at),
        until.map_or_else(String::new, show::date),
    ]
}

async fn decide(app: &App, name: &str, decision: Decision) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let store = app.store_or_nothing(&setup).await?;
    let Open { session, waiting } = approvals::find(&store, name).await?;
    let (call, word) = (waiting.id, decision.name());
    let decided = store.decide(session, call, decision).await;
    decided.map_err(approvals::not_taken)?;
    if app.out.json {
        app.out.json(&json!({
            "call": call.to_string(), "session": session.to_string(),
            "turn": waiting.turn.to_string(), "decision": word,
        }));
    } else {
        let what = approvals::line(&waiting);
        let who = match store.is_there() {
            true => "the daemon",
            false => "`unisono resume`",
        };
        app.out
            .say(format_args!("{word}: {what}; {who} goes on with the turn"));
    }
    store.sessions().close().await
}
