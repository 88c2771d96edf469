//! Agents for scenarios: each counts what it does, so that repetition shows.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex};

use unisono_runtime::{Agent, Answer, Ctx, Failure, Task};
use unisono_session::run::RunCause;

/// How often something was done, by name.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<BTreeMap<String, u32>>>);

impl Tally {
    /// Counts one more, and gives the number so far.
    pub fn add(&self, name: &str) -> u32 {
        let mut counts = self.0.lock().unwrap_or_else(|poison| poison.into_inner());
        let count = counts.entry(name.to_owned()).or_default();
        *count += 1;
        *count
    }

    /// How often it was done.
    pub fn of(&self, name: &str) -> u32 {
        let counts = self.0.lock().unwrap_or_else(|poison| poison.into_inner());
        counts.get(name).copied().unwrap_or_default()
    }
}

/// Answers with its name and the snapshot it saw; a lead lists what it was handed.
#[derive(Debug)]
pub struct Echo(pub Tally);

impl Agent for Echo {
    async fn run(&self, task: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let name = ctx.definition().id.to_string();
        self.0.add(&name);
        if !task.results.is_empty() {
            let results = task
                .results
                .iter()
                .map(|r| format!("{}: {:?}", r.agent, r.ending));
            return Ok(Answer::text(results.collect::<Vec<_>>().join("\n")));
        }
        let snapshot = ctx
            .snapshot()
            .map_or_else(|| "-".to_owned(), |s| s.id().to_string());
        Ok(Answer::text(format!("{name} saw {snapshot}")))
    }
}

/// Panics on its first attempts, then answers.
#[derive(Debug)]
pub struct Panicking {
    /// Attempts that panic.
    pub times: u32,
    /// Counts attempts.
    pub tally: Tally,
}

impl Agent for Panicking {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let attempt = self.tally.add(ctx.definition().id.as_str());
        assert!(attempt > self.times, "the agent was told to panic");
        Ok(Answer::text("recovered"))
    }
}

/// Fails for good.
#[derive(Debug)]
pub struct Failing(pub RunCause);

impl Agent for Failing {
    async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
        Err(Failure::new(self.0, "the agent was told to fail"))
    }
}

/// Never answers; counts when it starts and when it is dropped.
#[derive(Debug)]
pub struct Hanging(pub Tally);

struct Dropped(Tally);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

impl Agent for Hanging {
    async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
        let _dropped = Dropped(self.0.clone());
        self.0.add("started");
        pending().await
    }
}

/// Does three durable steps, counting each time one is really done.
#[derive(Debug)]
pub struct Stepping(pub Tally);

impl Agent for Stepping {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let mut sum = 0;
        for step in ["one", "two", "three"] {
            let tally = self.0.clone();
            sum += ctx.step(step, async move { Ok(tally.add(step)) }).await?;
        }
        Ok(Answer::text(sum.to_string()))
    }
}
