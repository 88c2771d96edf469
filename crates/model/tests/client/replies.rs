//! Tests of the exact bytes that are sent, and of replies in every form.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use unisono_context::Tokens;
use unisono_fake_provider::{
    Act, Answer, At, Dialect as Fake, FakeProvider, Gate, LineEnd, Script, Splits, Style, Usage,
    render_whole,
};
use unisono_model::client::{Call, Client};
use unisono_model::dialect::{Dialect, Mode};
use unisono_model::language::{Class, Listener};
use unisono_model::provider::{Auth, Header, Key, Kind, Settings};

use crate::setup::{DIALECTS, Heard, KEY, call, client, reply, settings, soon};

const TEXT: [&str; 3] = ["Größe: ", "12 €, ", "fertig 🏁."];

fn answer() -> Answer {
    Answer::pieces(TEXT).usage(Usage::new(40, 7))
}

#[tokio::test]
async fn head_and_tail_are_sent_as_they_are_with_their_length() {
    for (dialect, _) in DIALECTS {
        let provider = FakeProvider::play(Script::always(answer())).await;
        let client = client(dialect, &provider.url());
        for mode in [Mode::Stream, Mode::Whole] {
            let call = call(dialect, mode);
            let [head, tail] = call.body.clone();
            soon(client.reply(call)).await.unwrap();
            let sent = provider.requests().pop().unwrap();
            assert_eq!(sent.body, [head, tail].concat());
            let length = sent.body.len().to_string();
            assert_eq!(
                sent.header("content-length"),
                Some(length.as_str()),
                "{dialect:?}"
            );
            assert_eq!(sent.header("transfer-encoding"), None);
            assert_eq!(sent.header("content-type"), Some("application/json"));
            let asked = sent.endpoint().map(|endpoint| endpoint.mode);
            let expected = match mode {
                Mode::Stream => unisono_fake_provider::Mode::Stream,
                _ => unisono_fake_provider::Mode::Whole,
            };
            assert_eq!(asked, Some(expected));
        }
    }
}

#[tokio::test]
async fn each_provider_gets_the_key_in_its_header() {
    for (dialect, fake) in DIALECTS {
        let provider = FakeProvider::start().await;
        let mut settings = settings(dialect, &provider.url());
        settings.headers = vec![Header::new("X-Title", "tests").unwrap()];
        let client = Client::new(settings).unwrap();
        reply(&client).await.unwrap();
        let sent = provider.requests().pop().unwrap();
        let expected = match fake {
            Fake::OpenAiChat | Fake::OpenAiResponses => ("authorization", format!("Bearer {KEY}")),
            Fake::Anthropic => ("x-api-key", KEY.to_owned()),
            Fake::Gemini => ("x-goog-api-key", KEY.to_owned()),
        };
        assert_eq!(sent.header(expected.0), Some(expected.1.as_str()));
        assert!(!sent.query.contains(KEY), "never in the address");
        assert_eq!(sent.header("x-title"), Some("tests"));
        let version = (fake == Fake::Anthropic).then_some("2023-06-01");
        assert_eq!(sent.header("anthropic-version"), version);
        assert!(sent.header("user-agent").unwrap().starts_with("unisono/"));
        assert_eq!(sent.header("accept-encoding"), Some("identity"));
    }
}

#[tokio::test]
async fn a_model_with_another_dialect_has_the_header_of_that_dialect() {
    let provider = FakeProvider::start().await;
    let chat = client(Dialect::OpenAiChat, &provider.url());
    reply(&chat.with_dialect(Dialect::Anthropic)).await.unwrap();
    reply(&chat).await.unwrap();
    let versions: Vec<_> = provider
        .requests()
        .iter()
        .map(|sent| sent.header("anthropic-version").map(str::to_owned))
        .collect();
    assert_eq!(versions, [Some("2023-06-01".to_owned()), None]);
}

#[tokio::test]
async fn a_header_of_the_settings_replaces_the_dialects() {
    let provider = FakeProvider::start().await;
    let mut settings = settings(Dialect::Anthropic, &provider.url());
    settings.headers = vec![Header::new("anthropic-version", "2099-01-01").unwrap()];
    settings.auth = Auth::None;
    let client = Client::new(settings).unwrap();
    reply(&client).await.unwrap();
    let sent = provider.requests().pop().unwrap();
    let versions: Vec<_> = sent
        .headers
        .iter()
        .filter(|(name, _)| name == "anthropic-version")
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(versions, ["2099-01-01"]);
    assert_eq!(sent.header("x-api-key"), None);
}

