//! Hooks: programs and servers that are told what a session is about to do, and may have a say.
//!
//! A hook is asked because the state says so ([`crate::pending_effects`]), under an id that follows
//! from what it is asked about; its answer is a fact. So one that was asked before a crash is asked
//! again after it, with the same id, and a journal that is read again gives the same without asking.

use std::sync::Arc;

use unisono_context::{MessageId, Ordinal, TurnId};

use crate::run::calls::{CallOutput, CallPlace};
use crate::tool::{HookEvent, HookFailurePolicy, HookRule};

/// What a hook is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookPoint {
    /// A turn.
    Turn {
        /// Which.
        turn: TurnId,
        /// What of it.
        event: HookEvent,
        /// The compaction step, from 1; 0 for what is no compaction.
        step: u32,
    },
    /// A call of a tool.
    Call(CallPlace),
}

/// One hook asked about one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookPlace {
    /// About what.
    pub point: HookPoint,
    /// Which: its position among the hooks of the turn, from 0.
    pub rule: u32,
}

/// What a hook answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookReply {
    /// Why it denies; none: it does not.
    pub deny: Option<Arc<str>>,
    /// Messages that are to be pinned.
    pub pin: Vec<MessageReference>,
    /// What the summariser is told besides.
    pub instructions: Option<Arc<str>>,
}

/// How a hook names a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageReference {
    /// By its number on the branch.
    Number(Ordinal),
    /// By its id.
    Id(MessageId),
}

/// What came of asking a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookAnswer {
    /// Why what it was asked about is denied; none: it is not.
    pub denied: Option<Arc<str>>,
    /// What the summariser is told besides.
    pub instructions: Option<Arc<str>>,
    /// Why it gave no answer, or what of its answer was not taken.
    pub failed: Option<Arc<str>>,
}

impl HookAnswer {
    /// What a model is told of a call that was denied; none: it was not.
    pub(crate) fn denial_output(&self, hook: &str) -> Option<CallOutput> {
        let reason = self.denied.as_ref()?;
        let content = format!(
            "[denied: the hook `{hook}` did not allow this call; it was not made. It said: {reason}]"
        );
        Some(CallOutput {
            content: content.into(),
            is_error: true,
        })
    }
}

/// What came of asking: the answer by what is asked about, and by what a failure stands for.
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
            };
            (answer, reply.pin)
        }
        Ok(reply) => {
            let answer = HookAnswer {
                denied: reply.deny,
                instructions: reply.instructions,
                failed: None,
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
            };
            (answer, Vec::new())
        }
    }
}

#[cfg(test)]
mod tests {
    //! What an answer comes to.

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
