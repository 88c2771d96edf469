//! The library inside another program: agents, tools and models in Rust, conversations from memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Notify;
use unisono::history;
use unisono::language::Error;
use unisono::local::open_store;
use unisono::tool::{self, Call};
use unisono::{
    Agent, Answer, Ask, Builder, Completion, Conversation, Ctx, Extensions, Failure, Handle,
    LanguageModel, Local, Outcome, Reply, Request, RunCause, Task, Tokens, Tool, ToolSpec,
};
use unisono_api::service::Sessions as _;
use unisono_config::paths::Home;
use unisono_config::settings::Sources;
use unisono_context::TurnId;
use unisono_context::attachment::Files;

/// Says what it was asked, after what others brought it.
struct Echo;

impl LanguageModel for Echo {
    fn window(&self) -> Tokens {
        Tokens(50_000)
    }

    fn complete(&self, request: Request) -> Completion<'_> {
        let results = request.results.iter().filter_map(|it| it.outcome.answer());
        let said: Vec<&str> = results.chain([&*request.task]).collect();
        let reply = Reply::text(said.join("\n"));
        Box::pin(async move { Ok(reply) })
    }
}

/// Tells what it saw, and what the tool and the model said.
struct Buyer;

impl Agent for Buyer {
    async fn run(&self, task: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let saw = ctx.snapshot().map(|snapshot| snapshot.id().to_string());
        let stock = ctx.call_tool("stock", &task.text).await?;
        let reply = ctx.ask_model("And you?").await?;
        let saw = saw.unwrap_or_default();
        let answer = format!("{saw} | {} | {}", stock.content, reply.text);
        Ok(Answer::text(answer))
    }
}

/// How many of an item there are; panics when it is asked for a bear.
struct Stock;

impl Tool for Stock {
    fn spec(&self) -> ToolSpec {
        let schema =
            r#"{"type":"object","properties":{"item":{"type":"string"}},"required":["item"]}"#;
        ToolSpec::new("stock", "How many of an item there are", schema)
    }

    async fn call(&self, call: Call) -> Result<String, String> {
        match call.arguments["item"].as_str() {
            Some("bear") => panic!("no bears here"),
            Some("tent") => Ok("7".to_owned()),
            other => Err(format!("there is no {other:?}")),
        }
    }
}

/// Places at which there are no settings.
pub(crate) fn nowhere() -> Sources {
    let nowhere = || PathBuf::from("/nowhere");
    Sources {
        directory: nowhere(),
        home: Home {
            home: Some(nowhere()),
            config: Some(nowhere()),
            data: Some(nowhere()),
        },
        ..Sources::default()
    }
}

/// A program that reads no settings but its own.
pub(crate) fn program(extensions: Extensions) -> Builder {
    Local::builder()
        .sources(nowhere())
        .extensions(extensions)
        .set("models.default", "own/echo")
}

pub(crate) fn with_buyers(program: Builder) -> Builder {
    ["north", "south"]
        .into_iter()
        .fold(program, |program, name| {
            program.define_agent(name, "buyer", "buys", &["stock"])
        })
}

pub(crate) fn extensions() -> Extensions {
    let all = Extensions::default().agent("buyer", Buyer);
    all.tool(Stock).model("own/echo", Echo)
}

pub(crate) fn tents() -> Conversation {
    let talk = Conversation::new("Tents").system("Be brief.");
    talk.user("We sold three tents.").assistant("Noted.")
}

/// The program in memory, with a session about [`tents`].
pub(crate) async fn started(program: Builder) -> (Local, Handle) {
    let local = program.in_memory().start().await.unwrap();
    let session = local.import(tents()).await.unwrap();
    (local, session)
}

async fn answer_to(task: &str) -> String {
    let (local, session) = started(with_buyers(program(extensions()))).await;
    let ask = Ask::new(task).agents(["north", "south"]);
    let finished = local.ask(&session, &ask).await.unwrap();
    local.shutdown().await;
    finished.answer.unwrap()
}

