//! Follows a turn to its end: the updates of the service ([`Watch`]), shown as they arrive
//! ([`Screen`]).

mod answer;
mod asking;
mod follow;
mod notice;
pub(crate) mod open;
mod report;
mod screen;
mod watch;

pub(crate) use answer::Answer;
pub(crate) use asking::{Lines, Reply, Terminal, prompt_text};
pub(crate) use follow::{End, FollowedTurn, Interrupt, Interrupts, Limits, follow};
pub(crate) use report::{conclude, conclude_delegation, ending, report};
pub(crate) use screen::Screen;
pub(crate) use watch::Watch;
