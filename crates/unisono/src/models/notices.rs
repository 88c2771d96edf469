//! Notices about models before their use: a model retires, or its window is not in the catalogue.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::civil::Date;
use unisono_model::calibration::Calibrations;
use unisono_model::catalogue::{Catalogue, EXTRACTIVE, Entry};
use unisono_session::agent::{AgentKind, Team};

use unisono_config::settings::{Loaded, entry_lines};
use unisono_config::setup::Setup;
use unisono_config::summarisers;

/// A notice about one model, with a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notice {
    /// The model, as `provider/model`.
    pub model: String,
    /// The problem.
    pub problem: String,
    /// The remedy, including lines to add.
    pub help: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.problem, self.help)
    }
}

/// Maximum remembered notices: more models than any daemon uses.
const MAX_LOGGED: usize = 256;

/// The logged notices, each once; none until logging begins.
#[derive(Debug, Default)]
pub(crate) struct LoggedNotices(Mutex<Option<BTreeSet<String>>>);

impl LoggedNotices {
    pub(crate) fn begin(&self) {
        self.logged().get_or_insert_default();
    }

    /// Logs the notices that were not logged before.
    pub(crate) fn log(&self, notices: impl FnOnce() -> Vec<Notice>) {
        let mut logged = self.logged();
        let Some(logged) = logged.as_mut() else {
            return;
        };
        for notice in notices() {
            if logged.len() < MAX_LOGGED && logged.insert(notice.problem.clone()) {
                tracing::warn!("{notice}");
            }
        }
    }

    fn logged(&self) -> MutexGuard<'_, Option<BTreeSet<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Today, by the machine's clock, in UTC.
pub fn today() -> Date {
    let now = unisono_runtime::clock::now();
    let now = jiff::Timestamp::from_millisecond(now.0).unwrap_or_default();
    now.to_zoned(jiff::tz::TimeZone::UTC).date()
}

/// The notices about the models that a turn of this team may use: the models of its agents, their
/// fallbacks, and the summarisers of its lead. Each model occurs once.
pub fn of_team(setup: &Setup, team: &Team, learnt: &Calibrations, today: Date) -> Vec<Notice> {
    let asks = team
        .definitions()
        .filter(|agent| agent.kind == AgentKind::Llm);
    let mut names: BTreeSet<String> = asks.map(|agent| agent.model.to_string()).collect();
    if !names.is_empty() {
        names.extend(others(&setup.loaded, &team.lead.model));
    }
    of_models(&setup.loaded, names, learnt, today)
}

/// The notices about all models that this configuration can use.
pub fn of_setup(setup: &Setup, learnt: &Calibrations, today: Date) -> Vec<Notice> {
    let agents = setup.roster.iter().map(|agent| &agent.definition);
    let asks = agents.filter(|agent| agent.kind == AgentKind::Llm);
    let mut names: BTreeSet<String> = asks.map(|agent| agent.model.to_string()).collect();
    names.insert(setup.loaded.default_model.clone());
    for lead in names.clone() {
        names.extend(others(&setup.loaded, &lead));
    }
    of_models(&setup.loaded, names, learnt, today)
}

/// The other models that a turn with such a lead may use.
fn others(loaded: &Loaded, lead: &str) -> Vec<String> {
    let writers = summarisers::models(loaded, lead);
    let writers = writers.iter().map(|entry| entry.model.to_string());
    writers
        .chain(loaded.config.models.fallback.iter().cloned())
        .collect()
}

/// The notices about models by name. Unknown names have none.
pub fn of_models(
    loaded: &Loaded,
    names: BTreeSet<String>,
    learnt: &Calibrations,
    today: Date,
) -> Vec<Notice> {
    let entries = names
        .iter()
        .filter_map(|name| loaded.catalogue.get(None, name).ok())
        .filter(|entry| entry.model.provider != EXTRACTIVE);
    entries
        .filter_map(|entry| {
            let known = learnt
                .get(&entry.model.to_string())
                .has_window(entry.window);
            retiring(&entry, today)
                .or_else(|| (entry.assumed && !known).then(|| unknown(loaded, &entry)))
        })
        .collect()
}

/// The notice that the catalogue is outdated.
pub fn outdated(catalogue: &Catalogue, today: Date) -> Option<String> {
    let days = catalogue.outdated_days(today)?;
    Some(format!(
        "the catalogue of models is {days} days old: prices and dates in it may have changed; \
         install a newer version, or set models.catalogue"
    ))
}

/// The notice that a model retires soon, or is retired.
pub fn retiring(entry: &Entry, today: Date) -> Option<Notice> {
    let retirement = entry.retirement(today)?;
    Some(Notice {
        model: entry.model.to_string(),
        problem: format!("model `{}` {retirement}", entry.model),
        help: retirement.help(),
    })
}

fn unknown(loaded: &Loaded, entry: &Entry) -> Notice {
    let Entry {
        model,
        window,
        max_output,
        ..
    } = entry;
    let own = loaded.config.models.catalogue.clone();
    let beside = || Some(loaded.sources().home.settings()?.join("models.toml"));
    let file = own.or_else(beside).map_or_else(
        || "a file that `models.catalogue` names".to_owned(),
        |path| path.display().to_string(),
    );
    Notice {
        model: model.to_string(),
        problem: format!(
            "the window of model `{model}` is not in the catalogue: {window} tokens and {max_output} \
             of output are assumed{}",
            match entry.prices.input {
                Some(_) => "",
                None => ", and its price is not known",
            }
        ),
        help: format!("put what is right into {file}:\n{}", entry_lines(entry)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalogue_of_more_than_a_hundred_and_twenty_days_has_a_notice() {
        let catalogue = Catalogue::built_in().unwrap();
        let generated = catalogue.generated().unwrap();
        let after = |days: i64| {
            let span = jiff::Span::new().days(days);
            generated.checked_add(span).unwrap()
        };
        assert_eq!(outdated(&catalogue, after(120)), None);
        let notice = outdated(&catalogue, after(121)).unwrap();
        let says = "the catalogue of models is 121 days old";
        assert!(notice.starts_with(says), "{notice}");
    }
}
