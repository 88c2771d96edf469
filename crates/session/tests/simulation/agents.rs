//! Agents that follow a script, sometimes not to its end: steps, rounds of delegated tasks, rounds
//! of tool calls, an answer.

use unisono_context::{AgentId, Cost, RunId, Tokens};
use unisono_session::Input;
use unisono_session::assignment::RunAssignment;
use unisono_session::budget::ReservationRequest;
use unisono_session::event::RunRole;
use unisono_session::machine::{AttemptEnd, DelegateCall, NewCall};
use unisono_session::run::{AuxiliaryUsage, Reply, RunCause, Step, ToolCall, ToolResult, Usage};

use crate::rng::Rng;
use crate::scenario::{TOOLS, agents};

/// The behaviour of an agent at the end of its script, or before.
#[derive(Clone, Copy, Debug)]
enum Behaviour {
    Finish,
    FinishInPart,
    FinishTwice,
    Fail(RunCause),
    Hang,
}

/// An action of an agent.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "few exist at a time")]
pub enum AgentMove {
    /// Send an input to the session.
    Send(Input),
    /// Wait for the results of a round of tasks or calls.
    Await(RunId, u32, RoundKind),
    /// Reserve a model call.
    Ask(ReservationRequest),
    /// Nothing: it has ended.
    Done,
}

/// The kind of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundKind {
    Tasks,
    Calls,
}

/// One attempt of a run. Its script is derived from the run, so it is the same in each attempt:
/// named steps, then for each round a reply with tasks, the delegation, and the results.
#[derive(Clone, Debug)]
pub struct Agent {
    pub assignment: RunAssignment,
    temper: Behaviour,
    /// The number of recorded steps.
    step: usize,
    named: usize,
    rounds: usize,
    /// Rounds of calls, after the rounds of tasks.
    calling: usize,
    /// The session has the tasks or calls of the current round.
    is_round_sent: bool,
    /// It ends after this number of steps, or after delegating the tasks that follow them.
    stops_at: Option<usize>,
    ends: usize,
    bounded: bool,
    /// Its next call is reserved.
    granted: bool,
    /// The usage of its calls.
    used: u64,
    /// Its next call writes the provider's cache first.
    warms: bool,
}

/// The usage of writing the provider's cache.
const WARMING: u64 = 30;

/// The maximum number of tokens of one call.
pub const WORST: u64 = 200;

