//! Compares the messages of a request with those of a session.
//!
//! Two are equal where the same role says the same text, byte for byte, and makes the same calls:
//! their arguments are equal as JSON. A client need not tell what only the session knows: calls of
//! tools with their results, and a message that was asked once more.

use std::sync::Arc;

use serde_json::Value;
use unisono_context::message::{Part, Role};

/// What of a message is compared: each result of a tool by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comparable {
    role: Role,
    text: String,
    calls: Vec<Called>,
    /// The call that a result answers.
    answers: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Called {
    id: Arc<str>,
    name: Arc<str>,
    arguments: Arc<str>,
}

impl Comparable {
    pub(super) fn from_parts(role: Role, parts: &[Part]) -> Vec<Comparable> {
        let results = parts.iter().filter_map(|part| match part {
            Part::ToolResult {
                call_id, content, ..
            } => Some(Comparable {
                role,
                text: content.to_string(),
                calls: Vec::new(),
                answers: Some(call_id.clone()),
            }),
            _ => None,
        });
        let results: Vec<Comparable> = results.collect();
        if !results.is_empty() {
            return results;
        }
        let calls = parts.iter().filter_map(|part| match part {
            Part::ToolCall {
                id,
                name,
                arguments,
            } => Some(Called {
                id: id.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
            }),
            _ => None,
        });
        vec![Comparable {
            role,
            text: text(parts),
            calls: calls.collect(),
            answers: None,
        }]
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// Whether a client can have received this message in this form.
    fn is(&self, own: &Comparable) -> bool {
        self.role == own.role
            && self.answers == own.answers
            && self.calls.len() == own.calls.len()
            && self.calls.iter().zip(&own.calls).all(|(a, b)| a.is(b))
            && self.says(own)
    }

    /// A stream has the text before tool calls in front of the answer.
    fn says(&self, own: &Comparable) -> bool {
        let streamed = || self.text.strip_suffix(&own.text);
        let is_streamed = || streamed().is_some_and(|before| before.ends_with("\n\n"));
        self.text == own.text
            || (own.role == Role::Assistant && !own.text.is_empty() && is_streamed())
    }

    /// Whether both are of the same call.
    fn is_of_call_of(&self, own: &Comparable) -> bool {
        let same = |called: &Called| own.calls.iter().any(|own| own.id == called.id);
        self.calls.iter().any(same) || (self.answers.is_some() && self.answers == own.answers)
    }
}

impl Called {
    fn is(&self, own: &Called) -> bool {
        let json = |text: &str| serde_json::from_str::<Value>(text).ok();
        let same = || {
            let arguments = json(&self.arguments);
            arguments.is_some() && arguments == json(&own.arguments)
        };
        self.id == own.id && self.name == own.name && (self.arguments == own.arguments || same())
    }
}

/// The text of a message without its calls.
pub(super) fn text(parts: &[Part]) -> String {
    let said = parts
        .iter()
        .filter(|part| !matches!(part, Part::ToolCall { .. }));
    let texts: Vec<String> = said.map(|part| part.countable_text().into()).collect();
    texts.join("\n")
}

/// How far a list was found in a session.
#[derive(Debug)]
pub(super) struct Compared<'l> {
    list: &'l [Comparable],
    same: usize,
}

impl<'l> Compared<'l> {
    pub(super) fn new(list: &'l [Comparable]) -> Compared<'l> {
        Compared { list, same: 0 }
    }

    /// How many messages of the list the session has.
    pub(super) fn same(&self) -> usize {
        self.same
    }

    /// Takes the next message of the session; false: the list contradicts it.
    pub(super) fn takes(&mut self, own: &Comparable) -> bool {
        let next = self.list.get(self.same);
        if next.is_some_and(|next| next.is(own)) {
            self.same += 1;
            return true;
        }
        if own.role == Role::Tool || !own.calls.is_empty() {
            return !next.is_some_and(|next| next.is_of_call_of(own));
        }
        let last = self
            .same
            .checked_sub(1)
            .and_then(|last| self.list.get(last));
        own.role == Role::User && last == Some(own)
    }
}

/// The number of leading messages of a list with which a session ends; none without a match.
/// `tried` bounds the places at which that is looked for.
pub(super) fn end(list: &[Comparable], own: &[Comparable], tried: usize) -> Option<usize> {
    let first = list.first()?;
    let begins = own.iter().enumerate().filter(|(_, own)| first.is(own));
    let mut found = begins.take(tried).filter_map(|(at, _)| {
        let mut compared = Compared::new(list);
        let own = own.get(at..)?;
        own.iter()
            .all(|own| compared.takes(own))
            .then_some(compared.same)
    });
    found.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: Role, text: &str) -> Comparable {
        Comparable::from_parts(role, &[Part::text(text)]).remove(0)
    }

