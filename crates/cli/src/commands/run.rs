//! `unisono run`: the main job in one command.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgGroup;
use tokio::time::{Instant, timeout_at};
use unisono::Service;
use unisono_api::session::MAIN_BRANCH;
use unisono_api::turn::NewTurn;
use unisono_config::settings::Override;
use unisono_config::setup::Setup;
use unisono_context::Ordinal;
use unisono_interchange::transcript::Format;

use crate::app::App;
use crate::attach;
use crate::conversation::{self, FileImport, SkippedParts, Source, exists, imported_before};
use crate::live::{End, Interrupts, Limits, Screen, Watch, conclude, follow};
use crate::options::{Workers, time};
use crate::problem::{Exit, Problem, Result};
use crate::service::{all_branches, all_checkpoints, find_session, own_settings, unknown_branch};
use crate::show;
use crate::team::team;
use crate::turn_service::IdleStore;

const TASK: &str = "Where does this stand? Sum up what was decided and why, what was found out, \
                    which risks and questions are open, and what is to be done next and by whom.";

const HELP: &str = "\
FILE is one conversation in any format that `unisono import` reads. It becomes a new session. A
file with the same content as an imported one continues that session, so that nothing is counted
or summarised twice.

Agents are separated by commas and may have a task of their own. A comma followed by a space
belongs to the task; --agents may be repeated.

Examples:
  unisono run talk.jsonl
  unisono run talk.jsonl --task \"May we ship on Friday?\" --agents risks,facts
  unisono run talk.jsonl --agents risks=\"only the money, nothing else\",actions
  unisono run --session latest --task \"And what does it cost?\"
  unisono run --session latest --task \"What is wrong here?\" --attach screen.png
  curl -s https://example.org/talk.json | unisono run - --json

JSON: session, turn, state (answered, failed, cancelled, timeout, open; of `resume` also compacted,
reverted), error {code, reason}, answer, answer_message, snapshot, snapshot_agents, tokens_before,
tokens_after, usable_tokens, compression_ratio (before by after), tightened (fewer messages were kept
than requested), effect (of a compaction: masked, cut, dropped, summarised, nothing), checkpoints [{number, messages,
tokens_before, tokens_after, compression_ratio, model, degraded, regenerates, duration_ms, coverage
{facts, kept, quoted}}], runs [{run, agent, role, stage, state, text, input_tokens, output_tokens,
cache_expected_tokens, cache_read_tokens, cache_write_tokens, cache_missed, cost_usd, duration_ms,
cause, reason}], changed_agents (of `resume`: their definitions have changed since the turn began),
cost_usd, usage {as for `usage`, of all runs and summaries together}, summaries {usage, unused}
(null: no model was asked for a summary; unused: of summaries that were tried and not used), budgets
[{level, resource, cap, spent, reserved, remaining}] of the turn and its session, in dollars, tokens
or seconds.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
#[command(group(ArgGroup::new("conversation").required(true).args(["file", "session"])))]
pub(crate) struct Args {
    /// The conversation, or `-` for standard input
    file: Option<String>,
    /// Continues a session instead
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// The task, or `-` for standard input
    #[arg(long, short, value_name = "TEXT")]
    task: Option<String>,
    /// An image (PNG, JPEG, GIF, WebP) or a PDF that belongs to the task; may be repeated
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    #[command(flatten)]
    workers: Workers,
    /// The branch to continue
    #[arg(long, default_value = MAIN_BRANCH)]
    branch: String,
    /// Ends the command after this, and cancels its turn, also while a call waits for approval:
    /// 30s, 2m, 1h
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// Input format (default: detected)
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(Format::ALL.map(Format::name)))]
    format: Option<String>,
    /// Skips invalid messages and parts, and exits with code 4
    #[arg(long)]
    skip_bad: bool,
}