impl Agent {
    pub fn new(assignment: RunAssignment, bounded: bool, rng: &mut Rng, trouble: usize) -> Agent {
        let temper = if rng.percent(trouble) {
            match rng.below(6) {
                0 => Behaviour::FinishInPart,
                1 => Behaviour::FinishTwice,
                2 => Behaviour::Fail(RunCause::BadInput),
                3 => Behaviour::Hang,
                _ => Behaviour::Fail(RunCause::Panic),
            }
        } else {
            Behaviour::Finish
        };
        let named = (assignment.run.as_u128() % 3) as usize;
        let rounds = if assignment.colleagues.is_empty() {
            // It does not know that it may not delegate.
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
        let early = !matches!(temper, Behaviour::Finish) && rng.percent(50);
        Agent {
            step,
            named,
            rounds,
            calling,
            is_round_sent: false,
            stops_at: early.then(|| step + rng.below(left + 1)),
            ends: match temper {
                Behaviour::FinishTwice => 2,
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

    /// Its call is granted; with a reason if it is the last one.
    pub fn may_ask(&mut self, wrap_up: bool) {
        self.granted = true;
        if wrap_up {
            self.stops_at = Some(self.step);
            self.temper = Behaviour::FinishInPart;
        }
    }

    /// Its budget is exhausted.
    pub fn refused(&mut self) {
        self.stops_at = Some(self.step);
        self.temper = Behaviour::Fail(RunCause::Budget);
    }

    fn number(&self) -> usize {
        self.step.saturating_sub(self.named) / 2 + 1
    }

    fn ask(&self) -> AgentMove {
        let call = self.number();
        let cost = |tokens| Some(Cost::from_micro_dollars(tokens));
        let worst = if self.warms { WORST + WARMING } else { WORST };
        AgentMove::Ask(ReservationRequest {
            call: call as u32,
            model: "fake/model".into(),
            tokens: Tokens(worst),
            cost: cost(worst),
            last: (call <= self.rounds).then_some((Tokens(worst), cost(worst))),
            short: None,
        })
    }

    /// The usage of its next call: the same in every attempt.
    fn usage_of_call(&self) -> Usage {
        let tokens =
            (self.assignment.run.as_u128() as u64).wrapping_add(self.step as u64 * 37) % WORST;
        used_tokens(tokens + 1)
    }

    pub fn hangs(&self) -> bool {
        matches!(self.temper, Behaviour::Hang)
    }

    pub fn delegate(&self) -> Option<u32> {
        match self.assignment.role {
            RunRole::Delegate { index } => Some(index),
            RunRole::Lead | RunRole::Child { .. } => None,
        }
    }

    /// Its next action.
    pub fn next_move(&mut self) -> AgentMove {
        let (run, attempt) = (self.assignment.run, self.assignment.attempt);
        if self.ends == 0 {
            return AgentMove::Done;
        }
        let in_rounds = self.step.saturating_sub(self.named);
        let (round, replied) = (in_rounds / 2, in_rounds % 2 == 1);
        if replied && !self.is_round_sent {
            // A reply with tasks is never recorded without them.
            self.is_round_sent = true;
            if self.kind(round) == RoundKind::Calls {
                let (round, calls) = (round as u32 + 1, self.tool_calls(round));
                return AgentMove::Send(Input::CallTools {
                    run,
                    attempt,
                    round,
                    calls,
                });
            }
            let (round, calls) = (round as u32 + 1, self.calls(round));
            return AgentMove::Send(Input::Delegate {
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
            return AgentMove::Await(run, round as u32 + 1, self.kind(round));
        } else if self.bounded && !self.granted {
            return self.ask();
        } else if self.warms {
            return self.warm();
        } else {
            self.is_round_sent = false;
            self.granted = false;
            let reply = self.reply(round);
            self.used += reply.usage.input.0;
            Step::Model(reply)
        };
        self.step += 1;
        let step = step.into();
        AgentMove::Send(Input::RunStepped { run, attempt, step })
    }

    /// Takes the results of its round.
    pub fn take_results(&mut self, results: Vec<ToolResult>) -> Input {
        self.step += 1;
        Input::RunStepped {
            run: self.assignment.run,
            attempt: self.assignment.attempt,
            step: Step::Tools(results).into(),
        }
    }

    /// Each attempt writes the cache before its first call.
    fn warm(&mut self) -> AgentMove {
        self.warms = false;
        self.used += WARMING;
        AgentMove::Send(Input::Spent {
            run: self.assignment.run,
            attempt: self.assignment.attempt,
            call: self.bounded.then_some(self.number() as u32),
            spent: AuxiliaryUsage {
                usage: used_tokens(WARMING),
                fallback: None,
            },
        })
    }

    fn end(&mut self) -> AgentMove {
        let answers = !matches!(self.temper, Behaviour::Fail(_) | Behaviour::Hang);
        if answers && self.bounded && !self.granted {
            return self.ask();
        }
        self.ends -= 1;
        let end = match self.temper {
            Behaviour::Fail(cause) => AttemptEnd::Failed {
                cause,
                reason: "it went wrong".into(),
                // Sometimes the provider is in a cool-down.
                wait_ms: self.ends.is_multiple_of(2).then_some(3_000),
                text: None,
            },
            temper => AttemptEnd::Finished {
                text: format!("an answer of {}", self.assignment.definition.id).into(),
                calls: Vec::new(),
                partial: matches!(temper, Behaviour::FinishInPart).then(|| "stopped".into()),
                usage: used_tokens(self.used + self.usage_of_call().input.0),
                attempt_times: unisono_session::run::AttemptTimes::default(),
            },
        };
        let (run, attempt) = (self.assignment.run, self.assignment.attempt);
        AgentMove::Send(Input::RunEnded { run, attempt, end })
    }

    fn kind(&self, round: usize) -> RoundKind {
        if round < self.rounds {
            RoundKind::Tasks
        } else {
            RoundKind::Calls
        }
    }

    fn reply(&self, round: usize) -> Reply {
        let call = |id, name: &str| ToolCall::new(id, name, "{}");
        let calls = match self.kind(round) {
            RoundKind::Tasks => {
                let calls = self.calls(round).into_iter();
                calls.map(|given| call(given.call_id, "delegate")).collect()
            }
            RoundKind::Calls => {
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

    /// Tool calls with every contract, some with arguments that need an approval.
    fn tool_calls(&self, round: usize) -> Vec<NewCall> {
        let mut rng = Rng::new(self.assignment.run.as_u128() as u64 ^ (round as u64) << 7);
        let calls = (0..1 + rng.below(4)).map(|index| NewCall {
            call_id: format!("call-{}", index % 2).into(),
            tool: TOOLS[rng.below(TOOLS.len())].into(),
            arguments: "{}".into(),
            fields: vec![("path".into(), ["/home", "/etc"][rng.below(2)].into())],
            permission: None,
        });
        calls.collect()
    }

    /// Tasks, mostly for colleagues.
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
