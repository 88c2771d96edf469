//! Letters that differ only in their form: with and without an accent, and as one character or several
//! (the normal forms of Unicode Standard Annex 15).
//!
//! The index removes the accents of Latin letters that are one character itself.

/// Adds a character of a text to a word: without its accent, and joined with the character before it if
/// most texts have one character for both.
pub(crate) fn add_letter(word: &mut String, c: char) {
    if is_mark(c) {
        return;
    }
    let before = word.chars().next_back();
    match before.and_then(|before| joined(before, c)) {
        Some(both) => {
            word.pop();
            word.push(both);
        }
        None => word.push(plain(c)),
    }
}

/// Whether a character is no letter itself and changes the letter before it only in its form: an
/// accent, a vowel of Hebrew or Arabic, a longer line of an Arabic letter, or a soft hyphen.
pub(crate) fn is_mark(c: char) -> bool {
    matches!(c,
        '\u{AD}'
        | '\u{300}'..='\u{36F}'
        | '\u{591}'..='\u{5BD}' // Hebrew
        | '\u{5BF}'
        | '\u{5C1}'..='\u{5C2}'
        | '\u{5C4}'..='\u{5C5}'
        | '\u{5C7}'
        | '\u{640}' // Arabic
        | '\u{64B}'..='\u{65F}'
        | '\u{670}')
}

/// Two characters as one: the letters of a Korean syllable, and kana with a mark.
pub(crate) fn joined(first: char, next: char) -> Option<char> {
    const SYLLABLES: u32 = 0xAC00;
    let (code, then) = (u32::from(first), u32::from(next));
    match (code, then) {
        (0x1100..=0x1112, 0x1161..=0x1175) => {
            char::from_u32(SYLLABLES + ((code - 0x1100) * 21 + then - 0x1161) * 28)
        }
        // A syllable without a last letter.
        (SYLLABLES..=0xD7A3, 0x11A8..=0x11C2) if (code - SYLLABLES).is_multiple_of(28) => {
            char::from_u32(code + then - 0x11A7)
        }
        (0x3041..=0x30FA, 0x3099..=0x309A) => kana(code, then),
        _ => None,
    }
}

/// A kana with a mark: `が` for `か` and U+3099.
fn kana(code: u32, mark: u32) -> Option<char> {
    const KATAKANA: u32 = 0x30A1;
    const TO_HIRAGANA: u32 = 0x60;
    let hiragana = match code {
        KATAKANA.. => code - TO_HIRAGANA,
        _ => code,
    };
    let distance = match (char::from_u32(hiragana)?, mark) {
        ('は' | 'ひ' | 'ふ' | 'へ' | 'ほ', 0x309A) => 2,
        (
            'か' | 'き' | 'く' | 'け' | 'こ' | 'さ' | 'し' | 'す' | 'せ' | 'そ' | 'た' | 'ち'
            | 'つ' | 'て' | 'と' | 'は' | 'ひ' | 'ふ' | 'へ' | 'ほ',
            0x3099,
        ) => 1,
        ('う', 0x3099) => 0x4E,
        _ => return None,
    };
    char::from_u32(code + distance)
}

/// A Greek, Cyrillic or Arabic letter without its accent.
fn plain(c: char) -> char {
    match c {
        'Ά' | 'ά' => 'α',
        'Έ' | 'έ' => 'ε',
        'Ή' | 'ή' => 'η',
        'Ί' | 'ί' | 'Ϊ' | 'ϊ' | 'ΐ' => 'ι',
        'Ό' | 'ό' => 'ο',
        'Ύ' | 'ύ' | 'Ϋ' | 'ϋ' | 'ΰ' => 'υ',
        'Ώ' | 'ώ' => 'ω',
        // At the end of a word.
        'ς' => 'σ',
        'Ѐ' | 'ѐ' | 'Ё' | 'ё' => 'е',
        'Ѓ' | 'ѓ' => 'г',
        'Й' | 'й' | 'Ѝ' | 'ѝ' => 'и',
        'Ї' | 'ї' => 'і',
        'Ќ' | 'ќ' => 'к',
        'Ў' | 'ў' => 'у',
        '\u{622}' | '\u{623}' | '\u{625}' => '\u{627}',
        '\u{624}' => '\u{648}',
        '\u{626}' => '\u{64A}',
        _ => c,
    }
}
