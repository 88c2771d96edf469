//! A model that sees a header before each message may begin its own reply with one: it is removed.

use std::sync::{Arc, Mutex, PoisonError};

use unisono_context::Ordinal;

use crate::language::{Error, Reply, Request};

/// Answers a request and removes the label that the model may write before its reply.
pub(super) async fn without_own_label<F>(
    mut request: Request,
    answer: impl FnOnce(Request) -> F,
) -> Result<Reply, Error>
where
    F: Future<Output = Result<Reply, Error>>,
{
    let entries = request.snapshot.as_deref().map(|s| s.entries());
    let Some(newest) = entries.and_then(|entries| entries.last()) else {
        return answer(request).await;
    };
    let label = OwnLabel {
        newest: newest.message().ordinal,
        writer: request.persona.agent.as_str().into(),
    };
    let stream = Arc::new(Mutex::new(Stream::default()));
    let listener = request.listener.clone();
    let (reading, reader, restarted) = (stream.clone(), label.clone(), stream.clone());
    request.listener = request.listener.with_text_filter(
        move |piece| {
            let mut stream = reading.lock().unwrap_or_else(PoisonError::into_inner);
            stream.piece(piece, &reader)
        },
        move || {
            *restarted.lock().unwrap_or_else(PoisonError::into_inner) = Stream::default();
        },
    );
    let mut reply = answer(request).await?;
    let held = std::mem::take(&mut *stream.lock().unwrap_or_else(PoisonError::into_inner)).held;
    if !held.is_empty() {
        listener.report_text(label.strip(&held));
    }
    let text = label.strip(&reply.text);
    if text.len() < reply.text.len() {
        reply.text = text.into();
    }
    Ok(reply)
}

#[derive(Clone, Debug)]
struct OwnLabel {
    /// The newest message in the model's context.
    newest: Ordinal,
    writer: Arc<str>,
}

impl OwnLabel {
    /// The text without the label. A number above the newest message is not a reference; the name
    /// after it is the writer's. A text of only a label is not changed.
    fn strip<'t>(&self, text: &'t str) -> &'t str {
        let Some((number, rest)) = numbered(text) else {
            return text;
        };
        let later = number.parse::<u32>().is_ok_and(|n| n > self.newest.0);
        let rest = match rest.strip_prefix([' ', '\n']) {
            Some(rest) if later => rest,
            _ => return text,
        };
        let named = rest.strip_prefix(&*self.writer);
        let body = named.and_then(|rest| rest.strip_prefix(':'));
        let body = body.unwrap_or(rest).trim_start();
        if body.is_empty() { text } else { body }
    }

    /// Whether the text may be, or become, only a label.
    fn may_be_label(&self, text: &str) -> bool {
        let Some((_, rest)) = numbered(text) else {
            return text.is_empty();
        };
        let Some(rest) = rest.strip_prefix([' ', '\n']) else {
            return rest.is_empty();
        };
        match rest.strip_prefix(&*self.writer) {
            Some(rest) => rest.strip_prefix(':').unwrap_or(rest).trim().is_empty(),
            None => self.writer.starts_with(rest),
        }
    }
}

/// The digits after a leading `#`, and the rest. Longer numbers are not ordinals.
fn numbered(text: &str) -> Option<(&str, &str)> {
    const DIGITS: usize = 10;
    let rest = text.strip_prefix('#')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (digits <= DIGITS).then(|| rest.split_at(digits))
}

/// The beginning of a streamed reply.
#[derive(Debug, Default)]
struct Stream {
    /// Text that may be a label.
    held: String,
    begun: bool,
}

impl Stream {
    /// The text that can be passed on now.
    fn piece(&mut self, piece: &str, label: &OwnLabel) -> String {
        if self.begun {
            return piece.to_owned();
        }
        self.held.push_str(piece);
        if label.may_be_label(&self.held) {
            return String::new();
        }
        self.begun = true;
        label.strip(&std::mem::take(&mut self.held)).to_owned()
    }
}

#[cfg(test)]
mod tests {
    //! Tests of which labels are removed, and that a stream gives the same text as the complete
    //! reply.

    use super::*;

    fn label() -> OwnLabel {
        OwnLabel {
            newest: Ordinal(12),
            writer: "lead".into(),
        }
    }

    #[test]
    fn only_a_label_with_an_unused_number_is_removed() {
        for (text, left) in [
            ("#13 Ship it.", "Ship it."),
            ("#13 lead: Ship it.", "Ship it."),
            ("#13 leading", "leading"),
            ("#13\nShip it.", "Ship it."),
            ("#12 says so.", "#12 says so."),
            ("#13, if ever", "#13, if ever"),
            ("#13 Ana: said", "Ana: said"),
            ("#99999999999 bottles", "#99999999999 bottles"),
            ("# Heading", "# Heading"),
            ("#13 ", "#13 "),
            ("#13", "#13"),
            ("#", "#"),
            ("", ""),
            ("13 Ship it.", "13 Ship it."),
        ] {
            assert_eq!(label().strip(text), left, "{text}");
            for at in text.char_indices().map(|(at, _)| at) {
                let mut stream = Stream::default();
                let (before, after) = text.split_at(at);
                let mut passed = stream.piece(before, &label());
                passed += &stream.piece(after, &label());
                passed += label().strip(&stream.held);
                assert_eq!(passed, left, "{before:?} {after:?}");
            }
        }
    }
}
