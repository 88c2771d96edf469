//! Hooks, as they are written: programs and servers that sessions ask.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use unisono_model::provider::{Address, Header};
use unisono_runtime::hook::{Hook as Asked, HookReach};
use unisono_session::agent::Command;
use unisono_session::tool::{HookEvent, HookRule, Unanswered};

use super::{Config, Sources, TimeText, Variables, header};
use crate::diagnostic::{Diagnostic, Diagnostics, Place};

/// How long a hook may take that says nothing.
const TIMEOUT_MS: u64 = 10_000;
/// The longest that one may take: what waits for it is not stuck before.
const LONGEST_MS: u64 = 120_000;

/// `[hooks.<name>]`: a program or a server that sessions ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Hook {
    /// When it is asked.
    pub on: Vec<String>,
    /// Before calls of which tools: patterns of names.
    pub tools: Vec<String>,
    /// The program.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables set for it.
    pub env: BTreeMap<String, String>,
    /// Variables that it inherits besides those that every program does.
    pub env_pass: Vec<String>,
    /// Its working directory, absolute.
    pub cwd: Option<PathBuf>,
    /// The address of the server.
    pub url: Option<String>,
    /// Sent with each request.
    pub headers: BTreeMap<String, String>,
    /// The time for one answer.
    pub timeout: Option<TimeText>,
    /// `ignore` or `deny`.
    pub on_failure: Option<String>,
}

/// All hooks: how they are asked, and what sessions know of them. In the order of their names.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// How each is asked.
    pub asked: Vec<Asked>,
    /// When each is asked, and what its failure stands for.
    pub rules: Vec<HookRule>,
}

/// Reads the hooks; what is wrong is told and left out.
pub(super) fn read(
    config: &Config,
    sources: &Sources,
    place: &dyn Fn(&[&str]) -> Place,
    found: &mut Diagnostics,
) -> Hooks {
    let mut reader = Reader { place, found };
    let mut hooks = Hooks::default();
    for (name, own) in &config.hooks {
        let rule = reader.rule(name, own);
        let asked = reader.hook(name, own, &sources.variables);
        if let (Some(rule), Some(asked)) = (rule, asked) {
            hooks.rules.push(rule);
            hooks.asked.push(asked);
        }
    }
    hooks
}

struct Reader<'r> {
    place: &'r dyn Fn(&[&str]) -> Place,
    found: &'r mut Diagnostics,
}

impl Reader<'_> {
    fn fault(&mut self, path: &[&str], problem: impl ToString) {
        let diagnostic = Diagnostic::error((self.place)(path), problem.to_string());
        self.found.push(diagnostic.on(path.join(".")));
    }

    fn warn(&mut self, path: &[&str], problem: impl ToString) {
        let diagnostic = Diagnostic::warning((self.place)(path), problem.to_string());
        self.found.push(diagnostic.on(path.join(".")));
    }

    fn rule(&mut self, name: &str, own: &Hook) -> Option<HookRule> {
        let mut events = Vec::new();
        for text in &own.on {
            let known = HookEvent::ALL.into_iter();
            match known.clone().find(|event| event.name() == text) {
                Some(event) => events.push(event),
                None => {
                    let names: Vec<&str> = known.map(HookEvent::name).collect();
                    let problem = format!("there is no `{text}`; there are: {}", names.join(", "));
                    self.fault(&["hooks", name, "on"], problem);
                    return None;
                }
            }
        }
        if events.is_empty() {
            let problem = format!(
                "hook `{name}` is never asked: name what it is asked about in `on`, such as \
                 [\"before_tool_call\"]"
            );
            self.fault(&["hooks", name], problem);
            return None;
        }
        if !own.tools.is_empty() && !events.contains(&HookEvent::BeforeToolCall) {
            let problem = "`tools` has no effect: it is for `before_tool_call`";
            self.warn(&["hooks", name, "tools"], problem);
        }
        let on_failure = match own.on_failure.as_deref() {
            Some("deny") => Unanswered::Deny,
            _ => Unanswered::Ignore,
        };
        if on_failure == Unanswered::Deny && !events.iter().any(|event| event.may_deny()) {
            let problem = "\"deny\" has no effect: only turn_accepted and before_tool_call can be \
                           denied";
            self.warn(&["hooks", name, "on_failure"], problem);
        }
        let tools = own.tools.iter();
        Some(HookRule {
            name: name.into(),
            events,
            tools: tools.map(|tool| tool.as_str().into()).collect(),
            on_failure,
        })
    }

    fn hook(&mut self, name: &str, own: &Hook, variables: &Variables) -> Option<Asked> {
        let ms = own.timeout.as_ref().map_or(TIMEOUT_MS, TimeText::ms);
        if ms > LONGEST_MS {
            let problem = format!("a hook may take {} s at most", LONGEST_MS / 1_000);
            self.fault(&["hooks", name, "timeout"], problem);
        }
        let reach = match (&own.command, &own.url) {
            (Some(program), None) => {
                let text = |text: &String| Arc::from(text.as_str());
                Some(HookReach::Program(Command {
                    program: program.as_str().into(),
                    args: own.args.iter().map(text).collect(),
                    env: own.env.iter().map(|(k, v)| (text(k), text(v))).collect(),
                    cwd: own.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into()),
                    env_pass: own.env_pass.iter().map(text).collect(),
                }))
            }
            (None, Some(url)) => self.address(name, own, url, variables),
            (None, None) => {
                let problem = format!(
                    "hook `{name}` has neither `command` (a program) nor `url` (an address)"
                );
                self.fault(&["hooks", name], problem);
                None
            }
            (Some(_), Some(_)) => {
                let problem = format!("hook `{name}` has both `command` and `url`");
                self.fault(&["hooks", name, "url"], problem);
                None
            }
        };
        Some(Asked {
            name: name.into(),
            reach: reach?,
            timeout: Duration::from_millis(ms),
        })
    }

    fn address(
        &mut self,
        name: &str,
        own: &Hook,
        url: &str,
        variables: &Variables,
    ) -> Option<HookReach> {
        let url = Address::endpoint(url);
        let url = url.map_err(|error| self.fault(&["hooks", name, "url"], error));
        let mut headers: Vec<Header> = Vec::new();
        for (of, value) in &own.headers {
            match header::read(of, value, variables) {
                Ok(header) => headers.push(header),
                Err(problem) => {
                    self.fault(&["hooks", name, "headers"], problem);
                    return None;
                }
            }
        }
        Some(HookReach::Address {
            url: url.ok()?,
            headers,
        })
    }
}
