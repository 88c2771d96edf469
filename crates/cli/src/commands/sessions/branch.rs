//! `unisono sessions branch`.

use serde_json::json;
use unisono_context::{MessageId, Ordinal};
use unisono_session::state::MAIN;

use crate::app::App;
use crate::live::End;
use crate::problem::{Problem, Result};

const HELP: &str = "\
The branch shares all messages up to the one it starts at, and every summary of them.

Examples:
  unisono sessions branch latest what-if --at 42
  unisono run --session latest --branch what-if --task \"Suppose we keep MySQL.\"

JSON: session, branch, head, messages.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// The new branch's name; one that exists is set to another message with --move
    name: String,
    /// The number of the message it starts at; without it, the last one
    #[arg(long, value_name = "N", value_parser = ordinal)]
    at: Option<u32>,
    /// The branch whose messages are meant
    #[arg(long, default_value = MAIN)]
    from: String,
    /// Moves a branch that exists; no message is lost
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
    let setup = app.setup(Vec::new())?;
    let store = app.store_or_nothing(&setup).await?;
    let sessions = store.sessions();
    let id = sessions.find(&args.session).await?;
    let (at, ordinal) = find(&sessions.state(id).await?, &args)?;
    let host = app.host(store, setup).await?;
    let done = host.fork(id, &args.name, at).await;
    host.stop(End::Ended).await;
    done?;
    let name = &args.name;
    if app.out.json {
        app.out.json(&json!({
            "session": id.to_string(), "branch": name, "head": at.to_string(),
            "messages": ordinal.0,
        }));
    } else {
        app.out.say(format_args!("branch {name} ends at {ordinal}"));
    }
    Ok(())
}

/// The message the branch is to end at.
fn find(state: &unisono_session::State, args: &Args) -> Result<(MessageId, Ordinal)> {
    let tree = state.tree();
    if tree.head(&args.name).is_some() && !args.moves {
        let problem = Problem::usage(format!("branch `{}` exists", args.name));
        return Err(problem.hint("choose another name, or move it with --move"));
    }
    message_at(state, &args.from, args.at)
}

/// A message of a branch by its number; without one, the last.
pub(crate) fn message_at(
    state: &unisono_session::State,
    branch: &str,
    at: Option<u32>,
) -> Result<(MessageId, Ordinal)> {
    let tree = state.tree();
    let head = tree
        .head(branch)
        .ok_or_else(|| unknown_branch(state, branch))?;
    let last = tree
        .get(head)
        .map_or(Ordinal::FIRST, |node| node.message.ordinal);
    let ordinal = at.map_or(last, Ordinal);
    let node = tree.at(head, ordinal).ok_or_else(|| {
        let problem = format!("there is no message {ordinal} on branch `{branch}`");
        Problem::usage(problem).hint(format!("the last message is {last}"))
    })?;
    Ok((node.message.id, ordinal))
}

/// No branch of that name.
pub(crate) fn unknown_branch(state: &unisono_session::State, name: &str) -> Problem {
    let known: Vec<&str> = state.tree().branches().map(|(name, _)| name).collect();
    let problem = Problem::not_found(format!("the session has no branch `{name}`"));
    match known[..] {
        [] => problem.hint("it has no messages yet"),
        _ => problem.hint(format!("it has: {}", known.join(", "))),
    }
}
