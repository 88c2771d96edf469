//! Server-sent events (WHATWG HTML, section 9.2.6), read from bytes as they arrive.

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its `event` field; `message` where it has none.
    pub name: &'a str,
    /// Its `data` lines, joined by line feeds.
    pub data: &'a str,
}
