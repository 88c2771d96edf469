//! The user and the verb of a call, for the entries of the audit log about calls that change a store
//! without a daemon.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use clap::ArgMatches;
use clap::parser::ValueSource;
use unisono::local::OpenedStore;
use unisono_api::audit::{DAEMON, is_short_name};
use unisono_api::token::{Scope, is_name};
use unisono_config::setup::Setup;
use unisono_context::SessionId;
use unisono_store::audit::{Command, Retention, record, with_audit};

/// The file of this machine's users.
const USERS: &str = "/etc/passwd";
/// Arguments that name an object. The changed session is recorded by the store.
const NAMES: [&str; 6] = ["agent", "call", "owner", "run", "schedule", "token"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verb {
    /// Its words, without arguments: `sessions delete`.
    words: String,
    /// The names in its arguments, by kind.
    object: BTreeMap<Arc<str>, Arc<str>>,
}

impl Verb {
    pub(crate) fn from_matches(mut matches: &ArgMatches) -> Verb {
        let mut words = Vec::new();
        while let Some((word, below)) = matches.subcommand() {
            words.push(word);
            matches = below;
        }
        let given = NAMES.into_iter().filter_map(|kind| {
            // None if this verb does not have the argument, or its type differs.
            let value = matches.try_get_one::<String>(kind).ok().flatten()?;
            let is_given = matches.value_source(kind) == Some(ValueSource::CommandLine);
            let is_name = is_short_name(value) || value.parse::<SessionId>().is_ok();
            (is_given && is_name).then(|| (kind.into(), value.as_str().into()))
        });
        let mut object: BTreeMap<Arc<str>, Arc<str>> = given.collect();
        // The default is a right of a new token as well.
        if let Ok(Some(scope)) = matches.try_get_one::<Scope>("scope") {
            object.insert("scope".into(), scope.name().into());
        }
        Verb {
            words: words.join(" "),
            object,
        }
    }

    /// The store, whose audit log has an entry for each session that this call changes.
    pub(crate) fn with_audit(&self, mut opened: OpenedStore, setup: &Setup) -> OpenedStore {
        if let Some((command, kept)) = self.command(setup) {
            opened.journal = with_audit(&opened.journal, command, kept);
        }
        opened
    }

    /// Records in the audit log that this call has changed the store as a whole; `about` is the kind
    /// and the name of what it concerns.
    pub(crate) async fn record(
        &self,
        opened: &OpenedStore,
        setup: &Setup,
        about: Option<(&str, String)>,
    ) {
        if let Some((mut command, kept)) = self.command(setup) {
            if let Some((kind, name)) = about {
                command.object.insert(kind.into(), name.into());
            }
            record(&opened.journal, command, kept).await;
        }
    }

    /// This call and the retention of the audit log; none if the log is off.
    fn command(&self, setup: &Setup) -> Option<(Command, Retention)> {
        let settings = &setup.loaded.config.audit;
        let command = Command {
            caller: user().into(),
            name: self.words.as_str().into(),
            object: self.object.clone(),
        };
        let kept = Retention {
            days: settings.keep_days,
            entries: settings.max_entries,
        };
        settings.enabled.then_some((command, kept))
    }
}

/// The user of the operating system that runs this process.
fn user() -> String {
    let id = rustix::process::getuid().as_raw();
    let users = fs::read_to_string(USERS).unwrap_or_default();
    name_of(id, &users)
}

/// The name of a user in the lines of [`USERS`], or `uid-` with the id if there is no valid name.
fn name_of(id: u32, users: &str) -> String {
    let mut names = users.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then_some(name)
    });
    let listed = names.next().filter(|name| is_name(name) && *name != DAEMON);
    listed.map_or_else(|| format!("uid-{id}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::help;

    #[test]
    fn a_user_is_known_by_name_or_id() {
        let users = "root:x:0:0::/root:/bin/sh\ndaemon:x:1:1::/:/bin/false\nada:x:1000:1000::/:/bin/sh\n\
            broken\nodd name:x:7:7::/:/\n";
        for (id, expected) in [
            (0, "root"),
            (1000, "ada"),
            (1, "uid-1"),
            (7, "uid-7"),
            (9, "uid-9"),
        ] {
            assert_eq!(name_of(id, users), expected);
        }
    }

    #[test]
    fn a_verb_has_its_words_and_the_names_among_its_arguments() {
        let verb = |line: &str| {
            let words = ["unisono"].into_iter().chain(line.split(' '));
            Verb::from_matches(&help::command().try_get_matches_from(words).unwrap())
        };
        let of = |words: &str, object: &[(&str, &str)]| Verb {
            words: words.to_owned(),
            object: object
                .iter()
                .map(|(kind, name)| ((*kind).into(), (*name).into()))
                .collect(),
        };
        let secret = format!("unisono_{}", "a".repeat(64));
        for (line, expected) in rows! {
            ("tokens revoke ada --json", of("tokens revoke", &[("token", "ada")])),
            ("tokens create ada --owner bob",
             of("tokens create", &[("owner", "bob"), ("scope", "ask"), ("token", "ada")])),
            ("schedules pause nightly", of("schedules pause", &[("schedule", "nightly")])),
            ("sessions delete latest", of("sessions delete", &[])),
            (&format!("tokens revoke {secret}"), of("tokens revoke", &[])),
            ("append latest hello", of("append", &[])),
        } {
            assert_eq!(verb(line), expected, "{line}");
        }
    }
}
