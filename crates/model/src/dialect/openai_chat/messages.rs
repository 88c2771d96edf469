//! The beginning and the user's side of a head's messages, alike in both of OpenAI's dialects.
//!
//! Since GPT-5.6 a prompt is cached only at breakpoints. The provider sets one itself, at the
//! newest message, where agents with the same context and different tasks share nothing. A request
//! to a model with breakpoints therefore has three more: the end of tools and system text; the
//! user's last message before the newest one, where the head of the turn before ended; and the
//! newest one, where this head ends. Four are the maximum. Only blocks of system and user text can
//! have one (`prompt_cache_breakpoint`, "Prompt caching").

use unisono_context::snapshot::{Block, ToolSpec};

use crate::dialect::label::{LEGEND, legend};
use crate::dialect::tail::own_system;
use crate::dialect::turns::{File, Piece, Speaker, Turn};
use crate::prompt::Shared;
use crate::prompt::json::Json;

/// The text between texts of one message.
pub(in crate::dialect) const GAP: &str = r"\n\n";
const BREAKPOINT: &str = r#","prompt_cache_breakpoint":{"mode":"explicit"}"#;
/// How many of the user's messages end in a breakpoint.
const MARKED: usize = 2;

/// Writes the messages of a head. The user's text stays open as long as possible, so that the next
/// text can continue it.
pub(in crate::dialect) struct Messages<'j> {
    json: &'j mut Json,
    /// The type of a block of text.
    block: &'static str,
    breakpoints: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Empty,
    /// After a message.
    Closed,
    /// In the text of a message of the user.
    Open,
    /// In the list of blocks of a message of the user.
    Blocks,
}

