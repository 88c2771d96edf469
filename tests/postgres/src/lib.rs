//! A PostgreSQL server for tests: in a directory of its own, on loopback, ended with its test.
//!
//! Its programs, `initdb` and `postgres`, are the first ones on the `PATH`, or those of Debian's packages.
//! `UNISONO_TEST_POSTGRES=postgres://unisono@127.0.0.1:PORT/postgres` names a running server for the tests
//! that share one. `unisono` must be a superuser there, all roles must be let in without a password, and
//! `psql` must be installed here. `UNISONO_TEST_POSTGRES_REQUIRED=1` makes a test fail where PostgreSQL is
//! not installed; else it says that it was skipped.
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test ends where its server cannot be had"
)]

mod pooler;

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, mpsc};
use std::thread;

pub use pooler::Pooler;

/// Whom the server runs as where the tests are root's, which it refuses: nobody.
const NOBODY: u32 = 65_534;

/// A server.
#[derive(Debug)]
pub struct Server {
    directory: tempfile::TempDir,
    programs: PathBuf,
    port: u16,
    database: String,
    settings: Vec<String>,
    child: Mutex<Option<Child>>,
}

impl Server {
    /// One that is shared by all tests of a process; none where PostgreSQL is not installed.
    pub fn shared() -> Option<&'static Server> {
        static SHARED: OnceLock<Option<(Server, Child)>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| {
            let server = match std::env::var("UNISONO_TEST_POSTGRES") {
                Ok(address) => Server::running(&address),
                Err(_) => Server::start(&[])?,
            };
            // Nothing drops it.
            let remover = remove_at_exit(server.directory.path());
            Some((server, remover))
        });
        shared.as_ref().map(|(server, _)| server)
    }

    /// A database of its own, on the server that the tests of this process share; none where PostgreSQL is
    /// not installed.
    pub fn database() -> Option<Server> {
        let shared = Server::shared()?;
        Some(Server::with_database(shared.port, &shared.programs))
    }

    /// One that runs already, with a new database for this process.
    fn running(address: &str) -> Server {
        let place = address.strip_prefix("postgres://unisono@127.0.0.1:");
        let port = place.and_then(|place| place.split('/').next()?.parse().ok());
        let Some(port) = port else {
            panic!("UNISONO_TEST_POSTGRES is not postgres://unisono@127.0.0.1:PORT/postgres");
        };
        Server::with_database(port, Path::new(""))
    }

    /// One that runs already at that port, with a new database.
    fn with_database(port: u16, programs: &Path) -> Server {
        let directory = own_directory("unisono-pg-");
        // It is random.
        let name = directory.path().file_name().unwrap().to_string_lossy();
        let database = name.into_owned();
        let mut server = Server {
            directory,
            programs: programs.to_owned(),
            port,
            database: "postgres".to_owned(),
            settings: Vec::new(),
            child: Mutex::new(None),
        };
        server.ask(&format!("CREATE DATABASE \"{database}\""));
        server.database = database;
        server
    }

    /// A new one with these settings, `name=value`; none where PostgreSQL is not installed.
    ///
    /// # Panics
    /// It does not start, or is required and not installed.
    pub fn start(settings: &[&str]) -> Option<Server> {
        let Some(programs) = programs() else {
            let required = std::env::var_os("UNISONO_TEST_POSTGRES_REQUIRED").is_some();
            assert!(!required, "PostgreSQL is not installed");
            eprintln!("skipped: PostgreSQL is not installed");
            return None;
        };
        let directory = own_directory("unisono-pg-");
        let data = directory.path().join("data");
        let made = program(&programs.join("initdb"))
            .args([
                "--auth=trust",
                "--username=unisono",
                "--no-sync",
                "--encoding=UTF8",
            ])
            .args(["--locale=C", "--pgdata"])
            .arg(&data)
            .stdout(Stdio::null())
            .status();
        assert!(made.unwrap().success(), "initdb");
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let server = Server {
            directory,
            programs,
            port,
            database: "postgres".to_owned(),
            settings: settings.iter().map(|&setting| setting.to_owned()).collect(),
            child: Mutex::new(None),
        };
        server.up();
        Some(server)
    }

    /// Starts it again.
    ///
    /// # Panics
    /// It does not take connections.
    pub fn up(&self) {
        let mut command = program(&self.programs.join("postgres"));
        command
            .arg("-D")
            .arg(self.directory.path().join("data"))
            .args([
                "-p",
                &self.port.to_string(),
                "-c",
                "listen_addresses=127.0.0.1",
            ])
            .args([
                "-c",
                "unix_socket_directories=",
                "-c",
                "logging_collector=off",
            ])
            .args(["-c", "max_connections=200", "-c", "shared_buffers=16MB"])
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .stdin(Stdio::null());
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let (reply, ready) = mpsc::channel();
        // The thread lives as long as the process: a server dies with the thread that started it.
        thread::spawn(move || {
            let mut child = command.spawn().unwrap();
            let log = BufReader::new(child.stderr.take().unwrap());
            let mut waiting = Some((reply, child));
            let mut said = Vec::new();
            for line in log.lines().map_while(Result::ok) {
                if line.contains("ready to accept")
                    && let Some((reply, child)) = waiting.take()
                {
                    reply.send(Ok(child)).unwrap();
                }
                said.push(line);
            }
            if let Some((reply, _)) = waiting.take() {
                reply.send(Err(said.join("\n"))).unwrap();
            }
            loop {
                thread::park();
            }
        });
        match ready.recv().unwrap() {
            Ok(child) => *self.child.lock().unwrap() = Some(child),
            Err(said) => panic!("PostgreSQL did not start:\n{said}"),
        }
    }

    /// Ends it at once, as a crash does: every connection breaks.
    pub fn crash(&self) {
        self.end("QUIT");
    }

    /// Stops it and all of its processes where they are, or lets them go on.
    pub fn pause(&self, stopped: bool) {
        let signal = if stopped { "STOP" } else { "CONT" };
        let child = self.child.lock().unwrap();
        let pid = child.as_ref().unwrap().id().to_string();
        // The children of the server, then the server.
        let _ = Command::new("pkill")
            .args([&format!("-{signal}"), "-P", &pid])
            .status();
        kill(&pid, signal);
    }

    /// Makes it a replica, which only reads until it is promoted, from the next start on.
    pub fn stand_by(&self) {
        let file = self.directory.path().join("data/standby.signal");
        std::fs::write(file, "").unwrap();
    }

    fn end(&self, signal: &str) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            let pid = child.id().to_string();
            kill(&pid, signal);
            // One that is paused would never end.
            kill(&pid, "CONT");
            child.wait().unwrap();
        }
    }

    /// Lets a role in with its password alone, from the next start on.
    pub fn require_password(&self, role: &str) {
        let file = self.directory.path().join("data/pg_hba.conf");
        let before = std::fs::read_to_string(&file).unwrap();
        let rule = format!("host all {role} 127.0.0.1/32 scram-sha-256\n");
        std::fs::write(&file, rule + &before).unwrap();
    }

    /// Accepts encrypted connections only, from the next start on. The certificate is that of the tests of
    /// `unisono-model`, for 127.0.0.1.
    pub fn encrypt(&self) {
        let data = self.directory.path().join("data");
        for (name, text) in [
            ("server.crt", include_str!("tls/server.crt")),
            ("server.key", include_str!("tls/server.key")),
        ] {
            let file = data.join(name);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            give_to_program(&file);
        }
        let rule = "hostssl all all 127.0.0.1/32 trust\n";
        std::fs::write(data.join("pg_hba.conf"), rule).unwrap();
        let settings = data.join("postgresql.conf");
        let before = std::fs::read_to_string(&settings).unwrap();
        std::fs::write(&settings, before + "\nssl = on\n").unwrap();
    }

    /// The answer to a query, as `psql` writes it without headings.
    ///
    /// # Panics
    /// It is refused.
    pub fn ask(&self, query: &str) -> String {
        let asked = Command::new(self.client_program("psql"))
            .args(["-XAtq", "-h", "127.0.0.1", "-U", "unisono"])
            .args(["-d", &self.database, "-p", &self.port.to_string()])
            .args(["-c", query])
            .output();
        let asked = asked.unwrap();
        let said = String::from_utf8_lossy(&asked.stderr);
        assert!(asked.status.success(), "{query}: {said}");
        String::from_utf8_lossy(&asked.stdout).trim_end().to_owned()
    }

    /// A client program of the server's installation, or the one on the `PATH`.
    pub fn client_program(&self, name: &str) -> PathBuf {
        let beside = self.programs.join(name);
        match beside.is_file() {
            true => beside,
            false => PathBuf::from(name),
        }
    }

    /// The port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, with the tables in that schema, which has to be made.
    pub fn url(&self, schema: &str) -> String {
        format!(
            "postgres://unisono@127.0.0.1:{}/{}?sslmode=disable&options=-csearch_path%3D{schema}",
            self.port, self.database
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end("QUIT");
    }
}

