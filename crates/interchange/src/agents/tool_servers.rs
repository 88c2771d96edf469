//! The tool servers of an agent, their tools, and the calls that wait for a person.
//!
//! A server is defined in the configuration and may serve many agents. References to a configured
//! server carry over; for another one, the report shows its configuration.

use std::collections::BTreeSet;

use super::delegating;
use super::permissions::{ANY, permissions};
use super::rule::{SourceKey, id};
use super::write::Draft;
use unisono_config::document::Value;

/// Approval modes that ask before a call of a server's tool.
const ASK: [&str; 5] = ["untrusted", "on-request", "default", "acceptEdits", "ask"];
/// The approval mode that refuses every call that no rule allows.
const REFUSE: &str = "dontAsk";
/// Approval modes that never ask.
const NEVER: [&str; 3] = ["never", "bypassPermissions", "allow"];

#[derive(Clone, Copy, Debug)]
pub(super) struct Servers<'s>(pub(super) &'s BTreeSet<String>);

impl Servers<'_> {
    /// Converts the servers of an agent: a list of names, or definitions by name.
    pub(super) fn take(self, key: &SourceKey<'_>, draft: &mut Draft) {
        match key.value {
            Value::Table(table) => {
                for entry in table.iter() {
                    self.add_server(&entry.key, Some(&entry.node.value), key, draft);
                }
            }
            Value::List(items) => {
                for item in items {
                    match &item.value {
                        Value::Table(table) => {
                            for entry in table.iter() {
                                self.add_server(&entry.key, Some(&entry.node.value), key, draft);
                            }
                        }
                        other => match other.as_text() {
                            Some(name) => self.add_server(name, None, key, draft),
                            None => key.note_lost(draft, "one of its items is not a name"),
                        },
                    }
                }
            }
            _ => {
                for name in key.names(draft) {
                    self.add_server(&name, None, key, draft);
                }
            }
        }
    }

    fn add_server(
        self,
        name: &str,
        defined: Option<&Value>,
        key: &SourceKey<'_>,
        draft: &mut Draft,
    ) {
        let own = id(name);
        if self.0.contains(&own) {
            draft.servers.insert(own);
            return;
        }
        let how = defined.map(format_settings).unwrap_or_default();
        let how = match how.is_empty() {
            true => String::new(),
            false => format!(" with {how}"),
        };
        let reason = format!(
            "no server `{own}` is configured: add `[mcp.{own}]`{how}, then import it again with --force"
        );
        key.note_lost(draft, &reason);
    }

    /// The name here of a configured server's tool, or a pattern of tools.
    pub(super) fn tool(self, name: &str) -> Option<String> {
        let name = name.split('(').next().unwrap_or(name).trim();
        let bare = name
            .strip_prefix("mcp__")
            .or_else(|| name.strip_prefix("mcp_"))
            .unwrap_or(name);
        // If one server's name begins another's, the longer one is tried first.
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

    /// Converts an approval mode. An agent without tools of servers has nothing to approve.
    pub(super) fn approval_mode(self, key: &SourceKey<'_>, draft: &mut Draft, otherwise: &str) {
        match key.value.as_text().map(str::trim) {
            Some(word) if ASK.contains(&word) => draft.approve_all = true,
            Some(REFUSE) => {
                draft.approve_all = true;
                let how = "it refuses calls that no rule allows; here calls of servers' tools wait \
                           for approval";
                key.note_changed(draft, how);
            }
            Some(word) if NEVER.contains(&word) => {}
            _ => key.note_lost(draft, otherwise),
        }
    }

    /// Converts permissions: `allow`, `ask` or `deny`.
    pub(super) fn permissions(self, key: &SourceKey<'_>, draft: &mut Draft, otherwise: &str) {
        if !matches!(key.value, Value::Table(_) | Value::List(_)) {
            return self.approval_mode(key, draft, otherwise);
        }
        let mut lost = false;
        for permission in permissions(key.value) {
            // Delegation is converted elsewhere.
            if delegating::is_delegation(permission.tool) {
                continue;
            }
            match (self.tool(permission.tool), permission.effect) {
                (Some(tool), Some(effect @ ("allow" | "ask" | "deny")))
                    if permission.resource == ANY =>
                {
                    draft.approve.retain(|known| *known != tool);
                    draft.denied.retain(|known| *known != tool);
                    match effect {
                        "ask" => draft.approve.push(tool),
                        "deny" => draft.denied.push(tool),
                        _ => {}
                    }
                }
                // A missing tool need not be denied.
                (None, Some("deny")) => {}
                _ => lost = true,
            }
        }
        if lost {
            key.note_lost(draft, otherwise);
        }
    }
}

/// The settings of a definition without secrets, in this program's format.
fn format_settings(defined: &Value) -> String {
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
    use std::collections::BTreeMap;
    use std::io;
    use std::path::Path;

    use super::*;
    use crate::agents::{Catalogue, LocalNames, read_text};

    #[test]
    fn a_mode_that_asks_or_refuses_asks_before_calls_of_servers() {
        let catalogue = Catalogue::built_in().unwrap();
        let servers = BTreeSet::from(["scales".to_owned()]);
        let (none, refused) = (BTreeSet::new(), BTreeMap::new());
        let known = LocalNames {
            catalogue: &catalogue,
            servers: &servers,
            skills: &none,
            refused_skills: &refused,
            agents: &none,
        };
        let nothing = |_: &str| Err(io::Error::other("nothing is included"));
        for (mode, is_asking) in [
            ("default", true),
            ("acceptEdits", true),
            ("dontAsk", true),
            ("bypassPermissions", false),
        ] {
            let text = format!(
                "---\nname: a\ndescription: x\npermissionMode: {mode}\nmcpServers: scales\n---\nx"
            );
            let path = Path::new("x/.claude/agents/a.md");
            let mut all = read_text(path, &text, None, known, &nothing).unwrap();
            let agent = all.pop().unwrap().unwrap();
            assert_eq!(agent.text.contains("scales__*"), is_asking, "{mode}");
            assert!(agent.lost.is_empty(), "{mode}");
            assert_eq!(agent.changed.is_empty(), mode != REFUSE, "{mode}");
        }
    }

    #[test]
    fn tools_of_servers_get_one_name() {
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
