//! What clients saw, against what the journals and the servers say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use unisono_session::{Fact, State};
use unisono_store::Journal;
use unisono_store::postgres::{Options, Postgres};

use crate::client::{Ended, People, mark};
use crate::nodes::Cluster;

/// Sessions and events read at a time.
const PAGE: usize = 4_096;

/// Sums over rounds.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The acknowledged turns, and their sessions.
    turns: BTreeMap<String, String>,
    requests_again: u64,
    decisions: u64,
    unanswered: u64,
    events: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.turns.extend(other.turns);
        self.requests_again += other.requests_again;
        self.decisions += other.decisions;
        self.unanswered += other.unanswered;
    }

    /// Looks at a turn that has ended.
    pub(crate) fn turn(&mut self, ended: Ended, people: &People) -> Result<(), String> {
        let Ended {
            number,
            turn,
            finished,
            decisions,
            unanswered,
        } = ended;
        let mark = mark(number);
        let wrong = |what: &str| Err(format!("{what}: turn {number}: {turn:?}"));
        let answer = turn.answer.clone().unwrap_or_default();
        if turn.state != "answered" || !answer.contains(mark.trim_end_matches('-')) {
            return wrong("it is not answered");
        }
        match people.made(&mark) {
            1 => {}
            n => return wrong(&format!("its call was made {n} times")),
        }
        let requests = people.provider.requests();
        let of_turn = |body: &str| body.contains(mark.as_str());
        let mut bodies: BTreeMap<&[u8], u64> = BTreeMap::new();
        for (n, request) in requests.iter().enumerate() {
            let body = String::from_utf8_lossy(&request.body);
            if !of_turn(&body) {
                continue;
            }
            *bodies.entry(&request.body).or_default() += 1;
            for (agent, seen_at) in &finished {
                let is_of = body.contains(&format!("You are the agent \\\"{agent}\\\""));
                if is_of && n >= *seen_at {
                    return wrong(&format!("{agent} had finished and was asked again"));
                }
            }
        }
        // Two of the lead, one of its delegate; sent again with the same bytes where they were open.
        if bodies.len() != 3 {
            return wrong(&format!("{} requests that differ", bodies.len()));
        }
        self.requests_again += bodies.values().map(|times| times - 1).sum::<u64>();
        self.decisions += decisions;
        self.unanswered += unanswered;
        self.turns.insert(turn.turn, turn.session);
        Ok(())
    }

    /// Reads every journal: no gap, and nothing that ended twice.
    pub(crate) async fn close(&mut self, cluster: &Cluster) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let options = Options::new(&cluster.database(), None).map_err(|error| text(&error))?;
        let engine = Postgres::open(options)
            .await
            .map_err(|error| text(&error))?;
        let journal = Journal::new(Arc::new(engine));
        let (mut after, mut ended) = (None, BTreeMap::<String, u64>::new());
        loop {
            let page = journal
                .sessions(after, PAGE)
                .await
                .map_err(|error| text(&error))?;
            let Some(last) = page.last() else { break };
            after = Some(last.session.into());
            for info in page {
                self.session(&journal, info.session.into(), &mut ended)
                    .await?;
            }
        }
        let lost = self.turns.keys().find(|turn| ended.get(*turn) != Some(&1));
        journal.close().await.map_err(|error| text(&error))?;
        match lost {
            Some(turn) => Err(format!(
                "turn {turn} was acknowledged: {:?}",
                ended.get(turn)
            )),
            None => Ok(()),
        }
    }

    async fn session(
        &mut self,
        journal: &Journal,
        session: unisono_context::SessionId,
        turns: &mut BTreeMap<String, u64>,
    ) -> Result<(), String> {
        let (mut state, mut ended) = (State::default(), BTreeMap::<String, u64>::new());
        loop {
            let read = journal.read(session, state.events() + 1, PAGE).await;
            let read = read.map_err(|error| error.to_string())?;
            if read.is_empty() {
                break;
            }
            for (seq, event) in read {
                if seq != state.events() + 1 {
                    return Err(format!(
                        "session {session}: event {seq} after {}",
                        state.events()
                    ));
                }
                self.events += 1;
                match &event.fact {
                    Fact::TurnEnded { turn, .. } => {
                        *turns.entry(turn.to_string()).or_default() += 1;
                    }
                    Fact::RunEnded { run, .. } => {
                        *ended.entry(format!("run {run}")).or_default() += 1;
                    }
                    Fact::ToolEnded { call, .. } => {
                        *ended.entry(format!("call {call:?}")).or_default() += 1;
                    }
                    _ => {}
                }
                let folded = state.apply(&event);
                folded.map_err(|error| format!("session {session}, event {seq}: {error}"))?;
            }
        }
        let twice = ended.iter().find(|(_, times)| **times > 1);
        twice.map_or(Ok(()), |(what, times)| {
            Err(format!("session {session}: {what} ended {times} times"))
        })
    }

    /// The last line is the row of `docs/reliability.md`.
    pub(crate) fn tell(&self, rounds: u64, took: Duration) {
        println!(
            "cluster: {rounds} rounds, {} turns, {} events; sent again while open {}; calls in doubt \
             settled {}; answers that did not come {}; acknowledged lost 0, finished repeated 0, \
             at-most-once doubled 0; {} s",
            self.turns.len(),
            self.events,
            self.requests_again,
            self.decisions,
            self.unanswered,
            took.as_secs(),
        );
    }
}
