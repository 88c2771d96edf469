//! Hooks: programs and servers that a session asks before and after its actions.
//!
//! A hook gets one JSON object and answers with one, or with nothing. It is asked once for each
//! answer that a session needs; the result is a fact of the session. After a crash the question is
//! repeated with the same `id`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use unisono_context::{MessageId, Ordinal};
use unisono_model::client::{HttpEndpoint, SurrogateJoiner};
use unisono_model::provider::{Address, Header, Settings};
use unisono_session::agent::Command;
use unisono_session::assignment::{HookJob, HookSubject};
use unisono_session::event::{HookReply, MessageReference};

use crate::process;

/// The maximum number of characters of a text for a hook; arguments of calls are complete.
const TEXT_CHARS: usize = 65_536;
/// The maximum size of a hook's answer, in bytes.
const ANSWER_BYTES: usize = 65_536;
/// The number of characters of a reason, and of instructions, that are kept.
const REASON_CHARS: usize = 1_000;
const INSTRUCTION_CHARS: usize = 8_000;
/// The keys of an answer.
const KEYS: [&str; 4] = ["decision", "reason", "pin", "instructions"];
/// The maximum number of messages that one answer pins.
const PINS: usize = 100;
/// The time that a server is awaited beyond the hook's timeout.
const GRACE: Duration = Duration::from_millis(500);

/// A hook: its target and its timeout.
#[derive(Clone, Debug)]
pub struct Hook {
    /// Its name.
    pub name: Arc<str>,
    /// Its target.
    pub target: HookTarget,
    /// The timeout of one answer.
    pub timeout: Duration,
}

/// The target of a hook.
#[derive(Clone, Debug)]
pub enum HookTarget {
    /// A program: it reads the object on standard input and writes its answer to standard output.
    Program(Command),
    /// A server: the object is the body of a POST request, its answer the body of the response.
    Address {
        /// The address.
        url: Address,
        /// The headers of each request.
        headers: Vec<Header>,
    },
    /// A server with a header whose variable is not set. It is not asked.
    Unset {
        /// The variable and its header, for people.
        reason: Arc<str>,
    },
}

/// The hooks of a runtime, and the number of sessions with pending hooks of ended turns.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    all: BTreeMap<Arc<str>, Hook>,
    telling: Arc<watch::Sender<usize>>,
}

impl Hooks {
    pub(crate) fn new(hooks: &[Hook]) -> Hooks {
        let named = hooks.iter().map(|hook| (hook.name.clone(), hook.clone()));
        Hooks {
            all: named.collect(),
            telling: Arc::default(),
        }
    }

    /// Asks the hook of a job; an error says why there is no answer, for people.
    pub(crate) async fn ask(&self, job: &HookJob) -> Result<HookReply, Arc<str>> {
        let Some(hook) = self.all.get(&job.hook) else {
            return Err("the settings no longer have a hook with this name".into());
        };
        let answering = async {
            match &hook.target {
                HookTarget::Program(command) => of_program(command, job).await,
                HookTarget::Address { url, headers } => of_server(hook, url, headers, job).await,
                HookTarget::Unset { reason } => Err(format!("it cannot be asked: {reason}")),
            }
        };
        let answer = match tokio::time::timeout(hook.timeout, answering).await {
            Ok(answer) => answer.and_then(|(bytes, stderr)| {
                let skipped = stderr.chars().count().saturating_sub(REASON_CHARS);
                let stderr: String = stderr.chars().skip(skipped).collect();
                let stderr = (!stderr.is_empty()).then(|| stderr.into());
                let reply = read(&bytes)?;
                Ok(HookReply { stderr, ..reply })
            }),
            Err(_) => Err(format!(
                "it took longer than {} ms",
                hook.timeout.as_millis()
            )),
        };
        answer.map_err(|reason| {
            let (hook, event) = (&*job.hook, job.event.name());
            tracing::warn!(session = %job.session, hook, event, reason, "a hook gave no answer");
            cut(&reason, REASON_CHARS).into()
        })
    }

