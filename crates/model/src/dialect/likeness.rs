//! Finds the text of an event that differs from an earlier event only in its text, without parsing
//! its JSON. Most events of a stream are like that.
//!
//! The earlier event was parsed. An event that begins and ends with the same bytes, and has no
//! quote, escape or control character between them, is the same JSON with another string.

use crate::sse;

/// The bytes around the text of an event.
#[derive(Debug, Default)]
pub(super) struct Likeness {
    name: String,
    before: String,
    after: String,
}

impl Likeness {
    /// The text of an event that is otherwise like the one that was learnt.
    pub(super) fn text<'e>(&self, event: &sse::Event<'e>) -> Option<&'e str> {
        let rest = event.data.strip_prefix(&*self.before)?;
        let text = rest.strip_suffix(&*self.after)?;
        let known = !self.after.is_empty() && *event.name == *self.name;
        (known && text.bytes().all(is_plain)).then_some(text)
    }

    /// Learns from an event that has no other effect than its text. Text with escapes is not a part
    /// of the data, and nothing is learnt from it.
    pub(super) fn learn(&mut self, event: &sse::Event<'_>, text: &str) {
        let data = event.data;
        let around = (text.as_ptr() as usize)
            .checked_sub(data.as_ptr() as usize)
            .and_then(|at| data.split_at_checked(at))
            .and_then(|(before, rest)| Some((before, rest.strip_prefix(text)?)))
            .filter(|(before, after)| before.ends_with('"') && after.starts_with('"'));
        let Some((before, after)) = around.filter(|_| !text.is_empty()) else {
            return;
        };
        for (known, now) in [
            (&mut self.name, event.name),
            (&mut self.before, before),
            (&mut self.after, after),
        ] {
            known.clear();
            known.push_str(now);
        }
    }
}

/// Whether a byte stands for itself in a JSON string.
fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

#[cfg(test)]
mod tests {
    //! Which events are like the one that was learnt.

    use super::*;

    fn event(data: &str) -> sse::Event<'_> {
        sse::Event {
            name: "message",
            data,
        }
    }

    fn learnt(data: &str, text: &str) -> Likeness {
        let mut likeness = Likeness::default();
        let at = data.find(text).unwrap();
        likeness.learn(&event(data), &data[at..at + text.len()]);
        likeness
    }

    #[test]
    fn the_text_of_a_like_event_is_found() {
        let likeness = learnt(r#"{"id":"1","text":"He","n":[1]}"#, "He");
        for (data, expected) in [
            (
                r#"{"id":"1","text":"llo wörld","n":[1]}"#,
                Some("llo wörld"),
            ),
            (r#"{"id":"1","text":"","n":[1]}"#, Some("")),
            (r#"{"id":"2","text":"llo","n":[1]}"#, None),
            (r#"{"id":"1","text":"llo","n":[2]}"#, None),
            // An escape, a string that ends early, a control character.
            (r#"{"id":"1","text":"\n","n":[1]}"#, None),
            (r#"{"id":"1","text":"a","text":"b","n":[1]}"#, None),
            ("{\"id\":\"1\",\"text\":\"a\nb\",\"n\":[1]}", None),
            // Beginning and end overlap.
            (r#"{"id":"1","text":","n":[1]}"#, None),
            ("", None),
        ] {
            assert_eq!(likeness.text(&event(data)), expected, "{data}");
        }
        let other = sse::Event {
            name: "error",
            data: r#"{"id":"1","text":"llo","n":[1]}"#,
        };
        assert_eq!(likeness.text(&other), None);
    }

    #[test]
    fn what_is_no_part_of_the_event_is_not_learnt() {
        let data = r#"{"text":"a\nb"}"#;
        for text in [String::from("a\nb"), String::from("a"), String::new()] {
            let mut likeness = Likeness::default();
            likeness.learn(&event(data), &text);
            assert_eq!(likeness.text(&event(data)), None, "{text:?}");
            assert_eq!(likeness.text(&event("")), None, "{text:?}");
        }
        // A part, but not the whole of a string.
        assert_eq!(learnt(data, "b").text(&event(data)), None);
    }
}
