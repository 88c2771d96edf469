//! `unisono sessions branch`.

use serde_json::json;
use unisono::Service;
use unisono_api::session::MAIN_BRANCH;
use unisono_api::session::NewBranch;

use crate::app::App;
use crate::problem::{Problem, Result};
use crate::service::{self, all_branches, find_session};

const HELP: &str = "\
The branch shares all messages up to its start, and their summaries, also those written later.

Examples:
  unisono sessions branch latest what-if --at 42
  unisono run --session latest --branch what-if --task \"Suppose we keep MySQL.\"

JSON: session, branch, head, messages.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// The name of the new branch; with --move, of an existing one
    name: String,
    /// The number of the last shared message (default: the last message)
    #[arg(long, value_name = "N", value_parser = ordinal)]
    at: Option<u32>,
    /// The branch of the messages
    #[arg(long, default_value = MAIN_BRANCH)]
    from: String,
    /// Moves an existing branch; no message is lost
    #[arg(long = "move")]
    moves: bool,
}

/// `42` or `#42`.
pub(crate) fn ordinal(text: &str) -> std::result::Result<u32, String> {
    let number = text
        .trim_start_matches('#')
        .parse::<u32>()
        .ok()
        .filter(|n| *n > 0);
    number.ok_or_else(|| "write a message's number, such as 42".to_owned())
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let service = app.changer().await?;
    let session = find_session(&*service, &args.session).await?.session;
    let new = new_branch(&*service, &session, &args).await?;
    let branch = service.fork(&session, &new).await?;
    let (name, last) = (&branch.name, branch.messages);
    let report = json!({
        "session": session, "branch": name, "head": branch.head, "messages": last,
    });
    let message = format!("branch {name} ends at #{last}");
    app.out.outcome(&report, message);
    service.close().await;
    Ok(())
}

async fn new_branch(service: &dyn Service, session: &str, args: &Args) -> Result<NewBranch> {
    let branches = all_branches(service, session).await?;
    let named = |name: &str| branches.iter().find(|branch| branch.name == name);
    if named(&args.name).is_some() && !args.moves {
        let problem = Problem::usage(format!("branch `{}` exists", args.name));
        return Err(problem.hint("choose another name, or move it with --move"));
    }
    let from = named(&args.from);
    let last = from.ok_or_else(|| service::unknown_branch(&branches, &args.from))?;
    let at = args.at.unwrap_or(last.messages);
    if at > last.messages {
        let from = &args.from;
        let problem = format!("branch `{from}` has no message #{at}");
        let problem = Problem::not_found(problem);
        return Err(problem.hint(format!("the last message is #{}", last.messages)));
    }
    Ok(NewBranch {
        name: args.name.clone(),
        at: format!("#{at}"),
        from: args.from.clone(),
    })
}
