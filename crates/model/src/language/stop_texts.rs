//! Stop texts: for every model, whether or not its provider supports them.

use std::sync::{Arc, Mutex, PoisonError};

use unisono_context::call::{Reply, Stop};

use super::{Error, LanguageModel, Request};

/// Answers a request, up to the first of its stop texts.
pub async fn complete_up_to_stop(
    model: &dyn LanguageModel,
    mut request: Request,
) -> Result<Reply, Error> {
    let stops = request.client_options.stop.clone();
    if stops.is_empty() {
        return model.complete(request).await;
    }
    let stopper = Arc::new(Mutex::new(Stopper::new(&stops)));
    let restarted = stopper.clone();
    request.listener = request.listener.with_text_filter(
        move |piece| {
            let mut stopper = stopper.lock().unwrap_or_else(PoisonError::into_inner);
            stopper.piece(piece)
        },
        move || {
            let mut stopper = restarted.lock().unwrap_or_else(PoisonError::into_inner);
            stopper.restart();
        },
    );
    let mut reply = model.complete(request).await?;
    if reply.calls.is_empty() {
        let before = before_stop(&reply.text, &stops);
        if before.len() < reply.text.len() {
            reply.text = before.into();
            if reply.stop == Stop::CutOff {
                reply.stop = Stop::Complete;
            }
        }
    }
    Ok(reply)
}

/// The text before the first of `stops`; the whole text if it contains none.
fn before_stop<'t>(text: &'t str, stops: &[Arc<str>]) -> &'t str {
    let found = stops.iter().filter(|stop| !stop.is_empty());
    let first = found.filter_map(|stop| text.find(&**stop)).min();
    first.map_or(text, |at| text.get(..at).unwrap_or(text))
}

/// Passes on a reply up to the first stop text. A possible beginning of one is held back.
#[derive(Debug)]
struct Stopper {
    stops: Vec<Arc<str>>,
    held: String,
    is_stopped: bool,
}

impl Stopper {
    fn new(stops: &[Arc<str>]) -> Stopper {
        Stopper {
            stops: stops.to_vec(),
            held: String::new(),
            is_stopped: false,
        }
    }

    /// The reply starts again.
    fn restart(&mut self) {
        self.held.clear();
        self.is_stopped = false;
    }

    /// The text that can be passed on now.
    fn piece(&mut self, piece: &str) -> String {
        if self.is_stopped {
            return String::new();
        }
        self.held.push_str(piece);
        let before = before_stop(&self.held, &self.stops).len();
        if before < self.held.len() {
            self.is_stopped = true;
            self.held.truncate(before);
            return std::mem::take(&mut self.held);
        }
        let kept = self.stops.iter().map(|stop| beginning_of(&self.held, stop));
        let kept = kept.max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        std::mem::replace(&mut self.held, rest)
    }
}

/// The length of the longest end of a text with which `stop` begins, in bytes.
fn beginning_of(text: &str, stop: &str) -> usize {
    let beginnings = stop.char_indices().skip(1).map(|(at, _)| at);
    let fitting = beginnings.filter(|at| stop.get(..*at).is_some_and(|part| text.ends_with(part)));
    fitting.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::Listener;

    fn stops(texts: &[&str]) -> Vec<Arc<str>> {
        texts.iter().map(|text| Arc::from(*text)).collect()
    }

    #[test]
    fn a_text_ends_before_the_first_stop_text() {
        let stops = stops(&["END", "\n\n", ""]);
        for (text, before) in [
            ("one END two", "one "),
            ("one\n\ntwo END", "one"),
            ("none of them", "none of them"),
            ("END", ""),
            ("", ""),
        ] {
            assert_eq!(before_stop(text, &stops), before, "{text:?}");
        }
        assert_eq!(before_stop("as it is", &[]), "as it is");
    }

    #[tokio::test]
    async fn a_reply_that_starts_again_is_filtered_from_its_beginning() {
        let model = |request: Request| async move {
            request.listener.report_text("one E");
            request.listener.report_restart();
            request.listener.report_text("one EN");
            request.listener.report_text("D two");
            request.listener.report_restart();
            request.listener.report_text("three END four");
            Ok::<_, Error>(Reply::text("three END four"))
        };
        let received = Arc::new(Mutex::new(String::new()));
        let sink = received.clone();
        let mut request = crate::fixture::request();
        request.client_options.stop = stops(&["END"]);
        request.listener = Listener::new(move |piece| sink.lock().unwrap().push_str(piece));
        let reply = complete_up_to_stop(&model, request).await.unwrap();
        assert_eq!(&*reply.text, "three ");
        assert_eq!(*received.lock().unwrap(), "one one three ");
    }

    /// However a reply is split into pieces, the text before the stop text is passed on, except for
    /// an end that may be the beginning of one.
    #[test]
    fn streamed_pieces_end_like_the_whole_reply() {
        let stops = stops(&["**", "Übung"]);
        for text in ["so * it ** is", "zur Üb und Übung", "plain", "a*", "Ü"] {
            let chars: Vec<char> = text.chars().collect();
            for size in 1..=chars.len() {
                let mut stopper = Stopper::new(&stops);
                let pieces = chars
                    .chunks(size)
                    .map(|chunk| chunk.iter().collect::<String>());
                let passed: String = pieces.map(|piece| stopper.piece(&piece)).collect();
                let whole = before_stop(text, &stops);
                let held = whole
                    .strip_prefix(&*passed)
                    .expect("what is passed on begins it");
                let begins = stops.iter().any(|stop| stop.starts_with(held));
                assert!(
                    held.is_empty() || (whole == text && begins),
                    "{text:?} by {size}: {held:?}"
                );
            }
        }
    }
}