impl Args {
    async fn read_task(&self, deadline: Option<Instant>) -> Result<Option<String>> {
        let Some(task) = self.task.clone() else {
            return Ok(None);
        };
        if task == "-" && self.file.as_deref() == Some("-") {
            let problem = "the conversation and the task cannot both be standard input";
            return Err(Problem::usage(problem).hint("name the file of the conversation"));
        }
        let text = read_until(deadline, move || task_text(task)).await?;
        Ok(Some(text))
    }

    fn new_turn(&self) -> Result<NewTurn> {
        Ok(self.workers.apply_to(NewTurn {
            branch: self.branch.clone(),
            attachments: attach::files_of_task(&self.attach)?,
            ..NewTurn::new(self.task.as_deref().unwrap_or(TASK))
        }))
    }
}

/// The source of the conversation.
pub(super) enum From<'f> {
    Session(String),
    File(Box<FileImport<'f>>),
}

pub(crate) async fn run(app: &App, mut args: Args) -> Result<()> {
    let deadline = deadline(args.timeout);
    args.task = args.read_task(deadline).await?;
    let mut flags = args.workers.overrides();
    flags.extend(args.timeout.map(limit));
    let setup = app.setup(flags)?;
    let new = args.new_turn()?;
    let task = args.task.as_ref();
    if task.is_some_and(|task| task.trim().is_empty()) {
        return Err(Problem::usage("--task is empty").hint("describe the task"));
    }
    let source = match args.file.clone() {
        Some(file) => {
            let store = setup.loaded.config.store.path.clone();
            let open = move || conversation::open_all(&[file], &store);
            Some(read_until(deadline, open).await?)
        }
        None => None,
    };
    let taken = source
        .map(|source| read_file(app, &args, source))
        .transpose()?;
    let skipped = taken
        .as_ref()
        .map_or_else(SkippedParts::default, |(_, skipped)| skipped.clone());
    let taken = taken.map(|(taken, _)| taken);
    if let Some(taken) = taken.as_ref().filter(|_| !app.has_daemon(&setup)) {
        // Checked before the session is created. A daemon uses its own agents and models.
        team(&app.setup_with(&setup, &taken.import.settings)?, &new)?;
    }
    let mut interrupts = Interrupts::listen()?;
    let idle_store = match taken {
        Some(_) => app.new_idle_store(&setup).await?,
        None => app.idle_store(&setup).await?,
    };
    let screen = Screen::new(&app.out);
    if let Some(url) = idle_store.daemon() {
        screen.headline("daemon", url);
    }
    let from = match taken {
        Some(taken) => from_file(idle_store.service(), taken).await?,
        None => {
            let name = args.session.as_deref().unwrap_or("latest");
            From::Session(find_session(idle_store.service(), name).await?.session)
        }
    };
    let limits = Limits::leaving(&mut interrupts).until(deadline);
    let (watch, end) = run_turn(app, (setup, idle_store), from, &new, (screen, limits)).await?;
    conclude(&app.out, &watch, end)?;
    skipped.ending()
}

/// Begins a turn and shows its progress. Without another limit, the session's time limit applies.
pub(super) async fn run_turn(
    app: &App,
    (setup, idle_store): (Setup, IdleStore),
    from: From<'_>,
    new: &NewTurn,
    (mut screen, limits): (Screen<'_>, Limits<'_>),
) -> Result<(Watch, End)> {
    let own = match &from {
        From::Session(session) => own_settings(idle_store.service(), session).await?,
        From::File(taken) => taken.import.settings.clone(),
    };
    let turns = idle_store.work(app, Some((&own, new))).await?;
    let config = app.setup_beside(&setup, &own).loaded.config;
    let session = open(turns.service(), from, &screen, &new.branch).await?;
    let followed = turns.ask(&session, new).await?;
    followed.report_notices(&app.out, &mut BTreeSet::new());
    let mut followed = followed.notifying(&config.compaction);
    let limits = limits.with_timeout(config.turn.timeout());
    let end = follow(turns.service(), &mut followed, &mut screen, limits).await?;
    drop(screen);
    let watch = followed.leave();
    turns.stop(end).await;
    Ok((watch, end))
}

