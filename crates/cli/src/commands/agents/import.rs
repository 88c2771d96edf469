//! `unisono agents import`.

use std::io;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use unisono_api::agent::{AgentImport, FileNote, ImportedAgent, KeyChange};
use unisono_config::settings;
use unisono_interchange::agents::{Candidate, Format, Import, Writes};

use crate::app::App;
use crate::problem::{Exit, Problem, Result};
use crate::show;

const HELP: &str = "\
Reads agents of Claude Code (.claude/agents/*.md), Codex (.codex/agents/*.toml), Copilot
(.github/agents/*.agent.md), opencode (.opencode/agents/*.md, opencode.json), Gemini CLI
(.gemini/agents/*.md, *.toml) and CrewAI (config/agents.yaml), and writes a file for each into
agents/ of the project. In a directory, these places and its own files are searched. A
sequential crew (with tasks.yaml) becomes an agent with a pipeline.

Unsupported keys are listed with file, line and reason. Existing files are kept, unless --force is
set. A skill that an agent names is copied from skills/ beside the agent's directory to skills/ of
the project, unless one of that name is there.

Examples:
  unisono agents import ~/.claude/agents --dry-run
  unisono agents import .
  unisono agents import reviewer.md --from claude --to ~/.config/unisono/agents

JSON: agents [{agent, format, from, file, text, state (written, would_write, exists, twice), lost
[{key, line, reason}], changed [{key, line, reason}]}], problems [{file, reason}], skipped [{file,
reason}]: files of a directory that are not agents, and directories that cannot be searched, reload
(as for `agents reload`; null: nothing was written).";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Files, or directories that are searched
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// The program whose agents they are (default: auto-detected)
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

pub(crate) fn run(app: &App, args: Args) -> Result<()> {
    let sources = app.sources(Vec::new())?;
    let working = sources.directory.clone();
    let loaded = settings::load(sources)?;
    let project = loaded.project.as_deref().unwrap_or(&working);
    let to = args.to.clone().unwrap_or_else(|| project.join("agents"));
    let import = Import {
        within: None,
        format: args.from.as_deref().and_then(Format::from_name),
        to: &to,
        writes: match (args.dry_run, args.force) {
            (true, _) => Writes::Nothing,
            (false, true) => Writes::All,
            (false, false) => Writes::New,
        },
    };
    let files = files(&args.paths)?;
    let name = |file: &Path| file.display().to_string();
    let carried_out = import.carry_out(&files, &loaded, name);
    let (report, _) = carried_out.map_err(|error| Problem::failed(error.to_string()))?;
    if report.agents.is_empty() && report.problems.is_empty() {
        report_skipped(app, &report.skipped);
        let problem = Problem::not_found("no agents were found there");
        return Err(problem.hint("name their directory or file, such as ~/.claude/agents"));
    }
    show_report(app, &report);
    let is_kept = |one: &ImportedAgent| matches!(&*one.state, "exists" | "twice");
    match report.agents.iter().any(is_kept) || !report.problems.is_empty() {
        true => Err(Problem::silent(Exit::Failed)),
        false => Ok(()),
    }
}

fn files(paths: &[PathBuf]) -> Result<Vec<Candidate>> {
    let mut all = Vec::new();
    for path in paths {
        let found = Candidate::from_path(path);
        all.extend(found.map_err(|error| unreadable(path, &error))?);
    }
    Ok(all)
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    let what = match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        _ => error.to_string(),
    };
    let problem = Problem::usage(format!("cannot read {}: {what}", path.display()));
    problem.hint("name a file, or a directory that is searched")
}

fn report_skipped(app: &App, skipped: &[FileNote]) {
    for FileNote { file, reason } in skipped {
        app.out.message(format_args!("no agent: {file}: {reason}"));
    }
}

fn show_report(app: &App, report: &AgentImport) {
    if app.out.json {
        return app.out.json(report);
    }
    let done = &report.agents;
    done.iter().for_each(|one| show_one(app, one));
    let written = done.iter().filter(|one| one.state == "written").count();
    let lost: usize = done.iter().map(|one| one.lost.len()).sum();
    let keys = if lost == 1 { "key" } else { "keys" };
    app.out.message(format_args!(
        "{} written, {lost} {keys} did not carry over",
        show::many(written as u64, "agent"),
    ));
    report_skipped(app, &report.skipped);
    for FileNote { file, reason } in &report.problems {
        app.out.warn(format_args!("{file}: {reason}"));
    }
}

fn show_one(app: &App, one: &ImportedAgent) {
    let paint = app.out.paint;
    let word = match &*one.state {
        "written" => paint.green("written"),
        "would_write" => paint.cyan("to write"),
        "exists" => paint.yellow("kept"),
        _ => paint.yellow("left out"),
    };
    let (file, from, format) = (&one.file, &one.from, &one.format);
    app.out
        .data(format_args!("{word}  {file}  from {from} ({format})"));
    match &*one.state {
        "exists" => app.out.data(
            "  exists: --force overwrites an .md file; remove a .toml file with this name first",
        ),
        "twice" => app.out.data("  another file defines an agent of that name"),
        _ => {}
    }
    for lost in &one.lost {
        app.out.data(line("lost", lost));
    }
    for changed in &one.changed {
        app.out.data(line("changed", changed));
    }
}

fn line(word: &str, KeyChange { key, line, reason }: &KeyChange) -> String {
    let place = line.map_or_else(String::new, |line| format!(" (line {line})"));
    format!("  {word:<8} {key}{place}: {reason}")
}
