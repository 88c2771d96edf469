//! Parses a line of a chat.

use crate::commands::sessions::branch::ordinal;
use crate::problem::Problem;

pub(super) const ORDERS: [&str; 9] = [
    "/agents", "/branch", "/compact", "/context", "/exit", "/help", "/history", "/quit", "/seal",
];

/// Messages that `/history` shows by default.
const HISTORY: u32 = 10;

#[derive(Debug)]
pub(super) enum InputLine {
    Empty,
    Message(String),
    Order(Order),
    Unknown(Problem),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Shows the context, with whole texts or their first line.
    Context {
        full: bool,
    },
    /// Compacts, with a word to the writer of the summary.
    Compact(Option<String>),
    Branches,
    /// Changes to a branch, or starts one at a message.
    Branch {
        name: String,
        at: Option<u32>,
    },
    Agents,
    /// Chooses the agents; none: as configured.
    Choose(Option<String>),
    /// Lets the topic end.
    Seal,
    /// Shows the newest messages.
    History(u32),
    Help,
    Quit,
}

pub(super) fn read(line: &str) -> InputLine {
    let line = line.trim();
    if line.is_empty() {
        return InputLine::Empty;
    }
    let Some(order) = line.strip_prefix('/') else {
        return InputLine::Message(line.to_owned());
    };
    if order.starts_with('/') {
        return InputLine::Message(order.to_owned());
    }
    let (name, rest) = match order.split_once(char::is_whitespace) {
        Some((name, rest)) => (name, rest.trim()),
        None => (order, ""),
    };
    match parse_command(name, rest) {
        Ok(order) => InputLine::Order(order),
        Err(problem) => InputLine::Unknown(problem),
    }
}

fn parse_command(name: &str, rest: &str) -> Result<Order, Problem> {
    let text = || (!rest.is_empty()).then(|| rest.to_owned());
    let order = match (name, rest) {
        ("context", "") => Order::Context { full: false },
        ("context", "full") => Order::Context { full: true },
        ("compact", _) => Order::Compact(text()),
        ("branch", "") => Order::Branches,
        ("branch", _) => return branch(rest),
        ("agents", "") => Order::Agents,
        ("agents", "default") => Order::Choose(None),
        ("agents", "none") => Order::Choose(Some(String::new())),
        ("agents", _) => Order::Choose(text()),
        ("seal", "") => Order::Seal,
        ("history", "") => Order::History(HISTORY),
        ("history", _) => Order::History(number("/history", rest)?),
        ("help" | "?", _) => Order::Help,
        ("quit" | "exit", "") => Order::Quit,
        ("context" | "seal" | "quit" | "exit", _) => {
            let problem = Problem::usage(format!("/{name} does not take {rest:?}"));
            return Err(problem.hint("/help shows its arguments"));
        }
        _ => {
            let problem = Problem::usage(format!("unknown command /{name}"));
            let hint = "/help lists them; a message that begins with a slash is written with two";
            return Err(problem.hint(hint));
        }
    };
    Ok(order)
}

fn branch(rest: &str) -> Result<Order, Problem> {
    let (name, at) = match rest.rsplit_once(char::is_whitespace) {
        Some((name, at)) => (name.trim(), Some(number("/branch", at)?)),
        None => (rest, None),
    };
    Ok(Order::Branch {
        name: name.to_owned(),
        at,
    })
}

fn number(order: &str, text: &str) -> Result<u32, Problem> {
    ordinal(text)
        .map_err(|hint| Problem::usage(format!("{order}: {text:?} is not a number")).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(line: &str) -> Order {
        match read(line) {
            InputLine::Order(order) => order,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn orders_are_read_as_people_write_them() {
        let branch = |name: &str, at| Order::Branch {
            name: name.to_owned(),
            at,
        };
        let table = rows! {
            ("/context", Order::Context { full: false }),
            ("  /context   full ", Order::Context { full: true }),
            ("/compact", Order::Compact(None)),
            ("/compact keep figures", Order::Compact(Some("keep figures".to_owned()))),
            ("/branch", Order::Branches),
            ("/branch what-if", branch("what-if", None)),
            ("/branch what-if #42", branch("what-if", Some(42))),
            ("/agents", Order::Agents),
            ("/agents none", Order::Choose(Some(String::new()))),
            ("/agents default", Order::Choose(None)),
            ("/agents a,b=only money", Order::Choose(Some("a,b=only money".to_owned()))),
            ("/history 3", Order::History(3)),
            ("/quit", Order::Quit),
        };
        for (line, expected) in table {
            assert_eq!(order(line), expected, "{line}");
        }
    }

    #[test]
    fn what_is_no_order_is_a_message_or_said_to_be_wrong() {
        assert!(matches!(read(" \t"), InputLine::Empty));
        assert!(matches!(read("why / how?"), InputLine::Message(text) if text == "why / how?"));
        assert!(
            matches!(read("//etc/passwd is open"), InputLine::Message(text) if text == "/etc/passwd is open")
        );
        for line in rows! {
            "/contxt", "/context all", "/seal now", "/history many", "/branch a b c", "/",
        } {
            assert!(matches!(read(line), InputLine::Unknown(_)), "{line}");
        }
    }

    #[test]
    fn every_order_that_is_listed_is_one() {
        for line in ORDERS {
            assert!(matches!(read(line), InputLine::Order(_)), "{line}");
        }
    }
}
