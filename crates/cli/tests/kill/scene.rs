//! What is killed: a turn with a compaction, a fan-out, rounds of a lead, one of whose delegates
//! calls tools, and a synthesis, on a provider that streams; or one in which the same agents work one
//! after the other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use unisono::{Agent, Answer as Said, Ctx, Extensions, Failure, RunCause, Task};
use unisono_fake_provider::tools::{LOG, PACE};
use unisono_fake_provider::{Act, Answer, FakeProvider, Pace, Recorded, Script};

use crate::life::Of;
use crate::office::Asked;
use crate::support::{Done, PATIENCE, Place, finish, is_alive};

/// Set in the processes that are killed: this test program is then the program itself, with one
/// agent kind more.
pub(crate) const CHILD: &str = "KILL_CHILD";
/// The file to which agents add a line for each effect.
const EFFECTS: &str = "KILL_EFFECTS";
pub(crate) const TASK: &str = "What is due on which day?";
const AGENTS: [&str; 6] = [
    "scout",
    "clerk",
    "hands",
    "clerk=Check the dates.",
    "marks=Leave a mark.",
    "steps=Take your steps.",
];
const LEAD: &str = "boss";
/// The lead of those who work one after the other.
const LINE: &str = "line";
const STAGES: [&str; 5] = [
    "marks=Leave a mark.",
    "scout",
    "hands=Write to all.",
    "steps=Take your steps.",
    "clerk=Check the dates.",
];
/// What the tools are called with: read; put, twice; sent, one of them with leave and one without.
pub(crate) const PRICES: &str = "prices";
pub(crate) const LEDGER: &str = "ledger";
pub(crate) const LETTER: &str = "letter";
pub(crate) const INVOICE: &str = "invoice";
pub(crate) const THREAT: &str = "threat";
pub(crate) const RECEIPT: &str = "receipt";
/// Messages of the conversation: some 50 tokens each.
const MESSAGES: u32 = 60;

/// The kinds of the program that is killed.
pub(crate) fn kinds() -> Extensions {
    Extensions::default().agent("steps", Steps)
}

/// Takes three durable steps, each with an effect.
struct Steps;

impl Agent for Steps {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Said, Failure> {
        for name in ["one", "two", "three"] {
            let done = ctx.step(name, async { effect(name) });
            done.await?;
        }
        Ok(Said::text("Three steps were taken."))
    }
}

fn effect(name: &str) -> Result<(), Failure> {
    let lost = |error: &dyn std::fmt::Display| Failure::new(RunCause::Exit, error.to_string());
    let path = std::env::var(EFFECTS).map_err(|error| lost(&error))?;
    let file = OpenOptions::new().append(true).create(true).open(path);
    let mut file = file.map_err(|error| lost(&error))?;
    // One write: others add to the file at the same time.
    let line = format!("{name}\n");
    file.write_all(line.as_bytes())
        .map_err(|error| lost(&error))
}

/// How the agents of the turn work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// At once, and the lead gives out more.
    Fan,
    /// One after the other.
    Line,
}

impl Shape {
    pub(crate) fn lead(self) -> &'static str {
        match self {
            Shape::Fan => LEAD,
            Shape::Line => LINE,
        }
    }

    /// The agents that are named beside the lead.
    pub(crate) fn agents(self) -> &'static [&'static str] {
        match self {
            Shape::Fan => &AGENTS,
            Shape::Line => &[],
        }
    }

    /// How many runs the turn has.
    pub(crate) fn runs(self) -> usize {
        match self {
            // Two agents are asked twice: each time it is a run of its own.
            Shape::Fan => 8,
            Shape::Line => STAGES.len() + 1,
        }
    }
}

/// A place with the conversation in its store, and a provider.
pub(crate) struct Scene {
    pub(crate) shape: Shape,
    pub(crate) place: Place,
    pub(crate) provider: FakeProvider,
    /// Calls that a person was about to answer.
    pub(crate) decisions: AtomicUsize,
}

impl Scene {
    /// A place of its own. With a template, its store is a copy of that one's.
    pub(crate) fn new(shape: Shape, template: Option<&Place>) -> Scene {
        let provider = FakeProvider::play_on_thread(script());
        let place = Place::new();
        let config = config(&provider, &place.path("calls"));
        place.write("config/unisono.toml", config);
        let scene = Scene {
            shape,
            place,
            provider,
            decisions: AtomicUsize::new(0),
        };
        match template {
            Some(template) => copy(&template.path("data"), &scene.place.path("data")),
            None => {
                scene.place.write("talk.json", conversation());
                scene.call(&["import", "talk.json"]).expect(0);
            }
        }
        scene
    }

