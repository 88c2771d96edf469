//! The calls of tools: what their server was asked for, against what the journal says of them.

use std::collections::{BTreeMap, BTreeSet};

use unisono_context::TurnId;
use unisono_session::run::calls::{CallDecision, CallPlace, PlannedCall};
use unisono_session::tool::Contract;
use unisono_session::{Event, Fact, ids};

use crate::people::Acknowledged;
use crate::scene::{INVOICE, LEDGER, LETTER, PRICES, RECEIPT};

/// A call as the server was asked for it: it writes that down before it does anything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asked {
    tool: String,
    /// The key it came under; `-`: none.
    key: String,
    text: String,
}

impl Asked {
    /// One line of the server's log.
    pub(crate) fn read(line: &str) -> Option<Asked> {
        let mut words = line.strip_prefix("call ")?.splitn(3, ' ');
        let (tool, key) = (words.next()?.to_owned(), words.next()?.to_owned());
        let arguments: serde_json::Value = serde_json::from_str(words.next()?).ok()?;
        let text = arguments["text"].as_str()?.to_owned();
        Some(Asked { tool, key, text })
    }
}

pub(crate) fn did(asked: &[Asked], call: &str) -> bool {
    asked.iter().any(|asked| asked.key == call)
}

/// A call as the journal has it.
#[derive(Clone, Debug)]
struct Call {
    planned: PlannedCall,
    started: bool,
    ended: bool,
    doubts: usize,
    decisions: Vec<CallDecision>,
}

/// The calls that a journal has, by their ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(BTreeMap<String, Call>);

impl Calls {
    pub(crate) fn of(events: &[Event]) -> Calls {
        let (mut calls, mut turns) = (Calls::default(), BTreeMap::new());
        for event in events {
            match &event.fact {
                Fact::RunOpened { run } => drop(turns.insert(run.id, run.turn)),
                fact => calls.take(fact, |place| turns.get(&place.run).copied()),
            }
        }
        calls
    }

    fn take(&mut self, fact: &Fact, turn: impl Fn(&CallPlace) -> Option<TurnId>) {
        let id = |place: CallPlace| Some(ids::call(turn(&place)?, place).to_string());
        if let Fact::ToolsCalled { run, round, calls } = fact {
            for (index, planned) in (0..).zip(calls) {
                let (run, round) = (*run, *round);
                let call = Call {
                    planned: planned.clone(),
                    started: false,
                    ended: false,
                    doubts: 0,
                    decisions: Vec::new(),
                };
                let id = id(CallPlace { run, round, index });
                self.0.extend(id.map(|id| (id, call)));
            }
            return;
        }
        let (Fact::ToolStarted { call: place }
        | Fact::ToolEnded { call: place, .. }
        | Fact::ToolInDoubt { call: place }
        | Fact::ToolDecided { call: place, .. }) = fact
        else {
            return;
        };
        let Some(call) = id(*place).and_then(|id| self.0.get_mut(&id)) else {
            return;
        };
        match fact {
            Fact::ToolStarted { .. } => call.started = true,
            Fact::ToolEnded { .. } => call.ended = true,
            Fact::ToolInDoubt { .. } => call.doubts += 1,
            Fact::ToolDecided { decision, .. } => {
                call.ended |= !matches!(decision, CallDecision::Approved | CallDecision::Repeat);
                call.decisions.push(decision.clone());
            }
            _ => {}
        }
    }

    /// The key it is asked for under.
    fn key<'c>(id: &'c str, call: &Call) -> &'c str {
        match call.planned.contract {
            Contract::Pure => "-",
            Contract::Idempotent | Contract::AtMostOnce => id,
        }
    }

    /// The calls that the server may have been asked for so.
    fn fitting<'c>(&'c self, asked: &'c Asked) -> impl Iterator<Item = &'c Call> {
        let fits = |(id, call): &(&String, &Call)| {
            let tool = call.planned.tool.trim_start_matches("office__");
            tool == asked.tool
                && Calls::key(id, call) == asked.key
                && call
                    .planned
                    .arguments
                    .contains(&format!("\"{}\"", asked.text))
        };
        self.0.iter().filter(fits).map(|(_, call)| call)
    }
}

/// Counts of a round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) calls: u64,
    /// Those that were open at a death and made again, under the same key.
    pub(crate) again: u64,
    pub(crate) doubts: u64,
    pub(crate) decisions: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.calls += other.calls;
        self.again += other.again;
        self.doubts += other.doubts;
        self.decisions += other.decisions;
    }
}

/// Looks at what the server was asked for in one life (`new`), and in all so far.
pub(crate) fn after_life(
    before: &Calls,
    now: &Calls,
    all: &[Asked],
    new: &[Asked],
    acknowledged: &Acknowledged,
) -> Result<(), String> {
    let mut once = BTreeSet::new();
    for asked in new {
        if !once.insert(asked) {
            return Err(format!("{asked:?} twice in one life"));
        }
        if before.fitting(asked).any(|call| call.ended) {
            return Err(format!("{asked:?} was answered, and made again"));
        }
        if !now.fitting(asked).any(|call| call.started) {
            return Err(format!("{asked:?} was made before that was on disk"));
        }
    }
    for (id, call) in &now.0 {
        let times = all.iter().filter(|asked| asked.key == *id).count();
        if call.planned.contract == Contract::AtMostOnce && times > 1 {
            return Err(format!("{call:?} was made {times} times"));
        }
        let held = call.planned.approval.is_some();
        let approved = call.decisions.contains(&CallDecision::Approved);
        if held && !approved && times > 0 {
            return Err(format!("{call:?} was made, and nobody allowed it"));
        }
    }
    for (id, word) in acknowledged {
        let known = now.0.get(id).map(|call| &call.decisions[..]);
        let known = known.unwrap_or_default();
        if !known.iter().any(|decision| decision.name() == *word) {
            return Err(format!(
                "{word} was acknowledged for {id}, and is lost: {known:?}"
            ));
        }
    }
    Ok(())
}

/// At the end: each call was made as its contract says, and each question put and answered once.
pub(crate) fn close(calls: &Calls, all: &[Asked]) -> Result<Tally, String> {
    let mut tally = Tally {
        calls: all.len() as u64,
        ..Tally::default()
    };
    let different: BTreeSet<&Asked> = all.iter().collect();
    tally.again = tally.calls - different.len() as u64;
    let made: Vec<(&str, &str)> = different
        .iter()
        .map(|asked| (asked.tool.as_str(), asked.text.as_str()))
        .collect();
    let wanted = [
        ("put", LEDGER),
        ("put", RECEIPT),
        ("read", PRICES),
        ("send", INVOICE),
        ("send", LETTER),
    ];
    let (mut sorted, mut expected) = (made.clone(), wanted.to_vec());
    sorted.sort_unstable();
    expected.sort_unstable();
    if sorted != expected {
        return Err(format!("calls, or keys of one call: {different:?}"));
    }
    for call in calls.0.values() {
        let approvals = usize::from(call.planned.approval.is_some());
        if !call.ended || call.decisions.len() != approvals + call.doubts {
            return Err(format!("it is not settled, or more than once: {call:?}"));
        }
        if call.doubts > 0 && call.planned.contract != Contract::AtMostOnce {
            return Err(format!(
                "a person was asked about what may be repeated: {call:?}"
            ));
        }
        tally.doubts += call.doubts as u64;
        tally.decisions += call.decisions.len() as u64;
    }
    Ok(tally)
}
