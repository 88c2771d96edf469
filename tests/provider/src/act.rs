//! What the server does with one request: what it says, and how it goes wrong on the way.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::answer::Answer;
use crate::gate::Gate;
use crate::headers::{RateLimits, RetryAfter};
use crate::prepared::Prepared;
use crate::refusal::{ErrorEvent, Refusal};
use crate::sse::Style;

/// What the server does with one request. Cheap to clone; clones share what was rendered.
///
/// ```ignore
/// Act::answer("Hello.")                                  // in the request's dialect and form
/// Act::answer(Answer::text("Hello.")).hold(&gate)        // once the test opens the gate
/// Act::answer("Hello.").end_at(At::Body(40), Ending::Reset)
/// Act::refuse(Refusal::RateLimited { seconds: None }).retry_after(RetryAfter::Seconds(2))
/// Act::html(502)
/// ```
#[derive(Clone, Debug)]
pub struct Act {
    pub(crate) says: Says,
    pub(crate) how: Delivery,
}

/// What is said.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    /// The model answers.
    Answer(Arc<Prepared>),
    /// The provider refuses.
    Refusal(Refusal),
    /// These bytes, whatever was asked for.
    Document {
        status: u16,
        content_type: String,
        body: Bytes,
    },
    /// An answer that does not seem to end.
    Endless { bytes: u64, form: Endless },
    /// The connection is closed before the request has been read.
    HangUp(Stage),
}

/// How it is said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) retry_after: Option<RetryAfter>,
    pub(crate) rate_limits: Option<RateLimits>,
    pub(crate) style: Style,
    pub(crate) framing: Option<Framing>,
    pub(crate) splits: Splits,
    pub(crate) gates: Vec<(At, Gate)>,
    pub(crate) ending: Option<(At, Ending)>,
    pub(crate) doubled: Vec<usize>,
    pub(crate) unterminated: bool,
    pub(crate) error: Option<(usize, Refusal, ErrorEvent)>,
    pub(crate) pace: Option<Pace>,
}

/// A place in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Before its first byte.
    Head,
    /// After that many bytes of status line and headers.
    InHead(usize),
    /// After that many bytes of the body; 0: right after the headers.
    Body(usize),
    /// After that many events of the stream.
    Event(usize),
    /// Before the last event, which is the terminal marker.
    LastEvent,
    /// After the body, before its end is marked where the framing marks it.
    End,
}

/// How a response ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As a complete response of HTTP: what is missing, only its content shows.
    Finish,
    /// The connection is closed in an orderly way.
    Close,
    /// The connection is reset.
    Reset,
    /// Nothing more is sent until the client leaves or the server is dropped.
    Silence,
}

/// When a connection is closed before the request has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// As soon as it is accepted.
    Accept,
    /// When the request's headers have been read.
    Headers,
}

/// How the end of a body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By chunks; what a stream has if nothing else is said. Bytes written apart are chunks of
    /// their own.
    Chunked,
    /// By a `Content-Length`; what a document has if nothing else is said.
    Length,
    /// By a `Content-Length` that is wrong by so many bytes. Positive: the connection is closed
    /// before as many have come as were announced.
    WrongLength(i64),
    /// By the end of the connection.
    Close,
}

/// Where a body is cut into pieces that are written one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Splits {
    /// Nowhere.
    #[default]
    None,
    /// After each event.
    Events,
    /// After each run of that many bytes (at least one).
    Every(usize),
    /// After these bytes.
    At(Vec<usize>),
}

/// What does not seem to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endless {
    /// Pieces of text; a document has one long text.
    Text,
    /// One event whose line goes on.
    Line,
}

/// How fast a model is. The only thing here that takes time of its own; for benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From the request to the first event.
    pub first: Duration,
    /// Output tokens a second after that, spread evenly over the events; 0: no pause.
    pub tokens_per_second: u32,
}

impl Act {
    /// The model answers.
    pub fn answer(answer: impl Into<Answer>) -> Act {
        Act::says(Says::Answer(Arc::new(Prepared::new(answer.into()))))
    }

    /// The provider refuses, in the words of the request's dialect.
    pub fn refuse(refusal: Refusal) -> Act {
        Act::says(Says::Refusal(refusal))
    }

    /// These bytes, whatever was asked for.
    pub fn document(status: u16, content_type: &str, body: impl Into<Bytes>) -> Act {
        Act::says(Says::Document {
            status,
            content_type: content_type.to_owned(),
            body: body.into(),
        })
    }