    /// Marks a session as having pending hooks of ended turns, until the guard is dropped.
    pub(crate) fn track_end_hooks(&self) -> EndHooksGuard {
        self.telling.send_modify(|telling| *telling += 1);
        EndHooksGuard(self.telling.clone())
    }

    /// Waits until no session has pending hooks, at most this long.
    pub(crate) async fn settled(&self, patience: Duration) {
        let mut telling = self.telling.subscribe();
        let none = telling.wait_for(|telling| *telling == 0);
        // Hooks that take longer are asked again at the next start.
        let _ = tokio::time::timeout(patience, none).await;
    }
}

/// A session with pending hooks of ended turns.
#[derive(Debug)]
pub(crate) struct EndHooksGuard(Arc<watch::Sender<usize>>);

impl Drop for EndHooksGuard {
    fn drop(&mut self) {
        self.0
            .send_modify(|telling| *telling = telling.saturating_sub(1));
    }
}

/// The answer of a program, and the end of its standard error.
async fn of_program(command: &Command, job: &HookJob) -> Result<(Vec<u8>, String), String> {
    let program = process::Job {
        command,
        input: [document(job), Bytes::from_static(b"\n")],
        max_output: ANSWER_BYTES,
    };
    match process::run(program).await {
        Ok(finished) if finished.status.success() => Ok((finished.stdout, finished.stderr)),
        Ok(finished) => {
            let (program, status) = (&command.program, finished.status);
            let stderr_note = match finished.stderr.as_str() {
                "" => String::new(),
                stderr_note => format!(": {stderr_note}"),
            };
            Err(format!("`{program}` ended with {status}{stderr_note}"))
        }
        Err(process::Error::Flooded { program, limit }) => Err(format!(
            "`{program}` wrote more than {limit} bytes and was killed"
        )),
        Err(error) => Err(error.to_string()),
    }
}

async fn of_server(
    hook: &Hook,
    url: &Address,
    headers: &[Header],
    job: &HookJob,
) -> Result<(Vec<u8>, String), String> {
    let mut settings = Settings::for_endpoint(hook.name.clone(), url.clone());
    settings.headers = headers.to_vec();
    // The hook's own timeout ends the wait.
    let limit = hook.timeout + GRACE;
    settings.timeouts.first_byte = limit;
    settings.timeouts.idle = limit;
    settings.timeouts.total = limit;
    settings.caps.response = ANSWER_BYTES;
    let origin = url.origin();
    let post = HttpEndpoint::new(settings, &[]).map_err(|error| error.to_string())?;
    let key = job.id.to_string();
    let sent = post.send([document(job), Bytes::new()], &key).await;
    let answered = sent.map(|answer| (answer, String::new()));
    answered.map_err(|failure| format!("{origin}: {}", failure.reason))
}

fn document(job: &HookJob) -> Bytes {
    let mut fields = Map::new();
    let mut insert = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    insert("event", job.event.name().into());
    insert("id", job.id.to_string().into());
    insert("hook", (*job.hook).into());
    insert("session", job.session.to_string().into());
    insert("branch", (*job.branch).into());
    insert("turn", job.turn.to_string().into());
    match &job.subject {
        HookSubject::Task(task) => {
            insert("task", text(task));
        }
        HookSubject::Compaction {
            tokens,
            messages,
            checkpoint,
        } => {
            insert("tokens", (*tokens).into());
            insert(
                "messages",
                json!(messages.map(|(first, last)| [first, last])),
            );
            insert("checkpoint", json!(checkpoint));
        }
        HookSubject::Call {
            call,
            run,
            agent,
            tool,
            arguments,
        } => {
            let read: Result<Value, _> = serde_json::from_str(arguments);
            insert("call", call.to_string().into());
            insert("run", run.to_string().into());
            insert("agent", agent.as_str().into());
            insert("tool", (**tool).into());
            // Invalid JSON is passed on as the model wrote it.
            insert("arguments", read.unwrap_or_else(|_| (**arguments).into()));
        }
        HookSubject::End {
            state,
            error,
            answer,
        } => {
            insert("state", (*state).into());
            insert("error", error.as_deref().map_or(Value::Null, text));
            insert("answer", answer.as_deref().map_or(Value::Null, text));
        }
    }
    Value::Object(fields).to_string().into()
}

