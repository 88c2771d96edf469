//! `unisono history`: a conversation, to be read.

use serde_json::{Value, json};
use unisono_context::alteration::Form;
use unisono_context::message::{Message, Part};
use unisono_context::tree::Node;
use unisono_context::view::{Standing, View};
use unisono_context::{Ordinal, Role};
use unisono_search::role;
use unisono_session::State;
use unisono_session::state::MAIN;

use super::sessions::branch::unknown_branch;
use crate::app::App;
use crate::output::Paint;
use crate::problem::{Problem, Result};
use crate::show;

const HELP: &str = "\
Everything that was said on the branch, also what a summary stands for by now; `unisono context`
shows what the model sees. MESSAGES is one number or a range: 12, 12-20, 12- (to the end), -20 (the
last twenty); `#` before a number may be written.

JSON: session, branch, messages [{ordinal, message, role, author, at, tokens, usage, standing
(verbatim, masked, cut, summarised or dropped), parts [{type, ...}]}].

Examples:
  unisono history latest
  unisono history latest '#12-#20' --role user
  unisono history latest -5 --json";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// Which messages; without it, all
    #[arg(value_name = "MESSAGES", value_parser = range, allow_hyphen_values = true)]
    messages: Option<Range>,
    /// Only messages of this role; may be repeated
    #[arg(long, value_parser = role)]
    role: Vec<Role>,
    /// The branch
    #[arg(long, default_value = MAIN)]
    branch: String,
}

/// Which messages of a branch.
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
    let setup = app.setup(Vec::new())?;
    let sessions = app.sessions(&setup).await?;
    let id = sessions.find(&args.session).await?;
    let state = sessions.state(id).await?;
    sessions.close().await?;
    let (view, nodes) = match view(&state, &args)? {
        Some((view, nodes)) => (Some(view), nodes),
        None => (None, Vec::new()),
    };
    if app.out.json {
        let messages = nodes
            .iter()
            .filter_map(|node| Some(object(view.as_ref()?, node)));
        app.out.json(&json!({
            "session": id.to_string(), "branch": args.branch,
            "messages": messages.collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    let texts = nodes
        .iter()
        .filter_map(|node| Some(text(app.out.paint, view.as_ref()?, node)));
    let texts: Vec<String> = texts.collect();
    match texts[..] {
        [] => app.out.say("no message matches"),
        _ => app.out.data(texts.join("\n\n")),
    }
    Ok(())
}

/// The messages that are asked for, and what stands for them; none where nothing was said yet.
fn view<'s>(state: &'s State, args: &Args) -> Result<Option<(View<'s>, Vec<&'s Node>)>> {
    let Some(head) = state.tree().head(&args.branch) else {
        let empty = state.tree().is_empty() && args.branch == MAIN;
        return match empty {
            true => Ok(None),
            false => Err(unknown_branch(state, &args.branch)),
        };
    };
    let Some(view) = state.view(head, false) else {
        return Ok(None);
    };
    let length = view.len().0;
    let all = Range::Between(1, None);
    let (first, last) = args.messages.unwrap_or(all).bounds(length);
    if first > length {
        let problem = format!("branch `{}` has no message #{first}", args.branch);
        return Err(Problem::usage(problem).hint(format!("the last message is #{length}")));
    }
    let mut nodes = state.tree().range(head, Ordinal(first)..=Ordinal(last));
    nodes.retain(|node| args.role.is_empty() || args.role.contains(&node.role()));
    Ok(Some((view, nodes)))
}

/// How the context has a message.
fn standing(view: &View<'_>, node: &Node) -> String {
    match view.standing(node.ordinal()) {
        Some(Standing::Covered(checkpoint)) => match checkpoint.body {
            unisono_context::checkpoint::Body::Summary(_) => "summarised",
            unisono_context::checkpoint::Body::Tombstone => "dropped",
        },
        Some(Standing::Shortened(Form::Masked { .. })) => "masked",
        Some(Standing::Shortened(_)) => "cut",
        Some(Standing::Verbatim) | None => "verbatim",
    }
    .to_owned()
}

fn text(paint: Paint, view: &View<'_>, node: &Node) -> String {
    let message = &node.message;
    let who = match &message.author {
        Some(author) => format!("{author} ({})", message.role),
        None => message.role.to_string(),
    };
    let used = message.usage.map(|usage| {
        let (input, output) = (show::tokens(usage.input), show::tokens(usage.output));
        format!("  {input} tokens in, {output} out")
    });
    let standing = match standing(view, node).as_str() {
        "verbatim" => String::new(),
        other => format!("  [{other}]"),
    };
    let (date, used) = (show::date(message.at), used.unwrap_or_default());
    let about = paint.dim(format_args!("{date}{used}{standing}"));
    let head = paint.bold(format_args!("{} {who}", message.ordinal));
    format!("{head}  {about}\n{}", said(message))
}

/// What a message says; calls of tools and their results as a person reads them.
fn said(message: &Message) -> String {
    let parts = message.parts.iter().map(|part| match part {
        Part::Text(text) => text.trim_end().to_owned(),
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
        } => format!("[{filename}, {mime}, {}]", show::size(*size_bytes)),
    });
    parts.collect::<Vec<_>>().join("\n")
}

fn object(view: &View<'_>, node: &Node) -> Value {
    let message = &node.message;
    let parts = message.parts.iter().map(|part| match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::ToolCall {
            id,
            name,
            arguments,
        } => json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments}),
        Part::ToolResult {
            call_id,
            content,
            is_error,
        } => json!({
            "type": "tool_result", "call_id": call_id, "content": content, "is_error": is_error,
        }),
        Part::Attachment {
            filename,
            mime,
            size_bytes,
        } => json!({
            "type": "attachment", "filename": filename, "mime": mime, "size_bytes": size_bytes,
        }),
    });
    let tokens = node.counts.iter().next().map(|(_, count)| count.tokens.0);
    let usage = message
        .usage
        .map(|usage| json!({"input_tokens": usage.input.0, "output_tokens": usage.output.0}));
    json!({
        "ordinal": message.ordinal.0, "message": message.id.to_string(),
        "role": message.role.name(), "author": message.author.as_ref().map(ToString::to_string),
        "at": show::instant(message.at), "tokens": tokens, "usage": usage,
        "standing": standing(view, node), "parts": parts.collect::<Vec<_>>(),
    })
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
