//! Calls of tools that wait for a person: worded, and answered at a terminal.

use unisono_session::run::calls::{Decision, Status, Waiting};

use unisono::short::end;

/// The most characters of a call's arguments that a line shows.
const ARGUMENTS_CHARS: usize = 100;

/// The call in one line: the tool and its arguments.
pub(crate) fn line(tool: &str, arguments: &str) -> String {
    let shown: String = arguments.chars().take(ARGUMENTS_CHARS).collect();
    let more = if shown.len() < arguments.len() {
        "…"
    } else {
        ""
    };
    format!("{tool} {shown}{more}")
}

/// What a person can do about it from a command line.
pub(crate) fn how(waiting: &Waiting) -> String {
    let id = end(&waiting.id);
    match waiting.call.status {
        Status::InDoubt => {
            format!("unisono approvals settle {id} --done TEXT, --failed TEXT, or --repeat")
        }
        _ => format!("unisono approvals approve {id}, or deny {id} --reason TEXT"),
    }
}

/// What a person's line at a terminal means; none: it is asked again.
pub(crate) fn read(status: &Status, line: &str) -> Option<Decision> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let text = |otherwise: &str| match rest.trim() {
        "" => otherwise.into(),
        text => text.into(),
    };
    Some(match (status, word.to_lowercase().as_str()) {
        (Status::InDoubt, "d" | "done") => Decision::Done {
            text: text("it was done"),
        },
        (Status::InDoubt, "f" | "failed") => Decision::Failed {
            text: text("it failed"),
        },
        (Status::InDoubt, "r" | "repeat") => Decision::Repeat,
        (Status::Held, "y" | "yes") => Decision::Approved,
        (Status::Held, "n" | "no") => Decision::Denied {
            reason: Some(rest.trim())
                .filter(|reason| !reason.is_empty())
                .map(Into::into),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_at_the_terminal_is_a_decision_or_asked_again() {
        let read = |status, line| read(&status, line).map(|decision| format!("{decision:?}"));
        let cases = [
            (Status::Held, "y", Some("Approved")),
            (Status::Held, " Yes \n", Some("Approved")),
            (Status::Held, "n", Some("Denied { reason: None }")),
            (
                Status::Held,
                "no not on Friday",
                Some("Denied { reason: Some(\"not on Friday\") }"),
            ),
            (Status::Held, "", None),
            (Status::Held, "done", None),
            (Status::InDoubt, "r", Some("Repeat")),
            (
                Status::InDoubt,
                "done it is there",
                Some("Done { text: \"it is there\" }"),
            ),
            (Status::InDoubt, "f", Some("Failed { text: \"it failed\" }")),
            (Status::InDoubt, "y", None),
        ];
        for (status, line, expected) in cases {
            assert_eq!(read(status.clone(), line).as_deref(), expected, "{line:?}");
        }
    }
}
