//! MCP servers, and approval rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use unisono_model::provider::Address;
use unisono_runtime::mcp::{Reach, Server, is_server_name};
use unisono_runtime::tools::BUILT_IN;
use unisono_session::agent::Command;
use unisono_session::tool::{ApprovalRule, Contract};

use super::{Config, Sources, TimeText, Variables, header};
use crate::diagnostic::{Diagnostic, Diagnostics, Place};

/// The timeout for the start of a server and the list of its tools.
const START_TIMEOUT_MS: u64 = 30_000;
/// The timeout of one call.
const TIMEOUT_MS: u64 = 60_000;

/// `[mcp.<name>]`: a server with tools for agents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct McpServer {
    /// The server program.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables to set.
    pub env: BTreeMap<String, String>,
    /// Further variables to inherit.
    pub env_pass: Vec<String>,
    /// Its working directory, absolute.
    pub cwd: Option<PathBuf>,
    /// The address of a server with streamable HTTP.
    pub url: Option<String>,
    /// Sent with each request.
    pub headers: BTreeMap<String, String>,
    /// The environment variable that holds its bearer token.
    pub token_env: Option<String>,
    /// The timeout for its start and the list of its tools.
    pub start_timeout: Option<TimeText>,
    /// The timeout of one call.
    pub timeout: Option<TimeText>,
    /// The tools to offer, by the server's names.
    pub tools: Vec<String>,
    /// The contracts of its tools, by the server's names.
    pub contracts: BTreeMap<String, String>,
    /// The calls that wait for a person, by the server's names.
    pub approve: Vec<String>,
}

/// The calls of all agents that wait for a person.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Approvals {
    /// Rules: `server__tool`, or `server__tool(argument=value)`.
    pub require: Vec<String>,
    /// The time after which a waiting call is denied.
    pub timeout: TimeText,
}

/// The servers, and the approval rules of every agent.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    /// The valid servers, by name.
    pub servers: Vec<Server>,
    /// The names of all configured servers, including invalid ones.
    pub names: BTreeSet<String>,
    /// Tools of the program itself.
    pub own: BTreeSet<String>,
    /// In the order of their evaluation.
    pub approvals: Vec<ApprovalRule>,
}

impl Tools {
    /// Whether a server of that name is configured.
    pub fn has(&self, server: &str) -> bool {
        self.names.contains(server)
    }
}

/// Parses an approval rule.
///
/// # Errors
/// The error, for people.
pub(crate) fn rule(text: &str) -> Result<ApprovalRule, String> {
    let rule = ApprovalRule::parse(text).map_err(|wrong| format!("the rule `{text}`: {wrong}"))?;
    if BUILT_IN.contains(&&*rule.tool) {
        return Err(format!(
            "the rule `{text}` names a built-in tool; only calls of servers' tools wait for a person"
        ));
    }
    Ok(rule)
}

