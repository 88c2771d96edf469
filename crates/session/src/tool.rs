//! Rules about tools: who may call them, the effect of a repeated call, and which calls wait for a
//! person. Only values; a turn keeps the rules with which it was accepted.
//!
//! Names are matched by patterns, in which `*` stands for any text, including the empty one.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use unisono_context::AgentId;

mod hooks;

pub use hooks::{HookEvent, HookFailurePolicy, HookRule};

/// The effect of a repeated tool call. It determines the handling of a call with an unknown
/// outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Contract {
    /// No effect: it is repeated.
    Pure,
    /// One effect for all calls under one key: it is repeated under that key.
    Idempotent,
    /// Unknown: it is repeated only if a person says so.
    #[default]
    AtMostOnce,
}

unisono_context::names!(Contract {
    Pure = "pure",
    Idempotent = "idempotent",
    AtMostOnce = "at_most_once",
});

impl Contract {
    /// Whether a call of unknown outcome may be made again.
    pub const fn is_repeatable(self) -> bool {
        !matches!(self, Contract::AtMostOnce)
    }
}

/// The rules of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRules {
    /// The contracts of its tools, by name; a missing tool is called at most once.
    pub contracts: Vec<(Arc<str>, Contract)>,
    /// The calls that wait for a person.
    pub approvals: Vec<ApprovalRule>,
    /// The time after which a waiting call is denied, in milliseconds; none: no limit.
    pub approval_timeout_ms: Option<u64>,
    /// The hooks of the turn, in order.
    pub hooks: Vec<HookRule>,
}

impl ToolRules {
    /// The contract of a tool.
    pub fn contract(&self, tool: &str) -> Contract {
        let mut named = self.contracts.iter().filter(|(name, _)| **name == *tool);
        named
            .next()
            .map_or_else(Contract::default, |(_, contract)| *contract)
    }

    /// The positions of the hooks for this event.
    pub fn hooks_for(&self, event: HookEvent) -> impl Iterator<Item = u32> {
        let all = (0..).zip(&self.hooks);
        let due = all.filter(move |(_, hook)| hook.events.contains(&event));
        due.map(|(index, _)| index)
    }

    /// The positions of the hooks before a call of this tool.
    pub fn hooks_before(&self, tool: &str) -> Vec<u32> {
        let all = (0..).zip(&self.hooks);
        let due = all.filter(|(_, hook)| hook.applies_to(tool));
        due.map(|(index, _)| index).collect()
    }

    /// The first rule that requires an approval of a call. `fields` are its arguments: each value
    /// as text under its dotted path; all values of a list have the same path.
    pub fn approval(
        &self,
        agent: &AgentId,
        tool: &str,
        fields: &[(Arc<str>, Arc<str>)],
    ) -> Option<&ApprovalRule> {
        let mut rules = self.approvals.iter();
        rules.find(|rule| rule.applies_to(agent, tool, fields))
    }
}

/// Calls that wait for a person. Written `tool`, or `tool(argument=value, …)`, in which every
/// argument must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRule {
    /// The agent; none: every agent.
    pub agent: Option<AgentId>,
    /// Pattern of the tools.
    pub tool: Arc<str>,
    /// The arguments: paths, and patterns of their values.
    pub arguments: Vec<(Arc<str>, Arc<str>)>,
}

impl ApprovalRule {
    /// Parses a rule.
    ///
    /// # Errors
    /// The reason why the text is invalid.
    pub fn parse(text: &str) -> Result<ApprovalRule, String> {
        let (tool, inner) = match text.split_once('(') {
            None => (text.trim(), None),
            Some((tool, rest)) => {
                let inner = rest.trim_end().strip_suffix(')');
                let inner = inner.ok_or("it has no `)` at its end")?;
                (tool.trim(), Some(inner))
            }
        };
        if tool.is_empty() {
            return Err("it names no tool".to_owned());
        }
        let mut arguments: Vec<(Arc<str>, String)> = Vec::new();
        for piece in inner.into_iter().flat_map(|inner| inner.split(',')) {
            match (piece.split_once('='), arguments.last_mut()) {
                (Some((name, value)), _) if !name.trim().is_empty() => {
                    arguments.push((name.trim().into(), value.trim().to_owned()));
                }
                // A comma inside a value.
                (None, Some((_, value))) => {
                    value.push(',');
                    value.push_str(piece);
                }
                _ => return Err(format!("`{}` is not `argument=value`", piece.trim())),
            }
        }
        let arguments = arguments.into_iter();
        Ok(ApprovalRule {
            agent: None,
            tool: tool.into(),
            arguments: arguments
                .map(|(name, value)| (name, value.into()))
                .collect(),
        })
    }