#[tokio::test]
async fn azures_addresses_have_a_deployment_and_a_version() {
    let key = Key::from_variables(&["TEST_KEY"], |_| Some(KEY.into())).unwrap();
    let provider = FakeProvider::start().await;
    let mut settings = Settings::new("mine", Kind::Azure, Some(&provider.url()), key).unwrap();
    settings.address.deployments = true;
    settings.address.api_version = Some("2024-10-21".into());
    reply(&Client::new(settings).unwrap()).await.unwrap();
    let sent = provider.requests().pop().unwrap();
    assert_eq!(sent.path, "/openai/deployments/fake-model/chat/completions");
    assert_eq!(sent.query, "api-version=2024-10-21");
    assert_eq!(sent.header("api-key"), Some(KEY));
    assert_eq!(sent.header("authorization"), None);
}

#[tokio::test]
async fn streams_and_documents_give_the_same_reply() {
    for (dialect, fake) in DIALECTS {
        let document = Act::json(200, render_whole(fake, &answer()));
        let acts = [Act::answer(answer()), Act::answer(answer()), document];
        let provider = FakeProvider::play(Script::sequence(acts)).await;
        let client = client(dialect, &provider.url());
        let mut replies = Vec::new();
        // The third request asks for a stream and receives a document.
        for mode in [Mode::Stream, Mode::Whole, Mode::Stream] {
            let heard = Heard::default();
            let first = Arc::new(AtomicUsize::new(0));
            let notified = first.clone();
            let mut call = call(dialect, mode);
            call.listener = heard.listener();
            call.on_first_event = Some(Box::new(move || {
                notified.fetch_add(1, Ordering::SeqCst);
            }));
            let reply = soon(client.reply(call)).await.unwrap();
            assert_eq!(&*reply.text, TEXT.concat(), "{dialect:?}, {mode:?}");
            assert_eq!(
                heard.pieces().concat(),
                TEXT.concat(),
                "{dialect:?}, {mode:?}"
            );
            assert_eq!(first.load(Ordering::SeqCst), 1, "told once");
            assert_eq!(reply.usage.input, Tokens(40));
            replies.push((reply.text, reply.usage, reply.stop));
        }
        assert!(
            replies.windows(2).all(|pair| pair[0] == pair[1]),
            "{replies:?}"
        );
    }
}

#[tokio::test]
async fn a_document_with_a_wrong_type_is_read_as_a_document() {
    for (dialect, fake) in DIALECTS {
        for content_type in ["text/plain; charset=utf-8", "text/event-stream"] {
            let body = [b" \n".as_slice(), &render_whole(fake, &answer())].concat();
            let act = Act::document(200, content_type, body);
            let provider = FakeProvider::play(Script::always(act)).await;
            let reply = reply(&client(dialect, &provider.url())).await.unwrap();
            assert_eq!(&*reply.text, TEXT.concat(), "{dialect:?}, {content_type}");
        }
    }
}

#[tokio::test]
async fn a_character_split_between_events_is_joined() {
    let first = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"so \ud83d"}}]}"#;
    let second =
        r#"{"choices":[{"index":0,"delta":{"content":"\ude00!"},"finish_reason":"stop"}]}"#;
    let stream = format!("data: {first}\n\ndata: {second}\n\ndata: [DONE]\n\n");
    let act = Act::document(200, "text/event-stream", stream);
    let provider = FakeProvider::play(Script::sequence([act])).await;
    let client = client(Dialect::OpenAiChat, &provider.url());
    let heard = Heard::default();
    let mut call = call(Dialect::OpenAiChat, Mode::Stream);
    call.listener = heard.listener();
    let reply = soon(client.reply(call)).await.unwrap();
    assert_eq!(&*reply.text, "so 😀!");
    assert_eq!(heard.pieces().concat(), "so 😀!");
}