#[tokio::test]
async fn agents_tools_and_models_of_the_program_work_on_one_snapshot() {
    let answer = answer_to(r#"{"item":"tent"}"#).await;
    let lines: Vec<&str> = answer.lines().collect();
    let [north, south, lead] = lines[..] else {
        panic!("{answer}");
    };
    assert_eq!(north, south);
    assert!(north.ends_with(" | 7 | And you?"), "{north}");
    assert_eq!(north.find(" | "), Some(64));
    assert_eq!(lead, r#"{"item":"tent"}"#);
}

#[tokio::test]
async fn functions_and_closures_are_agents_tools_and_models() {
    async fn buyer(task: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let stock = ctx.call_tool("stock", "{}").await?;
        let reply = ctx.ask_model(task.text).await?;
        Ok(Answer::text(format!("{}, {}", stock.content, reply.text)))
    }
    let spec = ToolSpec::new("stock", "How many there are", r#"{"type":"object"}"#);
    let count = 7;
    let stock = move |_: Call| async move { Ok(count.to_string()) };
    let echo = |request: Request| async move { Ok::<_, Error>(Reply::text(request.task)) };
    let program = Local::builder()
        .sources(nowhere())
        .agent("buyer", buyer)
        .tool(tool::from_fn(spec, stock))
        .default_model("own/echo", echo)
        .define_agent("north", "buyer", "buys", &["stock"])
        .set("turn.lead", "north")
        .set("turn.agents", "[]");
    let (local, session) = started(program).await;
    let finished = local.ask(&session, &Ask::new("Do we buy?")).await.unwrap();
    assert_eq!(finished.answer.as_deref(), Some("7, Do we buy?"));
    local.shutdown().await;
}

#[tokio::test]
async fn a_turn_of_own_models_is_rebuilt_as_it_was() {
    let (local, session) = started(with_buyers(program(extensions()))).await;
    let ask = Ask::new("Well?").agents(["north"]);
    let finished = local.ask(&session, &ask).await.unwrap();
    let journal = local.journal();
    let replay = history::replay(journal, session.id(), finished.turn).await;
    let (setup, replay) = (local.setup(), replay.unwrap());
    let rebuilt = history::rebuild(&setup, local.extensions(), &replay, &Files::default());
    assert_eq!(rebuilt.mismatches().count(), 0);
    let unknown: Vec<_> = rebuilt.runs.iter().map(|run| &run.unknown).collect();
    let code = "the code of kind `buyer` writes its requests".to_owned();
    assert_eq!(unknown, [&Some(code), &None]);
    local.shutdown().await;
}

#[tokio::test]
async fn what_goes_wrong_in_a_tool_is_told_to_who_called_it() {
    for (task, reply) in [
        (
            r#"{"item":"bear"}"#,
            "[failed: the tool panicked: no bears here]",
        ),
        (r#"{"item":"boat"}"#, "[failed: there is no Some(\"boat\")]"),
        (r#"{"items":1}"#, "\"item\" is a required property"),
    ] {
        let answer = answer_to(task).await;
        assert!(answer.contains(reply), "{task}: {answer}");
    }
}

#[tokio::test]
async fn names_that_cannot_be_are_told_at_the_start() {
    struct Named(&'static str);
    impl Tool for Named {
        fn spec(&self) -> ToolSpec {
            ToolSpec::new(self.0, "", "{}")
        }

        async fn call(&self, _: Call) -> Result<String, String> {
            Ok(String::new())
        }
    }
    let other = program(extensions()).set("models.default", "own/other");
    let tool = with_buyers(program(extensions())).set("agents.north.tools", "stocks");
    for (program, reply) in rows! {
        (other, "this program has no model `own/other`; it has own/echo"),
        (tool, "names an unknown tool `stocks`"),
        (program(extensions().tool(Named("a__b"))), "tool `a__b` has to be named"),
        (program(extensions().tool(Named("recall"))), "`recall` is built in"),
        (program(extensions().agent("llm", Buyer)), "kind `llm` of agents is built in"),
        (program(extensions().model("openai/x", Echo)), "`openai` is a provider"),
        (program(extensions().model("echo", Echo)), "a name such as provider/model"),
    } {
        let error = program.in_memory().start().await.unwrap_err().to_string();
        assert!(error.contains(reply), "{reply}: {error}");
    }
}

#[tokio::test]
async fn a_schema_that_would_spoil_each_request_is_told_at_the_start() {
    for (schema, fault) in [
        (r#"{"type":"object""#, "EOF while parsing"),
        (r#"["item"]"#, "expected a map"),
        ("", "EOF while parsing"),
    ] {
        let tool = tool::from_fn(ToolSpec::new("count", "Counts", schema), |_: Call| async {
            Ok(String::new())
        });
        let program = program(extensions().tool(tool)).in_memory();
        let error = program.start().await.unwrap_err().to_string();
        let named = "the schema of tool `count` is not a JSON schema";
        assert!(error.contains(named) && error.contains(fault), "{error}");
    }
}

#[tokio::test]
async fn a_program_that_chooses_no_store_is_told_how_to_choose_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut sources = nowhere();
    sources.home.data = Some(dir.path().to_owned());
    let program = || program(extensions()).sources(sources.clone());
    let error = program().start().await.unwrap_err().to_string();
    for method in ["store", "in_memory", "configured_store"] {
        let method = format!("`Builder::{method}`");
        assert!(error.contains(&method), "{method}: {error}");
    }
    let files = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(files, 0, "the store of the person is not opened");
    let local = program().configured_store().start().await.unwrap();
    let session = local.import(tents()).await.unwrap().id();
    local.shutdown().await;
    let local = program().configured_store().start().await.unwrap();
    assert_eq!(local.resume(session).await.unwrap().len(), 0);
    local.shutdown().await;
    let store = dir.path().join("another");
    let by_setting = program().set("store.path", store.to_string_lossy());
    by_setting.start().await.unwrap().shutdown().await;
    assert!(store.exists());
}

#[tokio::test]
async fn a_program_keeps_its_sessions_in_its_directory_if_the_person_has_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let mut sources = nowhere();
    let database = "postgres://nobody@127.0.0.1:1/none";
    sources.env = vec![("UNISONO__STORE__URL".to_owned(), database.into())];
    let store = dir.path().join("store");
    let start = || program(extensions()).sources(sources.clone()).store(&store);
    let local = start().start().await.unwrap();
    let session = local.import(tents()).await.unwrap().id();
    local.shutdown().await;
    let local = start().start().await.unwrap();
    assert!(local.journal().exists(session).await.unwrap());
    local.shutdown().await;
}

#[tokio::test]
async fn a_store_is_in_the_directory_that_is_named_or_nowhere() {
    use std::os::unix::ffi::OsStringExt as _;
    let dir = tempfile::tempdir().unwrap();
    let latin = std::ffi::OsString::from_vec(b"caf\xe9".to_vec());
    let program = program(extensions()).store(dir.path().join(latin));
    let error = program.start().await.unwrap_err().to_string();
    assert!(error.contains("not UTF-8"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_program_in_memory_does_not_change_the_settings_of_the_person() {
    let dir = tempfile::tempdir().unwrap();
    let mut sources = nowhere();
    sources.home.data = Some(dir.path().to_owned());
    let local = program(extensions()).sources(sources).in_memory();
    let local = local.start().await.unwrap();
    let changes: [(&str, unisono::toml::Value); 2] = [
        ("compaction.preset", "off".into()),
        ("compaction.notice", "off".into()),
    ];
    for (key, value) in changes {
        let change = [(key.to_owned(), Some(value))].into();
        local.change_settings(change, false).await.unwrap();
    }
    let compaction = local.setup().loaded.config.compaction.clone();
    assert_eq!(compaction.all.preset.as_deref(), Some("off"));
    let sources = local.setup().loaded.sources().clone();
    let stored = sources.stored.unwrap();
    assert!(
        stored.contains("preset") && stored.contains("notice"),
        "{stored}"
    );
    local.shutdown().await;
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_changed_setting_brings_no_other_one_from_a_file_that_has_changed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("unisono.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let schema = dir.path().join("north.json");
    std::fs::write(&schema, "{}").unwrap();
    write(&format!(
        "[turn]\ncalls_per_reply = 3\n[agents.north]\ndescription = \"x\"\noutput_schema = {schema:?}\n"
    ));
    let mut sources = nowhere();
    sources.file = Some(file.clone());
    let local = program(extensions()).sources(sources).in_memory();
    let local = local.start().await.unwrap();
    // The server is not known to the runtime before the next start; agents are read again.
    std::fs::remove_file(&schema).unwrap();
    write("[turn]\ncalls_per_reply = 5\n[mcp.files]\ncommand = \"files\"\n");
    for preset in ["off", "retention"] {
        let value: unisono::toml::Value = preset.into();
        let change = [("compaction.preset".to_owned(), Some(value))].into();
        local.change_settings(change, false).await.unwrap();
        let setup = local.setup();
        let config = &setup.loaded.config;
        assert_eq!(config.compaction.all.preset.as_deref(), Some(preset));
        assert_eq!((config.turn.calls_per_reply, config.mcp.len()), (3, 0));
        assert!(setup.roster.get("north").is_err());
    }
    local.shutdown().await;
}

#[tokio::test]
async fn the_project_of_a_relative_directory_is_searched_for_up_to_the_root() {
    // The project of this repository is above the directory in which tests run.
    let local = Local::builder().directory("src").in_memory();
    let local = local.start().await.unwrap();
    let project = local.setup().loaded.project.clone();
    assert!(project.is_some_and(|project| project.is_absolute()));
    local.shutdown().await;
}

#[tokio::test]
async fn an_agent_that_does_not_exist_is_an_error() {
    let (local, session) = started(program(extensions())).await;
    let ask = Ask::new("What now?").agents(["nobody"]);
    let error = local.ask(&session, &ask).await.unwrap_err();
    assert!(
        error.to_string().contains("unknown agent `nobody`"),
        "{error}"
    );
    local.shutdown().await;
}

#[tokio::test]
async fn an_own_model_has_the_window_that_it_says() {
    let local = program(extensions()).in_memory().start().await.unwrap();
    let entry = local
        .setup()
        .loaded
        .catalogue
        .get(None, "own/echo")
        .unwrap();
    assert_eq!((entry.window, entry.assumed), (Tokens(50_000), false));
    local.shutdown().await;
}

/// Calls another tool in each attempt.
struct Fickle;

impl Agent for Fickle {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let first = ctx.attempt() == 1;
        let tool = if first { "stock" } else { "price" };
        let called = ctx.call_tool(tool, r#"{"item":"tent"}"#).await?;
        match first {
            true => Err(Failure::new(RunCause::Model, "once more")),
            false => Ok(Answer::text(called.content)),
        }
    }
}

#[tokio::test]
async fn the_recorded_result_of_one_tool_is_not_that_of_another_one() {
    let spec = ToolSpec::new("price", "What it costs", r#"{"type":"object"}"#);
    let price = tool::from_fn(spec, |_: Call| async { Ok("9".to_owned()) });
    let extensions = extensions().agent("fickle", Fickle).tool(price);
    let program = program(extensions)
        .define_agent("fickle", "fickle", "changes its mind", &["price", "stock"])
        .set("agents.fickle.retries", "1")
        .set("turn.lead", "fickle")
        .set("turn.agents", "[]");
    let (local, session) = started(program).await;
    let finished = local.ask(&session, &Ask::new("How many?")).await.unwrap();
    assert_eq!(finished.answer, None, "{finished:?}");
    local.shutdown().await;
}

/// Waits at its first call for ever, and answers from then on.
struct Halting {
    began: Arc<Notify>,
    again: bool,
}

impl Agent for Halting {
    async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
        self.began.notify_one();
        if !self.again {
            std::future::pending::<()>().await;
        }
        Ok(Answer::text("done"))
    }
}

fn with_halting(dir: &Path, began: &Arc<Notify>, again: bool) -> Builder {
    let began = began.clone();
    let extensions = extensions().agent("halting", Halting { began, again });
    let program = program(extensions).store(dir.join("store"));
    program.define_agent("slow", "halting", "takes its time", &[])
}

/// A turn that is in the middle: its program, its session and its id.
async fn halted(dir: &Path) -> (Local, Handle, TurnId) {
    let began = Arc::new(Notify::new());
    let local = with_halting(dir, &began, false).start().await.unwrap();
    let session = local.import(tents()).await.unwrap();
    let ask = Ask::new("Well?").agents(["slow"]);
    let turn = local.begin(&session, &ask).await.unwrap();
    began.notified().await;
    (local, session, turn)
}

/// The program of [`halted`] at its next start.
fn resuming(dir: &Path) -> Builder {
    with_halting(dir, &Arc::new(Notify::new()), true)
}

#[tokio::test]
async fn a_turn_that_the_program_left_in_the_middle_goes_on_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let (local, session, turn) = halted(dir.path()).await;
    let id = session.id();
    local.shutdown().await;
    let local = resuming(dir.path()).start().await.unwrap();
    let finished = local.resume(id).await.unwrap();
    assert_eq!(finished.len(), 1);
    assert_eq!(
        (finished[0].turn, &finished[0].outcome),
        (turn, &Outcome::Answered)
    );
    assert_eq!(finished[0].answer.as_deref(), Some("done\nWell?"));
    local.shutdown().await;
}

#[tokio::test]
async fn a_program_that_drops_its_service_in_a_turn_frees_the_store_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (local, session, turn) = halted(dir.path()).await;
    let id = session.id();
    drop((local, session));
    let local = started_when_free(|| resuming(dir.path()).start()).await;
    let finished = local.resume(id).await.unwrap();
    assert_eq!(
        (finished[0].turn, &finished[0].outcome),
        (turn, &Outcome::Answered)
    );
    local.shutdown().await;
}

/// Starts a program as soon as its store is free, which happens in the background.
async fn started_when_free<F, E>(start: impl Fn() -> F) -> Local
where
    F: Future<Output = Result<Local, E>>,
    E: std::fmt::Debug,
{
    let mut started = start().await;
    for _ in 0..1_000 {
        if started.is_ok() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        started = start().await;
    }
    started.unwrap()
}

#[test]
fn a_program_that_drops_its_service_outside_of_its_executor_frees_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let start = || {
        let program = program(extensions()).store(dir.path().join("store"));
        program.start()
    };
    let executor = tokio::runtime::Runtime::new().unwrap();
    drop(executor.block_on(start()).unwrap());
    executor.block_on(async {
        let local = started_when_free(start).await;
        local.shutdown().await;
    });
}

#[tokio::test]
async fn a_reader_that_is_shut_down_leaves_its_search_index_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let local = program(extensions()).store(&store).start().await.unwrap();
    local.import(tents()).await.unwrap();
    let setup = local.setup();
    local.shutdown().await;
    let opened = open_store(&store).await.unwrap();
    let reader = Local::reader(opened, (*setup).clone(), extensions()).unwrap();
    reader.search().settle(None).await.unwrap();
    reader.shutdown().await;
    unisono_search::compact(&unisono_search::directory(&store)).unwrap();
}

#[tokio::test]
async fn a_purge_removes_a_search_index_that_is_not_used_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let local = program(extensions()).store(&store).start().await.unwrap();
    let session = local.import(tents()).await.unwrap().id();
    local.search().settle(None).await.unwrap();
    local.shutdown().await;
    let index = unisono_search::directory(&store);
    assert!(index.exists());
    let in_memory = program(extensions()).set("store.search_index", "memory");
    let local = in_memory.store(&store).start().await.unwrap();
    let purged = local.delete_session(&session.to_string(), true).await;
    purged.unwrap();
    local.shutdown().await;
    assert!(!index.exists());
}