/// A text, cut to the maximum for hooks.
fn text(text: &str) -> Value {
    cut(text, TEXT_CHARS).into()
}

fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

/// Parses the answer of a hook: empty, or one JSON object.
fn read(bytes: &[u8]) -> Result<HookReply, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "its answer is not UTF-8".to_owned())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(HookReply::default());
    }
    let shown = || cut(text.trim(), 200);
    // A program may cut a text in the middle of a character.
    let whole = SurrogateJoiner::default().join_halves(text);
    let read: Result<Value, _> = serde_json::from_str(&whole);
    let object = match read {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Err(format!("its answer is not a JSON object: {:?}", shown())),
        Err(error) => return Err(format!("its answer is not JSON ({error}): {:?}", shown())),
    };
    let sent = |name: &str| match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("`{name}` of its answer is not a text")),
    };
    match sent("decision")? {
        None | Some("allow") => {}
        Some("deny") => return Ok(denial(&object)),
        Some(other) => {
            return Err(format!(
                "it decided {:?}; there are: allow, deny",
                cut(other, 40)
            ));
        }
    }
    if let Some(key) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let (key, known) = (cut(key, 40), KEYS.join(", "));
        return Err(format!(
            "its answer has the unknown key {key:?}; known are: {known}"
        ));
    }
    Ok(HookReply {
        deny: None,
        pin: pins(object.get("pin"))?,
        instructions: sent("instructions")?.and_then(instructions),
        reason: sent("reason")?.map(|reason| cut(reason, REASON_CHARS).into()),
        stderr: None,
    })
}

/// A denial. It counts whatever stands beside it: an invalid value there has no effect.
fn denial(object: &Map<String, Value>) -> HookReply {
    let sent = |name: &str| object.get(name).and_then(Value::as_str);
    let reason = sent("reason").filter(|reason| !reason.trim().is_empty());
    let reason = reason.unwrap_or("it gave no reason");
    HookReply {
        deny: Some(cut(reason, REASON_CHARS).into()),
        pin: pins(object.get("pin")).unwrap_or_default(),
        instructions: sent("instructions").and_then(instructions),
        ..HookReply::default()
    }
}

/// Instructions for the summariser; none if the text is blank.
fn instructions(text: &str) -> Option<Arc<str>> {
    let text = text.trim();
    (!text.is_empty()).then(|| cut(text, INSTRUCTION_CHARS).into())
}

