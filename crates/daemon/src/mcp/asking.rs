//! Tools that give a session something to do, and tell how it goes on.

use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use unisono_api::turn::Turn;
use unisono_context::TurnId;
use unisono_runtime::{Handle, Progress};
use unisono_session::Fact;
use unisono_session::machine::Import;

use super::tools::{Asked, Compacted, Delegated};
use super::{CHANNEL, Done, Outcome, Server, stopped};
use crate::Daemon;
use crate::ask::Ask;
use crate::http::{compactions, record};

/// Characters of a task that name a new session.
const TITLE_CHARS: usize = 60;

pub(super) async fn ask(
    server: &Server,
    daemon: &Daemon,
    asked: Asked,
    context: &RequestContext<RoleServer>,
) -> Done {
    let task = filled("task", &asked.task)?;
    let ask = Ask::new(task).branch(asked.branch.as_str());
    let ask = match &asked.lead {
        Some(lead) => ask.lead(lead.as_str()),
        None => ask,
    };
    let ask = match &asked.agents {
        Some(agents) => ask.agents(agents.iter().map(String::as_str)),
        None => ask,
    };
    let session = session(daemon, asked.session.as_deref(), task, &ask).await?;
    let turn = follow(server, daemon, &session, &ask, context).await?;
    let text = match &turn.answer {
        Some(answer) => answer.clone(),
        None => without_answer(&turn),
    };
    outcome(text, &turn)
}

pub(super) async fn delegate(
    server: &Server,
    daemon: &Daemon,
    delegated: Delegated,
    context: &RequestContext<RoleServer>,
) -> Done {
    if delegated.tasks.is_empty() {
        return Err("`tasks` is empty: name at least one agent".to_owned());
    }
    let mut lines = Vec::new();
    let mut agents = Vec::new();
    for assigned in &delegated.tasks {
        let agent = filled("agent", &assigned.agent)?;
        match &assigned.task {
            Some(task) => {
                let task = filled("task", task)?;
                lines.push(task.to_owned());
                agents.push((agent, Some(task)));
            }
            None => agents.push((agent, None)),
        }
    }
    let task = match &delegated.task {
        Some(task) => filled("task", task)?.to_owned(),
        None if lines.is_empty() => {
            return Err(
                "nobody is told what to do: give each agent a task, or all of them one".to_owned(),
            );
        }
        None => lines.join("\n"),
    };
    let ask = Ask::delegation(&task, agents).branch(delegated.branch.as_str());
    let session = session(daemon, delegated.session.as_deref(), &task, &ask).await?;
    let turn = follow(server, daemon, &session, &ask, context).await?;
    let mut text = String::new();
    for run in turn.runs.iter().filter(|run| run.role != "lead") {
        let found = match (&run.text, &run.error) {
            (Some(found), _) => found.clone(),
            (None, Some(error)) => format!("({}: {})", error.code, error.reason),
            (None, None) => format!("({})", run.state),
        };
        text += &format!("## {}\n\n{}\n\n", run.agent, found.trim());
    }
    let joined = turn.answer.clone().unwrap_or_else(|| without_answer(&turn));
    text += &format!("## Joined\n\n{}", joined.trim());
    outcome(text, &turn)
}

pub(super) async fn compact(
    server: &Server,
    daemon: &Daemon,
    compacted: Compacted,
    context: &RequestContext<RoleServer>,
) -> Done {
    let writing = compactions::writing(
        compacted.instructions,
        compacted.summariser,
        compacted.on_failure,
    );
    let ask = Ask::compaction(None, writing).branch(compacted.branch.as_str());
    let session = opened(daemon, &compacted.session).await?;
    let turn = follow(server, daemon, &session, &ask, context).await?;
    let text = match (turn.state.as_str(), turn.checkpoints.last()) {
        ("compacted", Some(checkpoint)) => format!("compacted: checkpoint {checkpoint}"),
        ("compacted", None) => "nothing to summarise: all that is left has to stay".to_owned(),
        _ => without_answer(&turn),
    };
    outcome(text, &turn)
}

fn filled<'t>(name: &str, text: &'t str) -> Result<&'t str, String> {
    match text.trim() {
        "" => Err(format!("`{name}` is empty")),
        text => Ok(text),
    }
}

fn without_answer(turn: &Turn) -> String {
    match &turn.error {
        Some(error) => format!("the turn failed ({}): {}", error.code, error.reason),
        None => format!("the turn was {}", turn.state),
    }
}

fn outcome(text: String, turn: &Turn) -> Done {
    let ended_well = matches!(turn.state.as_str(), "answered" | "compacted");
    let structured = serde_json::to_value(turn).map_err(|error| error.to_string())?;
    Ok(Outcome {
        text,
        structured: json!({ "turn": structured }),
        is_error: !ended_well,
    })
}

