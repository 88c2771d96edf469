//! Messages for dialects with only user and model roles, which must alternate.

use std::borrow::Cow;

use unisono_context::Snapshot;
use unisono_context::snapshot::ToolSpec;

use super::label::legend;
use super::tail::own_system;
use super::turns::{Piece, Speaker, turns};
use crate::media::Accepts;
use crate::prompt::Shared;
use crate::prompt::json::Json;

/// The first user message if the model speaks first.
const CONTINUES: &str = "[The conversation goes on from here.]";

/// The role of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The person, what stands for one, and the results of tools.
    User,
    /// The model.
    Model,
}

/// The pieces of a snapshot in the order they are sent. The first is the user's; within a
/// message of the user's side results stand first.
pub(super) fn pieces(snapshot: &Snapshot, accepts: Accepts) -> Vec<(Side, Piece<'_>)> {
    let mut pieces: Vec<(Side, Piece<'_>)> = Vec::new();
    for turn in turns(snapshot, accepts) {
        if turn.speaker == Speaker::Assistant {
            if pieces.is_empty() {
                pieces.push((Side::User, Piece::Text(CONTINUES.into())));
            }
            pieces.extend(turn.pieces.into_iter().map(|piece| (Side::Model, piece)));
            continue;
        }
        let system = turn.speaker == Speaker::System;
        pieces.extend(turn.pieces.into_iter().map(|piece| match piece {
            Piece::Text(text) if system => {
                let note = format!("[system note]\n{text}");
                (Side::User, Piece::Text(note.into()))
            }
            piece => (Side::User, piece),
        }));
    }
    pieces
}

/// The blocks of the system text, none of them blank: the persona of an agent with a prefix of
/// its own, the session's text, the summaries.
pub(super) fn system<'a>(shared: &Shared<'a>) -> Vec<Cow<'a, str>> {
    let persona = shared.own().map(own_system).map(Cow::Owned);
    let context = shared.context().into_iter().flat_map(|snapshot| {
        let session: &str = snapshot.preamble().system();
        let summaries = snapshot.blocks().iter().map(|block| &**block.text());
        let standing = [session, legend(snapshot)].into_iter();
        standing.chain(summaries).map(Cow::Borrowed)
    });
    let blocks = persona.into_iter().chain(context);
    blocks.filter(|text| !text.trim().is_empty()).collect()
}

/// Bytes to expect of a head: its text, an eighth more for escapes, and what is around each
/// piece.
pub(super) fn expected_bytes(
    shared: &Shared<'_>,
    system: &[Cow<'_, str>],
    pieces: &[(Side, Piece<'_>)],
) -> usize {
    let tool = |t: &ToolSpec| t.name.len() + t.description.len() + t.input_schema.len();
    let piece = |(_, piece): &(Side, Piece<'_>)| match piece {
        Piece::Text(text) => text.len(),
        // Nothing of it is escaped; what is added for that is small beside it.
        Piece::File(file) => file.written_bytes(),
        Piece::Call {
            name, arguments, ..
        } => name.len() + arguments.len(),
        Piece::Result { name, content, .. } => name.len() + content.len(),
    };
    let texts = shared.tools.iter().map(tool);
    let texts = texts.chain(system.iter().map(|text| text.len()));
    let texts = texts.chain(pieces.iter().map(piece));
    let schema = shared.output_schema.map_or(0, str::len);
    256 + schema * 2 + texts.map(|bytes| bytes + bytes / 8 + 96).sum::<usize>()
}

/// How a message begins, up to its first piece: `{"role":"user","content":[`.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) user: &'static str,
    pub(super) model: &'static str,
}

/// Writes pieces as messages, one for each run of pieces of the same side.
#[derive(Debug)]
pub(super) struct Contents<'a> {
    json: &'a mut Json,
    opening: &'a Opening,
    side: Side,
    /// Whether the open message has no piece yet.
    empty: bool,
}

impl<'a> Contents<'a> {
    /// Begins with an open message of the user's.
    pub(super) fn begin(json: &'a mut Json, opening: &'a Opening) -> Contents<'a> {
        json.raw(opening.user);
        Contents::resume(json, opening)
    }

    /// Goes on after [`Contents::hand_over`].
    pub(super) fn resume(json: &'a mut Json, opening: &'a Opening) -> Contents<'a> {
        Contents {
            json,
            opening,
            side: Side::User,
            empty: true,
        }
    }

    /// Where the next piece of that side is to be written.
    pub(super) fn piece(&mut self, side: Side) -> &mut Json {
        if self.side != side {
            self.json.raw("]},").raw(match side {
                Side::User => self.opening.user,
                Side::Model => self.opening.model,
            });
            self.side = side;
            self.empty = true;
        }
        if !std::mem::take(&mut self.empty) {
            self.json.raw(",");
        }
        self.json
    }

    /// Whose message is open.
    pub(super) fn side(&self) -> Side {
        self.side
    }

    /// Ends with a message of the user's that is open, for its next piece to follow.
    pub(super) fn hand_over(mut self) {
        self.piece(Side::User);
    }

    /// Closes the open message.
    pub(super) fn close(self) {
        self.json.raw("]}");
    }
}
