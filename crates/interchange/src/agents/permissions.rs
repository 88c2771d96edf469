//! The permissions of an agent in order; the last one that matches counts.

use unisono_config::document::{Table, Value};

/// All resources of a tool.
pub(super) const ANY: &str = "*";

/// Whether an agent may use a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permission<'t> {
    pub(super) tool: &'t str,
    /// A command, a path or an agent that the tool is used for, or a pattern of them.
    pub(super) resource: &'t str,
    /// `allow`, `ask` or `deny`; none: another value.
    pub(super) effect: Option<&'t str>,
}

/// The permissions of a table by tool, or of a list of rules with `action`, `resource` and `effect`.
/// Another value has none.
pub(super) fn permissions(value: &Value) -> Vec<Permission<'_>> {
    match value {
        Value::Table(table) => table
            .iter()
            .flat_map(|entry| of_tool(&entry.key, &entry.node.value))
            .collect(),
        Value::List(rules) => rules
            .iter()
            .filter_map(|rule| of_rule(&rule.value))
            .collect(),
        _ => Vec::new(),
    }
}

/// One permission for all resources of a tool, or one for each.
fn of_tool<'t>(tool: &'t str, value: &'t Value) -> Vec<Permission<'t>> {
    let permission = |resource: &'t str, effect: &'t Value| Permission {
        tool,
        resource,
        effect: effect.as_text(),
    };
    match value {
        Value::Table(table) => table
            .iter()
            .map(|entry| permission(&entry.key, &entry.node.value))
            .collect(),
        other => vec![permission(ANY, other)],
    }
}

fn of_rule(rule: &Value) -> Option<Permission<'_>> {
    let Value::Table(rule) = rule else {
        return None;
    };
    Some(Permission {
        tool: text(rule, "action")?,
        resource: text(rule, "resource").unwrap_or(ANY),
        effect: text(rule, "effect"),
    })
}

fn text<'t>(table: &'t Table, key: &str) -> Option<&'t str> {
    table.get(key)?.value.as_text()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::agents::source;

    #[test]
    fn a_table_and_a_list_have_the_same_permissions() {
        let table =
            "permission:\n  edit: deny\n  task:\n    \"*\": deny\n    scout: ask\n  lsp: true\n";
        let list = "permission:\n- {action: edit, effect: deny}\n- {action: task, resource: \"*\", effect: deny}\n\
                    - {action: task, resource: scout, effect: ask}\n- {action: lsp, effect: true}\n- text\n";
        let expected = [
            ("edit", "*", Some("deny")),
            ("task", "*", Some("deny")),
            ("task", "scout", Some("ask")),
            ("lsp", "*", None),
        ];
        for text in [table, list] {
            let document = source::parse(Path::new("a.yaml"), text).unwrap();
            let all = permissions(&document.table.get("permission").unwrap().value);
            let all = all.iter().map(|one| (one.tool, one.resource, one.effect));
            assert!(all.eq(expected), "{text}");
        }
        assert!(permissions(&Value::Text("allow".to_owned())).is_empty());
    }
}
