//! A turn that is followed: each update once and in order, from wherever a follower begins.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use tokio::sync::Notify;
use unisono::api::service::{Error, Turns as _};
use unisono::api::turn::{NewTurn, TurnRequest};
use unisono::api::turn_event::{TurnEvent, TurnUpdate};
use unisono::api::{Code, service};
use unisono::{
    Agent, Answer, Ask, Builder, Completion, Ctx, Failure, LanguageModel, Local, Reply, Request,
    RunCause, Task, Tokens,
};

use crate::embedded::{extensions, program, started, with_buyers};

fn requested(task: &str, agents: &[&str]) -> TurnRequest {
    let agents = agents.iter().map(|agent| (*agent).to_owned());
    TurnRequest::Task(NewTurn {
        agents: Some(agents.collect()),
        ..NewTurn::new(task)
    })
}

/// A turn with two agents and a lead.
async fn begun() -> (Local, String, String) {
    let (local, session) = started(with_buyers(program(extensions()))).await;
    let session = session.id().to_string();
    let request = requested(r#"{"item":"tent"}"#, &["north", "south"]);
    let turn = service::Turns::begin(&local, &session, &request, None).await;
    let turn = turn.unwrap().turn;
    (local, session, turn)
}

/// A turn in this program: its session and its id.
async fn begun_in(program: Builder, ask: &Ask) -> (Local, String, String) {
    let (local, session) = started(program).await;
    let turn = local.begin(&session, ask).await.unwrap();
    (local, session.id().to_string(), turn.to_string())
}

async fn updates(
    local: &Local,
    (session, turn): (&str, &str),
    after: Option<u64>,
) -> service::Result<Vec<TurnUpdate>> {
    let updates = local.follow(session, turn, after).await?;
    updates.try_collect().await
}

/// Those that follow from the journal.
fn kept(all: Vec<TurnUpdate>) -> Vec<TurnUpdate> {
    all.into_iter().filter(|one| one.seq.is_some()).collect()
}

fn code(result: service::Result<Vec<TurnUpdate>>) -> Code {
    result.map_err(|error: Error| error.code()).unwrap_err()
}

#[tokio::test]
async fn a_follower_that_comes_back_misses_nothing_and_has_nothing_twice() {
    let (local, session, turn) = begun().await;
    let of = (session.as_str(), turn.as_str());
    let all = kept(updates(&local, of, Some(0)).await.unwrap());
    let names: Vec<&str> = all.iter().map(|one| one.event.name()).collect();
    assert_eq!(names.first(), Some(&"accepted"), "{names:?}");
    assert_eq!(names.last(), Some(&"ended"), "{names:?}");
    assert!(names.contains(&"frozen"), "{names:?}");
    let seqs: Vec<u64> = all.iter().filter_map(|one| one.seq).collect();
    assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "{seqs:?}");
    for (at, seq) in seqs.iter().enumerate() {
        let later = updates(&local, of, Some(*seq)).await.unwrap();
        assert_eq!(later, all[at + 1..], "after {seq}");
    }
    local.shutdown().await;
}

