//! The effect of each input, case by case, and a complete turn in its journal.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unreachable_pub, reason = "the modules of one test binary")]

mod accepting;
mod appending;
mod arrivals;
mod behind;
mod calling;
mod client_tools;
mod compacting;
mod delegating;
mod golden;
mod keyed;
mod looking_back;
mod measuring;
mod permitting;
mod pinning;
mod pipeline;
mod preparing;
mod prepaying;
mod repairing;
mod reserving;
mod reverting;
mod rewriting;
mod rounds;
mod running;
mod setting;
mod sharing;
mod shell;
mod timing;
mod topics;
