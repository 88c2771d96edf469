//! `unisono history`: the messages of a branch.

use std::num::NonZeroUsize;

use serde_json::json;
use unisono::Service;
use unisono_api::message::{Message, MessageQuery, Part};
use unisono_api::session::MAIN_BRANCH;
use unisono_context::Role;
use unisono_search::role;

use crate::app::App;
use crate::problem::{Problem, Result};
use crate::service::{branch_length, find_session};
use crate::show;
use crate::terminal::Paint;

/// Messages per request.
const PAGE: usize = 1_000;

const HELP: &str = "\
Shows all messages of the branch, including summarised ones; `unisono context` shows the context
of the model. MESSAGES is a number or a range: 12, 12-20, 12- (to the end), -20 (the last twenty);
a number may begin with `#`.

JSON: session, branch, messages [{ordinal, id, parent, role, author, at, run (that wrote it; absent:
none), tokens, usage, form (verbatim, masked, cut, summarised or dropped), pinned (absent: no),
parts [{type, ...}]}], lost {first, last, found_at, quarantine} (events lost in a repair of the store)
or null.

Examples:
  unisono history latest
  unisono history latest '#12-#20' --role user
  unisono history latest -5 --json";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// The range of messages (default: all)
    #[arg(value_name = "MESSAGES", value_parser = range, allow_hyphen_values = true)]
    messages: Option<Range>,
    /// Only messages of this role; may be repeated
    #[arg(long, value_parser = role)]
    role: Vec<Role>,
    /// The branch
    #[arg(long, default_value = MAIN_BRANCH)]
    branch: String,
}

/// A range of the messages of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    /// From one to another; none: to the end.
    Between(u32, Option<u32>),
    /// So many of the newest.
    Last(u32),
}

fn range(text: &str) -> std::result::Result<Range, String> {
    let number = |text: &str| {
        let digits = text.strip_prefix('#').unwrap_or(text);
        let number = digits.parse::<u32>().ok().filter(|n| *n > 0);
        number.ok_or_else(|| format!("{text:?} is not a message number"))
    };
    match text.trim().split_once('-') {
        None => number(text).map(|one| Range::Between(one, Some(one))),
        Some(("", last)) => number(last).map(Range::Last),
        Some((first, "")) => Ok(Range::Between(number(first)?, None)),
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last)?);
            match first <= last {
                true => Ok(Range::Between(first, Some(last))),
                false => Err(format!("the range {text} begins after its end")),
            }
        }
    }
}

impl Range {
    /// The first and last of so many messages.
    fn bounds(self, length: u32) -> (u32, u32) {
        match self {
            Range::Between(first, last) => (first, last.unwrap_or(length).min(length)),
            Range::Last(many) => (length.saturating_sub(many) + 1, length),
        }
    }
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let service = app.reader().await?;
    let found = find_session(&*service, &args.session).await?;
    let id = found.session;
    if let Some(lost) = &found.lost {
        app.report_lost(&show::short_id(&id), lost);
    }
    let messages = read_messages(&*service, &id, &args).await?;
    service.close().await;
    if app.out.json {
        app.out.json(&json!({
            "session": id, "branch": args.branch, "messages": messages, "lost": found.lost,
        }));
        return Ok(());
    }
    let texts = messages.iter().map(|message| text(app.out.paint, message));
    let texts: Vec<String> = texts.collect();
    match texts[..] {
        [] => app.out.message("no message matches"),
        _ => app.out.data(texts.join("\n\n")),
    }
    Ok(())
}

async fn read_messages(service: &dyn Service, id: &str, args: &Args) -> Result<Vec<Message>> {
    let length = branch_length(service, id, &args.branch).await?;
    let all = Range::Between(1, None);
    let (first, last) = args.messages.unwrap_or(all).bounds(length);
    if length == 0 && args.messages.is_none() {
        return Ok(Vec::new());
    }
    if first > length {
        let problem = format!("branch `{}` has no message #{first}", args.branch);
        return Err(Problem::not_found(problem).hint(format!("the last message is #{length}")));
    }
    let mut messages = Vec::new();
    let mut query = MessageQuery {
        branch: args.branch.clone(),
        cursor: Some(first.to_string()),
        limit: NonZeroUsize::new(PAGE),
        steps: false,
    };
    while query.cursor.is_some() {
        let page = service.messages(id, &query).await?;
        let before = messages.len();
        let wanted = page.items.into_iter().filter(|one| one.ordinal <= last);
        messages.extend(wanted);
        let ends = messages.len() < before + PAGE;
        query.cursor = page.next.filter(|_| !ends);
    }
    messages.retain(|one| args.role.is_empty() || args.role.iter().any(|r| r.name() == one.role));
    Ok(messages)
}

fn text(paint: Paint, message: &Message) -> String {
    let who = match &message.author {
        Some(author) => format!("{author} ({})", message.role),
        None => message.role.clone(),
    };
    let used = message.usage.map(|usage| {
        let (input, output) = (usage.input_tokens, usage.output_tokens);
        let (input, output) = (show::number(input), show::number(output));
        format!("  {input} tokens in, {output} out")
    });
    let form = match message.form.as_str() {
        "verbatim" => String::new(),
        other => format!("  [{other}]"),
    };
    let date = message.at.as_deref().map(show::minute);
    let date = date.map(|date| format!("  {date}")).unwrap_or_default();
    let about = format!("{date}{}{form}", used.unwrap_or_default());
    let about = paint.dim(about);
    let head = paint.bold(format_args!("#{} {who}", message.ordinal));
    format!("{head}{about}\n{}", message_text(message))
}

/// The text of a message, with readable tool calls and results.
fn message_text(message: &Message) -> String {
    let parts = message.parts.iter().map(|part| match part {
        Part::Text { text } => text.trim_end().to_owned(),
        Part::ToolCall {
            id,
            name,
            arguments,
        } => format!("→ {name} {arguments}  [{id}]"),
        Part::ToolResult {
            call_id,
            content,
            is_error,
        } => {
            let how = if *is_error { "failed" } else { "gave" };
            format!("← [{call_id}] {how}:\n{}", show::indented(content, "  "))
        }
        Part::Attachment {
            filename,
            mime,
            size_bytes,
            extent,
            ..
        } => format!("[{filename}, {mime}, {}{extent}]", show::size(*size_bytes)),
    });
    parts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_people_write_them() {
        let bounds = |text: &str| range(text).map(|range| range.bounds(30));
        assert_eq!(bounds("12"), Ok((12, 12)));
        assert_eq!(bounds("#12-#20"), Ok((12, 20)));
        assert_eq!(bounds("12-99"), Ok((12, 30)));
        assert_eq!(bounds("28-"), Ok((28, 30)));
        assert_eq!(bounds("-5"), Ok((26, 30)));
        assert_eq!(bounds("-50"), Ok((1, 30)));
        for wrong in ["", "0", "a", "20-12", "1-2-3", "#"] {
            assert!(range(wrong).is_err(), "{wrong:?}");
        }
    }
}
