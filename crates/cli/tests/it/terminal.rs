//! A program that is talked to while it runs: over pipes, or at a terminal of its own.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::support::{PATIENCE, send_signal, wait};

/// A child with both ends of its conversation.
pub(crate) struct Talking {
    child: Child,
    input: Option<Box<dyn Write>>,
    pieces: Receiver<String>,
    seen: String,
    /// What was waited for, and all before it since the wait before.
    before: String,
}

impl Talking {
    pub(crate) fn with(
        child: Child,
        input: impl Write + 'static,
        output: impl Read + Send + 'static,
    ) -> Talking {
        let (send, pieces) = mpsc::channel();
        thread::spawn(move || {
            let (mut output, mut bytes) = (BufReader::new(output), [0; 4_096]);
            let mut read = Vec::new();
            while let Ok(n @ 1..) = output.read(&mut bytes) {
                read.extend_from_slice(&bytes[..n]);
                if send.send(whole_characters(&mut read)).is_err() {
                    return;
                }
            }
        });
        Talking {
            child,
            input: Some(Box::new(input)),
            pieces,
            seen: String::new(),
            before: String::new(),
        }
    }

    pub(crate) fn at_a_terminal(command: Command) -> Talking {
        Talking::at_a_terminal_of("xterm", command)
    }

    pub(crate) fn at_a_terminal_of(kind: &str, mut command: Command) -> Talking {
        let (ours, theirs) = terminal();
        let stdio = || Stdio::from(theirs.try_clone().unwrap());
        command
            .env("TERM", kind)
            .env("NO_COLOR", "1")
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio());
        let child = command.spawn().unwrap();
        let input = ours.try_clone().unwrap();
        Talking::with(child, File::from(input), File::from(ours))
    }

    /// What was shown and not waited for.
    pub(crate) fn seen(&self) -> &str {
        &self.seen
    }

    /// What was shown before what was waited for last, and that.
    pub(crate) fn before(&self) -> &str {
        &self.before
    }

    pub(crate) fn say(&mut self, text: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Waits until that is shown; what was before it is forgotten.
    #[track_caller]
    pub(crate) fn sees(&mut self, text: &str) {
        loop {
            if let Some((before, rest)) = self.seen.split_once(text) {
                self.before = format!("{before}{text}");
                self.seen = rest.to_owned();
                return;
            }
            match self.pieces.recv_timeout(PATIENCE) {
                Ok(piece) => self.seen += &piece,
                Err(_) => panic!("{text:?} was not shown: {:?}", self.seen),
            }
        }
    }

    /// All that it shows until it ends.
    #[track_caller]
    pub(crate) fn all(mut self) -> String {
        self.input.take();
        let Talking {
            child,
            pieces,
            seen,
            ..
        } = &mut self;
        while let Ok(piece) = pieces.recv_timeout(PATIENCE) {
            *seen += &piece;
        }
        child.wait().unwrap();
        self.seen.replace("\r\n", "\n")
    }

    /// Interrupts it, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        send_signal("INT", &self.child.id().to_string());
    }

    /// Interrupts it; the way in which it ended.
    #[track_caller]
    pub(crate) fn interrupted(mut self) -> ExitStatus {
        self.interrupt();
        wait(&mut self.child).expect("it did not end")
    }

    #[track_caller]
    pub(crate) fn ends(mut self) {
        self.input.take();
        let done = thread::spawn(move || self.child.wait().unwrap())
            .join()
            .unwrap();
        assert!(done.success(), "{done}");
    }
}

/// Takes the text from these bytes. The bytes of a character that is not complete stay.
fn whole_characters(bytes: &mut Vec<u8>) -> String {
    let incomplete = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.split_off(error.valid_up_to()),
        _ => Vec::new(),
    };
    let whole = std::mem::replace(bytes, incomplete);
    String::from_utf8_lossy(&whole).into_owned()
}

#[test]
fn a_character_that_arrives_in_two_pieces_is_one_character() {
    let (mut read, mut shown) = (Vec::new(), String::new());
    for byte in "Größe: 3 € \u{1f980}".bytes() {
        read.push(byte);
        shown += &whole_characters(&mut read);
    }
    assert_eq!((shown.as_str(), read.len()), ("Größe: 3 € \u{1f980}", 0));
    read.extend(b"a\xffb");
    assert_eq!(whole_characters(&mut read), "a\u{fffd}b");
}

/// Both sides of a new terminal.
fn terminal() -> (OwnedFd, OwnedFd) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = File::options()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    (ours, theirs.into())
}
