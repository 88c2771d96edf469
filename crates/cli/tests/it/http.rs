//! A daemon and a plain client of it. Requests are written as they go over the wire, so that a
//! test can send what no library would.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::support::{Going, PATIENCE, Place, awaited};

pub(crate) struct Daemon {
    pub(crate) going: Going,
    pub(crate) address: String,
    pub(crate) token: String,
}

impl Daemon {
    /// Starts one on a free port and waits until it listens.
    pub(crate) fn start(place: &Place) -> Daemon {
        Daemon::of(place, place.command(&["serve", "--bind", "127.0.0.1:0"]))
    }

    /// The same with the key of the fake provider.
    pub(crate) fn keyed(place: &Place) -> Daemon {
        Daemon::of(
            place,
            place.keyed_command(&["serve", "--bind", "127.0.0.1:0"]),
        )
    }

    /// The same with a command of one's own.
    pub(crate) fn of(place: &Place, command: std::process::Command) -> Daemon {
        let mut going = Going::start(command);
        let line = going.wait_for(&["listening"]);
        let (_, address) = line.split_once("http://").unwrap();
        let token = std::fs::read_to_string(place.path("settings/unisono/token")).unwrap();
        Daemon {
            going,
            address: address.trim().to_owned(),
            token: token.trim().to_owned(),
        }
    }

    /// A request with the token, and with JSON where there is a body.
    pub(crate) fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        self.request_with(method, path, &[], body)
    }

    pub(crate) fn request_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Reply {
        self.request_as(&self.token, method, path, headers, body)
    }

    /// The same with another token.
    pub(crate) fn request_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Reply {
        let json = body.map(|_| ("Content-Type", "application/json"));
        let headers: Vec<_> = json.into_iter().chain(headers.iter().copied()).collect();
        let body = body.map(Value::to_string).unwrap_or_default();
        self.send_as(token, method, path, &headers, body.as_bytes())
    }

    pub(crate) fn send_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let bearer = format!("Bearer {token}");
        let own = [("Host", self.address.as_str()), ("Authorization", &bearer)];
        let headers = [&own[..], headers].concat();
        self.send(&head(method, path, &headers, body.len()), body)
    }

    pub(crate) fn post_bytes(&self, path: &str, kind: &str, body: &[u8]) -> Reply {
        self.send_as(&self.token, "POST", path, &[("Content-Type", kind)], body)
    }

    /// Makes a session. Returns its id.
    pub(crate) fn session(&self, new: &Value) -> String {
        let made = self.post("/v1/sessions", new).expect(201).json();
        made["session"].as_str().unwrap().to_owned()
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.request("GET", path, None)
    }

    /// The JSON at a path, which must be there.
    #[track_caller]
    pub(crate) fn json(&self, path: &str) -> Value {
        self.get(path).expect(200).json()
    }

    /// The text at a path, which must be there.
    #[track_caller]
    pub(crate) fn text(&self, path: &str) -> String {
        self.get(path).expect(200).text()
    }

    /// What is at a path, as soon as it is so.
    #[track_caller]
    pub(crate) fn awaited(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        awaited(|| {
            let seen = self.json(path);
            match is_so(&seen) {
                true => Ok(seen),
                false => Err(seen),
            }
        })
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.request("POST", path, Some(body))
    }

    /// The JSON with which a request is answered, which must be accepted.
    #[track_caller]
    pub(crate) fn posted(&self, path: &str, body: &Value) -> Value {
        self.post(path, body).expect(200).json()
    }

    pub(crate) fn delete(&self, path: &str) -> Reply {
        self.request("DELETE", path, None)
    }

    /// The events of a session, from the first one on.
    pub(crate) fn events(&self, session: &str) -> Events {
        let path = format!("/v1/sessions/{session}/events?after=0");
        self.get(&path).expect(200).events()
    }

    /// Sends these bytes and reads the head of the reply.
    pub(crate) fn send(&self, head: &str, body: &[u8]) -> Reply {
        send_to(&self.address, head, body)
    }

    /// SIGKILL; it is gone when this returns.
    pub(crate) fn kill(self) {
        self.going.kill();
    }

    /// Ends it as a service manager does.
    pub(crate) fn stop(self) {
        self.going.signal("TERM");
        self.going.finish().expect(0).says(&["stopped"]);
    }
}

