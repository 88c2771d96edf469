//! `unisono config show`.

use serde_json::json;
use unisono_config::diagnostic::Origin;
use unisono_config::settings::{Setting, own};
use unisono_config::setup::Setup;

use crate::app::App;
use crate::host::Where;
use crate::output::Paint;
use crate::problem::{Problem, Result};

const HELP: &str = "\
Later places win: defaults, /etc/unisono/unisono.toml, $XDG_CONFIG_HOME/unisono/unisono.toml,
config/unisono.toml of the project, what `config set` keeps beside the store, the session (with
--session; as a daemon has them that works on it), UNISONO__SECTION__KEY, flags.

JSON: a list of {key, value (as TOML), origin, line}.

Examples:
  unisono config show compaction
  unisono config show compaction --session latest
  UNISONO__COMPACTION__PRESET=retention unisono config show --changed";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Only keys that start with this
    key: Option<String>,
    /// Only values that differ from the default
    #[arg(long)]
    changed: bool,
    /// As it counts for this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

/// A setting and where it was written.
struct Row {
    key: String,
    value: String,
    origin: String,
    /// Its line and column in a file.
    at: Option<(u32, u32)>,
}

impl From<Setting> for Row {
    fn from(setting: Setting) -> Row {
        Row {
            key: setting.key,
            value: setting.value,
            origin: setting.place.origin.to_string(),
            at: setting.place.at,
        }
    }
}

impl From<unisono_api::settings::Setting> for Row {
    fn from(setting: unisono_api::settings::Setting) -> Row {
        let (origin, at) = placed(&setting.origin);
        Row {
            key: setting.key,
            value: setting.value,
            origin: origin.to_owned(),
            at,
        }
    }
}

/// An origin as a daemon writes it: behind a file's stand line and column.
fn placed(place: &str) -> (&str, Option<(u32, u32)>) {
    let parts = place.rsplit_once(':').and_then(|(head, column)| {
        let (origin, line) = head.rsplit_once(':')?;
        Some((origin, Some((line.parse().ok()?, column.parse().ok()?))))
    });
    parts.unwrap_or((place, None))
}

impl Row {
    fn is_default(&self) -> bool {
        self.origin == Origin::Defaults.to_string()
    }
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let all = match &args.session {
        Some(session) => of_session(app, &setup, session).await?,
        None => here(&setup),
    };
    let key = args.key.as_deref().unwrap_or("");
    if !all.iter().any(|row| row.key.starts_with(key)) {
        let problem = Problem::usage(format!("no key starts with `{key}`"));
        return Err(problem.hint("`unisono config show` lists all of them"));
    }
    let wanted = |row: &Row| row.key.starts_with(key) && !(args.changed && row.is_default());
    let rows: Vec<Row> = all.into_iter().filter(wanted).collect();
    if app.out.json {
        let rows = rows.iter().map(|row| {
            let line = row.at.map(|(line, _)| line);
            json!({"key": row.key, "value": row.value, "origin": row.origin, "line": line})
        });
        app.out.json(&rows.collect::<Vec<_>>());
    } else if rows.is_empty() {
        app.out.say("all of it is as by default");
    } else {
        app.out.data(text(&rows, app.out.paint));
    }
    Ok(())
}

fn here(setup: &Setup) -> Vec<Row> {
    setup.loaded.show().into_iter().map(Row::from).collect()
}

/// As they count for a session where the work is done.
async fn of_session(app: &App, setup: &Setup, session: &str) -> Result<Vec<Row>> {
    let store = app.store_to_read(setup).await?;
    let sessions = store.sessions();
    let id = sessions.find(session).await?;
    let rows = match &store {
        Where::Here(_) => {
            let state = sessions.state(id).await?;
            here(&app.setup_with(setup, &own(&state))?)
        }
        Where::There(client) => {
            let all = client.own_settings(&id.to_string()).await?;
            all.into_iter().map(Row::from).collect()
        }
    };
    sessions.close().await?;
    Ok(rows)
}

fn text(rows: &[Row], paint: Paint) -> String {
    let lines: Vec<String> = rows
        .iter()
        .map(|row| format!("{} = {}", row.key, row.value))
        .collect();
    let widths = lines.iter().map(|line| line.chars().count());
    let width = widths.filter(|width| *width <= 60).max().unwrap_or(0);
    let lines = rows.iter().zip(&lines).map(|(row, line)| {
        let pad = " ".repeat(width.saturating_sub(line.chars().count()));
        let origin = match row.at {
            Some((line, column)) => format!("# {}:{line}:{column}", row.origin),
            None => format!("# {}", row.origin),
        };
        match row.is_default() {
            true => format!("{line}{pad}  {}", paint.dim(origin)),
            false => format!("{}{pad}  {}", paint.bold(line), paint.cyan(origin)),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}
