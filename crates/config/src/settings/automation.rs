//! Turns that begin by themselves, as they are written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use unisono_context::SessionId;
use unisono_model::provider::Key;
use unisono_runtime::agent::template::Template;
use unisono_session::state::{MAIN, RESERVED_LABELS};

use super::transport::Reader;
use super::{Config, Sources, TimeText, Variables};
use crate::automation::{
    self, Automation, Cron, DueTimes, LONGEST_NAME, MissedPolicy, NewTask, PLACES, Rule, Target,
};
use crate::diagnostic::{Diagnostics, Place};

/// The shortest period of a schedule.
const SHORTEST_MS: u64 = 1_000;
/// The hexadecimal digits of the id of a session.
const ID_DIGITS: usize = 32;
/// The minimum length of a trigger's secret, in bytes.
const SHORTEST_SECRET: usize = 16;

/// The task of a schedule or a trigger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Task {
    /// `new`, the id of a session, or `label=value`.
    pub session: Option<String>,
    /// The branch it continues.
    pub branch: Option<String>,
    /// The agent that answers.
    pub lead: Option<String>,
    /// The agents that work before it.
    pub agents: Option<Vec<String>>,
    /// Settings for its turns only.
    pub settings: BTreeMap<String, String>,
    /// The text of the task.
    pub task: Option<String>,
}

/// `[schedules.<name>]`: a turn that begins at times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Schedule {
    /// Its times: minute, hour, day of the month, month, day of the week.
    pub cron: Option<String>,
    /// Its period.
    pub every: Option<TimeText>,
    /// The time zone of its times.
    pub timezone: Option<String>,
    /// `run` or `skip`.
    pub missed: Option<String>,
    /// Whether it begins turns by itself.
    pub enabled: Option<bool>,
    /// The task for the session.
    #[serde(flatten)]
    pub task: Task,
}

/// `[triggers.<name>]`: a turn that begins on the request of another program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Trigger {
    /// The environment variable that holds its secret.
    pub secret_env: Option<String>,
    /// The file that holds its secret, absolute. Comes before the variable.
    pub secret_file: Option<PathBuf>,
    /// The task for the session.
    #[serde(flatten)]
    pub task: Task,
}

/// Reads all schedules and triggers; reports and skips invalid ones.
pub(super) fn read(
    config: &Config,
    sources: &Sources,
    place: &dyn Fn(&[&str]) -> Place,
    found: &mut Diagnostics,
) -> Automation {
    let mut reader = Reader { place, found };
    let mut all = Automation::default();
    for (name, own) in &config.schedules {
        all.schedules.extend(reader.schedule(name, own));
    }
    for (name, own) in &config.triggers {
        all.triggers
            .extend(reader.trigger(name, own, &sources.variables));
    }
    all
}

