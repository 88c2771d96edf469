//! The agents to which an agent may delegate: `Task(a, b)` among its tools, or its permissions.

use super::permissions::{ANY, permissions};
use super::rule::{DELEGATE, Importer, SourceKey, id};
use super::write::Draft;

/// The names of the delegation tool in other programs.
const DELEGATES: [&str; 6] = [
    "task",
    "agent",
    "custom-agent",
    "runsubagent",
    "subagent",
    "delegate",
];

pub(super) fn is_delegation(tool: &str) -> bool {
    let bare = tool.split(['(', '/']).next().unwrap_or(tool).trim();
    DELEGATES.contains(&bare.to_lowercase().as_str())
}

pub(super) fn named_agents(tool: &str) -> Vec<String> {
    let inner = tool.split_once('(').map(|(_, rest)| rest.trim_end());
    let inner = inner.map(|rest| rest.strip_suffix(')').unwrap_or(rest));
    let names = inner.unwrap_or_default().split(',').map(str::trim);
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// The comma-separated items of a text; commas in parentheses do not separate.
pub(super) fn items(text: &str) -> Vec<String> {
    let (mut items, mut depth) = (vec![String::new()], 0_usize);
    for c in text.chars() {
        depth = match c {
            '(' => depth + 1,
            ')' => depth.saturating_sub(1),
            _ => depth,
        };
        match items.last_mut() {
            Some(item) if c != ',' || depth > 0 => item.push(c),
            _ => items.push(String::new()),
        }
    }
    let plain = |item: &String| item.trim().trim_matches(['"', '\'']).trim().to_owned();
    let items = items.iter().map(plain);
    items.filter(|item| !item.is_empty()).collect()
}

/// The name of an agent in a subdirectory: `team/scout` is in `scout.md`.
fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

impl Importer<'_> {
    /// Gives an agent the tool `delegate`. A definition cannot limit it to the named agents: it
    /// chooses from the agents of its turn.
    pub(super) fn may_delegate_to(&self, names: &[String], key: &SourceKey<'_>, draft: &mut Draft) {
        draft.tool(DELEGATE);
        let ids = names
            .iter()
            .filter(|name| *name != ANY)
            .map(|name| id(name));
        let (here, elsewhere): (Vec<String>, Vec<String>) =
            ids.partition(|id| self.known.agents.contains(id));
        if !elsewhere.is_empty() {
            let names = elsewhere.join(", ");
            let reason = format!(
                "no such agents here to give tasks to: {names}; import them too, then this one \
                 again with --force"
            );
            key.note_lost(draft, &reason);
        }
        if !here.is_empty() {
            let reason = format!(
                "it may give tasks to the agents of its turn (`turn.agents`, --agents), not only \
                 to these: run it with --agents {}",
                here.join(",")
            );
            key.note_changed(draft, &reason);
        }
    }

    /// Converts the permissions to delegate: for all agents, or for each name or pattern.
    pub(super) fn may_delegate(&self, key: &SourceKey<'_>, draft: &mut Draft) {
        let all = permissions(key.value).into_iter();
        let rules: Vec<(&str, &str)> = all
            .filter(|permission| is_delegation(permission.tool))
            .filter_map(|permission| Some((permission.resource, permission.effect?)))
            .collect();
        let allows = |word: &str| matches!(word, "allow" | "ask");
        if rules.iter().any(|(_, word)| *word == "ask") {
            key.note_changed(
                draft,
                "nobody is asked before a task is given to another agent",
            );
        }
        // A rule for all overrides the rules before it.
        let any = rules.iter().rposition(|(name, _)| *name == ANY);
        let rest = &rules[any.map_or(0, |at| at + 1)..];
        let is_pattern = |name: &str| name.contains(['*', '?']);
        let patterns: Vec<&str> = rest
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| is_pattern(name))
            .collect();
        let named = rest.iter().filter(|(name, _)| !is_pattern(name));
        let (allowed, denied): (Vec<_>, Vec<_>) = named.partition(|(_, word)| allows(word));
        let allowed: Vec<String> = allowed.iter().map(|(path, _)| file_name(path)).collect();
        if !patterns.is_empty() {
            let reason = format!(
                "patterns of agents do not carry over: {}; name the agents with --agents",
                patterns.join(", ")
            );
            key.note_lost(draft, &reason);
        }
        match any.is_some_and(|at| allows(rules[at].1)) {
            true => {
                draft.tool(DELEGATE);
                if !denied.is_empty() {
                    let names: Vec<&str> = denied.iter().map(|(name, _)| *name).collect();
                    let reason = format!(
                        "it may give tasks to all but {}: name the others with --agents",
                        names.join(", ")
                    );
                    key.note_lost(draft, &reason);
                }
            }
            false if !allowed.is_empty() => self.may_delegate_to(&allowed, key, draft),
            // A missing permission need not be denied.
            false => draft.is_delegation_denied |= any.is_some() && patterns.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_parentheses_separate_nothing() {
        let cases: [(&str, &[&str]); 6] = [
            (
                "Read, Task(a, b), Bash(git log:*)",
                &["Read", "Task(a, b)", "Bash(git log:*)"],
            ),
            ("\"Read\", 'Grep'", &["Read", "Grep"]),
            ("Task(a, b", &["Task(a, b"]),
            ("a), b", &["a)", "b"]),
            ("", &[]),
            (",,", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(items(text), expected, "{text:?}");
        }
        assert_eq!(
            named_agents("Task(worker, researcher)"),
            ["worker", "researcher"]
        );
        assert_eq!(named_agents("Task(worker"), ["worker"]);
        assert!(named_agents("Task").is_empty() && named_agents("Task()").is_empty());
        assert!(is_delegation("Task(a)") && is_delegation("agent") && !is_delegation("Read"));
    }
}
