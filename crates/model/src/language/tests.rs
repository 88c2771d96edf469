//! Tests of the embedded and the scripted model.

use std::task::{Context, Poll, Waker};

use unisono_context::alteration::Form;
use unisono_context::attachment::{Content, DocumentText, Extent, Files};
use unisono_context::{AgentId, Digest, Part, Role, Snapshot};

use super::scripted::{Act, Scripted};
use super::*;
use crate::fixture::{self, Chat};
use crate::prompt::{self, DelegateOutcome, DelegateResult, Group, Persona};

fn request(snapshot: Option<Snapshot>, task: &str, results: Vec<DelegateResult>) -> Request {
    Request {
        prefix: prompt::render(snapshot.as_ref(), &Group::Shared),
        snapshot: snapshot.map(Arc::new),
        persona: Persona {
            agent: AgentId::new("decisions"),
            description: "finds decisions".into(),
            instructions: "List what was decided.".into(),
        },
        task: task.into(),
        results: results.into(),
        max_output: Tokens(4_096),
        ..fixture::request()
    }
}

fn snapshot() -> Snapshot {
    Chat::new(1)
        .say(
            Role::User,
            "We decided to ship the billing job on Friday at 14:00.",
        )
        .say(Role::Assistant, "Agreed. Anna owns the rollback plan.")
        .say(Role::User, "The weather is nice today.")
        .freeze()
}

fn delegated(agent: &str, outcome: DelegateOutcome) -> DelegateResult {
    DelegateResult {
        agent: AgentId::new(agent),
        task: Some("look".into()),
        rest: None,
        outcome,
    }
}

#[tokio::test]
async fn the_embedded_model_quotes_the_context() {
    let asked = request(
        Some(snapshot()),
        "When does the billing job ship?",
        Vec::new(),
    );
    let reply = Extractive.complete(asked.clone()).await.unwrap();
    assert!(reply.text.contains("billing job on Friday"), "{reply:?}");
    assert!(reply.calls.is_empty());
    assert!(
        reply.usage.input.0 > 30 && reply.usage.output.0 > 0,
        "{reply:?}",
    );
    let again = Extractive.complete(asked).await.unwrap();
    assert_eq!(again, reply, "it is deterministic");
}

#[tokio::test]
async fn a_document_is_quoted_from_its_text() {
    let text = "[page 1]\nThe billing job ships on Friday at 14:00.\n[page 2]\nNine orders.";
    let digest = Digest::of_bytes(text.as_bytes());
    let tokens = Tokens(20);
    let plan = Part::Attachment {
        filename: "plan.pdf".into(),
        mime: "application/pdf".into(),
        size_bytes: 8,
        content: Some(Content {
            text: Some(DocumentText { digest, tokens }),
            ..Content::new(Arc::from(&b"%PDF-1.7"[..]), Extent::Pages(2))
        }),
    };
    let task = "When does the billing job ship?";
    let with_task = Chat::new(1).user(vec![Part::text(task), plan.clone()]);
    let before = || {
        Chat::new(1)
            .user(vec![Part::text("Look at this plan."), plan.clone()])
            .say(Role::Assistant, "Noted.")
            .say(Role::User, task)
    };
    let cut = before().alter(1, Form::Cut { target_chars: 4 });
    for (chat, is_quoted) in [(with_task, true), (before(), true), (cut, false)] {
        let snapshot = chat.freeze();
        let mut files = Files::default();
        files.insert_text(digest, text.into());
        snapshot.load(files);
        let asked = request(Some(snapshot), task, Vec::new());
        let answer = Extractive.complete(asked).await.unwrap().text;
        assert_eq!(answer.contains("ships on Friday"), is_quoted, "{answer}");
    }
}

#[tokio::test]
async fn the_note_about_dropped_messages_is_not_quoted() {
    let chat = Chat::new(1)
        .say(
            Role::User,
            "The first messages were dropped by the courier.",
        )
        .say(Role::Assistant, "Noted.")
        .say(Role::User, "We decided to ship the billing job on Friday.")
        .say(Role::User, "Which messages were dropped from the context?")
        .drop_up_to(2);
    let task = "Which messages were dropped from the context?";
    let asked = request(Some(chat.freeze()), task, Vec::new());
    let text = Extractive.complete(asked).await.unwrap().text;
    assert!(!text.contains("recall #n reads them"), "{text}");
}

#[tokio::test]
async fn a_task_that_was_given_before_is_not_quoted() {
    let one = "Sum up what was decided and by whom.";
    let two = "Where does this stand? Sum up what was decided and by whom.";
    for task in [one, two] {
        let chat = Chat::new(1)
            .say(Role::User, "We decided to ship the billing job on Friday.")
            .say(Role::User, task)
            .say(Role::Assistant, "Good.")
            .say(Role::User, task);
        let asked = request(Some(chat.freeze()), task, Vec::new());
        let text = Extractive.complete(asked).await.unwrap().text;
        assert!(text.contains("billing job"), "{text}");
        assert!(!text.contains("by whom"), "{text}");
    }
}

