//! `unisono import`: a conversation becomes a session; an archive becomes all of its sessions.

use std::path::Path;

use serde_json::json;
use unisono::local::Opened;
use unisono_api::session::{Branch, Session};
use unisono_interchange::transcript::Format;
use unisono_store::archive;

use crate::app::App;
use crate::conversation::{self, DIGEST, LeftOut, Taken, exists, labelled};
use crate::live::End;
use crate::place::Place;
use crate::problem::{Problem, Result, alone};
use crate::service::all_branches;
use crate::show;

/// How an archive of a whole store begins.
const ARCHIVE: &[u8] = b"unisono archive";

const HELP: &str = "\
FILE is unisono JSONL, OpenAI chat messages (JSON array or JSONL), ShareGPT, or an archive that
`unisono export --all` wrote. A file that was imported before is not imported again.
Prints the session's id.

With --skip-bad what cannot be read is left out, counted, and the exit code is 4: whole messages,
or the parts of a message that are bad.

JSON: session, messages, branches, title, known (true: it was imported before), left_out (bad
messages that were), left_out_parts (bad parts of others that were);
for an archive: sessions, events, checkpoints.

Examples:
  unisono import talk.jsonl
  unisono import - --format openai < messages.json
  unisono import --copy talk.jsonl        a second session of the same file";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The conversation or archive, or `-` for standard input
    file: String,
    /// The format; without it, it is recognised
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(Format::ALL.map(Format::name)))]
    format: Option<String>,
    /// Leaves bad messages and parts out, tells which and how many, and ends with exit code 4
    #[arg(long)]
    skip_bad: bool,
    /// Makes another session, even of a file that was imported before
    #[arg(long)]
    copy: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let mut source = conversation::open(&args.file, &setup.loaded.config.store.path)?;
    if source.begins_with(ARCHIVE)? && args.format.is_none() {
        let opened = match app.store_or_daemon(&setup).await? {
            Place::Process(opened) => opened,
            Place::Daemon(client) => return Err(alone("an archive is read into", client.url())),
        };
        return import_archive(app, &opened, &args.file).await;
    }
    let format = args.format.as_deref().and_then(Format::from_name);
    let (import, left_out) = source.conversation(format, args.skip_bad, &app.out)?;
    let desk = app.new_desk(&setup).await?;
    let service = desk.service();
    if args.copy {
        // Nothing that is known of it matters.
    } else if let Some(known) = labelled(service, DIGEST, source.digest()).await? {
        app.out.say(format_args!(
            "{} was imported before; --copy imports it again",
            source.name
        ));
        let known = service.session(&known.session).await?;
        let branches = all_branches(service, &known.session).await?;
        tell(app, &known, &branches, (true, left_out));
        desk.close().await;
        return left_out.ending();
    } else if let Some(id) = import.session
        && exists(service, id).await?
    {
        let problem = format!("{}: session {id} is already in the store", source.name);
        return Err(Problem::usage(problem).hint("--copy imports it under a new id"));
    }
    let worker = desk.work(app, None).await?;
    let taken = Taken {
        import,
        source,
        format: args.format.as_deref(),
        skip_bad: args.skip_bad,
        copy: args.copy,
    };
    let service = worker.service();
    let made = service.import_file(taken.file()?).await?;
    let branches = all_branches(service, &made.session).await?;
    tell(app, &made, &branches, (false, left_out));
    worker.stop(End::Ended).await;
    left_out.ending()
}

fn tell(app: &App, made: &Session, branches: &[Branch], (known, left_out): (bool, LeftOut)) {
    let (session, messages) = (&made.session, made.messages);
    if app.out.json {
        let branches: Vec<&str> = branches.iter().map(|branch| branch.name.as_str()).collect();
        app.out.json(&json!({
            "session": session, "title": made.title, "messages": messages,
            "branches": branches, "known": known, "left_out": left_out.messages,
            "left_out_parts": left_out.parts,
        }));
        return;
    }
    if !known {
        let messages = show::many(messages, "message");
        let short = show::short_id(session);
        app.out.say(format_args!(
            "imported {messages}: `unisono context {short}` shows them"
        ));
    }
    app.out.data(session);
}

async fn import_archive(app: &App, opened: &Opened, file: &str) -> Result<()> {
    if file == "-" {
        let problem = Problem::usage("an archive cannot be read from standard input");
        return Err(problem.hint("name its file"));
    }
    let moved = archive::import(opened.journal.engine().as_ref(), Path::new(file)).await?;
    if app.out.json {
        app.out.json(&json!({
            "sessions": moved.sessions, "events": moved.events, "checkpoints": moved.checkpoints,
        }));
    } else {
        let sessions = show::many(moved.sessions, "session");
        app.out.data(format_args!(
            "imported {sessions}, {}",
            show::many(moved.events, "event")
        ));
    }
    Ok(opened.journal.close().await?)
}
