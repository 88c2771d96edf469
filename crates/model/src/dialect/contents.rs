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
pub(super) const CONTINUES: &str = "[The conversation goes on from here.]";

/// The role of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// A person or text in a person's place, and the results of tools.
    User,
    Model,
}

/// The pieces of a snapshot in the order of the request. The first is of the user's side; in each
/// of its messages, results come first.
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

/// The non-blank blocks of the system text: the persona of an agent with its own prefix, the
/// session's text, the summaries.
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

/// The expected bytes of a head: its text, an eighth more for escapes, and the bytes around each
/// piece.
pub(super) fn expected_bytes(
    shared: &Shared<'_>,
    system: &[Cow<'_, str>],
    pieces: &[(Side, Piece<'_>)],
) -> usize {
    let tool = |t: &ToolSpec| t.name.len() + t.description.len() + t.input_schema.len();
    let piece = |(_, piece): &(Side, Piece<'_>)| match piece {
        Piece::Text(text) => text.len(),
        // A file needs no escapes; the eighth is small beside it.
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

/// The beginning of a message, up to its first piece: `{"role":"user","content":[`.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) user: &'static str,
    pub(super) model: &'static str,
}

/// Writes pieces as messages. Consecutive pieces of one side are one message.
#[derive(Debug)]
pub(super) struct Contents<'a> {
    json: &'a mut Json,
    opening: &'a Opening,
    side: Side,
    /// Whether the open message has no piece yet.
    empty: bool,
}

impl<'a> Contents<'a> {
    /// Begins with an open message of the user.
    pub(super) fn begin(json: &'a mut Json, opening: &'a Opening) -> Contents<'a> {
        json.raw(opening.user);
        Contents::resume(json, opening)
    }

    /// Continues after [`Contents::hand_over`].
    pub(super) fn resume(json: &'a mut Json, opening: &'a Opening) -> Contents<'a> {
        Contents {
            json,
            opening,
            side: Side::User,
            empty: true,
        }
    }

    /// The output for the next piece of that side.
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

    /// The side whose message is open.
    pub(super) fn side(&self) -> Side {
        self.side
    }

    /// Ends with an open message of the user, for its next piece.
    pub(super) fn hand_over(mut self) {
        self.piece(Side::User);
    }

    pub(super) fn close(self) {
        self.json.raw("]}");
    }
}
