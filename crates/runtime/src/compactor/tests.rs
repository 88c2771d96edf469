//! Summaries by models: the accepted one, the alternatives if there is none, and the requests.

mod ahead;
mod arrivals;
mod batches;
mod bounds;
mod generations;
mod repairs;
mod wishes;

use std::time::Duration;

use unisono_context::checkpoint::{Body, Checkpoint, Kind, Writer};
use unisono_context::cost::Cost;
use unisono_context::policy::{Keep, ModelQuota, Policy, Preset, Trigger};
use unisono_context::{Encoding, Ordinal, Ppm, Role, Tokens, TurnId};
use unisono_model::language::scripted::{Act, Scripted};
use unisono_model::language::{CacheWarm, Class, Models, Reply, Request, Stop, Usage};
use unisono_model::prompt::Group;
use unisono_model::summariser::{BULK, GENERAL, Prompts, TOPIC};
use unisono_session::Definition;
use unisono_session::event::{Fact, Outcome, SummaryFallback, SummaryOptions, Work as TurnWork};
use unisono_session::machine::NewTurn;
use unisono_session::usage::{Ledger, UsageSource};
use unisono_store::{Journal, Memory};

use crate::agent::fixture::{self, answering, conversation};
use crate::summarisers::{Chain, Chains, Summariser};
use crate::{Agent, Answer, Ctx, Extensions, Failure, Handle, Options, Progress, Runtime, Task};

const PATIENCE: Duration = Duration::from_secs(30);
const GOOD: &str = "## Context\n- Parts are delivered day by day (#1).\n\n## Pending work and next \
                    step\n- See to part 60.";

/// The summarisers, in order.
const NAMES: [&str; 2] = ["test/a", "test/b"];

struct Echo;

impl Agent for Echo {
    async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
        Ok(Answer::text("done"))
    }
}

/// A session whose summaries are written by scripted models, `test/a` before `test/b`.
struct Stage {
    runtime: Runtime,
    handle: Handle,
    policy: Policy,
}

fn lead() -> Definition {
    fixture::definition(unisono_session::agent::AgentKind::Custom("echo".into()))
}

fn summariser(model: &str, window: u64) -> Summariser {
    Summariser {
        model: model.into(),
        window: Tokens(window),
        max_output: Tokens(4_096),
        encoding: Encoding::O200kBase,
        scale: Ppm::ONE,
    }
}

impl Stage {
    async fn with(models: &[&Scripted], messages: u32) -> Stage {
        Stage::within(models, messages, 16_000, PATIENCE).await
    }

    async fn within(models: &[&Scripted], messages: u32, window: u64, deadline: Duration) -> Stage {
        let named = NAMES.into_iter().zip(models);
        let clients = named.fold(Models::default(), |all, (name, model)| {
            all.with(name, (**model).clone())
        });
        let options = Options {
            compaction_deadline: deadline.into(),
            ..Options::default()
        };
        Stage::of_options(clients, models.len(), messages, window, options).await
    }

    async fn of_options(
        clients: Models,
        summarisers: usize,
        messages: u32,
        window: u64,
        options: Options,
    ) -> Stage {
        let prompts = Prompts::built_in().unwrap();
        let asked = NAMES.into_iter().take(summarisers);
        let chain = Chain {
            models: asked.map(|name| summariser(name, window)).collect(),
            prompt: prompts.get(GENERAL).unwrap().clone(),
            topic: prompts.get(TOPIC).unwrap().clone(),
            bulk: prompts.get(BULK).unwrap().clone(),
            retries: 2,
        };
        let options = Options {
            summarisers: Chains::default().with(lead().model, chain),
            ..options
        };
        let journal = Journal::new(std::sync::Arc::new(Memory::new()));
        let kinds = Extensions::default().agent("echo", Echo);
        let runtime = Runtime::start(journal, kinds, clients, options)
            .await
            .unwrap();
        let handle = runtime.create(conversation(messages)).await.unwrap();
        let policy = Policy {
            trigger: Some(Trigger::Tokens(Tokens(1_000))),
            keep: Keep::Messages(4),
            masking: None,
            quota: None,
            ..Policy::from_preset(Preset::Checkpoint)
        };
        Stage {
            runtime,
            handle,
            policy,
        }
    }

