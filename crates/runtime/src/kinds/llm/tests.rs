//! The model-driven agent.

mod budget;
mod fallback;
mod results;
mod room;

use std::time::Duration;

use unisono_model::language::scripted::{Act, Scripted};
use unisono_model::language::{Class, Completion, Exchange, LanguageModel, Models, Request};
use unisono_session::agent::{AgentKind, ContextMode};
use unisono_session::machine::{CallEnd, DelegateCall};
use unisono_session::run::{FallbackUsed, ToolCall, Usage};

use super::*;
use crate::agent::fixture::{Attempt, definition, task};

fn attempt() -> Attempt {
    Attempt::new(
        AgentKind::Llm,
        &["where is the key?", "under the mat", "and the spare?"],
    )
}

async fn run(attempt: &Attempt, model: &Scripted) -> Result<Answer, Failure> {
    let mut attempt = attempt.clone();
    attempt.models = Models::default().with("test/scripted", model.clone());
    LlmAgent.run(task(), attempt.ctx()).await
}

/// The run ends with this complete answer.
async fn answers(attempt: &Attempt, model: &Scripted, text: &str) {
    let answer = run(attempt, model).await.unwrap();
    assert_eq!((&*answer.text, answer.partial), (text, None));
}

fn assert_failed(failure: &Failure, cause: RunCause, reason: &str) {
    assert_eq!((failure.cause, &*failure.reason), (cause, reason));
}

fn changed(act: Act, change: impl FnOnce(&mut Reply)) -> Act {
    match act {
        Act::Reply(mut reply) => {
            change(&mut reply);
            Act::Reply(reply)
        }
        other => other,
    }
}

fn spent(act: Act, input: u64, output: u64) -> Act {
    changed(act, |reply| {
        reply.usage = Usage::free(Tokens(input), Tokens(output));
    })
}

fn saying(act: Act, text: &str) -> Act {
    changed(act, |reply| reply.text = text.into())
}

fn cut_off(act: Act) -> Act {
    changed(act, |reply| reply.stop = Stop::CutOff)
}

#[tokio::test]
async fn a_reply_without_calls_is_the_answer_and_no_step() {
    let (attempt, model) = (attempt(), Scripted::new([spent(Act::say("none"), 100, 7)]));
    let answer = run(&attempt, &model).await.unwrap();
    assert_eq!(&*answer.text, "none");
    assert_eq!(answer.partial, None);
    assert_eq!(
        (answer.usage.input, answer.usage.output),
        (Tokens(100), Tokens(7))
    );
    assert!(attempt.session.steps().is_empty());
}

#[tokio::test]
async fn a_request_shares_the_rendered_context() {
    let (mut attempt, model) = (attempt(), Scripted::new([Act::say("none")]));
    attempt.models = Models::default().with("test/scripted", model.clone());
    let ctx = attempt.ctx();
    LlmAgent.run(task(), ctx.clone()).await.unwrap();
    let request = &model.requests()[0];
    assert_eq!(
        request.prefix.bytes().as_ptr(),
        ctx.prefix().bytes().as_ptr()
    );
    let (sent, frozen) = (request.snapshot.as_ref().unwrap(), ctx.snapshot().unwrap());
    assert!(Arc::ptr_eq(sent, frozen));
    assert_eq!(&*request.task, "list the risks");
    assert_eq!(&*request.persona.instructions, "Name every risk.");
    assert_eq!(request.max_output, Tokens(4_096));
}