/// Sends these bytes there and reads the head of the reply.
pub(crate) fn send_to(address: &str, head: &str, body: &[u8]) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    // A server that refuses a body need not read it.
    stream.write_all(body).ok();
    Reply::read(stream)
}

/// The head of a request whose connection ends with its reply.
pub(crate) fn head(method: &str, path: &str, headers: &[(&str, &str)], length: usize) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if length > 0 {
        head += &format!("Content-Length: {length}\r\n");
    }
    head + "\r\n"
}

/// Sends only the head of a request, and waits until the server asks for the body.
pub(crate) fn half_sent(address: &str, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut said = [0; 12];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"HTTP/1.1 100");
    stream
}

/// The head of a request with JSON and a token, to an address.
pub(crate) fn json_head(
    (address, token): (&str, &str),
    method: &str,
    path: &str,
    more: &[(&str, &str)],
    length: usize,
) -> String {
    let bearer = format!("Bearer {token}");
    let own = [
        ("Host", address),
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    head(method, path, &[&own[..], more].concat(), length)
}

/// A reply, its body still to be read.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    reader: BufReader<TcpStream>,
}

impl Reply {
    fn read(stream: TcpStream) -> Reply {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let status = line
            .split(' ')
            .nth(1)
            .unwrap_or_else(|| panic!("no reply: {line:?}"));
        let status = status.parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            match line.trim_end().split_once(": ") {
                Some((name, value)) => headers.push((name.to_lowercase(), value.to_owned())),
                None => break,
            }
        }
        Reply {
            status,
            headers,
            reader,
        }
    }

    /// The branch that the first event of a chat names. The chat is followed to its end.
    pub(crate) fn branch(self) -> String {
        let mut events = self.events();
        let start: Value = serde_json::from_str(&events.next().unwrap().data).unwrap();
        events.for_each(drop);
        let branch = &start["messageMetadata"]["branch"];
        branch.as_str().unwrap().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(known, _)| known == name);
        named.next().map(|(_, value)| value.as_str())
    }

    fn is_chunked(&self) -> bool {
        self.header("transfer-encoding") == Some("chunked")
    }

    /// The next piece of a body that comes in pieces; none at its end.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let length = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut bytes = vec![0; length + 2];
        self.reader.read_exact(&mut bytes).ok()?;
        bytes.truncate(length);
        (length > 0).then_some(bytes)
    }

    pub(crate) fn text(mut self) -> String {
        let mut bytes = Vec::new();
        if self.is_chunked() {
            while let Some(chunk) = self.chunk() {
                bytes.extend(chunk);
            }
        } else {
            self.reader.read_to_end(&mut bytes).unwrap();
        }
        String::from_utf8(bytes).unwrap()
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Reply {
        if self.status == status {
            return self;
        }
        let found = self.status;
        panic!("{found} instead of {status}: {}", self.text());
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// A problem of that kind; what happened.
    #[track_caller]
    pub(crate) fn problem(self, code: &str) -> String {
        let kind = self.header("content-type").map(str::to_owned);
        let status = self.status;
        let body = self.json();
        assert_eq!(kind.as_deref(), Some("application/problem+json"), "{body}");
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body["status"], status, "{body}");
        assert_eq!(body["type"], format!("/problems/{code}"));
        body["detail"].as_str().unwrap().to_owned()
    }

    /// A problem with that status and of that kind; what happened.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> String {
        self.expect(status).problem(code)
    }

    /// The events of a stream, as they come.
    pub(crate) fn events(self) -> Events {
        Events {
            reply: self,
            buffer: String::new(),
        }
    }
}

/// Server-sent events.
pub(crate) struct Events {
    reply: Reply,
    buffer: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: String,
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let event = event(block);
                self.buffer = rest.to_owned();
                match event {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let chunk = self.reply.chunk()?;
            self.buffer += std::str::from_utf8(&chunk).unwrap();
        }
    }
}

/// An event; none for a comment.
fn event(block: &str) -> Option<Event> {
    let field = |name: &str| {
        let mut lines = block.lines().filter_map(|line| line.strip_prefix(name));
        lines.next().map(|value| value.trim_start().to_owned())
    };
    Some(Event {
        id: field("id:").map(|id| id.parse().unwrap()),
        name: field("event:").unwrap_or_default(),
        data: field("data:")?,
    })
}
