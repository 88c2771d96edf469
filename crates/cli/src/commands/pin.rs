//! `unisono pin` and `unpin`: messages that always stand verbatim.

use serde_json::json;
use unisono::context::pins::{Pins, pinned};
use unisono::context::tip;
use unisono_config::settings::own;
use unisono_config::setup::Setup;
use unisono_context::{MessageId, Ordinal, SessionId};
use unisono_session::State;
use unisono_session::state::MAIN;

use super::sessions::branch::{ordinal, unknown_branch};
use crate::app::App;
use crate::host::learnt_here;
use crate::live::End;
use crate::problem::{Problem, Result};
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
    /// Numbers of messages, such as 4; without any, lists the pinned messages
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
            let pinned = pinned(state, head(state, &args.branch)?);
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
    let store = app.store_or_nothing(&setup).await?;
    let sessions = store.sessions();
    let id = sessions.find(session).await?;
    let state = sessions.state(id).await?;
    let Change { messages, pinned } = change(&state)?;
    if messages.is_empty() {
        tell(app, &setup, id, state, branch)?;
        return sessions.close().await;
    }
    let host = app.host(store, setup.clone()).await?;
    let done = host.pin(id, branch, messages, pinned).await;
    let state = host.state(id).await;
    host.stop(End::Ended).await;
    done?;
    tell(app, &setup, id, state?, branch)
}

fn head(state: &State, branch: &str) -> Result<MessageId> {
    let head = state.tree().head(branch);
    head.ok_or_else(|| unknown_branch(state, branch))
}

/// The messages of those numbers.
fn found(state: &State, branch: &str, numbers: &[u32]) -> Result<Vec<MessageId>> {
    let (tree, head) = (state.tree(), head(state, branch)?);
    let each = numbers.iter().map(|number| {
        let node = tree.at(head, Ordinal(*number)).ok_or_else(|| {
            let problem = format!("there is no message #{number} on branch `{branch}`");
            let last = tree.get(head).map_or(Ordinal::FIRST, |node| node.ordinal());
            Problem::not_found(problem).hint(format!("the last message is {last}"))
        })?;
        Ok(node.message.id)
    });
    each.collect()
}

/// Lists what is pinned, and what of the context it takes.
fn tell(app: &App, setup: &Setup, id: SessionId, mut state: State, branch: &str) -> Result<()> {
    tip(&state, branch).ok_or_else(|| unknown_branch(&state, branch))?;
    let setup = &app.setup_beside(setup, &own(&state));
    let pins = Pins::of(setup, &learnt_here(setup), &mut state, branch)?;
    let (pinned, total, usable) = (&pins.messages, pins.tokens(), pins.usable);
    if total > usable {
        let (total, usable) = (show::tokens(total), show::tokens(usable));
        app.out.warn(format_args!(
            "the pinned messages have {total} tokens, only {usable} are usable: no turn will fit \
             until some are unpinned, or another model answers"
        ));
    }
    if app.out.json {
        let messages = pinned.iter().map(|(message, tokens)| {
            json!({
                "ordinal": message.ordinal.0, "role": message.role.name(),
                "tokens": tokens.0, "text": message.countable_text(),
            })
        });
        app.out.json(&json!({
            "session": id.to_string(), "branch": branch,
            "pinned": messages.collect::<Vec<_>>(),
            "pinned_tokens": total.0, "usable_tokens": usable.0,
        }));
        return Ok(());
    }
    let rows = pinned.iter().map(|(message, tokens)| {
        vec![
            message.ordinal.to_string(),
            message.role.name().to_owned(),
            show::tokens(*tokens),
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
    let (total, usable) = (show::tokens(total), show::tokens(usable));
    app.out
        .say(format_args!("{total} of {usable} usable tokens are pinned"));
    Ok(())
}
