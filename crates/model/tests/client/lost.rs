//! Tests of attempts that are interrupted while the provider is working: they are reported with
//! their usage, whatever the result of the call is.

use std::sync::{Arc, Mutex};

use unisono_fake_provider::{Act, Answer, At, Ending, FakeProvider, Refusal, Script};
use unisono_model::client::{Call, Client};
use unisono_model::dialect::{Dialect, Mode};
use unisono_model::language::{Class, Error, Reply, Usage};

use crate::setup::{DIALECTS, call, ms, settings, soon};

fn answer() -> Answer {
    Answer::pieces(["One ", "two ", "three."])
}

fn cut(ending: Ending) -> Act {
    Act::answer(answer()).end_at(At::Event(3), ending)
}

/// The result of a call, and the lost attempts that were reported.
async fn outcome(dialect: Dialect, script: Script) -> (Result<Reply, Error>, Vec<Usage>) {
    let provider = FakeProvider::play(script).await;
    let mut settings = settings(dialect, &provider.url());
    settings.retry.attempts = 2;
    settings.timeouts.first_byte = ms(300);
    settings.timeouts.idle = ms(300);
    let client = Client::new(settings).unwrap();
    let lost: Arc<Mutex<Vec<Usage>>> = Arc::default();
    let heard = lost.clone();
    let call = Call {
        on_interrupted: Some(Box::new(move |used| heard.lock().unwrap().push(used))),
        ..call(dialect, Mode::Stream)
    };
    let replied = soon(client.reply(call)).await;
    let lost = lost.lock().unwrap().clone();
    (replied, lost)
}

#[tokio::test]
async fn an_interrupted_reply_is_reported_even_if_the_next_attempt_succeeds() {
    for (dialect, _) in DIALECTS {
        let broken = [
            cut(Ending::Reset),
            cut(Ending::Close),
            cut(Ending::Finish),
            cut(Ending::Silence),
            Act::answer(answer()).fail_after(3, Refusal::Internal),
        ];
        for act in broken {
            let name = format!("{dialect:?} {act:?}");
            let script = Script::sequence([act.clone()]).then(answer());
            let (reply, lost) = outcome(dialect, script).await;
            assert_eq!(&*reply.unwrap().text, "One two three.", "{name}");
            let [used] = &lost[..] else {
                panic!("told once: {lost:?} {name}");
            };
            assert!(used.output.0 >= 3, "{used:?} {name}");
            // Anthropic reports the input of a request at once, Gemini with each event.
            let reported = matches!(dialect, Dialect::Anthropic | Dialect::Gemini);
            assert_eq!(used.input.0 > 0, reported, "{used:?} {name}");

            let (failed, lost) = outcome(dialect, Script::always(act)).await;
            let error = failed.unwrap_err();
            assert!(error.begun && error.is_paid_for(), "{error:?} {name}");
            assert_eq!(lost.len(), 2, "both attempts: {name}");
        }
    }
}

#[tokio::test]
async fn nothing_is_reported_if_no_reply_began() {
    for (dialect, _) in DIALECTS {
        for act in [
            Act::refuse(Refusal::Internal),
            Act::refuse(Refusal::Overloaded),
            Act::refuse(Refusal::Unauthorised),
            Act::answer(answer()).fail_after(0, Refusal::Overloaded),
            Act::answer(answer()).end_at(At::Head, Ending::Reset),
        ] {
            let (failed, lost) = outcome(dialect, Script::always(act.clone())).await;
            let error = failed.unwrap_err();
            assert!(!error.is_paid_for(), "{error:?} {dialect:?} {act:?}");
            assert_eq!(lost, [], "{dialect:?} {act:?}");
        }
    }
}

