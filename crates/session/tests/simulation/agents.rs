//! Agents that follow a script, and not always to its end: steps, rounds of tasks for others,
//! rounds of calls of tools, an answer.

use unisono_context::{AgentId, Cost, RunId, Tokens};
use unisono_session::Input;
use unisono_session::assignment::RunAssignment;
use unisono_session::budget::Ask;
use unisono_session::event::RunRole;
use unisono_session::machine::{AttemptEnd, DelegateCall, NewCall};
use unisono_session::run::{Cause, Reply, Spent, Step, ToolCall, ToolResult, Usage};

use crate::rng::Rng;
use crate::scenario::{TOOLS, agents};

/// What an agent does where its script ends, or before.
#[derive(Clone, Copy, Debug)]
enum Temper {
    Finish,
    FinishInPart,
    FinishTwice,
    Fail(Cause),
    Hang,
}

/// What an agent wants of the world.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "few exist at a time")]
pub enum Move {
    /// To be told to the session.
    Tell(Input),
    /// To be told what came of a round: of tasks for others, or of calls.
    Await(RunId, u32, Kind),
    /// To ask its model, once that is within its budgets.
    Ask(Ask),
    /// Nothing; it is done.
    Done,
}

/// What a round consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tasks,
    Calls,
}

/// One attempt of a run. Its script follows from the run, so that it is the same in each attempt:
/// named steps, then for each round a reply with tasks for others, the tasks, and their results.
#[derive(Clone, Debug)]
pub struct Agent {
    pub assignment: RunAssignment,
    temper: Temper,
    /// Steps that are recorded.
    step: usize,
    named: usize,
    rounds: usize,
    /// Rounds of calls, after those of tasks.
    calling: usize,
    /// The tasks or calls of the round at hand are with the session.
    asked: bool,
    /// It ends with that many steps, or once it has given its tasks away after them.
    stops_at: Option<usize>,
    ends: usize,
    /// Whether it has budgets.
    bounded: bool,
    /// Its next call is within them.
    granted: bool,
    /// What its calls used so far.
    used: u64,
    /// Its next call writes the provider's cache first.
    warms: bool,
}

/// What writing the provider's cache takes.
const WARMING: u64 = 30;

/// The most tokens of one call.
pub const WORST: u64 = 200;

impl Agent {
    pub fn new(assignment: RunAssignment, bounded: bool, rng: &mut Rng, trouble: usize) -> Agent {
        let temper = if rng.percent(trouble) {
            match rng.below(6) {
                0 => Temper::FinishInPart,
                1 => Temper::FinishTwice,
                2 => Temper::Fail(Cause::BadInput),
                3 => Temper::Hang,
                _ => Temper::Fail(Cause::Panic),
            }
        } else {
            Temper::Finish
        };
        let named = (assignment.run.as_u128() % 3) as usize;
        let rounds = if assignment.colleagues.is_empty() {
            // It was not told that it may not.
            usize::from((assignment.run.as_u128() / 3).is_multiple_of(8))
        } else {
            (assignment.run.as_u128() / 3 % 3) as usize
        };
        let tools = assignment.tools.iter().any(|tool| &*tool.name == TOOLS[0]);
        let calling = usize::from(tools) * (assignment.run.as_u128() / 11 % 3) as usize;
        let taken = assignment.steps.iter();
        let step = taken
            .filter(|step| !matches!(***step, Step::Spent(_)))
            .count();
        let left = (named + (rounds + calling) * 2).saturating_sub(step);
        let early = !matches!(temper, Temper::Finish) && rng.percent(50);
        Agent {
            step,
            named,
            rounds,
            calling,
            asked: false,
            stops_at: early.then(|| step + rng.below(left + 1)),
            ends: match temper {
                Temper::FinishTwice => 2,
                _ => 1,
            },
            bounded,
            granted: false,
            used: assignment.steps.iter().map(|step| used(step)).sum(),
            warms: (assignment.run.as_u128() / 7).is_multiple_of(4),
            assignment,
            temper,
        }
    }

