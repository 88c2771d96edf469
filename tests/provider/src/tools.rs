//! An MCP server for tests that also does what a server should not: on standard input and output
//! of a process of its own, or by streamable HTTP.
//!
//! What it is asked for is written to its log before it is done, a line each: `start PID`, `list`,
//! `call TOOL KEY ARGUMENTS`, `cancelled`. It speaks the handshake of the revision before the
//! current one; [`CurrentServer`] speaks the current one.

#![allow(clippy::print_stdout, reason = "it is how it answers")]

mod current;

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

pub use current::CurrentServer;

/// The revision it speaks.
const REVISION: &str = "2025-11-25";
/// With this variable set to the path of a log, [`serve_if_asked`] serves.
pub const LOG: &str = "FAKE_TOOLS_LOG";
/// What else it does: `old` ends at anything that comes before the handshake, `mute` answers
/// nothing.
pub const MANNER: &str = "FAKE_TOOLS_MANNER";

/// How long each call takes, in milliseconds; nothing by default.
pub const PACE: &str = "FAKE_TOOLS_PACE_MS";

/// Serves on standard input and output where the environment asks for it, and ends the process;
/// else it does nothing. Called by a test of that purpose, a test binary is a server.
pub fn serve_if_asked() {
    let Some(log) = std::env::var_os(LOG) else {
        return;
    };
    let manner = std::env::var(MANNER).unwrap_or_default();
    let server = Arc::new(Server {
        log: Log::new(Path::new(&log)),
        old: manner == "old",
        mute: manner == "mute",
        pace: pace(),
        grown: AtomicBool::new(false),
        begun: AtomicBool::new(false),
        writing: Mutex::new(()),
    });
    server.note(&format!("start {}", std::process::id()));
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        let server = server.clone();
        if message["method"] == "tools/call" {
            thread::spawn(move || server.say(server.answer(&message)));
        } else {
            server.say(server.answer(&message));
        }
    }
    exit(0);
}

/// A server at an address on loopback, as long as the process lives.
///
/// # Errors
/// No address can be had.
pub fn serve_http(log: &Path) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = Arc::new(Server {
        log: Log::new(log),
        old: false,
        mute: false,
        pace: Duration::ZERO,
        grown: AtomicBool::new(false),
        begun: AtomicBool::new(false),
        writing: Mutex::new(()),
    });
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = server.clone();
            // A client that goes away in the middle is none of the server's business.
            thread::spawn(move || {
                let token = |token: &str| server.note(&format!("token {token}"));
                drop(converse(stream, token, |message| server.answer(message)));
            });
        }
    });
    Ok(address)
}

struct Server {
    log: Log,
    old: bool,
    mute: bool,
    pace: Duration,
    grown: AtomicBool,
    begun: AtomicBool,
    writing: Mutex<()>,
}

/// What a server writes of what it is asked for.
struct Log(PathBuf);

impl Log {
    fn new(path: &Path) -> Log {
        Log(path.to_owned())
    }

    fn note(&self, line: &str) {
        let file = OpenOptions::new().create(true).append(true).open(&self.0);
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        if written.is_err() {
            exit(3);
        }
    }
}

