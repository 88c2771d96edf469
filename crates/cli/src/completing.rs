//! Shell completion: verbs and flags, and the existing sessions, agents and models.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::CompleteEnv;
use unisono_api::session::SessionQuery;
use unisono_config::setup::Setup;
use unisono_runtime::Extensions;

use crate::app::App;
use crate::caller::Verb;
use crate::commands::completions::{PROGRAM, VARIABLE};
use crate::commands::help;
use crate::options::Global;
use crate::output;
use crate::problem::{Problem, Result};
use crate::show;

/// Maximum number of sessions as candidates, the most recently changed first.
const SESSIONS: usize = 50;
/// Timeout of a completion.
const WITHIN: Duration = Duration::from_secs(2);
/// Maximum number of characters of a session's title.
const TITLE_CHARS: usize = 40;

/// Answers a completion request of a shell; none if there is no request.
pub(crate) fn answer(extensions: &Extensions) -> Option<ExitCode> {
    let asked = CompleteEnv::with_factory(|| offering(help::command(), extensions))
        .var(VARIABLE)
        .bin(PROGRAM)
        .completer(PROGRAM)
        .try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref());
    match asked {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(error) => Some(output::usage(&error)),
    }
}

/// The command line with the candidates of each value.
fn offering(command: Command, extensions: &Extensions) -> Command {
    let offer = |arg: Arg| match Values::from_arg(&arg) {
        Some(values) => {
            let extensions = extensions.clone();
            arg.add(ArgValueCompleter::new(move |current: &OsStr| {
                values.offered(&extensions, &current.to_string_lossy())
            }))
        }
        None => arg,
    };
    command
        .mut_args(offer)
        .mut_subcommands(|below| offering(below, extensions))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    Sessions,
    Agents,
    Models,
}

impl Values {
    /// The kind by the name of a value in the help.
    fn from_arg(arg: &Arg) -> Option<Values> {
        let names = arg.get_value_names().unwrap_or_default();
        match names.first()?.as_str() {
            "SESSION" => Some(Values::Sessions),
            "AGENT" | "A,B=TASK" | "AGENT[=TASK]" | "RUN" | "TURN" => Some(Values::Agents),
            "MODEL" => Some(Values::Models),
            _ => None,
        }
    }

    /// The candidates that begin with a prefix; none after an error, because completion shows no errors.
    fn offered(self, extensions: &Extensions, current: &str) -> Vec<CompletionCandidate> {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        let words: Vec<String> = words.collect();
        let app = App::new(
            Global::of_words(&words),
            Verb::default(),
            extensions.clone(),
        );
        let found = match self {
            Values::Sessions => sessions(&app),
            Values::Agents => agents(&app),
            Values::Models => models(&app),
        };
        // Completion of a list of agents concerns the last one.
        let (before, word) = match (self, current.rsplit_once(',')) {
            (Values::Agents, Some((before, word))) => (format!("{before},"), word),
            _ => (String::new(), current),
        };
        let found = found.unwrap_or_default().into_iter();
        let meant = found.filter(|(value, _)| value.starts_with(word));
        let offer = |(value, help): (String, String)| {
            let help = (!help.is_empty()).then(|| help.into());
            CompletionCandidate::new(format!("{before}{value}")).help(help)
        };
        meant.map(offer).collect()
    }
}

type Candidates = Vec<(String, String)>;

fn setup(app: &App) -> Result<Setup> {
    Ok(Setup::load(app.sources(Vec::new())?)?)
}

fn sessions(app: &App) -> Result<Candidates> {
    let setup = setup(app)?;
    let newest = app.wait_for(async {
        let listed = async {
            let service = app.reader_with(&setup).await?;
            let query = SessionQuery {
                by_change: true,
                limit: NonZeroUsize::new(SESSIONS),
                ..SessionQuery::default()
            };
            let listed = service.sessions(&query).await;
            service.close().await;
            listed.map(|page| page.items).map_err(Problem::from)
        };
        let in_time = tokio::time::timeout(WITHIN, listed).await;
        in_time.unwrap_or_else(|_| Err(Problem::failed("the store does not respond in time")))
    })?;
    let each = newest.into_iter();
    let each = each.map(|one| (one.session, show::line(&one.title, TITLE_CHARS)));
    let latest = ("latest".to_owned(), "the newest".to_owned());
    Ok(std::iter::once(latest).chain(each).collect())
}

fn agents(app: &App) -> Result<Candidates> {
    let setup = setup(app)?;
    let each = setup.roster.iter().map(|agent| {
        let definition = &agent.definition;
        let help = show::line(&definition.description, TITLE_CHARS);
        (definition.id.to_string(), help)
    });
    Ok(each.collect())
}

/// The available models that `unisono models` lists; all of them if none is available.
fn models(app: &App) -> Result<Candidates> {
    let setup = setup(app)?;
    let listed = app.wait_for(async {
        let service = app.configured(&setup)?;
        service.models().await.map_err(Problem::from)
    })?;
    let providers = &setup.loaded.providers;
    let known: Vec<(bool, String)> = listed
        .into_iter()
        .map(|model| {
            let provider = model.model.split('/').next().unwrap_or_default();
            let can = providers.unavailable_reason(provider).is_none();
            (can, model.model)
        })
        .collect();
    let any = known.iter().any(|(can, name)| *can && name.contains('/'));
    let meant = known.into_iter().filter(|(can, _)| *can || !any);
    let names: BTreeSet<String> = meant.map(|(_, name)| name).collect();
    let offline = ("extractive".to_owned(), "offline".to_owned());
    let named = names.into_iter().filter(|name| *name != offline.0);
    let named = named.map(|name| (name, String::new()));
    Ok(std::iter::once(offline.clone()).chain(named).collect())
}
