//! Calls of tools that wait for a person, in one line.

use unisono_api::approval::Approval;
use unisono_api::harmless;

use crate::show;

/// The most characters of a call's arguments in a list.
const LISTED_CHARS: usize = 100;
/// The most characters of a call's arguments that are shown to the person who decides.
const SHOWN_CHARS: usize = 10_000;

/// The call in a list: the tool and the start of its arguments as JSON text.
pub(crate) fn line(call: &Approval) -> String {
    let (shown, hidden) = arguments(call, LISTED_CHARS);
    let more = if hidden == 0 { "" } else { "…" };
    format!("{} {shown}{more}", call.tool)
}

/// The call with its arguments, for the person who decides. It says if some are not shown.
pub(crate) fn whole(call: &Approval) -> String {
    let (shown, hidden) = arguments(call, SHOWN_CHARS);
    let more = match hidden {
        0 => String::new(),
        hidden => format!(
            "… (the last {} characters are not shown; `unisono approvals list --json` has them)",
            show::number(hidden)
        ),
    };
    format!("{} {shown}{more}", call.tool)
}

/// The first characters of the arguments, and the number of the others. Characters that a terminal
/// would not show are escaped.
fn arguments(call: &Approval, most: usize) -> (String, u64) {
    let text = call.arguments.to_string();
    let text = harmless::for_json(&text);
    let shown: String = text.chars().take(most).collect();
    let hidden = text.chars().skip(most).count() as u64;
    (shown, hidden)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(text: &str) -> Approval {
        Approval {
            call: "0-0".to_owned(),
            kind: "approval".to_owned(),
            session: String::new(),
            turn: String::new(),
            run: String::new(),
            agent: "clerk".to_owned(),
            tool: "sh".to_owned(),
            arguments: json!([text]),
            contract: "at_most_once".to_owned(),
            rule: None,
            requested_at: String::new(),
            expires_at: None,
        }
    }

    #[test]
    fn a_person_sees_all_arguments_or_how_many_are_not_shown() {
        let text = format!("{}; rm -r /", "a".repeat(200));
        assert_eq!(whole(&call(&text)), format!("sh [\"{text}\"]"));
        assert_eq!(
            line(&call(&text)),
            format!("sh [\"{}…", "a".repeat(LISTED_CHARS - 2))
        );
        let cut = whole(&call(&"ä".repeat(SHOWN_CHARS)));
        assert!(
            cut.contains("ä… (the last 4 characters are not shown;"),
            "{cut}"
        );
        let hidden = "a\n\u{1b}[2K\u{202e}\u{9b}b";
        let shown = r#"sh ["a\n\u001b[2K\u202e\u009bb"]"#;
        assert_eq!(
            (whole(&call(hidden)).as_str(), line(&call(hidden)).as_str()),
            (shown, shown)
        );
    }
}
