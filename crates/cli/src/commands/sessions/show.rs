//! `unisono sessions show`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use unisono::Service;
use unisono_api::session::{Branch, EndedTurn, Session};
use unisono_context::Ordinal;

use crate::app::App;
use crate::live::open;
use crate::problem::Result;
use crate::service::{all_branches, all_pages, find_session, open_turns};
use crate::show;

const HELP: &str = "\
JSON: session, title, system, labels, settings, events, messages, branches [{name, head, parent (the last
message that it shares with an earlier branch), messages, topics}],
checkpoints, open_turns, open_runs [{turn, branch, agent, role, state, run, parent_run}],
turns, the newest first, [{turn, state, error {code, reason}, answer_message, tokens_before and
tokens_after where the context was compacted or reverted}],
budgets [{level, turn (of an open turn), resource, cap, spent, reserved, remaining}] in dollars, tokens or
seconds,
lost {first, last, found_at, quarantine} (events lost in a repair of the store) or null.";

/// Longest shown label or setting.
const PAIR_CHARS: usize = 200;

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    #[arg(default_value = "latest")]
    session: String,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let service = app.reader().await?;
    let listed = find_session(&*service, &args.session).await?;
    let shown = SessionDetails::load(&*service, &listed.session).await?;
    if app.out.json {
        app.out.json(&shown.json());
    } else {
        let open = open::lines(&*service, &shown.session, app.out.paint).await?;
        let text = shown.text(app) + &open;
        app.out.data(show::wrap(&text, 13));
    }
    service.close().await;
    if let Some(lost) = &shown.session.lost {
        app.report_lost(&show::short_id(&shown.session.session), lost);
    }
    Ok(())
}

/// A session with all of its branches and turns.
struct SessionDetails {
    session: Session,
    branches: Vec<Branch>,
    open: Vec<String>,
    /// The ended turns, newest first.
    ended: Vec<EndedTurn>,
}

impl SessionDetails {
    async fn load(service: &dyn Service, session: &str) -> Result<SessionDetails> {
        let session = service.session(session).await?;
        let branches = all_branches(service, &session.session).await?;
        let open = open_turns(service, &session).await?;
        let ended = match session.ended_turns.has_more {
            false => session.ended_turns.items.clone(),
            true => all_ended(service, &session.session).await?,
        };
        Ok(SessionDetails {
            session,
            branches,
            open,
            ended,
        })
    }

    fn text(&self, app: &App) -> String {
        let paint = app.out.paint;
        let session = &self.session;
        let field = |name: &str, value: String| {
            format!("{} {value}\n", paint.bold(format_args!("{name:<12}")))
        };
        let mut out = field("session", session.session.clone());
        out += &field("title", show::line(&session.title, 100));
        out += &field("messages", show::number(session.messages));
        out += &field("events", show::number(session.events));
        let branches = self.branches.iter().map(|branch| {
            let topics = match branch.topics {
                0 => String::new(),
                many => format!(", {}", show::many(many.into(), "topic")),
            };
            let messages = show::many(branch.messages.into(), "message");
            format!("{} ({messages}{topics})", branch.name)
        });
        out += &field("branches", branches.collect::<Vec<_>>().join(", "));
        out += &field("checkpoints", session.checkpoints.to_string());
        out += &field("labels", pairs(&session.labels).join("  "));
        let settings = pairs(&session.settings);
        if !settings.is_empty() {
            out += &field("settings", settings.join("  "));
        }
        for budget in &session.budgets {
            out += &field("budget", show::budget_line(budget));
        }
        let (ended, open) = (self.ended.len(), self.open.len());
        out += &field("turns", format!("{ended} ended, {open} open"));
        for ended in &self.ended {
            let answer = ended.answer_message.map(Ordinal);
            let answer = answer.map(|ordinal| format!(", answer {ordinal}"));
            let outcome = show::line(&outcome(ended), 100);
            out += &format!(
                "  {}  {outcome}{}\n",
                ended.turn,
                answer.unwrap_or_default()
            );
        }
        out
    }

    fn json(&self) -> Value {
        let session = &self.session;
        json!({
            "session": session.session,
            "title": session.title,
            "system": session.system,
            "labels": session.labels,
            "settings": session.settings,
            "events": session.events,
            "messages": session.messages,
            "branches": self.branches,
            "checkpoints": session.checkpoints,
            "budgets": session.budgets,
            "open_turns": self.open,
            "open_runs": open::list(session),
            "turns": self.ended,
            "lost": session.lost,
        })
    }
}

/// Labels or settings, each on one line.
fn pairs(all: &BTreeMap<String, String>) -> Vec<String> {
    let each = all.iter();
    each.map(|(key, value)| show::line(&format!("{key}={value}"), PAIR_CHARS))
        .collect()
}

/// The outcomes of all ended turns, newest first.
async fn all_ended(service: &dyn Service, session: &str) -> Result<Vec<EndedTurn>> {
    all_pages(async |page| service.ended_turns(session, &page).await).await
}

fn outcome(of: &EndedTurn) -> String {
    match (&of.error, of.tokens_before, of.tokens_after) {
        (Some(error), ..) => format!("{} ({}): {}", of.state, error.code, error.reason),
        (None, Some(before), Some(after)) => {
            let (before, after) = (show::number(before), show::number(after));
            format!("{} from {before} to {after} tokens", of.state)
        }
        _ => of.state.clone(),
    }
}
