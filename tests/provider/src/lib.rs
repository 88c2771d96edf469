//! A scripted server that speaks the providers' wire formats on loopback.
//!
//! Tests decide each byte it sends: what an [`Answer`] says, how an [`Act`] delivers it (cut,
//! split, held at a [`Gate`], reset), which act a [`Script`] plays for which request, and what a
//! [`CacheSim`] makes of the prompts. All that was received is [`Recorded`], byte for byte.
//!
//! ```ignore
//! let provider = FakeProvider::play(Script::sequence([
//!     Act::refuse(Refusal::RateLimited { seconds: None }).retry_after(RetryAfter::Seconds(1)),
//!     Act::answer(Answer::text("Done.").in_pieces_of(2)),
//! ]))
//! .await;
//! // … a client talks to provider.url() …
//! let requests = provider.wait_for(2).await;
//! assert_eq!(requests[0].body, requests[1].body);
//! ```
//!
//! It takes the paths of all four dialects below any prefix, tells by path and body whether a
//! stream, a document or a count is asked for, and answers in kind. There are no keys, no models
//! and no limits but those a script has. With [`Builder::every_path`] it stands for a server that is
//! no provider.
//!
//! Values decide (`answer`, `act`, `plan`, `reply`, `cache`); `connection` and `server` carry out.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "all of this crate is test code"
)]

mod act;
mod answer;
mod cache;
mod connection;
mod dialect;
mod endless;
mod gate;
mod headers;
mod http;
mod patience;
mod plan;
mod prepared;
mod recorded;
mod refusal;
mod render;
mod reply;
mod script;
mod server;
mod sse;
pub mod tools;

pub use act::{Act, At, Ending, Endless, Framing, Pace, Splits, Stage};
pub use answer::{Answer, Call, Reasoning, Stop, Usage};
pub use cache::{CacheSettings, CacheSim, CacheUse, Visibility};
pub use dialect::{Dialect, Endpoint, Mode};
pub use gate::Gate;
pub use headers::{RateLimits, RetryAfter, Window};
pub use patience::{PATIENCE, block_on};
pub use recorded::{Keep, Recorded};
pub use refusal::{ErrorEvent, Refusal};
pub use render::{render_count, render_events, render_stream, render_stream_as, render_whole};
pub use script::Script;
pub use server::{Builder, FakeProvider};
pub use sse::{LineEnd, Style};