    /// The program, with the agent kind that takes steps.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = self.place.command_of(&program, args);
        command
            .env(CHILD, "1")
            .env(EFFECTS, self.place.path("effects"))
            .env("TEST_KEY", "sk-test-77d0c1e2a9b4");
        command
    }

    pub(crate) fn call(&self, args: &[&str]) -> Done {
        finish(self.command(args).spawn().expect("it starts"), args)
    }

    /// How much of something there was so far.
    pub(crate) fn count(&self, of: Of) -> usize {
        match of {
            Of::Requests => self.provider.request_count(),
            Of::Calls => self.called().len(),
            Of::Decisions => self.decisions.load(Ordering::SeqCst),
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.path("calls")).unwrap_or_default()
    }

    /// What the server of tools was asked for.
    pub(crate) fn called(&self) -> Vec<Asked> {
        self.log().lines().filter_map(Asked::read).collect()
    }

    /// Waits until the servers of tools have ended whose program has died: till then they may
    /// still be about to do what they were asked for.
    pub(crate) fn await_servers(&self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let log = self.log();
        for server in log.lines().filter_map(|line| line.strip_prefix("start ")) {
            while is_alive(server) {
                if Instant::now() > deadline {
                    return Err(format!("the server of tools {server} outlives its program"));
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// How often each effect was had.
    pub(crate) fn effects(&self) -> BTreeMap<String, usize> {
        let text = fs::read_to_string(self.place.path("effects")).unwrap_or_default();
        let mut effects = BTreeMap::new();
        for line in text.lines() {
            *effects.entry(line.to_owned()).or_default() += 1;
        }
        effects
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).expect("a copy");
        }
    }
}

fn config(provider: &FakeProvider, calls: &Path) -> String {
    let program = std::env::current_exe().expect("this program has a path");
    let model = |name: &str, tools: &str| {
        format!(
            "[agents.{name}]\ndescription = \"The {name}\"\ninstructions = \"Be short.\"\n\
             tools = [{tools}]\n"
        )
    };
    format!(
        "[models]\ndefault = \"openai/gpt-4o\"\n\
         [providers.openai]\nbase_url = \"{}/v1\"\napi_key_env = \"TEST_KEY\"\nattempts = 1\n\
         [compaction]\ntrigger_tokens = 1500\nsummarisers = [\"openai/gpt-4o-mini\"]\n\
         [agent_defaults]\nretries = 0\n\
         {}{}{}{}pipeline = {STAGES:?}\n{}mcp_servers = [\"office\"]\n\
         [mcp.office]\ncommand = {program:?}\napprove = [\"send(text=in*)\", \"send(text=th*)\"]\n\
         [mcp.office.env]\n{LOG} = {calls:?}\n{PACE} = \"8\"\n\
         [agents.marks]\ndescription = \"Marks\"\nkind = \"command\"\ncommand = \"sh\"\n\
         args = [\"-c\", \"echo mark >> \\\"${EFFECTS}\\\"; echo A mark was left.\"]\n\
         env_pass = [{EFFECTS:?}]\n\
         [agents.steps]\ndescription = \"Steps\"\nkind = \"steps\"\n",
        provider.url(),
        model(LEAD, "\"delegate\", \"recall\""),
        model("scout", ""),
        model("clerk", ""),
        model(LINE, ""),
        model("hands", ""),
    )
}

fn conversation() -> String {
    let mut text = String::new();
    for n in 1..=MESSAGES {
        let role = if n % 2 == 1 { "user" } else { "assistant" };
        let said = format!(
            "Message {n}: part {n} of the plan is due on day {}, because the supplier of part {n} \
             closes its store {n} on that day for good, and opens no other one.",
            n % 28 + 1
        );
        let _ = write!(text, r#"{{"role":"{role}","content":"{said}"}}"#);
        text.push('\n');
    }
    text
}

/// What stands in every reply for the request that it answers.
pub(crate) fn mark_of(request: &Recorded) -> String {
    let mut hasher = DefaultHasher::new();
    request.body.hash(&mut hasher);
    format!("reply-{:016x}", hasher.finish())
}

/// Replies follow from their requests alone: the same bytes are answered with the same.
fn script() -> Script {
    Script::by(|request| {
        let mark = mark_of(request);
        let body = String::from_utf8_lossy(&request.body);
        let is_of = |agent: &str| body.contains(&format!("You are the agent \\\"{agent}\\\""));
        let delegate = |agent: &str, task: &str| {
            let arguments = format!(r#"{{"agent":"{agent}","task":"{task}"}}"#);
            (format!("call_{task}").replace(' ', "_"), arguments)
        };
        let call = |answer: Answer, tool: &str, text: &str| {
            let tool = format!("office__{tool}");
            let answer = answer.and_call(&tool, format!(r#"{{"text":"{text}"}}"#));
            answer.call_id(format!("call_{text}"))
        };
        let answer = if body.contains("<conversation>") {
            Answer::pieces(["## Context\n- The parts have their days. ", &mark, "\n"])
        } else if is_of("hands") && !body.contains("call_letter") {
            let answer = Answer::pieces(["I look, note and write: ", &mark, "."]);
            let answer = call(call(answer, "read", PRICES), "put", LEDGER);
            call(answer, "send", LETTER)
        } else if is_of("hands") && !body.contains("call_invoice") {
            let answer = Answer::pieces(["I send two more: ", &mark, "."]);
            let answer = call(call(answer, "send", INVOICE), "send", THREAT);
            call(answer, "put", RECEIPT)
        } else if !is_of(LEAD) {
            Answer::pieces(["It is as was said: ", &mark, "."])
        } else if !body.contains("first look") {
            let (first, second) = (delegate("scout", "first look"), delegate("clerk", "dates"));
            Answer::pieces(["I ask two: ", &mark, "."])
                .and_call("delegate", first.1)
                .call_id(first.0)
                .and_call("delegate", second.1)
                .call_id(second.0)
        } else if !body.contains("second look") {
            let (scout, hands) = (delegate("scout", "second look"), delegate("hands", "write"));
            Answer::pieces(["I ask again and look it up: ", &mark, "."])
                .and_call("delegate", scout.1)
                .call_id(scout.0)
                .and_call("delegate", hands.1)
                .call_id(hands.0)
                .and_call("recall", r#"{"query":"supplier"}"#)
                .call_id("call_recall")
        } else {
            Answer::pieces(["All parts have ", "their ", "days: ", &mark, "."])
        };
        Act::answer(answer).pace(Pace {
            first: Duration::from_millis(4),
            tokens_per_second: 4_000,
        })
    })
}
