//! `unisono agents import`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use unisono_daemon::agents::import::{self, Format, Imported, Lost};
use unisono_daemon::config;

use crate::app::App;
use crate::problem::{Exit, Problem, Result};
use crate::show;

const HELP: &str = "\
Reads agents of Claude Code (.claude/agents/*.md), Codex (.codex/agents/*.toml), Copilot
(.github/agents/*.agent.md), opencode (.opencode/agents/*.md, opencode.json), Gemini CLI
(.gemini/agents/*.md, *.toml) and CrewAI (config/agents.yaml), and writes a file for each into
agents/ of the project. In a directory, the places above are searched, and the files in it. A crew
whose tasks (tasks.yaml beside it) are done one after the other becomes an agent with a pipeline.

What does not carry over is listed with file, line and reason. A file that exists is kept, unless
--force says to overwrite it.

Examples:
  unisono agents import ~/.claude/agents --dry-run
  unisono agents import .
  unisono agents import reviewer.md --from claude --to ~/.config/unisono/agents

JSON: agents [{agent, format, from, file, status (written, would_write, exists, twice), lost [{key,
line, reason}], changed [{key, line, reason}]}], problems [{file, problem}].";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Files, or directories that are searched
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Whose agents they are; without it, that is recognised
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(Format::ALL.map(Format::name)))]
    from: Option<String>,
    /// The directory they are written to, in place of the project's agents/
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Says what would be written, and writes nothing
    #[arg(long)]
    dry_run: bool,
    /// Overwrites files that exist
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

/// An agent and where it went.
struct Done {
    agent: Imported,
    from: PathBuf,
    file: PathBuf,
    status: Status,
}

pub(crate) fn run(app: &App, args: Args) -> Result<()> {
    let sources = app.sources(Vec::new())?;
    let working = sources.directory.clone();
    let loaded = config::load(sources)?;
    let project = loaded.project.as_deref().unwrap_or(&working);
    let to = args.to.clone().unwrap_or_else(|| project.join("agents"));
    let known = import::Known {
        catalogue: &loaded.catalogue,
        servers: &loaded.tools.names,
    };
    let format = args.from.as_deref().and_then(Format::from_name);
    let mut problems: Vec<(PathBuf, String)> = Vec::new();
    let mut done = Vec::new();
    let mut taken: BTreeMap<String, PathBuf> = BTreeMap::new();
    for file in files(&args.paths)? {
        let agents = match import::read(&file, format, known) {
            Ok(agents) => agents,
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
        let problem = Problem::usage("no agents were found there");
        return Err(problem.hint("name their directory or file, such as ~/.claude/agents"));
    }
    tell(app, &done, &problems);
    let kept = done
        .iter()
        .any(|one| matches!(one.status, Status::Exists | Status::Twice));
    match kept || !problems.is_empty() {
        true => Err(Problem::silent(Exit::Failed)),
        false => Ok(()),
    }
}

/// The files that are meant.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        let unreadable = |error: io::Error| Problem::usage(format!("{}: {error}", path.display()));
        if fs::metadata(path).map_err(unreadable)?.is_dir() {
            all.extend(import::find(path).map_err(unreadable)?);
        } else {
            all.push(path.clone());
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

fn tell(app: &App, done: &[Done], problems: &[(PathBuf, String)]) {
    if app.out.json {
        let agents: Vec<Value> = done.iter().map(json).collect();
        let problems = problems
            .iter()
            .map(|(file, problem)| json!({"file": file, "problem": problem}));
        let problems: Vec<Value> = problems.collect();
        return app
            .out
            .json(&json!({"agents": agents, "problems": problems}));
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
    app.out.say(format_args!(
        "{} written, {lost} {keys} did not carry over",
        show::many(written as u64, "agent"),
    ));
    for (file, problem) in problems {
        app.out.warn(format_args!("{}: {problem}", file.display()));
    }
}

fn line(word: &str, Lost { key, line, reason }: &Lost) -> String {
    let place = line.map_or_else(String::new, |line| format!(" (line {line})"));
    show::harmless(&format!("  {word:<8} {key}{place}: {reason}"))
}

fn json(one: &Done) -> Value {
    let list = |all: &[Lost]| -> Vec<Value> {
        let all = all.iter();
        all.map(|lost| json!({"key": lost.key, "line": lost.line, "reason": lost.reason}))
            .collect()
    };
    json!({
        "agent": one.agent.id,
        "format": one.agent.format.name(),
        "from": one.from,
        "file": one.file,
        "status": one.status.name(),
        "lost": list(&one.agent.lost),
        "changed": list(&one.agent.changed),
    })
}
