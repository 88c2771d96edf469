//! PgBouncer in front of a server, for tests.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::{Server, program};

/// A pooler of the database `postgres`, ended with its test.
#[derive(Debug)]
pub struct Pooler {
    child: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Pooler {
    /// A new one with these settings, `name = value`, that keeps no prepared statements; none where
    /// PgBouncer is not installed.
    ///
    /// # Panics
    /// It does not start, or is required and not installed.
    pub fn start(server: &Server, settings: &[&str]) -> Option<Pooler> {
        let Some(installed) = installed() else {
            let required = std::env::var_os("UNISONO_TEST_POSTGRES_REQUIRED").is_some();
            assert!(!required, "PgBouncer is not installed");
            eprintln!("skipped: PgBouncer is not installed");
            return None;
        };
        let directory = crate::own_directory("unisono-pooler-");
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let file = directory.path().join("pgbouncer.ini");
        let keeps = match can_keep_statements(&installed) {
            true => "max_prepared_statements = 0",
            false => "",
        };
        let text = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} user=unisono\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n{keeps}\n{}\n",
            server.port(),
            settings.join("\n")
        );
        std::fs::write(&file, text).unwrap();
        crate::give_to_program(&file);
        let child = started(&installed, &file);
        Some(Pooler {
            child,
            port,
            _directory: directory,
        })
    }

    /// The address of the database behind it.
    #[must_use]
    pub fn url(&self) -> String {
        let port = self.port;
        format!("postgres://unisono@127.0.0.1:{port}/postgres?sslmode=disable")
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts it with the settings in a file, and waits until it takes connections.
fn started(installed: &Path, file: &Path) -> Child {
    let mut command = program(installed);
    command
        .arg(file)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .stdin(Stdio::null());
    let (reply, ready) = mpsc::channel();
    // The thread lives as long as the process: a program ends with the thread that started it.
    thread::spawn(move || {
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut waiting = Some((reply, child));
        for line in log.lines().map_while(Result::ok) {
            if line.contains("process up")
                && let Some((reply, child)) = waiting.take()
            {
                reply.send(child).unwrap();
            }
        }
        // If it ended before, the test fails because nothing is sent.
        drop(waiting);
        loop {
            thread::park();
        }
    });
    ready.recv().unwrap()
}

/// Whether it is of a version that can keep prepared statements: 1.21 or later.
fn can_keep_statements(installed: &Path) -> bool {
    let said = Command::new(installed).arg("--version").output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = said.split_whitespace().nth(1).unwrap_or_default();
    let mut numbers = version
        .split('.')
        .map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(1), Some(21))
}

fn installed() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&paths).collect::<Vec<_>>();
    all.push(PathBuf::from("/usr/sbin"));
    let all = all.into_iter().map(|directory| directory.join("pgbouncer"));
    all.into_iter().find(|program| program.is_file())
}