impl Reader<'_> {
    /// Whether the name can stand in an address and a label; says so where it cannot.
    fn is_named(&mut self, table: &str, name: &str) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let fits = !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(plain);
        if !fits {
            let problem = format!(
                "`{name}` cannot be a name in [{table}]: letters a-z, digits, `-` and `_`, at most \
                 {LONGEST_NAME}"
            );
            self.fault(&[table, name], problem);
        }
        fits
    }

    fn schedule(&mut self, name: &str, own: &Schedule) -> Option<automation::Schedule> {
        let is_named = self.is_named("schedules", name);
        let rule = self.rule(name, own);
        let task = self.task("schedules", name, &own.task, false);
        let missed = match own.missed.as_deref() {
            Some("skip") => MissedPolicy::Skip,
            _ => MissedPolicy::Run,
        };
        is_named.then_some(automation::Schedule {
            name: name.into(),
            rule: rule?,
            task: task?,
            missed,
            enabled: own.enabled.unwrap_or(true),
        })
    }

    fn rule(&mut self, name: &str, own: &Schedule) -> Option<Rule> {
        let zone = own.timezone.as_deref().unwrap_or("UTC");
        let zone = match automation::zone(zone) {
            Some(zone) => Some(zone),
            None => {
                let problem = format!(
                    "time zone `{zone}` is unknown; write a name such as \"Europe/Berlin\" or \
                     \"UTC\""
                );
                self.fault(&["schedules", name, "timezone"], problem);
                None
            }
        };
        let when = match (&own.cron, &own.every) {
            (Some(text), None) => match Cron::parse(text) {
                Ok(cron) => Some(DueTimes::Cron(Arc::new(cron))),
                Err(error) => {
                    let problem = format!("`{text}` is not a cron expression: {error}");
                    self.fault(&["schedules", name, "cron"], problem);
                    None
                }
            },
            (None, Some(every)) => self.period(name, own, every),
            (None, None) => {
                let problem = format!(
                    "schedule `{name}` has neither `cron` (its times) nor `every` (its period)"
                );
                self.missing(["schedules", name], &["cron", "every"], problem);
                None
            }
            (Some(_), Some(_)) => {
                let problem = format!("schedule `{name}` has both `cron` and `every`");
                self.fault(&["schedules", name, "every"], problem);
                None
            }
        };
        Some(Rule {
            when: when?,
            zone: zone?,
        })
    }

    fn period(&mut self, name: &str, own: &Schedule, every: &TimeText) -> Option<DueTimes> {
        if own.timezone.as_deref().is_some_and(|zone| zone != "UTC") {
            let problem =
                "`timezone` affects only the times in the task: periods are counted in UTC";
            self.warn(&["schedules", name, "timezone"], problem);
        }
        let ms = every.ms();
        if ms < SHORTEST_MS {
            let problem = "a schedule runs once a second at most";
            self.fault(&["schedules", name, "every"], problem);
            return None;
        }
        i64::try_from(ms).ok().map(DueTimes::Every)
    }

    fn trigger(
        &mut self,
        name: &str,
        own: &Trigger,
        variables: &Variables,
    ) -> Option<automation::Trigger> {
        let is_named = self.is_named("triggers", name);
        let secret = self.secret(name, own, variables);
        let task = self.task("triggers", name, &own.task, true);
        is_named.then_some(automation::Trigger {
            name: name.into(),
            secret: secret?,
            task: task?,
        })
    }

    /// The secret of a trigger; `Some(None)` if its variable is not set, which only the daemon needs.
    fn secret(&mut self, name: &str, own: &Trigger, variables: &Variables) -> Option<Option<Key>> {
        let (setting, found) = match (&own.secret_file, &own.secret_env) {
            (Some(path), _) => ("secret_file", Key::from_file(path).map(Some)),
            (None, Some(variable)) => ("secret_env", variables.key(&[variable])),
            (None, None) => {
                let problem = format!(
                    "trigger `{name}` has no secret: set `secret_file`, or `secret_env` to the \
                     variable that holds it"
                );
                self.missing(["triggers", name], &["secret_file", "secret_env"], problem);
                return None;
            }
        };
        let path = ["triggers", name, setting];
        match found {
            Ok(Some(secret)) if secret.expose().len() < SHORTEST_SECRET => {
                let problem = format!(
                    "the secret from {} is shorter than {SHORTEST_SECRET} characters; \
                     `openssl rand -hex 32` makes one",
                    secret.source()
                );
                self.fault(&path, problem);
                None
            }
            Ok(Some(secret)) => {
                if let Some(warning) = secret.warning() {
                    self.warn(&path, warning);
                }
                Some(Some(secret))
            }
            Ok(None) => {
                let variable = own.secret_env.as_deref().unwrap_or_default();
                let problem = format!(
                    "the variable {variable} is not set: a daemon without it refuses all requests \
                     for trigger `{name}`; put the secret there"
                );
                self.warn(&path, problem);
                Some(None)
            }
            Err(error) => {
                self.fault(&path, error);
                None
            }
        }
    }

    fn task(&mut self, table: &str, name: &str, own: &Task, has_body: bool) -> Option<NewTask> {
        let Some(text) = &own.task else {
            let problem = format!("`{name}` in [{table}] has no `task`: describe the task");
            self.missing([table, name], &["task"], problem);
            return None;
        };
        let task = match Template::parse(text) {
            Ok(task) => task,
            Err(_) => {
                let problem = "a `$` begins a place such as ${date}; write $$ for a dollar sign";
                self.fault(&[table, name, "task"], problem);
                return None;
            }
        };
        let known = |place: &str| PLACES.contains(&place) && (has_body || place != "body");
        if let Some(unknown) = task.variables().find(|place| !known(place)) {
            let names = PLACES.iter().filter(|place| known(place));
            let names: Vec<&str> = names.copied().collect();
            let names = names.join(", ");
            let problem = format!(
                "the placeholder ${{{unknown}}} in the task is unknown; known are: {names}"
            );
            self.fault(&[table, name, "task"], problem);
            return None;
        }
        let session = match target(own.session.as_deref()) {
            Ok(session) => session,
            Err(problem) => {
                self.fault(&[table, name, "session"], problem);
                return None;
            }
        };
        let branch = own.branch.clone().unwrap_or_else(|| MAIN.to_owned());
        if session == Target::New && branch != MAIN {
            let problem = format!(
                "a new session has no branch `{branch}`: set `session`, or leave `branch` out"
            );
            self.fault(&[table, name, "branch"], problem);
            return None;
        }
        Some(NewTask {
            session,
            branch,
            lead: own.lead.clone(),
            agents: own.agents.clone(),
            settings: own.settings.clone(),
            task,
        })
    }
}

/// The session of a task; by default a new one for each turn.
///
/// # Errors
/// No session can have this id or label.
fn target(text: Option<&str>) -> Result<Target, String> {
    let text = text.map_or("new", str::trim);
    if text == "new" {
        return Ok(Target::New);
    }
    if let Some((name, value)) = text
        .split_once('=')
        .filter(|(name, _)| !name.trim().is_empty())
    {
        let name = name.trim();
        if name.starts_with(RESERVED_LABELS) {
            return Err(format!(
                "the label `{name}` is reserved: only the program sets names that begin with \
                 `{RESERVED_LABELS}`"
            ));
        }
        return Ok(Target::Label {
            name: name.to_owned(),
            value: value.trim().to_owned(),
        });
    }
    // A part of an id is enough, and `latest` is the newest session.
    let digits = text.chars().filter(char::is_ascii_hexdigit).count();
    let is_part = (1..=ID_DIGITS).contains(&digits)
        && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    match text == "latest" || is_part || text.parse::<SessionId>().is_ok() {
        true => Ok(Target::Id(text.to_owned())),
        false => Err(format!(
            "`{text}` is not a session: write `new`, `label=value`, or the id of a session"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_around_a_label_and_its_value_are_no_part_of_them() {
        let label = |name: &str, value: &str| {
            Ok(Target::Label {
                name: name.to_owned(),
                value: value.to_owned(),
            })
        };
        for (text, expected) in [
            ("channel=ops", label("channel", "ops")),
            (" channel = ops ", label("channel", "ops")),
            ("channel = two words", label("channel", "two words")),
            ("channel=", label("channel", "")),
            ("formula=a=b", label("formula", "a=b")),
            (" new ", Ok(Target::New)),
        ] {
            assert_eq!(target(Some(text)), expected, "{text:?}");
        }
    }
}
