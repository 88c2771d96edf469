//! Following a turn to its end: a fold of its events ([`Watch`]), shown as they come
//! ([`Screen`]).

mod answer;
mod asking;
mod feed;
mod follow;
mod member;
mod notice;
pub(crate) mod open;
mod report;
mod screen;
mod watch;

pub(crate) use answer::Answer;
pub(crate) use asking::{Lines, Reply, shown};
pub(crate) use feed::Feed;
pub(crate) use follow::{End, Interrupt, Interrupts, Limits, follow};
pub(crate) use report::{conclude, conclude_delegation, ending, report};
pub(crate) use screen::Screen;
pub(crate) use watch::Watch;