#[tokio::test]
async fn a_question_without_words_follows_the_last_one() {
    let chat = || {
        Chat::new(1)
            .say(Role::User, "We decided to ship the billing job on Friday.")
            .say(Role::User, "The weather is nice today, says Olga.")
            .say(Role::User, "When does the billing job ship?")
            .say(Role::Assistant, "On Friday.")
    };
    for task in ["When exactly?", "Why?", "And who does that?", "Und warum?"] {
        let asked = request(
            Some(chat().say(Role::User, task).freeze()),
            task,
            Vec::new(),
        );
        let text = Extractive.complete(asked).await.unwrap().text;
        assert!(text.contains("ship the billing job"), "{task}: {text}");
        assert!(!text.contains("weather"), "{task}: {text}");
    }
    let chat = Chat::new(1)
        .say(Role::User, "The drip lines are ordered by Friday 8 May.")
        .say(Role::User, "Jolanda orders the drip lines at Feldkamp.")
        .say(Role::User, "Who orders the drip lines?")
        .say(Role::Assistant, "Jolanda.")
        .say(Role::User, "When?");
    let asked = request(Some(chat.freeze()), "When?", Vec::new());
    let text = Extractive.complete(asked).await.unwrap().text;
    let first = text.lines().find(|line| line.starts_with("- "));
    assert!(first.is_some_and(|line| line.contains("8 May")), "{text}");
}

#[tokio::test]
async fn a_task_with_own_words_follows_no_question() {
    let chat = || {
        Chat::new(1)
            .say(Role::User, "We decided to ship the billing job on Friday.")
            .say(Role::User, "When does the billing job ship?")
            .say(Role::Assistant, "On Friday.")
    };
    // Neither do thanks.
    for task in ["When does Kangaroo Ltd. open?", "Thanks!"] {
        let asked = request(
            Some(chat().say(Role::User, task).freeze()),
            task,
            Vec::new(),
        );
        let text = Extractive.complete(asked).await.unwrap().text;
        assert!(!text.starts_with("## Answer"), "{task}: {text}");
    }
}

#[tokio::test]
async fn an_agent_that_looks_for_everything_looks_for_what_the_task_names() {
    let chat = Chat::new(1)
        .say(Role::User, "We decided to ship the billing job on Friday.")
        .say(
            Role::User,
            "There is a risk that the queue fails under load.",
        )
        .say(Role::User, "Any risks?");
    let mut asked = request(Some(chat.freeze()), "Any risks?", Vec::new());
    asked.persona.instructions =
        "Look for decisions, risks, open questions, facts, actions and owners.".into();
    let text = Extractive.complete(asked).await.unwrap().text;
    assert!(
        text.starts_with("## Risks") && text.contains("the queue fails"),
        "{text}"
    );
}

#[tokio::test]
async fn what_a_task_states_before_it_asks_is_an_answer() {
    let task = "We ship on Friday. What is open?";
    let chat = Chat::new(1).say(Role::User, task);
    let asked = request(Some(chat.freeze()), task, Vec::new());
    let text = Extractive.complete(asked).await.unwrap().text;
    assert!(text.contains("ship on Friday"), "{text}");
    assert!(!text.contains("What is open"), "{text}");
}

#[tokio::test]
async fn an_answer_stays_within_its_cap() {
    let fact = "The billing job of team 7 ships on Friday and costs 1,200 euros. ".repeat(40);
    let chat = (0..40).fold(Chat::new(1), |chat, n| {
        chat.say(Role::User, &format!("{n}: {fact}"))
    });
    for (max_output, most) in [(4_096, 900), (200, 200)] {
        let mut asked = request(
            Some(chat.freeze()),
            "When does the billing job ship?",
            Vec::new(),
        );
        asked.max_output = Tokens(max_output);
        let reply = Extractive.complete(asked).await.unwrap();
        assert!(
            reply.usage.output <= Tokens(most),
            "{:?} of {most}",
            reply.usage
        );
    }
}

#[tokio::test]
async fn an_answer_is_cut_off_at_the_maximum_output() {
    let mut asked = request(None, "What now?", Vec::new());
    let whole = Extractive.complete(asked.clone()).await.unwrap();
    assert_eq!(whole.stop, Stop::Complete);
    asked.max_output = Tokens(3);
    let cut = Extractive.complete(asked).await.unwrap();
    assert_eq!((cut.stop, cut.usage.output), (Stop::CutOff, Tokens(3)));
    assert!(whole.text.starts_with(&*cut.text));
}

#[tokio::test]
async fn an_answer_without_evidence_says_so() {
    let reply = Extractive
        .complete(request(None, "What now?", Vec::new()))
        .await
        .unwrap();
    assert!(!reply.text.trim().is_empty());
}