#[tokio::test]
async fn who_begins_a_turn_can_follow_it_from_its_acceptance() {
    let (local, session) = started(with_buyers(program(extensions()))).await;
    let session = session.id().to_string();
    let request = requested(r#"{"item":"tent"}"#, &["north", "south"]);
    let begun = service::Turns::begin_followed(&local, &session, &request, None).await;
    let (begun, followed) = begun.unwrap();
    let all: Vec<TurnUpdate> = followed.try_collect().await.unwrap();
    let all = kept(all);
    assert_eq!(all[0].event.name(), "accepted");
    let of = (session.as_str(), begun.turn.as_str());
    assert_eq!(all, kept(updates(&local, of, Some(0)).await.unwrap()));
    local.shutdown().await;
}

#[tokio::test]
async fn the_end_has_the_turn_its_agents_and_what_they_used() {
    let (local, session, turn) = begun().await;
    let all = updates(&local, (&session, &turn), Some(0)).await.unwrap();
    let Some(TurnEvent::Ended(end)) = all.last().map(|one| &one.event) else {
        panic!("{all:?}");
    };
    assert_eq!(end.turn, local.turn(&session, &turn).await.unwrap());
    assert_eq!(end.turn.state, "answered");
    assert_eq!(end.answer_message, Some(7));
    let agents = end.agents.iter();
    let agents: Vec<_> = agents
        .map(|one| (&*one.agent, &*one.role, &*one.state))
        .collect();
    let done = [
        ("north", "delegate", "done"),
        ("south", "delegate", "done"),
        ("lead", "lead", "done"),
    ];
    assert_eq!(agents, done);
    // Who joins later is told the same end, after the turn as it is.
    let joined = updates(&local, (&session, &turn), None).await.unwrap();
    let [first, last] = &joined[..] else {
        panic!("{joined:?}");
    };
    assert!(matches!(&first.event, TurnEvent::State(state) if state.agents == end.agents));
    assert_eq!((first.seq, last), (None, all.last().unwrap()));
    local.shutdown().await;
}

#[tokio::test]
async fn a_turn_that_another_program_works_on_is_followed_in_the_journal() {
    let (local, session, turn) = begun().await;
    let of = (session.as_str(), turn.as_str());
    let all = kept(updates(&local, of, Some(0)).await.unwrap());
    let stored = async |turn: &str, after: Option<u64>| {
        let (session, turn) = (of.0.parse().unwrap(), turn.parse().unwrap());
        let mut follower = local.stored_follower(session, turn, after).await?;
        let mut found = Vec::new();
        while let Some(update) = follower.next().await? {
            found.push(update);
        }
        assert!(follower.has_ended());
        Ok::<_, unisono::Error>(found)
    };
    assert_eq!(kept(stored(of.1, Some(0)).await.unwrap()), all);
    for (at, seq) in all.iter().filter_map(|one| one.seq).enumerate() {
        let later = kept(stored(of.1, Some(seq)).await.unwrap());
        assert_eq!(later, all[at + 1..], "after {seq}");
    }
    let joined = updates(&local, of, None).await.unwrap();
    assert_eq!(stored(of.1, None).await.unwrap(), joined);
    let other = uuid::Uuid::nil().to_string();
    for (turn, after, code) in [
        (other.as_str(), None, Code::NotFound),
        (of.1, Some(1 << 40), Code::InvalidRequest),
    ] {
        assert_eq!(stored(turn, after).await.unwrap_err().code(), code);
    }
    local.shutdown().await;
}

#[tokio::test]
async fn who_follows_in_the_journal_learns_that_the_session_is_deleted() {
    let program = with_buyers(program(extensions())).set("agents.north.approve", "stock");
    let (local, session) = started(program).await;
    let ask = Ask::new(r#"{"item":"tent"}"#).agents(["north"]);
    let turn = local.begin(&session, &ask).await.unwrap();
    let follower = local.stored_follower(session.id(), turn, None).await;
    let mut follower = follower.unwrap();
    assert!(local.discard(session.id()).await.unwrap());
    let rest = async {
        while follower.next().await?.is_some() {}
        Ok::<_, unisono::Error>(())
    };
    assert_eq!(rest.await.unwrap_err().code(), Code::NotFound);
    local.shutdown().await;
}

#[tokio::test]
async fn updates_of_a_deleted_session_end_with_one_error() {
    let program = with_buyers(program(extensions())).set("agents.north.approve", "stock");
    let ask = Ask::new(r#"{"item":"tent"}"#).agents(["north"]);
    let (local, session, turn) = begun_in(program, &ask).await;
    let mut updates = local.follow(&session, &turn, None).await.unwrap();
    assert!(local.discard(session.parse().unwrap()).await.unwrap());
    let error = loop {
        match updates.try_next().await {
            Ok(update) => assert!(update.is_some(), "its turn has not ended"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Code::NotFound);
    assert_eq!(updates.try_next().await.unwrap(), None);
    drop(updates);
    local.shutdown().await;
}

/// The output of a future that is dropped after this many polls.
async fn polled<T>(future: impl Future<Output = T>, mut polls: u32) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        polls -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[tokio::test]
async fn a_follower_loses_nothing_when_its_waits_are_dropped() {
    let (local, session) = started(with_buyers(program(extensions()))).await;
    let ask = Ask::new(r#"{"item":"tent"}"#).agents(["north", "south"]);
    let (turn, mut follower) = local.begin_followed(&session, &ask).await.unwrap();
    local.wait(&session, turn).await.unwrap();
    let (mut all, mut polls) = (Vec::new(), 1);
    loop {
        match polled(follower.next(), polls).await.map(Result::unwrap) {
            Some(Some(update)) => {
                all.push(update);
                polls = 1;
            }
            Some(None) => break,
            None => polls += 1,
        }
    }
    let (session, turn) = (session.id().to_string(), turn.to_string());
    let again = updates(&local, (&session, &turn), Some(0)).await.unwrap();
    assert_eq!(kept(all), kept(again));
    drop(follower);
    local.shutdown().await;
}

#[tokio::test]
async fn what_is_not_there_cannot_be_followed() {
    let (local, session, turn) = begun().await;
    let other = uuid::Uuid::nil().to_string();
    let none = updates(&local, (&session, &other), None).await;
    assert_eq!(code(none), Code::NotFound);
    let ahead = updates(&local, (&session, &turn), Some(1 << 40)).await;
    assert_eq!(code(ahead), Code::InvalidRequest);
    let text = updates(&local, (&session, "turn"), None).await;
    assert_eq!(code(text), Code::InvalidRequest);
    local.shutdown().await;
}

#[tokio::test]
async fn asked_again_under_its_key_it_is_the_same_turn() {
    let (local, session) = started(program(extensions())).await;
    let session = session.id().to_string();
    let begin = async |task: &str, waited| {
        let asked = requested(task, &[]).waited_for(waited);
        service::Turns::begin(&local, &session, &asked, Some("once")).await
    };
    let first = begin("How many?", false).await.unwrap();
    assert_eq!(begin("How many?", true).await.unwrap().turn, first.turn);
    let other = begin("How much?", false)
        .await
        .map_err(|error| error.code());
    assert_eq!(other.unwrap_err(), Code::KeyReused);
    local.shutdown().await;
}

/// Says what it does around a call of a tool, once it may.
struct Teller(Arc<Notify>);

impl Agent for Teller {
    async fn run(&self, task: Task, ctx: Ctx) -> Result<Answer, Failure> {
        self.0.notified().await;
        ctx.progress("before");
        let stock = ctx.call_tool("stock", &task.text).await?;
        ctx.progress("after");
        Ok(Answer::text(stock.content.to_string()))
    }
}

#[tokio::test]
async fn what_is_said_is_told_between_the_events_between_which_it_was_said() {
    let may = Arc::new(Notify::new());
    let own = extensions().agent("teller", Teller(may.clone()));
    let program = program(own)
        .set("agents.clerk.description", "counts")
        .set("agents.clerk.kind", "teller")
        .set("agents.clerk.tools", "stock");
    let (local, session) = started(program).await;
    let id = session.id().to_string();
    let ask = Ask::new(r#"{"item":"tent"}"#).agents([""; 0]).lead("clerk");
    let turn = local.begin(&session, &ask).await.unwrap();
    let followed = local.follow(&id, &turn.to_string(), Some(0)).await.unwrap();
    may.notify_one();
    // Nobody looks until all has happened.
    local.wait(&session, turn).await.unwrap();
    let all: Vec<TurnUpdate> = followed.try_collect().await.unwrap();
    let events = all.iter().filter_map(|one| match &one.event {
        TurnEvent::Progress { text, .. } if !text.contains("calling") => Some(text.as_str()),
        TurnEvent::ToolStarted { .. } | TurnEvent::ToolEnded { .. } => Some(one.event.name()),
        _ => None,
    });
    let events: Vec<&str> = events.collect();
    assert_eq!(events, ["before", "tool_started", "tool_ended", "after"]);
    local.shutdown().await;
}

/// Writes its reply in many small pieces, once it may.
struct Writer(Arc<Notify>);

impl LanguageModel for Writer {
    fn window(&self) -> Tokens {
        Tokens(50_000)
    }

    fn complete(&self, request: Request) -> Completion<'_> {
        Box::pin(async move {
            self.0.notified().await;
            let pieces: Vec<String> = (0..200).map(|number| format!("{number} ")).collect();
            pieces
                .iter()
                .for_each(|piece| request.listener.report_text(piece));
            Ok(Reply::text(pieces.concat()))
        })
    }
}

#[tokio::test]
async fn the_first_piece_of_a_reply_comes_alone_and_later_ones_together() {
    let may = Arc::new(Notify::new());
    let own = extensions().model("own/writer", Writer(may.clone()));
    let program = program(own).set("models.default", "own/writer");
    let ask = Ask::new("How many?").agents([""; 0]);
    let (local, id, turn) = begun_in(program, &ask).await;
    let followed = local.follow(&id, &turn, Some(0)).await.unwrap();
    may.notify_one();
    let all: Vec<TurnUpdate> = followed.try_collect().await.unwrap();
    let texts = all.iter().filter_map(|one| match &one.event {
        TurnEvent::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let texts: Vec<&str> = texts.collect();
    assert_eq!(texts.first(), Some(&"0 "), "{texts:?}");
    assert!(texts.len() < 20, "{} updates", texts.len());
    let end = all.last().map(|one| &one.event);
    let Some(TurnEvent::Ended(end)) = end else {
        panic!("{end:?}");
    };
    assert_eq!(Some(texts.concat()), end.turn.answer);
    local.shutdown().await;
}

/// Writes the first half of its reply once it may, and the second half once it may do that.
struct Halting {
    first: Arc<Notify>,
    second: Arc<Notify>,
}

impl LanguageModel for Halting {
    fn window(&self) -> Tokens {
        Tokens(50_000)
    }

    fn complete(&self, request: Request) -> Completion<'_> {
        Box::pin(async move {
            self.first.notified().await;
            request.listener.report_text("Twelve ");
            self.second.notified().await;
            request.listener.report_text("tents.");
            Ok(Reply::text("Twelve tents."))
        })
    }
}

#[tokio::test]
async fn the_first_words_of_a_reply_come_again_or_are_said_to_be_missed() {
    let (first, second) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let model = Halting {
        first: first.clone(),
        second: second.clone(),
    };
    let own = extensions().model("own/halting", model);
    let program = program(own).set("models.default", "own/halting");
    let ask = Ask::new("How many?").agents([""; 0]);
    let (local, id, turn) = begun_in(program, &ask).await;
    let mut early = local.follow(&id, &turn, Some(0)).await.unwrap();
    first.notify_one();
    let mut last = None;
    loop {
        let update = early.try_next().await.unwrap().unwrap();
        assert_ne!(update.event, TurnEvent::Missed, "it was there before");
        if matches!(update.event, TurnEvent::Text { .. }) {
            break;
        }
        last = update.seq.or(last);
    }
    let late = local.follow(&id, &turn, Some(0)).await.unwrap();
    // It may have the first words, or not.
    let again = local.follow(&id, &turn, last).await.unwrap();
    second.notify_one();
    let rest: Vec<TurnUpdate> = early.try_collect().await.unwrap();
    assert!(rest.iter().all(|one| one.event != TurnEvent::Missed));
    let late: Vec<TurnUpdate> = late.try_collect().await.unwrap();
    assert!(late.iter().all(|one| one.event != TurnEvent::Missed));
    let texts = late.iter().filter_map(|one| match &one.event {
        TurnEvent::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(texts.collect::<String>(), "Twelve tents.", "{late:?}");
    let again: Vec<TurnUpdate> = again.try_collect().await.unwrap();
    let mut told = again.iter().map(|one| one.event.name());
    let told = told.find(|name| ["missed", "text"].contains(name));
    assert_eq!(told, Some("missed"), "{again:?}");
    local.shutdown().await;
}

/// Its first attempt finds its provider unavailable for a while.
struct Stumbler;

impl Agent for Stumbler {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        match ctx.attempt() {
            1 => {
                let mut failure =
                    Failure::new(RunCause::Unavailable, "asks for a pause; 1 attempt");
                failure.wait_ms = Some(60_000);
                Err(failure)
            }
            _ => Ok(Answer::text("done")),
        }
    }
}

/// A model that pauses before its request, when it may.
struct Pausing(Arc<Notify>);

impl LanguageModel for Pausing {
    fn complete(&self, request: Request) -> Completion<'_> {
        Box::pin(async move {
            self.0.notified().await;
            let pause = Duration::from_secs(7);
            request
                .listener
                .report_pause(pause, "model a/b: too many requests");
            Ok(Reply::text("Seven."))
        })
    }
}

#[tokio::test]
async fn a_pause_inside_a_request_is_told_with_its_reason_and_its_end() {
    let may = Arc::new(Notify::new());
    let program = program(extensions().model("mine/pausing", Pausing(may.clone())))
        .set("agents.clerk.description", "counts")
        .set("agents.clerk.model", "mine/pausing");
    let ask = Ask::new("Count.").agents([""; 0]).lead("clerk");
    let (local, id, turn) = begun_in(program, &ask).await;
    let followed = local.follow(&id, &turn, Some(0)).await.unwrap();
    may.notify_one();
    let all: Vec<TurnUpdate> = followed.try_collect().await.unwrap();
    let told = all.iter().find_map(|one| match &one.event {
        TurnEvent::RunRetried { agent, reason } => Some((one.seq, agent, reason)),
        _ => None,
    });
    let (seq, agent, reason) = told.unwrap();
    assert_eq!((seq, &**reason), (None, "model a/b: too many requests"));
    assert_eq!((&*agent.agent, &*agent.state), ("clerk", "running"));
    let pause = agent.pause.as_ref().unwrap();
    assert_eq!(pause.reason, *reason);
    assert!(pause.until.ends_with('Z'), "{}", pause.until);
    local.shutdown().await;
}

#[tokio::test]
async fn whoever_comes_during_a_pause_learns_its_end_and_its_reason() {
    let program = program(extensions().agent("stumbler", Stumbler))
        .set("agents.clerk.description", "counts")
        .set("agents.clerk.kind", "stumbler")
        .set("agents.clerk.retries", "1");
    let ask = Ask::new("Count.").agents([""; 0]).lead("clerk");
    let (local, id, turn) = begun_in(program, &ask).await;
    let mut followed = local.follow(&id, &turn, Some(0)).await.unwrap();
    let retried = loop {
        let update = followed.try_next().await.unwrap().unwrap();
        if let TurnEvent::RunRetried { agent, .. } = update.event {
            break agent;
        }
    };
    let pause = retried.pause.unwrap();
    assert_eq!(pause.reason, "asks for a pause; 1 attempt");
    let mut joined = local.follow(&id, &turn, None).await.unwrap();
    let first = joined.try_next().await.unwrap().unwrap();
    let TurnEvent::State(state) = first.event else {
        panic!("{first:?}");
    };
    assert_eq!(state.agents[0].pause.as_ref(), Some(&pause));
    let read = service::Turns::turn(&local, &id, &turn).await.unwrap();
    assert_eq!(read.runs[0].pause.as_ref(), Some(&*pause));
    drop((followed, joined));
    local.shutdown().await;
}

#[tokio::test]
async fn a_call_whose_run_is_cancelled_waits_no_longer() {
    let program = with_buyers(program(extensions())).set("agents.north.approve", "stock");
    let ask = Ask::new(r#"{"item":"tent"}"#).agents(["north"]);
    let (local, id, turn) = begun_in(program, &ask).await;
    let mut followed = local.follow(&id, &turn, Some(0)).await.unwrap();
    let waiting = loop {
        let update = followed.try_next().await.unwrap().unwrap();
        if let TurnEvent::Waiting { mut calls } = update.event {
            break calls.remove(0);
        }
    };
    local.cancel_run(&id, &waiting.run).await.unwrap();
    let rest: Vec<TurnUpdate> = followed.try_collect().await.unwrap();
    let decided = rest.iter().find_map(|one| match &one.event {
        TurnEvent::Decided { call, decision, .. } => Some((call.as_str(), decision.as_str())),
        _ => None,
    });
    assert_eq!(decided, Some((waiting.call.as_str(), "withdrawn")));
    let end = rest.last().map(|one| one.event.name());
    assert_eq!(end, Some("ended"), "the turn went on without it");
    local.shutdown().await;
}
