//! The tool servers of an agent, their tools, and the calls that wait for a person.
//!
//! A server is defined in the configuration and may serve many agents. References to a configured
//! server carry over; for another one, the report shows its configuration.

use std::collections::BTreeSet;

use super::rule::{Taken, id};
use super::write::Draft;
use unisono_config::document::{Entry, Value};

/// Answers to the question when a person is asked, by those who ask first.
const ASK: [&str; 4] = ["untrusted", "on-request", "default", "ask"];
/// By those who do not.
const NEVER: [&str; 4] = ["never", "bypassPermissions", "dontAsk", "allow"];

/// The servers that are configured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Servers<'s>(pub(super) &'s BTreeSet<String>);

impl Servers<'_> {
    /// Takes the servers an agent has: a list of names, or definitions by name.
    pub(super) fn take(self, key: &Taken<'_>, draft: &mut Draft) {
        match key.value {
            Value::Table(table) => {
                for entry in table.iter() {
                    self.one(&entry.key, Some(&entry.node.value), key, draft);
                }
            }
            Value::List(items) => {
                for item in items {
                    match &item.value {
                        Value::Table(table) => {
                            for entry in table.iter() {
                                self.one(&entry.key, Some(&entry.node.value), key, draft);
                            }
                        }
                        other => match other.as_text() {
                            Some(name) => self.one(name, None, key, draft),
                            None => key.lost(draft, "an item of it is no name"),
                        },
                    }
                }
            }
            _ => {
                for name in key.names(draft) {
                    self.one(&name, None, key, draft);
                }
            }
        }
    }

    fn one(self, name: &str, defined: Option<&Value>, key: &Taken<'_>, draft: &mut Draft) {
        let own = id(name);
        if self.0.contains(&own) {
            draft.servers.insert(own);
            return;
        }
        let how = defined.map(settings).unwrap_or_default();
        let how = match how.is_empty() {
            true => String::new(),
            false => format!(" with {how}"),
        };
        let reason = format!(
            "no server `{own}` is configured: add `[mcp.{own}]`{how}, then import it again with --force"
        );
        key.lost(draft, &reason);
    }

    /// A tool of a configured server, as it is called here, or a pattern of such.
    pub(super) fn tool(self, name: &str) -> Option<String> {
        let name = name.split('(').next().unwrap_or(name).trim();
        let bare = name
            .strip_prefix("mcp__")
            .or_else(|| name.strip_prefix("mcp_"))
            .unwrap_or(name);
        // Of servers whose names begin alike, the longer one is meant.
        self.0.iter().rev().find_map(|server| {
            let rest = bare.strip_prefix(server.as_str())?;
            let tool = ["__", "/", "_"]
                .into_iter()
                .find_map(|apart| rest.strip_prefix(apart));
            match (rest, tool) {
                ("", _) | (_, Some("")) => Some(format!("{server}__*")),
                (_, Some(tool)) => Some(format!("{server}__{tool}")),
                (_, None) => None,
            }
        })
    }

    /// Takes who is asked before a call: a person, or nobody. Where an agent has no tools of
    /// servers there is nothing to ask about.
    pub(super) fn asks(self, key: &Taken<'_>, draft: &mut Draft, otherwise: &str) {
        match key.value.as_text().map(str::trim) {
            Some(word) if ASK.contains(&word) => draft.asks = true,
            Some(word) if NEVER.contains(&word) => {}
            _ => key.lost(draft, otherwise),
        }
    }

    /// Takes rights by tool: `allow`, `ask` or `deny`.
    pub(super) fn rights(self, key: &Taken<'_>, draft: &mut Draft, otherwise: &str) {
        let Value::Table(table) = key.value else {
            return self.asks(key, draft, otherwise);
        };
        let unknown = |entry: &&Entry| {
            // Whom it may give tasks to is read elsewhere.
            if entry.key == "task" {
                return false;
            }
            match (self.tool(&entry.key), entry.node.value.as_text()) {
                (Some(tool), Some("ask")) => draft.approve.push(tool),
                (Some(tool), Some("deny")) => draft.denied.push(tool),
                // What is not there needs no denying.
                (Some(_), Some("allow")) | (None, Some("deny")) => {}
                _ => return true,
            }
            false
        };
        let lost = table.iter().filter(unknown).count();
        if lost > 0 {
            key.lost(draft, otherwise);
        }
    }
}

/// What a definition has that can be said without a secret, as it is written here.
fn settings(defined: &Value) -> String {
    let Value::Table(table) = defined else {
        return String::new();
    };
    let names: Vec<String> = match table.get("env").map(|node| &node.value) {
        Some(Value::Table(env)) => env.iter().map(|entry| format!("{:?}", entry.key)).collect(),
        _ => Vec::new(),
    };
    let passed = (!names.is_empty()).then(|| format!("`env_pass = [{}]`", names.join(", ")));
    let each = ["command", "args", "url"].into_iter().filter_map(|key| {
        let quoted = |text: &str| format!("{text:?}");
        let value = match &table.get(key)?.value {
            Value::List(items) => {
                let items = items.iter().filter_map(|item| item.value.as_text());
                format!("[{}]", items.map(quoted).collect::<Vec<_>>().join(", "))
            }
            other => quoted(other.as_text()?),
        };
        Some(format!("`{key} = {value}`"))
    });
    each.chain(passed).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_of_servers_have_one_name_here() {
        let known = ["files", "files_old", "mail"].map(str::to_owned);
        let known = BTreeSet::from(known);
        let cases = [
            ("mcp__files__read", Some("files__read")),
            ("mcp__files", Some("files__*")),
            ("mcp__files__*", Some("files__*")),
            ("files/read", Some("files__read")),
            ("files/*", Some("files__*")),
            ("mail_*", Some("mail__*")),
            ("mcp_mail_send", Some("mail__send")),
            ("files_old_read", Some("files_old__read")),
            ("mcp__files__read(path)", Some("files__read")),
            ("mailer", None),
            ("mcp__other__read", None),
            ("Read", None),
            ("", None),
        ];
        for (name, expected) in cases {
            assert_eq!(Servers(&known).tool(name).as_deref(), expected, "{name:?}");
        }
    }
}
