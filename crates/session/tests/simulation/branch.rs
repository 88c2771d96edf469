//! The expected messages of a turn on its branch, derived from the whole journal: the calls of
//! every delegation, all their results in the order of the calls, the answer, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unisono_context::message::Part;
use unisono_context::{RunId, TurnId};
use unisono_session::event::{AcceptedTurn, DelegatedCall, Outcome, RunRole};
use unisono_session::run::Ending;
use unisono_session::{Event, Fact, State, ids};

/// The messages that turns append follow from their events.
pub fn contains_every_delegation(events: &[Event], state: &State) {
    let mut turns: BTreeMap<TurnId, ExpectedBranch> = BTreeMap::new();
    let mut turn_of: BTreeMap<RunId, TurnId> = BTreeMap::new();
    for event in events {
        match &event.fact {
            Fact::TurnAccepted { turn } => {
                turns.insert(turn.id, ExpectedBranch::new((**turn).clone()));
            }
            Fact::RunOpened { run } => {
                turn_of.insert(run.id, run.turn);
                turns.get_mut(&run.turn).unwrap().opened(run.id, run.role);
            }
            Fact::Delegated { run, round, calls } => {
                let turn = turns.get_mut(&turn_of[run]).unwrap();
                turn.delegated(*run, *round, calls);
            }
            Fact::RunEnded { run, ending } => {
                let turn = turns.get_mut(&turn_of[run]).unwrap();
                turn.ended(*run, ending);
            }
            Fact::TurnEnded { turn, outcome } => {
                let expected = turns.remove(turn).unwrap().all(outcome);
                assert_eq!(shown(state, *turn), expected, "the messages of a turn");
            }
            _ => {}
        }
    }
}

/// The messages that a turn appended itself, one line per part.
fn shown(state: &State, turn: TurnId) -> Vec<String> {
    let own = (0..).map_while(|index| state.tree().get(ids::message(turn, index)));
    let parts = own.flat_map(|node| node.message.parts.iter());
    parts
        .map(|part| match part {
            Part::Text(text) => format!("says {text}"),
            // The tasks of the fan-out are configured.
            Part::ToolCall { id, .. } if id.matches('_').count() == 1 => format!("{id} calls"),
            Part::ToolCall { id, arguments, .. } => format!("{id} calls {arguments}"),
            Part::ToolResult {
                call_id, content, ..
            } => format!("{call_id} gives {content}"),
            Part::Attachment { .. } => "a file".to_owned(),
        })
        .collect()
}

struct ExpectedBranch {
    accepted: AcceptedTurn,
    lines: Vec<String>,
    places: BTreeMap<RunRole, RunId>,
    endings: BTreeMap<RunId, Arc<Ending>>,
    /// Rounds of the lead whose results are not on the branch yet.
    rounds: Vec<(RunId, u32, Vec<DelegatedCall>)>,
    /// Whether the results of the fan-out are on the branch.
    delivered: bool,
    lead: Option<RunId>,
    given: BTreeSet<(RunId, u32)>,
}

impl ExpectedBranch {
    fn new(accepted: AcceptedTurn) -> ExpectedBranch {
        ExpectedBranch {
            accepted,
            lines: Vec::new(),
            places: BTreeMap::new(),
            endings: BTreeMap::new(),
            rounds: Vec::new(),
            delivered: false,
            lead: None,
            given: BTreeSet::new(),
        }
    }

    fn opened(&mut self, run: RunId, role: RunRole) {
        if role == (RunRole::Delegate { index: 0 }) {
            for index in 0..self.accepted.delegates.len() {
                self.lines.push(format!("delegate_{} calls", index + 1));
            }
        }
        if role == RunRole::Lead {
            self.lead = Some(run);
        }
        self.places.insert(role, run);
    }

    fn delegated(&mut self, run: RunId, round: u32, calls: &[DelegatedCall]) {
        if self.lead == Some(run) {
            self.lines.push(format!("says round {round}"));
            for (index, call) in calls.iter().enumerate() {
                let arguments = format!(r#"{{"agent":"{}","task":"{}"}}"#, call.agent, call.task);
                let id = format!("delegate_{round}_{}", index + 1);
                self.lines.push(format!("{id} calls {arguments}"));
            }
            self.rounds.push((run, round, calls.to_vec()));
            self.given.insert((run, round));
            self.append_ended_rounds(false);
        }
    }

    fn ended(&mut self, run: RunId, ending: &Arc<Ending>) {
        self.endings.insert(run, ending.clone());
        let fan_out = 0..self.accepted.delegates.len() as u32;
        let place = |index| self.places.get(&RunRole::Delegate { index });
        let mut delegates = fan_out.map(place);
        let all = delegates.all(|run| run.is_some_and(|run| self.endings.contains_key(run)));
        if all {
            self.tell_fan_out();
        }
        self.append_ended_rounds(self.lead == Some(run));
    }

    fn tell_fan_out(&mut self) {
        if std::mem::replace(&mut self.delivered, true) {
            return;
        }
        for index in 0..self.accepted.delegates.len() as u32 {
            let text = self.text(self.places.get(&RunRole::Delegate { index }));
            self.lines
                .push(format!("delegate_{} gives {text}", index + 1));
        }
    }

    /// Appends the rounds whose runs have all ended; after the end of the lead no run is opened.
    fn append_ended_rounds(&mut self, lead_ended: bool) {
        let lead_ended = lead_ended || self.lead.is_some_and(|run| self.endings.contains_key(&run));
        for (parent, round, calls) in std::mem::take(&mut self.rounds) {
            let child = |index: usize| {
                let index = index as u32;
                self.places.get(&RunRole::Child {
                    parent,
                    round,
                    index,
                })
            };
            let done = |(index, call): (usize, &DelegatedCall)| {
                call.refused.is_some()
                    || child(index).map_or(lead_ended, |run| self.endings.contains_key(run))
            };
            if !calls.iter().enumerate().all(done) {
                self.rounds.push((parent, round, calls));
                continue;
            }
            let texts = calls.iter().enumerate().map(|(index, call)| {
                let text = match &call.refused {
                    Some(reason) => format!("[refused: {reason}]"),
                    None => self.text(child(index)),
                };
                format!("delegate_{round}_{} gives {text}", index + 1)
            });
            let texts: Vec<String> = texts.collect();
            self.lines.extend(texts);
        }
    }

    fn text(&self, run: Option<&RunId>) -> String {
        match run
            .and_then(|run| self.endings.get(run))
            .map(|ending| &**ending)
        {
            Some(Ending::Finished { text, partial, .. }) => match partial {
                Some(why) => format!("{text}\n\n[incomplete: {why}]"),
                None => text.to_string(),
            },
            Some(Ending::Failed { cause, reason, .. }) => {
                format!("[failed: {}: {reason}]", cause.code())
            }
            Some(Ending::Cancelled) | None => "[cancelled]".to_owned(),
        }
    }

    fn all(mut self, outcome: &Outcome) -> Vec<String> {
        if !self.places.is_empty() && !self.accepted.delegates.is_empty() {
            self.tell_fan_out();
        }
        assert!(self.rounds.is_empty(), "no call is left without its result");
        if *outcome == Outcome::Answered {
            let text = self.text(self.lead.as_ref());
            let answer = text.split("\n\n[incomplete").next().unwrap_or_default();
            self.lines.push(format!("says {answer}"));
        }
        self.lines
    }
}
