//! Answers on a terminal and in a pipe.

use unisono_fake_provider::{Act, Answer, FakeProvider, Script};

use crate::support::Place;
use crate::terminal::Talking;

const ANSWER: &str = "# Findings\n\nThe **ten migrations** wait for an approval that nobody has given, \
    and the date was moved twice since the plan was written down by Marguerite.\n\n- `billing.rs` is not reviewed";

/// A model that answers so.
fn place(provider: &FakeProvider) -> Place {
    let place = Place::with_config(&format!(
        "[models]\ndefault = \"local/writer\"\n[providers.local]\nlike = \"openai-compatible\"\n\
         base_url = \"{}/v1\"\n[compaction]\nsummarisers = [\"extractive\"]\n",
        provider.url()
    ));
    place.talk();
    place
}

fn provider() -> FakeProvider {
    FakeProvider::play_on_thread(Script::by(|_| Act::answer(Answer::text(ANSWER))))
}

/// What a terminal shows of an answer of that kind.
fn shown(args: &[&str], said: &str) -> String {
    let provider = provider();
    let place = place(&provider);
    place.call(&["import", "talk.json"]).expect(0);
    let mut at = Talking::at_a_terminal(place.command(args));
    if !said.is_empty() {
        at.sees("> ");
        at.say(said);
    }
    at.sees("Findings");
    at.sees("reviewed");
    let text = at.before().replace("\r\n", "\n");
    if !said.is_empty() {
        at.say("/quit\n");
    }
    at.ends();
    text
}

#[test]
fn a_terminal_shows_structure_and_lines_that_end_at_words() {
    let run = ["run", "talk.json", "--agents", "", "--color", "always"];
    let chat = ["chat", "latest", "--agents", "", "--color", "always"];
    for (args, said) in [(&run[..], ""), (&chat, "What is left?\n")] {
        let text = shown(args, said);
        assert!(text.contains("\u{1b}[1mten\u{1b}[0m"), "{args:?}: {text:?}");
        assert!(
            text.contains("• \u{1b}[36mbilling.rs\u{1b}[0m"),
            "{args:?}: {text:?}"
        );
        assert!(
            !text.contains("**") && !text.contains('`'),
            "{args:?}: {text:?}"
        );
        // 80 columns: the paragraph has two lines.
        let wraps = text.contains("and the date was\nmoved twice");
        assert!(wraps, "{args:?}: {text:?}");
    }
}

#[test]
fn without_colours_the_marks_stay() {
    let text = shown(&["run", "talk.json", "--agents", ""], "");
    assert!(text.contains("The **ten migrations** wait"), "{text:?}");
    assert!(text.contains("- `billing.rs` is not "), "{text:?}");
    assert!(!text.contains("\u{1b}[1mten"), "{text:?}");
}

#[test]
fn a_pipe_has_the_answer_as_it_was_written() {
    let provider = provider();
    let place = place(&provider);
    let done = place.call(&["run", "talk.json", "--agents", "", "--color", "always"]);
    assert_eq!(done.expect(0).stdout.trim_end(), ANSWER);
    let lines = place.call_with("What is left?\n", &["chat", "latest", "--agents", ""]);
    assert!(lines.expect(0).stdout.contains(ANSWER));
}