    /// Its call may be made; with a reason where it is its last.
    pub fn may_ask(&mut self, wrap_up: bool) {
        self.granted = true;
        if wrap_up {
            self.stops_at = Some(self.step);
            self.temper = Temper::FinishInPart;
        }
    }

    /// It is told that its budget is used up.
    pub fn refused(&mut self) {
        self.stops_at = Some(self.step);
        self.temper = Temper::Fail(Cause::Budget);
    }

    fn number(&self) -> usize {
        self.step.saturating_sub(self.named) / 2 + 1
    }

    fn ask(&self) -> Move {
        let call = self.number();
        let cost = |tokens| Some(Cost::from_micro_dollars(tokens));
        let worst = if self.warms { WORST + WARMING } else { WORST };
        Move::Ask(Ask {
            call: call as u32,
            model: "fake/model".into(),
            tokens: Tokens(worst),
            cost: cost(worst),
            last: (call <= self.rounds).then_some((Tokens(worst), cost(worst))),
            short: None,
        })
    }

    /// What its next call uses: the same in every attempt.
    fn usage_of_call(&self) -> Usage {
        let tokens =
            (self.assignment.run.as_u128() as u64).wrapping_add(self.step as u64 * 37) % WORST;
        used_tokens(tokens + 1)
    }

    pub fn hangs(&self) -> bool {
        matches!(self.temper, Temper::Hang)
    }

    pub fn delegate(&self) -> Option<u32> {
        match self.assignment.role {
            RunRole::Delegate { index } => Some(index),
            RunRole::Lead | RunRole::Child { .. } => None,
        }
    }

    /// What it does next.
    pub fn next(&mut self) -> Move {
        let (run, attempt) = (self.assignment.run, self.assignment.attempt);
        if self.ends == 0 {
            return Move::Done;
        }
        let in_rounds = self.step.saturating_sub(self.named);
        let (round, replied) = (in_rounds / 2, in_rounds % 2 == 1);
        if replied && !self.asked {
            // A reply with tasks is never recorded without them.
            self.asked = true;
            if self.kind(round) == Kind::Calls {
                let (round, calls) = (round as u32 + 1, self.tool_calls(round));
                return Move::Tell(Input::CallTools {
                    run,
                    attempt,
                    round,
                    calls,
                });
            }
            let (round, calls) = (round as u32 + 1, self.calls(round));
            return Move::Tell(Input::Delegate {
                run,
                attempt,
                round,
                calls,
            });
        }
        if self.stops_at.is_some_and(|steps| self.step >= steps) {
            return self.end();
        }
        let step = if self.step < self.named {
            let name = format!("step-{}", self.step).into();
            let result = "1".into();
            Step::Named { name, result }
        } else if round >= self.rounds + self.calling {
            return self.end();
        } else if replied {
            return Move::Await(run, round as u32 + 1, self.kind(round));
        } else if self.bounded && !self.granted {
            return self.ask();
        } else if self.warms {
            return self.warm();
        } else {
            self.asked = false;
            self.granted = false;
            let reply = self.reply(round);
            self.used += reply.usage.input.0;
            Step::Model(reply)
        };
        self.step += 1;
        let step = step.into();
        Move::Tell(Input::RunStepped { run, attempt, step })
    }

    /// It is told what came of its round.
    pub fn told(&mut self, results: Vec<ToolResult>) -> Input {
        self.step += 1;
        Input::RunStepped {
            run: self.assignment.run,
            attempt: self.assignment.attempt,
            step: Step::Tools(results).into(),
        }
    }

    /// Each attempt writes the cache before its first call.
    fn warm(&mut self) -> Move {
        self.warms = false;
        self.used += WARMING;
        Move::Tell(Input::Spent {
            run: self.assignment.run,
            attempt: self.assignment.attempt,
            call: self.bounded.then_some(self.number() as u32),
            spent: Spent {
                usage: used_tokens(WARMING),
                fallback: None,
            },
        })
    }

