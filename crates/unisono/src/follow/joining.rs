//! Joins the small pieces of replies that models stream, so that a stream sends few events.
//!
//! The first piece of a run is sent at once, later ones every 80 ms as one. Nothing is lost, and the
//! pieces of a run keep their order.

use std::time::Duration;

use tokio::time::Instant;
use unisono_context::RunId;

/// The minimum time between two pieces of a run.
const PAUSE: Duration = Duration::from_millis(80);
/// Maximum held bytes of a run.
const MAX_BYTES: usize = 16 * 1024;

/// The pieces that wait to be sent.
#[derive(Debug, Default)]
pub struct JoinedText(Vec<Held>);

#[derive(Debug)]
struct Held {
    run: RunId,
    text: String,
    due: Instant,
}

impl JoinedText {
    /// Takes the next piece of a run. [`JoinedText::pop`] returns it when it is due.
    pub fn push(&mut self, run: RunId, piece: &str, now: Instant) {
        self.0
            .retain(|held| !held.text.is_empty() || held.due > now);
        let at = self.0.iter().position(|held| held.run == run);
        let at = at.unwrap_or_else(|| {
            let text = String::new();
            self.0.push(Held {
                run,
                text,
                due: now,
            });
            self.0.len() - 1
        });
        let held = &mut self.0[at];
        held.text.push_str(piece);
        if held.text.len() >= MAX_BYTES {
            held.due = now;
        }
    }

    /// When the next text is due; none if no text is held.
    pub fn next_due(&self) -> Option<Instant> {
        let held = self.0.iter().filter(|held| !held.text.is_empty());
        held.map(|held| held.due).min()
    }

    /// A text that is due.
    pub fn pop(&mut self, now: Instant) -> Option<(RunId, String)> {
        let mut held = self.0.iter_mut();
        let held = held.find(|held| !held.text.is_empty() && held.due <= now)?;
        held.due = now + PAUSE;
        Some((held.run, std::mem::take(&mut held.text)))
    }

    /// A held text, due or not: everything is sent before another event.
    pub fn pop_any(&mut self) -> Option<(RunId, String)> {
        let held = self.0.iter_mut().find(|held| !held.text.is_empty())?;
        Some((held.run, std::mem::take(&mut held.text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u128) -> RunId {
        RunId::from_u128(number)
    }

    #[test]
    fn the_first_piece_is_due_at_once_and_later_ones_together() {
        let (mut texts, now) = (JoinedText::default(), Instant::now());
        texts.push(run(1), "The ", now);
        assert_eq!(texts.pop(now), Some((run(1), "The ".to_owned())));
        texts.push(run(1), "move ", now);
        texts.push(run(1), "is ", now + PAUSE / 2);
        texts.push(run(2), "No.", now + PAUSE / 2);
        // Another run does not wait for the first one.
        assert_eq!(texts.pop(now + PAUSE / 2), Some((run(2), "No.".to_owned())));
        assert_eq!(texts.pop(now + PAUSE / 2), None);
        assert_eq!(texts.next_due(), Some(now + PAUSE));
        assert_eq!(
            texts.pop(now + PAUSE),
            Some((run(1), "move is ".to_owned()))
        );
        assert_eq!((texts.next_due(), texts.pop_any()), (None, None));
        // After a pause the next piece is a first one again.
        texts.push(run(1), "on", now + PAUSE * 3);
        assert_eq!(texts.next_due(), Some(now + PAUSE * 3));
        assert_eq!(texts.0.len(), 1, "a run that sends nothing is forgotten");
    }

    #[test]
    fn no_text_grows_beyond_its_limit_and_all_of_it_comes_before_an_event() {
        let (mut texts, now) = (JoinedText::default(), Instant::now());
        texts.push(run(1), "a", now);
        texts.pop(now);
        texts.push(run(1), "b", now);
        assert_eq!(texts.pop(now), None);
        assert_eq!(texts.pop_any(), Some((run(1), "b".to_owned())));
        texts.push(run(1), &"c".repeat(MAX_BYTES), now);
        assert_eq!(texts.next_due(), Some(now));
    }
}
