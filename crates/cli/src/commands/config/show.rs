//! `unisono config show`.

use unisono::service::settings::settings;
use unisono_api::settings::Setting;
use unisono_config::diagnostic::{Origin, nearest};
use unisono_config::setup::Setup;

use crate::app::App;
use crate::problem::{Problem, Result};
use crate::service::find_session;
use crate::terminal::Paint;

const HELP: &str = "\
Later origins win: defaults, /etc/unisono/unisono.toml, $XDG_CONFIG_HOME/unisono/unisono.toml,
config/unisono.toml of the project, changes by `config set`, the session (with --session),
UNISONO__SECTION__KEY, flags.

JSON: a list of {key, value (as TOML), about (its meaning), origin, line and column (of a file;
otherwise null), changeable (while a daemon runs; with --session, for it alone)}.

Examples:
  unisono config show compaction
  unisono config show compaction --session latest
  UNISONO__COMPACTION__PRESET=retention unisono config show --changed";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Only keys with this prefix
    key: Option<String>,
    /// Only values that differ from the default
    #[arg(long)]
    changed: bool,
    /// The settings of this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

fn is_default(setting: &Setting) -> bool {
    setting.origin == Origin::Defaults.to_string()
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let all = match &args.session {
        Some(session) => of_session(app, &setup, session).await?,
        None => settings(&setup),
    };
    let key = args.key.as_deref().unwrap_or("");
    if !all.iter().any(|setting| setting.key.starts_with(key)) {
        let problem = Problem::usage(format!("no key that is set starts with `{key}`"));
        let hint = match nearest(key, names(&all)) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => {
                "`unisono config show` lists the keys that are set; the page *Configuration* of \
                     the book lists all"
                    .to_owned()
            }
        };
        return Err(problem.hint(hint));
    }
    let wanted =
        |setting: &Setting| setting.key.starts_with(key) && !(args.changed && is_default(setting));
    let wanted: Vec<Setting> = all.into_iter().filter(wanted).collect();
    if app.out.json {
        app.out.json(&wanted);
    } else if wanted.is_empty() {
        app.out.message("all of it is as by default");
    } else {
        app.out.data(text(&wanted, app.out.paint));
    }
    Ok(())
}

/// The keys and their sections.
fn names(settings: &[Setting]) -> impl Iterator<Item = &str> {
    settings.iter().flat_map(|setting| {
        let key = &*setting.key;
        let ends = key.match_indices('.').map(|(end, _)| end);
        ends.chain([key.len()]).map(move |end| &key[..end])
    })
}

/// As they count for a session.
async fn of_session(app: &App, setup: &Setup, session: &str) -> Result<Vec<Setting>> {
    let service = app.reader_with(setup).await?;
    let session = find_session(&*service, session).await?.session;
    let settings = service.session_settings(&session).await?;
    service.close().await;
    Ok(settings)
}

fn text(settings: &[Setting], paint: Paint) -> String {
    let lines: Vec<String> = settings
        .iter()
        .map(|setting| format!("{} = {}", setting.key, setting.value))
        .collect();
    let widths = lines.iter().map(|line| line.chars().count());
    let width = widths.filter(|width| *width <= 60).max().unwrap_or(0);
    let lines = settings.iter().zip(&lines).map(|(setting, line)| {
        let pad = " ".repeat(width.saturating_sub(line.chars().count()));
        let origin = format!("# {}", setting.place());
        match is_default(setting) {
            true => format!("{line}{pad}  {}", paint.dim(origin)),
            false => format!("{}{pad}  {}", paint.bold(line), paint.cyan(origin)),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}
