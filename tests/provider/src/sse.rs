//! Server-sent events as bytes, in every form that a reader has to take (WHATWG HTML, 9.2.6).

/// One event before it is bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its `event` field, where the dialect names its events.
    pub(crate) event: Option<&'static str>,
    /// Its data: one line.
    pub(crate) data: String,
}

/// The ends of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// A line feed.
    Lf,
    /// Carriage return and line feed.
    CrLf,
    /// A carriage return.
    Cr,
}

/// How events are written. All forms mean the same to a reader of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The ends of lines; none: as the dialect's provider writes them.
    pub line_end: Option<LineEnd>,
    /// A byte order mark comes first.
    pub byte_order_mark: bool,
    /// Comments stand before and within each event.
    pub comments: bool,
    /// Events without data, empty lines and fields of no meaning stand before each event.
    pub empty_events: bool,
    /// An event's data is two lines, broken after its first character where that is a brace.
    pub folded: bool,
    /// No space follows a field's colon.
    pub unspaced: bool,
}

impl Style {
    /// As the provider writes it.
    pub const PLAIN: Style = Style {
        line_end: None,
        byte_order_mark: false,
        comments: false,
        empty_events: false,
        folded: false,
        unspaced: false,
    };

    /// Writes events; also gives the place where each ends.
    pub(crate) fn write(&self, frames: &[Frame], usual: LineEnd) -> (Vec<u8>, Vec<usize>) {
        let end = match self.line_end.unwrap_or(usual) {
            LineEnd::Lf => "\n",
            LineEnd::CrLf => "\r\n",
            LineEnd::Cr => "\r",
        };
        let mut out = String::new();
        if self.byte_order_mark {
            out.push('\u{feff}');
        }
        let mut ends = Vec::with_capacity(frames.len());
        for frame in frames {
            self.event(&mut out, frame, end);
            ends.push(out.len());
        }
        (out.into_bytes(), ends)
    }

    fn event(&self, out: &mut String, frame: &Frame, end: &str) {
        let colon = if self.unspaced { ":" } else { ": " };
        let mut line = |parts: [&str; 3]| {
            parts.iter().for_each(|part| out.push_str(part));
            out.push_str(end);
        };
        if self.comments {
            line([": keep-alive", "", ""]);
            line(["", "", ""]);
        }
        if self.empty_events {
            line(["", "", ""]);
            line(["event", colon, "nothing"]);
            line(["data", "", ""]);
            line(["retry", colon, "3000"]);
            line(["", "", ""]);
        }
        if let Some(event) = frame.event {
            line(["event", colon, event]);
        }
        if self.comments {
            line([":", "data: not data", ""]);
        }
        match frame.data.strip_prefix('{') {
            Some(rest) if self.folded => {
                line(["data", colon, "{"]);
                line(["data", colon, rest]);
            }
            _ => line(["data", colon, &frame.data]),
        }
        line(["", "", ""]);
    }
}

#[cfg(test)]
mod tests {
    //! Every form of one event.

    use super::*;

    fn written(style: Style) -> String {
        let frame = Frame {
            event: Some("ping"),
            data: r#"{"a":1}"#.into(),
        };
        let (bytes, ends) = style.write(&[frame], LineEnd::Lf);
        assert_eq!(ends, [bytes.len()]);
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn each_style_writes_the_event_its_way() {
        let cases = [
            (Style::PLAIN, "event: ping\ndata: {\"a\":1}\n\n"),
            (
                Style {
                    line_end: Some(LineEnd::CrLf),
                    ..Style::PLAIN
                },
                "event: ping\r\ndata: {\"a\":1}\r\n\r\n",
            ),
            (
                Style {
                    line_end: Some(LineEnd::Cr),
                    byte_order_mark: true,
                    ..Style::PLAIN
                },
                "\u{feff}event: ping\rdata: {\"a\":1}\r\r",
            ),
            (
                Style {
                    comments: true,
                    ..Style::PLAIN
                },
                ": keep-alive\n\nevent: ping\n:data: not data\ndata: {\"a\":1}\n\n",
            ),
            (
                Style {
                    empty_events: true,
                    ..Style::PLAIN
                },
                "\nevent: nothing\ndata\nretry: 3000\n\nevent: ping\ndata: {\"a\":1}\n\n",
            ),
            (
                Style {
                    folded: true,
                    unspaced: true,
                    ..Style::PLAIN
                },
                "event:ping\ndata:{\ndata:\"a\":1}\n\n",
            ),
        ];
        for (style, expected) in cases {
            assert_eq!(written(style), expected);
        }
    }
}