/// Messages by their numbers or ids.
fn pins(value: Option<&Value>) -> Result<Vec<MessageReference>, String> {
    let named = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(named)) if named.len() <= PINS => named,
        Some(Value::Array(_)) => return Err(format!("it pins more than {PINS} messages")),
        Some(_) => return Err("`pin` of its answer is not a list".to_owned()),
    };
    let each = named.iter().map(|one| {
        let number = one.as_u64().and_then(|number| u32::try_from(number).ok());
        let id = one.as_str().and_then(|text| text.parse::<MessageId>().ok());
        let number = number.filter(|number| *number > 0).map(Ordinal);
        let named = number
            .map(MessageReference::Number)
            .or(id.map(MessageReference::Id));
        named.ok_or_else(|| {
            format!("it pins {one}, which is neither the number of a message nor its id")
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    //! Inputs of hooks, and the meaning of their answers.

    use unisono_context::{CallId, RunId, SessionId, TurnId};
    use unisono_fake_provider::{Act, FakeProvider, Script};
    use unisono_session::event::{HookPlace, HookPoint};
    use unisono_session::tool::HookEvent;

    use super::*;
    use crate::agent::fixture::sh;

    fn job(event: HookEvent, subject: HookSubject) -> HookJob {
        let turn = TurnId::from_u128(2);
        HookJob {
            place: HookPlace {
                point: HookPoint::Turn {
                    turn,
                    event,
                    step: 0,
                },
                rule: 0,
            },
            id: CallId::from_u128(1),
            hook: "guard".into(),
            event,
            session: SessionId::from_u128(3),
            branch: "main".into(),
            turn,
            subject,
        }
    }

    fn sent_document(event: HookEvent, subject: HookSubject) -> Value {
        serde_json::from_slice(&document(&job(event, subject))).unwrap()
    }

    #[test]
    fn a_hook_gets_the_subject_of_its_event() {
        let call = |arguments: &str| HookSubject::Call {
            call: CallId::from_u128(1),
            run: RunId::from_u128(4),
            agent: "clerk".into(),
            tool: "files__write".into(),
            arguments: arguments.into(),
        };
        let sent = sent_document(HookEvent::BeforeToolCall, call("{\"path\":\"/etc\"}"));
        assert_eq!(sent["event"], "before_tool_call");
        assert_eq!(sent["id"], CallId::from_u128(1).to_string());
        assert_eq!(sent["arguments"], json!({"path": "/etc"}));
        assert_eq!(
            (&sent["tool"], &sent["agent"]),
            (&json!("files__write"), &json!("clerk"))
        );
        let sent = sent_document(HookEvent::BeforeToolCall, call("no JSON"));
        assert_eq!(sent["arguments"], "no JSON");
        // The arguments of a call are never cut.
        let long = format!("{{\"text\":\"{}\"}}", "x".repeat(TEXT_CHARS * 2));
        let sent = sent_document(HookEvent::BeforeToolCall, call(&long));
        assert_eq!(
            sent["arguments"]["text"].as_str().unwrap().len(),
            TEXT_CHARS * 2
        );
        let task = HookSubject::Task("ü".repeat(TEXT_CHARS + 1).into());
        let sent = sent_document(HookEvent::TurnAccepted, task);
        assert_eq!(
            sent["task"].as_str().unwrap().chars().count(),
            TEXT_CHARS + 1
        );
        let end = HookSubject::End {
            state: "failed",
            error: Some("no".into()),
            answer: None,
        };
        let sent = sent_document(HookEvent::TurnEnded, end);
        assert_eq!(
            (&sent["state"], &sent["answer"]),
            (&json!("failed"), &Value::Null)
        );
    }

    #[test]
    fn a_hook_answer_is_empty_or_an_object() {
        let deny = |reason: &str| HookReply {
            deny: Some(reason.into()),
            ..HookReply::default()
        };
        let table = rows! {
            ("", Ok(HookReply::default())),
            (" \n", Ok(HookReply::default())),
            ("{}", Ok(HookReply::default())),
            ("\u{feff}{\"decision\":\"allow\"}\n", Ok(HookReply::default())),
            ("\u{feff}", Ok(HookReply::default())),
            (
                "{\"decision\":\"allow\",\"more\":1}",
                Err("unknown key \"more\"; known are: decision, reason"),
            ),
            ("{\"decison\":\"deny\"}", Err("unknown key \"decison\"")),
            ("{\"decision\":\"deny\",\"more\":1}", Ok(deny("it gave no reason"))),
            (
                "{\"decision\":\"allow\",\"reason\":\"fine\"}",
                Ok(HookReply {
                    reason: Some("fine".into()),
                    ..HookReply::default()
                }),
            ),
            ("{\"decision\":\"deny\",\"reason\":\"cut \\ud83d\"}", Ok(deny("cut "))),
            ("{\"decision\":\"deny\"}", Ok(deny("it gave no reason"))),
            ("{\"decision\":\"deny\",\"reason\":\" \"}", Ok(deny("it gave no reason"))),
            ("{\"decision\":\"deny\",\"reason\":5}", Ok(deny("it gave no reason"))),
            ("{\"decision\":\"deny\",\"reason\":\"no\",\"pin\":3}", Ok(deny("no"))),
            ("{\"decision\":\"deny\",\"reason\":\"no\",\"instructions\":[]}", Ok(deny("no"))),
            ("{\"reason\":5}", Err("`reason`")),
            (
                "{\"pin\":[3],\"instructions\":\" Keep names. \"}",
                Ok(HookReply {
                    pin: vec![MessageReference::Number(Ordinal(3))],
                    instructions: Some("Keep names.".into()),
                    ..HookReply::default()
                }),
            ),
            ("[]", Err("not a JSON object")),
            ("yes", Err("not JSON (")),
            ("{} {}", Err("not JSON (")),
            ("{\"decision\":\"maybe\"}", Err("allow, deny")),
            ("{\"decision\":1}", Err("`decision`")),
            ("{\"pin\":3}", Err("`pin`")),
            ("{\"pin\":[0]}", Err("pins 0")),
            ("{\"pin\":[\"x\"]}", Err("pins \"x\"")),
            ("{\"instructions\":[]}", Err("`instructions`")),
        };
        for (text, expected) in table {
            match (read(text.as_bytes()), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(found), Err(words)) => assert!(found.contains(words), "{text}: {found}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        assert!(read(b"\xff").is_err());
        let many = json!({"pin": vec![1; PINS + 1]}).to_string();
        assert!(read(many.as_bytes()).unwrap_err().contains("more than"));
    }

    #[tokio::test]
    async fn a_server_may_give_a_type_to_an_empty_answer() {
        let job = job(HookEvent::TurnEnded, HookSubject::Task("x".into()));
        for (body, answer) in [("", Ok(())), ("{}", Err("is `text/html`"))] {
            let script = Script::always(Act::document(200, "text/html", body));
            let server = FakeProvider::builder().script(script).every_path();
            let server = server.start().await;
            let hook = Hook {
                name: "guard".into(),
                target: HookTarget::Address {
                    url: Address::endpoint(&server.url()).unwrap(),
                    headers: Vec::new(),
                },
                timeout: Duration::from_secs(60),
            };
            let given = Hooks::new(&[hook]).ask(&job).await;
            match answer {
                Ok(()) => assert_eq!(given, Ok(HookReply::default())),
                Err(words) => assert!(given.unwrap_err().contains(words)),
            }
        }
    }

    #[tokio::test]
    async fn a_missing_hook_gives_no_answer() {
        let job = job(HookEvent::TurnEnded, HookSubject::Task("x".into()));
        let none = Hooks::new(&[]).ask(&job).await.unwrap_err();
        assert!(
            none.contains("no longer have a hook with this name"),
            "{none}"
        );
        let program = |program: &str, args: &[&str]| Hook {
            name: "guard".into(),
            target: HookTarget::Program(Command {
                program: program.into(),
                args: args.iter().map(|arg| (*arg).into()).collect(),
                ..sh("")
            }),
            timeout: Duration::from_millis(300),
        };
        let table: [(&str, &[&str], &str); 6] = rows! {
            ("/nowhere/at-all", &[], "could not start"),
            ("sh", &["-c", "echo no; echo why >&2; exit 3"], "exit status: 3: why"),
            ("sh", &["-c", "sleep 600"], "longer than 300 ms"),
            ("sh", &["-c", "echo '{\"decision\":\"allow\"}'; kill -9 $$"], "signal: 9"),
            ("/etc/passwd", &[], "could not start"),
            ("sh", &["-c", "head -c 100000 /dev/zero"], "65536 bytes"),
        };
        for (name, args, expected) in table {
            let hooks = Hooks::new(&[program(name, args)]);
            let wrong = hooks.ask(&job).await.unwrap_err();
            assert!(wrong.contains(expected), "{name}: {wrong}");
        }
        let unset = HookTarget::Unset {
            reason: "the variable X is not set".into(),
        };
        let unset = Hook {
            target: unset,
            ..program("sh", &[])
        };
        let wrong = Hooks::new(&[unset]).ask(&job).await.unwrap_err();
        assert_eq!(&*wrong, "it cannot be asked: the variable X is not set");
        let hooks = Hooks::new(&[program("sh", &["-c", "read -r x; echo {}"])]);
        assert_eq!(hooks.ask(&job).await, Ok(HookReply::default()));
        let loud = "head -c 100000 /dev/zero | tr '\\0' x >&2; echo '{\"reason\": \"seen\"}'";
        let hooks = Hooks::new(&[program("sh", &["-c", loud])]);
        let reply = hooks.ask(&job).await.unwrap();
        assert_eq!(reply.reason.as_deref(), Some("seen"));
        assert_eq!(reply.stderr.unwrap().chars().count(), REASON_CHARS);
    }
}
