//! `unisono config set`.

use std::collections::BTreeMap;

use clap::ArgGroup;
use serde_json::json;
use unisono::local;
use unisono_api::settings::Changes;
use unisono_config::settings::{Setting, canonical, own, typed};
use unisono_config::setup::Setup;
use unisono_runtime::settle;
use unisono_session::Input;

use crate::app::App;
use crate::host::Where;
use crate::problem::{Exit, Problem, Result};

const HELP: &str = "\
A setting that is changed so is kept beside the store. It wins over settings files, gives way to
environment variables and flags, and counts for turns that begin later, also of a daemon that is
running. Keys of `run`, `delegation`, `agent_defaults` and `compaction` can be changed, those of
`compaction.providers.NAME` and `compaction.models.PROVIDER/MODEL` too; the others are read when the
program starts.

With --session it is kept with the session, which takes it along when it is exported. It wins over
what is set for all sessions, and what it says of `compaction` counts for whichever model answers.
A session can also have `models.default` and `models.override`; it has no
`compaction.deadline_seconds` and no tables of providers and models.

JSON: key, value (as TOML), origin; value and origin are null where the key is not set any more.

Examples:
  unisono config set run.agents risks,facts
  unisono config set compaction.trigger_tokens 60000
  unisono config set compaction.trigger_tokens --unset
  unisono config set compaction.models.openai/gpt-4.1.trigger_tokens 200000
  unisono config set compaction.preset retention --session latest";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
#[command(group(ArgGroup::new("change").required(true).args(["value", "unset"])))]
pub(crate) struct Args {
    /// The key, dotted
    key: String,
    /// Its value; items of a list are separated by commas
    value: Option<String>,
    /// Leaves the key to the settings files again
    #[arg(long)]
    unset: bool,
    /// Of this session alone
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

/// A setting as it is now: its value, as TOML, and where it was written.
type Now = Option<(String, String)>;

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let now = match &args.session {
        Some(session) => of_session(app, &setup, session, &args).await?,
        None => of_all(app, &setup, &args).await?,
    };
    let key = &canonical(&args.key);
    match now {
        _ if app.out.json => {
            let (value, origin) = now.unzip();
            let told = json!({"key": key, "value": value, "origin": origin});
            app.out.json(&told);
        }
        Some((value, origin)) => app.out.data(format_args!("{key} = {value}  # {origin}")),
        None => app.out.data(format_args!("{key} is not set any more")),
    }
    Ok(())
}

/// Changes a setting of all sessions.
async fn of_all(app: &App, setup: &Setup, args: &Args) -> Result<Now> {
    let value = args.value.as_ref().map(|text| typed(&args.key, text));
    match app.store_or_daemon(setup).await? {
        Where::Here(opened) => {
            let changes = BTreeMap::from([(args.key.clone(), value)]);
            // Nobody else has the store meanwhile.
            let changed = local::change(setup, &changes);
            opened.journal.close().await?;
            Ok(here(&changed?, &canonical(&args.key)))
        }
        Where::There(client) => {
            let value = value.map(serde_json::to_value).transpose();
            let value = value.map_err(Problem::failed)?;
            let changes = BTreeMap::from([(args.key.clone(), value)]);
            let all = client.change_settings(&Changes { changes }).await?;
            Ok(there(all, &canonical(&args.key)))
        }
    }
}

/// Changes a setting of one session. Here nothing is started for it.
async fn of_session(app: &App, setup: &Setup, session: &str, args: &Args) -> Result<Now> {
    let store = app.store_or_nothing(setup).await?;
    let sessions = store.sessions();
    let id = sessions.find(session).await?;
    match store {
        Where::Here(opened) => {
            let before = sessions.state(id).await?;
            let wanted = BTreeMap::from([(args.key.clone(), args.value.clone())]);
            let changes = local::own_changes(setup, before.settings(), wanted)?;
            settle(&opened.journal, id, Input::Set { changes }).await?;
            let after = sessions.state(id).await?;
            opened.journal.close().await?;
            Ok(here(&app.setup_beside(setup, &own(&after)), &args.key))
        }
        Where::There(client) => {
            let value = args.value.clone().map(Into::into);
            let changes = BTreeMap::from([(args.key.clone(), value)]);
            let changes = Changes { changes };
            let all = client
                .change_own_settings(&id.to_string(), &changes)
                .await?;
            Ok(there(all, &args.key))
        }
    }
}

fn here(setup: &Setup, key: &str) -> Now {
    let mut all = setup.loaded.show().into_iter();
    let Setting { value, place, .. } = all.find(|setting| setting.key == key)?;
    Some((value, place.to_string()))
}

fn there(all: Vec<unisono_api::settings::Setting>, key: &str) -> Now {
    let mut all = all.into_iter();
    let found = all.find(|setting| setting.key == key)?;
    Some((found.value, found.origin))
}

impl From<unisono::NotChanged> for Problem {
    fn from(error: unisono::NotChanged) -> Problem {
        match error {
            unisono::NotChanged::Session(error) => error.into(),
            unisono::NotChanged::Store(_) => {
                let code = error.code();
                Problem::with_hint_of(Exit::Failed, &error.to_string()).code(code)
            }
            unisono::NotChanged::Key(_)
            | unisono::NotChanged::Own(_)
            | unisono::NotChanged::Wrong(_) => Problem::usage(&error).code(error.code()),
        }
    }
}
