//! Facts as single lines, for logs, progress and golden tests.

mod compaction;
mod conversation;
mod runs;
mod tools;
mod turns;

use std::fmt::{self, Display, Formatter};

use unisono_context::{RunId, TurnId};

use super::{Fact, Outcome};

/// The last eight hex digits of an id. The first digits are the time, which related ids share.
struct ShortId(u128);

impl Display for ShortId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0 as u32)
    }
}

fn turn(id: TurnId) -> ShortId {
    ShortId(id.as_u128())
}

fn run(id: RunId) -> ShortId {
    ShortId(id.as_u128())
}

/// Writes the facts of one subject; false for other facts.
type FormatSubject = fn(&Fact, &mut Formatter<'_>) -> Result<bool, fmt::Error>;

const SUBJECTS: [FormatSubject; 5] = [
    conversation::format,
    compaction::format,
    turns::format,
    runs::format,
    tools::format,
];

/// The name, the short id of the turn or run, and the most important values.
impl Display for Fact {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.name())?;
        for format in SUBJECTS {
            if format(self, f)? {
                break;
            }
        }
        Ok(())
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Answered => f.write_str("answered"),
            Outcome::Compacted { before, after } => {
                write!(f, "compacted from {before} to {after} tokens")
            }
            Outcome::Failed { code, reason } => write!(f, "failed ({code}): {reason}"),
            Outcome::Cancelled => f.write_str("cancelled"),
            Outcome::Reverted { before, after } => {
                write!(f, "reverted from {before} to {after} tokens")
            }
        }
    }
}
