//! `unisono resume`: continues open turns from their last recorded step.

use unisono::Service;
use unisono_api::turn_event::ChangedAgent;
use unisono_config::setup::Setup;

use crate::app::App;
use crate::live::{End, Interrupts, Limits, Screen, Terminal, conclude, follow};
use crate::problem::{Problem, Result};
use crate::service::{find_session, open_turns, own_settings, unfinished};
use crate::show;
use crate::turn_service::TurnService;

const HELP: &str = "\
A turn stays open if the program is interrupted or killed. Finished runs are not repeated; the
others continue on the same snapshot. A daemon continues its turns automatically; they are
followed. The exit code is that of the last failed turn. JSON: as for `run`, one object for each turn.

Examples:
  unisono resume           every session with an open turn
  unisono resume latest";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session (default: all sessions)
    session: Option<String>,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let mut interrupts = Interrupts::listen()?;
    let idle_store = app.idle_store(&setup).await?;
    let open = left_open(idle_store.service(), args.session.as_deref()).await?;
    if open.is_empty() {
        app.out.message("nothing to resume: every turn has ended");
        idle_store.close().await;
        return Ok(());
    }
    let turns = idle_store.work(app, None).await?;
    let mut done = Ok(());
    let mut last = End::Ended;
    let mut person = Terminal::default();
    for left in open {
        let who = (&mut person, &mut interrupts);
        let (end, concluded) = one(app, &setup, &turns, &left, who).await?;
        if let Err(problem) = concluded {
            done = worst(app, done, problem);
        }
        last = end;
        if end == End::Interrupted {
            break;
        }
    }
    turns.stop(last).await;
    done
}

/// Keeps the newest problem; earlier ones are reported.
fn worst(app: &App, before: Result<()>, now: Problem) -> Result<()> {
    if let Err(problem) = before
        && !problem.message.is_empty()
    {
        app.out.warn(problem.message);
    }
    Err(now)
}

struct InterruptedTurn {
    session: String,
    turn: String,
    /// The number of its finished agents when it was interrupted.
    done: usize,
}

/// The open turns, session by session.
async fn left_open(service: &dyn Service, name: Option<&str>) -> Result<Vec<InterruptedTurn>> {
    let mut sessions = match name {
        Some(name) => vec![find_session(service, name).await?],
        None => unfinished(service).await?,
    };
    // Ids of sessions follow the clock.
    sessions.sort_by(|a, b| a.session.cmp(&b.session));
    let mut left = Vec::new();
    for listed in sessions {
        let session = service.session(&listed.session).await?;
        for turn in open_turns(service, &session).await? {
            let runs = session.open_runs.iter();
            let done = runs.filter(|run| run.turn == turn && run.agent.state == "done");
            left.push(InterruptedTurn {
                done: done.count(),
                session: session.session.clone(),
                turn,
            });
        }
    }
    Ok(left)
}

async fn one(
    app: &App,
    setup: &Setup,
    turns: &TurnService,
    InterruptedTurn {
        session,
        turn,
        done,
    }: &InterruptedTurn,
    (person, interrupts): (&mut Terminal, &mut Interrupts),
) -> Result<(End, Result<()>)> {
    let mut followed = turns.join(session, turn).await?;
    let own = own_settings(turns.service(), session).await?;
    let setup = app.setup_beside(setup, &own);
    followed = followed.notifying(&setup.loaded.config.compaction);
    let watch = &followed.watch;
    let mut screen = Screen::with_person(&app.out, std::mem::take(person));
    let text = format!(
        "session {}, {done} of {} done before",
        show::short_id(session),
        show::many(watch.agents.len() as u64, "agent")
    );
    screen.headline("resumed", &text);
    for ChangedAgent { agent, change } in &watch.changed {
        app.out.warn(format!(
            "agent `{agent}` {change} since the turn began: the turn continues with the agent as it \
             was then; repeat the task to use the new definition"
        ));
    }
    if let Some(context) = &watch.context {
        let id = context.snapshot.get(..12).unwrap_or(&context.snapshot);
        screen.headline("snapshot", &format!("{id} as before"));
        screen.agents(watch);
        screen.pauses(watch);
    }
    let limits = Limits::leaving(interrupts);
    let end = follow(turns.service(), &mut followed, &mut screen, limits).await?;
    *person = screen.into_person();
    Ok((end, conclude(&app.out, &followed.leave(), end)))
}