    fn end(&mut self) -> Move {
        let answers = !matches!(self.temper, Temper::Fail(_) | Temper::Hang);
        if answers && self.bounded && !self.granted {
            return self.ask();
        }
        self.ends -= 1;
        let end = match self.temper {
            Temper::Fail(cause) => AttemptEnd::Failed {
                cause,
                reason: "it went wrong".into(),
                // A provider that is left alone, now and then.
                wait_ms: self.ends.is_multiple_of(2).then_some(3_000),
            },
            temper => AttemptEnd::Finished {
                text: format!("an answer of {}", self.assignment.definition.id).into(),
                calls: Vec::new(),
                partial: matches!(temper, Temper::FinishInPart).then(|| "stopped".into()),
                usage: used_tokens(self.used + self.usage_of_call().input.0),
                pace: unisono_session::run::Pace::default(),
            },
        };
        let (run, attempt) = (self.assignment.run, self.assignment.attempt);
        Move::Tell(Input::RunEnded { run, attempt, end })
    }

    fn kind(&self, round: usize) -> Kind {
        if round < self.rounds {
            Kind::Tasks
        } else {
            Kind::Calls
        }
    }

    fn reply(&self, round: usize) -> Reply {
        let call = |id, name: &str| ToolCall {
            id,
            name: name.into(),
            arguments: "{}".into(),
        };
        let calls = match self.kind(round) {
            Kind::Tasks => {
                let calls = self.calls(round).into_iter();
                calls.map(|given| call(given.call_id, "delegate")).collect()
            }
            Kind::Calls => {
                let calls = self.tool_calls(round).into_iter();
                calls.map(|made| call(made.call_id, &made.tool)).collect()
            }
        };
        Reply {
            text: format!("round {}", round + 1).into(),
            calls,
            usage: self.usage_of_call(),
            ..Reply::default()
        }
    }

    /// Calls of tools of every contract, some with arguments that a person is asked about.
    fn tool_calls(&self, round: usize) -> Vec<NewCall> {
        let mut rng = Rng::new(self.assignment.run.as_u128() as u64 ^ (round as u64) << 7);
        let calls = (0..1 + rng.below(4)).map(|index| NewCall {
            call_id: format!("call-{}", index % 2).into(),
            tool: TOOLS[rng.below(TOOLS.len())].into(),
            arguments: "{}".into(),
            fields: vec![("path".into(), ["/home", "/etc"][rng.below(2)].into())],
        });
        calls.collect()
    }

    /// Tasks for colleagues, mostly.
    fn calls(&self, round: usize) -> Vec<DelegateCall> {
        let mut rng = Rng::new(self.assignment.run.as_u128() as u64 ^ round as u64);
        let colleagues = &self.assignment.colleagues;
        let calls = (0..1 + rng.below(3)).map(|index| {
            let agent = match (rng.below(8), &colleagues[..]) {
                (0, _) => AgentId::new("nobody"),
                (1, _) => self.assignment.definition.id.clone(),
                (_, []) => agents()[rng.below(agents().len())].id.clone(),
                (_, colleagues) => colleagues[rng.below(colleagues.len())].id.clone(),
            };
            let task = if rng.percent(10) { "" } else { "a part" };
            DelegateCall {
                // Models use ids twice.
                call_id: format!("call-{}", index % 2).into(),
                agent,
                task: task.into(),
            }
        });
        calls.collect()
    }
}

fn used(step: &Step) -> u64 {
    step.usage().input.0
}

fn used_tokens(tokens: u64) -> Usage {
    Usage {
        cost: Some(Cost::from_micro_dollars(tokens)),
        ..Usage::free(Tokens(tokens), Tokens::ZERO)
    }
}