#[tokio::test]
async fn text_is_passed_on_while_it_is_streamed() {
    for (dialect, _) in DIALECTS {
        let gate = Gate::new();
        let act = Act::answer(answer()).hold_at(At::LastEvent, &gate);
        let provider = FakeProvider::play(act).await;
        let client = client(dialect, &provider.url());
        let heard = Arc::new(Notify::new());
        let hears = heard.clone();
        let mut call = call(dialect, Mode::Stream);
        call.listener = Listener::new(move |_| hears.notify_one());
        let reply = tokio::spawn(async move { client.reply(call).await });
        soon(heard.notified()).await;
        assert!(!reply.is_finished(), "its end is held back");
        gate.open();
        assert!(soon(reply).await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn a_reply_without_text_reports_activity() {
    for (dialect, _) in DIALECTS {
        let gate = Gate::new();
        let answer = Answer::call("search", r#"{"q":"x"}"#).reasoning("Where is it?", "sig");
        let act = Act::answer(answer).hold_at(At::LastEvent, &gate);
        let provider = FakeProvider::play(act).await;
        let client = client(dialect, &provider.url());
        let heard = Arc::new(Notify::new());
        let hears = heard.clone();
        let mut call = call(dialect, Mode::Stream);
        let listener = Listener::new(move |text| assert_eq!(text, "", "{dialect:?}"));
        call.listener = listener.with_activity(move || hears.notify_one());
        let reply = tokio::spawn(async move { client.reply(call).await });
        soon(heard.notified()).await;
        assert!(!reply.is_finished(), "its end is held back");
        gate.open();
        let reply = soon(reply).await.unwrap().unwrap();
        assert_eq!(reply.calls.len(), 1, "{dialect:?}");
    }
}

#[tokio::test]
async fn streams_in_every_style_and_every_cut_into_packets() {
    let plain = Style::PLAIN;
    let styles = [
        plain,
        Style {
            line_end: Some(LineEnd::CrLf),
            ..plain
        },
        Style {
            line_end: Some(LineEnd::Cr),
            ..plain
        },
        Style {
            line_end: Some(LineEnd::Lf),
            byte_order_mark: true,
            ..plain
        },
        Style {
            comments: true,
            ..plain
        },
        Style {
            empty_events: true,
            ..plain
        },
        Style {
            folded: true,
            ..plain
        },
        Style {
            unspaced: true,
            comments: true,
            empty_events: true,
            ..plain
        },
    ];
    for (dialect, _) in DIALECTS {
        for style in styles {
            for splits in [
                Splits::None,
                Splits::Events,
                Splits::Every(1),
                Splits::Every(7),
            ] {
                let act = Act::answer(answer()).style(style).split(splits.clone());
                let provider = FakeProvider::play(act).await;
                let reply = reply(&client(dialect, &provider.url())).await;
                let text = reply.map(|reply| reply.text.to_string());
                assert_eq!(
                    text,
                    Ok(TEXT.concat()),
                    "{dialect:?}, {style:?}, {splits:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn data_after_the_terminal_marker_is_not_read() {
    for (dialect, fake) in DIALECTS {
        let last = unisono_fake_provider::render_events(fake, &answer()).len() - 1;
        let provider = FakeProvider::play(Act::answer(answer()).double(last)).await;
        let reply = reply(&client(dialect, &provider.url())).await.unwrap();
        assert_eq!(&*reply.text, TEXT.concat(), "{dialect:?}");
    }
}

#[tokio::test]
async fn tokens_are_counted_if_the_provider_supports_it() {
    for (dialect, fake) in DIALECTS {
        let counts = Script::always(Answer::empty().usage(Usage::new(1_234, 0)));
        let provider = FakeProvider::builder().counts(counts).start().await;
        let client = client(dialect, &provider.url());
        let counted = soon(client.count(call(dialect, Mode::Stream))).await;
        if fake == Fake::OpenAiChat {
            let error = counted.unwrap_err();
            assert_eq!(error.class, Class::Internal);
            assert!(error.reason.contains("cannot count tokens"), "{error}");
            assert_eq!(provider.request_count(), 0);
            continue;
        }
        assert_eq!(counted, Ok(Tokens(1_234)));
        let sent = provider.requests().pop().unwrap();
        let [head, tail] = call(dialect, Mode::Stream).body;
        let (before, after) = dialect.count_wrapper();
        let expected = [before.as_bytes(), &head, &tail, after.as_bytes()].concat();
        assert_eq!(sent.body, expected);
        let length = expected.len().to_string();
        assert_eq!(sent.header("content-length"), Some(length.as_str()));
    }
}

#[tokio::test]
async fn a_reply_for_a_count_request_is_an_internal_error() {
    let provider = FakeProvider::start().await;
    let client = client(Dialect::Anthropic, &provider.url());
    let error = soon(client.reply(call(Dialect::Anthropic, Mode::Count)))
        .await
        .unwrap_err();
    assert_eq!(error.class, Class::Internal);
}

#[tokio::test]
async fn the_providers_id_of_a_request_is_kept() {
    let dialect = Dialect::Anthropic;
    let acts = [Act::answer("Hello."), Act::html(400)];
    let provider = FakeProvider::play(Script::sequence(acts)).await;
    let client = client(dialect, &provider.url());
    let reply_id = reply(&client).await.unwrap().request_id;
    assert_eq!(reply_id.as_deref(), Some("req_0"));
    let error = reply(&client).await.unwrap_err();
    assert_eq!(error.request_id.as_deref(), Some("req_1"));
    assert!(error.to_string().ends_with("(request req_1)"), "{error}");
}

#[tokio::test]
async fn connections_are_reused() {
    for (dialect, _) in DIALECTS {
        let provider = FakeProvider::play(Script::always(answer())).await;
        let client = client(dialect, &provider.url());
        for _ in 0..20 {
            reply(&client).await.unwrap();
            provider.wait_for_quiet().await;
        }
        // A new connection may be opened while another is just being returned to the pool.
        assert!(provider.connections() <= 3, "{}", provider.connections());
    }
}

#[tokio::test]
async fn a_connection_with_data_after_the_reply_is_reused() {
    const CALLS: usize = 6;
    for (dialect, _) in DIALECTS {
        let gates: Vec<Gate> = (0..CALLS).map(|_| Gate::new()).collect();
        let acts = gates
            .iter()
            .map(|gate| Act::answer(answer()).hold_at(At::End, gate));
        let provider = FakeProvider::play(Script::sequence(acts)).await;
        let client = Arc::new(client(dialect, &provider.url()));
        for gate in &gates {
            let reply = tokio::spawn({
                let client = client.clone();
                async move { reply(&client).await.is_ok() }
            });
            gate.reached(1).await;
            // Only Gemini's replies end with their answer; those of the others are complete before.
            if dialect != Dialect::Gemini {
                assert!(soon(reply).await.unwrap());
                gate.open();
            } else {
                gate.open();
                assert!(soon(reply).await.unwrap());
            }
            provider.wait_for_quiet().await;
        }
        assert_eq!(provider.abandoned(), 0, "{dialect:?}");
        // A new connection may be opened while another is just being returned to the pool.
        assert!(
            provider.connections() <= 3,
            "{dialect:?}: {}",
            provider.connections()
        );
    }
}

/// A proxy that repeats a piece of a stream: the reply is unchanged, or has that piece twice. No
/// call is added that the model did not make, unless calls have no ids or indices.
#[tokio::test]
async fn a_repeated_event_is_not_a_second_call() {
    let answer = Answer::pieces(["I look ", "for it."]);
    let answer = answer
        .and_call("search", r#"{"q":"x"}"#)
        .and_call("read", r#"{"n":2}"#);
    for (dialect, fake) in DIALECTS {
        let events = unisono_fake_provider::render_events(fake, &answer).len();
        for event in 0..events {
            let act = Act::answer(answer.clone()).double(event);
            let provider = FakeProvider::play(Script::always(act)).await;
            let reply = reply(&client(dialect, &provider.url())).await.unwrap();
            let case = format!("{dialect:?}, event {event}: {reply:?}");
            assert!(reply.text.len() <= 2 * "I look for it.".len() + 2, "{case}");
            let mut names: Vec<&str> = reply.calls.iter().map(|call| &*call.name).collect();
            if dialect == Dialect::Gemini {
                names.dedup();
            }
            assert_eq!(names, ["search", "read"], "{case}");
            // Arguments that came twice are not JSON, which is reported to the model.
            let known = [r#"{"q":"x"}"#, r#"{"n":2}"#];
            let sound = |arguments: &str| known.contains(&arguments);
            let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
            let arguments = reply.calls.iter().map(|call| &*call.arguments);
            assert!(
                arguments.into_iter().all(|a| sound(a) || !json(a)),
                "{case}"
            );
        }
    }
}

#[tokio::test]
async fn reasoning_opened_by_the_prompt_is_not_reported() {
    let thinking = Answer::pieces(["A ", "key?</th", "ink>\n", "\nUnder ", "the mat."]);
    for mode in [Mode::Stream, Mode::Whole] {
        for (think_opened, expected) in [
            (true, "Under the mat."),
            (false, "A key?</think>\n\nUnder the mat."),
        ] {
            let provider = FakeProvider::play(Script::always(thinking.clone())).await;
            let client = client(Dialect::OpenAiChat, &provider.url());
            let heard = Heard::default();
            let call = Call {
                think_opened,
                listener: heard.listener(),
                ..call(Dialect::OpenAiChat, mode)
            };
            let reply = soon(client.reply(call)).await.unwrap();
            assert_eq!(&*reply.text, expected, "{mode:?}");
            assert_eq!(heard.pieces().concat(), expected, "{mode:?}");
        }
    }
}
