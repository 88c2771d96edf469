//! Rules about tools: who may call them, what a repeated call would do, and which calls wait for
//! a person. Values only; a turn keeps those it was accepted with.
//!
//! Names are matched by patterns in which `*` stands for any text, nothing included.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use unisono_context::AgentId;

mod hooks;

pub use hooks::{HookEvent, HookFailurePolicy, HookRule};

/// What a call of a tool does when it is made twice, and so what is done about one of which
/// nobody knows whether it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Contract {
    /// It changes nothing: it is made again.
    Pure,
    /// Made twice under one key it has one effect: it is made again, under that key.
    Idempotent,
    /// Nothing is known of it: it is never made again unless a person says so.
    #[default]
    AtMostOnce,
}

impl Contract {
    /// All of them.
    pub const ALL: [Contract; 3] = [Contract::Pure, Contract::Idempotent, Contract::AtMostOnce];

    /// As the configuration writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Contract::Pure => "pure",
            Contract::Idempotent => "idempotent",
            Contract::AtMostOnce => "at_most_once",
        }
    }

    /// The contract of that name.
    pub fn from_name(name: &str) -> Option<Contract> {
        let mut all = Contract::ALL.into_iter();
        all.find(|contract| contract.name() == name)
    }

    /// Whether a call of unknown outcome may be made again.
    pub const fn is_repeatable(self) -> bool {
        !matches!(self, Contract::AtMostOnce)
    }
}

/// The rules of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRules {
    /// The contracts of its tools, by name; a tool that is missing is called at most once.
    pub contracts: Vec<(Arc<str>, Contract)>,
    /// Which calls wait for a person.
    pub approvals: Vec<ApprovalRule>,
    /// How long they wait before they are denied, in milliseconds; none: for ever.
    pub approval_timeout_ms: Option<u64>,
    /// The hooks of the turn, in the order in which they are asked.
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

    /// The hooks that are asked then, by their positions.
    pub fn hooks_for(&self, event: HookEvent) -> impl Iterator<Item = u32> {
        let all = (0..).zip(&self.hooks);
        let due = all.filter(move |(_, hook)| hook.events.contains(&event));
        due.map(|(index, _)| index)
    }

    /// The hooks that are asked before a call of that tool, by their positions.
    pub fn hooks_before(&self, tool: &str) -> Vec<u32> {
        let all = (0..).zip(&self.hooks);
        let due = all.filter(|(_, hook)| hook.applies_to(tool));
        due.map(|(index, _)| index).collect()
    }

    /// The first rule by which a call waits for a person. `fields` are its arguments, each value
    /// as text under the names that lead to it, joined by dots; those of a list under one name.
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

/// Calls that wait for a person. Written `tool`, or `tool(argument=value, …)`, where each of the
/// arguments has to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRule {
    /// Whose; none: every agent's.
    pub agent: Option<AgentId>,
    /// Of which tools: a pattern.
    pub tool: Arc<str>,
    /// With which arguments: names and patterns of their values.
    pub arguments: Vec<(Arc<str>, Arc<str>)>,
}

impl ApprovalRule {
    /// Reads a rule.
    ///
    /// # Errors
    /// What is wrong with the text.
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
                // A comma that is part of a value.
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

/// Whether a text fits a pattern in which each `*` stands for any text.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    // A split has at least one piece.
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

/// Whether a definition's list of tools allows one: some pattern of it fits, and none of those
/// that begin with `!`.
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
    //! Which texts fit which patterns and rules.

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