/// Reads the servers and the rules; errors are reported and omitted.
pub(super) fn read(
    config: &Config,
    sources: &Sources,
    place: &dyn Fn(&[&str]) -> Place,
    found: &mut Diagnostics,
) -> Tools {
    let variables = &sources.variables;
    let mut reader = Reader { place, found };
    let mut tools = Tools {
        own: sources.program.tools.clone(),
        ..Tools::default()
    };
    for text in &config.approvals.require {
        match rule(text) {
            Ok(rule) => tools.approvals.push(rule),
            Err(wrong) => reader.fault(&["approvals", "require"], wrong),
        }
    }
    for (name, own) in &config.mcp {
        tools.names.insert(name.clone());
        if let Some(server) = reader.server(name, own, variables) {
            tools.approvals.extend(reader.rules(name, own));
            tools.servers.push(server);
        }
    }
    tools
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

    fn server(&mut self, name: &str, own: &McpServer, variables: &Variables) -> Option<Server> {
        if !is_server_name(name) {
            let problem = format!(
                "`{name}` cannot be the name of a tool server: letters a-z, digits, `-` and single \
                 `_`, at most 32, no `_` at its end"
            );
            self.fault(&["mcp", name], problem);
            return None;
        }
        let reach = self.reach(name, own, variables);
        let contracts = self.contracts(name, own);
        let time = |own: &Option<TimeText>, default| {
            Duration::from_millis(own.as_ref().map_or(default, TimeText::ms))
        };
        Some(Server {
            name: name.into(),
            reach: reach?,
            start_timeout: time(&own.start_timeout, START_TIMEOUT_MS),
            timeout: time(&own.timeout, TIMEOUT_MS),
            tools: own.tools.iter().map(|tool| tool.as_str().into()).collect(),
            contracts: contracts?,
        })
    }

    fn reach(&mut self, name: &str, own: &McpServer, variables: &Variables) -> Option<Reach> {
        match (&own.command, &own.url) {
            (Some(program), None) => {
                self.without_effect(name, own.token_env.is_some(), "token_env", "url");
                self.without_effect(name, !own.headers.is_empty(), "headers", "url");
                let text = |text: &String| Arc::from(text.as_str());
                Some(Reach::Program(Command {
                    program: program.as_str().into(),
                    args: own.args.iter().map(text).collect(),
                    env: own.env.iter().map(|(k, v)| (text(k), text(v))).collect(),
                    cwd: own.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into()),
                    env_pass: own.env_pass.iter().map(text).collect(),
                }))
            }
            (None, Some(url)) => {
                self.without_effect(name, !own.args.is_empty(), "args", "command");
                self.without_effect(name, !own.env.is_empty(), "env", "command");
                self.without_effect(name, !own.env_pass.is_empty(), "env_pass", "command");
                self.without_effect(name, own.cwd.is_some(), "cwd", "command");
                self.address(name, own, url, variables)
            }
            (None, None) => {
                let problem = format!(
                    "tool server `{name}` has neither `command` (a program) nor `url` (an address)"
                );
                self.fault(&["mcp", name], problem);
                None
            }
            (Some(_), Some(_)) => {
                let problem = format!("tool server `{name}` has both `command` and `url`");
                self.fault(&["mcp", name, "url"], problem);
                None
            }
        }
    }

    fn address(
        &mut self,
        name: &str,
        own: &McpServer,
        url: &str,
        variables: &Variables,
    ) -> Option<Reach> {
        let mut faults = Vec::new();
        let url = Address::parse(url).map_err(|error| faults.push(("url", error.to_string())));
        let mut headers = Vec::new();
        for (name_of, value) in &own.headers {
            match header::read(name_of, value, variables) {
                Ok(header) => headers.push(header),
                Err(problem) => faults.push(("headers", problem)),
            }
        }
        let mut token = None;
        if let Some(variable) = &own.token_env {
            match variables.key(&[variable]) {
                Ok(Some(key)) => token = Some(key),
                Ok(None) => {
                    let problem =
                        format!("the variable {variable} is not set; put the token there");
                    faults.push(("token_env", problem));
                }
                Err(error) => faults.push(("token_env", error.to_string())),
            }
        }
        let sound = faults.is_empty();
        for (key, problem) in faults {
            self.fault(&["mcp", name, key], problem);
        }
        sound.then_some(Reach::Address {
            url: url.ok()?,
            headers,
            token,
        })
    }

    fn contracts(&mut self, name: &str, own: &McpServer) -> Option<Vec<(Arc<str>, Contract)>> {
        let mut contracts = Vec::new();
        for (tool, written) in &own.contracts {
            match Contract::named(written) {
                Some(contract) => contracts.push((Arc::from(tool.as_str()), contract)),
                None => {
                    let known = Contract::ALL.map(Contract::name).join(", ");
                    let problem = format!("`{written}` is no contract; there are: {known}");
                    self.fault(&["mcp", name, "contracts", tool], problem);
                    return None;
                }
            }
        }
        Some(contracts)
    }

    /// The rules of a server, with the tool names that models see.
    fn rules(&mut self, name: &str, own: &McpServer) -> Vec<ApprovalRule> {
        let mut rules = Vec::new();
        for text in &own.approve {
            match ApprovalRule::parse(text) {
                Ok(rule) => rules.push(ApprovalRule {
                    tool: format!("{name}__{}", rule.tool).into(),
                    ..rule
                }),
                Err(wrong) => {
                    let wrong = format!("the rule `{text}`: {wrong}");
                    self.fault(&["mcp", name, "approve"], wrong);
                }
            }
        }
        rules
    }

    fn without_effect(&mut self, name: &str, is_set: bool, key: &str, needs: &str) {
        if is_set {
            let place = (self.place)(&["mcp", name, key]);
            let problem = format!("`{key}` has no effect: it is for servers with `{needs}`");
            let diagnostic = Diagnostic::warning(place, problem);
            self.found.push(diagnostic.on(format!("mcp.{name}.{key}")));
        }
    }
}
