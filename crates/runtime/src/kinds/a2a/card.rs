//! The card of a remote agent: its validation, and the endpoint of the agent.

use a2a::{AgentInterface, TRANSPORT_PROTOCOL_JSONRPC};
use serde::Deserialize;
use serde_json::Value;
use unisono_context::Digest;
use unisono_model::provider::Address;
use unisono_session::run::RunCause;

/// The path of the card below an agent's address.
const CARD: &str = "/.well-known/agent-card.json";
/// The media type of structured data.
const JSON: &str = "application/json";
/// The accepted media types of answers.
const OUTPUT: [&str; 2] = ["text/plain", JSON];

/// A remote agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) digest: Digest,
    pub(super) url: String,
    /// The tenant that every request names.
    pub(super) tenant: Option<String>,
    pub(super) is_streaming: bool,
    /// Whether it accepts structured data.
    pub(super) takes_data: bool,
    /// The media types of its answers that this program can read.
    pub(super) output: Vec<&'static str>,
}

/// The used fields of a card. All others may be missing, or of a later version.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Card {
    name: String,
    supported_interfaces: Vec<Value>,
    #[serde(default)]
    capabilities: Capabilities,
    #[serde(default)]
    default_input_modes: Vec<String>,
    #[serde(default)]
    default_output_modes: Vec<String>,
}

#[derive(Default, Deserialize)]
struct Capabilities {
    streaming: Option<bool>,
}

/// The address of the card: the address of a file, or the standard path below an agent's address.
pub(super) fn address(url: &str) -> String {
    let (base, query) = match url.split_once('?') {
        Some((base, query)) => (base, format!("?{query}")),
        None => (url, String::new()),
    };
    match base.ends_with(".json") {
        true => url.to_owned(),
        false => format!("{}{CARD}{query}", base.trim_end_matches('/')),
    }
}

/// Parses a card; an error says why the agent is not called.
pub(super) fn read(
    card: &[u8],
    url: &str,
    pinned: Option<&str>,
) -> Result<Peer, (RunCause, String)> {
    let garbled = |error: serde_json::Error| {
        (
            RunCause::BadOutput,
            format!("it is not a valid card: {error}"),
        )
    };
    let value: Value = serde_json::from_slice(card).map_err(garbled)?;
    // Normalised, so that the order and the spaces of the original do not matter.
    let digest = Digest::of_bytes(value.to_string().as_bytes());
    if let Some(pinned) = pinned.filter(|pinned| **pinned != digest.to_string()) {
        let reason = format!(
            "the card is another one than `card_digest` says: it is {digest}, not {pinned}; look at \
             what it says, then change `card_digest`"
        );
        return Err((RunCause::BadInput, reason));
    }
    let card: Card = serde_json::from_value(value).map_err(garbled)?;
    let interfaces = card.supported_interfaces.into_iter();
    let mut interfaces =
        interfaces.filter_map(|one| serde_json::from_value::<AgentInterface>(one).ok());
    let Some(interface) = interfaces.find(speaks) else {
        let reason = "its card has no interface of JSON-RPC that speaks version 1.0";
        return Err((RunCause::BadInput, reason.to_owned()));
    };
    let is_there = origin(&interface.url).is_some_and(|own| Some(own) == origin(url));
    if !is_there && pinned.is_none() {
        let reason = format!(
            "its card sends requests elsewhere, to {}; if that is meant, set `card_digest = \
             \"{digest}\"`",
            interface.url
        );
        return Err((RunCause::BadInput, reason));
    }
    let modes = |modes: &[String], wanted: &str| modes.iter().any(|mode| mode == wanted);
    let output = OUTPUT
        .into_iter()
        .filter(|mode| modes(&card.default_output_modes, mode));
    Ok(Peer {
        digest,
        url: interface.url,
        tenant: interface.tenant.filter(|tenant| !tenant.is_empty()),
        is_streaming: card.capabilities.streaming == Some(true),
        takes_data: modes(&card.default_input_modes, JSON),
        output: output.collect(),
        name: card.name,
    })
}

fn speaks(interface: &AgentInterface) -> bool {
    let is_version = interface.protocol_version.split('.').take(2).eq(["1", "0"]);
    interface.protocol_binding == TRANSPORT_PROTOCOL_JSONRPC && is_version
}

fn origin(url: &str) -> Option<String> {
    Address::endpoint(url).ok().map(|address| address.origin())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn card(interfaces: Value) -> Value {
        json!({"name": "far", "description": "Far", "version": "1",
            "supportedInterfaces": interfaces, "capabilities": {"streaming": true},
            "defaultInputModes": ["text/plain", "application/json"],
            "defaultOutputModes": ["text/plain", "image/png"], "skills": []})
    }

    fn speaking(url: &str, binding: &str, version: &str) -> Value {
        json!([{"url": url, "protocolBinding": binding, "protocolVersion": version}])
    }

    #[test]
    fn a_card_is_below_an_address_or_a_file() {
        for (url, expected) in rows! {
            ("https://a.example", "https://a.example/.well-known/agent-card.json"),
            ("https://a.example/b/", "https://a.example/b/.well-known/agent-card.json"),
            ("https://a.example/b?c=d", "https://a.example/b/.well-known/agent-card.json?c=d"),
            ("https://a.example/card.json?c=d", "https://a.example/card.json?c=d"),
        } {
            assert_eq!(address(url), expected);
        }
    }

    #[test]
    fn a_card_determines_endpoint_and_media_types() {
        let at = speaking("https://a.example/rpc", "JSONRPC", "1.0");
        let text = card(at.clone()).to_string();
        let peer = read(text.as_bytes(), "https://a.example", None).unwrap();
        assert_eq!((&*peer.name, &*peer.url), ("far", "https://a.example/rpc"));
        assert!(peer.is_streaming && peer.takes_data);
        assert_eq!(peer.output, ["text/plain"]);
        // Another order and other spaces give the same digest.
        let spaced = serde_json::to_string_pretty(&card(at)).unwrap();
        let pinned = peer.digest.to_string();
        let again = read(spaced.as_bytes(), "https://a.example", Some(&pinned)).unwrap();
        assert_eq!(again, peer);
        let elsewhere = card(speaking("https://b.example/rpc", "JSONRPC", "1.0")).to_string();
        let digest = Digest::of_bytes(elsewhere.as_bytes()).to_string();
        read(elsewhere.as_bytes(), "https://a.example", Some(&digest)).unwrap();
    }

    #[test]
    fn a_wrong_card_is_refused() {
        let own = |binding, version| card(speaking("https://a.example/", binding, version));
        let rows = rows! {
            ("<html>".to_owned(), None, "not a valid card"),
            ("[]".to_owned(), None, "not a valid card"),
            ("{}".to_owned(), None, "not a valid card"),
            (own("GRPC", "1.0").to_string(), None, "no interface"),
            (own("JSONRPC", "0.3").to_string(), None, "no interface"),
            (own("JSONRPC", "1.0").to_string(), Some("0".repeat(64)), "another one"),
            (
                card(speaking("https://evil.example/", "JSONRPC", "1.0")).to_string(),
                None,
                "sends requests elsewhere",
            ),
            (
                card(speaking("http://a.example/", "JSONRPC", "1.0")).to_string(),
                None,
                "sends requests elsewhere",
            ),
        };
        for (text, pinned, why) in rows {
            let refused = read(text.as_bytes(), "https://a.example", pinned.as_deref());
            let (_, refused) = refused.unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
