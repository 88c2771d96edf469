//! The exchange of an agent in a narrow headroom.

use unisono_session::state::CallCap;

use super::*;

/// An agent whose model replies in 100 tokens, on a conversation of one message of a thousand
/// characters. One token per byte; its assignment has 77.
fn narrow(room: u64) -> Attempt {
    let mut attempt = Attempt::new(AgentKind::Llm, &[&"x".repeat(1_000)]);
    attempt.definition.limits.max_output = Tokens(100);
    attempt.room = Tokens(room);
    attempt
}

/// Reads the message this number of times, then answers.
fn reads(times: usize) -> Scripted {
    Scripted::by(move |request| match request.exchange.len() {
        moves if moves < 2 * times => Act::call(&[("recall", r#"{"n":1}"#)]),
        _ => Act::say("done"),
    })
}

/// The results in a request, each by its beginning.
fn shown(request: &Request) -> Vec<String> {
    let results = request.exchange.iter().filter_map(|said| match said {
        Exchange::Results(results) => Some(&results[0].content),
        Exchange::Reply(_) => None,
    });
    let beginning = |content: &Arc<str>| content.chars().take(48).collect::<String>();
    results
        .map(|content| beginning(content).replace('x', ""))
        .collect()
}

#[tokio::test]
async fn old_results_are_masked_in_a_request_that_does_not_fit() {
    let (attempt, model) = (narrow(3_000), reads(3));
    answers(&attempt, &model, "done").await;
    let requests = model.requests();
    let (whole, note) = (
        "#1 user:\n",
        "[tool result: 1013 tokens, left out to make room]",
    );
    assert_eq!(shown(&requests[2]), [whole, whole]);
    assert_eq!(shown(&requests[3]), [&note[..48], whole, whole]);
    assert!(requests.iter().all(|request| request.wrap_up.is_none()));
    let Step::Tools(results) = &*attempt.session.steps()[1] else {
        panic!("results");
    };
    assert_eq!(results[0].content.len(), 1_009, "the journal has it whole");
}

#[tokio::test]
async fn a_model_without_headroom_is_asked_for_its_answer() {
    let (attempt, model) = (narrow(1_150), reads(1));
    run(&attempt, &model).await.unwrap();
    let why = "there is no room left for what tools would answer";
    let requests = model.requests();
    assert_eq!(requests[0].wrap_up, None);
    assert_eq!(requests[1].wrap_up.as_deref(), Some(why));

    let model = reads(5);
    let failure = run(&attempt, &model).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::BadOutput, "it has said nothing");
    assert_eq!(model.requests().len(), 2, "this attempt does not ask again");
}

/// The contents of the results in the newest round of a request.
fn newest(request: &Request) -> Vec<&str> {
    let Some(Exchange::Results(results)) = request.exchange.last() else {
        panic!("results");
    };
    results.iter().map(|result| &*result.content).collect()
}

#[tokio::test]
async fn many_results_in_one_round_are_cut_to_the_room() {
    let calls = vec![("recall", r#"{"n":1}"#); 12];
    let ask = |room: u64| {
        let (attempt, calls) = (narrow(room), calls.clone());
        async move {
            let model = Scripted::new([Act::call(&calls), Act::say("done")]);
            answers(&attempt, &model, "done").await;
            let requests = model.requests();
            let shown = newest(&requests[1]).into_iter().map(str::to_owned);
            let shown: Vec<String> = shown.collect();
            // Another attempt and a replay have the same results.
            let steps = attempt.session.steps();
            assert!(matches!(&*steps[1], Step::Tools(results) if *results[3].content == *shown[3]));
            shown
        }
    };
    let shown = ask(6_000).await;
    for result in &shown {
        assert!(result.starts_with("#1 user:\nxxx"), "{result}");
        assert!(
            result.ends_with("of 1009; a call of recall alone has room for more]"),
            "{result}"
        );
    }
    let shown = ask(1_100).await;
    assert_eq!(shown.len(), 12);
    let text = &shown[0];
    assert!(text.contains("of 1009; a call of recall alone"), "{text}");
    assert_eq!(shown[11], "[left out: no room; call recall alone]");
}

#[tokio::test]
async fn a_reply_with_thousands_of_calls_fits_without_those_that_are_not_made() {
    let mut attempt = narrow(3_000);
    attempt.call_cap = CallCap(2);
    let calls = vec![("recall", r#"{"n":9}"#); 2_000];
    let model = Scripted::new([Act::call(&calls), Act::say("done")]);
    answers(&attempt, &model, "done").await;
    let requests = model.requests();
    let [Exchange::Reply(reply), Exchange::Results(results)] = &requests[1].exchange[..] else {
        panic!("one round");
    };
    assert_eq!((reply.calls.len(), reply.called()), (3, 2_000));
    assert_eq!(results.len(), 3);
    let text = &results[2].content;
    let refusal = "[not made: one reply may make 2 calls of tools, this one has 2000; ";
    assert!(text.starts_with(refusal), "{text}");
    // Another attempt and a replay have the same reply.
    let steps = attempt.session.steps();
    assert!(matches!(&*steps[0], Step::Model(recorded) if recorded == reply));
}

#[tokio::test]
async fn a_reply_with_thousands_of_client_calls_ends_the_run_with_the_first_ones() {
    let mut attempt = narrow(3_000);
    attempt.call_cap = CallCap(2);
    attempt.client_options.tools.push("notes".into());
    let calls = vec![("notes", "{}"); 2_000];
    let model = Scripted::new([Act::call(&calls)]);
    let answer = run(&attempt, &model).await.unwrap();
    assert_eq!(answer.calls.len(), 2);
    let why = answer.partial.unwrap();
    assert!(why.contains("this one has 2000"), "{why}");
}

#[tokio::test]
async fn a_small_headroom_does_not_take_the_tools_away() {
    let mut attempt = narrow(4_000);
    attempt.definition.limits.max_output = Tokens(4_000);
    let model = reads(2);
    answers(&attempt, &model, "done").await;
    let requests = model.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| request.wrap_up.is_none()));
}

#[tokio::test]
async fn an_exchange_that_does_not_fit_ends_the_run_with_the_last_text() {
    // A reply that leaves no room for any result.
    let said = "so far ".repeat(128);
    let talking = |text: &str| {
        let text = text.to_owned();
        Scripted::by(move |_| saying(Act::call(&[("recall", r#"{"n":1}"#)]), &text))
    };
    let answer = run(&narrow(1_000), &talking(&said)).await.unwrap();
    let says = "stopped: there was no room left for what the tools it called would answer";
    assert_eq!(
        (&*answer.text, answer.partial.as_deref()),
        (&*said, Some(says))
    );
    let blank = " ".repeat(900);
    let failure = run(&narrow(1_000), &talking(&blank)).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::Overflow, "{}", failure.reason);
}

#[tokio::test]
async fn a_task_that_does_not_fit_is_not_sent() {
    let model = reads(1);
    let failure = run(&narrow(50), &model).await.unwrap_err();
    let says = "its task and what it was handed need 77 tokens; \
                the context leaves 50 of the 128000 of model test/scripted";
    assert_failed(&failure, RunCause::Overflow, says);
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn a_rejected_request_is_sent_once_more_with_less() {
    let strict = |most: usize| {
        Scripted::by(move |request| {
            let bytes = request.exchange.iter().map(|said| match said {
                Exchange::Results(results) => results[0].content.len(),
                Exchange::Reply(_) => 0,
            });
            match request.exchange.len() {
                _ if bytes.sum::<usize>() > most => Act::FailAs(Class::Overflow { limit: None }),
                0 | 2 => Act::call(&[("recall", r#"{"n":1}"#)]),
                _ => Act::say("done"),
            }
        })
    };
    let (attempt, model) = (narrow(u64::MAX), strict(1_500));
    assert_eq!(&*run(&attempt, &model).await.unwrap().text, "done");
    let requests = model.requests();
    assert_eq!(requests.len(), 4);
    assert_eq!(shown(&requests[2]).len(), 2);
    assert!(shown(&requests[3])[0].starts_with("[tool result: 1013 tokens"));
    // The new headroom is a step: another attempt and a replay send less at once.
    let mut steps = attempt.session.steps();
    let narrowed = |step: &Arc<Step>| matches!(**step, Step::Narrowed { .. });
    let at = steps.iter().position(narrowed).unwrap();
    assert_eq!((at, steps.len()), (4, 5));
    let mut again = narrow(u64::MAX);
    steps.truncate(at + 1);
    again.steps = steps;
    let model = strict(1_500);
    assert_eq!(&*run(&again, &model).await.unwrap().text, "done");
    let requests = model.requests();
    assert_eq!(requests.len(), 1);
    assert!(shown(&requests[0])[0].starts_with("[tool result: 1013 tokens"));

    let (attempt, model) = (narrow(u64::MAX), strict(1_000));
    let failure = run(&attempt, &model).await.unwrap_err();
    assert_eq!(model.requests().len(), 2, "the same is not sent again");
    let says = "model scripted: context overflow; \
                its window was assumed to have 128000 tokens";
    assert_failed(&failure, RunCause::Overflow, says);
}

#[tokio::test]
async fn a_smaller_window_leads_to_one_request_with_a_shorter_reply() {
    // A window of 8,192 tokens that was assumed to be 128,000.
    let limit = Some(Tokens(8_192));
    let strict = |most: u64| {
        Scripted::by(move |request| match request.max_output.0 {
            output if output > most => Act::FailAs(Class::Overflow { limit }),
            _ => Act::say("done"),
        })
    };
    let mut attempt = narrow(100_000);
    attempt.definition.limits.max_output = Tokens(8_192);
    attempt.definition.tools = Vec::new();
    let model = strict(8_000);
    assert_eq!(&*run(&attempt, &model).await.unwrap().text, "done");
    let requests = model.requests();
    let asked: Vec<u64> = requests
        .iter()
        .map(|request| request.max_output.0)
        .collect();
    assert_eq!(asked.len(), 2);
    assert!(
        asked[0] == 8_192 && (7_000..8_192).contains(&asked[1]),
        "{asked:?}"
    );
    assert_eq!(requests[1].wrap_up, None);
    // Another attempt asks for the same maximum reply.
    let mut again = attempt.clone();
    again.session = Default::default();
    again.steps = attempt.session.steps();
    let model = strict(8_000);
    assert_eq!(&*run(&again, &model).await.unwrap().text, "done");
    assert_eq!(model.requests()[0].max_output.0, asked[1]);

    attempt.session = Default::default();
    let model = strict(10);
    let failure = run(&attempt, &model).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::Overflow);
    assert_eq!(model.requests().len(), 2, "once");
}

#[tokio::test]
async fn a_long_run_continues_with_a_summary_of_its_oldest_rounds() {
    let long = |steps: &[Arc<Step>]| {
        let mut attempt = narrow(8_000);
        attempt.definition.max_model_calls = 99;
        attempt.steps = steps.to_vec();
        attempt
    };
    // Each of 60 rounds has 300 bytes of text, and reads a thousand.
    let talking = |said: usize| {
        let round = std::sync::atomic::AtomicUsize::new(said);
        Scripted::by(move |_| {
            let round = round.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let text = format!(
                "Order W-{round} is late by {round} days. {}",
                "So. ".repeat(70)
            );
            match round {
                0..60 => saying(Act::call(&[("recall", r#"{"n":1}"#)]), &text),
                _ => Act::say("done"),
            }
        })
    };
    let (attempt, model) = (long(&[]), talking(0));
    answers(&attempt, &model, "done").await;
    let requests = model.requests();
    assert_eq!(requests.len(), 61);
    for request in &requests {
        let exchange = request.exchange.iter().map(|said| match said {
            Exchange::Reply(reply) => reply.text.len() + reply.calls[0].arguments.len(),
            Exchange::Results(results) => results[0].content.len(),
        });
        let summary = request.summary.as_ref().map_or(0, |text| text.len());
        assert!(exchange.sum::<usize>() + summary < 7_900);
        assert_eq!(request.wrap_up, None);
    }
    let steps = attempt.session.steps();
    let summaries = |steps: &[Arc<Step>]| -> Vec<(usize, u32)> {
        let each = steps.iter().enumerate();
        let summaries = each.filter_map(|(at, step)| match **step {
            Step::Summarised { replaced, .. } => Some((at, replaced)),
            _ => None,
        });
        summaries.collect()
    };
    let found = summaries(&steps);
    assert!(
        found.len() > 1 && found.is_sorted_by_key(|(_, replaced)| *replaced),
        "{found:?}"
    );
    let last = requests[60].summary.as_ref().unwrap();
    assert!(last.contains("Order W-"), "{last}");

    // Another attempt after a summary sends the same bytes.
    let (at, _) = found[1];
    let replies = steps[..=at].iter().filter(|step| step.reply().is_some());
    let replies = replies.count();
    let (again, model) = (long(&steps[..=at]), talking(replies));
    run(&again, &model).await.unwrap();
    let resent = &model.requests()[0];
    assert_eq!(resent.summary, requests[replies].summary);
    assert_eq!(resent.exchange, requests[replies].exchange);
    assert_eq!(summaries(&again.session.steps()).len(), found.len() - 2);
}
