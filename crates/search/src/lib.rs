//! Full-text search over what was said in all sessions: a derived index, never the truth.
//!
//! The index lies beside the journal, follows it, and is made anew from it whenever it is lost,
//! damaged, or of another version. [`Search`] keeps it and answers; [`Query`] reads what a person
//! asks for; [`Search::recall`] is what agents ask, bound to the branch they were given.
//!
//! What belongs here: tantivy, and everything about words. What does not: deciding who may see what
//! (the caller names the branch), and the text itself (the journal has it).

mod cancel;
mod catch_up;
mod error;
mod excerpt;
mod find;
mod follow;
mod index;
mod query;
mod recall;
mod service;
mod within;
mod words;
mod writer;

pub use error::{Error, Result};
pub use excerpt::{Excerpt, excerpt};
pub use find::Found;
pub use follow::Committed;
pub use index::{directory, remove};
pub use query::{
    Bound, Clause, Filters, MAX_BYTES, MAX_TERMS, Need, Query, TooLarge, instant, role,
};
pub use recall::Recalled;
pub use service::{Answer, Condition, Scope, Search, compact};
pub use within::Branch;
pub use writer::{OWNER, Placed};
