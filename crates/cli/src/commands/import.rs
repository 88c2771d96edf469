//! `unisono import`: a conversation becomes a session; an archive becomes all of its sessions.

mod several;

use std::path::Path;

use serde_json::{Value, json};
use unisono::Service;
use unisono::conversation::picked;
use unisono::local::OpenedStore;
use unisono_api::Code;
use unisono_api::session::{Branch, ImportFile, Session};
use unisono_config::setup::Setup;
use unisono_interchange::transcript::{Conversation, Format};
use unisono_session::machine::Import;
use unisono_store::archive;

use crate::app::App;
use crate::conversation::{self, SkippedParts, Source, exists, imported_before};
use crate::live::End;
use crate::place::Place;
use crate::problem::{Exit, Problem, Result, alone};
use crate::service::all_branches;
use crate::show;

/// The first bytes of an archive.
const ARCHIVE: &[u8] = b"unisono archive";

const HELP: &str = "\
FILE is unisono JSONL, OpenAI chat messages (JSON array or JSONL), ShareGPT, Anthropic messages, an
export of ChatGPT or Claude (conversations.json), a session of Claude Code, Codex or Gemini CLI, a
day of a Slack channel, a chat of Telegram or Messenger, a text whose lines name the speaker
(`Alice: …`, `## Assistant`, WhatsApp's export), or an archive that `unisono export --all` wrote. A
file that was imported before is not imported again. Prints the session's id.

--list shows the conversations of a file with several, --pick and --all import them, one session
each, and report for each whether it is new. --all skips a conversation that cannot be read or is
refused, warns, and exits with code 4. Unsupported content, such as a model's reasoning, is dropped; a
warning counts it by kind.

With --skip-bad, messages or parts that cannot be read are skipped and counted, and the exit code is
4. An archive also has tokens; a token whose name is taken is skipped in the same way.

JSON: session, messages, branches, title, known (true: it was imported before), skipped_messages (how
many), skipped_parts (how many, of other messages), dropped_content (how many, by kind); with --pick
or --all, of a file with several, {imported, known, left_out (how many), conversations (a list of
these, each with its number)}; with --list a list of number, id, at, messages, title; for an archive:
sessions, events, checkpoints, skipped_tokens.

Examples:
  unisono import talk.jsonl
  unisono import - --format openai < messages.json
  unisono import conversations.json --list
  unisono import conversations.json --pick 3 --pick 7
  unisono import conversations.json --all
  unisono import slack-export/general
  unisono import notes.txt --format text
  unisono import --copy talk.jsonl        a second session of the same file";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The conversation or archive, the directory of an export, or `-` for standard input; several
    /// files, or a directory of days, are one Slack channel
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Input format (default: detected)
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(Format::ALL.map(Format::name)))]
    format: Option<String>,
    /// Skips invalid messages and parts, reports them, and exits with code 4
    #[arg(long)]
    skip_bad: bool,
    /// Shows the conversations in the file, and imports none
    #[arg(long, conflicts_with_all = ["pick", "all", "copy"])]
    list: bool,
    /// Imports this one of the conversations in the file, by its number or id; may be repeated
    #[arg(long, value_name = "N|ID", conflicts_with = "all")]
    pick: Vec<String>,
    /// Imports all conversations in the file, a session for each
    #[arg(long)]
    all: bool,
    /// Creates another session, even if the file was imported before
    #[arg(long)]
    copy: bool,
}

impl Args {
    fn format(&self) -> Option<Format> {
        self.format.as_deref().and_then(Format::from_name)
    }

    /// Checks that no flag selects a part of an archive.
    fn check_archive(&self) -> Result<()> {
        if self.list || self.copy || !self.pick.is_empty() {
            let problem = "an archive is imported whole, with the ids of its sessions";
            return Err(Problem::usage(problem).hint("omit --list, --pick and --copy"));
        }
        Ok(())
    }

    fn selected(&self, name: &str, found: Vec<Conversation>) -> Result<Vec<Conversation>> {
        picked(found, &self.pick, Conversation::matches).map_err(|unknown| {
            let problem = format!("{name} has no conversation {unknown:?}");
            let problem = Problem::usage(problem).code(Code::Refused);
            problem.hint("--list shows which there are")
        })
    }

    fn file(&self, source: Source) -> Result<ImportFile> {
        source.file(self.format.as_deref(), self.skip_bad, self.copy)
    }
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let mut source = conversation::open_all(&args.files, &setup.loaded.config.store.path)?;
    if source.begins_with(ARCHIVE)? && args.format.is_none() {
        args.check_archive()?;
        let opened = match app.store_or_daemon(&setup).await? {
            Place::Process(opened) => opened,
            Place::Daemon(client) => return Err(alone("an archive is read into", client.url())),
        };
        return import_archive(app, &opened, &args.files[0]).await;
    }
    let group_chats = conversation::group_chats(&args.files);
    if group_chats > 0 {
        let many = show::many(group_chats, "group chat");
        app.out
            .warn(format_args!("group_chats.json: left behind: {many}"));
    }
    if args.list {
        return list(app, &args, source);
    }
    if args.all || !args.pick.is_empty() {
        let found = source.conversations(args.format(), args.skip_bad)?;
        if !found.is_empty() {
            let chosen = args.selected(&source.name, found)?;
            return several::import(app, &args, &setup, (source, chosen)).await;
        }
        if args.pick.iter().any(|wanted| wanted != "1") {
            let problem = format!("{} holds one conversation, number 1", source.name);
            return Err(Problem::usage(problem));
        }
    }
    one(app, &args, &setup, source).await
}