/// Answers requests on a connection until it is closed.
fn converse(
    stream: TcpStream,
    bearer: impl Fn(&str),
    answer: impl Fn(&Value) -> Said,
) -> std::io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let (mut request, mut length) = (String::new(), 0);
        if reader.read_line(&mut request)? == 0 {
            return Ok(());
        }
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            let header = header.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(bytes) = header.strip_prefix("content-length:") {
                length = bytes.trim().parse().unwrap_or(0);
            }
            if let Some(token) = header.strip_prefix("authorization:") {
                bearer(token.trim());
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        if !request.starts_with("POST") {
            writer.write_all(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")?;
            continue;
        }
        let message = serde_json::from_slice(&body).unwrap_or_default();
        let answer = match answer(&message) {
            Said::Nothing if message["id"].is_null() => {
                writer.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")?;
                continue;
            }
            // Nobody is ever answered on this connection again.
            Said::Nothing => loop {
                thread::park();
            },
            Said::Message(message) => message.to_string(),
            Said::Line(line) => line,
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        writer.write_all(head.as_bytes())?;
        writer.write_all(answer.as_bytes())?;
    }
}

/// What is answered to a message.
enum Said {
    Nothing,
    Message(Value),
    Line(String),
}

impl Server {
    fn note(&self, line: &str) {
        self.log.note(line);
    }

    fn say(&self, said: Said) {
        let _one = self.writing.lock();
        match said {
            Said::Nothing => {}
            Said::Message(message) => println!("{message}"),
            Said::Line(line) => {
                // Whoever does not read any more has gone.
                let _ = std::io::stdout().lock().write_all((line + "\n").as_bytes());
            }
        }
        // Whoever does not read any more has gone.
        let _ = std::io::stdout().flush();
    }

    fn answer(&self, message: &Value) -> Said {
        if self.mute {
            return Said::Nothing;
        }
        let (id, params) = (&message["id"], &message["params"]);
        let answer =
            |result: Value| Said::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                self.begun.store(true, Ordering::SeqCst);
                answer(json!({
                    "protocolVersion": REVISION,
                    "capabilities": {"tools": {"listChanged": true}},
                    "serverInfo": {"name": "fake-tools", "version": "1"},
                }))
            }
            _ if self.old && !self.begun.load(Ordering::SeqCst) => exit(4),
            "tools/list" => {
                self.note("list");
                answer(json!({"tools": self.tools()}))
            }
            "tools/call" => self.call(id, params),
            "notifications/cancelled" => {
                self.note("cancelled");
                Said::Nothing
            }
            _ if id.is_null() => Said::Nothing,
            method => refused(id, -32601, &format!("no method {method}")),
        }
    }

    fn tools(&self) -> Vec<Value> {
        let text = json!({
            "type": "object",
            "properties": {"text": {"type": "string"}, "until": {"type": "string"}},
            "required": ["text"],
        });
        let tool = |name: &str, hints: Value| {
            let description = format!("{name}s a text");
            json!({"name": name, "description": description, "inputSchema": text, "annotations": hints})
        };
        let any = |name: &str| {
            let schema = json!({"type": "object"});
            json!({"name": name, "description": "misbehaves", "inputSchema": schema})
        };
        let mut tools = vec![
            tool("send", json!({})),
            tool("put", json!({"idempotentHint": true})),
            tool("read", json!({"readOnlyHint": true})),
            any("show"),
        ];
        tools.extend(
            [
                "die", "flood", "fork", "garbage", "grow", "never", "variable",
            ]
            .map(any),
        );
        if self.grown.load(Ordering::SeqCst) {
            tools.retain(|tool| tool["name"] != "put");
            tools.push(any("new"));
        }
        tools
    }

    fn call(&self, id: &Value, params: &Value) -> Said {
        let name = params["name"].as_str().unwrap_or_default();
        let arguments = &params["arguments"];
        let key = params["_meta"]["idempotencyKey"].as_str().unwrap_or("-");
        self.note(&format!("call {name} {key} {arguments}"));
        let text = arguments["text"].as_str().unwrap_or_default();
        thread::sleep(self.pace);
        if let Some(until) = arguments["until"].as_str() {
            wait_for(Path::new(until));
        }
        let said = match name {
            "die" => exit(9),
            "never" => return Said::Nothing,
            "garbage" => return Said::Line("{\"jsonrpc\": \"2.0\", \"id\"".to_owned()),
            // Put together by hand: a JSON writer takes seconds for it where nothing is optimised.
            "flood" => {
                let text = "x".repeat(50 * 1024 * 1024);
                return Said::Line(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
                ));
            }
            "fork" => match Command::new("sleep").arg("300").spawn() {
                Ok(child) => child.id().to_string(),
                Err(error) => error.to_string(),
            },
            "grow" => {
                self.grown.store(true, Ordering::SeqCst);
                "grown".to_owned()
            }
            "variable" => std::env::var(text).unwrap_or_else(|_| "not set".to_owned()),
            "send" | "put" | "read" | "show" => format!("{name}: {text}"),
            _ => return refused(id, -32602, &format!("no tool {name}")),
        };
        let mut content = vec![json!({"type": "text", "text": said})];
        for part in arguments["parts"].as_array().into_iter().flatten() {
            content.push(part.clone());
        }
        let result = json!({"content": content, "isError": false});
        Said::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }
}

fn refused(id: &Value, code: i64, message: &str) -> Said {
    let error = json!({"code": code, "message": message});
    Said::Message(json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

fn pace() -> Duration {
    let ms = std::env::var(PACE).ok().and_then(|ms| ms.parse().ok());
    Duration::from_millis(ms.unwrap_or_default())
}

/// Waits until somebody makes the file.
fn wait_for(file: &Path) {
    while !file.exists() {
        thread::sleep(Duration::from_millis(5));
    }
}
