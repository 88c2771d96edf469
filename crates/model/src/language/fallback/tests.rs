//! Tests of a chain of models: which model receives which request, and the error if none answers.

use std::sync::atomic::{AtomicUsize, Ordering};

use unisono_context::snapshot::ToolSpec;
use unisono_context::{Role, Tokens};

use super::*;
use crate::fixture::{self, Chat};
use crate::language::scripted::{Act, Scripted};
use crate::language::{Exchange, Reply, Stage, Stop, Usage};
use crate::prompt::{self, Group};

/// A scripted model with a dialect of its own, which counts how often it renders.
struct Rendering {
    inner: Scripted,
    longest: Tokens,
    dialect: &'static str,
    rendered: Arc<AtomicUsize>,
}

impl LanguageModel for Rendering {
    fn render(&self, shared: &Shared<'_>) -> Prefix {
        self.rendered.fetch_add(1, Ordering::Relaxed);
        let bytes = prompt::render(shared.snapshot, shared.group);
        Prefix::new([self.dialect.as_bytes(), bytes.bytes()].concat())
    }

    fn complete(&self, request: Request) -> Completion<'_> {
        self.inner.complete(request)
    }

    fn fit(&self, request: Request) -> Fitting<'_> {
        let max_output = request.max_output.min(self.longest);
        let fitted = Request {
            max_output,
            ..request
        };
        Box::pin(async move { Ok(fitted) })
    }

    fn count(&self, _: Request) -> Counting<'_> {
        let length = self.dialect.len() as u64;
        Box::pin(async move { Ok(Some(Tokens(length))) })
    }
}

struct Chain {
    models: Vec<Scripted>,
    rendered: Vec<Arc<AtomicUsize>>,
    fallback: Fallback,
}

/// Models that each react to every request in the same way.
fn chain(acts: &[Act]) -> Chain {
    let (mut models, mut rendered) = (Vec::new(), Vec::new());
    let mut links = acts.iter().zip(["one:", "second:", "number three:"]);
    let mut link = || {
        let (act, dialect) = links.next()?;
        let act = act.clone();
        let inner = Scripted::by(move |_| act.clone());
        models.push(inner.clone());
        let count = Arc::new(AtomicUsize::new(0));
        rendered.push(count.clone());
        let model: Arc<dyn LanguageModel> = Arc::new(Rendering {
            inner,
            longest: Tokens(100 * models.len() as u64),
            dialect,
            rendered: count,
        });
        Some((format!("test/{}", models.len()), model))
    };
    let (name, model) = link().unwrap();
    let mut fallback = Fallback::new(name, model);
    while let Some((name, model)) = link() {
        fallback = fallback.or(name, model);
    }
    Chain {
        models,
        rendered,
        fallback,
    }
}

impl Chain {
    fn request(&self) -> Request {
        let snapshot = Chat::new(1).say(Role::User, "a question").freeze();
        let request = Request {
            group: Group::Shared,
            snapshot: Some(Arc::new(snapshot)),
            ..fixture::request()
        };
        let prefix = self.fallback.render(&request.shared());
        Request { prefix, ..request }
    }

    fn asked(&self) -> Vec<usize> {
        self.models.iter().map(|m| m.requests().len()).collect()
    }
}

/// The model that answered, unless it was the first.
fn by(reply: &Reply) -> Option<&str> {
    reply.fallback.as_ref().map(|by| &*by.model)
}

const CLASSES: [Class; 19] = [
    Class::Unauthorised,
    Class::OutOfQuota,
    Class::UnknownModel,
    Class::RateLimited {
        retry_after_ms: Some(20),
    },
    Class::UNAVAILABLE,
    Class::Transport,
    Class::Timeout(Stage::Connect),
    Class::Timeout(Stage::FirstByte),
    Class::Timeout(Stage::Idle),
    Class::Timeout(Stage::Total),
    Class::IncompleteStream,
    Class::CircuitOpen { retry_after_ms: 9 },
    Class::Busy,
    // From here on another provider would not help either.
    Class::Overflow {
        limit: Some(Tokens(1)),
    },
    Class::BadRequest,
    Class::BadReply,
    Class::TooLarge,
    Class::PrefixMismatch,
    Class::Internal,
];

#[tokio::test]
async fn the_next_model_is_asked_after_errors_that_it_may_not_have() {
    for (at, class) in CLASSES.into_iter().enumerate() {
        let chain = chain(&[Act::FailAs(class), Act::say("hello")]);
        let reply = chain.fallback.complete(chain.request()).await;
        if at < 13 {
            let reply = reply.unwrap();
            assert_eq!(by(&reply), Some("test/2"), "{class:?}");
            assert_eq!(chain.asked(), [1, 1], "{class:?}");
        } else {
            assert_eq!(reply.unwrap_err().class, class);
            assert_eq!(chain.asked(), [1, 0], "{class:?}");
        }
    }
}

