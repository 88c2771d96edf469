//! `unisono pin` and `unpin`: messages that stay verbatim.

use unisono::Service;
use unisono_api::pin::Pins;
use unisono_api::session::MAIN_BRANCH;

use super::sessions::branch::ordinal;
use crate::app::App;
use crate::problem::{Problem, Result};
use crate::service::{branch_length, find_session, of_branch, spoken_length};
use crate::show;

const HELP: &str = "\
A pinned message stays verbatim in every context of its branches, even if it was summarised
before. A tool call and its results are pinned together. Pinned messages count towards the context
and are never summarised, masked or cut.

Examples:
  unisono pin latest 4 17
  unisono pin latest              lists the pinned messages
  unisono unpin latest --all

JSON: session, branch, pinned [{message (its id), ordinal, role, tokens, text}], next (null: the
list is complete), pinned_tokens, usable_tokens.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// Numbers of messages, such as 4; without any, lists the pinned messages
    #[arg(value_name = "N", value_parser = ordinal)]
    messages: Vec<u32>,
    /// The branch of the messages
    #[arg(long, default_value = MAIN_BRANCH)]
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
    /// All pinned messages of the branch
    #[arg(long, conflicts_with = "messages")]
    all: bool,
    /// The branch of the messages
    #[arg(long, default_value = MAIN_BRANCH)]
    branch: String,
}

pub(crate) async fn pin(app: &App, args: Args) -> Result<()> {
    let service = app.changer().await?;
    let session = find_session(&*service, &args.session).await?.session;
    let messages = messages_by_number(&*service, &session, &args.branch, &args.messages).await?;
    let pins = change(&*service, &session, &args.branch, &messages, true).await;
    service.close().await;
    report(app, &pins?);
    Ok(())
}

pub(crate) async fn unpin(app: &App, args: UnpinArgs) -> Result<()> {
    let service = app.changer().await?;
    let session = find_session(&*service, &args.session).await?.session;
    let mut messages =
        messages_by_number(&*service, &session, &args.branch, &args.messages).await?;
    let pinned = all(&*service, &session, &args.branch).await?.pinned;
    for number in &args.messages {
        if pinned.iter().all(|pin| pin.ordinal != *number) {
            app.out.message(format_args!("#{number} is not pinned"));
        }
    }
    if args.all {
        messages.extend(pinned.into_iter().map(|pin| pin.message));
    }
    let pins = change(&*service, &session, &args.branch, &messages, false).await;
    service.close().await;
    report(app, &pins?);
    Ok(())
}

async fn messages_by_number(
    service: &dyn Service,
    session: &str,
    branch: &str,
    numbers: &[u32],
) -> Result<Vec<String>> {
    if numbers.is_empty() {
        branch_length(service, session, branch).await?;
        return Ok(Vec::new());
    }
    let last = spoken_length(service, session, branch).await?;
    if let Some(number) = numbers.iter().find(|number| **number > last) {
        let problem = format!("branch `{branch}` has no message #{number}");
        return Err(Problem::not_found(problem).hint(format!("the last message is #{last}")));
    }
    Ok(numbers.iter().map(ToString::to_string).collect())
}

/// Pins or unpins messages, and reports all pinned ones.
async fn change(
    service: &dyn Service,
    session: &str,
    branch: &str,
    messages: &[String],
    pinned: bool,
) -> Result<Pins> {
    for message in messages {
        service.pin(session, branch, message, pinned).await?;
    }
    all(service, session, branch).await
}

async fn all(service: &dyn Service, session: &str, branch: &str) -> Result<Pins> {
    let mut query = of_branch(branch);
    let mut pins = service.pins(session, &query).await?;
    while pins.next.is_some() {
        query.cursor = pins.next;
        let part = service.pins(session, &query).await?;
        pins.pinned.extend(part.pinned);
        pins.next = part.next;
    }
    Ok(pins)
}

/// Lists the pinned messages and their share of the context.
fn report(app: &App, pins: &Pins) {
    let total = show::number(pins.pinned_tokens);
    let usable = show::number(pins.usable_tokens);
    if pins.pinned_tokens > pins.usable_tokens {
        app.out.warn(format_args!(
            "the pinned messages have {total} tokens, only {usable} are usable: no turn will fit \
             until some are unpinned, or another model answers"
        ));
    }
    if app.out.json {
        return app.out.json(pins);
    }
    let rows = pins.pinned.iter().map(|pin| {
        vec![
            format!("#{}", pin.ordinal),
            pin.role.clone(),
            show::number(pin.tokens),
            show::line(&pin.text, 80),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return app.out.message("nothing is pinned");
    }
    let header = ["MESSAGE", "ROLE", "TOKENS", "TEXT"];
    app.out.data(show::table(&header, &[2], rows));
    app.out
        .message(format_args!("{total} of {usable} usable tokens are pinned"));
}