#[tokio::test]
async fn a_synthesis_names_missing_results() {
    let partial = DelegateOutcome::Partial {
        text: "- \"the rollback plan is untested\" (#2)".into(),
        missing: "the log was too long".into(),
    };
    let results = vec![
        delegated(
            "facts",
            DelegateOutcome::Complete("- \"ship on Friday\" (#1)".into()),
        ),
        delegated(
            "dates",
            DelegateOutcome::Complete("- \"ship on Friday\" (#1)".into()),
        ),
        delegated("risks", partial),
        delegated(
            "costs",
            DelegateOutcome::Failed("timeout: no answer within 3.0 s".into()),
        ),
    ];
    let asked = request(Some(snapshot()), "Summarise.", results);
    let text = Extractive.complete(asked).await.unwrap().text;
    for expected in [
        "ship on Friday",
        "rollback plan is untested",
        "- dates: nothing beyond the above\n- risks: incomplete (the log was too long)",
        "- costs: no answer (timeout: no answer within 3.0 s)",
    ] {
        assert!(text.contains(expected), "{expected} is not in: {text}");
    }
    assert_eq!(text.matches("Missing").count(), 1, "{text}");
}

#[tokio::test]
async fn a_long_reason_leaves_room_for_the_answer() {
    let results = vec![
        delegated(
            "facts",
            DelegateOutcome::Complete("- \"ship on Friday\" (#1)".into()),
        ),
        delegated(
            "costs",
            DelegateOutcome::Failed("a page\nof output ".repeat(2_000).into()),
        ),
    ];
    let asked = request(Some(snapshot()), "Summarise.", results);
    let text = Extractive.complete(asked).await.unwrap().text;
    assert!(
        text.contains("ship on Friday") && text.len() < 1_000,
        "{text}"
    );
}

#[tokio::test]
async fn a_lead_whose_delegates_all_failed_answers_itself() {
    let results = vec![delegated(
        "costs",
        DelegateOutcome::Failed("timeout".into()),
    )];
    let asked = request(Some(snapshot()), "When does the billing job ship?", results);
    let text = Extractive.complete(asked).await.unwrap().text;
    assert!(text.contains("billing job on Friday"), "{text}");
    assert!(
        text.ends_with("## Missing\n- costs: no answer (timeout)"),
        "{text}"
    );
}

#[tokio::test]
async fn a_script_is_followed_and_recorded() {
    let model = Scripted::new([Act::say("one"), Act::Fail("overloaded".into())]);
    let shared = model.clone();
    let asked = || request(None, "go", Vec::new());
    assert_eq!(&*model.complete(asked()).await.unwrap().text, "one");
    let failed = shared.complete(asked()).await.unwrap_err();
    assert_eq!(failed.to_string(), "model scripted: overloaded");
    let ended = model.complete(asked()).await.unwrap_err();
    assert_eq!(ended.to_string(), "model scripted: the script has ended");
    assert_eq!(model.requests().len(), 3);
}

#[tokio::test]
async fn a_script_can_panic_and_hang() {
    let model = Scripted::by(|request| match &*request.task {
        "hang" => Act::Hang,
        _ => Act::Panic("boom".into()),
    });
    let asked = model.clone();
    let lost =
        tokio::spawn(async move { asked.complete(request(None, "panic", Vec::new())).await });
    assert!(lost.await.unwrap_err().is_panic());
    let mut hanging = model.complete(request(None, "hang", Vec::new()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(hanging.as_mut().poll(&mut context), Poll::Pending));
}

#[test]
fn models_are_found_by_the_name_in_a_definition() {
    let models = Models::default().with("test/scripted", Scripted::new([]));
    assert!(models.get("extractive").is_ok() && models.get("test/scripted").is_ok());
    let unknown = models.get("openai/gpt-9").err().unwrap();
    let expected = "no client for model `openai/gpt-9`; this program can use: \
                extractive, test/scripted";
    assert_eq!(unknown.to_string(), expected);
}

#[tokio::test]
async fn earlier_answers_made_of_quotes_are_not_quoted_again() {
    let task = r#"{"agent":"facts","task":"when does the billing job ship?"}"#;
    let call = fixture::call("delegate_1", "delegate", task);
    let result = fixture::result("delegate_1", "the billing job ships on Sunday");
    let chat = Chat::new(1)
        .say(Role::User, "We decided to ship the billing job on Friday.")
        .add(Role::Assistant, Some("lead"), vec![call])
        .results(vec![result])
        .say(
            Role::Assistant,
            "The billing job ships on Monday, says the lead.",
        )
        .say(Role::User, "When does the billing job ship?");
    let asked = request(
        Some(chat.freeze()),
        "When does the billing job ship?",
        Vec::new(),
    );
    let reply = Extractive.complete(asked).await.unwrap();
    assert!(reply.text.contains("on Friday"), "{}", reply.text);
    for echo in ["Sunday", "Monday", "When does"] {
        assert!(!reply.text.contains(echo), "{}", reply.text);
    }
}