    fn turn(&self, work: TurnWork) -> NewTurn {
        fixture::turn(work, lead().into(), self.policy)
    }

    async fn run(&self, work: TurnWork) -> Outcome {
        self.take(self.turn(work)).await
    }

    async fn take(&self, turn: NewTurn) -> Outcome {
        let id = turn.id;
        self.handle.accept(turn).await.unwrap();
        let ended = tokio::time::timeout(PATIENCE, self.handle.wait(id)).await;
        ended.expect("the turn ends in time").unwrap().outcome
    }

    /// A turn with an answer, which compacts first.
    async fn answer(&self, input: &str) {
        assert_eq!(self.run(answering(input)).await, Outcome::Answered);
    }

    async fn compact(&self) -> Outcome {
        self.compact_by(None, SummaryFallback::Leave).await
    }

    /// The same with a chosen summariser or fallback.
    async fn compact_by(&self, summariser: Option<&str>, unwritten: SummaryFallback) -> Outcome {
        let writing = SummaryOptions {
            instructions: Some("Keep every supplier.".into()),
            summariser: summariser.map(Into::into),
            unwritten,
        };
        let keep = None;
        self.run(TurnWork::Compact { keep, writing }).await
    }

    async fn facts(&self) -> Vec<Fact> {
        let journal = self.runtime.journal();
        let events = journal.read(self.handle.id(), 1, 10_000).await.unwrap();
        events.into_iter().map(|(_, event)| event.fact).collect()
    }

    /// The texts of users and of the lead on `main`, in order.
    async fn said(&self) -> Vec<String> {
        let said = self.handle.inspect(|state| {
            let tree = state.tree();
            let head = tree.head("main").unwrap();
            let last = tree.get(head).unwrap().ordinal();
            let nodes = tree.range(head, Ordinal::FIRST..=last).into_iter();
            let texts = nodes.filter(|node| node.role() != Role::Tool);
            texts.map(|node| node.message.countable_text()).collect()
        });
        said.await.unwrap()
    }

    async fn checkpoints(&self) -> Vec<std::sync::Arc<Checkpoint>> {
        let facts = self.facts().await;
        let made = facts.into_iter().filter_map(|fact| match fact {
            Fact::Compacted { checkpoint, .. } => Some(checkpoint),
            _ => None,
        });
        made.collect()
    }

    /// The usage of summarisers: the number of accepted summaries, and the cost.
    async fn used(&self) -> Vec<(String, u64, Option<Cost>)> {
        let journal = self.runtime.journal();
        let events = journal.read(self.handle.id(), 1, 10_000).await.unwrap();
        let mut ledger = Ledger::default();
        events.iter().for_each(|(_, event)| ledger.take(event));
        let summaries = ledger
            .entries()
            .filter(|(who, ..)| **who == UsageSource::Summaries);
        summaries
            .map(|(_, model, used)| (model.to_owned(), used.jobs, used.usage.cost))
            .collect()
    }

    async fn failures(&self) -> usize {
        let facts = self.facts().await;
        let failed = |fact: &&Fact| matches!(fact, Fact::CompactionFailed { .. });
        facts.iter().filter(failed).count()
    }
}

fn body_of(checkpoint: &Checkpoint) -> &str {
    match &checkpoint.body {
        Body::Summary(text) => text,
        Body::Tombstone => panic!("a note"),
    }
}

/// The text of the model, without the days below it.
fn text_of(checkpoint: &Checkpoint) -> &str {
    let body = body_of(checkpoint);
    body.split_once("\n\nDays (UTC): ")
        .map_or(body, |(text, _)| text)
}

fn replied(text: &str, stop: Stop) -> Act {
    Act::Reply(Reply {
        text: text.into(),
        stop,
        usage: Usage {
            cost: Some(Cost(2_500_000)),
            ..Usage::NONE
        },
        ..Reply::default()
    })
}

