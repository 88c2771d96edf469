//! Carries out the effects of a session, each with an answer that may come late or never.

use super::*;

impl World {
    pub(super) fn carry_out(&mut self, effect: Effect) {
        let durable = self.journal.durable();
        let trouble = self.trouble;
        match effect {
            Effect::Count(request) => {
                let answer = fakes::count(&request, &mut self.rng, trouble);
                self.tasks.push(Task::Answer(answer));
            }
            Effect::Measure(request) => {
                let off = 500_000 + self.rng.below(1_000_000) as u64;
                let reported = request.estimated.0 * off / 1_000_000;
                let answers = !self.rng.percent(trouble / 2);
                self.tasks.push(Task::Answer(Input::Measured {
                    turn: request.turn,
                    model: request.agent.model.clone(),
                    estimated: request.estimated,
                    reported: answers.then_some(Tokens(reported)),
                }));
            }
            Effect::Compact(job) => {
                self.ledger.compacts(&job, durable);
                let answers = fakes::compact(&job, &mut self.rng, trouble);
                self.tasks.extend(answers.into_iter().map(Task::Answer));
            }
            Effect::Render(request) => {
                let digests = request.definitions.iter().map(|(digest, _)| *digest);
                let prefixes: BTreeMap<Digest, Digest> = digests.map(|d| (d, d)).collect();
                let turn = request.turn;
                let prefixes = if self.rng.percent(trouble / 15) {
                    BTreeMap::new()
                } else {
                    prefixes
                };
                self.tasks.push(Task::Answer(Input::Rendered {
                    turn,
                    prefixes: Ok(prefixes),
                }));
            }
            Effect::Dispatch(assignment) => {
                self.ledger
                    .run_dispatched(&assignment, durable, &self.folded);
                let bounded = self.machine.state().is_bounded(assignment.run);
                let agent = Agent::new(*assignment, bounded, &mut self.rng, trouble);
                self.tasks.push(if agent.hangs() {
                    Task::Hung(agent)
                } else {
                    Task::Agent(agent)
                });
            }
            Effect::CallTool(job) => {
                self.ledger.call_dispatched(&job, durable, &self.folded);
                self.tasks.push(Task::Tool(*job));
            }
            Effect::AskHook(job) => {
                let reply = match self.rng.below(100) {
                    0..10 => Err("it hung".into()),
                    10..20 => Ok(HookReply {
                        deny: Some("no".into()),
                        ..HookReply::default()
                    }),
                    20..40 => Ok(HookReply {
                        pin: vec![MessageReference::Number(Ordinal(1))],
                        instructions: Some("Keep the dates.".into()),
                        ..HookReply::default()
                    }),
                    _ => Ok(HookReply::default()),
                };
                let place = job.place;
                self.tasks
                    .push(Task::Answer(Input::HookAnswered { place, reply }));
            }
            // Its answer is in transit and comes too late.
            Effect::CancelHook(_) => {}
            // Some calls can no longer be stopped.
            Effect::CancelCall(place) => {
                let late = self.rng.percent(50);
                self.tasks.retain(|task| match task {
                    Task::Tool(job) => job.place != place || late,
                    _ => true,
                });
            }
            Effect::CancelRun(run) => self.cancel_run(run),
            Effect::CancelCompaction(turn) => self.cancel_compaction(turn),
            Effect::Wake(at) => self.tasks.push(Task::Wake(at)),
        }
    }

    /// Some workers stop at once; some answers are already in transit.
    fn cancel_run(&mut self, run: RunId) {
        self.ledger.cancels(run);
        let late = self.rng.percent(50);
        self.tasks.retain(|task| match task {
            Task::Agent(agent) => agent.assignment.run != run || late,
            Task::Hung(agent) | Task::Waiting { agent, .. } | Task::Asking { agent, .. } => {
                agent.assignment.run != run
            }
            _ => true,
        });
    }

    fn cancel_compaction(&mut self, cancelled: TurnId) {
        if self.rng.percent(50) {
            return;
        }
        self.tasks.retain(|task| match task {
            Task::Answer(Input::StepDone { turn, .. } | Input::StepFailed { turn, .. }) => {
                *turn != cancelled
            }
            _ => true,
        });
    }
}
