//! `unisono pin` and `unpin`: messages that always stand verbatim.

use serde_json::json;
use unisono_context::{Message, MessageId, Ordinal, SessionId, Tokens};
use unisono_daemon::ask::{self, Ask};
use unisono_daemon::context;
use unisono_daemon::setup::Setup;
use unisono_session::State;
use unisono_session::state::MAIN;

use super::run::stop;
use super::sessions::branch::{ordinal, unknown_branch};
use crate::app::App;
use crate::live::End;
use crate::problem::{Problem, Result};
use crate::sessions::Sessions;
use crate::show;

const HELP: &str = "\
A pinned message is shown as it was said in every context of its branches, also where a summary
stands for it already. A call and its results are pinned together. Pins count towards the context:
they are never summarised, masked or cut.

Examples:
  unisono pin latest 4 17
  unisono pin latest              what is pinned
  unisono unpin latest --all

JSON: session, branch, pinned [{ordinal, role, tokens, text}], pinned_tokens, usable_tokens.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// Numbers of messages, such as 4; without any, lists what is pinned
    #[arg(value_name = "N", value_parser = ordinal)]
    messages: Vec<u32>,
    /// The branch whose messages are meant
    #[arg(long, default_value = MAIN)]
    branch: String,
}

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct UnpinArgs {
    /// The session
    session: String,
    /// Numbers of messages, such as 4
    #[arg(value_name = "N", value_parser = ordinal, required_unless_present = "all")]
    messages: Vec<u32>,
    /// All that are pinned on the branch
    #[arg(long, conflicts_with = "messages")]
    all: bool,
    /// The branch whose messages are meant
    #[arg(long, default_value = MAIN)]
    branch: String,
}

/// What is to be changed.
struct Change {
    messages: Vec<MessageId>,
    pinned: bool,
}

pub(crate) async fn pin(app: &App, args: Args) -> Result<()> {
    let change = |state: &State| {
        let messages = found(state, &args.branch, &args.messages)?;
        Ok(Change {
            messages,
            pinned: true,
        })
    };
    carry_out(app, &args.session, &args.branch, change).await
}

pub(crate) async fn unpin(app: &App, args: UnpinArgs) -> Result<()> {
    let change = |state: &State| {
        let messages = if args.all {
            let pinned = pinned(state, &args.branch)?;
            pinned.into_iter().map(|message| message.id).collect()
        } else {
            found(state, &args.branch, &args.messages)?
        };
        Ok(Change {
            messages,
            pinned: false,
        })
    };
    carry_out(app, &args.session, &args.branch, change).await
}

async fn carry_out(
    app: &App,
    session: &str,
    branch: &str,
    change: impl FnOnce(&State) -> Result<Change>,
) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let opened = app.store(&setup).await?;
    let sessions = Sessions::new(opened.journal.clone());
    let id = sessions.find(session).await?;
    let state = sessions.state(id).await?;
    let Change { messages, pinned } = change(&state)?;
    if messages.is_empty() {
        tell(app, &setup, id, state, branch)?;
        return sessions.close().await;
    }
    let daemon = app.daemon(opened, setup.clone()).await?;
    let session = daemon.open(id).await?;
    let done = session.pin(branch, messages, pinned).await;
    let state = session.inspect(Clone::clone).await;
    stop(daemon, End::Ended).await;
    done?;
    tell(app, &setup, id, state?, branch)
}

/// The messages of those numbers.
fn found(state: &State, branch: &str, numbers: &[u32]) -> Result<Vec<MessageId>> {
    let tree = state.tree();
    let head = tree.head(branch);
    let head = head.ok_or_else(|| unknown_branch(state, branch))?;
    let each = numbers.iter().map(|number| {
        let node = tree.at(head, Ordinal(*number)).ok_or_else(|| {
            let problem = format!("there is no message #{number} on branch `{branch}`");
            let last = tree.get(head).map_or(Ordinal::FIRST, |node| node.ordinal());
            Problem::usage(problem).hint(format!("its last one is {last}"))
        })?;
        Ok(node.message.id)
    });
    each.collect()
}

/// What is pinned on a branch, oldest first.
fn pinned<'s>(state: &'s State, branch: &str) -> Result<Vec<&'s Message>> {
    let tree = state.tree();
    let head = tree.head(branch);
    let head = head.ok_or_else(|| unknown_branch(state, branch))?;
    let nodes = state.pinned().iter().filter_map(|id| tree.get(*id));
    let on_branch = nodes.filter(|node| {
        let there = tree.at(head, node.ordinal());
        there.is_some_and(|there| there.message.id == node.message.id)
    });
    let mut messages: Vec<&Message> = on_branch.map(|node| &*node.message).collect();
    messages.sort_by_key(|message| message.ordinal);
    Ok(messages)
}

/// Lists what is pinned, and what of the context it takes.
fn tell(app: &App, setup: &Setup, id: SessionId, mut state: State, branch: &str) -> Result<()> {
    let team = Ask::new("").team(setup)?;
    let (_, safety) = ask::policy(setup, &team);
    let head = state.tree().head(branch);
    let head = head.ok_or_else(|| unknown_branch(&state, branch))?;
    let budget = context::measure(&mut state, head, &team, safety)?.budget;
    let pinned = pinned(&state, branch)?;
    let cost = |message: &Message| {
        let counts = state.tree().get(message.id).map(|node| node.counts);
        let count = counts.and_then(|counts| counts.get(budget.encoding));
        count.unwrap_or_default().tokens + budget.per_message
    };
    let total: Tokens = pinned.iter().map(|message| cost(message)).sum();
    if total > budget.usable {
        let (total, usable) = (show::tokens(total), show::tokens(budget.usable));
        app.out.warn(format_args!(
            "the pinned messages have {total} tokens, only {usable} are usable: no turn will fit \
             until some are unpinned, or another model answers"
        ));
    }
    if app.out.json {
        let messages = pinned.iter().map(|message| {
            json!({
                "ordinal": message.ordinal.0, "role": message.role.name(),
                "tokens": cost(message).0, "text": message.countable_text(),
            })
        });
        app.out.json(&json!({
            "session": id.to_string(), "branch": branch,
            "pinned": messages.collect::<Vec<_>>(),
            "pinned_tokens": total.0, "usable_tokens": budget.usable.0,
        }));
        return Ok(());
    }
    let rows = pinned.iter().map(|message| {
        vec![
            message.ordinal.to_string(),
            message.role.name().to_owned(),
            show::tokens(cost(message)),
            show::line(&message.countable_text(), 80),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        app.out.say("nothing is pinned");
        return Ok(());
    }
    let header = ["MESSAGE", "ROLE", "TOKENS", "TEXT"];
    app.out.data(show::table(&header, &[2], rows));
    let (total, usable) = (show::tokens(total), show::tokens(budget.usable));
    app.out
        .say(format_args!("{total} of {usable} usable tokens are pinned"));
    Ok(())
}
