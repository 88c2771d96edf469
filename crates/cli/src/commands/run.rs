//! `unisono run`: the main job in one command.

mod there;

use std::time::Duration;

use clap::ArgGroup;
use unisono_context::{SessionId, TurnId};
use unisono_daemon::Daemon;
use unisono_daemon::ask::Ask;
use unisono_daemon::config::{AUTO, Override};
use unisono_daemon::http::Running;
use unisono_daemon::models;
use unisono_daemon::setup::Setup;
use unisono_daemon::transcript::Format;
use unisono_model::catalogue::EXTRACTIVE;
use unisono_runtime::Handle;
use unisono_session::agent::Team;
use unisono_session::machine::Import;
use unisono_session::state::MAIN;

use crate::app::{App, Where};
use crate::args::{Compaction, time};
use crate::conversation::{self, DIGEST, Source};
use crate::live::{End, Interrupts, Limits, Screen, Watch, conclude, follow};
use crate::output::Out;
use crate::problem::{Problem, Result};
use crate::sessions::{self, Sessions};
use crate::show;

/// What is asked where nobody says what.
const TASK: &str = "Where does this stand? Sum up what was decided and why, what was found out, \
                    which risks and questions are open, and what is to be done next and by whom.";

const HELP: &str = "\
FILE is unisono JSONL, OpenAI chat messages (JSON array or JSONL) or ShareGPT. It becomes a new
session; a file with the very same content as one imported before continues that session, so that
nothing is counted or summarised twice.

Agents are separated by commas and may have a task of their own. A comma that is followed by a
space belongs to the task; --agents may be repeated.

Examples:
  unisono run talk.jsonl
  unisono run talk.jsonl --task \"May we ship on Friday?\" --agents decisions,risks,facts
  unisono run talk.jsonl --agents risks=\"only the money, nothing else\",actions
  unisono run --session latest --task \"And what does it cost?\"
  curl -s https://example.org/talk.json | unisono run - --json

JSON: session, turn, outcome (answered, failed, cancelled, timeout, open), error {code, reason},
answer, answer_message, snapshot, snapshot_agents, tokens_before, tokens_after, usable_tokens,
checkpoints [{number, messages, tokens_before, tokens_after, model, duration_ms}],
runs [{agent, role, state, text, input_tokens, output_tokens, cache_expected_tokens,
cache_read_tokens, cache_write_tokens, cost_usd, duration_ms, cause, reason}], cost_usd.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
#[command(group(ArgGroup::new("conversation").required(true).args(["file", "session"])))]
pub(crate) struct Args {
    /// The conversation, or `-` for standard input
    file: Option<String>,
    /// Continues a session instead
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// What is to be done
    #[arg(long, short, value_name = "TEXT")]
    task: Option<String>,
    /// The agents that work on it, in place of the configured ones; empty: the lead alone
    #[arg(long, short, value_name = "A,B=TASK")]
    agents: Vec<String>,
    /// The agent that answers
    #[arg(long, value_name = "AGENT")]
    lead: Option<String>,
    /// The model of agents that name none: provider/model, or extractive
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    compaction: Compaction,
    /// The branch to continue
    #[arg(long, default_value = MAIN)]
    branch: String,
    /// Cancels the turn after this: 30s, 2m, 1h
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// The file's format; without it, it is recognised
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(Format::ALL.map(Format::name)))]
    format: Option<String>,
    /// Leaves bad lines of the file out
    #[arg(long)]
    skip_bad: bool,
}

impl Args {
    fn overrides(&self) -> Vec<Override> {
        let model = self.model.iter();
        let model = model.map(|name| Override::new("--model", "models.default", name));
        self.compaction
            .overrides()
            .into_iter()
            .chain(model)
            .collect()
    }

    fn ask(&self) -> Ask {
        let ask = Ask::new(self.task.as_deref().unwrap_or(TASK)).branch(self.branch.as_str());
        let ask = match &self.lead {
            Some(lead) => ask.lead(lead.as_str()),
            None => ask,
        };
        if self.agents.is_empty() {
            return ask;
        }
        ask.agents(self.agents.iter().flat_map(|text| assignments(text)))
    }
}

/// Splits `a,b=task` where a comma is followed by something else than a space.
pub(super) fn assignments(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for piece in text.split(',') {
        match all.last_mut() {
            Some(last) if piece.is_empty() || piece.starts_with(char::is_whitespace) => {
                last.push(',');
                last.push_str(piece);
            }
            _ => all.push(piece.to_owned()),
        }
    }
    all.retain(|spec| !spec.trim().is_empty());
    all.iter_mut()
        .for_each(|spec| *spec = spec.trim_end_matches(',').trim().to_owned());
    all
}

