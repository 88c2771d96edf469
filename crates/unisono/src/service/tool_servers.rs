//! Tool servers that a client brings with a session.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, FuturesUnordered, StreamExt as _};
use unisono_api::Code;
use unisono_api::service::{self, ToolServerStates, ToolServers};
use unisono_api::token::Scope;
use unisono_api::tool_server::{ConnectedToolServer, NewToolServer, NewToolServers};
use unisono_config::setup::Setup;
use unisono_model::provider::{Address, Header};
use unisono_runtime::mcp::{
    ClientServersGuard, SEPARATOR, Server, ServerTransport, is_server_name,
};
use unisono_session::agent::Command;

use super::id;
use crate::Local;
use crate::error::Error;

/// The maximum length of a server's name, without the number that distinguishes it.
const NAME_CHARS: usize = 28;
/// The name of a server whose own name has no usable character.
const UNNAMED: &str = "client";
/// The maximum length of a name as the client gives it, in bytes.
const GIVEN_NAME_BYTES: usize = 255;

#[async_trait]
impl ToolServers for Local {
    async fn connect_tool_servers(
        &self,
        session: &str,
        new: &NewToolServers,
    ) -> service::Result<ToolServerStates> {
        self.check_scope(Scope::Admin)?;
        let session = self.open(id("session", session)?).await?;
        let (given, servers) = read(&self.setup(), &new.servers)?;
        let held = self.runtime()?.hold_servers(session.id(), servers);
        let held = Arc::new(held.await.map_err(Error::from)?);
        let each = given.into_iter().map(|(name, server)| {
            let held = held.clone();
            async move { Ok(state(&held, name, server).await) }
        });
        let answered = each.collect::<FuturesUnordered<_>>();
        let rest = stream::once(async move {
            let _held = held;
            std::future::pending().await
        });
        Ok(answered.chain(rest).boxed())
    }
}

/// A server once it has listed its tools, or failed.
async fn state(held: &ClientServersGuard, name: String, server: Arc<str>) -> ConnectedToolServer {
    let offers = held.offers(&server).await;
    let error = offers.as_ref().err().map(ToString::to_string);
    let tools = offers.into_iter().flatten();
    ConnectedToolServer {
        name,
        server: server.to_string(),
        tools: tools.map(|offer| offer.spec.name.to_string()).collect(),
        error,
    }
}

/// The name that a client gave, and the name in the program.
type Named = (String, Arc<str>);

fn read(setup: &Setup, new: &[NewToolServer]) -> Result<(Vec<Named>, Vec<Server>), Error> {
    let refused = |detail: String| Error::new(Code::Refused, detail);
    if new.is_empty() || new.len() > NewToolServers::MAX {
        let most = NewToolServers::MAX;
        return Err(refused(format!("1 to {most} tool servers are possible")));
    }
    let tools = &setup.loaded.tools;
    let own = tools
        .own
        .iter()
        .filter_map(|tool| tool.split(SEPARATOR).next());
    let mut taken: BTreeSet<String> = own.map(str::to_owned).collect();
    taken.extend(tools.names.iter().cloned());
    let (mut named, mut servers) = (Vec::new(), Vec::new());
    for one in new {
        if one.name.is_empty() || one.name.len() > GIVEN_NAME_BYTES {
            let most = GIVEN_NAME_BYTES;
            return Err(refused(format!(
                "a tool server's name has 1 to {most} bytes"
            )));
        }
        let wrong = |wrong: String| refused(format!("tool server {:?}: {wrong}", one.name));
        let transport = transport(one).map_err(wrong)?;
        let name = server_name(&one.name, &taken);
        taken.insert(name.clone());
        servers.push(tools.brought(&name, transport));
        named.push((one.name.clone(), name.into()));
    }
    Ok((named, servers))
}

fn transport(new: &NewToolServer) -> Result<ServerTransport, String> {
    match (&new.command, &new.url) {
        (Some(program), None) if !program.is_empty() => {
            let text = |text: &String| Arc::from(text.as_str());
            let of_address = !new.headers.is_empty();
            if of_address {
                return Err("`headers` are for a `url`".to_owned());
            }
            Ok(ServerTransport::Program(Command {
                program: text(program),
                args: new.args.iter().map(text).collect(),
                env: new.env.iter().map(|(k, v)| (text(k), text(v))).collect(),
                cwd: new.cwd.as_ref().map(text),
                env_pass: Vec::new(),
            }))
        }
        (None, Some(url)) => {
            let headers = new.headers.iter();
            let headers = headers.map(|(name, value)| Header::new(name, value));
            let headers: Result<_, _> = headers.collect();
            Ok(ServerTransport::Address {
                url: Address::parse(url).map_err(|error| error.to_string())?,
                headers: headers.map_err(|error| error.to_string())?,
                token: None,
            })
        }
        _ => Err("it has either `command` (a program) or `url` (an address)".to_owned()),
    }
}

/// A name that tool servers can have, and no other one has.
fn server_name(given: &str, taken: &BTreeSet<String>) -> String {
    let mut name = String::new();
    for c in given.chars().take(NAME_CHARS) {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_lowercase() || c.is_ascii_digit() => name.push(c),
            _ if name.is_empty() || name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    let name = name.trim_end_matches('-');
    let name = if is_server_name(name) { name } else { UNNAMED };
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    let free = names.find(|name| !taken.contains(name));
    // The numbers do not end.
    free.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_client_becomes_one_that_is_valid_and_free() {
        let taken = BTreeSet::from(["files".to_owned(), "files-2".to_owned()]);
        let long = "x".repeat(300);
        for (given, expected) in [
            ("files", "files-3"),
            ("Git Hub!", "git-hub"),
            ("my__server_", "my-server"),
            ("日本", "client"),
            ("--", "client"),
            (&*long, &*"x".repeat(NAME_CHARS)),
        ] {
            let name = server_name(given, &taken);
            assert_eq!(name, expected, "{given}");
            assert!(is_server_name(&name), "{name}");
        }
    }

    #[test]
    fn a_server_is_a_program_or_an_address() {
        let new = |json: &str| serde_json::from_str::<NewToolServer>(json).unwrap();
        for (json, says) in rows! {
            (r#"{"name": "a"}"#, "either"),
            (r#"{"name": "a", "command": ""}"#, "either"),
            (r#"{"name": "a", "command": "a", "url": "http://a"}"#, "either"),
            (r#"{"name": "a", "command": "a", "headers": {"b": "c"}}"#, "headers"),
            (r#"{"name": "a", "url": "file:///a"}"#, "http"),
            (r#"{"name": "a", "url": "http://a", "headers": {"host": "c"}}"#, "host"),
        } {
            let wrong = transport(&new(json)).unwrap_err();
            assert!(wrong.contains(says), "{json}: {wrong}");
        }
        let secret = new(r#"{"name": "a", "command": "a", "env": {"TOKEN": "secret-1"}}"#);
        assert!(!format!("{secret:?}").contains("secret-1"));
        transport(&secret).unwrap();
    }
}