#[tokio::test]
async fn tools_are_called_and_every_round_is_journaled() {
    let calls = Act::call(&[("recall", r#"{"n":2}"#), ("read_message", r#"{"n":9}"#)]);
    let (attempt, model) = (
        attempt(),
        Scripted::new([
            spent(calls, 100, 5),
            spent(Act::say("under the mat"), 150, 6),
        ]),
    );
    let answer = run(&attempt, &model).await.unwrap();
    assert_eq!(&*answer.text, "under the mat");
    assert_eq!(
        (answer.usage.input, answer.usage.output),
        (Tokens(250), Tokens(11))
    );

    let steps = attempt.session.steps();
    let [Step::Model(reply), Step::Tools(results)] = [&*steps[0], &*steps[1]] else {
        panic!("a reply and its results, not {steps:?}");
    };
    assert_eq!((steps.len(), reply.calls.len()), (2, 2));
    assert_eq!(&*results[0].content, "#2 assistant:\nunder the mat");
    assert_eq!(
        (&*results[0].call_id, results[0].is_error),
        ("call_0", false)
    );
    assert!(results[1].is_error, "there is no message 9");

    let second = &model.requests()[1];
    assert!(matches!(&second.exchange[0], Exchange::Reply(r) if r.calls.len() == 2));
    assert!(
        matches!(&second.exchange[1], Exchange::Results(r) if r[0].content == results[0].content)
    );
    let progress = attempt.session.progress();
    assert!(
        progress.iter().any(|text| &**text == "calling recall"),
        "{progress:?}"
    );
}

#[tokio::test]
async fn an_attempt_continues_after_its_last_recorded_step() {
    let mut attempt = attempt();
    let script = [
        spent(Act::call(&[("recall", r#"{"n":2}"#)]), 100, 5),
        Act::Fail("gone".into()),
    ];
    let failure = run(&attempt, &Scripted::new(script)).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::Model);

    let recorded = attempt.session.steps();
    for kept in 1..=recorded.len() {
        attempt.session = Default::default();
        attempt.steps = recorded[..kept].to_vec();
        let model = Scripted::new([spent(Act::say("under the mat"), 150, 6)]);
        let answer = run(&attempt, &model).await.unwrap();
        assert_eq!(&*answer.text, "under the mat");
        assert_eq!(
            answer.usage.input,
            Tokens(250),
            "what was used before counts"
        );
        assert_eq!(
            model.requests().len(),
            1,
            "the recorded call is not repeated"
        );
        assert_eq!(
            attempt.session.steps(),
            recorded[kept..],
            "only what was missing is run"
        );
    }
}

#[tokio::test]
async fn a_model_that_never_stops_is_stopped() {
    let mut attempt = attempt();
    attempt.definition.max_model_calls = 3;
    let model = Scripted::by(|_| Act::call(&[("recall", r#"{"n":1}"#)]));
    let failure = run(&attempt, &model).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::BadOutput, "it has said nothing");
    let requests = model.requests();
    let asked: Vec<Option<&str>> = requests.iter().map(|r| r.wrap_up.as_deref()).collect();
    let last = "this is the last of 3 model calls";
    assert_eq!(asked, [None, None, Some(last)]);
}

#[tokio::test]
async fn bytes_other_than_the_recorded_ones_are_never_sent() {
    let (mut attempt, model) = (attempt(), Scripted::new([Act::say("none")]));
    attempt.tamper = true;
    let failure = run(&attempt, &model).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::SnapshotMismatch);
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn an_unknown_model_is_named() {
    let mut attempt = attempt();
    attempt.definition.model = "openai/gpt-9".into();
    let failure = run(&attempt, &Scripted::new([])).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::BadInput);
    let said = "no client for model `openai/gpt-9`; this program can use: \
                extractive, test/scripted";
    assert_eq!(&*failure.reason, said);
}

#[tokio::test]
async fn an_empty_reply_is_an_answer_if_the_clients_options_caused_it() {
    let empty = |stop| {
        Act::Reply(Reply {
            stop,
            ..Default::default()
        })
    };
    let own_limit = Some(Tokens(4_096));
    for (act, stop, max_output, partial) in [
        (Act::say("\nEND"), vec!["\n".into()], None, Some(false)),
        (empty(Stop::Complete), vec!["\n".into()], None, Some(false)),
        (empty(Stop::CutOff), vec![], own_limit, Some(true)),
        // An empty reply for another reason is not an answer.
        (empty(Stop::CutOff), vec![], Some(Tokens(5_000)), None),
        (empty(Stop::CutOff), vec![], None, None),
        (empty(Stop::Complete), vec![], own_limit, None),
    ] {
        let mut attempt = attempt();
        attempt.client_options.stop = stop;
        attempt.client_options.max_output = max_output;
        let answer = run(&attempt, &Scripted::new([act])).await;
        let said = answer
            .ok()
            .map(|answer| (answer.text, answer.partial.is_some()));
        assert_eq!(
            said,
            partial.map(|partial| ("".into(), partial)),
            "{max_output:?}"
        );
    }
}

#[tokio::test]
async fn a_reply_that_was_cut_off_is_partial() {
    let cut = cut_off(Act::say("first, the"));
    let answer = run(&attempt(), &Scripted::new([cut])).await.unwrap();
    let why = "cut off at the model's output limit of 4096 tokens";
    assert_eq!(answer.partial.as_deref(), Some(why));
}

#[tokio::test]
async fn an_empty_reply_that_was_cut_off_names_the_limit() {
    let cut = cut_off(Act::say(""));
    let failure = run(&attempt(), &Scripted::new([cut])).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::BadOutput);
    let why = "replied with nothing: cut off at the model's output limit of 4096 tokens";
    assert!(failure.reason.contains(why), "{}", failure.reason);
    assert!(
        failure.reason.contains("`max_output`"),
        "{}",
        failure.reason
    );
}

/// A server with one lane: each request waits for the earlier ones.
#[derive(Clone, Default)]
struct OneLane(Arc<tokio::sync::Mutex<()>>);

const ONE_REPLY: Duration = Duration::from_secs(2);

impl LanguageModel for OneLane {
    fn complete(&self, request: Request) -> Completion<'_> {
        Box::pin(async move {
            let waits = request.listener.begin_wait();
            let _lane = self.0.lock().await;
            drop(waits);
            tokio::time::sleep(ONE_REPLY).await;
            Ok(Reply::text("done"))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn time_spent_waiting_for_earlier_requests_does_not_count() {
    let model = OneLane::default();
    let mut runs = tokio::task::JoinSet::new();
    for _ in 0..4 {
        // Each attempt has its own limit.
        let mut attempt = attempt();
        attempt.models = Models::default().with("test/scripted", model.clone());
        runs.spawn(async move {
            tokio::select! {
                answer = LlmAgent.run(task(), attempt.ctx()) => answer.is_ok(),
                () = attempt.limit.exceeded(2 * ONE_REPLY) => false,
            }
        });
    }
    assert_eq!(runs.join_all().await, [true; 4]);
}

#[tokio::test]
async fn a_reply_cut_off_in_a_call_continues_without_that_call() {
    let cut = cut_off(Act::call(&[("recall", r#"{"n":2}"#), ("recall", "{}")]));
    let (attempt, model) = (attempt(), Scripted::new([cut, Act::say("under the mat")]));
    answers(&attempt, &model, "under the mat").await;
    let Exchange::Results(results) = &model.requests()[1].exchange[1] else {
        panic!("results");
    };
    assert_eq!(&*results[0].content, "#2 assistant:\nunder the mat");
    let text = &results[1].content;
    assert!(text.starts_with("[not made: your reply reached"));
}

#[tokio::test]
async fn a_refusal_of_the_model_fails_the_run_with_its_text() {
    let table = [
        (
            "I cannot help with that.",
            "model test/scripted declined to answer: I cannot help with that.",
        ),
        ("", "model test/scripted declined to answer"),
    ];
    for (text, reason) in table {
        let declined = Act::Reply(Reply {
            text: text.into(),
            stop: Stop::Refused,
            ..Default::default()
        });
        let attempt = attempt();
        let failure = run(&attempt, &Scripted::new([declined])).await.unwrap_err();
        assert_failed(&failure, RunCause::Refused, reason);
        assert!(attempt.session.steps().is_empty());
    }
}

#[tokio::test]
async fn the_provider_error_decides_about_another_attempt() {
    let table = [
        (Class::Transport, "provider_unavailable"),
        (Class::Unauthorised, "provider_rejected"),
        (Class::Overflow { limit: None }, "context_overflow"),
    ];
    for (class, code) in table {
        let failure = run(&attempt(), &Scripted::new([Act::FailAs(class)]))
            .await
            .unwrap_err();
        assert_eq!(failure.cause.code(), code);
    }
}

#[tokio::test]
async fn a_request_has_the_options_of_the_definition() {
    let (mut attempt, model) = (attempt(), Scripted::new([Act::say("{}")]));
    attempt.definition.output_schema = Some(r#"{"type":"object"}"#.into());
    attempt.definition.temperature_milli = Some(200);
    run(&attempt, &model).await.unwrap();
    let request = &model.requests()[0];
    assert_eq!(
        request.output_schema.as_deref(),
        Some(r#"{"type":"object"}"#)
    );
    assert_eq!(request.temperature_milli, Some(200));
    assert_eq!(request.allowed[..], attempt.definition.tools[..]);
    let listed: Vec<&str> = request.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(listed, ["compact", "delegate", "read_message", "recall"]);
}

/// A lead with two colleagues.
fn lead() -> Attempt {
    let mut attempt = attempt();
    attempt.definition.tools = vec!["delegate".into(), "recall".into()];
    attempt.colleagues = ["costs", "dates"]
        .into_iter()
        .map(|id| {
            let mut colleague = definition(AgentKind::Llm);
            colleague.id = id.into();
            colleague.description = format!("knows {id}").into();
            Arc::new(colleague)
        })
        .collect();
    attempt
}

#[tokio::test]
async fn only_a_lead_knows_its_colleagues() {
    let asked = async |attempt: &Attempt| {
        let model = Scripted::new([Act::say("done")]);
        run(attempt, &model).await.unwrap();
        let request = model.requests().remove(0);
        let colleagues = request.colleagues.iter();
        let listed = colleagues.map(|c| format!("{}: {}", c.agent, c.description));
        (listed.collect::<Vec<_>>(), request.allowed.to_vec())
    };
    let names = |names: &[&str]| names.iter().map(|n| Arc::from(*n)).collect::<Vec<_>>();
    let mut lead = lead();
    let listed = vec![
        "costs: knows costs".to_owned(),
        "dates: knows dates".to_owned(),
    ];
    assert_eq!(asked(&lead).await, (listed, names(&["delegate", "recall"])));
    let colleagues = std::mem::take(&mut lead.colleagues);
    assert_eq!(asked(&lead).await, (vec![], names(&["recall"])));
    lead.colleagues = colleagues;
    lead.definition.tools = names(&["recall"]);
    assert_eq!(asked(&lead).await, (vec![], names(&["recall"])));
}

#[tokio::test]
async fn the_tasks_of_one_reply_form_one_round() {
    let first = Act::call(&[
        ("delegate", r#"{"agent":"costs","task":"add them up"}"#),
        ("recall", r#"{"n":2}"#),
        ("delegate", r#"{"agent":"dates"}"#),
        ("delegate", r#"{"agent":"nobody","task":"rest"}"#),
        ("delegate", r#"{"agent":"dates","task":"sort them"}"#),
    ]);
    let second = Act::call(&[("delegate", r#"{"agent":"costs","task":"again"}"#)]);
    let (lead, model) = (lead(), Scripted::new([first, second, Act::say("done")]));
    run(&lead, &model).await.unwrap();

    let rounds = lead.session.rounds();
    let tasks = |calls: &[DelegateCall]| {
        let each = calls.iter();
        each.map(|c| format!("{} {}: {}", c.call_id, c.agent, c.task))
            .collect::<Vec<_>>()
    };
    assert_eq!((rounds[0].0, rounds[1].0, rounds.len()), (1, 2, 2));
    let handed_in = [
        "call_0 costs: add them up",
        "call_3 nobody: rest",
        "call_4 dates: sort them",
    ];
    assert_eq!(tasks(&rounds[0].1), handed_in);
    assert_eq!(tasks(&rounds[1].1), ["call_0 costs: again"]);

    let steps = lead.session.steps();
    let Step::Tools(results) = &*steps[1] else {
        panic!("results, not {:?}", steps[1]);
    };
    let results = results.iter();
    let contents: Vec<_> = results
        .map(|r| (&*r.call_id, &*r.content, r.is_error))
        .collect();
    let unfit =
        "the arguments of delegate do not fit its schema: missing field `task` at line 1 column 17";
    let expected = [
        ("call_0", "costs did: add them up", false),
        ("call_1", "#2 assistant:\nunder the mat", false),
        ("call_2", unfit, true),
        ("call_3", "[refused: there is no agent `nobody`]", true),
        ("call_4", "dates did: sort them", false),
    ];
    assert_eq!(contents, expected);
    let progress = lead.session.progress();
    for said in [
        "waiting for 3 agents",
        "waiting for costs",
        "calling recall",
    ] {
        assert!(progress.iter().any(|text| &**text == said), "{progress:?}");
    }
}

#[tokio::test]
async fn an_agent_that_may_not_delegate_gets_an_error() {
    let call = Act::call(&[("delegate", r#"{"agent":"costs","task":"add them up"}"#)]);
    let (attempt, model) = (attempt(), Scripted::new([call, Act::say("done")]));
    run(&attempt, &model).await.unwrap();
    assert!(attempt.session.rounds().is_empty());
    let Exchange::Results(results) = &model.requests()[1].exchange[1] else {
        panic!("results");
    };
    let says = "tool `delegate` may not be called by this agent; it may call: read_message, recall";
    assert_eq!((&*results[0].content, results[0].is_error), (says, true));
}

#[tokio::test]
async fn an_authors_code_delegates_in_its_own_rounds() {
    let mut attempt = lead();
    attempt.definition.kind = AgentKind::Custom("planner".into());
    let ctx = attempt.ctx();
    let tasks = [("costs", "add them up"), ("nobody", "rest")];
    let results = ctx.delegate(&tasks).await.unwrap();
    assert_eq!(&*results[0].content, "costs did: add them up");
    assert!(results[1].is_error);
    let arguments = r#"{"agent":"dates","task":"sort them"}"#;
    let one = ctx.call_tool("delegate", arguments).await.unwrap();
    assert_eq!(
        (&*one.content, one.is_error),
        ("dates did: sort them", false)
    );
    assert!(ctx.delegate(&[]).await.unwrap().is_empty());
    let rounds = attempt.session.rounds();
    assert_eq!(
        rounds.iter().map(|(round, _)| *round).collect::<Vec<_>>(),
        [1, 2]
    );

    attempt.definition.tools.clear();
    let failure = attempt.ctx().delegate(&tasks).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::BadInput);
}

#[tokio::test]
async fn a_step_that_is_not_journaled_fails_the_attempt() {
    let attempt = attempt();
    attempt
        .session
        .refuse(Failure::new(RunCause::Panic, "the session is gone"));
    let model = Scripted::by(|_| Act::call(&[("recall", r#"{"n":1}"#)]));
    let failure = run(&attempt, &model).await.unwrap_err();
    assert_eq!(&*failure.reason, "the session is gone");
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn the_embedded_model_answers_from_the_task_alone() {
    let mut attempt = attempt();
    attempt.definition.model = "extractive".into();
    attempt.definition.context = ContextMode::TaskOnly;
    let answer = LlmAgent.run(task(), attempt.ctx()).await.unwrap();
    assert!(!answer.text.is_empty());
}

#[tokio::test]
async fn an_author_asks_the_model_and_calls_tools_on_the_same_prompt() {
    let (mut attempt, model) = (attempt(), Scripted::new([Act::say("under the mat")]));
    attempt.models = Models::default().with("test/scripted", model.clone());
    attempt.definition.tools = vec!["read_message".into()];
    let ctx = attempt.ctx();
    let reply = ctx.ask_model("where is it?").await.unwrap();
    assert_eq!(&*reply.text, "under the mat");
    let request = &model.requests()[0];
    assert_eq!(request.prefix.digest(), ctx.prefix().digest());
    assert_eq!(&*request.task, "where is it?");
    let read = ctx.call_tool("read_message", r#"{"n": 2}"#).await.unwrap();
    assert!(!read.is_error && read.content.contains("under the mat"));
    let denied = ctx.call_tool("recall", r#"{"n": 2}"#).await.unwrap();
    assert!(denied.is_error);
}

#[cfg(feature = "schema")]
#[tokio::test]
async fn a_structured_answer_must_fit_its_schema() {
    let schema =
        r#"{"type":"object","properties":{"late":{"type":"integer"}},"required":["late"]}"#;
    let mut attempt = attempt();
    attempt.definition.output_schema = Some(schema.into());
    let rows = rows! {
        ("{\"late\":3}", Ok("{\"late\":3}")),
        ("```json\n{\"late\":3}\n```", Ok("{\"late\":3}")),
        ("Three are late.", Err("it is not JSON: expected value at line 1 column 1")),
        ("{\"late\":\"3\"}", Err("/late: \"3\" is not of type \"integer\"")),
    };
    for (said, expected) in rows {
        match (
            run(&attempt, &Scripted::new([Act::say(said)])).await,
            expected,
        ) {
            (Ok(answer), Ok(json)) => assert_eq!(&*answer.text, json),
            (Err(failure), Err(fault)) => {
                let says =
                    format!("the answer of model test/scripted does not fit its schema: {fault}");
                assert_failed(&failure, RunCause::BadOutput, &says);
                assert!(failure.cause.is_retryable());
            }
            (found, _) => panic!("{said}: {found:?}"),
        }
    }
    // A reply that was cut off is a partial answer, with the reason.
    let cut = cut_off(Act::say("{\"late\":"));
    let answer = run(&attempt, &Scripted::new([cut])).await.unwrap();
    assert!(answer.partial.is_some());
}
