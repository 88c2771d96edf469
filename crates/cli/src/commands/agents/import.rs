//! `unisono agents import`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use unisono_config::agents;
use unisono_config::settings;
use unisono_config::skills::Skills;
use unisono_interchange::agents::{self as interchange, Format, Imported, KeyChange};

use crate::app::App;
use crate::problem::{Exit, Problem, Result};
use crate::show;

const HELP: &str = "\
Reads agents of Claude Code (.claude/agents/*.md), Codex (.codex/agents/*.toml), Copilot
(.github/agents/*.agent.md), opencode (.opencode/agents/*.md, opencode.json), Gemini CLI
(.gemini/agents/*.md, *.toml) and CrewAI (config/agents.yaml), and writes a file for each into
agents/ of the project. In a directory, the places above are searched, and the files in it. A
sequential crew (with tasks.yaml) becomes an agent with a pipeline.

Unsupported keys are listed with file, line and reason. Existing files are kept, unless --force is
set.

Examples:
  unisono agents import ~/.claude/agents --dry-run
  unisono agents import .
  unisono agents import reviewer.md --from claude --to ~/.config/unisono/agents

JSON: agents [{agent, format, from, file, state (written, would_write, exists, twice), lost [{key,
line, reason}], changed [{key, line, reason}]}], problems [{file, problem}], skipped [{file,
reason}]: files of a directory that are not agents.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Files, or directories that are searched
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Whose agents they are; without it, that is recognised
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(Format::ALL.map(Format::name)))]
    from: Option<String>,
    /// The output directory, in place of the project's agents/
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Lists the files without writing them
    #[arg(long)]
    dry_run: bool,
    /// Overwrites existing files
    #[arg(long)]
    force: bool,
}

/// What became of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Written,
    WouldWrite,
    Exists,
    Twice,
}

impl Status {
    const fn name(self) -> &'static str {
        match self {
            Status::Written => "written",
            Status::WouldWrite => "would_write",
            Status::Exists => "exists",
            Status::Twice => "twice",
        }
    }
}

/// An imported agent and its file.
struct Done {
    agent: Imported,
    from: PathBuf,
    file: PathBuf,
    status: Status,
}

pub(crate) fn run(app: &App, args: Args) -> Result<()> {
    let sources = app.sources(Vec::new())?;
    let working = sources.directory.clone();
    let loaded = settings::load(sources)?;
    let project = loaded.project.as_deref().unwrap_or(&working);
    let to = args.to.clone().unwrap_or_else(|| project.join("agents"));
    let format = args.from.as_deref().and_then(Format::from_name);
    let mut known = interchange::LocalNames {
        catalogue: &loaded.catalogue,
        servers: &loaded.tools.names,
        skills: &Skills::names_of(&loaded.sources().skills()),
        agents: &BTreeSet::new(),
    };
    let files = files(&args.paths)?;
    let read = |file: &Path, known| interchange::read(file, format, known);
    let each = files.iter().flat_map(|file| read(&file.path, known));
    let ids = each.flatten().flatten().map(|agent| agent.id);
    let there: BTreeSet<String> = names_in_use(&to).chain(ids).collect();
    known.agents = &there;
    let (mut problems, mut skipped) = (Vec::<(PathBuf, String)>::new(), Vec::new());
    let mut done = Vec::new();
    let mut taken: BTreeMap<String, PathBuf> = BTreeMap::new();
    for Candidate { path: file, named } in files {
        let agents = match read(&file, known) {
            Ok(agents) => agents,
            Err(error) if error.is_no_agent() && !named => {
                skipped.push((file, error.to_string()));
                continue;
            }
            Err(error) => {
                problems.push((file, error.to_string()));
                continue;
            }
        };
        for agent in agents {
            let agent = match agent {
                Ok(agent) => agent,
                Err(error) => {
                    problems.push((file.clone(), error.to_string()));
                    continue;
                }
            };
            let target = to.join(format!("{}.md", agent.id));
            let twice = taken.insert(agent.id.clone(), file.clone()).is_some();
            let status = if twice {
                Status::Twice
            } else {
                write(&to, &agent, &args)?
            };
            done.push(Done {
                agent,
                from: file.clone(),
                file: target,
                status,
            });
        }
    }
    if done.is_empty() && problems.is_empty() {
        report_skipped(app, &skipped);
        let problem = Problem::not_found("no agents were found there");
        return Err(problem.hint("name their directory or file, such as ~/.claude/agents"));
    }
    report(app, &done, &problems, &skipped);
    let kept = done
        .iter()
        .any(|one| matches!(one.status, Status::Exists | Status::Twice));
    match kept || !problems.is_empty() {
        true => Err(Problem::silent(Exit::Failed)),
        false => Ok(()),
    }
}

/// A file that may define agents.
struct Candidate {
    path: PathBuf,
    /// Whether a person named it; else it was found in a directory.
    named: bool,
}

/// The agents that there are: built in, and in the directory that is written to.
fn names_in_use(to: &Path) -> impl Iterator<Item = String> {
    let built_in = agents::EMBEDDED.iter().map(|(file, _)| PathBuf::from(file));
    let files = fs::read_dir(to).into_iter().flatten().flatten();
    let files = built_in.chain(files.map(|file| file.path()));
    let names = files.map(|file| file.file_stem().unwrap_or_default().to_owned());
    let names: Vec<String> = names.map(|name| name.to_string_lossy().into()).collect();
    names.into_iter()
}

/// The files that are meant.
fn files(paths: &[PathBuf]) -> Result<Vec<Candidate>> {
    let mut all = Vec::new();
    for path in paths {
        let unreadable = |error: io::Error| Problem::usage(format!("{}: {error}", path.display()));
        if fs::metadata(path).map_err(unreadable)?.is_dir() {
            let found = interchange::find(path).map_err(unreadable)?;
            let found = found.into_iter();
            all.extend(found.map(|path| Candidate { path, named: false }));
        } else {
            let (path, named) = (path.clone(), true);
            all.push(Candidate { path, named });
        }
    }
    Ok(all)
}

/// Writes a definition, unless one of that name is there.
fn write(to: &Path, agent: &Imported, args: &Args) -> Result<Status> {
    let target = to.join(format!("{}.md", agent.id));
    // Two files may not define one agent.
    let other = to.join(format!("{}.toml", agent.id));
    if other.exists() || (target.exists() && !args.force) {
        return Ok(Status::Exists);
    }
    if args.dry_run {
        return Ok(Status::WouldWrite);
    }
    let mut options = fs::OpenOptions::new();
    options.write(true);
    if args.force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let written = fs::create_dir_all(to)
        .and_then(|()| options.open(&target))
        .and_then(|mut file| file.write_all(agent.text.as_bytes()));
    match written {
        Ok(()) => Ok(Status::Written),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Status::Exists),
        Err(error) => Err(Problem::failed(format!(
            "cannot write {}: {error}",
            target.display()
        ))),
    }
}

type Files = [(PathBuf, String)];

/// Says which files that were found are no agents.
fn report_skipped(app: &App, skipped: &Files) {
    for (file, reason) in skipped {
        app.out
            .message(format_args!("no agent: {}: {reason}", file.display()));
    }
}

fn report(app: &App, done: &[Done], problems: &Files, skipped: &Files) {
    if app.out.json {
        let agents: Vec<Value> = done.iter().map(json).collect();
        let list = |files: &Files, key: &str| -> Vec<Value> {
            let each = files.iter();
            each.map(|(file, why)| json!({"file": file, key: why}))
                .collect()
        };
        return app.out.json(&json!({
            "agents": agents,
            "problems": list(problems, "problem"),
            "skipped": list(skipped, "reason"),
        }));
    }
    let paint = app.out.paint;
    for one in done {
        let word = match one.status {
            Status::Written => paint.green("written"),
            Status::WouldWrite => paint.cyan("to write"),
            Status::Exists => paint.yellow("kept"),
            Status::Twice => paint.yellow("left out"),
        };
        let (file, from) = (one.file.display(), one.from.display());
        let format = one.agent.format.name();
        app.out
            .data(format_args!("{word}  {file}  from {from} ({format})"));
        match one.status {
            Status::Exists => app
                .out
                .data("  exists: --force overwrites an .md; a .toml of that name has to go first"),
            Status::Twice => app.out.data("  another file defines an agent of that name"),
            Status::Written | Status::WouldWrite => {}
        }
        one.agent
            .lost
            .iter()
            .for_each(|lost| app.out.data(line("lost", lost)));
        one.agent
            .changed
            .iter()
            .for_each(|changed| app.out.data(line("changed", changed)));
    }
    let written = done
        .iter()
        .filter(|one| one.status == Status::Written)
        .count();
    let lost: usize = done.iter().map(|one| one.agent.lost.len()).sum();
    let keys = if lost == 1 { "key" } else { "keys" };
    app.out.message(format_args!(
        "{} written, {lost} {keys} did not carry over",
        show::many(written as u64, "agent"),
    ));
    report_skipped(app, skipped);
    for (file, problem) in problems {
        app.out.warn(format_args!("{}: {problem}", file.display()));
    }
}

fn line(word: &str, KeyChange { key, line, reason }: &KeyChange) -> String {
    let place = line.map_or_else(String::new, |line| format!(" (line {line})"));
    format!("  {word:<8} {key}{place}: {reason}")
}

fn json(one: &Done) -> Value {
    let list = |all: &[KeyChange]| -> Vec<Value> {
        let all = all.iter();
        all.map(|lost| json!({"key": lost.key, "line": lost.line, "reason": lost.reason}))
            .collect()
    };
    json!({
        "agent": one.agent.id,
        "format": one.agent.format.name(),
        "from": one.from,
        "file": one.file,
        "state": one.status.name(),
        "lost": list(&one.agent.lost),
        "changed": list(&one.agent.changed),
    })
}
