//! Tests that prompts are parsed strictly, that parts fit and are complete, and that replies are
//! accepted or rejected with a reason.

mod parts;
mod prompts;
mod replies;

use unisono_context::message::NewMessage;
use unisono_context::{MessageId, Part, Role, Timestamp, Tree};

use crate::fixture;

/// A conversation, each message an hour after the one before.
#[derive(Default)]
struct Talk(Tree);

impl Talk {
    fn say(self, role: Role, text: &str) -> Talk {
        self.add(role, vec![Part::text(text)])
    }

    /// A call, and its result in the next message.
    fn calls(self, name: &str, arguments: &str, result: &str) -> Talk {
        let call = vec![Part::text("I look."), fixture::call("c", name, arguments)];
        self.add(Role::Assistant, call)
            .add(Role::Tool, vec![fixture::result("c", result)])
    }

    fn add(mut self, role: Role, parts: Vec<Part>) -> Talk {
        let len = self.0.len() as u128;
        let id = MessageId::from_u128;
        let at = Timestamp(1_772_442_000_000 + 3_600_000 * len as i64);
        let new = NewMessage::new(id(len + 1), role, parts, at);
        self.0.append((len > 0).then(|| id(len)), new).unwrap();
        self
    }

    fn messages(&self) -> Vec<&unisono_context::Message> {
        let ids = 1..=self.0.len() as u128;
        ids.map(|id| &*self.0.get(MessageId::from_u128(id)).unwrap().message)
            .collect()
    }
}