/// What the conversation comes from.
enum From {
    Session(SessionId),
    File { name: String, import: Box<Import> },
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(args.overrides())?;
    let ask = args.ask();
    let team = ask.team(&setup)?;
    if args
        .task
        .as_ref()
        .is_some_and(|task| task.trim().is_empty())
    {
        return Err(Problem::usage("--task is empty").hint("say what is to be done"));
    }
    // A daemon's models are its own; else nothing is made where one cannot be asked.
    let store = &setup.loaded.config.store.path;
    if Running::of(store).is_none() {
        models::check(&setup, &team)?;
    }
    let source = args.file.as_deref().map(conversation::open).transpose()?;
    let conversation = match &source {
        Some(source) => Some(source.conversation(format(&args), args.skip_bad, &app.out)?),
        None => None,
    };
    let timeout = args.timeout.unwrap_or(setup.loaded.config.run.timeout());
    let mut interrupts = Interrupts::listen()?;
    let opened = match app.store_or_daemon(&setup).await? {
        Where::Here(opened) => opened,
        Where::There(client) => {
            let conversation = (source, conversation);
            return there::run(app, client, &args, conversation, &setup, &mut interrupts).await;
        }
    };
    models::check(&setup, &team)?;
    let sessions = Sessions::new(opened.journal.clone());
    let from = match (source, conversation) {
        (Some(source), Some(import)) => from_file(&sessions, source, import).await?,
        _ => From::Session(
            sessions
                .find(args.session.as_deref().unwrap_or("latest"))
                .await?,
        ),
    };
    say_model(&app.out, &setup, &team);
    let compaction = setup.loaded.config.compaction.clone();
    let daemon = app.daemon(opened, setup).await?;
    let mut screen = Screen::new(&app.out);
    let session = open(&daemon, from, &screen, &args.branch).await?;
    let (end, watch) = {
        let watch = begin(&daemon, &session, &ask).await?;
        let mut watch = watch.notifying(&compaction);
        let timeout = Some(timeout);
        let limits = Limits::leaving(timeout, &mut interrupts);
        (
            follow(&daemon, &session, &mut watch, &mut screen, limits).await?,
            watch,
        )
    };
    drop(screen);
    stop(daemon, end).await;
    conclude(&app.out, session.id(), &watch, end)
}

fn format(args: &Args) -> Option<Format> {
    args.format.as_deref().and_then(Format::from_name)
}

/// The same bytes again continue the session they became.
async fn from_file(sessions: &Sessions, source: Source, import: Import) -> Result<From> {
    if let Some(known) = sessions.labelled(DIGEST, &source.digest()).await? {
        return Ok(From::Session(known));
    }
    if let Some(id) = import.session
        && sessions.journal().exists(id).await?
    {
        let short = sessions::short(id);
        let problem = format!(
            "{} is an export of session {short}, which is here",
            source.name
        );
        return Err(Problem::usage(problem).hint(format!(
            "`unisono run --session {short}` continues it; `unisono import --copy` makes another"
        )));
    }
    Ok(From::File {
        name: source.name,
        import: Box::new(import),
    })
}

/// Says once what answers, where nobody chose it, and how to change that.
pub(super) fn say_model(out: &Out, setup: &Setup, team: &Team) {
    let loaded = &setup.loaded;
    let default = loaded.default_model.as_str();
    let answers = |agent: &std::sync::Arc<unisono_session::Definition>| {
        agent.kind == unisono_session::agent::Kind::Llm && &*agent.model == default
    };
    if !team.definitions().any(answers) || loaded.config.models.default != AUTO {
        return;
    }
    let said = if default == EXTRACTIVE {
        "model      extractive: offline, quotes the conversation; for a language model set \
         ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or a provider in config/unisono.toml"
            .to_owned()
    } else {
        let provider = default.split('/').next().unwrap_or_default();
        let key = loaded.providers.key_of(provider).unwrap_or_default();
        format!("model      {default}{key}; --model extractive stays offline")
    };
    out.say(out.paint_messages.dim(&said));
}

async fn open(daemon: &Daemon, from: From, screen: &Screen<'_>, branch: &str) -> Result<Handle> {
    match from {
        From::File { name, import } => {
            let messages = show::many(import.messages.len() as u64, "message");
            let session = daemon.import(*import).await?;
            let id = sessions::short(session.id());
            screen.headline("imported", &format!("{messages} from {name}: session {id}"));
            Ok(session)
        }
        From::Session(id) => {
            let session = daemon.open(id).await?;
            let branch = branch.to_owned();
            let (messages, summary) = session
                .inspect(move |state| {
                    let head = state.tree().head(&branch);
                    let view = head.and_then(|head| state.view(head, false));
                    let active = view.as_ref().and_then(|view| view.active().last().cloned());
                    (view.map_or(0, |view| view.len().0), active)
                })
                .await?;
            let messages = show::many(messages.into(), "message");
            let short = sessions::short(id);
            let summary = summary.map(|c| {
                format!(
                    ", checkpoint {} stands for {}–{}",
                    c.number,
                    c.first(),
                    c.cutoff
                )
            });
            let text = format!("session {short}: {messages}{}", summary.unwrap_or_default());
            screen.headline("continues", &text);
            Ok(session)
        }
    }
}

/// Hands the turn in and watches it from before its first event on.
pub(super) async fn begin(daemon: &Daemon, session: &Handle, ask: &Ask) -> Result<Watch> {
    let state = session.inspect(Clone::clone).await?;
    let turn: TurnId = daemon.begin(session, ask).await?;
    Ok(Watch::new(state, turn))
}

/// Stops what runs. After an interruption nobody wants to wait for it.
pub(super) async fn stop(daemon: Daemon, end: End) {
    let patience = match end {
        End::Interrupted => Duration::from_secs(2),
        End::Ended | End::TimedOut => Duration::from_secs(10),
    };
    if tokio::time::timeout(patience, daemon.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("not everything stopped in time; what is on disk is whole");
    }
}

#[cfg(test)]
mod tests {
    use super::assignments;

    #[test]
    fn agents_are_split_at_commas_but_tasks_keep_theirs() {
        assert_eq!(assignments("a,b,c"), ["a", "b", "c"]);
        assert_eq!(
            assignments("a=only money, not time,b"),
            ["a=only money, not time", "b"]
        );
        assert_eq!(assignments("a=x"), ["a=x"]);
        assert_eq!(assignments("a,b,"), ["a", "b"]);
        assert!(assignments("").is_empty());
    }
}