#[tokio::test]
async fn a_reply_of_the_first_model_needs_no_fallback() {
    let refused = Reply {
        stop: Stop::Refused,
        ..Reply::default()
    };
    for act in [Act::say("hello"), Act::Reply(refused)] {
        let chain = chain(&[act, Act::say("not asked")]);
        let reply = chain.fallback.complete(chain.request()).await.unwrap();
        assert_eq!(reply.fallback, None);
        assert_eq!(chain.asked(), [1, 0]);
    }
}

#[tokio::test]
async fn a_fallback_gets_its_own_prefix_rendered_once() {
    let chain = chain(&[Act::FailAs(Class::Transport), Act::say("hello")]);
    let request = chain.request();
    for _ in 0..8 {
        chain.fallback.complete(request.clone()).await.unwrap();
    }
    let sent = chain.models[1].requests();
    assert_eq!(sent.len(), 8);
    let first = sent[0].prefix.bytes().as_ptr();
    for sent in &sent {
        assert!(sent.prefix.bytes().starts_with(b"second:"));
        assert_eq!(sent.prefix.bytes().as_ptr(), first);
        assert_eq!(sent.task, request.task);
    }
    let rendered = chain.rendered[1].load(Ordering::Relaxed);
    assert_eq!(rendered, 1);
    assert_eq!(chain.models[0].requests()[7].prefix, request.prefix);
}

