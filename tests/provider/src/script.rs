//! Which act comes next.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::act::{Act, Stage};
use crate::recorded::Recorded;
use crate::refusal::Refusal;

/// Which act answers which request. Clones share what has been played.
#[derive(Clone)]
pub struct Script(Arc<Kind>);

enum Kind {
    /// Acts in the order in which requests are complete, then the same one for ever.
    Sequence {
        acts: Mutex<VecDeque<Act>>,
        then: Box<Act>,
    },
    /// What a closure makes of each request.
    By(Box<dyn Fn(&Recorded) -> Act + Send + Sync>),
}

impl Script {
    /// The same act for every request.
    pub fn always(act: impl Into<Act>) -> Script {
        Script::of(VecDeque::new(), act.into())
    }

    /// One act after the other, in the order in which requests have been read. A request after
    /// the last act is refused as a bad one, so that nothing passes unseen.
    pub fn sequence<A: Into<Act>>(acts: impl IntoIterator<Item = A>) -> Script {
        let over = Refusal::BadRequest("the script has no act for this request".into());
        Script::of(
            acts.into_iter().map(Into::into).collect(),
            Act::refuse(over),
        )
    }

    /// The act that a closure chooses, which sees the whole request.
    pub fn by(choose: impl Fn(&Recorded) -> Act + Send + Sync + 'static) -> Script {
        Script(Arc::new(Kind::By(Box::new(choose))))
    }

    /// After a sequence, that act for ever.
    #[must_use]
    pub fn then(self, act: impl Into<Act>) -> Script {
        match &*self.0 {
            Kind::Sequence { acts, .. } => Script::of(lock(acts).clone(), act.into()),
            Kind::By(_) => self,
        }
    }

    fn of(acts: VecDeque<Act>, then: Act) -> Script {
        Script(Arc::new(Kind::Sequence {
            acts: Mutex::new(acts),
            then: Box::new(then),
        }))
    }

    /// The act for a request that has been read.
    pub(crate) fn act(&self, request: &Recorded) -> Act {
        match &*self.0 {
            Kind::Sequence { acts, then } => {
                lock(acts).pop_front().unwrap_or_else(|| Act::clone(then))
            }
            Kind::By(choose) => choose(request),
        }
    }

    /// Whether the next act hangs up at that stage, which then has been played.
    pub(crate) fn hangs_up(&self, stage: Stage) -> bool {
        let Kind::Sequence { acts, .. } = &*self.0 else {
            return false;
        };
        let mut acts = lock(acts);
        let next = acts.front().and_then(Act::early) == Some(stage);
        if next {
            acts.pop_front();
        }
        next
    }
}

/// A short answer to every request.
impl Default for Script {
    fn default() -> Script {
        Script::always(crate::Answer::default())
    }
}

impl From<Act> for Script {
    fn from(act: Act) -> Script {
        Script::always(act)
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Sequence { acts, then } => f
                .debug_struct("Script")
                .field("acts", &lock(acts))
                .field("then", then)
                .finish(),
            Kind::By(_) => f.write_str("Script::by(..)"),
        }
    }
}

fn lock(acts: &Mutex<VecDeque<Act>>) -> MutexGuard<'_, VecDeque<Act>> {
    acts.lock().unwrap_or_else(PoisonError::into_inner)
}
