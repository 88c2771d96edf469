//! Finding the words of a text, and what they look like.

/// What a word looks like.
#[derive(Clone, Copy, Default)]
pub(super) struct Shape {
    pub(super) digit: bool,
    pub(super) letter: bool,
    /// Contains one of `_ / @ . :` between letters or digits.
    pub(super) joined: bool,
    /// An upper-case letter after a lower-case one, or two at the start.
    pub(super) mixed: bool,
    pub(super) capital: bool,
}

/// Calls `found` with each word of a text.
pub(super) fn words(text: &str, found: &mut impl FnMut(&str, Shape)) {
    let mut rest = text;
    while let Some(start) = rest.find(char::is_alphanumeric) {
        rest = &rest[start..];
        if rest.starts_with(unspaced) {
            let end = rest.find(|c| !unspaced(c)).unwrap_or(rest.len());
            pairs(&rest[..end], found);
            rest = &rest[end..];
            continue;
        }
        let end = word_end(rest);
        let word = &rest[..end];
        rest = &rest[end..];
        let shape = shape(word);
        if shape.digit || shape.joined || !word.contains(['-', '\'', '’']) {
            found(word, shape);
        } else {
            let parts = word.split(['-', '\'', '’']).filter(|part| part.len() > 1);
            parts.for_each(|part| found(part, self::shape(part)));
        }
    }
}

fn word_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 0;
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
            end += 1;
        } else {
            match text[end..].chars().next() {
                Some(c) if c.is_alphanumeric() && !unspaced(c) => end += c.len_utf8(),
                _ => break,
            }
        }
    }
    end
}

fn shape(word: &str) -> Shape {
    let mut shape = Shape {
        capital: word.starts_with(char::is_uppercase),
        ..Shape::default()
    };
    if word.is_ascii() {
        return ascii_shape(word.as_bytes(), shape);
    }
    let mut previous_small = false;
    for (index, c) in word.chars().enumerate() {
        shape.digit |= c.is_ascii_digit();
        shape.letter |= c.is_alphabetic();
        shape.joined |= matches!(c, '_' | '/' | '@' | '.');
        let upper = c.is_uppercase();
        shape.mixed |= upper && (previous_small || index == 1);
        previous_small = c.is_lowercase();
    }
    shape.joined &= shape.letter;
    shape
}

/// [`shape`] of a word of ASCII, which most are.
fn ascii_shape(word: &[u8], mut shape: Shape) -> Shape {
    let mut previous_small = false;
    for (index, byte) in word.iter().enumerate() {
        match byte {
            b'a'..=b'z' => {
                shape.letter = true;
                previous_small = true;
                continue;
            }
            b'A'..=b'Z' => {
                shape.letter = true;
                shape.mixed |= previous_small || index == 1;
            }
            b'0'..=b'9' => shape.digit = true,
            b'_' | b'/' | b'@' | b'.' => shape.joined = true,
            _ => {}
        }
        previous_small = false;
    }
    shape.joined &= shape.letter;
    shape
}

/// Scripts that are written without spaces between words.
fn unspaced(c: char) -> bool {
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
