//! MCP servers, and approval rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use unisono_model::provider::{Address, Key};
use unisono_runtime::mcp::{SEPARATOR, Server, ServerTransport, is_server_name};
use unisono_runtime::tools::BUILT_IN;
use unisono_session::agent::ToolKind;
use unisono_session::tool::{ApprovalRule, Contract, matches};

use super::transport::{ChosenTransport, Reader, Transport};
use super::{Config, Sources, TimeText, Variables};
use crate::diagnostic::{Diagnostics, Place};
use crate::skills;

/// The timeout for the start of a server and the list of its tools.
const START_TIMEOUT_MS: u64 = 30_000;
/// The timeout of one call.
const TIMEOUT_MS: u64 = 60_000;

/// `[mcp.<name>]`: a server with tools for agents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct McpServer {
    /// The server: a program, or an address with streamable HTTP.
    #[serde(flatten)]
    pub transport: Transport,
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
    /// Whether its skills are offered to agents.
    pub skills: bool,
}

/// The calls of all agents that wait for a person.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Approvals {
    /// Rules: `server__tool`, or `server__tool(argument=value)`.
    pub require: Vec<String>,
    /// The time after which a waiting call is denied.
    pub timeout: TimeText,
    /// The contracts of tools whose server a client brings with a session: `server__tool`.
    #[serde(default)]
    pub contracts: BTreeMap<String, String>,
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
    /// The contracts of tools whose server a client brings: patterns of server, patterns of the
    /// server's own names.
    brought: Vec<(Arc<str>, Arc<str>, Contract)>,
}

impl Tools {
    /// Whether a server of that name is configured.
    pub fn has(&self, server: &str) -> bool {
        self.names.contains(server)
    }

    /// A tool server that a client brings with a session. Its tools are `at_most_once` unless
    /// `approvals.contracts` overrides this: the server's own declarations are not trusted.
    pub fn brought(&self, name: &str, transport: ServerTransport) -> Server {
        let mut contracts = vec![(Arc::from("*"), Contract::AtMostOnce)];
        let own = self.brought.iter();
        let own = own.filter(|(server, ..)| matches(server, name));
        contracts.extend(own.map(|(_, tool, contract)| (tool.clone(), *contract)));
        Server {
            name: name.into(),
            transport,
            start_timeout: Duration::from_millis(START_TIMEOUT_MS),
            timeout: Duration::from_millis(TIMEOUT_MS),
            tools: Vec::new(),
            contracts,
            skills: false,
        }
    }
}

/// Parses an approval rule; `own` are the tools of the program.
///
/// # Errors
/// The error, for people.
pub(crate) fn rule(text: &str, own: &BTreeSet<String>) -> Result<ApprovalRule, String> {
    let rule = ApprovalRule::parse(text).map_err(|wrong| format!("the rule `{text}`: {wrong}"))?;
    if BUILT_IN.contains(&&*rule.tool) {
        return Err(format!(
            "the rule `{text}` names a built-in tool; only calls of servers' tools wait for a person"
        ));
    }
    if !may_match(&rule.tool, own) {
        return Err(format!(
            "the rule `{text}` matches no call; write a tool of a server as <server>__<tool>"
        ));
    }
    Ok(rule)
}

