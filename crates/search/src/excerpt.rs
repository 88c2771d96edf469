//! The part of a text that best explains a search result.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::words::{Word, words};

/// A part of a text, on one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Excerpt {
    /// The excerpt: white space is normalised, `…` marks omissions.
    pub text: String,
    /// The matching words, as ranges of bytes.
    pub marks: Vec<Range<usize>>,
}

/// The part of the excerpt before the first match.
const LEAD: usize = 4;

/// The excerpt of about `chars` characters with the highest weight of matches, rarer words first;
/// the beginning of the text if there is no match.
pub fn excerpt(text: &str, stems: &[String], chars: usize) -> Excerpt {
    let stems: BTreeSet<&str> = stems.iter().map(String::as_str).collect();
    let hits: Vec<Word> = words(text)
        .into_iter()
        .filter(|word| stems.contains(word.stem.as_str()))
        .collect();
    let window = window(text, &hits, chars);
    let marks = hits.iter().map(|word| word.at.clone());
    let marks = marks.filter(|at| window.start <= at.start && at.end <= window.end);
    on_one_line(text, &window, marks.collect())
}

/// The range with the matches of the highest total weight that are close to each other.
fn window(text: &str, hits: &[Word], chars: usize) -> Range<usize> {
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    for hit in hits {
        *times.entry(&hit.stem).or_default() += 1;
    }
    // In bytes: a text has at least as many bytes as characters.
    let reach = chars.saturating_mul(3) / 4;
    let mut best = (0.0, 0);
    let mut inside: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut first, mut weight) = (0, 0.0);
    let worth = |stem: &str| 1.0 / f64::from(times.get(stem).copied().unwrap_or(1));
    for hit in hits {
        let count = inside.entry(&hit.stem).or_default();
        *count += 1;
        if *count == 1 {
            weight += 1.0 + worth(&hit.stem);
        }
        while hit.at.end - hits[first].at.start > reach && hits[first].at.start < hit.at.start {
            let stem = hits[first].stem.as_str();
            if let Some(count) = inside.get_mut(stem) {
                *count -= 1;
                if *count == 0 {
                    weight -= 1.0 + worth(stem);
                }
            }
            first += 1;
        }
        if weight > best.0 + 1e-9 {
            best = (weight, hits[first].at.start);
        }
    }
    let start = back(text, best.1, chars / LEAD);
    let end = text[start..].char_indices().nth(chars);
    let end = end.map_or(text.len(), |(offset, _)| start + offset);
    // A text that ends soon leaves room before it.
    let used = text[start..end].chars().count();
    let start = if end == text.len() {
        back(text, start, chars - used.min(chars))
    } else {
        start
    };
    start..end
}

/// So many characters before a place, and from there on to the start of a word.
fn back(text: &str, from: usize, chars: usize) -> usize {
    if chars == 0 {
        return from;
    }
    let mut before = text[..from].char_indices().rev();
    let Some((start, _)) = before.nth(chars - 1) else {
        return 0;
    };
    let word = text[start..from]
        .char_indices()
        .find(|(_, c)| c.is_whitespace());
    word.map_or(start, |(offset, _)| start + offset)
}

fn on_one_line(text: &str, window: &Range<usize>, marks: Vec<Range<usize>>) -> Excerpt {
    let mut out = Excerpt::default();
    if !text[..window.start].trim().is_empty() {
        out.text.push('…');
    }
    let mut marks = marks.into_iter().peekable();
    let mut open = None;
    let mut gap = false;
    for (offset, c) in text[window.clone()].char_indices() {
        let at = window.start + offset;
        if marks.next_if(|mark| mark.end <= at).is_some() {
            close(&mut out, &mut open);
        }
        if c.is_whitespace() || c.is_control() {
            gap = !out.text.is_empty();
            continue;
        }
        if gap {
            out.text.push(' ');
            gap = false;
        }
        if marks.peek().is_some_and(|mark| mark.start == at) {
            open = Some(out.text.len());
        }
        out.text.push(c);
    }
    close(&mut out, &mut open);
    if !text[window.end..].trim().is_empty() {
        out.text.push('…');
    }
    out
}

/// Ends the open mark, if any.
fn close(out: &mut Excerpt, open: &mut Option<usize>) {
    if let Some(start) = open.take() {
        out.marks.push(start..out.text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, query: &str, chars: usize) -> (String, Vec<String>) {
        let stems: Vec<String> = words(query).into_iter().map(|word| word.stem).collect();
        let Excerpt { text, marks } = excerpt(text, &stems, chars);
        let marked = marks.iter().map(|at| text[at.clone()].to_owned()).collect();
        (text, marked)
    }

    #[cfg(feature = "index")]
    #[test]
    fn a_short_text_is_given_whole_on_one_line() {
        let (text, marked) = of("We  plan\n\nto migrate the plans.", "migration plan", 200);
        assert_eq!(text, "We plan to migrate the plans.");
        assert_eq!(marked, ["plan", "migrate", "plans"]);
        assert_eq!(of("", "x", 10).0, "");
        assert_eq!(of("nothing here", "x", 7).0, "nothing…");
    }

    #[test]
    fn of_a_long_text_the_part_with_most_of_the_words_is_given() {
        let filler = "lorem ipsum dolor sit amet ".repeat(40);
        let text = format!("kestrel {filler} the rollout of kestrel is on Friday {filler}");
        let (part, marked) = of(&text, "kestrel rollout friday", 80);
        assert_eq!(marked, ["rollout", "kestrel", "Friday"]);
        assert!(part.starts_with('…') && part.ends_with('…'), "{part}");
        assert!(part.chars().count() <= 82, "{part}");
        let (part, marked) = of(&format!("{filler} at the end: kestrel"), "kestrel", 60);
        assert_eq!(marked, ["kestrel"]);
        assert!(part.ends_with("at the end: kestrel"), "{part}");
        assert!(part.chars().count() > 40, "{part}");
    }

    proptest::proptest! {
        #[test]
        fn marks_are_words_of_the_text(
            text in "[a-dé検 \\n\\t…🙂]{0,200}", query in "[a-d検 ]{0,6}", chars in 1_usize..60,
        ) {
            let stems: Vec<String> = words(&query).into_iter().map(|word| word.stem).collect();
            let Excerpt { text: part, marks } = excerpt(&text, &stems, chars);
            proptest::prop_assert!(part.chars().count() <= chars + 2, "{part:?}");
            for at in marks {
                let found = words(&part[at]);
                proptest::prop_assert!(found.len() == 1 && stems.contains(&found[0].stem));
            }
        }
    }
}
