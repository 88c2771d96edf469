//! `unisono sessions show`.

use serde_json::{Value, json};
use unisono::context::topics;
use unisono_runtime::clock;
use unisono_session::State;
use unisono_session::budget::Left;

use crate::app::App;
use crate::live::open;
use crate::problem::Result;
use crate::show;

const HELP: &str = "\
JSON: session, title, system, labels, settings, events, messages, branches [{name, head, messages, topics}],
checkpoints, open_turns, open_runs [{turn, branch, agent, role, state, run, parent_run}],
turns, the newest first, [{turn, state, error {code, reason}, answer_message}],
budgets [{level, resource, cap, spent, reserved, left}] in dollars, tokens or seconds,
lost {first, last, found, quarantine} (events that a repair of the store has lost) or null.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    #[arg(default_value = "latest")]
    session: String,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let store = app.store_to_read(&setup).await?;
    let sessions = store.sessions();
    let id = sessions.find(&args.session).await?;
    let state = sessions.state(id).await?;
    let lost = store.lost(id).await?;
    if app.out.json {
        let mut shown = json(&state, &id.to_string());
        shown["lost"] = json!(lost);
        app.out.json(&shown);
    } else {
        let shown = text(app, &state, &id.to_string());
        app.out.data(show::fitted(&shown, 13));
    }
    if let Some(lost) = &lost {
        app.tell_lost(&show::short_id(&id.to_string()), lost);
    }
    sessions.close().await
}

/// Name, id of the last message, number of messages.
fn branches(state: &State) -> Vec<(&str, String, u32)> {
    let length = |head| {
        state
            .tree()
            .get(head)
            .map_or(0, |node| node.message.ordinal.0)
    };
    let branches = state.tree().branches();
    branches
        .map(|(name, head)| (name, head.to_string(), length(head)))
        .collect()
}

/// How the bounds of the session stand, and those of its oldest open turn.
fn budgets(state: &State) -> Vec<Left> {
    let turn = state.open_turns().next().map(|turn| turn.accepted.id);
    state.budgets(turn, clock::now())
}

fn text(app: &App, state: &State, id: &str) -> String {
    let paint = app.out.paint;
    let field =
        |name: &str, value: String| format!("{} {value}\n", paint.bold(format_args!("{name:<12}")));
    let mut out = field("session", id.to_owned());
    out += &field("title", show::line(state.title(), 100));
    out += &field("messages", show::number(state.tree().len() as u64));
    out += &field("events", show::number(state.events()));
    let branches = branches(state);
    let branches = branches.iter().map(|(name, _, n)| {
        let topics = match topics::of_branch(state, name).len() {
            0 => String::new(),
            many => format!(", {}", show::many(many as u64, "topic")),
        };
        format!("{name} ({n} messages{topics})")
    });
    out += &field("branches", branches.collect::<Vec<_>>().join(", "));
    out += &field("checkpoints", state.checkpoints().iter().len().to_string());
    let labels = state
        .labels()
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    out += &field("labels", labels.collect::<Vec<_>>().join("  "));
    let settings = state.settings().iter();
    let settings: Vec<String> = settings
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if !settings.is_empty() {
        out += &field("settings", settings.join("  "));
    }
    for budget in budgets(state) {
        out += &field("budget", budget.to_string());
    }
    let open = state.open_turns().count();
    let ended = state.ended_turns().count();
    out += &field("turns", format!("{ended} ended, {open} open"));
    for (turn, ended) in state.ended_turns().rev() {
        let answer = ended.answer.and_then(|id| state.tree().get(id));
        let answer = answer.map(|node| format!(", answer {}", node.message.ordinal));
        let outcome = show::line(&ended.outcome.to_string(), 100);
        out += &format!("  {turn}  {outcome}{}\n", answer.unwrap_or_default());
    }
    out + &open::lines(state, paint)
}

fn json(state: &State, id: &str) -> Value {
    let branches = branches(state).into_iter();
    let branches = branches.map(|(name, head, messages)| {
        let topics = topics::of_branch(state, name).len();
        json!({"name": name, "head": head, "messages": messages, "topics": topics})
    });
    let turns = state.ended_turns().rev().map(|(turn, ended)| {
        let answer = ended.answer.and_then(|id| state.tree().get(id));
        json!({
            "turn": turn.to_string(),
            "state": ended.outcome.name(),
            "error": show::fault(&ended.outcome),
            "answer_message": answer.map(|node| node.message.ordinal.0),
        })
    });
    let open = state.open_turns().map(|turn| turn.accepted.id.to_string());
    json!({
        "session": id,
        "title": state.title(),
        "system": state.system(),
        "labels": state.labels(),
        "settings": &**state.settings(),
        "events": state.events(),
        "messages": state.tree().len(),
        "branches": branches.collect::<Vec<_>>(),
        "checkpoints": state.checkpoints().iter().len(),
        "budgets": budgets(state).iter().map(show::budget).collect::<Vec<_>>(),
        "open_turns": open.collect::<Vec<_>>(),
        "open_runs": open::list(state),
        "turns": turns.collect::<Vec<_>>(),
    })
}
