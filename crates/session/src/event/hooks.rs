//! Hooks: programs and servers that are informed about actions of a session and may deny some of
//! them.
//!
//! The state determines which hook is asked ([`crate::pending_effects`]), under an id derived from
//! the question; the answer is a fact. After a crash the same question is asked again under the
//! same id, and a replay of the journal needs no questions.

use std::sync::Arc;

use unisono_context::{MessageId, Ordinal, TurnId};

use crate::run::calls::{CallOutput, CallPlace};
use crate::tool::{HookEvent, HookFailurePolicy, HookRule};

/// The subject of a question to a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookPoint {
    /// A turn.
    Turn {
        /// The turn.
        turn: TurnId,
        /// The event of the turn.
        event: HookEvent,
        /// The compaction step, from 1; 0 if the event is no compaction.
        step: u32,
    },
    /// A call of a tool.
    Call(CallPlace),
}

/// A question to one hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookPlace {
    /// The subject.
    pub point: HookPoint,
    /// The position of the hook among the hooks of the turn, from 0.
    pub rule: u32,
}

/// The answer of a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookReply {
    /// The reason of a denial; none: nothing is denied.
    pub deny: Option<Arc<str>>,
    /// Messages to pin.
    pub pin: Vec<MessageReference>,
    /// Additional instructions for the summariser.
    pub instructions: Option<Arc<str>>,
    /// The reason of an answer that denies nothing.
    pub reason: Option<Arc<str>>,
    /// The end of the standard error of its program.
    pub stderr: Option<Arc<str>>,
}

/// A reference to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageReference {
    /// By its ordinal on the branch.
    Number(Ordinal),
    /// By its id.
    Id(MessageId),
}

/// The result of a question to a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookAnswer {
    /// The reason of a denial; none: nothing is denied.
    pub denied: Option<Arc<str>>,
    /// Additional instructions for the summariser.
    pub instructions: Option<Arc<str>>,
    /// The reason why there is no answer, or the part of the answer that was ignored.
    pub failed: Option<Arc<str>>,
    /// The reason of an answer that denied nothing.
    pub reason: Option<Arc<str>>,
    /// The end of the standard error of its program, if it answered.
    pub stderr: Option<Arc<str>>,
}

impl HookAnswer {
    /// The result of a denied call for the model; none if the call was not denied.
    pub(crate) fn denial_output(&self, hook: &str) -> Option<CallOutput> {
        let reason = self.denied.as_ref()?;
        let content = format!(
            "[denied: the hook `{hook}` did not allow this call; it was not made. It said: {reason}]"
        );
        Some(CallOutput::text(content, true))
    }
}

/// Derives the result from the reply, its subject and the hook's failure policy.
pub(crate) fn from_reply(
    rule: &HookRule,
    event: HookEvent,
    reply: Result<HookReply, Arc<str>>,
) -> (HookAnswer, Vec<MessageReference>) {
    match reply {
        Ok(reply) if reply.deny.is_some() && !event.may_deny() => {
            let failed = format!("{} cannot be denied", event.name());
            let answer = HookAnswer {
                denied: None,
                instructions: reply.instructions,
                failed: Some(failed.into()),
                reason: reply.deny,
                stderr: reply.stderr,
            };
            (answer, reply.pin)
        }
        Ok(reply) => {
            let answer = HookAnswer {
                denied: reply.deny,
                instructions: reply.instructions,
                failed: None,
                reason: reply.reason,
                stderr: reply.stderr,
            };
            (answer, reply.pin)
        }
        Err(reason) => {
            let denies = rule.on_failure == HookFailurePolicy::Deny && event.may_deny();
            let denied = denies.then(|| format!("it gave no answer: {reason}").into());
            let answer = HookAnswer {
                denied,
                instructions: None,
                failed: Some(reason),
                ..HookAnswer::default()
            };
            (answer, Vec::new())
        }
    }
}

#[cfg(test)]
mod tests {
    //! Effects of answers.

    use super::*;

    #[test]
    fn a_hook_denies_only_deniable_events() {
        let rule = |on_failure| HookRule {
            name: "guard".into(),
            events: HookEvent::ALL.to_vec(),
            tools: vec!["files__*".into()],
            on_failure,
        };
        let denies = || {
            Ok(HookReply {
                deny: Some("no".into()),
                ..HookReply::default()
            })
        };
        let fails = || Err(Arc::from("it hung"));
        let (ignore, deny) = (
            rule(HookFailurePolicy::Ignore),
            rule(HookFailurePolicy::Deny),
        );
        for event in HookEvent::ALL {
            let is_denied = |rule, reply| from_reply(rule, event, reply).0.denied.is_some();
            assert_eq!(is_denied(&ignore, denies()), event.may_deny());
            assert_eq!(is_denied(&deny, fails()), event.may_deny());
            assert!(!is_denied(&ignore, fails()));
            assert!(!is_denied(&deny, Ok(HookReply::default())));
            let (answer, _) = from_reply(&ignore, event, fails());
            assert_eq!(answer.failed.as_deref(), Some("it hung"));
            let allows = Ok(HookReply {
                reason: Some("fine".into()),
                stderr: Some("seen".into()),
                ..HookReply::default()
            });
            let (answer, _) = from_reply(&ignore, event, allows);
            assert_eq!(answer.reason.as_deref(), Some("fine"));
            assert_eq!(answer.stderr.as_deref(), Some("seen"));
            let noted = from_reply(&ignore, event, denies()).0.failed.is_some();
            assert_eq!(noted, !event.may_deny());
        }
        assert!(deny.applies_to("files__write") && !deny.applies_to("shell__run"));
        let all = HookRule {
            tools: Vec::new(),
            ..rule(HookFailurePolicy::Deny)
        };
        assert!(all.applies_to("shell__run"));
        let other = HookRule {
            events: vec![HookEvent::TurnEnded],
            ..all
        };
        assert!(!other.applies_to("shell__run"));
    }
}
