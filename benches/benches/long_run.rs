//! An agent run of many tool calls on a long history, and a lead whose delegates hand it more than
//! its window holds. The models answer at once and in the process: what is measured is ours alone.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;
use unisono::tool::Call;
use unisono::{
    Ask, Builder, Completion, Contract, Handle, LanguageModel, Local, Reply, Request, Tool,
    ToolSpec,
};
use unisono_benches::{Conversation, Samples, Table, bytes, conversation, time};
use unisono_context::SessionId;
use unisono_context::call::ToolCall;

/// What the program allocates with.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Messages of about 200 tokens in the history.
const MESSAGES: u32 = 1_045;
/// Calls that the run makes, one a reply, and the bytes of each result.
const CALLS: usize = 100;
const RESULT: usize = 5 * 1_024;
/// Runs that are measured, after one that is not.
const RUNS: usize = 5;
/// Delegates of the lead, about how long their answers are, and the lead's window.
const DELEGATES: usize = 64;
const ANSWER_CHARS: usize = 8_000 * 4;
const WINDOW: u64 = 64_000;

/// When each request came to the model, and when its reply left.
type Times = Arc<Mutex<Vec<(Instant, Instant)>>>;

/// Calls the tool in each reply until it has called so often.
struct Caller(Times);

impl LanguageModel for Caller {
    fn complete(&self, request: Request) -> Completion<'_> {
        let came = Instant::now();
        let made = request.exchange.len() / 2;
        let reply = if made < CALLS {
            Reply {
                calls: vec![ToolCall {
                    id: format!("call-{made}").into(),
                    name: "look_up".into(),
                    arguments: format!("{{\"page\":{made}}}").into(),
                }],
                ..Reply::text(format!("Page {made} is next."))
            }
        } else {
            Reply::text("All pages are read.")
        };
        self.0.lock().unwrap().push((came, Instant::now()));
        Box::pin(async move { Ok(reply) })
    }
}

/// Answers each call with another page.
struct LookUp;

impl Tool for LookUp {
    fn spec(&self) -> ToolSpec {
        let schema = r#"{"type":"object","properties":{"page":{"type":"integer"}}}"#;
        ToolSpec::new("look_up", "Reads a page", schema)
    }

    fn contract(&self) -> Contract {
        Contract::Pure
    }

    async fn call(&self, call: Call) -> Result<String, String> {
        let page = call.arguments.get("page").and_then(|page| page.as_u64());
        Ok(conversation::text(page.ok_or("name a page")?, RESULT))
    }
}

/// A delegate's long answer; the lead's says how much it was sent.
struct Speaker(Arc<Mutex<usize>>);

impl LanguageModel for Speaker {
    fn complete(&self, request: Request) -> Completion<'_> {
        let reply = if request.results.is_empty() {
            conversation::text(u64::from(request.place), ANSWER_CHARS)
        } else {
            let texts = request.results.iter().filter_map(|it| it.outcome.answer());
            *self.0.lock().unwrap() = texts.map(str::len).sum();
            "They agree.".to_owned()
        };
        Box::pin(async move { Ok(Reply::text(reply)) })
    }
}

/// A new store, and models with these windows.
fn builder(dir: &Path, windows: &[(&str, u64)]) -> Builder {
    let window = |(model, window): &(&str, u64)| {
        format!("[models.\"{model}\"]\nwindow = {window}\nmax_output = 9000\n")
    };
    let catalogue = dir.join("models.toml");
    std::fs::write(&catalogue, windows.iter().map(window).collect::<String>()).unwrap();
    Local::builder()
        .directory(dir)
        .set("models.catalogue", catalogue.display().to_string())
        .set("compaction.preset", "off")
        .store(dir.join("store"))
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let table = Table::new(
            "long_run",
            &format!(
                "An agent on {MESSAGES} messages of 200 tokens makes {CALLS} calls, one a reply, of a \
                 tool that answers with 5 KiB each; every step is on disk before the next. Medians of \
                 {RUNS} runs. Then {DELEGATES} delegates of about 8,000 tokens each, to a lead with a \
                 window of {WINDOW}."
            ),
        );
        calls(&table).await;
        fan_out(&table).await;
    });
}

/// One run: what each step took, the whole, and what was written to the journal.
struct Run {
    steps: Vec<Duration>,
    whole: Duration,
    journal: u64,
}

