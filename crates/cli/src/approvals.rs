//! Calls of tools that wait for a person, in one line.

/// The most characters of a call's arguments that a line shows.
const ARGUMENTS_CHARS: usize = 100;

/// The call in one line: the tool and its arguments as JSON text.
pub(crate) fn line(tool: &str, arguments: &str) -> String {
    let shown: String = arguments.chars().take(ARGUMENTS_CHARS).collect();
    let more = if shown.len() < arguments.len() {
        "…"
    } else {
        ""
    };
    format!("{tool} {shown}{more}")
}
