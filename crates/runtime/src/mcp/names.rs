//! The names and specifications of tools for models.

use rmcp::model::Tool;
use unisono_context::digest::Hasher;
use unisono_context::snapshot::ToolSpec;
use unisono_session::tool::Contract;

use super::{Server, ToolOffer};

/// The separator of server and tool in a name.
pub const SEPARATOR: &str = "__";

/// The maximum length of a tool name that every provider accepts, in bytes.
pub const LONGEST_NAME: usize = 64;
/// The maximum number of offered tools of a server.
const TOOLS_MAX: usize = 1_000;
/// The number of hex digits that distinguish changed names.
const MARK: usize = 8;

/// The server of a tool; none for a built-in tool.
pub fn server_of(tool: &str) -> Option<&str> {
    tool.split_once(SEPARATOR).map(|(server, _)| server)
}

/// Whether a text is a valid server name: `[a-z0-9][a-z0-9_-]*`, at most 32 bytes, no `__`.
pub fn is_server_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    starts
        && name.len() <= 32
        && name.chars().all(inner)
        && !name.contains(SEPARATOR)
        && !name.ends_with('_')
}

/// The model's name of a tool, which depends only on the two names. A name that providers would
/// reject is changed, and marked with digits of a digest of the original.
pub(super) fn model_name(server: &str, tool: &str) -> String {
    let name = format!("{server}{SEPARATOR}{tool}");
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.len() <= LONGEST_NAME && name.chars().all(fits) && !tool.is_empty() {
        return name;
    }
    let digest = Hasher::new("unisono/tool-name", 1).str(&name).finish();
    let digits: String = digest.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let kept = LONGEST_NAME - MARK - 1;
    let changed = name.chars().map(|c| if fits(c) { c } else { '_' });
    let changed: String = changed.take(kept).collect();
    format!("{changed}_{}", &digits[..MARK])
}

/// The model's name of a tool that is written as `server__tool` with the server's own name of it.
/// Patterns, and names without a server, stay as they are.
pub fn shown_name(written: &str) -> String {
    match written.split_once(SEPARATOR) {
        Some((server, tool)) if !written.contains('*') => model_name(server, tool),
        _ => written.to_owned(),
    }
}

/// Adds the tools of a page of a list that the server offers.
///
/// # Errors
/// There are too many.
pub(super) fn add_offered(
    server: &Server,
    tools: &mut Vec<Tool>,
    page: Vec<Tool>,
) -> Result<(), String> {
    tools.extend(page.into_iter().filter(|tool| server.offers(&tool.name)));
    match tools.len() > TOOLS_MAX {
        true => Err(format!(
            "lists more than {TOOLS_MAX} tools; select the needed ones with its `tools`"
        )),
        false => Ok(()),
    }
}

/// The offered tools of a server, by name, without duplicates.
pub(super) fn offers(server: &Server, tools: &[Tool]) -> Vec<ToolOffer> {
    let mut offers: Vec<ToolOffer> = tools
        .iter()
        .map(|tool| ToolOffer {
            own_name: format!("{}{SEPARATOR}{}", server.name, tool.name).into(),
            spec: ToolSpec {
                name: model_name(&server.name, &tool.name).into(),
                description: tool.description.as_deref().unwrap_or_default().into(),
                input_schema: schema(tool).into(),
            },
            contract: server.contract(&tool.name, declared_contract(tool)),
        })
        .collect();
    offers.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    offers.dedup_by(|a, b| a.spec.name == b.spec.name);
    offers
}

fn schema(tool: &Tool) -> String {
    let any = || r#"{"type":"object"}"#.to_owned();
    serde_json::to_string(&tool.input_schema).unwrap_or_else(|_| any())
}

fn declared_contract(tool: &Tool) -> Contract {
    let hints = tool.annotations.as_ref();
    let read_only = hints.and_then(|hints| hints.read_only_hint);
    let idempotent = hints.and_then(|hints| hints.idempotent_hint);
    match (read_only, idempotent) {
        (Some(true), _) => Contract::Pure,
        (_, Some(true)) => Contract::Idempotent,
        _ => Contract::AtMostOnce,
    }
}

#[cfg(test)]
mod tests {
    //! Names that every provider accepts.

    use std::time::Duration;

    use serde_json::json;

    use super::super::ServerTransport;
    use super::*;

    #[test]
    fn only_offered_tools_count_towards_the_limit() {
        let mut server = Server {
            name: "files".into(),
            transport: ServerTransport::Unset { reason: "".into() },
            start_timeout: Duration::ZERO,
            timeout: Duration::ZERO,
            tools: Vec::new(),
            contracts: Vec::new(),
            skills: false,
        };
        let page = || -> Vec<Tool> {
            let tool = |n| json!({"name": format!("t{n}"), "inputSchema": {"type": "object"}});
            let tools = (0..=TOOLS_MAX).map(tool);
            tools
                .map(|tool| serde_json::from_value(tool).unwrap())
                .collect()
        };
        let wrong = add_offered(&server, &mut Vec::new(), page()).unwrap_err();
        assert!(wrong.contains("more than 1000 tools"), "{wrong}");
        server.tools = vec!["t7".into(), "t10*".into()];
        let mut tools = Vec::new();
        add_offered(&server, &mut tools, page()).unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names[..3], ["t7", "t10", "t100"]);
        assert_eq!(names.len(), 13);
    }

    #[test]
    fn a_tool_name_depends_only_on_server_and_tool() {
        assert_eq!(model_name("files", "read"), "files__read");
        assert_eq!(model_name("files", "a/b.c"), "files__a_b_c_17965c1b");
        assert_ne!(model_name("files", "a/b.c"), model_name("files", "a.b/c"));
        assert_eq!(shown_name("files__a/b.c"), "files__a_b_c_17965c1b");
        for same in [
            "files__a_b_c_17965c1b",
            "files__read",
            "files__a/*",
            "recall",
        ] {
            assert_eq!(shown_name(same), same);
        }
        let long = "x".repeat(100);
        assert_eq!(model_name("files", &long).len(), LONGEST_NAME);
        assert_ne!(
            model_name("files", &long),
            model_name("files", &"x".repeat(101))
        );
        assert_eq!(server_of("files__a__b"), Some("files"));
        assert_eq!(server_of("recall"), None);
    }

    #[test]
    fn the_server_is_parsed_from_a_tool_name() {
        for (name, expected) in [
            ("files", true),
            ("my-files_2", true),
            ("", false),
            ("_files", false),
            ("files_", false),
            ("my__files", false),
            ("Files", false),
            (&*"x".repeat(33), false),
        ] {
            assert_eq!(is_server_name(name), expected, "{name}");
        }
    }
}