async fn calls(table: &Table) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let times = Times::default();
    let local = builder(dir.path(), &[("own/caller", 1_000_000)])
        .model("own/caller", Caller(times.clone()))
        .tool(LookUp)
        .set("agents.reader.description", "Reads pages")
        .set("agents.reader.kind", "llm")
        .set("agents.reader.model", "own/caller")
        .set("agents.reader.tools", "look_up")
        .set("agents.reader.max_model_calls", (CALLS + 1).to_string())
        .start()
        .await
        .unwrap();
    let history = Conversation::new(0, MESSAGES);
    let mut runs = Vec::new();
    for n in 0..=RUNS {
        let id = SessionId::from_u128(n as u128 + 1);
        let session = local.import(history.import(id)).await.unwrap();
        let run = run(&local, &session, id, &times).await;
        if n > 0 {
            runs.push(run);
        }
    }
    local.shutdown().await;
    steps(table, &runs);
    let pages = (0..CALLS as u64).map(|page| conversation::text(page, RESULT).len());
    let said: usize = pages.sum();
    let journal = runs[0].journal as f64;
    let ratio = journal / said as f64;
    table.row(
        "journal of the run, in what the tool said once",
        "≤ 1.2 ×",
        &bytes(journal),
        Some(ratio),
        ratio <= 1.2,
    );
}

async fn run(local: &Local, session: &Handle, id: SessionId, times: &Times) -> Run {
    let size = || async {
        let info = local.journal().engine().session(id.into()).await.unwrap();
        info.unwrap().payload_bytes
    };
    let before = size().await;
    times.lock().unwrap().clear();
    let start = Instant::now();
    let task = Ask::new("Read all pages.").agents([""; 0]).lead("reader");
    let finished = local.ask(session, &task).await.unwrap();
    let whole = start.elapsed();
    assert_eq!(finished.answer.as_deref(), Some("All pages are read."));
    let journal = size().await - before;
    let times = times.lock().unwrap();
    assert_eq!(times.len(), CALLS + 1);
    Run {
        steps: times.windows(2).map(|pair| pair[1].0 - pair[0].1).collect(),
        whole,
        journal,
    }
}

fn steps(table: &Table, runs: &[Run]) {
    let of = |range: std::ops::Range<usize>| {
        let mut samples = Samples::default();
        samples.extend(
            runs.iter()
                .flat_map(|run| run.steps[range.clone()].to_vec()),
        );
        samples
    };
    let (early, late) = (of(5..15), of(CALLS - 10..CALLS));
    table.note(
        "a call, from reply to next request: 6th to 15th",
        &time(early.median()),
        None,
    );
    let ratio = late.ratio(&early);
    table.row(
        "the same, 91st to 100th",
        "≤ 1.2 ×",
        &time(late.median()),
        Some(ratio),
        ratio <= 1.2,
    );
    let mut whole = Samples::default();
    whole.extend(runs.iter().map(|run| run.whole));
    table.note(
        "the whole run, its opening included",
        &time(whole.median()),
        None,
    );
}

async fn fan_out(table: &Table) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sent = Arc::new(Mutex::new(0));
    let mut builder = builder(dir.path(), &[("own/speaker", WINDOW)])
        .model("own/speaker", Speaker(sent.clone()))
        .set("models.default", "own/speaker")
        .set("turn.lead", "lead");
    let names: Vec<String> = (0..DELEGATES).map(|n| format!("speaker-{n}")).collect();
    for name in names.iter().map(String::as_str).chain(["lead"]) {
        builder = builder
            .set(&format!("agents.{name}.description"), "Speaks")
            .set(&format!("agents.{name}.kind"), "llm")
            .set(&format!("agents.{name}.tools"), "recall");
    }
    let local = builder.start().await.unwrap();
    let id = SessionId::from_u128(1);
    let talk = Conversation::new(0, 20).import(id);
    let session = local.import(talk).await.unwrap();
    let start = Instant::now();
    let task = Ask::new("Does anything speak against it?").agents(names.iter().map(String::as_str));
    let finished = local.ask(&session, &task).await.unwrap();
    let took = start.elapsed();
    local.shutdown().await;
    let answered = finished.answer.as_deref() == Some("They agree.");
    let result = format!(
        "{}, {} of them sent",
        time(took),
        bytes(*sent.lock().unwrap() as f64)
    );
    table.row(
        "64 delegates that answer 8,000 tokens each, a lead with a window of 64,000",
        "answered",
        &result,
        None,
        answered,
    );
}
