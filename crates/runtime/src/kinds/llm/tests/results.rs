//! Results of other agents in a narrow headroom, and empty answers. One token per byte.

use unisono_context::AgentId;
use unisono_model::prompt::DelegateOutcome;
use unisono_session::assignment::DelegateResult;
use unisono_session::run::{AttemptTimes, Ending, Usage, excerpts};

use super::*;

fn delivered(n: usize, text: &str) -> DelegateResult {
    DelegateResult {
        name: format!("delegate_{n}").into(),
        agent: AgentId::new(format!("d{n}")),
        task: "list the risks".into(),
        ending: Arc::new(Ending::Finished {
            text: text.into(),
            calls: Vec::new(),
            partial: None,
            usage: Usage::default(),
            duration_ms: 1,
            attempt_times: AttemptTimes::default(),
        }),
    }
}

/// A lead with this headroom and these results.
fn lead(room: u64, texts: &[&str]) -> Attempt {
    let mut attempt = Attempt::new(AgentKind::Llm, &["what was said"]);
    attempt.definition.limits.max_output = Tokens(100);
    attempt.room = Tokens(room);
    let results = (1..).zip(texts).map(|(n, text)| delivered(n, text));
    attempt.results = results.collect();
    attempt
}

#[tokio::test]
async fn a_lead_answers_with_results_of_any_size() {
    let long = "found ".repeat(150);
    let texts = ["short", &long, &long, &long];
    for room in [700, 1_000, 1_500, 2_500, 3_500] {
        let (attempt, model) = (lead(room, &texts), Scripted::new([Act::say("joined")]));
        let answer = run(&attempt, &model).await.unwrap();
        assert_eq!((&*answer.text, answer.partial), ("joined", None), "{room}");
        let request = &model.requests()[0];
        let bytes = request.results.iter().map(|result| {
            let DelegateOutcome::Complete(text) = &result.outcome else {
                panic!("{result:?}");
            };
            assert!(result.task.is_none(), "it is the lead's own");
            text.len() + result.rest.as_ref().map_or(0, |rest| rest.len())
        });
        let bytes: Vec<usize> = bytes.collect();
        assert_eq!(bytes[0], 5, "a short one is whole");
        assert!(
            bytes.iter().sum::<usize>() < room as usize - 77,
            "{bytes:?}"
        );
        let first = model.requests()[0].results[1].rest.clone().unwrap();
        assert!(
            first.contains(r#"read_message {"result":"delegate_2","skip":"#),
            "{first}"
        );
        // Another attempt sends the same.
        let again = Scripted::new([Act::say("joined")]);
        run(&attempt, &again).await.unwrap();
        assert_eq!(again.requests()[0].results, request.results);
    }
    let (attempt, model) = (lead(100_000, &texts), Scripted::new([Act::say("joined")]));
    run(&attempt, &model).await.unwrap();
    assert!(
        model.requests()[0]
            .results
            .iter()
            .all(|result| result.rest.is_none())
    );
}

#[tokio::test]
async fn results_without_room_for_each_are_one_note() {
    let long = "found ".repeat(150);
    let (attempt, model) = (
        lead(300, &[long.as_str(); 4]),
        Scripted::new([Act::say("joined")]),
    );
    answers(&attempt, &model, "joined").await;
    let requests = model.requests();
    let [note] = &requests[0].results[..] else {
        panic!("{:?}", requests[0].results);
    };
    let says = r#"[to read it: read_message {"result":"delegate_1"} to {"result":"delegate_4"}]"#;
    assert_eq!(note.agent.as_str(), "4 delegates");
    assert_eq!(note.rest.as_deref(), Some(says));
    let missing = "left out: no room".into();
    let text = "".into();
    assert_eq!(note.outcome, DelegateOutcome::Partial { text, missing });
}

#[tokio::test]
async fn an_agent_without_the_reading_tool_sees_that_the_rest_is_omitted() {
    let mut attempt = lead(700, &["found ".repeat(300).as_str()]);
    attempt.definition.tools = vec!["recall".into()];
    let model = Scripted::new([Act::say("joined")]);
    run(&attempt, &model).await.unwrap();
    let rest = model.requests()[0].results[0].rest.clone().unwrap();
    assert!(rest.ends_with("of 1800; the rest is left out]"), "{rest}");
}

#[tokio::test]
async fn the_results_of_a_round_fit_beside_the_context() {
    let mut attempt = lead(3_000, &[]);
    attempt.definition.tools = ["delegate", "read_message"].map(Into::into).to_vec();
    attempt.colleagues = vec![Arc::new(attempt.definition.clone())];
    let task = "look ".repeat(160);
    let arguments = serde_json::json!({"agent": "risks", "task": task}).to_string();
    let calls = [
        ("delegate", &*arguments),
        ("read_message", r#"{"n":1}"#),
        ("delegate", &*arguments),
    ];
    let model = Scripted::new([Act::call(&calls), Act::say("joined")]);
    answers(&attempt, &model, "joined").await;
    let steps = attempt.session.steps();
    let Step::Tools(results) = &*steps[1] else {
        panic!("{steps:?}");
    };
    assert_eq!(&*results[1].content, "#1 user:\nwhat was said");
    for (at, name) in [(0, "delegate_1_1"), (2, "delegate_1_2")] {
        let (shown, whole) = (&results[at].content, format!("risks did: {task}"));
        assert!(shown.len() < whole.len(), "{shown}");
        assert!(shown.contains(name), "{shown}");
        assert!(excerpts::is_excerpt(&whole, name, shown));
    }
}

#[tokio::test]
async fn the_rest_of_a_result_is_read() {
    let attempt = lead(100_000, &[]);
    attempt.session.handed("delegate_1", "all that was found");
    let ctx = attempt.ctx();
    let ask = async |arguments: &str| ctx.call_tool("read_message", arguments).await.unwrap();
    let read = ask(r#"{"result":"delegate_1","skip":4}"#).await;
    assert_eq!((&*read.content, read.is_error), ("that was found", false));
    for (arguments, says) in [
        (r#"{"result":"delegate_2"}"#, "no result \"delegate_2\""),
        (r#"{"n":1,"result":"delegate_1"}"#, "takes one of"),
        ("{}", "takes one of"),
    ] {
        let wrong = ask(arguments).await;
        assert!(
            wrong.is_error && wrong.content.contains(says),
            "{}",
            wrong.content
        );
    }
}

#[tokio::test]
async fn an_answer_without_a_visible_character_is_a_failure() {
    for text in [" \n", "\u{200b}\u{a0}", "\u{feff}\u{2060}"] {
        let failure = run(&lead(120, &[]), &Scripted::new([Act::say(text)])).await;
        assert_eq!(failure.unwrap_err().cause, RunCause::BadOutput, "{text:?}");
    }
}

#[tokio::test]
async fn an_empty_answer_is_a_failure_and_no_step() {
    // There is headroom for a last call only, and the model calls a tool nevertheless.
    let attempt = lead(120, &[]);
    let model = Scripted::new([Act::call(&[("recall", r#"{"n":1}"#)])]);
    let failure = run(&attempt, &model).await.unwrap_err();
    assert!(model.requests()[0].wrap_up.is_some());
    assert_eq!(failure.cause, RunCause::BadOutput);
    let why = "called tools and gave no text, although there is no room left";
    assert!(failure.reason.contains(why), "{failure}");
    assert!(failure.cause.is_retryable());
    let steps = attempt.session.steps();
    assert!(steps.iter().all(|step| step.reply().is_none()), "{steps:?}");
    // A reply with a text is used.
    let said = saying(Act::call(&[("recall", r#"{"n":1}"#)]), "so far");
    let answer = run(&lead(120, &[]), &Scripted::new([said])).await.unwrap();
    assert_eq!(&*answer.text, "so far");
    assert!(answer.partial.is_some());
}

#[tokio::test]
async fn a_reply_whose_calls_take_all_room_ends_the_run_with_their_number() {
    let attempt = lead(2_000, &[]);
    let calls = [("recall", r#"{"n":1}"#); 400];
    let failure = run(&attempt, &Scripted::new([Act::call(&calls)]))
        .await
        .unwrap_err();
    assert_eq!(failure.cause, RunCause::Overflow, "{}", failure.reason);
    let text = &failure.reason;
    assert!(text.contains("no text but 400 calls of tools"), "{failure}");
}