    /// JSON, whatever was asked for.
    pub fn json(status: u16, body: impl Into<Bytes>) -> Act {
        Act::document(status, "application/json", body)
    }

    /// The page of a proxy that has no idea of models.
    pub fn html(status: u16) -> Act {
        let page = format!(
            "<html>\r\n<head><title>{status}</title></head>\r\n<body>\r\n<center><h1>{status}</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
        );
        Act::document(status, "text/html", page)
    }

    /// An answer of at least that many bytes of text, made while it is sent and no faster than the
    /// client reads. It ends as an answer does; fields that repeat its text are left empty.
    pub fn endless(bytes: u64, form: Endless) -> Act {
        Act::says(Says::Endless { bytes, form })
    }

    /// The connection is closed before the request has been read. In a
    /// [sequence](crate::Script::sequence) only: a closure gets to see whole requests.
    pub fn hang_up(stage: Stage) -> Act {
        Act::says(Says::HangUp(stage))
    }

    /// Nothing is sent, not even a status line.
    pub fn silence() -> Act {
        Act::answer(Answer::empty()).end_at(At::Head, Ending::Silence)
    }

    fn says(says: Says) -> Act {
        Act {
            says,
            how: Delivery::default(),
        }
    }

    /// Answers once the gate is open.
    #[must_use]
    pub fn hold(self, gate: &Gate) -> Act {
        self.hold_at(At::Head, gate)
    }

    /// Goes on from there once the gate is open. In a head only [`At::Head`] is a place to hold.
    #[must_use]
    pub fn hold_at(mut self, place: At, gate: &Gate) -> Act {
        self.how.gates.push((place, gate.clone()));
        self
    }

    /// Ends there. A gate at the same place comes first.
    #[must_use]
    pub fn end_at(mut self, place: At, ending: Ending) -> Act {
        self.how.ending = Some((place, ending));
        self
    }

    /// After that many events the provider fails: an error event, then the regular end of the
    /// response. Of a document only the answer itself is sent.
    #[must_use]
    pub fn fail_after(self, events: usize, refusal: Refusal) -> Act {
        self.fail_after_as(events, refusal, ErrorEvent::default())
    }

    /// The same, with a choice of form where the dialect has several.
    #[must_use]
    pub fn fail_after_as(mut self, events: usize, refusal: Refusal, form: ErrorEvent) -> Act {
        self.how.error = Some((events, refusal, form));
        self
    }

    /// The stream ends without its terminal marker, and otherwise well.
    #[must_use]
    pub fn unterminated(mut self) -> Act {
        self.how.unterminated = true;
        self
    }

    /// Sends the event of that number (from 0) twice.
    #[must_use]
    pub fn double(mut self, event: usize) -> Act {
        self.how.doubled.push(event);
        self
    }

    /// Writes events in that style.
    #[must_use]
    pub fn style(mut self, style: Style) -> Act {
        self.how.style = style;
        self
    }

    /// Marks the end of the body that way.
    #[must_use]
    pub fn framing(mut self, framing: Framing) -> Act {
        self.how.framing = Some(framing);
        self
    }

    /// Writes the body in pieces, each by itself.
    #[must_use]
    pub fn split(mut self, splits: Splits) -> Act {
        self.how.splits = splits;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Act {
        self.how.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(mut self, after: RetryAfter) -> Act {
        self.how.retry_after = Some(after);
        self
    }

    /// Says what is left of the limits, in the dialect's headers.
    #[must_use]
    pub fn rate_limits(mut self, limits: RateLimits) -> Act {
        self.how.rate_limits = Some(limits);
        self
    }

    /// Takes the time a model takes.
    #[must_use]
    pub fn pace(mut self, pace: Pace) -> Act {
        self.how.pace = Some(pace);
        self
    }

    /// Whether the model answers, so that what the request wrote to the cache is there.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self.says, Says::Answer(_) | Says::Endless { .. })
    }

    /// Whether it comes before the request has been read, and when.
    pub(crate) fn early(&self) -> Option<Stage> {
        match self.says {
            Says::HangUp(stage) => Some(stage),
            _ => None,
        }
    }
}

impl From<Answer> for Act {
    fn from(answer: Answer) -> Act {
        Act::answer(answer)
    }
}

impl From<&str> for Act {
    fn from(text: &str) -> Act {
        Act::answer(text)
    }
}