/// Whether the tool of a rule may match calls: of servers, of the program, of `skill`, or of coding
/// agents, which are named by their kinds.
pub(super) fn may_match(tool: &str, own: &BTreeSet<String>) -> bool {
    let is_pattern = tool.contains('*') || tool.contains(SEPARATOR);
    is_pattern || tool == skills::TOOL || own.contains(tool) || ToolKind::from_name(tool).is_some()
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
        match rule(text, &tools.own) {
            Ok(rule) => tools.approvals.push(rule),
            Err(wrong) => reader.fault(&["approvals", "require"], wrong),
        }
    }
    for (pattern, written) in &config.approvals.contracts {
        let key = ["approvals", "contracts", pattern];
        let Some((server, tool)) = pattern.split_once(SEPARATOR) else {
            let problem = format!("`{pattern}` is not a tool: write it as server__tool");
            reader.fault(&key, problem);
            continue;
        };
        if let Some(contract) = reader.contract(&key, written) {
            tools.brought.push((server.into(), tool.into(), contract));
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

impl Reader<'_> {
    fn server(&mut self, name: &str, own: &McpServer, variables: &Variables) -> Option<Server> {
        if !is_server_name(name) {
            let problem = format!(
                "`{name}` cannot be the name of a tool server: letters a-z, digits, `-` and single \
                 `_`, at most 32, no `_` at its end"
            );
            self.fault(&["mcp", name], problem);
            return None;
        }
        self.own_names(name, own);
        let only_excludes = |tool: &String| tool.starts_with('!') && tool != "!*";
        if !own.tools.is_empty() && own.tools.iter().all(only_excludes) {
            let problem =
                "`tools` offers no tool, as it only excludes some; add \"*\" for all others";
            self.warn(&["mcp", name, "tools"], problem);
        }
        let reach = self.reach(name, own, variables);
        let contracts = self.contracts(name, own);
        let time = |own: &Option<TimeText>, default| {
            Duration::from_millis(own.as_ref().map_or(default, TimeText::ms))
        };
        Some(Server {
            name: name.into(),
            transport: reach?,
            start_timeout: time(&own.start_timeout, START_TIMEOUT_MS),
            timeout: time(&own.timeout, TIMEOUT_MS),
            tools: own.tools.iter().map(|tool| tool.as_str().into()).collect(),
            contracts: contracts?,
            skills: own.skills,
        })
    }

    /// Warns of tools that are named as models see them: the table of a server has the server's names.
    fn own_names(&mut self, name: &str, own: &McpServer) {
        let server = format!("{name}{SEPARATOR}");
        let all: [(&str, Vec<&String>); 3] = [
            ("tools", own.tools.iter().collect()),
            ("approve", own.approve.iter().collect()),
            ("contracts", own.contracts.keys().collect()),
        ];
        for (key, names) in all {
            let mut names = names.iter().map(|written| written.trim_start_matches('!'));
            if let Some(bare) = names.find_map(|written| written.strip_prefix(server.as_str())) {
                let problem = format!(
                    "`{server}{bare}` is the name for models; write the server's own name, `{bare}`"
                );
                self.warn(&["mcp", name, key], problem);
            }
        }
    }

    fn reach(
        &mut self,
        name: &str,
        own: &McpServer,
        variables: &Variables,
    ) -> Option<ServerTransport> {
        let table = ["mcp", name];
        match self.transport(table, "tool server", &own.transport)? {
            ChosenTransport::Program(command) => {
                if own.token_env.is_some() {
                    self.without_effect(table, "token_env", "url");
                }
                Some(ServerTransport::Program(command))
            }
            ChosenTransport::Url(url) => {
                let url = Address::parse(url);
                let url = url.map_err(|error| self.fault(&["mcp", name, "url"], error));
                let headers = self.headers(table, &own.transport, variables);
                let token = self.token(name, own, variables);
                let (url, headers, token) = (url.ok()?, headers?, token?);
                Some(match (headers, token) {
                    (Ok(headers), Ok(token)) => ServerTransport::Address {
                        url,
                        headers,
                        token,
                    },
                    (Err(reason), _) | (_, Err(reason)) => ServerTransport::Unset { reason },
                })
            }
        }
    }

    /// Its bearer token, if it has one, or why it cannot be had: its variable is not set, which only
    /// the server's agents need. None: it is invalid.
    fn token(
        &mut self,
        name: &str,
        own: &McpServer,
        variables: &Variables,
    ) -> Option<Result<Option<Key>, Arc<str>>> {
        let Some(variable) = &own.token_env else {
            return Some(Ok(None));
        };
        let path = ["mcp", name, "token_env"];
        match variables.key(&[variable]) {
            Ok(Some(key)) => Some(Ok(Some(key))),
            Ok(None) => {
                let problem = format!("the variable {variable} is not set; put the token there");
                self.warn(&path, &problem);
                Some(Err(problem.into()))
            }
            Err(error) => {
                self.fault(&path, error);
                None
            }
        }
    }

    fn contracts(&mut self, name: &str, own: &McpServer) -> Option<Vec<(Arc<str>, Contract)>> {
        let each = own.contracts.iter().map(|(tool, written)| {
            let contract = self.contract(&["mcp", name, "contracts", tool], written)?;
            Some((Arc::from(tool.as_str()), contract))
        });
        each.collect()
    }

    fn contract(&mut self, key: &[&str], written: &str) -> Option<Contract> {
        let contract = Contract::from_name(written);
        if contract.is_none() {
            let known = Contract::ALL.map(Contract::name).join(", ");
            let problem = format!("`{written}` is not a contract; use one of: {known}");
            self.fault(key, problem);
        }
        contract
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
}
