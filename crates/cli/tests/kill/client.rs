//! A client that follows a turn over kills of the daemon and receives each event once.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::life::{self, Death};
use crate::people::Question;
use crate::scene::{Scene, Shape, TASK};
use crate::support::PATIENCE;

pub(crate) struct Daemon {
    pub(crate) child: Child,
    address: String,
    token: String,
}

impl Daemon {
    /// Starts it; none: it died before it listened.
    pub(crate) fn start(scene: &Scene, death: Death) -> Result<Option<Daemon>, String> {
        let mut command = scene.command(&["serve", "--bind", "127.0.0.1:0", "--json"]);
        death.tell(&mut command);
        command.stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or("it has no output")?;
        let read = BufReader::new(out).read_line(&mut line);
        read.map_err(|error| error.to_string())?;
        let Ok(received) = serde_json::from_str::<Value>(&line) else {
            return match life::wait(&mut child, || false)? {
                true => Err("the daemon ended by itself".to_owned()),
                false => Ok(None),
            };
        };
        let token = received["token_file"].as_str().unwrap_or_default();
        let token = std::fs::read_to_string(token).map_err(|error| error.to_string())?;
        let url = received["url"].as_str().unwrap_or_default();
        Ok(Some(Daemon {
            child,
            address: url.trim_start_matches("http://").to_owned(),
            token: token.trim().to_owned(),
        }))
    }

    fn send(&self, method: &str, path: &str, more: &str, body: &str) -> io::Result<Stream> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (address, token, length) = (&self.address, &self.token, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             {more}\r\n{body}"
        )?;
        let mut reader = BufReader::new(stream);
        let mut status = String::new();
        reader.read_line(&mut status)?;
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            line.clear();
        }
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Stream { code, reader })
    }

    /// The only session there is.
    pub(crate) fn session(&self) -> io::Result<String> {
        let listed = self.send("GET", "/v1/sessions", "", "")?.json()?;
        let session = listed["items"][0]["session"].as_str();
        Ok(session.unwrap_or_default().to_owned())
    }

    /// Hands in the turn, under the same key in every life; whether that was acknowledged.
    pub(crate) fn ask(&self, session: &str, shape: Shape) -> io::Result<bool> {
        let (lead, agents) = (shape.lead(), shape.agents());
        let body = json!({"task": TASK, "lead": lead, "agents": agents, "wait": false});
        let path = format!("/v1/sessions/{session}/turns");
        let key = "Idempotency-Key: the-only-turn\r\n";
        let reply = self.send("POST", &path, key, &body.to_string())?;
        Ok(reply.code == 202)
    }

    /// The calls that wait for a person.
    pub(crate) fn waiting(&self) -> io::Result<Value> {
        let mut page = self.send("GET", "/v1/approvals", "", "")?.json()?;
        Ok(page["items"].take())
    }

    /// Answers one; the reply's code.
    pub(crate) fn answer(&self, question: &Question) -> io::Result<u16> {
        let body = json!({"decision": question.verdict, "text": question.text});
        let path = format!("/v1/approvals/{}", question.call);
        let reply = self.send("POST", &path, "", &body.to_string())?;
        Ok(reply.code)
    }

    /// Follows events from where the client was, until the turn ends or the daemon does. Whether
    /// the turn ended. `wanted` does what a person does when a call may wait for them, and says
    /// whether the daemon lives.
    pub(crate) fn follow(
        &self,
        session: &str,
        received: &mut Vec<ReceivedEvent>,
        mut wanted: impl FnMut() -> bool,
    ) -> io::Result<bool> {
        let last = received.last().map_or(0, |received| received.seq);
        let more = format!("Last-Event-ID: {last}\r\n");
        let path = format!("/v1/sessions/{session}/events");
        let mut stream = self.send("GET", &path, &more, "")?;
        let mut text = String::new();
        while let Some(piece) = stream.chunk()? {
            text += &String::from_utf8_lossy(&piece);
            while let Some((block, rest)) = text.split_once("\n\n") {
                let event = ReceivedEvent::read(block);
                text = rest.to_owned();
                let Some(event) = event else { continue };
                let kind = event.kind.clone();
                received.push(event);
                match kind.as_str() {
                    "turn_ended" => return Ok(true),
                    "tools_called" | "tool_in_doubt" if !wanted() => return Ok(false),
                    _ => {}
                }
            }
        }
        Ok(false)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may be dead; it is reaped here in any case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A reply, its body to be read.
struct Stream {
    code: u16,
    reader: BufReader<TcpStream>,
}

impl Stream {
    /// The next piece of a body that comes in pieces; none at its end.
    fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let Ok(length) = usize::from_str_radix(line.trim(), 16) else {
            return Ok(None);
        };
        let mut piece = vec![0; length + 2];
        self.reader.read_exact(&mut piece)?;
        piece.truncate(length);
        Ok((length > 0).then_some(piece))
    }

    fn json(mut self) -> io::Result<Value> {
        let mut text = String::new();
        self.reader.read_to_string(&mut text)?;
        Ok(serde_json::from_str(&text)?)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedEvent {
    pub(crate) seq: u64,
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl ReceivedEvent {
    /// An event of the journal; none: progress, or a comment.
    fn read(block: &str) -> Option<ReceivedEvent> {
        let field = |name: &str| {
            let mut lines = block.lines().filter_map(|line| line.strip_prefix(name));
            lines.next().map(str::trim_start)
        };
        let seq = field("id:")?.parse().ok()?;
        let data: Value = serde_json::from_str(field("data:")?).ok()?;
        Some(ReceivedEvent {
            seq,
            kind: field("event:")?.to_owned(),
            text: data["text"].as_str()?.to_owned(),
        })
    }
}
