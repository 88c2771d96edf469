//! Tests of the estimate of a request: every text is counted once, in the part it belongs to.

use crate::media::Accepts;
use std::sync::Arc;

use unisono_context::{AgentId, Role};

use super::*;
use crate::dialect::label::LEGEND;
use crate::fixture::{self, Chat};
use crate::language::{Colleague, ToolCall, ToolResult, Usage};
use crate::prompt::Group;

const OVERHEADS: Overheads = Overheads {
    request: Tokens(100_000),
    message: Tokens(1_000),
    tools: Tokens(20_000),
    tool: Tokens(10_000),
};

/// One token for each byte, so that the sum shows what was counted.
fn estimator() -> Estimator<'static> {
    Estimator {
        encoding: Encoding::O200kBase,
        overheads: OVERHEADS,
        attachments: Attachments::for_dialect(Dialect::OpenAiChat, Accepts::default()),
        count: &|text| Count::exact(text.len() as u64),
    }
}

/// A request in which all texts except the task are empty.
fn bare() -> Request {
    let persona = Persona {
        agent: AgentId::new(""),
        description: "".into(),
        instructions: "".into(),
    };
    Request {
        persona,
        task: "".into(),
        ..fixture::request()
    }
}

fn tail(change: impl FnOnce(&mut Request)) -> u64 {
    let mut request = bare();
    change(&mut request);
    let plain = estimator().tail(&bare()).tokens;
    estimator().tail(&request).tokens.minus(plain).0
}

#[test]
fn the_tail_counts_each_of_its_texts_once() {
    let delegated = |text: &str, outcome| DelegateResult {
        agent: AgentId::new("ab"),
        task: Some(text.into()),
        rest: None,
        outcome,
    };
    let call = |name: &str, arguments: &str| ToolCall::new("an id", name, arguments);
    let says = |text: &str, calls| {
        Exchange::Reply(Reply {
            text: text.into(),
            calls,
            ..Reply::default()
        })
    };
    let result = |content: &str| ToolResult::new("an id", content, false);
    assert_eq!(estimator().tail(&bare()).tokens, Tokens(1_000 + 24));
    let rows: [(u64, u64); 9] = rows! {
        (3, tail(|r| r.task = "xyz".into())),
        (3, tail(|r| r.persona.agent = AgentId::new("xyz"))),
        (5, tail(|r| r.persona.description = "xyzzy".into())),
        (5, tail(|r| r.persona.instructions = "xyzzy".into())),
        (4, tail(|r| r.allowed = Arc::from(["ab".into(), "cd".into()]))),
        (
            5,
            tail(|r| {
                r.colleagues = Arc::from([Colleague {
                    agent: AgentId::new("ab"),
                    description: "xyz".into(),
                }]);
            }),
        ),
        (1_003, tail(|r| r.wrap_up = Some("now".into()))),
        (
            3 * 1_002 + 1 + 2 + 3 + 4 + 5 + 1,
            tail(|r| {
                let partial = DelegateOutcome::Partial {
                    text: "four".into(),
                    missing: "fiver".into(),
                };
                r.results = Arc::from([
                    delegated("1", DelegateOutcome::Complete("22".into())),
                    delegated("", DelegateOutcome::Failed("333".into())),
                    delegated("1", partial),
                ]);
            }),
        ),
        (
            5 * 1_000 + 5 + (2 + 3) + (1 + 2) + 7,
            tail(|r| {
                let calls = vec![call("ab", "{ }"), call("x", "{}")];
                let results = vec![result("1234567"), result("")];
                r.exchange = vec![says("hello", calls), Exchange::Results(results)];
            }),
        ),
    };
    for (row, (expected, counted)) in rows.into_iter().enumerate() {
        assert_eq!(counted, expected, "row {row}");
    }
}

