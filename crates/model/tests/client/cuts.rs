//! Streams that are cut at every byte.

use unisono_fake_provider::{Act, Answer, At, Ending, FakeProvider, Script, render_stream};
use unisono_model::client::Client;
use unisono_model::language::Class;

use crate::setup::{DIALECTS, reply, settings};

fn answer() -> Answer {
    Answer::pieces(["Grö", "ße 🏁"])
}

async fn cut_everywhere(ending: Ending, allowed: &[Class]) {
    for (dialect, fake) in DIALECTS {
        let length = render_stream(fake, &answer()).len();
        let act = Act::answer(answer());
        let acts = (0..=length).map(|cut| act.clone().end_at(At::Body(cut), ending));
        let provider = FakeProvider::play(Script::sequence(acts)).await;
        let mut settings = settings(dialect, &provider.url());
        settings.retry.attempts = 1;
        let client = Client::new(settings).unwrap();
        for cut in 0..=length {
            match reply(&client).await {
                Ok(reply) => {
                    // The last event is there once its empty line has begun.
                    assert!(cut + 1 >= length, "{dialect:?}, cut at {cut} of {length}");
                    assert_eq!(&*reply.text, "Größe 🏁");
                }
                Err(error) => {
                    assert!(
                        cut < length,
                        "{dialect:?}, cut at {cut} of {length}: {error}"
                    );
                    assert!(
                        allowed.contains(&error.class),
                        "{dialect:?}, cut at {cut}: {error:?}"
                    );
                }
            }
        }
        assert_eq!(provider.request_count(), length + 1);
    }
}

#[tokio::test]
async fn a_stream_that_ends_well_without_its_marker_is_incomplete() {
    cut_everywhere(Ending::Finish, &[Class::IncompleteStream]).await;
}

#[tokio::test]
async fn a_stream_whose_connection_is_closed_is_broken_or_incomplete() {
    cut_everywhere(Ending::Close, &[Class::Transport, Class::IncompleteStream]).await;
}