fn kill(pid: &str, signal: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{signal}"), pid])
        .status();
    assert!(sent.unwrap().success(), "kill -{signal} {pid}");
}

/// A directory for a program that does not run as root.
fn own_directory(prefix: &str) -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix(prefix).tempdir().unwrap();
    give_to_program(directory.path());
    directory
}

/// Gives a file or a directory to whom [`program`] runs as, whatever others may read.
fn give_to_program(path: &Path) {
    if is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// A program that removes a directory when this process ends, as soon as the server there has ended too.
fn remove_at_exit(directory: &Path) -> Child {
    let script = "read -r _; for _ in 1 2 3 4 5 6 7 8 9; do rm -rf \"$0\" && break; sleep 1; done";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(directory);
    // Its input ends with this process.
    command.stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn is_root() -> bool {
    let own = std::fs::metadata("/proc/self").unwrap();
    std::os::unix::fs::MetadataExt::uid(&own) == 0
}

/// A program of the server's, which ends when the thread that started it does.
fn program(path: &Path) -> Command {
    let mut command = Command::new("setpriv");
    // Not KILL, which would leave a segment of shared memory behind: the system has room for 4,096.
    command.arg("--pdeathsig=QUIT");
    if is_root() {
        command.arg(format!("--reuid={NOBODY}"));
        command.arg(format!("--regid={NOBODY}"));
        command.arg("--clear-groups");
    }
    command.arg(path).env("LC_ALL", "C").current_dir("/");
    command
}

/// Where `initdb` and `postgres` are.
fn programs() -> Option<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let installed = installed.filter_map(|version| Some(version.ok()?.path().join("bin")));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&paths).collect::<Vec<_>>();
    all.extend(installed);
    all.into_iter().find(|directory| {
        directory.join("initdb").is_file() && directory.join("postgres").is_file()
    })
}
