//! The introductions of a prompt's placeholders.

use super::wrap::{CONVERSATION, CUTOFF, EARLIER, KEPT, RECENT, REQUEST, wrap};

/// The end of every part but the last.
pub(super) const GOES_ON: &str = "The messages go on after this part. You are given the next part together \
                       with what you write now, and nothing else of this one.";

/// The summary of earlier checkpoints.
pub(super) fn prior(guarded: &str) -> String {
    introduced(
        "The summary of all messages before these. Carry over what still holds, and correct what \
         these messages change:",
        EARLIER,
        guarded,
    )
}

/// The summary of the earlier parts.
pub(super) fn so_far(guarded: &str) -> String {
    introduced(
        "Your summary so far, of all messages before these. Write it anew so that it covers these \
         too: carry over what still holds, and correct what these messages change:",
        EARLIER,
        guarded,
    )
}

/// The additional instructions of the user.
pub(super) fn added(guarded: &str) -> String {
    introduced(
        "The person who asked for the summary adds the following. Do as it says where it is about \
         what the summary keeps and how it is written:",
        REQUEST,
        guarded,
    )
}

/// The text of a person with which the summary begins.
pub(super) fn kept(guarded: &str) -> String {
    introduced(
        "A person wrote the following summary of earlier messages. It is put before yours as it is. \
         Do not repeat it, and do not contradict it except where later messages change it: then say \
         what changed:",
        KEPT,
        guarded,
    )
}

/// The messages after the cutoff.
pub(super) fn followed(guarded: &str) -> String {
    format!(
        "<{CUTOFF}>\nThe cutoff: what follows is not to be summarised, it stays as it is. It only \
         shows what matters from here on.\n{}",
        wrap(RECENT, guarded)
    )
}

/// The messages to summarise.
pub(super) fn conversation(guarded: &str) -> String {
    wrap(CONVERSATION, guarded)
}

/// The heading of the rest of a message that began in the part before.
pub(super) fn continued(title: &str) -> String {
    format!("<{title}, continued>\n")
}

fn introduced(words: &str, tag: &str, guarded: &str) -> String {
    format!("{words}\n{}", wrap(tag, guarded))
}
