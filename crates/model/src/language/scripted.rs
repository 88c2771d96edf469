//! A model for tests with given replies, which records its requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Class, Completion, Error, LanguageModel, Reply, Request, ToolCall, Usage};

/// The model's action for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Replies.
    Reply(Reply),
    /// Fails with this reason, as a defect of the model.
    Fail(Arc<str>),
    /// Fails with an error of that class.
    FailAs(Class),
    /// Reports usage in addition to the reply, by a fallback if one is named, then continues.
    Prepaid(Usage, Option<Arc<str>>, Box<Act>),
    /// Panics with that message.
    Panic(Arc<str>),
    /// Never answers.
    Hang,
}

impl Act {
    /// Answers with that text.
    pub fn say(text: impl Into<Arc<str>>) -> Act {
        Act::Reply(Reply {
            text: text.into(),
            ..Reply::default()
        })
    }

    /// Calls tools, each a name and its arguments as JSON text. Ids are `call_0`, `call_1`, …
    pub fn call(calls: &[(&str, &str)]) -> Act {
        let call = |(index, (name, arguments)): (usize, &(&str, &str))| {
            ToolCall::new(format!("call_{index}"), *name, *arguments)
        };
        Act::Reply(Reply {
            calls: calls.iter().enumerate().map(call).collect(),
            ..Reply::default()
        })
    }
}

type Script = dyn Fn(&Request) -> Act + Send + Sync;

/// A model that follows a script. Clones share the script and the record of requests.
#[derive(Clone)]
pub struct Scripted {
    script: Arc<Script>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Scripted {
    /// One act for each request, in order; after the last one it fails.
    pub fn new(acts: impl IntoIterator<Item = Act>) -> Scripted {
        let acts = Mutex::new(acts.into_iter().collect::<VecDeque<_>>());
        Scripted::by(move |_| {
            let next = lock(&acts).pop_front();
            next.unwrap_or_else(|| Act::Fail("the script has ended".into()))
        })
    }

    /// Decides with a function of the request.
    pub fn by(script: impl Fn(&Request) -> Act + Send + Sync + 'static) -> Scripted {
        Scripted {
            script: Arc::new(script),
            requests: Arc::default(),
        }
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.requests).clone()
    }
}

impl LanguageModel for Scripted {
    fn complete(&self, request: Request) -> Completion<'_> {
        let mut act = (self.script)(&request);
        while let Act::Prepaid(usage, fallback, then) = act {
            request.listener.report_usage(usage, fallback);
            act = *then;
        }
        lock(&self.requests).push(request);
        Box::pin(async move {
            match act {
                Act::Reply(reply) => Ok(reply),
                Act::Fail(reason) => Err(failed(Class::Internal, reason)),
                Act::FailAs(class) => Err(failed(class, class.code().replace('_', " ").into())),
                Act::Prepaid(..) => Err(failed(Class::Internal, "told before".into())),
                // Like `panic!`, but without a report in the test's output.
                Act::Panic(message) => std::panic::resume_unwind(Box::new(message.to_string())),
                Act::Hang => std::future::pending().await,
            }
        })
    }
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

fn failed(class: Class, reason: Arc<str>) -> Error {
    Error::new("scripted", class, reason)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
