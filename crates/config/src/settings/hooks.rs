//! Hooks, as they are written: programs and servers that sessions ask.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use unisono_model::provider::Address;
use unisono_runtime::hook::{Hook as Asked, HookTarget};
use unisono_session::tool::{HookEvent, HookFailurePolicy, HookRule};

use super::mcp::may_match;
use super::transport::{ChosenTransport, Reader, Transport};
use super::{Config, Sources, TimeText, Variables};
use crate::diagnostic::{Diagnostics, Place};

/// The default time limit of a hook.
const TIMEOUT_MS: u64 = 10_000;
/// The maximum time limit of a hook, so that its session does not count as stuck.
const LONGEST_MS: u64 = 120_000;

/// `[hooks.<name>]`: a program or a server that sessions ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Hook {
    /// The moments at which it is asked.
    pub on: Vec<String>,
    /// The tools before whose calls it is asked: patterns of names.
    pub tools: Vec<String>,
    /// The program or address of the hook.
    #[serde(flatten)]
    pub transport: Transport,
    /// The time for one answer.
    pub timeout: Option<TimeText>,
    /// `ignore` or `deny`.
    pub on_failure: Option<String>,
}

/// All hooks in the order of their names: their transports, and their rules for sessions.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// The transport of each hook.
    pub endpoints: Vec<Asked>,
    /// The moments of each hook, and the effect of its failure.
    pub rules: Vec<HookRule>,
}

/// Reads the hooks; reports and skips invalid ones.
pub(super) fn read(
    config: &Config,
    sources: &Sources,
    place: &dyn Fn(&[&str]) -> Place,
    found: &mut Diagnostics,
) -> Hooks {
    let mut reader = Reader { place, found };
    let mut hooks = Hooks::default();
    for (name, own) in &config.hooks {
        let rule = reader.hook_rule(name, own, &sources.program.tools);
        let asked = reader.hook(name, own, &sources.variables);
        if let (Some(rule), Some(asked)) = (rule, asked) {
            hooks.rules.push(rule);
            hooks.endpoints.push(asked);
        }
    }
    hooks
}

impl Reader<'_> {
    /// The rule of a hook; `of_program` are the tools of the program.
    fn hook_rule(
        &mut self,
        name: &str,
        own: &Hook,
        of_program: &BTreeSet<String>,
    ) -> Option<HookRule> {
        let mut events = Vec::new();
        for text in &own.on {
            match HookEvent::from_name(text) {
                Some(event) => events.push(event),
                None => {
                    let names = HookEvent::ALL.map(HookEvent::name).join(", ");
                    let problem = format!("`{text}` is unknown; use one of: {names}");
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
        let mut tools = own.tools.iter();
        if let Some(unmatched) = tools.find(|tool| !may_match(tool, of_program)) {
            let problem = format!(
                "`{unmatched}` matches no call; write a tool of a server as <server>__<tool>"
            );
            self.fault(&["hooks", name, "tools"], problem);
        }
        let on_failure = match own.on_failure.as_deref() {
            Some("deny") => HookFailurePolicy::Deny,
            _ => HookFailurePolicy::Ignore,
        };
        if on_failure == HookFailurePolicy::Deny && !events.iter().any(|event| event.may_deny()) {
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
        let table = ["hooks", name];
        let reach = match self.transport(table, "hook", &own.transport)? {
            ChosenTransport::Program(command) => HookTarget::Program(command),
            ChosenTransport::Url(url) => {
                let url = Address::endpoint(url);
                let url = url.map_err(|error| self.fault(&["hooks", name, "url"], error));
                let headers = self.headers(table, &own.transport, variables);
                let (url, headers) = (url.ok()?, headers?);
                match headers {
                    Ok(headers) => HookTarget::Address { url, headers },
                    Err(reason) => HookTarget::Unset { reason },
                }
            }
        };
        Some(Asked {
            name: name.into(),
            target: reach,
            timeout: Duration::from_millis(ms),
        })
    }
}
