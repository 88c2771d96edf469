//! Following a turn to its end: what the service tells of it ([`Watch`]), shown as it comes
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
pub(crate) use asking::{Lines, Reply, shown};
pub(crate) use follow::{End, Followed, Interrupt, Interrupts, Limits, follow};
pub(crate) use report::{conclude, conclude_delegation, ending, report};
pub(crate) use screen::Screen;
pub(crate) use watch::Watch;
