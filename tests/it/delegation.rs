//! Leads that give tasks to others while they work: rounds, failures, refusals, time limits,
//! cancellation, and a halt at each event.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::{Barrier, Notify};
use unisono_context::RunId;
use unisono_model::language::scripted::{Act, Scripted};
use unisono_model::language::{Exchange, Request};
use unisono_runtime::{Agent, Answer, Ctx, Failure, Task};
use unisono_session::agent::Definition;
use unisono_session::event::{DelegationLimits, Fact, Outcome, RunRole};
use unisono_session::run::{Ending, RunCause, ToolResult};
use unisono_tests::agents::{Failing, Hanging, Panicking, Tally};
use unisono_tests::scenario::{
    PATIENCE, definition, facts_until_end, model_driven, new_session, new_turn, until, wait,
};
use unisono_tests::{Scenario, scenario};

const MODEL: &str = "test/scripted";

/// A reply that gives tasks to agents.
fn delegate(tasks: &[(&str, &str)]) -> Act {
    let arguments = |(agent, task): &(&str, &str)| json!({"agent": agent, "task": task});
    let arguments: Vec<String> = tasks.iter().map(|t| arguments(t).to_string()).collect();
    let calls: Vec<_> = arguments.iter().map(|a| ("delegate", a.as_str())).collect();
    Act::call(&calls)
}

/// The newest results a model was given.
fn newest_results(request: &Request) -> &[ToolResult] {
    match request.exchange.last() {
        Some(Exchange::Results(results)) => results,
        _ => &[],
    }
}

fn joined(results: &[ToolResult]) -> String {
    let texts: Vec<&str> = results.iter().map(|result| &*result.content).collect();
    texts.join("; ")
}

/// A turn that has ended: how, its facts, and the branch.
struct Ended {
    outcome: Outcome,
    facts: Vec<Fact>,
    branch: Vec<String>,
}

async fn run(plan: &Scenario) -> Ended {
    let (_directory, world, handle, turn) = plan.ask("What is due when?").await;
    let mut events = handle.events(0).await.expect("events");
    let outcome = wait(&handle, turn).await.outcome;
    let facts = facts_until_end(&mut events, turn).await;
    let branch = handle.inspect(|state| {
        let nodes = state.tree().iter();
        let texts =
            nodes.map(|node| format!("{}: {}", node.message.role, node.message.countable_text()));
        texts.collect()
    });
    let branch = branch.await.expect("inspected");
    drop((handle, events));
    world.stop().await;
    Ended {
        outcome,
        facts,
        branch,
    }
}

/// Says who it is and what it was asked; a task to meet is done once enough others are there.
struct Meeting(Arc<Barrier>);

