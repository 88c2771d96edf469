//! Clients: each hands in a turn, follows it at whichever daemon answers, and decides about a call that
//! is in doubt.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use unisono_api::approval::{ApprovalQuery, Decide, Verdict};
use unisono_api::service::{Approvals as _, Result as Answered, Sessions as _, Turns as _};
use unisono_api::session::NewSession;
use unisono_api::turn::{NewTurn, Turn, TurnRequest};
use unisono_client::Client;
use unisono_fake_provider::{Act, Answer, FakeProvider, Pace, Script};

use crate::PATIENCE;
use crate::nodes::token;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A daemon that does not answer in this time is left for another one.
const ANSWERS_WITHIN: Duration = Duration::from_secs(4);

/// Who asks the daemons.
#[derive(Clone)]
pub(crate) struct People {
    pub(crate) clients: Vec<Client>,
    /// Whether it is known what became of calls in doubt.
    pub(crate) decides: Arc<AtomicBool>,
    pub(crate) provider: Arc<FakeProvider>,
    /// What the servers of tools were asked for.
    pub(crate) logs: Vec<PathBuf>,
}

/// What a client saw of its turn.
pub(crate) struct Ended {
    pub(crate) number: u64,
    pub(crate) turn: Turn,
    /// How many requests the provider had when a run was first seen to have ended, by agent.
    pub(crate) finished: BTreeMap<String, usize>,
    /// Decisions that were acknowledged.
    pub(crate) decisions: u64,
    /// Answers that did not come.
    pub(crate) unanswered: u64,
}

/// What stands in the task of a turn and in all that follows from it.
pub(crate) fn mark(number: u64) -> String {
    format!("turn-{number:06}-")
}

impl People {
    /// What was in doubt can be decided from now on: all who might still do something are gone or know.
    pub(crate) fn may_decide(&self) {
        self.decides.store(true, Ordering::SeqCst);
    }

    pub(crate) fn made(&self, text: &str) -> usize {
        let logs = self.logs.iter();
        let logs = logs.map(|log| fs::read_to_string(log).unwrap_or_default());
        logs.map(|log| {
            let calls = log.lines().filter(|line| line.starts_with("call send "));
            calls.filter(|line| line.contains(text)).count()
        })
        .sum()
    }
}