    fn applies_to(&self, agent: &AgentId, tool: &str, fields: &[(Arc<str>, Arc<str>)]) -> bool {
        let holds = |(name, pattern): &(Arc<str>, Arc<str>)| {
            let mut values = fields.iter().filter(|(field, _)| field == name);
            values.any(|(_, value)| matches(pattern, value))
        };
        self.agent.as_ref().is_none_or(|own| own == agent)
            && matches(&self.tool, tool)
            && self.arguments.iter().all(holds)
    }
}

impl Display for ApprovalRule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tool)?;
        for (index, (name, pattern)) in self.arguments.iter().enumerate() {
            let before = if index == 0 { "(" } else { ", " };
            write!(f, "{before}{name}={pattern}")?;
        }
        f.write_str(if self.arguments.is_empty() { "" } else { ")" })
    }
}

/// Whether a text matches a pattern, in which each `*` stands for any text.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    // A split has at least one part.
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for piece in pieces {
        if let Some(before) = last.replace(piece) {
            match rest.find(before) {
                Some(at) => rest = &rest[at + before.len()..],
                None => return false,
            }
        }
    }
    match last {
        Some(last) => rest.ends_with(last),
        None => rest.is_empty(),
    }
}

/// The tool by which a lead requests a compaction before the next turn.
pub const COMPACT: &str = "compact";

/// Whether a definition's list of tools allows a tool: at least one pattern matches, and no pattern
/// that begins with `!`.
pub fn allows(tools: &[Arc<str>], name: &str) -> bool {
    let (mut allowed, mut denied) = (false, false);
    for pattern in tools {
        match pattern.strip_prefix('!') {
            Some(pattern) => denied |= matches(pattern, name),
            None => allowed |= matches(pattern, name),
        }
    }
    allowed && !denied
}

#[cfg(test)]
mod tests {
    //! Patterns and rules, and the texts that match them.

    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        let cases = [
            ("", "", true),
            ("", "a", false),
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("*", "anything at all", true),
            ("a*", "a", true),
            ("a*", "ba", false),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("a*b*c", "a--b--c", true),
            ("a*b*c", "a--c--b", false),
            ("a*a", "a", false),
            ("a**b", "ab", true),
            ("rm *", "rm -rf /", true),
            ("rm *", "rmdir", false),
            ("*ab", "aab", true),
            ("*ü*", "für", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern, text), expected, "{pattern:?} on {text:?}");
        }
    }

    #[test]
    fn an_excluded_tool_is_not_allowed_by_another_pattern() {
        let tools = ["recall", "files__*", "!files__delete*"].map(Arc::from);
        for (name, expected) in [
            ("recall", true),
            ("files__read", true),
            ("files__delete_all", false),
            ("read_message", false),
            ("!files__delete", false),
        ] {
            assert_eq!(allows(&tools, name), expected, "{name}");
        }
    }

    #[test]
    fn a_rule_is_read_and_shown_as_it_is_written() {
        for text in [
            "files__write",
            "files__*",
            "shell__run(command=rm *)",
            "db__query(sql=*drop, now*, dry_run=false)",
        ] {
            assert_eq!(ApprovalRule::parse(text).unwrap().to_string(), text);
        }
        for (text, wrong) in [
            ("", "it names no tool"),
            ("(a=b)", "it names no tool"),
            ("run(a=b", "it has no `)` at its end"),
            ("run(a)", "`a` is not `argument=value`"),
            ("run(=b)", "`=b` is not `argument=value`"),
        ] {
            assert_eq!(ApprovalRule::parse(text), Err(wrong.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_rule_applies_to_its_agent_tool_and_arguments() {
        let own = |agent: &str, text: &str| ApprovalRule {
            agent: Some(agent.into()),
            ..ApprovalRule::parse(text).unwrap()
        };
        let rules = ToolRules {
            contracts: vec![("files__read".into(), Contract::Pure)],
            approvals: vec![
                own("intern", "files__*"),
                ApprovalRule::parse("shell__run(command=rm *, where.host=prod*)").unwrap(),
            ],
            approval_timeout_ms: None,
            hooks: Vec::new(),
        };
        let found = |agent: &str, tool: &str, fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(k, v)| ((*k).into(), (*v).into()));
            let fields: Vec<(Arc<str>, Arc<str>)> = fields.collect();
            let rule = rules.approval(&agent.into(), tool, &fields);
            rule.map(|rule| rule.tool.to_string())
        };
        assert_eq!(
            found("intern", "files__read", &[]).as_deref(),
            Some("files__*")
        );
        assert_eq!(found("senior", "files__read", &[]), None);
        let rm = [
            ("command", "rm -r x"),
            ("where.host", "stage"),
            ("where.host", "prod-1"),
        ];
        assert_eq!(
            found("senior", "shell__run", &rm).as_deref(),
            Some("shell__run")
        );
        assert_eq!(found("senior", "shell__run", &rm[..2]), None);
        assert_eq!(found("senior", "shell__run", &rm[1..]), None);
        assert_eq!(rules.contract("files__read"), Contract::Pure);
        assert_eq!(rules.contract("files__write"), Contract::AtMostOnce);
    }
}