/// The session that is meant, or a new one. Agents that do not fit leave none behind.
async fn session(
    daemon: &Daemon,
    id: Option<&str>,
    task: &str,
    ask: &Ask,
) -> Result<Handle, String> {
    let known = match id {
        Some(id) => Some(opened(daemon, id).await?),
        None => None,
    };
    let setup = match &known {
        Some(session) => daemon.setup_of(session).await,
        None => Ok(daemon.setup()),
    };
    let setup = setup.map_err(|error| error.to_string())?;
    ask.team(&setup).map_err(|error| error.to_string())?;
    match known {
        Some(session) => Ok(session),
        None => {
            let words = task.split_whitespace().collect::<Vec<_>>().join(" ");
            let title: String = words.chars().take(TITLE_CHARS).collect();
            let import = Import {
                title: title.into(),
                labels: [(CHANNEL.0.into(), CHANNEL.1.into())].into(),
                ..Import::default()
            };
            daemon
                .import(import)
                .await
                .map_err(|error| error.to_string())
        }
    }
}

pub(super) async fn opened(daemon: &Daemon, id: &str) -> Result<Handle, String> {
    let id = id
        .parse()
        .map_err(|_| format!("{id:?} is no id of a session"))?;
    daemon.open(id).await.map_err(|error| error.to_string())
}

/// Gives the session a turn and waits for its end, telling the client how it goes on. A client
/// that takes its request back cancels the turn.
async fn follow(
    server: &Server,
    daemon: &Daemon,
    session: &Handle,
    ask: &Ask,
    context: &RequestContext<RoleServer>,
) -> Result<Turn, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut after = session
        .inspect(|state| state.events())
        .await
        .map_err(|e| text(&e))?;
    let followed = session.follow(after).await;
    let (mut events, mut progress) = followed.map_err(|e| text(&e))?;
    let turn = daemon.begin(session, ask).await.map_err(|e| text(&e))?;
    let mut stopping = server.stopping.clone();
    let mut teller = Teller::new(context);
    let mut cancelled = false;
    loop {
        tokio::select! {
            event = events.next() => match event.map_err(|e| text(&e))? {
                Some((seq, event)) => {
                    after = seq;
                    if ends(&event.fact, turn) {
                        break;
                    }
                    if is_news(&event.fact) {
                        teller.tell(&event.fact.to_string()).await;
                    }
                }
                None => (events, progress) = session.follow(after).await.map_err(|e| text(&e))?,
            },
            said = progress.recv() => if let Ok(Progress::Run { text, .. } | Progress::Compaction { text, .. }) = said {
                teller.tell(&text).await;
            },
            () = context.ct.cancelled(), if !cancelled => {
                cancelled = true;
                cancel(session, turn).await;
            }
            () = stopped(&mut stopping) => {
                return Err(format!("the program is stopping; turn {turn} of session {} goes on when it is back", session.id()));
            }
        }
    }
    let found = record::turn(daemon.runtime().journal(), session, turn).await;
    found
        .map_err(|e| text(&e))?
        .ok_or_else(|| format!("there is no turn {turn}"))
}

async fn cancel(session: &Handle, turn: TurnId) {
    // One that ended meanwhile needs no cancelling.
    if let Err(error) = session.cancel(turn).await {
        tracing::debug!(session = %session.id(), %turn, %error, "the turn is not cancelled");
    }
}

fn ends(fact: &Fact, turn: TurnId) -> bool {
    matches!(fact, Fact::TurnEnded { turn: ended, .. } if *ended == turn)
}

/// What a client is told of.
fn is_news(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::Compacted { .. }
            | Fact::CompactionFailed { .. }
            | Fact::Frozen { .. }
            | Fact::RunOpened { .. }
            | Fact::RunRetried { .. }
            | Fact::RunEnded { .. }
    )
}

/// Tells a client that wants to know how its request goes on.
struct Teller<'c> {
    context: &'c RequestContext<RoleServer>,
    told: f64,
}

impl<'c> Teller<'c> {
    fn new(context: &'c RequestContext<RoleServer>) -> Teller<'c> {
        Teller { context, told: 0.0 }
    }

    async fn tell(&mut self, text: &str) {
        let Some(token) = self.context.meta.get_progress_token() else {
            return;
        };
        self.told += 1.0;
        let notice = ProgressNotificationParam::new(token, self.told).with_message(text);
        // A client that does not listen any more still gets its answer.
        if let Err(error) = self.context.peer.notify_progress(notice).await {
            tracing::debug!(%error, "a client was not told");
        }
    }
}

/// A message of the outcome as JSON.
pub(super) fn value(value: &impl serde::Serialize) -> Result<Value, String> {
    serde_json::to_value(value).map_err(|error| error.to_string())
}
