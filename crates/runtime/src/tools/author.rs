//! The calls of an author's own code.

use unisono_context::AgentId;
use unisono_session::machine::DelegateCall;
use unisono_session::run::{RunCause, ToolCall, ToolResult};

use super::{DELEGATE, call_all, check_permitted, is_journaled};
use crate::agent::{Ctx, Failure};

impl Ctx {
    /// Calls a tool that its definition allows, with arguments as JSON text. The result contains
    /// errors of the call. For `delegate`, see [`Ctx::delegate`].
    ///
    /// Calls that may have effects are journaled: another attempt gets the recorded results. Calls are
    /// identified by their order, so every attempt must make the same calls in the same order.
    ///
    /// # Errors
    /// A call of another tool was recorded in its place, or the session is gone.
    pub async fn call_tool(&self, name: &str, arguments: &str) -> Result<ToolResult, Failure> {
        let call = ToolCall::new(name, name, arguments);
        let round = if is_journaled(name) {
            self.next_round()
        } else {
            0
        };
        let calls = [call];
        let called = call_all(&calls, round, self);
        let mut results = self.while_tools_work(called).await?;
        let nothing = || Failure::new(RunCause::Panic, "the tool gave no result");
        results
            .pop()
            .map(|called| called.result)
            .ok_or_else(nothing)
    }

    /// Delegates tasks to other agents of the turn ([`RunAssignment::colleagues`]), each given as
    /// agent and task, and waits until all have ended; the time limit of this agent is paused
    /// meanwhile. The results are in the order of the tasks; an error result contains the reason of
    /// the failure or of the refusal.
    ///
    /// [`RunAssignment::colleagues`]: unisono_session::assignment::RunAssignment::colleagues
    ///
    /// The tasks are journaled: finished ones are not repeated after a crash or by another attempt.
    /// Rounds are identified by their order, so every attempt must delegate the same tasks in the
    /// same order. Of two rounds at once, the second begins after the first has ended, also if nobody
    /// waits for the first any more.
    ///
    /// # Errors
    /// The definition does not name the tool `delegate`, the round was recorded with other tasks,
    /// or the session is gone.
    pub async fn delegate(&self, tasks: &[(&str, &str)]) -> Result<Vec<ToolResult>, Failure> {
        check_permitted(DELEGATE, self)
            .map_err(|denied| Failure::new(RunCause::BadInput, denied))?;
        let call = |(index, (agent, task)): (usize, &(&str, &str))| DelegateCall {
            call_id: format!("task_{}", index + 1).into(),
            agent: AgentId::from(*agent),
            task: (*task).into(),
        };
        let calls: Vec<DelegateCall> = tasks.iter().enumerate().map(call).collect();
        self.delegate_round(self.next_round(), calls).await
    }
}