#[tokio::test]
async fn a_refusal_after_the_providers_state_is_not_paid() {
    let error = r#""error":{"code":"server_error","message":"busy"}"#;
    for (dialect, state, refusal) in [
        (
            Dialect::OpenAiChat,
            r#"{"choices":[],"prompt_filter_results":[]}"#,
            format!("{{{error}}}"),
        ),
        (
            Dialect::OpenAiResponses,
            r#"{"type":"response.created","response":{"status":"in_progress"}}"#,
            format!(r#"{{"type":"response.failed","response":{{"status":"failed",{error}}}}}"#),
        ),
        (
            Dialect::Anthropic,
            r#"{"type":"ping"}"#,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#.to_owned(),
        ),
    ] {
        let stream = format!("data: {state}\n\ndata: {refusal}\n\n");
        let refused = Act::document(200, "text/event-stream", stream);
        let (failed, lost) = outcome(dialect, Script::always(refused)).await;
        let error = failed.unwrap_err();
        assert!(error.class.is_transient(), "{error:?} {dialect:?}");
        assert!(!error.is_paid_for(), "{error:?} {dialect:?}");
        assert_eq!(lost, [], "{dialect:?}");
    }
}

#[tokio::test]
async fn a_refusal_with_usage_is_paid() {
    let error = r#""error":{"code":"server_error","message":"busy"}"#;
    let chat = r#""usage":{"prompt_tokens":9,"completion_tokens":3}"#;
    let responses = r#""usage":{"input_tokens":9,"output_tokens":3}"#;
    let gemini = r#""usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3}"#;
    let failed = format!(r#""response":{{"status":"failed",{error},{responses}}}"#);
    let unusable = r#""candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]"#;
    for (dialect, reply) in [
        (Dialect::OpenAiChat, format!("data: {{{error},{chat}}}\n\n")),
        (
            Dialect::OpenAiChat,
            format!(r#"{{"choices":[{{"message":{{"content":"One"}},{error}}}],{chat}}}"#),
        ),
        (
            Dialect::OpenAiResponses,
            format!("data: {{\"type\":\"response.failed\",{failed}}}\n\n"),
        ),
        (Dialect::Gemini, format!("{{{unusable},{gemini}}}")),
    ] {
        let act = Act::document(200, "text/event-stream", reply.clone());
        let (failed, lost) = outcome(dialect, Script::always(act)).await;
        let error = failed.unwrap_err();
        assert!(error.class.is_transient(), "{error:?} {reply}");
        assert!(error.is_paid_for(), "{error:?} {reply}");
        let lost: Vec<_> = lost
            .iter()
            .map(|used| (used.input.0, used.output.0))
            .collect();
        assert_eq!(lost, [(9, 3); 2], "both attempts: {reply}");
    }
}

#[tokio::test]
async fn a_document_that_breaks_off_is_paid() {
    let document = Act::json(200, r#"{"choices":[{"message":{"content":"One"}}]}"#);
    let broken = document.end_at(At::Body(9), Ending::Close);
    let (failed, lost) = outcome(Dialect::OpenAiChat, Script::always(broken)).await;
    let error = failed.unwrap_err();
    assert_eq!(error.class, Class::Transport);
    assert!(error.is_paid_for() && lost.len() == 2, "{error:?} {lost:?}");
}

#[tokio::test]
async fn a_call_rejected_after_an_interrupted_attempt_has_begun() {
    let script = Script::sequence([cut(Ending::Reset)]).then(Act::refuse(Refusal::Unauthorised));
    let (failed, lost) = outcome(Dialect::OpenAiChat, script).await;
    let error = failed.unwrap_err();
    assert_eq!((error.class, error.begun), (Class::Unauthorised, true));
    assert_eq!(lost.len(), 1);
}

#[tokio::test]
async fn a_silent_provider_counts_as_working() {
    let script = Script::sequence([Act::silence()]).then(answer());
    let (reply, lost) = outcome(Dialect::OpenAiChat, script).await;
    assert!(reply.is_ok());
    assert_eq!(lost.len(), 1, "what it was asked is paid for: {lost:?}");
}

#[tokio::test]
async fn an_invalid_tool_call_is_a_paid_reply() {
    let stream = concat!(
        r#"data: {"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL"}],"#,
        r#""usageMetadata":{"promptTokenCount":900,"candidatesTokenCount":40,"#,
        r#""thoughtsTokenCount":60}}"#,
        "\n\n",
    );
    let malformed = Act::document(200, "text/event-stream", stream);
    let script = Script::sequence([malformed]).then(answer());
    let (reply, lost) = outcome(Dialect::Gemini, script).await;
    assert!(reply.is_ok());
    let used: Vec<_> = lost
        .iter()
        .map(|used| (used.input.0, used.output.0))
        .collect();
    assert_eq!(used, [(900, 100)]);
}
