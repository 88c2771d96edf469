//! Finds the words of a text and their shapes.

#[derive(Clone, Copy, Default)]
pub(in crate::extractive) struct Shape {
    pub(in crate::extractive) digit: bool,
    pub(in crate::extractive) letter: bool,
    /// Contains one of `_ / @ . :` between letters or digits.
    pub(in crate::extractive) joined: bool,
    /// An upper-case letter after a lower-case one, or two at the start.
    pub(in crate::extractive) mixed: bool,
    pub(in crate::extractive) capital: bool,
}

/// Calls `found` with each word of a text.
pub(in crate::extractive) fn words(text: &str, found: &mut impl FnMut(&str, Shape)) {
    let mut at = 0;
    while let Some(start) = text[at..].find(char::is_alphanumeric) {
        let start = at + start;
        let rest = &text[start..];
        if rest.starts_with(unspaced) {
            let end = rest.find(|c| !unspaced(c)).unwrap_or(rest.len());
            pairs(&rest[..end], found);
            at = start + end;
            continue;
        }
        let (end, parted) = word_end(rest);
        let word = &rest[..end];
        at = start + end;
        let shape = shape(word);
        if shape.digit || shape.joined || !parted {
            found(word, shape);
        } else {
            let parts = word.split(['-', '\'', '’']).filter(|part| !part.is_empty());
            parts.for_each(|part| found(part, self::shape(part)));
        }
    }
}

/// The length of the word at the beginning of a text, and whether it has hyphens or apostrophes.
fn word_end(text: &str) -> (usize, bool) {
    let bytes = text.as_bytes();
    let (mut end, mut parted) = (0, false);
    while let Some(&byte) = bytes.get(end) {
        if byte.is_ascii_alphanumeric() {
            end += 1;
        } else if byte < 0x80 {
            let next = bytes.get(end + 1).is_some_and(u8::is_ascii_alphanumeric);
            let digits = next && bytes[end + 1].is_ascii_digit();
            let joins = match byte {
                b'_' => true,
                b'-' | b'/' | b'.' | b'@' | b'\'' => next,
                b':' | b',' => digits && end > 0 && bytes[end - 1].is_ascii_digit(),
                _ => false,
            };
            if !joins {
                break;
            }
            parted |= matches!(byte, b'-' | b'\'');
            end += 1;
        } else {
            match text[end..].chars().next() {
                Some(c) if c.is_alphanumeric() && !unspaced(c) => end += c.len_utf8(),
                _ => break,
            }
        }
    }
    (end, parted)
}

fn shape(word: &str) -> Shape {
    let mut shape = Shape {
        capital: word.starts_with(char::is_uppercase),
        ..Shape::default()
    };
    // Most words have small ASCII letters only, but for the first one.
    let mut others = word.bytes().skip(usize::from(shape.capital));
    if others.all(|byte| byte.is_ascii_lowercase()) {
        shape.letter = !word.is_empty();
        return shape;
    }
    let mut previous_small = false;
    for (index, c) in word.chars().enumerate() {
        shape.digit |= c.is_ascii_digit();
        shape.letter |= c.is_alphabetic();
        shape.joined |= matches!(c, '_' | '/' | '@' | '.');
        shape.mixed |= c.is_uppercase() && (previous_small || index == 1);
        previous_small = c.is_lowercase();
    }
    shape.joined &= shape.letter;
    shape
}

/// Whether a character belongs to a script without spaces between words.
pub(in crate::extractive) fn unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' | '\u{e00}'..='\u{eff}')
}

/// Every pair of neighbouring characters; a single character is a word.
fn pairs(run: &str, found: &mut impl FnMut(&str, Shape)) {
    let shape = Shape {
        letter: true,
        ..Shape::default()
    };
    let starts: Vec<usize> = run
        .char_indices()
        .map(|(at, _)| at)
        .chain([run.len()])
        .collect();
    if starts.len() == 2 {
        found(run, shape);
    }
    starts
        .windows(3)
        .for_each(|w| found(&run[w[0]..w[2]], shape));
}