/// The end of the time of a command that begins now.
pub(super) fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.map(|timeout| Instant::now() + timeout)
}

/// The text of a task; of `-`, standard input.
pub(super) fn task_text(task: String) -> Result<String> {
    if task != "-" {
        return Ok(task);
    }
    let bytes = conversation::bytes_of("-", "a task")?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| Problem::usage("standard input is not UTF-8 text"))?;
    Ok(text.trim().to_owned())
}

/// Reads an input, which may never end, until the command ends.
pub(super) async fn read_until<T: Send + 'static>(
    deadline: Option<Instant>,
    read: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let reading = tokio::task::spawn_blocking(read);
    let late = |_| Problem::with_exit(Exit::TimedOut, "timeout: the input has not ended");
    let read = match deadline {
        Some(deadline) => timeout_at(deadline, reading).await.map_err(late)?,
        None => reading.await,
    };
    read.map_err(Problem::failed)?
}

/// The time limit of a turn, also in a daemon, rounded up to whole seconds.
pub(super) fn limit(timeout: Duration) -> Override {
    let seconds = timeout.as_millis().div_ceil(1_000);
    Override::new("--timeout", "turn.timeout_seconds", seconds.to_string())
}

/// The conversation of a file, and its skipped parts.
fn read_file<'a>(
    app: &App,
    args: &'a Args,
    mut source: Source,
) -> Result<(FileImport<'a>, SkippedParts)> {
    let format = args.format.as_deref();
    let known = format.and_then(Format::from_name);
    let (import, skipped) = source.conversation(known, args.skip_bad, &app.out)?;
    let taken = FileImport {
        import,
        source,
        format,
        skip_bad: args.skip_bad,
        copy: false,
    };
    Ok((taken, skipped))
}

/// The same bytes again continue the session they became.
async fn from_file<'t>(service: &dyn Service, taken: FileImport<'t>) -> Result<From<'t>> {
    if let Some(known) = imported_before(service, &taken.import).await? {
        return Ok(From::Session(known.session));
    }
    if let Some(id) = taken.import.session
        && exists(service, id).await?
    {
        let short = show::short_id(&id.to_string());
        let problem = format!(
            "{} is an export of session {short}, which is here",
            taken.source.name
        );
        return Err(Problem::usage(problem).hint(format!(
            "`unisono run --session {short}` continues it; `unisono import --copy` makes another"
        )));
    }
    Ok(From::File(Box::new(taken)))
}

async fn open(
    service: &dyn Service,
    from: From<'_>,
    screen: &Screen<'_>,
    branch: &str,
) -> Result<String> {
    match from {
        From::File(taken) => {
            let messages = show::many(taken.import.messages.len() as u64, "message");
            let name = taken.source.name.clone();
            let session = service.import_file(taken.file()?).await?.session.session;
            let short = show::short_id(&session);
            screen.headline(
                "imported",
                &format!("{messages} from {name}: session {short}"),
            );
            Ok(session)
        }
        From::Session(session) => {
            let branches = all_branches(service, &session).await?;
            let found = branches.iter().find(|one| one.name == branch);
            if found.is_none() && !branches.is_empty() {
                return Err(unknown_branch(&branches, branch));
            }
            let messages = found.map_or(0, |branch| branch.messages);
            let all = all_checkpoints(service, &session, branch).await?;
            let active = all.iter().filter(|one| one.active);
            let summary = active.max_by_key(|one| one.last);
            let summary = summary.map(|c| {
                let (number, first, last) = (c.number, Ordinal(c.first), Ordinal(c.last));
                format!(", checkpoint {number} stands for {first}–{last}")
            });
            let messages = show::many(messages.into(), "message");
            let short = show::short_id(&session);
            let text = format!("session {short}: {messages}{}", summary.unwrap_or_default());
            screen.headline("continues", &text);
            Ok(session)
        }
    }
}
