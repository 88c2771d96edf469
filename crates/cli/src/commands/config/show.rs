//! `unisono config show`.

use serde_json::json;
use unisono_daemon::config::{Setting, own};
use unisono_daemon::diagnostic::Origin;

use crate::app::App;
use crate::output::Paint;
use crate::problem::Result;

const HELP: &str = "\
Later places win: defaults, /etc/unisono/unisono.toml, $XDG_CONFIG_HOME/unisono/unisono.toml,
config/unisono.toml of the project, what `config set` keeps beside the store, the session (with
--session), UNISONO__SECTION__KEY, flags.

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
    /// Only what is not a default
    #[arg(long)]
    changed: bool,
    /// As it counts for this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let mut setup = app.setup(Vec::new())?;
    if let Some(name) = &args.session {
        let sessions = app.sessions(&setup).await?;
        let state = sessions.state(sessions.find(name).await?).await?;
        setup = app.setup_with(&setup, &own(&state))?;
        sessions.close().await?;
    }
    let wanted = |setting: &Setting| {
        let key = args.key.as_deref().unwrap_or("");
        setting.key.starts_with(key) && !(args.changed && *setting.place.origin == Origin::Defaults)
    };
    let settings: Vec<Setting> = setup.loaded.show().into_iter().filter(wanted).collect();
    if app.out.json {
        let settings = settings.iter().map(|setting| {
            let line = setting.place.at.map(|(line, _)| line);
            let origin = setting.place.origin.to_string();
            json!({"key": setting.key, "value": setting.value, "origin": origin, "line": line})
        });
        app.out.json(&settings.collect::<Vec<_>>());
    } else {
        app.out.data(text(&settings, app.out.paint));
    }
    Ok(())
}

fn text(settings: &[Setting], paint: Paint) -> String {
    let lines: Vec<String> = settings
        .iter()
        .map(|s| format!("{} = {}", s.key, s.value))
        .collect();
    let widths = lines.iter().map(|line| line.chars().count());
    let width = widths.filter(|width| *width <= 60).max().unwrap_or(0);
    let lines = settings.iter().zip(&lines).map(|(setting, line)| {
        let pad = " ".repeat(width.saturating_sub(line.chars().count()));
        let origin = format!("# {}", setting.place);
        match *setting.place.origin {
            Origin::Defaults => format!("{line}{pad}  {}", paint.dim(origin)),
            _ => format!("{}{pad}  {}", paint.bold(line), paint.cyan(origin)),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}
