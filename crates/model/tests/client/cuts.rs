//! Tests of streams that are cut off: at every byte about the end of a line, and at every fifth of the
//! others. The cuts of lines themselves are tested without sockets, at every byte.

use unisono_fake_provider::{Act, Answer, At, Ending, FakeProvider, Script, Usage, render_stream};
use unisono_model::client::Client;
use unisono_model::dialect::Dialect;
use unisono_model::language::{Class, Reply, Stop};

use crate::setup::{DIALECTS, reply, settings};

/// Text alone, and everything that an answer can contain: reasoning, calls, and usage.
fn answers() -> [Answer; 2] {
    let whole = Answer::pieces(["Grö", "ße"])
        .reasoning("Größer als \"drei\"? 🤔", "sig+/=")
        .and_call("search", r#"{"q":"Straße \"3\""}"#)
        .and_call("open", r#"{"path":"🏁"}"#)
        .usage(Usage {
            input: 1_200,
            output: 90,
            reasoning: 60,
            cache_read: 1_024,
            cache_write: 0,
        });
    [Answer::pieces(["Grö", "ße 🏁"]), whole]
}

fn check(dialect: Dialect, answer: &Answer, reply: &Reply) {
    assert_eq!(*reply.text, answer.text.concat(), "{dialect:?}");
    let called: Vec<(&str, &str)> = reply
        .calls
        .iter()
        .map(|call| (&*call.name, &*call.arguments))
        .collect();
    let calls = answer.calls.iter();
    let calls: Vec<(&str, &str)> = calls.map(|c| (&*c.name, &*c.arguments)).collect();
    assert_eq!(called, calls, "{dialect:?}");
    assert_eq!(reply.stop, Stop::Complete);
    let usage = (
        reply.usage.input.0,
        reply.usage.output.0,
        reply.usage.cache_read.0,
    );
    let reported = answer.usage;
    assert_eq!(
        usage,
        (reported.input, reported.output, reported.cache_read),
        "{dialect:?}"
    );
    let thought = reply.verbatim.as_deref().unwrap_or_default();
    assert_eq!(
        thought.contains("Größer"),
        answer.reasoning.is_some(),
        "{dialect:?} {thought}"
    );
}

async fn cut_off(ending: Ending, allowed: &[Class]) {
    for ((dialect, fake), answer) in DIALECTS
        .into_iter()
        .flat_map(|of| answers().map(|a| (of, a)))
    {
        let stream = render_stream(fake, &answer);
        let length = stream.len();
        // The last event is complete without its line end and its empty line.
        let complete = stream.trim_ascii_end().len();
        let is_chosen = |cut: &usize| {
            let about = &stream[cut.saturating_sub(2)..(cut + 2).min(length)];
            cut.is_multiple_of(5) || about.contains(&b'\n')
        };
        let cuts: Vec<usize> = (0..=length).filter(is_chosen).collect();
        let act = Act::answer(answer.clone());
        let acts = cuts
            .iter()
            .map(|&cut| act.clone().end_at(At::Body(cut), ending));
        let provider = FakeProvider::play(Script::sequence(acts)).await;
        let mut settings = settings(dialect, &provider.url());
        settings.retry.attempts = 1;
        let client = Client::new(settings).unwrap();
        for &cut in &cuts {
            match reply(&client).await {
                Ok(reply) => {
                    assert!(cut >= complete, "{dialect:?}, cut at {cut} of {length}");
                    check(dialect, &answer, &reply);
                }
                Err(error) => {
                    assert!(
                        cut < complete,
                        "{dialect:?}, cut at {cut} of {length}: {error}"
                    );
                    assert!(
                        allowed.contains(&error.class),
                        "{dialect:?}, cut at {cut}: {error:?}"
                    );
                }
            }
        }
        assert_eq!(provider.request_count(), cuts.len());
    }
}

#[tokio::test]
async fn a_stream_that_ends_well_without_its_marker_is_incomplete() {
    cut_off(Ending::Finish, &[Class::IncompleteStream]).await;
}

#[tokio::test]
async fn a_stream_whose_connection_is_closed_is_broken_or_incomplete() {
    cut_off(Ending::Close, &[Class::Transport, Class::IncompleteStream]).await;
}