    fn user(text: &str) -> Comparable {
        said(Role::User, text)
    }

    fn answer(text: &str) -> Comparable {
        said(Role::Assistant, text)
    }

    fn call(text: &str, id: &str, arguments: &str) -> Comparable {
        let call = Part::ToolCall {
            id: id.into(),
            name: "look".into(),
            arguments: arguments.into(),
        };
        Comparable::from_parts(Role::Assistant, &[Part::text(text), call]).remove(0)
    }

    fn result(id: &str, content: &str) -> Comparable {
        let result = Part::ToolResult {
            call_id: id.into(),
            content: content.into(),
            is_error: false,
        };
        Comparable::from_parts(Role::Tool, &[result]).remove(0)
    }

    /// How many of a list a session has, or at which message they differ.
    fn compare(list: &[Comparable], own: &[Comparable]) -> Result<usize, usize> {
        let mut compared = Compared::new(list);
        match own.iter().all(|own| compared.takes(own)) {
            true => Ok(compared.same),
            false => Err(compared.same),
        }
    }

    #[test]
    fn a_list_has_all_of_a_session_before_what_is_new() {
        let own = [user("a"), answer("b")];
        let new = [user("a"), answer("b"), user("c")];
        assert_eq!(compare(&new, &own), Ok(2));
        assert_eq!(compare(&new, &[]), Ok(0));
        assert_eq!(compare(&own, &own), Ok(2));
        assert_eq!(compare(&[user("a")], &own), Err(1), "the session goes on");
        for (other, at) in [
            ([user("a "), answer("b"), user("c")], 0),
            ([user("a"), user("b"), user("c")], 1),
            ([user("a"), answer("B"), user("c")], 1),
        ] {
            assert_eq!(compare(&other, &own), Err(at), "{other:?}");
        }
    }

    #[test]
    fn arguments_are_equal_as_json_and_ids_as_they_stand() {
        let own = [
            user("a"),
            call("", "1", r#"{"x": 1, "y": [2]}"#),
            result("1", "r"),
        ];
        let list = |call: Comparable, came: Comparable| [user("a"), call, came, user("b")];
        let same = list(call("", "1", r#"{"y":[2],"x":1}"#), result("1", "r"));
        assert_eq!(compare(&same, &own), Ok(3));
        let other = list(call("", "1", r#"{"x":2}"#), result("1", "r"));
        assert_eq!(compare(&other, &own), Err(1));
        let other = list(call("", "1", r#"{"x": 1, "y": [2]}"#), result("1", "s"));
        assert_eq!(compare(&other, &own), Err(2));
    }

    #[test]
    fn what_only_the_session_knows_is_not_missed() {
        // What delegates were given and came back with, and a question that was asked twice.
        let own = [
            user("a"),
            user("a"),
            call("", "d0", "{}"),
            result("d0", "r"),
            answer("b"),
        ];
        assert_eq!(compare(&[user("a"), answer("b"), user("c")], &own), Ok(2));
        let theirs = [user("a"), call("x", "1", "{}"), result("1", "s"), user("c")];
        assert_eq!(compare(&theirs, &own[..4]), Ok(1));
        // What was streamed before the answer.
        let streamed = [user("a"), answer("I look.\n\nb"), user("c")];
        assert_eq!(compare(&streamed, &own), Ok(2));
        assert_eq!(
            compare(&[user("a"), answer("not b"), user("c")], &own),
            Err(1)
        );
    }

    #[test]
    fn a_list_may_begin_later() {
        let own = [user("a"), answer("b"), user("a"), answer("d")];
        let end = |list: &[Comparable], tried| super::end(list, &own, tried);
        assert_eq!(end(&[user("a"), answer("d"), user("e")], 8), Some(2));
        assert_eq!(end(&[answer("d"), user("e")], 8), Some(1));
        assert_eq!(
            end(&[user("a"), answer("d"), user("e")], 1),
            None,
            "bounded"
        );
        assert_eq!(end(&[answer("b"), user("e")], 8), None);
        assert_eq!(end(&[user("e"), user("f")], 8), None);
        assert_eq!(end(&[], 8), None);
    }
}
