//! The transports of tool servers and hooks: a program, or an address. Both have the same keys.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use unisono_model::provider::Header;
use unisono_session::agent::Command;

use super::Variables;
use super::header::{self, HeaderFault};
use crate::diagnostic::{Diagnostic, Diagnostics, Place};

/// A program or an address, as in the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Transport {
    /// The program.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables to set.
    pub env: BTreeMap<String, String>,
    /// Further variables to inherit.
    pub env_pass: Vec<String>,
    /// Its working directory, absolute.
    pub cwd: Option<PathBuf>,
    /// The address.
    pub url: Option<String>,
    /// Sent with each request.
    pub headers: BTreeMap<String, String>,
}

pub(super) enum ChosenTransport<'t> {
    Program(Command),
    Url(&'t str),
}

/// Reads tables of settings, and reports the errors of a key at its place.
pub(super) struct Reader<'r> {
    pub(super) place: &'r dyn Fn(&[&str]) -> Place,
    pub(super) found: &'r mut Diagnostics,
}

impl Reader<'_> {
    pub(super) fn fault(&mut self, path: &[&str], problem: impl ToString) {
        let diagnostic = Diagnostic::error((self.place)(path), problem.to_string());
        self.found.push(diagnostic.with_key(path.join(".")));
    }

    /// Reports that a table has none of these keys, unless the value of one was invalid.
    pub(super) fn missing(&mut self, table: [&str; 2], keys: &[&str], problem: impl ToString) {
        let is_invalid = keys.iter().any(|key| {
            let key = [table[0], table[1], key].join(".");
            self.found.iter().any(|d| d.key.as_deref() == Some(&*key))
        });
        if !is_invalid {
            self.fault(&table, problem);
        }
    }

    pub(super) fn warn(&mut self, path: &[&str], problem: impl ToString) {
        let diagnostic = Diagnostic::warning((self.place)(path), problem.to_string());
        self.found.push(diagnostic.with_key(path.join(".")));
    }

    /// Warns of a key that only applies to tables with another key.
    pub(super) fn without_effect(&mut self, table: [&str; 2], key: &str, needs: &str) {
        let problem = format!("`{key}` has no effect: it needs `{needs}`");
        self.warn(&[table[0], table[1], key], problem);
    }

    /// The program or the address of a table such as `[mcp.files]`, which is of this `kind`. None: it has
    /// neither, or both.
    pub(super) fn transport<'t>(
        &mut self,
        table: [&str; 2],
        kind: &str,
        own: &'t Transport,
    ) -> Option<ChosenTransport<'t>> {
        let name = table[1];
        match (&own.command, &own.url) {
            (Some(program), None) => {
                if !own.headers.is_empty() {
                    self.without_effect(table, "headers", "url");
                }
                Some(ChosenTransport::Program(command(program, own)))
            }
            (None, Some(url)) => {
                let of_programs = [
                    ("args", !own.args.is_empty()),
                    ("env", !own.env.is_empty()),
                    ("env_pass", !own.env_pass.is_empty()),
                    ("cwd", own.cwd.is_some()),
                ];
                for (key, _) in of_programs.into_iter().filter(|(_, is_set)| *is_set) {
                    self.without_effect(table, key, "command");
                }
                Some(ChosenTransport::Url(url))
            }
            (None, None) => {
                let problem = format!(
                    "{kind} `{name}` has neither `command` (a program) nor `url` (an address)"
                );
                self.missing(table, &["command", "url"], problem);
                None
            }
            (Some(_), Some(_)) => {
                let problem = format!("{kind} `{name}` has both `command` and `url`");
                self.fault(&[table[0], name, "url"], problem);
                None
            }
        }
    }

    /// The headers of its requests, or why they cannot be sent: a variable is not set, which only
    /// their sender needs. None: one is invalid.
    pub(super) fn headers(
        &mut self,
        table: [&str; 2],
        own: &Transport,
        variables: &Variables,
    ) -> Option<Result<Vec<Header>, Arc<str>>> {
        let key = [table[0], table[1], "headers"];
        let (mut headers, mut is_valid) = (Ok(Vec::new()), true);
        for (name, value) in &own.headers {
            match header::read(name, value, variables) {
                Ok(header) => {
                    if let Ok(headers) = &mut headers {
                        headers.push(header);
                    }
                }
                Err(fault @ HeaderFault::Unset { .. }) => {
                    self.warn(&key, &fault);
                    headers = Err(fault.to_string().into());
                }
                Err(fault) => {
                    self.fault(&key, fault);
                    is_valid = false;
                }
            }
        }
        is_valid.then_some(headers)
    }
}

fn command(program: &str, own: &Transport) -> Command {
    let text = |text: &String| Arc::from(text.as_str());
    Command {
        program: program.into(),
        args: own.args.iter().map(text).collect(),
        env: own.env.iter().map(|(k, v)| (text(k), text(v))).collect(),
        cwd: own.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into()),
        env_pass: own.env_pass.iter().map(text).collect(),
    }
}