impl<'j> Messages<'j> {
    /// Begins in a list that the caller has opened.
    pub(in crate::dialect) fn begin(
        json: &'j mut Json,
        block: &'static str,
        breakpoints: bool,
    ) -> Messages<'j> {
        Messages {
            json,
            block,
            breakpoints,
            state: State::Empty,
        }
    }

    /// The persona of an agent whose prefix is its own, the session's text and the summaries, as
    /// one system message.
    pub(in crate::dialect) fn system(&mut self, shared: &Shared<'_>) {
        let context = shared.context();
        let persona = shared.own().map(own_system).unwrap_or_default();
        let session = context.map_or("", |snapshot| snapshot.preamble().system());
        let summaries = context.map_or(&[][..], |snapshot| snapshot.blocks());
        let legend = context.map_or("", legend);
        let standing = [&*persona, session, legend]
            .into_iter()
            .filter(|text| has_text(text));
        let standing: Vec<&str> = standing.collect();
        let summaries: Vec<&str> = summaries.iter().map(Block::text).map(|t| &**t).collect();
        if standing.is_empty() && summaries.is_empty() {
            return;
        }
        let (block, breakpoints) = (self.block, self.breakpoints);
        let json = self.message();
        json.raw(r#"{"role":"system","content":"#);
        if breakpoints {
            let blocks = [(&standing, true), (&summaries, false)];
            let blocks = blocks.into_iter().filter(|(texts, _)| !texts.is_empty());
            json.list(blocks, |json, (texts, marked)| {
                write_block(json, block, texts.iter().copied(), marked);
            });
        } else {
            json.raw("\"");
            join(json, standing.into_iter().chain(summaries));
            json.raw("\"");
        }
        json.raw("}");
    }

    /// Texts of the user's side. `marked`: they end in a breakpoint, if the model takes
    /// breakpoints.
    pub(in crate::dialect) fn user<'t>(
        &mut self,
        texts: impl IntoIterator<Item = &'t str>,
        marked: bool,
    ) {
        if marked && self.breakpoints {
            let block = self.block;
            let json = self.message();
            json.raw(r#"{"role":"user","content":["#);
            write_block(json, block, texts, true);
            json.raw("]}");
            return;
        }
        match self.state {
            State::Open => {
                self.json.raw(GAP);
            }
            State::Blocks => {
                self.json.raw(r#","#);
                write_block(self.json, self.block, texts, false);
                return;
            }
            State::Empty | State::Closed => {
                self.message().raw(r#"{"role":"user","content":""#);
            }
        }
        join(self.json, texts);
        self.state = State::Open;
    }

    /// Texts and files of the user's side, each a block of its own. `write` writes a file. The list
    /// stays open for what the user says next. `marked`: its last text ends in a breakpoint.
    pub(in crate::dialect) fn user_blocks(
        &mut self,
        turn: &Turn<'_>,
        marked: bool,
        write: fn(&mut Json, &File<'_>),
    ) {
        let (block, breakpoints) = (self.block, self.breakpoints);
        let is_text = |piece: &Piece<'_>| matches!(piece, Piece::Text(_));
        let last = turn.pieces.iter().rposition(is_text);
        let goes_on = self.state == State::Blocks;
        if !goes_on {
            self.message().raw(r#"{"role":"user","content":["#);
        }
        for (at, piece) in turn.pieces.iter().enumerate() {
            self.json.raw(if at > 0 || goes_on { "," } else { "" });
            match piece {
                Piece::File(file) => write(self.json, file),
                Piece::Text(text) => {
                    let ends = marked && breakpoints && Some(at) == last;
                    write_block(self.json, block, [&**text], ends);
                }
                Piece::Call { .. } | Piece::Result { .. } => {}
            }
        }
        self.state = State::Blocks;
    }

    /// The output for the next message.
    pub(in crate::dialect) fn message(&mut self) -> &mut Json {
        self.json.raw(match self.state {
            State::Empty => "",
            State::Closed => ",",
            State::Open => r#""},"#,
            State::Blocks => "]},",
        });
        self.state = State::Closed;
        self.json
    }

    /// Ends inside the text of a message of the user, which the tail continues.
    pub(in crate::dialect) fn hand_over(mut self) {
        if self.state == State::Blocks {
            self.json.raw(r#",{"type":"#).string(self.block);
            self.json.raw(OPEN_BLOCK);
            return;
        }
        self.user([""], false);
    }
}

/// The end of a head whose last text is a block in a list. No other head ends like this, because a
/// quotation mark inside a text is escaped.
const OPEN_BLOCK: &str = r#","text":""#;

/// Closes the user's message at the end of a head.
pub(in crate::dialect) fn closing(head: &[u8]) -> &'static str {
    match head.ends_with(OPEN_BLOCK.as_bytes()) {
        true => r#""}]}"#,
        false => r#""}"#,
    }
}

pub(in crate::dialect) fn has_files(turn: &Turn<'_>) -> bool {
    let mut pieces = turn.pieces.iter();
    pieces.any(|piece| matches!(piece, Piece::File(_)))
}

/// The turns with whether they end in a breakpoint.
pub(in crate::dialect) fn marked<'t, 's>(
    turns: &'t [Turn<'s>],
) -> impl Iterator<Item = (&'t Turn<'s>, bool)> {
    let of_user = |turn: &Turn<'_>| turn.speaker == Speaker::User;
    let mut before = turns.iter().filter(|turn| of_user(turn)).count();
    turns.iter().map(move |turn| {
        let marked = of_user(turn) && before <= MARKED;
        before -= usize::from(of_user(turn));
        (turn, marked)
    })
}

pub(in crate::dialect) fn texts<'t>(turn: &'t Turn<'_>) -> impl Iterator<Item = &'t str> {
    turn.pieces.iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(&**text),
        Piece::Call { .. } | Piece::Result { .. } | Piece::File(_) => None,
    })
}

/// Room for all texts, an eighth more for escapes, and what surrounds each.
pub(in crate::dialect) fn expected_bytes(shared: &Shared<'_>, turns: &[Turn<'_>]) -> usize {
    let piece = |piece: &Piece<'_>| match piece {
        Piece::Text(text) => text.len() + 64,
        Piece::File(file) => file.written_bytes() + 96,
        Piece::Call {
            name, arguments, ..
        } => name.len() + arguments.len() + 112,
        Piece::Result { content, .. } => content.len() + 80,
    };
    let tool = |t: &ToolSpec| t.name.len() + t.description.len() + t.input_schema.len() + 112;
    let summaries = shared
        .context()
        .map_or(&[][..], |snapshot| snapshot.blocks());
    let system = shared.context().map_or(0, |s| s.preamble().system().len())
        + shared
            .own()
            .map_or(0, |own| own.instructions.len() + own.description.len())
        + summaries
            .iter()
            .map(|block| block.text().len())
            .sum::<usize>();
    let said: usize = turns.iter().flat_map(|turn| &turn.pieces).map(piece).sum();
    let text = system + said;
    512 + LEGEND.len()
        + text
        + text / 8
        + shared.tools.iter().map(tool).sum::<usize>()
        + shared.output_schema.map_or(0, str::len)
}

fn has_text(text: &str) -> bool {
    !text.trim().is_empty()
}

fn write_block<'t>(
    json: &mut Json,
    block: &str,
    texts: impl IntoIterator<Item = &'t str>,
    marked: bool,
) {
    json.raw(r#"{"type":"#).string(block);
    json.raw(r#","text":""#);
    join(json, texts);
    json.raw("\"")
        .raw(if marked { BREAKPOINT } else { "" })
        .raw("}");
}

fn join<'t>(json: &mut Json, texts: impl IntoIterator<Item = &'t str>) {
    for (at, text) in texts.into_iter().enumerate() {
        json.raw(if at > 0 { GAP } else { "" }).inside(text);
    }
}
