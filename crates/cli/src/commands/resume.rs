//! `unisono resume`: open turns go on from their last recorded step.

use unisono_api::turn_event::ChangedAgent;
use unisono_config::settings::own;
use unisono_config::setup::Setup;
use unisono_context::{SessionId, TurnId};

use crate::app::App;
use crate::host::Host;
use crate::live::{End, Interrupts, Limits, Screen, conclude, follow};
use crate::problem::{Problem, Result};
use crate::sessions::{self, Sessions};
use crate::show;

const HELP: &str = "\
A turn stays open when the program is interrupted or killed. Finished work of its agents is not
repeated; the rest goes on, on the same snapshot. A daemon goes on with its turns by itself: they are
followed. Exits with the code of the last turn that did
not end well. JSON: as of `run`, one object for each turn.

Examples:
  unisono resume           every session with an open turn
  unisono resume latest";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session; without it, all of them
    session: Option<String>,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let mut interrupts = Interrupts::listen()?;
    let store = app.store_or_nothing(&setup).await?;
    let sessions = store.sessions();
    let open = open_turns(&sessions, args.session.as_deref()).await?;
    if open.is_empty() {
        app.out.say("nothing to resume: every turn has ended");
        return sessions.close().await;
    }
    let host = app.host(store, setup.clone()).await?;
    let mut done = Ok(());
    let mut last = End::Ended;
    for (session, turns) in open {
        for turn in turns {
            let (end, concluded) =
                one(app, &setup, &host, (session, turn), &mut interrupts).await?;
            done = concluded.or_else(|problem| worst(app, done, problem));
            last = end;
            if end == End::Interrupted {
                host.stop(last).await;
                return done;
            }
        }
    }
    host.stop(last).await;
    done
}

/// Keeps the newest problem; the one before it was told.
fn worst(app: &App, before: Result<()>, now: Problem) -> Result<()> {
    if let Err(problem) = before
        && !problem.message.is_empty()
    {
        app.out.warn(problem.message);
    }
    Err(now)
}

type Open = Vec<(SessionId, Vec<TurnId>)>;

/// The turns that have not ended, by session.
async fn open_turns(sessions: &Sessions, name: Option<&str>) -> Result<Open> {
    let ids = match name {
        Some(name) => vec![sessions.find(name).await?],
        None => sessions.journal().unfinished().await?,
    };
    let mut open = Vec::new();
    for id in ids {
        let state = sessions.state(id).await?;
        let turns: Vec<TurnId> = state.open_turns().map(|turn| turn.accepted.id).collect();
        if !turns.is_empty() {
            open.push((id, turns));
        }
    }
    Ok(open)
}

async fn one(
    app: &App,
    setup: &Setup,
    host: &Host,
    (id, turn): (SessionId, TurnId),
    interrupts: &mut Interrupts,
) -> Result<(End, Result<()>)> {
    let mut followed = host.join(id, turn).await?;
    let own = own(&host.state(id).await?);
    let setup = app.setup_beside(setup, &own);
    followed = followed.notifying(&setup.loaded.config.compaction);
    let watch = &followed.watch;
    let mut screen = Screen::new(&app.out);
    let text = format!(
        "session {}, {} of {} done before",
        sessions::short(id),
        watch.of_state("done").len(),
        show::many(watch.agents.len() as u64, "agent")
    );
    screen.headline("resumed", &text);
    for ChangedAgent { agent, change } in &watch.changed {
        app.out.warn(format!(
            "agent `{agent}` {change} since the turn began: the turn goes on with the agent as it \
             was then; ask again for the one of now"
        ));
    }
    if let Some(context) = &watch.context {
        let id = context.snapshot.get(..12).unwrap_or(&context.snapshot);
        screen.headline("snapshot", &format!("{id} as before"));
        screen.agents(watch);
    }
    let limits = Limits::leaving(None, interrupts);
    let end = follow(host.service(), &mut followed, &mut screen, limits).await?;
    drop(screen);
    Ok((end, conclude(&app.out, &followed.leave(), end)))
}
