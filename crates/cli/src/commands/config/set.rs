//! `unisono config set`.

use std::collections::BTreeMap;

use clap::ArgGroup;
use serde_json::json;
use unisono_api::settings::{Changes, Setting};
use unisono_config::settings::{canonical, parse_value};
use unisono_config::setup::Setup;

use crate::app::App;
use crate::problem::{Problem, Result};
use crate::service::find_session;

const HELP: &str = "\
The change is stored beside the journal. It overrides settings files, is overridden by environment
variables and flags, and applies to later turns, also of a running daemon. Keys of `turn`,
`delegation`, `agent_defaults` and `compaction` can be changed, also
`compaction.providers.NAME` and `compaction.models.PROVIDER/MODEL`; the others are read when the
program starts.

With --session, the change is stored in the session and exported with it. It overrides the
settings of all sessions; its `compaction` keys apply to every model. A session can also have
`models.default` and `models.override`, but not `compaction.deadline_seconds` or tables of
providers and models.

JSON: the setting, as in `config show`; value and origin are null if the key is not set any more.

Examples:
  unisono config set turn.agents risks,facts
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
    /// Its value; a list is a TOML array, or its items with commas between them
    value: Option<String>,
    /// Removes the change; the settings files apply again
    #[arg(long)]
    unset: bool,
    /// Only for this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let all = match &args.session {
        Some(session) => of_session(app, &setup, session, &args).await?,
        None => of_all(app, &setup, &args).await?,
    };
    let key = &canonical(&args.key);
    match all.iter().find(|setting| setting.key == *key) {
        Some(now) if app.out.json => app.out.json(now),
        None if app.out.json => app
            .out
            .json(&json!({"key": key, "value": null, "origin": null})),
        Some(now) => {
            let (value, place) = (&now.value, now.place());
            app.out.data(format_args!("{key} = {value}  # {place}"));
        }
        None => app.out.data(format_args!("{key} is no longer set")),
    }
    Ok(())
}

/// Changes a setting of all sessions.
async fn of_all(app: &App, setup: &Setup, args: &Args) -> Result<Vec<Setting>> {
    let value = args.value.as_ref().map(|text| parse_value(&args.key, text));
    let value = value.map(serde_json::to_value).transpose();
    let value = value.map_err(Problem::failed)?;
    let changes = BTreeMap::from([(args.key.clone(), value)]);
    let service = app.maker(setup).await?;
    let settings = service
        .change_settings(&Changes {
            changes,
            dry_run: false,
        })
        .await;
    service.close().await;
    Ok(settings?)
}

async fn of_session(app: &App, setup: &Setup, session: &str, args: &Args) -> Result<Vec<Setting>> {
    let service = app.changer_with(setup).await?;
    let session = find_session(&*service, session).await?.session;
    let value = args.value.clone().map(Into::into);
    let changes = BTreeMap::from([(args.key.clone(), value)]);
    let changes = Changes {
        changes,
        dry_run: false,
    };
    let settings = service.change_session_settings(&session, &changes).await;
    service.close().await;
    Ok(settings?)
}