/// Imports the conversation that a file is.
async fn one(app: &App, args: &Args, setup: &Setup, mut source: Source) -> Result<()> {
    let (import, skipped) = source.conversation(args.format(), args.skip_bad, &app.out)?;
    let idle_store = app.new_idle_store(setup).await?;
    if let Some(known) = existing_session(args, idle_store.service(), &source, &import).await? {
        app.out.message(format_args!(
            "{} was imported before; --copy imports it again",
            source.name
        ));
        let branches = all_branches(idle_store.service(), &known.session).await?;
        report(app, &known, &branches, (true, &skipped));
        idle_store.close().await;
        return skipped.ending();
    }
    let turns = idle_store.work(app, None).await?;
    let service = turns.service();
    let made = service.import_file(args.file(source)?).await?.session;
    let branches = all_branches(service, &made.session).await?;
    report(app, &made, &branches, (false, &skipped));
    turns.stop(End::Ended).await;
    skipped.ending()
}

/// The session that a conversation became before.
async fn existing_session(
    args: &Args,
    service: &dyn Service,
    source: &Source,
    import: &Import,
) -> Result<Option<Session>> {
    if args.copy {
        return Ok(None);
    }
    if let Some(known) = imported_before(service, import).await? {
        return Ok(Some(service.session(&known.session).await?));
    }
    match import.session {
        Some(id) if exists(service, id).await? => {
            let problem = format!("{}: session {id} is already in the store", source.name);
            let problem = Problem::usage(problem).code(Code::Conflict);
            Err(problem.hint("--copy imports it under a new id"))
        }
        _ => Ok(None),
    }
}

/// Shows the conversations of a file.
fn list(app: &App, args: &Args, mut source: Source) -> Result<()> {
    let found = source.conversations(args.format(), args.skip_bad)?;
    let mut rows: Vec<Row> = found.into_iter().map(Row::from).collect();
    if rows.is_empty() {
        let (import, _) = source.read(args.format(), args.skip_bad, &app.out)?;
        let first = import.messages.first().map(|(_, message)| message.at);
        let first = first.filter(|at| at.is_known());
        rows.push(Row {
            number: 1,
            id: None,
            at: first.map(show::instant),
            messages: import.messages.len(),
            title: import.title.to_string(),
        });
    }
    if app.out.json {
        app.out.json(&rows);
        return Ok(());
    }
    let rows = rows.into_iter().map(|row| {
        let at = row.at.as_deref().map(show::minute);
        vec![
            row.number.to_string(),
            row.id.unwrap_or_default(),
            at.unwrap_or_default(),
            row.messages.to_string(),
            row.title,
        ]
    });
    let header = ["NUMBER", "ID", "BEGAN", "MESSAGES", "TITLE"];
    app.out.data(show::table(&header, &[0, 3], rows.collect()));
    Ok(())
}

/// A row of the list of conversations.
#[derive(serde::Serialize)]
struct Row {
    number: usize,
    id: Option<String>,
    at: Option<String>,
    messages: usize,
    title: String,
}

impl From<Conversation> for Row {
    fn from(conversation: Conversation) -> Row {
        Row {
            number: conversation.number,
            id: conversation.id,
            at: conversation.at.map(show::instant),
            messages: conversation.messages,
            title: conversation.title,
        }
    }
}

fn report(app: &App, made: &Session, branches: &[Branch], (known, skipped): (bool, &SkippedParts)) {
    if app.out.json {
        app.out.json(&as_json(made, branches, (known, skipped)));
        return;
    }
    if !known {
        let messages = show::many(made.messages, "message");
        let short = show::short_id(&made.session);
        app.out.message(format_args!(
            "imported {messages}: `unisono context {short}` shows them"
        ));
    }
    app.out.data(&made.session);
}

fn as_json(made: &Session, branches: &[Branch], (known, skipped): (bool, &SkippedParts)) -> Value {
    let branches: Vec<&str> = branches.iter().map(|branch| branch.name.as_str()).collect();
    json!({
        "session": made.session, "title": made.title, "messages": made.messages,
        "branches": branches, "known": known, "skipped_messages": skipped.messages,
        "skipped_parts": skipped.parts, "dropped_content": skipped.behind,
    })
}

async fn import_archive(app: &App, opened: &OpenedStore, file: &str) -> Result<()> {
    if file == "-" {
        let problem = Problem::usage("an archive cannot be read from standard input");
        return Err(problem.hint("name its file"));
    }
    let moved = archive::import(opened.journal.engine().as_ref(), Path::new(file)).await?;
    let report = json!({
        "sessions": moved.sessions, "events": moved.events, "checkpoints": moved.checkpoints,
        "skipped_tokens": moved.skipped_tokens,
    });
    let sessions = show::many(moved.sessions, "session");
    let events = show::many(moved.events, "event");
    let text = format!("imported {sessions}, {events}");
    app.out.result(&report, text);
    opened.journal.close().await?;
    if moved.skipped_tokens == 0 {
        return Ok(());
    }
    app.out.warn(format_args!(
        "{} of the archive not imported: the store has others of the same names",
        show::many(moved.skipped_tokens, "token")
    ));
    Err(Problem::silent(Exit::SomeFailed))
}
