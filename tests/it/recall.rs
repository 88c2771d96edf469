//! An agent searches its conversation while others speak: it is told the same as before.

use std::sync::Arc;

use tokio::sync::Notify;
use unisono_context::{AgentId, Ordinal, Timestamp};
use unisono_runtime::{Agent, Answer, Ctx, Failure, Handle, Options, Task};
use unisono_search::Query;
use unisono_session::Input;
use unisono_session::agent::Definition;
use unisono_session::event::Outcome;
use unisono_tests::agents::{Echo, Stepping, Tally};
use unisono_tests::scenario;
use unisono_tests::scenario::{definition, new_session, new_turn, wait};

const ASKED: &str = r#"{"query":"what about the supplier of part 3?"}"#;

/// Searches, waits until somebody has spoken, and searches again.
struct Twice {
    searched: Arc<Notify>,
    spoken: Arc<Notify>,
}

impl Agent for Twice {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let first = ctx.call_tool("recall", ASKED).await?;
        assert!(!first.is_error, "{}", first.content);
        self.searched.notify_one();
        self.spoken.notified().await;
        let second = ctx.call_tool("recall", ASKED).await?;
        assert_eq!(first, second);
        Ok(Answer::text(&*second.content))
    }
}

fn may_recall(id: &str) -> Definition {
    Definition {
        tools: vec!["recall".into()],
        ..definition(id)
    }
}

/// Begins a branch at the third message.
async fn fork_at_third(session: &Handle, branch: &str) {
    let third = |state: &unisono_session::State| {
        let head = state.tree().head("main").expect("a branch");
        let node = state.tree().node_at(head, Ordinal(3));
        node.expect("three messages").message.id
    };
    let fork = Input::Fork {
        branch: branch.into(),
        at: session.inspect(third).await.expect("it is open"),
    };
    session.request(fork).await.expect("it begins");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_say_meanwhile_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for index in [Some(dir.path().join("search")), None] {
        let (searched, spoken) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let twice = Twice {
            searched: searched.clone(),
            spoken: spoken.clone(),
        };
        let plan = scenario()
            .messages(30)
            .lead(may_recall("twice"), twice)
            .available(definition("echo"), Echo(Tally::default()))
            .options(Options {
                search_index: index,
                ..Options::default()
            });
        let store = tempfile::tempdir().unwrap();
        let world = plan.start(&store.path().join("store")).await;
        let session = world
            .runtime
            .create(plan.import(new_session()))
            .await
            .unwrap();
        let (turn, other) = (new_turn(), new_turn());
        session
            .accept(plan.turn(turn, "Look it up."))
            .await
            .unwrap();
        searched.notified().await;

        fork_at_third(&session, "other").await;
        let mut speech = plan.turn(other, "kestrel: the supplier of part 3, supplier of part 3");
        speech.branch = "other".into();
        speech.team.lead = Arc::new(definition("echo"));
        speech.team.available = Vec::new();
        session.accept(speech).await.unwrap();
        assert_eq!(wait(&session, other).await.outcome, Outcome::Answered);
        let search = world.runtime.search();
        let query = Query::parse("kestrel", Timestamp(0)).unwrap();
        let found = search.find(&query, &[], 9).await.unwrap().found;
        assert_eq!(found.len(), 1, "it is found by people at once");

        spoken.notify_one();
        let ended = wait(&session, turn).await;
        assert_eq!(ended.outcome, Outcome::Answered);
        let answer = ended.answer.unwrap();
        let text = move |state: &unisono_session::State| {
            state.tree().get(answer).unwrap().message.countable_text()
        };
        let text = session.inspect(text).await.unwrap();
        assert!(
            text.contains("#3 user, 1970-01-01:\nMessage 3: we decided"),
            "{text}"
        );
        assert!(
            text.contains("#4 assistant, 1970-01-01:\nMessage 4"),
            "{text}"
        );
        let echo = Query::parse("agent:echo", Timestamp(0)).unwrap();
        assert_eq!(echo.filters.agents, [AgentId::from("echo")]);
        assert_eq!(search.find(&echo, &[], 9).await.unwrap().found.len(), 1);
        drop(session);
        world.stop().await;
    }
}

/// Asks for the steps behind a message that its task names.
struct Reader;

impl Agent for Reader {
    async fn run(&self, task: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let Some(n) = task.text.strip_prefix("Message ") else {
            return Ok(Answer::text("Done."));
        };
        let arguments = format!(r#"{{"n":{n},"steps":true}}"#);
        let reply = ctx.call_tool("recall", &arguments).await?;
        Ok(Answer::text(&*reply.content))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_steps_of_agents_are_read_by_the_messages_they_wrote_also_after_a_restart() {
    let plan = scenario().messages(3).lead(may_recall("reader"), Reader);
    let with_stepping = plan
        .clone()
        .delegate(definition("stepping"), Stepping(Tally::default()));
    let store = tempfile::tempdir().unwrap();
    let directory = store.path().join("store");
    let id = new_session();
    let world = with_stepping.start(&directory).await;
    let session = world.runtime.create(plan.import(id)).await.unwrap();
    // After three messages: the input, the call, its result, the answer.
    let turn = new_turn();
    session
        .accept(with_stepping.turn(turn, "Take steps."))
        .await
        .unwrap();
    assert_eq!(wait(&session, turn).await.outcome, Outcome::Answered);
    drop(session);
    world.stop().await;

    let world = plan.start(&directory).await;
    let session = world.runtime.open(id).await.unwrap();
    // The turn writes it today.
    let steps = ", its steps:\n\n1. [one] 1\n\n2. [two] 1\n\n3. [three] 1";
    let rows = [
        ("main", 6, steps),
        ("main", 4, "no agent took steps to write #4"),
        ("main", 7, "no agent took steps to write #7"),
        ("main", 99, "there is no message #99"),
        ("early", 6, "there is no message #6"),
    ];
    fork_at_third(&session, "early").await;
    for (branch, n, expected) in rows {
        let turn = new_turn();
        let mut asked = plan.turn(turn, &format!("Message {n}"));
        asked.branch = branch.into();
        session.accept(asked).await.unwrap();
        let answer = wait(&session, turn).await.answer.unwrap();
        let text = move |state: &unisono_session::State| {
            state.tree().get(answer).unwrap().message.countable_text()
        };
        let text = session.inspect(text).await.unwrap();
        let said = match text.starts_with("#6 tool, 20") {
            true => &text[text.find(", its").unwrap()..],
            false => &text,
        };
        assert!(said.starts_with(expected), "{branch} {n}: {text}");
    }
    drop(session);
    world.stop().await;
}
