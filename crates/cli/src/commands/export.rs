//! `unisono export`: a conversation to a file; with `--all`, the whole store as an archive.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use futures_util::TryStreamExt as _;
use serde_json::json;
use tempfile::NamedTempFile;
use unisono::Service;
use unisono_api::service::FileParts;
use unisono_api::session::ExportQuery;
use unisono_interchange::transcript::Format;
use unisono_store::private;

use crate::app::App;
use crate::live::Interrupts;
use crate::problem::{Exit, Problem, Result};
use crate::service::find_session;
use crate::show;

/// The names of standard output.
const STDOUT: [&str; 2] = ["-", "/dev/stdout"];

const HELP: &str = "\
`unisono` keeps everything: ids, times, branches, checkpoints, topic boundaries, masks and cuts.
The other formats hold one branch. --all writes every session with its journal; `unisono import`
reads it into another store.

Examples:
  unisono export latest > talk.jsonl
  unisono export latest --format openai -o messages.json
  unisono export --all backup.unisono

JSON of --all: file, sessions, events, checkpoints.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    #[arg(default_value = "latest")]
    session: String,
    /// The format to write
    #[arg(long, default_value = Format::Unisono.name())]
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(Format::WRITTEN.map(Format::name)))]
    format: String,
    /// The branch, for formats that hold one
    #[arg(long)]
    branch: Option<String>,
    /// Writes to a new file or to a pipe; `-` is standard output, the default
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Writes the whole store to this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["session", "branch", "output"])]
    all: Option<PathBuf>,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    if args.all.as_deref().is_some_and(is_stdout) {
        let problem = Problem::usage("an archive is written to a file");
        return Err(problem.hint("name a file that does not exist yet"));
    }
    let existing = |file: &&Path| file.symlink_metadata().is_ok();
    if let Some(file) = args.all.as_deref().filter(existing) {
        return Err(unwritten(file, &ErrorKind::AlreadyExists.into()));
    }
    let service = app.reader().await?;
    match &args.all {
        Some(file) => all(app, &*service, file).await?,
        None => one(app, &*service, &args).await?,
    }
    service.close().await;
    Ok(())
}

async fn one(app: &App, service: &dyn Service, args: &Args) -> Result<()> {
    let session = find_session(service, &args.session).await?.session;
    let query = ExportQuery {
        format: Some(args.format.clone()),
        branch: args.branch.clone(),
    };
    let mut parts = service.export(&session, &query).await?;
    let file = args.output.as_deref().filter(|file| !is_stdout(file));
    let Some(file) = file else {
        while let Some(part) = parts.try_next().await? {
            app.out.bytes(&part);
        }
        return Ok(());
    };
    let bytes = write_new(file, parts).await?;
    app.out.message(format_args!(
        "wrote {} to {}",
        show::size(bytes),
        file.display()
    ));
    Ok(())
}

fn is_stdout(file: &Path) -> bool {
    STDOUT.iter().any(|name| file == Path::new(name))
}

/// Writes a file and returns its bytes. It never overwrites a file. Only the owner can read it. A pipe or a
/// device is written to.
async fn write_new(file: &Path, parts: FileParts) -> Result<u64> {
    if fs::metadata(file).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        let opened = File::options().write(true).open(file);
        let mut stream = opened.map_err(|error| unwritten(file, &error))?;
        return write_parts((file, &mut stream), parts).await;
    }
    let unfinished = Unfinished::beside(file)?;
    let opened = private::create_new(unfinished.path());
    let mut new = opened.map_err(|error| unwritten(file, &error))?;
    let bytes = or_interrupted(write_parts((file, &mut new), parts)).await?;
    new.sync_all().map_err(|error| unwritten(file, &error))?;
    unfinished.finish()?;
    Ok(bytes)
}

async fn write_parts((path, to): (&Path, &mut File), mut parts: FileParts) -> Result<u64> {
    let mut bytes = 0;
    while let Some(part) = parts.try_next().await? {
        to.write_all(&part)
            .map_err(|error| unwritten(path, &error))?;
        bytes += part.len() as u64;
        // Parts of a local store wait for nothing: an interruption would not be noticed.
        tokio::task::yield_now().await;
    }
    Ok(bytes)
}

async fn or_interrupted<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        done = work => done,
        _ = interrupts.next() => Err(Problem::silent(Exit::Interrupted)),
    }
}

/// A file that gets its name when it is complete: a part of it would look like the whole. Until then it has a
/// hidden name beside it. It is removed when this is dropped.
struct Unfinished<'f> {
    file: &'f Path,
    directory: &'f Path,
    /// The hidden name.
    hidden: NamedTempFile<()>,
}

impl Unfinished<'_> {
    /// The file has a hidden name, and does not exist yet.
    fn beside(file: &Path) -> Result<Unfinished<'_>> {
        let refused = |error: io::Error| unwritten(file, &error);
        // A link that leads nowhere is there, too.
        if file.symlink_metadata().is_ok() {
            let there = io::Error::new(ErrorKind::AlreadyExists, "it exists already");
            return Err(refused(there));
        }
        let directory = file.parent().filter(|path| *path != Path::new(""));
        let directory = directory.unwrap_or(Path::new("."));
        let hidden = tempfile::Builder::new()
            .prefix(".unisono-export-")
            .make_in(directory, |_| Ok(()));
        Ok(Unfinished {
            file,
            directory,
            hidden: hidden.map_err(refused)?,
        })
    }

    fn path(&self) -> &Path {
        self.hidden.path()
    }

    /// A problem with the hidden file, with the name that was asked for.
    fn named_in(&self, mut problem: Problem) -> Problem {
        let hidden = self.path().display().to_string();
        let file = self.file.display().to_string();
        problem.message = problem.message.replace(&hidden, &file);
        problem
    }

    /// Names the file, unless another one got its name meanwhile.
    fn finish(self) -> Result<()> {
        let named = self.hidden.persist_noclobber(self.file);
        let named = named.or_else(|failed| match failed.error.kind() {
            ErrorKind::AlreadyExists => Err(failed),
            // The file system can only rename, as those of many remote stores.
            _ => failed.file.persist(self.file),
        });
        named.map_err(|failed| unwritten(self.file, &failed.error))?;
        // The name is on disk once its directory is; some file systems cannot promise that.
        let _ = File::open(self.directory).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

fn unwritten(file: &Path, error: &io::Error) -> Problem {
    let problem = Problem::failed(format!("cannot write {}: {error}", file.display()));
    match error.kind() {
        ErrorKind::AlreadyExists if file.is_dir() => Problem::usage(format!(
            "cannot write {}: it is a directory",
            file.display()
        ))
        .hint("name a file in it"),
        ErrorKind::AlreadyExists => problem.hint("remove it, or name another file"),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            problem.hint("free some space, or name a file on another disk")
        }
        _ => problem.hint("check that its directory exists and can be written"),
    }
}

async fn all(app: &App, service: &dyn Service, file: &Path) -> Result<()> {
    let unfinished = Unfinished::beside(file)?;
    let moved = or_interrupted(async { Ok(service.archive(unfinished.path()).await?) }).await;
    let moved = moved.map_err(|problem| unfinished.named_in(problem))?;
    unfinished.finish()?;
    let report = json!({
        "file": file.display().to_string(), "sessions": moved.sessions, "events": moved.events,
        "checkpoints": moved.checkpoints,
    });
    let sessions = show::many(moved.sessions, "session");
    let events = show::many(moved.events, "event");
    let message = format!("wrote {sessions}, {events} to {}", file.display());
    app.out.outcome(&report, message);
    Ok(())
}