impl Agent for Meeting {
    async fn run(&self, task: Task, ctx: Ctx) -> Result<Answer, Failure> {
        if &*task.text == "meet" {
            self.0.wait().await;
        }
        Ok(Answer::text(format!(
            "{} did {}",
            ctx.definition().id,
            task.text
        )))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lead_delegates_in_two_rounds_and_joins_what_comes_back() {
    let model = Scripted::by(|request| match request.exchange.len() {
        0 => delegate(&[("a", "meet"), ("b", "meet"), ("c", "meet")]),
        2 => delegate(&[("b", "more"), ("a", "rest")]),
        _ => Act::say(joined(newest_results(request))),
    });
    let meeting = Arc::new(Barrier::new(3));
    let agent = |plan: Scenario, id| plan.available(definition(id), Meeting(meeting.clone()));
    let plan = scenario()
        .led_by(model_driven("lead", &["delegate"]))
        .model(MODEL, model.clone());
    let plan = ["a", "b", "c"].into_iter().fold(plan, agent);
    let ended = run(&plan).await;

    assert_eq!(ended.outcome, Outcome::Answered);
    let requests = model.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(
        joined(newest_results(&requests[1])),
        "a did meet; b did meet; c did meet"
    );
    let said = ended.branch[9..].join("\n");
    let expected = r#"
assistant: delegate({"agent":"a","task":"meet"})
delegate({"agent":"b","task":"meet"})
delegate({"agent":"c","task":"meet"})
tool: a did meet
tool: b did meet
tool: c did meet
assistant: delegate({"agent":"b","task":"more"})
delegate({"agent":"a","task":"rest"})
tool: b did more
tool: a did rest
assistant: b did more; a did rest"#;
    assert_eq!(said, expected.trim_start());
    let opened = ended.facts.iter().filter_map(|fact| match fact {
        Fact::RunOpened { run } => Some(run.snapshot),
        _ => None,
    });
    let snapshots: Vec<_> = opened.collect();
    assert_eq!(snapshots.len(), 6);
    assert!(snapshots.iter().all(|snapshot| *snapshot == snapshots[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_with_a_task_is_told_to_the_lead() {
    let model = Scripted::by(|request| {
        let deep = request.persona.agent.as_str() == "deep";
        match (deep, request.exchange.len()) {
            (_, 2) => Act::say(joined(newest_results(request))),
            (true, _) => delegate(&[("shaky", "dig")]),
            (false, _) => delegate(&[
                ("shaky", "try"),
                ("broken", "try"),
                ("nobody", "try"),
                ("lead", "try"),
                ("deep", "try"),
                ("shaky", " "),
            ]),
        }
    });
    let plan = |depth| {
        let shaky = Definition {
            retries: 1,
            ..definition("shaky")
        };
        let panicking = Panicking {
            times: 1,
            tally: Tally::default(),
        };
        scenario()
            .led_by(model_driven("lead", &["delegate"]))
            .available(shaky, panicking)
            .available(definition("broken"), Failing(RunCause::BadInput))
            .colleague(model_driven("deep", &["delegate"]))
            .model(MODEL, model.clone())
            .delegation(DelegationLimits {
                depth,
                ..DelegationLimits::default()
            })
    };
    let deep_refused = "[refused: agent deep may not delegate: \
                        only down to level 1 below the lead is that allowed]";
    for (depth, deep) in [(1, deep_refused), (2, "recovered")] {
        let before = model.requests().len();
        assert_eq!(run(&plan(depth)).await.outcome, Outcome::Answered);
        let requests = model.requests().split_off(before);
        let last = requests
            .iter()
            .rfind(|r| r.persona.agent.as_str() == "lead");
        let results = newest_results(last.expect("the lead was asked")).iter();
        let got: Vec<_> = results.map(|r| (&*r.content, r.is_error)).collect();
        let there = "there are: shaky, broken, deep";
        let nobody = format!("[refused: there is no agent `nobody` to delegate to; {there}]");
        let own =
            "[refused: agent lead waits for the result of this task; give the task to another one]";
        let expected = [
            ("recovered", false),
            ("[failed: bad_input: the agent was told to fail]", true),
            (nobody.as_str(), true),
            (own, true),
            (deep, false),
            (
                "[refused: the task is empty: say what agent shaky is to do]",
                true,
            ),
        ];
        assert_eq!(got, expected, "depth {depth}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_in_which_an_agent_waits_for_others_is_not_its_own() {
    struct Slow;
    impl Agent for Slow {
        async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
            tokio::time::sleep(Duration::from_millis(2_500)).await;
            Ok(Answer::text("there at last"))
        }
    }
    let model = Scripted::by(|request| match request.exchange.len() {
        0 => delegate(&[("slow", "take your time")]),
        _ => Act::say(joined(newest_results(request))),
    });
    let lead = Definition {
        timeout_ms: 2_000,
        ..model_driven("lead", &["delegate"])
    };
    let plan = scenario()
        .led_by(lead)
        .available(definition("slow"), Slow)
        .model(MODEL, model);
    let ended = run(&plan).await;
    assert_eq!(ended.outcome, Outcome::Answered);
    assert_eq!(
        ended.branch.last().expect("an answer"),
        "assistant: there at last"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_need_each_others_places_do_not_wait_for_ever() {
    let model = Scripted::by(|request| {
        let agent = request.persona.agent.as_str();
        let task = &*request.task;
        match (agent, request.exchange.len()) {
            (_, 2) => Act::say(joined(newest_results(request))),
            ("lead", _) => delegate(&[("left", "both"), ("right", "both")]),
            ("left", _) if task == "both" => delegate(&[("right", "alone")]),
            ("right", _) if task == "both" => delegate(&[("left", "alone")]),
            _ => Act::say(agent),
        }
    });
    let single = |id| Definition {
        max_concurrent: 1,
        ..model_driven(id, &["delegate"])
    };
    let plan = scenario()
        .led_by(single("lead"))
        .colleague(single("left"))
        .colleague(single("right"))
        .model(MODEL, model)
        .delegation(DelegationLimits {
            depth: 2,
            ..DelegationLimits::default()
        });
    for _ in 0..5 {
        let ended = run(&plan).await;
        assert_eq!(ended.outcome, Outcome::Answered);
        assert_eq!(
            ended.branch.last().expect("an answer"),
            "assistant: right; left"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_turn_takes_along_what_its_lead_gave_to_others() {
    let tally = Tally::default();
    let model = Scripted::by(|_| delegate(&[("a", "hang"), ("b", "hang")]));
    let plan = scenario()
        .led_by(model_driven("lead", &["delegate"]))
        .available(definition("a"), Hanging(tally.clone()))
        .available(definition("b"), Hanging(tally.clone()))
        .model(MODEL, model);
    let (_directory, world, handle, turn) = plan.ask("What is due when?").await;
    until(|| tally.of("started") == 2).await;
    let asked = Instant::now();
    handle.cancel(turn).await.expect("cancelled");
    assert_eq!(wait(&handle, turn).await.outcome, Outcome::Cancelled);
    until(|| tally.of("dropped") == 2).await;
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    drop(handle);
    world.stop().await;
}

/// A lead that delegates twice, counted by whom was asked what.
fn counted(tally: &Tally) -> Scenario {
    let asked = tally.clone();
    let model = Scripted::by(move |request| {
        let (agent, moves) = (request.persona.agent.as_str(), request.exchange.len());
        asked.add(&format!("{agent} {} {moves}", request.task));
        match (agent, moves) {
            ("lead", 0) => delegate(&[("a", "one"), ("b", "two"), ("nobody", "three")]),
            ("lead", 2) => delegate(&[("a", "four")]),
            ("lead", _) => Act::say(joined(newest_results(request))),
            (_, 0) => Act::call(&[("recall", r#"{"n":1}"#)]),
            _ => Act::say(format!("{agent} did {}", request.task)),
        }
    });
    let tools = ["delegate", "recall"];
    scenario()
        .led_by(model_driven("lead", &tools))
        .colleague(model_driven("a", &tools))
        .colleague(model_driven("b", &tools))
        .model(MODEL, model)
}

/// The runs that had ended within so many facts, by the agent and task they are counted under.
fn done(facts: &[Fact], within: usize) -> Vec<String> {
    let role = |id: RunId| {
        facts.iter().find_map(|fact| match fact {
            Fact::RunOpened { run } if run.id == id => Some(run.role),
            _ => None,
        })
    };
    let call = |parent: RunId, number: u32, index: u32| {
        facts.iter().find_map(|fact| match fact {
            Fact::Delegated { run, round, calls } if (*run, *round) == (parent, number) => {
                let call = &calls[index as usize];
                Some(format!("{} {}", call.agent, call.task))
            }
            _ => None,
        })
    };
    let ended = facts.iter().take(within).filter_map(|fact| match fact {
        Fact::RunEnded { run, ending } if matches!(**ending, Ending::Finished { .. }) => {
            match role(*run)? {
                RunRole::Child {
                    parent,
                    round,
                    index,
                } => call(parent, round, index),
                RunRole::Lead | RunRole::Delegate { .. } => None,
            }
        }
        _ => None,
    });
    ended.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delegation_halted_at_any_event_goes_on_without_asking_anybody_twice() {
    let whole = tempfile::tempdir().expect("a directory");
    let reference = counted(&Tally::default());
    let world = reference.start(whole.path()).await;
    let ids = (new_session(), new_turn());
    world.ask_until_halt(&reference, ids, &Notify::new()).await;
    world.stop().await;
    let facts = reference.finish(whole.path(), ids).await;
    let before = facts
        .iter()
        .position(|fact| matches!(fact, Fact::Defined { .. }));
    let before = before.expect("definitions are recorded");
    assert_eq!(done(&facts, facts.len()).len(), 3);

    let directory = tempfile::tempdir().expect("a directory");
    for halt in before..=facts.len() {
        let tally = Tally::default();
        let (plan, halted) = (counted(&tally), Arc::new(Notify::new()));
        let store = directory.path().join(halt.to_string());
        let world = plan
            .start_halting(&store, halt as i64, halted.clone())
            .await;
        let ids = (new_session(), new_turn());
        let halting = world.ask_until_halt(&plan, ids, &halted);
        let halting = tokio::time::timeout(PATIENCE, halting).await;
        halting.expect("it halts or ends in time");
        world.stop().await;
        let facts = plan.finish(&store, ids).await;
        if facts.is_empty() {
            continue;
        }
        let opened = facts
            .iter()
            .filter(|fact| matches!(fact, Fact::RunOpened { .. }));
        assert_eq!(opened.count(), 4, "halt {halt}");
        let rounds = facts
            .iter()
            .filter(|fact| matches!(fact, Fact::Delegated { .. }));
        assert_eq!(rounds.count(), 2, "halt {halt}");
        for task in done(&facts, facts.len()) {
            for moves in [0, 2] {
                // What was not on disk when the store halted is asked once more.
                let asked = tally.of(&format!("{task} {moves}"));
                assert!(
                    (1..=2).contains(&asked),
                    "halt {halt}: {task} {moves}: {asked}"
                );
            }
        }
        for task in done(&facts, halt) {
            for moves in [0, 2] {
                let asked = tally.of(&format!("{task} {moves}"));
                assert_eq!(asked, 1, "halt {halt}: {task} had ended");
            }
        }
    }
}
