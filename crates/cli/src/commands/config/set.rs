//! `unisono config set`.

use std::collections::BTreeMap;

use clap::ArgGroup;
use serde_json::json;
use unisono_api::settings::Changes;
use unisono_daemon::config::{Setting, typed};
use unisono_daemon::daemon;

use crate::app::App;
use crate::host::Where;
use crate::problem::{Problem, Result};

const HELP: &str = "\
A setting that is changed so is kept beside the store. It wins over settings files, gives way to
environment variables and flags, and counts for turns that begin later, also of a daemon that is
running. Keys of `run`, `delegation`, `agent_defaults` and of the policy in `compaction` can be
changed; the others are read when the program starts.

JSON: key, value (as TOML), origin.

Examples:
  unisono config set run.agents risks,facts
  unisono config set compaction.trigger_tokens 60000
  unisono config set compaction.trigger_tokens --unset";

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
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let value = args.value.map(|text| typed(&args.key, &text));
    let (key, value, origin) = match app.store_or_daemon(&setup).await? {
        Where::Here(opened) => {
            let changes = BTreeMap::from([(args.key.clone(), value)]);
            // Nobody else has the store meanwhile.
            let changed = daemon::change(&setup, &app.kinds, &changes);
            opened.journal.close().await?;
            let mut all = changed?.loaded.show().into_iter();
            let found = all.find(|setting| setting.key == args.key);
            let Setting {
                key, value, place, ..
            } = found.ok_or_else(gone)?;
            (key, value, place.to_string())
        }
        Where::There(client) => {
            let value = value.map(serde_json::to_value).transpose();
            let value = value.map_err(Problem::failed)?;
            let changes = BTreeMap::from([(args.key.clone(), value)]);
            let mut all = client
                .change_settings(&Changes { changes })
                .await?
                .into_iter();
            let found = all.find(|setting| setting.key == args.key);
            let setting = found.ok_or_else(gone)?;
            (setting.key, setting.value, setting.origin)
        }
    };
    if app.out.json {
        app.out
            .json(&json!({"key": key, "value": value, "origin": origin}));
    } else {
        app.out.data(format_args!("{key} = {value}  # {origin}"));
    }
    Ok(())
}

fn gone() -> Problem {
    Problem::failed("the setting was changed, and is not there any more")
}

impl From<daemon::NotChanged> for Problem {
    fn from(error: daemon::NotChanged) -> Problem {
        match error {
            daemon::NotChanged::Store(_) => Problem::failed(error),
            daemon::NotChanged::Key(_) | daemon::NotChanged::Wrong(_) => Problem::usage(error),
        }
    }
}
