//! `unisono append`: a message without a turn.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use unisono::attachments;
use unisono_api::message::{NewMessage, Part, Role};
use unisono_api::session::MAIN_BRANCH;

use crate::app::App;
use crate::attach;
use crate::conversation;
use crate::problem::{Problem, Result};
use crate::service::find_session;

const HELP: &str = "\
The message is on disk when this returns, and part of what agents see in the next turn. While a turn
is open on the branch, the message waits for its end. A repeated call with the same --key adds the
message once.

PARTS is a JSON list: {\"type\": \"text\", \"text\"}, {\"type\": \"tool_call\", \"id\", \"name\", \"arguments\"}
(arguments: a JSON object, as a text), {\"type\": \"tool_result\", \"call_id\", \"content\", \"is_error\"},
{\"type\": \"attachment\", \"filename\", \"data\" (base64) or \"digest\"}; without both it is a note with \"mime\"
and \"size_bytes\".

Examples:
  unisono append latest \"We ship on Friday.\" --author Zoë
  git log -1 | unisono append latest - --role assistant --key commit-4f1c
  unisono append latest \"The plan:\" --attach plan.pdf
  unisono append latest --role tool --parts \\
      '[{\"type\":\"tool_result\",\"call_id\":\"c1\",\"content\":\"12\"}]'

JSON: session, branch, message, state (appended, waiting), ordinal, repeated (it was
appended under this key before).";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// The text, or `-` for standard input
    #[arg(required_unless_present_any = ["parts", "attach"], conflicts_with = "parts")]
    text: Option<String>,
    /// The parts of the message as JSON, or `-` for standard input
    #[arg(long, value_name = "PARTS")]
    parts: Option<String>,
    /// An image (PNG, JPEG, GIF, WebP) or a PDF that belongs to it; may be repeated
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// The role
    #[arg(long, default_value = "user")]
    #[arg(value_parser = roles())]
    role: Role,
    /// The name of the author, a person or an agent
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    /// The time of the message, such as 2026-03-02T09:14:00Z (default: now)
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// The branch
    #[arg(long, default_value = MAIN_BRANCH)]
    branch: String,
    /// An idempotency key: repeated calls with it add the message once
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

fn roles() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(["user", "assistant", "tool", "system"])
        .try_map(|name| name.parse::<Role>())
}

impl Args {
    fn message(&self) -> Result<NewMessage> {
        let parts = self.parts.as_deref().map(parts).transpose()?;
        let mut parts = parts.unwrap_or_default();
        let mut text = self.text.as_deref().map(text).transpose()?;
        if !self.attach.is_empty() {
            parts.extend(text.take().map(|text| Part::Text { text }));
            let files = attach::files(&self.attach)?;
            parts.extend(files.iter().filter_map(attachments::in_request));
        }
        Ok(NewMessage {
            role: self.role,
            text,
            parts,
            author: self.author.clone(),
            at: self.at.clone(),
            branch: self.branch.clone(),
        })
    }
}

fn text(text: &str) -> Result<String> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let bytes = conversation::bytes_of("-", "a message")?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| Problem::usage("standard input is not UTF-8"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn parts(given: &str) -> Result<Vec<Part>> {
    let text = text(given)?;
    serde_json::from_str(&text).map_err(|error| {
        let problem = Problem::usage(format!("--parts cannot be read: {error}"));
        problem.hint("`unisono append --help` describes the parts of a message")
    })
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let new = args.message()?;
    let service = app.changer().await?;
    let session = find_session(&*service, &args.session).await?.session;
    let appended = service.append(&session, &new, args.key.as_deref()).await?;
    if app.out.json {
        app.out.json(&appended);
    } else {
        match appended.ordinal {
            Some(ordinal) => app.out.message(format_args!("appended #{ordinal}")),
            None => app.out.message(
                "the message waits: a turn is open on the branch, and it follows when that has ended",
            ),
        }
        app.out.data(&appended.message);
    }
    service.close().await;
    Ok(())
}
