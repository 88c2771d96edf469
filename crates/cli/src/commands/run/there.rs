//! `unisono run` where a daemon has the store open: the daemon does it.

use unisono_api::client::Client;
use unisono_api::turn::NewTurn;
use unisono_context::{SessionId, TurnId};
use unisono_daemon::setup::Setup;
use unisono_session::machine::Import;

use super::{Args, From, TASK, assignments, from_file};
use crate::app::App;
use crate::conversation::Source;
use crate::live::{End, Interrupts, Limits, Screen, Watch, conclude, follow_there};
use crate::problem::{Exit, Problem, Result};
use crate::sessions::{self, Sessions};
use crate::{remote, show};

/// Does it there, and shows it here.
pub(super) async fn run(
    app: &App,
    client: Client,
    args: &Args,
    (source, import): (Option<Source>, Option<Import>),
    setup: &Setup,
    interrupts: &mut Interrupts,
) -> Result<()> {
    if !args.overrides().is_empty() {
        let url = client.url();
        let problem = format!(
            "--model, --preset and --compact-above are settings of the daemon at {url}, which has the store open"
        );
        let hint = "leave them out, change its configuration, or use another store (--store DIR)";
        return Err(Problem::usage(problem).hint(hint));
    }
    let sessions = Sessions::new(remote::journal(client.clone()));
    let mut screen = Screen::new(&app.out);
    screen.headline("daemon", client.url());
    let id = session(&client, &sessions, args, source, import, &screen).await?;
    let state = sessions.state(id).await?;
    let turn = client.begin(&id.to_string(), &turn(args)).await?;
    let turn: TurnId = turn
        .turn
        .parse()
        .map_err(|_| Problem::failed("the daemon names no turn"))?;
    let mut watch = Watch::new(state, turn).notifying(&setup.loaded.config.compaction);
    let timeout = args.timeout.unwrap_or(setup.loaded.config.run.timeout());
    let limits = Limits::leaving(Some(timeout), interrupts);
    let end = follow_there(
        &client,
        sessions.journal(),
        id,
        &mut watch,
        &mut screen,
        limits,
    )
    .await?;
    drop(screen);
    if end == End::Interrupted {
        let short = sessions::short(id);
        app.out.say(format_args!("interrupted: the daemon goes on with it; `unisono sessions show {short}` shows how far it is"));
        return Err(Problem::silent(Exit::Interrupted));
    }
    conclude(&app.out, id, &watch, end)
}

/// The session that is meant; a file that is not known yet becomes one.
async fn session(
    client: &Client,
    sessions: &Sessions,
    args: &Args,
    source: Option<Source>,
    import: Option<Import>,
    screen: &Screen<'_>,
) -> Result<SessionId> {
    let (Some(source), Some(import)) = (source, import) else {
        return sessions
            .find(args.session.as_deref().unwrap_or("latest"))
            .await;
    };
    let (name, bytes) = (source.name.clone(), source.bytes.clone());
    match from_file(sessions, source, import).await? {
        From::Session(id) => {
            screen.headline("continues", &format!("session {}", sessions::short(id)));
            Ok(id)
        }
        From::File { import, .. } => {
            let messages = show::many(import.messages.len() as u64, "message");
            let file = std::path::Path::new(&name).file_name();
            let file = file.map_or(name.as_str().into(), |file| file.to_string_lossy());
            let made = client
                .import(&file, args.format.as_deref(), args.skip_bad, bytes)
                .await?;
            let id: SessionId = made
                .session
                .parse()
                .map_err(|_| Problem::failed("the daemon names no session"))?;
            let short = sessions::short(id);
            screen.headline(
                "imported",
                &format!("{messages} from {name}: session {short}"),
            );
            Ok(id)
        }
    }
}

fn turn(args: &Args) -> NewTurn {
    let agents = args.agents.iter().flat_map(|text| assignments(text));
    NewTurn {
        task: args.task.clone().unwrap_or_else(|| TASK.to_owned()),
        branch: args.branch.clone(),
        lead: args.lead.clone(),
        agents: (!args.agents.is_empty()).then(|| agents.collect()),
        wait: false,
    }
}