#[test]
fn a_verbatim_reply_counts_its_reported_output() {
    let reply = |verbatim: Option<&str>, output| {
        let reply = Reply {
            text: "1234567".into(),
            verbatim: verbatim.map(Into::into),
            usage: Usage::free(Tokens(9), Tokens(output)),
            ..Reply::default()
        };
        tail(|r| r.exchange = vec![Exchange::Reply(reply)])
    };
    assert_eq!(reply(Some("{…}"), 500), 1_500);
    assert_eq!(reply(Some("{…}"), 0), 1_007);
    assert_eq!(reply(None, 500), 1_007);
    let cut = Reply {
        verbatim: Some("[1,2]".into()),
        usage: Usage::free(Tokens(9), Tokens(90_000)),
        calls_left_out: 1_871,
        ..Reply::text("1234567")
    };
    let counted = tail(|r| r.exchange = vec![Exchange::Reply(cut)]);
    assert_eq!(
        counted, 1_012,
        "its reported output contains what was left out"
    );
}

#[test]
fn an_own_persona_is_in_the_prefix_and_not_in_the_tail() {
    let persona = Persona {
        agent: AgentId::new("ab"),
        description: "cde".into(),
        instructions: "fghi".into(),
    };
    let own = Request {
        group: Group::Own(persona.clone()),
        persona,
        ..bare()
    };
    let [plain, with] = [bare(), own].map(|request| {
        let estimator = estimator();
        let prefix = estimator.prefix(&request.shared()).tokens;
        (prefix, estimator.tail(&request).tokens)
    });
    assert_eq!(with, (plain.0 + Tokens(9), plain.1));
}

#[test]
fn the_prefix_counts_system_tools_schema_and_context_once() {
    let chat = Chat::new(1)
        .system("1234567890")
        .tool("find", "{}")
        .say(Role::User, "a question")
        .say(Role::Assistant, "an answer")
        .say(Role::User, "and another")
        .summarise(1, "summary");
    let snapshot = Arc::new(chat.freeze());
    let block = snapshot.blocks()[0].text().len() as u64;
    let request = Request {
        tools: snapshot.preamble().tools().clone(),
        output_schema: Some("{\"type\":\"object\"}".into()),
        group: Group::Shared,
        snapshot: Some(snapshot),
        ..bare()
    };
    let tools = 4 + "does find".len() as u64 + 2 + 20_000 + 10_000;
    let context = 10 + LEGEND.len() as u64 + 9 + 11 + block + 4 * 1_000;
    let expected = 100_000 + tools + 17 + context;
    let counted = estimator().prefix(&request.shared());
    assert_eq!(counted, Count::exact(expected));
    let alone = Request {
        group: Group::TaskOnly,
        ..request
    };
    let counted = estimator().prefix(&alone.shared());
    assert_eq!(counted, Count::exact(expected - context));
}

#[test]
fn a_context_that_was_counted_is_not_counted_again() {
    let chat = Chat::new(1).say(Role::User, "a question").counted();
    let snapshot = chat.freeze();
    let known = snapshot.counts().get(Encoding::O200kBase).unwrap();
    let shared = Shared {
        snapshot: Some(&snapshot),
        group: &Group::Shared,
        tools: &[],
        output_schema: None,
    };
    let estimator = Estimator {
        count: &|text| match text {
            "a question" => panic!("counted again"),
            text => Count::exact(text.len() as u64),
        },
        ..estimator()
    };
    let system = ("be brief".len() + LEGEND.len()) as u64;
    let around = Count::exact(100_000 + 2 * 1_000 + system);
    assert_eq!(estimator.prefix(&shared), known + around);
}

#[test]
fn amounts_saturate_and_estimates_stay_marked() {
    let huge = Estimator {
        count: &|_| Count::exact(u64::MAX),
        ..estimator()
    };
    assert_eq!(huge.tail(&fixture::request()), Count::exact(u64::MAX));
    let guessing = Estimator {
        count: &|text| Count::approximate(text.len() as u64),
        ..estimator()
    };
    let guess = guessing.tail(&fixture::request());
    assert!(
        guess.is_approximate() && guess.at_most <= estimator().tail(&fixture::request()).tokens
    );
}