/// The first model may have the schema in its tail, so that the prefixes of both requests are equal.
#[tokio::test]
async fn a_fallback_gets_the_tools_and_the_schema_of_each_request() {
    let chain = chain(&[Act::FailAs(Class::Transport), Act::say("hello")]);
    let plain = chain.request();
    let schema = |text: &str| Request {
        output_schema: Some(text.into()),
        ..plain.clone()
    };
    let tool = ToolSpec::new("recall", "finds messages", r#"{"type":"object"}"#);
    let with_tool = Request {
        tools: Arc::from([tool]),
        ..plain.clone()
    };
    let requests = [plain.clone(), schema("{}"), schema("[]"), with_tool];
    for request in requests.iter().chain(&requests) {
        chain.fallback.complete(request.clone()).await.unwrap();
    }
    assert_eq!(chain.rendered[1].load(Ordering::Relaxed), requests.len());
}

#[tokio::test]
async fn sealed_reasoning_goes_back_to_its_own_model_only() {
    let chain = chain(&[Act::FailAs(Class::Transport), Act::say("hello")]);
    let replied = |verbatim: &str, fallback: Option<&str>| {
        Exchange::Reply(Reply {
            text: "I look.".into(),
            verbatim: Some(verbatim.into()),
            fallback: fallback.map(|model| FallbackUsed {
                model: model.into(),
                sent: None,
            }),
            ..Reply::default()
        })
    };
    let plain = r#"{"reasoning_content":"so"}"#;
    let signed = r#"{"reasoning_content":"so","extra_content":[{"google":{}}]}"#;
    let request = Request {
        exchange: vec![
            replied("[1]", None),
            replied("[2]", Some("test/2")),
            replied(plain, None),
            replied(signed, None),
        ],
        ..chain.request()
    };
    chain.fallback.complete(request).await.unwrap();
    let sent = |model: usize| {
        let request = chain.models[model].requests().remove(0);
        let verbatim = request.exchange.into_iter().map(|step| match step {
            Exchange::Reply(reply) => reply.verbatim,
            Exchange::Results(_) => None,
        });
        verbatim.collect::<Vec<Option<Arc<str>>>>()
    };
    let known = |verbatim: &str| Some(Arc::<str>::from(verbatim));
    assert_eq!(sent(0), [known("[1]"), None, known(plain), known(signed)]);
    assert_eq!(sent(1), [None, known("[2]"), known(plain), None]);
}

#[tokio::test]
async fn a_fallbacks_reply_has_its_prefix_and_maximum_output() {
    let failing = || Act::FailAs(Class::Transport);
    let chain = chain(&[failing(), failing(), Act::say("hello")]);
    let request = Request {
        max_output: Tokens(5_000),
        ..chain.request()
    };
    let reply = chain.fallback.complete(request).await.unwrap();
    let sent = &chain.models[2].requests()[0];
    assert!(sent.prefix.bytes().starts_with(b"number three:"));
    let sent = Sent {
        prefix: sent.prefix.digest(),
        max_output: Tokens(300),
    };
    let by = FallbackUsed {
        model: "test/3".into(),
        sent: Some(sent),
    };
    assert_eq!(reply.fallback, Some(by));
}

#[tokio::test]
async fn an_error_names_all_tried_models() {
    let limited = Class::RateLimited {
        retry_after_ms: Some(20),
    };
    let rows: [(&[Class], Class); 4] = rows! {
        (&[Class::Unauthorised, limited, Class::UnknownModel], limited),
        (&[Class::Unauthorised, Class::OutOfQuota], Class::OutOfQuota),
        (&[limited, Class::BadRequest, Class::Transport], limited),
        (&[Class::Unauthorised, Class::BadRequest], Class::BadRequest),
    };
    for (classes, expected) in rows {
        let acts: Vec<Act> = classes.iter().map(|class| Act::FailAs(*class)).collect();
        let chain = chain(&acts);
        let error = chain.fallback.complete(chain.request()).await.unwrap_err();
        assert_eq!(error.class, expected, "{classes:?}");
        let tried = chain.asked().iter().sum::<usize>();
        let text = error.to_string();
        let start = format!("model test/1: none of {tried} models answered: ");
        assert!(text.starts_with(&start), "{text}");
        assert_eq!(text.matches("model scripted:").count(), tried, "{text}");
    }
    let alone = chain(&[Act::FailAs(Class::Transport)]);
    let error = alone.fallback.complete(alone.request()).await.unwrap_err();
    assert!(!error.reason.contains("none of"), "{error}");
}

#[tokio::test]
async fn a_nested_chain_names_the_model_that_answered() {
    let inner = chain(&[Act::FailAs(Class::Busy), Act::say("hello")]);
    let asked = inner.models[1].clone();
    let failing = Scripted::by(|_| Act::FailAs(Class::Transport));
    let outer = Fallback::new("outer/1", Arc::new(failing)).or("inner", Arc::new(inner.fallback));
    let reply = outer.complete(fixture::request()).await.unwrap();
    assert_eq!(by(&reply), Some("test/2"));
    let prefix = asked.requests()[0].prefix.digest();
    let received = reply.fallback.and_then(|by| by.prefix());
    assert_eq!(received, Some(prefix), "that of the one that answered");
    assert_eq!(format!("{outer:?}"), r#"["outer/1", "inner"]"#);
}

#[tokio::test]
async fn counts_are_the_first_models() {
    let chain = chain(&[Act::FailAs(Class::Transport), Act::say("hello")]);
    let counted = chain.fallback.count(chain.request()).await.unwrap();
    assert_eq!(counted, Some(Tokens("one:".len() as u64)));
}

#[tokio::test]
async fn usage_of_a_fallback_is_reported_with_its_name() {
    let used = Usage::free(Tokens(9), Tokens(1));
    let prepaid = |then| Act::Prepaid(used, None, Box::new(then));
    let chain = chain(&[
        prepaid(Act::FailAs(Class::Transport)),
        prepaid(Act::say("hello")),
    ]);
    let received = Arc::new(Mutex::new(Vec::new()));
    let sink = received.clone();
    let request = chain.request();
    let listener = request.listener.clone();
    let reply = chain.fallback.complete(Request {
        listener: listener.with_usage(move |usage, by| sink.lock().unwrap().push((usage, by))),
        ..request
    });
    let reply = reply.await.unwrap();
    assert_eq!(reply.usage, Usage::NONE);
    let received = received.lock().unwrap();
    let by = reply.fallback.map(|by| by.model);
    assert_eq!(received[..], [(used, None), (used, by)]);
}

#[test]
fn the_pause_is_that_of_the_model_that_is_available_first() {
    let failed = |class, pause_ms| Error {
        pause_ms,
        ..Error::new("test/1", class, "it broke")
    };
    let open = Class::CircuitOpen {
        retry_after_ms: 9_000,
    };
    let limited = Class::RateLimited {
        retry_after_ms: Some(60_000),
    };
    let longer = Class::CircuitOpen {
        retry_after_ms: 30_000,
    };
    for (errors, pause) in rows! {
        (vec![failed(longer, None), failed(open, None)], Some(9_000)),
        (vec![failed(limited, None), failed(Class::Transport, None)], None),
        (vec![failed(longer, None), failed(Class::Busy, None)], Some(0)),
        (vec![failed(Class::Transport, Some(30_000)), failed(open, None)], Some(9_000)),
        (vec![failed(open, None), failed(Class::Transport, None)], None),
        (vec![failed(open, None), failed(Class::BadRequest, None)], Some(9_000)),
        (vec![failed(Class::BadRequest, None), failed(Class::Unauthorised, None)], None),
    } {
        let error = combined_error(errors.clone(), &"chain".into());
        assert_eq!(error.retry_after_ms(), pause, "{errors:?}");
    }
}

#[test]
fn a_used_reservation_is_not_used_for_a_fallback() {
    for (bounded, begun, spent) in [
        (false, false, false),
        (false, true, false),
        (true, false, false),
        (true, true, true),
    ] {
        let request = Request {
            bounded,
            ..fixture::request()
        };
        let error = Error {
            begun,
            ..Error::new("test/1", Class::Transport, "it broke")
        };
        assert_eq!(
            is_reservation_used(&request, &error),
            spent,
            "{bounded} {begun}"
        );
    }
}