/// The part of the request to summarise.
fn conversation_in(request: &Request) -> &str {
    let (_, rest) = request.task.split_once("\n<conversation>\n").unwrap();
    rest.split_once("</conversation>").unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_by_a_model_replaces_messages() {
    let model = Scripted::by(|_| replied(GOOD, Stop::Complete));
    let stage = Stage::with(&[&model], 60).await;
    let (_, mut progress) = stage.handle.follow(0).await.unwrap();
    stage.answer("what is due?").await;
    let checkpoints = stage.checkpoints().await;
    let made = &checkpoints[0];
    assert_eq!(text_of(made), GOOD);
    assert_eq!((made.writer, &*made.model), (Writer::Model, "test/a"));
    assert_eq!((made.kind, made.degraded), (Kind::Auto, false));
    assert_eq!(made.cost_micros, Some(3), "rounded up");
    let carried = made
        .key_facts
        .iter()
        .any(|fact| fact.text.starts_with("Part "));
    assert!(carried, "{:?}", made.key_facts);
    let update = progress.recv().await.unwrap().progress;
    assert!(matches!(update, Progress::Compaction { text, .. } if &*text == "test/a summarises"));

    let requests = model.requests();
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert_eq!(
        (&request.group, request.cache_warm),
        (&Group::TaskOnly, CacheWarm::Off)
    );
    let asked = conversation_in(request);
    assert!(asked.starts_with("<#1 user") && asked.contains("said the supplier of part 57."));
    let (_, recent) = request.task.split_once("<recent_messages>\n").unwrap();
    assert!(recent.contains("supplier of part 58.") && recent.contains("what is due?"));
    assert!(!asked.contains("what is due?"), "{asked}");
    stage.runtime.shutdown().await;
}

#[tokio::test]
async fn facts_lost_by_a_summary_are_listed_below_it() {
    let model = Scripted::by(move |_| replied(GOOD, Stop::Complete));
    let stage = Stage::with(&[&model], 60).await;
    let lost = "Order W-1742 of Marta waits, says Marta. We ask Marta on Monday about W-1742.";
    for input in [lost, "Then it is Marta who pays.", "And now?", "And then?"] {
        stage.answer(input).await;
    }
    stage.compact().await;
    let checkpoints = stage.checkpoints().await;
    let made = checkpoints.last().unwrap();
    let under = body_of(made).strip_prefix(GOOD).unwrap();
    assert!(under.starts_with("\n\nDays (UTC): "), "{under}");
    let named = under.split_once("Also named: ").unwrap().1;
    for word in ["W-1742", "Marta"] {
        assert!(named.contains(word), "{word}: {under}");
    }
    let coverage = made.coverage.unwrap();
    assert_eq!(coverage.kept, coverage.facts, "all stand under it");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unacceptable_summary_goes_to_the_next_model() {
    let long = format!("{GOOD}\n{}", "- It is said again and again.\n".repeat(400));
    let rows: [(&str, Act, usize); 9] = rows! {
        ("longer than what it summarises", replied(&long, Stop::Complete), 3),
        ("empty", replied(" ", Stop::Complete), 3),
        ("headings alone", replied("## Context\n-", Stop::Complete), 3),
        ("no headings", replied("Parts are delivered.", Stop::Complete), 3),
        ("cut off", replied(GOOD, Stop::CutOff), 3),
        ("a refusal", replied("", Stop::Refused), 1),
        ("an error", Act::FailAs(Class::Unavailable { retry_after_ms: None }), 1),
        ("a defect", Act::Fail("it broke".into()), 1),
        ("a panic", Act::Panic("it broke".into()), 1),
    };
    for (name, act, calls) in rows {
        let first = Scripted::by(move |_| act.clone());
        let second = Scripted::by(|_| replied(GOOD, Stop::Complete));
        let stage = Stage::with(&[&first, &second], 60).await;
        stage.answer("what is due?").await;
        let checkpoints = stage.checkpoints().await;
        assert_eq!(checkpoints.len(), 1, "{name}");
        let made = &checkpoints[0];
        assert_eq!(
            (made.writer, &*made.model),
            (Writer::Model, "test/b"),
            "{name}"
        );
        assert!(!made.degraded, "{name}");
        assert_eq!(first.requests().len(), calls, "{name}");
        assert_eq!(second.requests().len(), 1, "{name}");
        assert_eq!(stage.failures().await, 0, "{name}");
        stage.runtime.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_is_too_long_is_requested_shorter() {
    let long = format!("{GOOD}\n{}", "- It is said again and again.\n".repeat(400));
    let model = Scripted::new([
        replied(&long, Stop::Complete),
        replied(GOOD, Stop::Complete),
    ]);
    let stage = Stage::with(&[&model], 60).await;
    stage.answer("what is due?").await;
    let checkpoints = stage.checkpoints().await;
    assert_eq!(text_of(&checkpoints[0]), GOOD);
    assert_eq!(checkpoints[0].cost_micros, Some(5), "both replies cost");
    let limits: Vec<u64> = model.requests().iter().map(target_of).collect();
    assert!(limits[1] < limits[0] / 2, "{limits:?}");
    stage.runtime.shutdown().await;
}

/// The requested length of the summary.
fn target_of(request: &Request) -> u64 {
    let (_, rest) = request.task.split_once("Write at most ").unwrap();
    rest.split_once(" tokens").unwrap().0.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn quotes_are_used_if_no_model_writes_a_summary() {
    let broken = Scripted::by(|_| Act::Fail("it broke".into()));
    let stage = Stage::with(&[&broken, &broken], 60).await;
    let (_, mut progress) = stage.handle.follow(0).await.unwrap();
    stage.answer("what is due?").await;
    let checkpoints = stage.checkpoints().await;
    let made = &checkpoints[0];
    assert_eq!(
        (made.writer, &*made.model),
        (Writer::Deterministic, "extractive")
    );
    assert!(made.degraded, "a model is to redo it");
    assert!(
        text_of(made).contains("## Key points\n"),
        "{}",
        text_of(made)
    );
    let mut requests = String::new();
    while let Ok(Progress::Compaction {
        text, is_failure, ..
    }) = progress.try_recv().map(|said| said.progress)
    {
        assert_eq!(is_failure, text.starts_with("no acceptable summary"));
        requests.push_str(&text);
        requests.push('\n');
    }
    let expected = "test/a summarises\n\
                    no acceptable summary: model scripted: it broke\n\
                    test/b summarises\n\
                    no acceptable summary: model scripted: it broke\n\
                    quotes are used instead\n";
    assert_eq!(requests, expected);
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_never_answers_leaves_time_for_the_others() {
    let hangs = Scripted::by(|_| Act::Hang);
    let works = Scripted::by(|_| replied(GOOD, Stop::Complete));
    let deadline = Duration::from_secs(3);
    for (models, writer) in [
        ([&hangs, &works], "test/b"),
        ([&hangs, &hangs], "extractive"),
    ] {
        let stage = Stage::within(&models, 60, 16_000, deadline).await;
        stage.answer("what is due?").await;
        let checkpoints = stage.checkpoints().await;
        assert_eq!(&*checkpoints[0].model, writer);
        assert!(checkpoints[0].duration_ms < 3_000);
        assert_eq!(stage.failures().await, 0, "within the deadline");
        stage.runtime.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_larger_than_the_window_is_summarised_in_parts() {
    let model = Scripted::by(|request| {
        let asked = conversation_in(request);
        let last = asked.lines().rfind(|line| line.starts_with("<#")).unwrap();
        let number = last.trim_start_matches("<#").split(' ').next().unwrap();
        replied(
            &format!("## Context\n- All up to message {number}."),
            Stop::Complete,
        )
    });
    let stage = Stage::within(&[&model], 400, 4_000, PATIENCE).await;
    stage.answer("what is due?").await;
    let checkpoints = stage.checkpoints().await;
    assert_eq!(
        text_of(&checkpoints[0]),
        "## Context\n- All up to message 397."
    );
    let requests = model.requests();
    assert!(requests.len() > 2, "{}", requests.len());
    let all: String = requests.iter().map(conversation_in).collect();
    for n in 1..=397 {
        let said = format!("supplier of part {n}.\n");
        assert_eq!(all.matches(&said).count(), 1, "message {n}");
    }
    for (index, request) in requests.iter().enumerate() {
        let carries = request
            .task
            .contains("<earlier_summary>\n## Context\n- All up to message ");
        assert_eq!(carries, index > 0, "{}", request.task);
        let last = index + 1 == requests.len();
        assert_eq!(request.task.contains("<recent_messages>"), last);
    }
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_reach_neither_the_model_nor_the_summary() {
    const KEY: &str = "sk-proj-abcdefghij0123456789";
    let text = format!("## Technical details\n- The key is {KEY}.");
    let model = Scripted::by(move |_| replied(&text, Stop::Complete));
    let stage = Stage::with(&[&model], 60).await;
    stage.answer(&format!("The key is {KEY}.")).await;
    stage.compact().await;
    let checkpoints = stage.checkpoints().await;
    assert_eq!(checkpoints.len(), 2);
    for made in &checkpoints {
        assert_eq!(
            text_of(made),
            "## Technical details\n- The key is [redacted]."
        );
        assert!(!made.context_text().contains(KEY));
    }
    for request in model.requests() {
        assert!(!request.task.contains(KEY));
    }
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_summary_reads_the_last_one_and_later_messages() {
    let model = Scripted::by(|_| replied(GOOD, Stop::Complete));
    let stage = Stage::with(&[&model], 60).await;
    stage.answer("what is due?").await;
    let outcome = stage.compact().await;
    assert!(matches!(outcome, Outcome::Compacted { .. }), "{outcome}");
    let checkpoints = stage.checkpoints().await;
    assert_eq!(checkpoints[1].kind, Kind::Manual);
    assert_eq!(checkpoints[1].supersedes, [checkpoints[0].id]);
    let second = &model.requests()[1];
    let (_, prior) = second.task.split_once("<earlier_summary>\n").unwrap();
    assert!(prior.starts_with(&format!("<#1–#57 summary>\n{GOOD}\n\nDays (UTC): ")));
    let asked = conversation_in(second);
    assert!(asked.starts_with("<#58 user"), "{asked}");
    assert!(!asked.contains("supplier of part 57."));
    // The new checkpoint has no room for it among its key facts.
    let (_, facts) = prior
        .split_once("<#1–#57 summary>\n## Key facts\n")
        .unwrap();
    assert!(facts.contains("supplier of part 57."), "{facts}");
    assert!(
        second
            .task
            .contains("<asked_for>\nKeep every supplier.\n</asked_for>")
    );
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_compaction_on_request_commits_nothing() {
    let broken = Scripted::by(|_| replied("no summary", Stop::Complete));
    let stage = Stage::with(&[&broken], 60).await;
    let Outcome::Failed { code, reason } = stage.compact().await else {
        panic!("it did not fail");
    };
    assert_eq!(&*code, "compaction_failed");
    assert_eq!(
        &*reason,
        "model test/a: the summary has none of its sections; nothing was changed"
    );
    assert_eq!(broken.requests().len(), 3, "one call and two retries");
    assert_eq!(stage.failures().await, 1);
    assert!(stage.checkpoints().await.is_empty());
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_model_cools_down_except_for_requests_of_a_person() {
    let broken = Scripted::by(|_| Act::Fail("it broke".into()));
    let stage = Stage::with(&[&broken], 60).await;
    let long = "Something else is said here about the matter at hand. ".repeat(90);
    for asked in [1, 2, 3, 3] {
        stage.answer(&long).await;
        assert_eq!(broken.requests().len(), asked);
    }
    let checkpoints = stage.checkpoints().await;
    assert_eq!(checkpoints.len(), 4);
    assert!(checkpoints.iter().all(|made| made.degraded));
    stage.answer("and now?").await;
    stage.compact().await;
    assert_eq!(broken.requests().len(), 4);
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_model_is_called_after_the_budget_is_exhausted() {
    let model = Scripted::by(|_| replied(GOOD, Stop::Complete));
    let mut stage = Stage::with(&[&model], 60).await;
    stage.policy.quota = Some(ModelQuota {
        checkpoints: 1,
        per_ms: 24 * 3_600_000,
    });
    let long = "Something else is said here about the matter at hand. ".repeat(90);
    stage.answer(&long).await;
    stage.answer(&long).await;
    let checkpoints = stage.checkpoints().await;
    let writers: Vec<_> = checkpoints
        .iter()
        .map(|made| (made.writer, made.degraded))
        .collect();
    assert_eq!(
        writers,
        [(Writer::Model, false), (Writer::Deterministic, false)]
    );
    stage.answer("and now?").await;
    assert_eq!(model.requests().len(), 1);
    stage.compact().await;
    assert_eq!(
        model.requests().len(),
        2,
        "a person's request does not count"
    );
    stage.runtime.shutdown().await;
}
