//! Every key of an agent.

use crate::schema::{Key, Kind, key};

const SOME: Kind = Kind::Whole(1, u32::MAX as i64);

/// The keys of a file's front matter, of `agents/<id>.toml`, and of `[agents.<id>]`.
pub(crate) const AGENT: &[Key] = &[
    key("description", Kind::Text),
    key("instructions", Kind::AnyText),
    key("kind", Kind::Text),
    key("model", Kind::Text),
    key("tools", Kind::Texts),
    key("deny_tools", Kind::Texts),
    key("mcp_servers", Kind::Texts),
    key("skills", Kind::Texts),
    key("approve", Kind::Texts),
    key("max_model_calls", SOME),
    key("timeout", Kind::Duration),
    key("retries", Kind::Whole(0, 100)),
    key("max_concurrent", SOME),
    key("max_cost_usd", Kind::Between(0.0, 1e6)),
    key("context", Kind::Choice(&["snapshot", "task_only"])),
    key("prefix", Kind::Choice(&["shared", "own"])),
    key("on_failure", Kind::Choice(&["continue", "fail"])),
    key("temperature", Kind::Between(0.0, 2.0)),
    key("output_schema", Kind::Schema),
    key("cache_warm", Kind::Choice(&["leader", "prewarm", "off"])),
    key("delegates", Kind::Texts),
    key("pipeline", Kind::Texts),
    key("tags", Kind::Texts),
    key("command", Kind::Program),
    key("args", Kind::Texts),
    key("env", Kind::TextMap),
    key("env_pass", Kind::Texts),
    key("cwd", Kind::Path),
    key("url", Kind::Text),
    key("headers", Kind::TextMap),
    key("card_digest", Kind::Text),
    key("contract", Kind::Choice(&["at_most_once", "idempotent"])),
    key("worktree", Kind::Flag),
    key("allow", Kind::Texts),
    key("deny", Kind::Texts),
    key("options", Kind::TextMap),
    key("login", Kind::Text),
];

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../../docs/src/reference/agents.md");

    #[test]
    fn the_book_has_every_key_with_its_values_and_no_other() {
        let mut rows: Vec<(&str, &str)> = PAGE
            .lines()
            .filter_map(|line| {
                let (key, values) = line.strip_prefix("| `")?.split_once("` | ")?;
                Some((key, values))
            })
            .collect();
        for key in AGENT {
            let at = rows.iter().position(|(name, _)| *name == key.name);
            let at = at.unwrap_or_else(|| panic!("`{}` is not in the book", key.name));
            let (_, values) = rows.remove(at);
            if let Kind::Choice(choices) = key.kind {
                for choice in choices {
                    let shown = values.contains(&format!("`{choice}`"));
                    assert!(shown, "`{}: {choice}` is not in the book", key.name);
                }
            }
        }
        assert!(rows.is_empty(), "the book has what there is not: {rows:?}");
    }
}
