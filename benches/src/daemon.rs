//! Starts the program as a daemon, in a process and a directory of its own.
#![allow(clippy::panic, reason = "a measurement ends where it cannot go on")]

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::bare::local;
use crate::memory;

/// The token of all daemons.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A daemon, killed when this is dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    client: Client,
    _directory: tempfile::TempDir,
}

/// A client of a daemon.
#[derive(Clone, Debug)]
pub struct Client {
    /// Host and port.
    pub address: String,
    client: reqwest::Client,
}

/// The program, built in the profile of this one.
fn program() -> PathBuf {
    let own = std::env::current_exe().expect("this program has a path");
    let profile = own.ancestors().nth(2).expect("cargo's directories");
    let program = profile.join("unisono");
    assert!(
        program.is_file(),
        "there is no program in {}: run `cargo build --bin unisono` in the same profile first",
        profile.display()
    );
    program
}

impl Daemon {
    /// Starts one with these settings (TOML). The key of a provider may be in `BENCH_KEY`.
    pub fn start(settings: &str) -> Daemon {
        Daemon::with_threads(settings, None)
    }

    /// The same, with so many worker threads instead of one for each core.
    pub fn with_threads(settings: &str, threads: Option<usize>) -> Daemon {
        let threads = threads.map(|threads| ("TOKIO_WORKER_THREADS", threads.to_string()));
        let program = program();
        // Cargo's directory for the files of benchmarks.
        let target = program.ancestors().nth(2).expect("cargo's directories");
        let directory = tempfile::tempdir_in(target.join("tmp")).expect("a directory");
        // The directory is a project of its own: the settings of this repository do not count.
        let project = directory.path().join("config");
        fs::create_dir_all(&project).expect("a directory");
        fs::write(project.join("unisono.toml"), settings).expect("a file");
        let config = directory.path().join("settings/unisono");
        fs::create_dir_all(&config).expect("a directory");
        fs::write(config.join("token"), TOKEN).expect("a file");
        fs::set_permissions(config.join("token"), Permissions::from_mode(0o600)).expect("a mode");
        let mut child = Command::new(&program)
            .args(["serve", "--bind", "127.0.0.1:0"])
            .current_dir(directory.path())
            .env("HOME", directory.path())
            .env("XDG_CONFIG_HOME", directory.path().join("settings"))
            .env("XDG_DATA_HOME", directory.path().join("data"))
            .env("BENCH_KEY", "sk-bench")
            .envs(threads)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let address = listening(&mut child);
        Daemon {
            child,
            client: Client::new(address),
            _directory: directory,
        }
    }

    /// A client of it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its resident memory in bytes: now, and at most so far.
    pub fn resident(&self) -> (f64, f64) {
        memory::resident_of(&self.pid().to_string())
    }
}

/// Where a daemon listens, once it says so.
fn listening(child: &mut Child) -> String {
    let mut said = BufReader::new(child.stderr.take().expect("a pipe was asked for")).lines();
    let mut lines = Vec::new();
    let address = loop {
        let Some(Ok(line)) = said.next() else {
            panic!("a daemon does not start: {lines:#?}");
        };
        if let Some((_, address)) = line.split_once("http://")
            && line.contains("listening")
        {
            break address.trim().to_owned();
        }
        lines.push(line);
    };
    // What it says more must not block it.
    std::thread::spawn(move || for _ in said.map_while(Result::ok) {});
    address
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    /// A client of the daemon at that host and port.
    pub fn new(address: String) -> Client {
        Client {
            address,
            client: local().build().expect("a client"),
        }
    }

    /// Posts a body and returns the reply, which must be a success.
    pub async fn post(&self, path: &str, body: &Value) -> Value {
        let reply = self.client.post(format!("http://{}{path}", self.address));
        let reply = reply
            .bearer_auth(TOKEN)
            .header("content-type", "application/json")
            .body(body.to_string());
        let reply = reply.send().await.expect("it answers");
        let status = reply.status();
        let text = reply.text().await.expect("a text");
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).expect("JSON")
    }
}

/// A listener of a session's events: its connection, after the head of the reply.
pub async fn listen(address: &str, token: &str, session: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let head = format!(
        "GET /v1/sessions/{session}/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("it reads");
    let mut reply = Vec::new();
    while !reply.ends_with(b"\r\n\r\n") {
        reply.push(stream.read_u8().await.expect("a head"));
    }
    assert!(reply.starts_with(b"HTTP/1.1 200"));
    stream
}

/// Reads until the name of an event came; when.
pub async fn wait_for_event(stream: &mut TcpStream, name: &[u8], buffer: &mut Vec<u8>) -> Instant {
    buffer.clear();
    let mut chunk = [0; 1_024];
    while !buffer.windows(name.len()).any(|window| window == name) {
        let read = stream.read(&mut chunk).await.expect("a stream");
        assert!(read > 0, "the stream has ended");
        buffer.extend_from_slice(&chunk[..read]);
    }
    Instant::now()
}