/// Asks one daemon after the other until one answers.
async fn until_answered<T>(
    people: &People,
    from: u64,
    unanswered: &mut u64,
    ask: impl AsyncFn(Client) -> Answered<T>,
) -> Result<T, String> {
    let until = Instant::now() + PATIENCE;
    let mut nodes = people
        .clients
        .iter()
        .cycle()
        .skip(from as usize % people.clients.len());
    let mut last = String::new();
    while Instant::now() < until {
        let client = nodes.next().expect("they come again").clone();
        match tokio::time::timeout(ANSWERS_WITHIN, ask(client)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => {
                let may_pass = ["unavailable", "unreachable", "busy"];
                let code = format!("{:?}", error.code()).to_lowercase();
                if !may_pass.contains(&code.as_str()) {
                    return Err(format!("refused: {error} ({code})"));
                }
                last = error.to_string();
            }
            Err(_) => last = "no answer".to_owned(),
        }
        *unanswered += 1;
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(format!("nobody answers: {last}"))
}

/// Hands in one turn and sees to it that it ends.
pub(crate) async fn turn(people: People, number: u64) -> Result<Ended, String> {
    let (mark, mut unanswered) = (mark(number), 0);
    let new = || NewSession {
        title: Some(mark.clone()),
        system: None,
        labels: BTreeMap::new(),
        settings: BTreeMap::new(),
        messages: Vec::new(),
    };
    let made = until_answered(&people, number, &mut unanswered, async |client| {
        client.create_session(new()).await
    });
    let session = made.await?.session;
    let asked = TurnRequest::Task(NewTurn {
        lead: Some("boss".to_owned()),
        agents: Some(vec!["scout".to_owned()]),
        ..NewTurn::new(format!("Send {mark} now."))
    });
    let begun = until_answered(&people, number + 1, &mut unanswered, async |client| {
        client.begin(&session, &asked, Some(&mark)).await
    });
    let acknowledged = begun.await?.turn;
    let (mut finished, mut decided) = (BTreeMap::new(), BTreeSet::new());
    let until = Instant::now() + PATIENCE;
    for n in number.. {
        let seen = until_answered(&people, n, &mut unanswered, async |client| {
            client.turn(&session, &acknowledged).await
        });
        let turn = seen.await?;
        let requests = people.provider.requests().len();
        let done = turn.runs.iter().filter(|run| run.state == "done");
        for run in done {
            finished.entry(run.agent.clone()).or_insert(requests);
        }
        if turn.ended_at.is_some() {
            let decisions = decided.len() as u64;
            return Ok(Ended {
                number,
                turn,
                finished,
                decisions,
                unanswered,
            });
        }
        if Instant::now() > until {
            return Err(format!("turn {number} does not end: {turn:?}"));
        }
        if people.decides.load(Ordering::SeqCst) {
            decide(&people, &session, &mark, n, &mut decided, &mut unanswered).await?;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err("it is over".to_owned())
}

/// Settles the call of a turn if it is in doubt: it was made, or is to be made again.
async fn decide(
    people: &People,
    session: &str,
    mark: &str,
    from: u64,
    decided: &mut BTreeSet<String>,
    unanswered: &mut u64,
) -> Result<(), String> {
    let query = ApprovalQuery {
        session: Some(session.to_owned()),
        ..ApprovalQuery::default()
    };
    let listed = until_answered(people, from, unanswered, async |client| {
        client.approvals(&query).await
    });
    for waiting in listed.await?.items {
        if decided.contains(&waiting.call) {
            return Err(format!(
                "a decision was acknowledged and asked for again: {waiting:?}"
            ));
        }
        let (decision, text) = match people.made(mark) {
            0 => (Verdict::Repeat, None),
            _ => (Verdict::Done, Some(format!("send: {mark}"))),
        };
        let decide = Decide { decision, text };
        let mut reply = Duration::ZERO;
        loop {
            // One daemon after the other: a decision may have been taken whose answer was lost.
            let client = &people.clients[(from as usize + reply.as_millis() as usize) % 3];
            let said = tokio::time::timeout(ANSWERS_WITHIN, client.decide(&waiting.call, &decide));
            match said.await {
                Ok(Ok(_)) => break,
                Ok(Err(error)) if format!("{:?}", error.code()) == "Conflict" => break,
                Ok(Err(error)) if format!("{:?}", error.code()) == "NotFound" => break,
                _ => *unanswered += 1,
            }
            reply += Duration::from_millis(1);
            if reply > Duration::from_millis(500) {
                return Err(format!("nobody takes a decision about {waiting:?}"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        if decision == Verdict::Done {
            decided.insert(waiting.call);
        }
    }
    Ok(())
}

/// Replies follow from their requests alone.
pub(crate) fn script() -> Script {
    Script::by(|request| {
        let body = String::from_utf8_lossy(&request.body);
        let place = body.find("turn-").unwrap_or_default();
        let mark = body.get(place..place + 12).unwrap_or("turn-unknown");
        let mut hasher = DefaultHasher::new();
        request.body.hash(&mut hasher);
        let hash = hasher.finish();
        let is_boss = body.contains("You are the agent \\\"boss\\\"");
        let answer = if is_boss && !body.contains("call_send") {
            let arguments = format!(r#"{{"text":"{mark}"}}"#);
            let answer = Answer::text(format!("I send it: {hash:016x}."));
            answer
                .and_call("office__send", arguments)
                .call_id("call_send")
        } else {
            Answer::text(format!("It is done for {mark}: {hash:016x}."))
        };
        Act::answer(answer).pace(Pace {
            first: Duration::from_millis(30),
            tokens_per_second: 400,
        })
    })
}

/// The numbers of a daemon.
pub(crate) fn metrics(place: &str) -> String {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(place)?;
        stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
        let token = token();
        write!(
            stream,
            "GET /metrics HTTP/1.1\r\nHost: {place}\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\n\r\n"
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    ask().unwrap_or_default()
}
