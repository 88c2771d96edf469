//! Every dialect's streams and documents, word for word.

use unisono_fake_provider::{
    Answer, Dialect, Refusal, Stop, Usage, render_count, render_stream, render_whole,
};

/// Reasoning, text in pieces, two parallel calls, and usage of every kind.
fn full() -> Answer {
    Answer::pieces(["Let me ", "look."])
        .reasoning("The user wants two orders.", "c2lnbmVk")
        .and_call("find_order", r#"{"id":1}"#)
        .and_call("find_order", r#"{"id":2}"#)
        .usage(Usage::new(2_000, 50).reasoning(12).cached(1_024, 512))
}

fn stream(dialect: Dialect, answer: &Answer) -> String {
    String::from_utf8(render_stream(dialect, answer)).expect("text")
}

fn whole(dialect: Dialect, answer: &Answer) -> String {
    let bytes = render_whole(dialect, answer);
    let document: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    assert!(document.is_object());
    String::from_utf8(bytes).expect("text")
}

#[test]
fn full_answers() {
    for dialect in Dialect::ALL {
        insta::assert_snapshot!(format!("stream_{dialect:?}"), stream(dialect, &full()));
        insta::assert_snapshot!(format!("whole_{dialect:?}"), whole(dialect, &full()));
    }
}

#[test]
fn plain_answers() {
    for dialect in Dialect::ALL {
        let plain = Answer::text("Hi \"there\".\n");
        insta::assert_snapshot!(format!("plain_stream_{dialect:?}"), stream(dialect, &plain));
        insta::assert_snapshot!(format!("plain_whole_{dialect:?}"), whole(dialect, &plain));
    }
}

#[test]
fn every_event_is_json_or_the_mark_of_the_end() {
    for dialect in Dialect::ALL {
        for stop in [Stop::Complete, Stop::CutOff, Stop::Refused, Stop::Filtered] {
            let stream = stream(dialect, &full().stop(stop));
            for line in stream.lines().filter(|line| line.starts_with("data: ")) {
                let data = &line["data: ".len()..];
                let valid = serde_json::from_str::<serde_json::Value>(data).is_ok();
                assert!(valid || data == "[DONE]", "{dialect:?} {stop:?}: {data}");
            }
        }
    }
}

#[test]
fn stops_are_told_apart() {
    let mut table = String::new();
    for dialect in Dialect::ALL {
        for stop in [Stop::Complete, Stop::CutOff, Stop::Refused, Stop::Filtered] {
            let document = whole(dialect, &Answer::text("No.").stop(stop));
            let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
            let reply = match dialect {
                Dialect::OpenAiChat => {
                    let choice = &document["choices"][0];
                    format!(
                        "{} refusal={}",
                        choice["finish_reason"], choice["message"]["refusal"]
                    )
                }
                Dialect::OpenAiResponses => {
                    let kind = &document["output"][0]["content"][0]["type"];
                    format!(
                        "{} {} {kind}",
                        document["status"], document["incomplete_details"]
                    )
                }
                Dialect::Anthropic => document["stop_reason"].to_string(),
                Dialect::Gemini => {
                    let reason = &document["candidates"][0]["finishReason"];
                    format!(
                        "{reason} blocked={}",
                        document["promptFeedback"]["blockReason"]
                    )
                }
            };
            table.push_str(&format!("{dialect:?} {stop:?}: {reply}\n"));
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn refusals() {
    let mut table = String::new();
    for dialect in Dialect::ALL {
        for refusal in [
            Refusal::Unauthorised,
            Refusal::Forbidden,
            Refusal::UnknownModel("nope".into()),
            Refusal::Overflow {
                limit: 8_192,
                actual: 9_000,
            },
            Refusal::BadRequest("because".into()),
            Refusal::OutOfQuota,
            Refusal::RateLimited { seconds: None },
            Refusal::RateLimited { seconds: Some(20) },
            Refusal::Internal,
            Refusal::Overloaded,
        ] {
            let body = refusal.body(dialect);
            assert!(
                serde_json::from_str::<serde_json::Value>(&body).is_ok(),
                "{body}"
            );
            table.push_str(&format!("{dialect:?} {} {body}\n", refusal.status(dialect)));
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn arguments_that_are_not_json_still_make_documents() {
    for dialect in Dialect::ALL {
        let broken = Answer::call("tool", r#"{"half":"#);
        assert!(
            whole(dialect, &broken).contains(r#""{\"half\":""#),
            "{dialect:?}"
        );
    }
}

#[test]
fn counts() {
    let text = |dialect| String::from_utf8(render_count(dialect, 31)).expect("text");
    insta::assert_snapshot!(text(Dialect::OpenAiResponses), @r#"{"object":"response.input_tokens","input_tokens":31}"#);
    insta::assert_snapshot!(text(Dialect::Anthropic), @r#"{"input_tokens":31}"#);
    insta::assert_snapshot!(text(Dialect::Gemini), @r#"{"totalTokens":31,"promptTokensDetails":[{"modality":"TEXT","tokenCount":31}]}"#);
}
