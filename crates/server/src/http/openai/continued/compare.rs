//! Compares the messages of a request with those of a session.
//!
//! Two messages are equal if role and text are equal, byte for byte, and their calls are equal,
//! with arguments compared as JSON. A client may omit messages that only the session has: tool
//! calls with their results, and a repeated input.

use std::sync::Arc;

use serde_json::Value;
use unisono_context::message::{Part, Role};

/// The comparable part of a message; each tool result is one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comparable {
    role: Role,
    text: String,
    calls: Vec<ComparedCall>,
    /// The call that a result answers.
    answers: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ComparedCall {
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
            } => Some(ComparedCall {
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
    fn equals(&self, own: &Comparable) -> bool {
        self.role == own.role
            && self.answers == own.answers
            && self.calls.len() == own.calls.len()
            && self.calls.iter().zip(&own.calls).all(|(a, b)| a.equals(b))
            && self.has_same_text(own)
    }

    /// A stream has the text before tool calls in front of the answer. Beside calls, a session keeps
    /// no blank text.
    fn has_same_text(&self, own: &Comparable) -> bool {
        let has_calls_only = own.text.is_empty() && !own.calls.is_empty();
        let streamed = || self.text.strip_suffix(&own.text);
        let is_streamed = || streamed().is_some_and(|before| before.ends_with("\n\n"));
        self.text == own.text || (own.role == Role::Assistant && (has_calls_only || is_streamed()))
    }

    /// Whether both are of the same call.
    fn is_of_call_of(&self, own: &Comparable) -> bool {
        let same = |called: &ComparedCall| own.calls.iter().any(|own| own.id == called.id);
        self.calls.iter().any(same) || (self.answers.is_some() && self.answers == own.answers)
    }
}

impl ComparedCall {
    fn equals(&self, own: &ComparedCall) -> bool {
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

/// The result of comparing a list with a session.
#[derive(Debug)]
pub(super) struct Comparison<'l> {
    list: &'l [Comparable],
    same: usize,
}

impl<'l> Comparison<'l> {
    pub(super) fn new(list: &'l [Comparable]) -> Comparison<'l> {
        Comparison { list, same: 0 }
    }

    /// The number of leading messages of the list that the session has.
    pub(super) fn same(&self) -> usize {
        self.same
    }

    /// Takes the next message of the session; false: the list contradicts it.
    pub(super) fn accept(&mut self, own: &Comparable) -> bool {
        let next = self.list.get(self.same);
        if next.is_some_and(|next| next.equals(own)) {
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

/// The number of leading messages of a list that are the end of a session; none without a match.
/// `tried` limits the compared positions.
pub(super) fn end(list: &[Comparable], own: &[Comparable], tried: usize) -> Option<usize> {
    let first = list.first()?;
    let begins = own.iter().enumerate().filter(|(_, own)| first.equals(own));
    let mut found = begins.take(tried).filter_map(|(at, _)| {
        let mut compared = Comparison::new(list);
        let own = own.get(at..)?;
        own.iter()
            .all(|own| compared.accept(own))
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
        let call = Part::tool_call(id, "look", arguments);
        Comparable::from_parts(Role::Assistant, &[Part::text(text), call]).remove(0)
    }

    fn result(id: &str, content: &str) -> Comparable {
        let result = Part::tool_result(id, content, false);
        Comparable::from_parts(Role::Tool, &[result]).remove(0)
    }

    /// The number of messages of a list that a session has.
    ///
    /// # Errors
    ///
    /// The position at which they differ.
    fn compare(list: &[Comparable], own: &[Comparable]) -> Result<usize, usize> {
        let mut compared = Comparison::new(list);
        match own.iter().all(|own| compared.accept(own)) {
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
        // Tasks and results of delegates, and a repeated input.
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
        // Text that was streamed before the answer.
        let streamed = [user("a"), answer("I look.\n\nb"), user("c")];
        assert_eq!(compare(&streamed, &own), Ok(2));
        assert_eq!(
            compare(&[user("a"), answer("not b"), user("c")], &own),
            Err(1)
        );
        // The answer has calls of the client only.
        let own = [user("a"), call("", "1", "{}"), result("1", "r")];
        let list = |text: &str| {
            [
                user("a"),
                call(text, "1", "{}"),
                result("1", "r"),
                user("c"),
            ]
        };
        for text in ["", "\n", "I look.\n\n"] {
            assert_eq!(compare(&list(text), &own), Ok(3), "{text:?}");
        }
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
