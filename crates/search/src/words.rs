//! The text of the index: words in lower case, without accents, stemmed as English.
//!
//! A word is a run of letters and digits, so `parse_config` is two consecutive words and is found
//! as a phrase. Scripts without spaces between words (Han, kana, Thai …) are split into single
//! characters, and a run of them is a phrase in the same way. So are emoji. Accents are left out,
//! also those that are characters of their own (`u` and U+0308): see [`crate::letters`].

use std::ops::Range;
use std::str::CharIndices;

use tantivy::tokenizer::{
    AsciiFoldingFilter, LowerCaser, RemoveLongFilter, Stemmer, TextAnalyzer, Token, TokenStream,
    Tokenizer,
};

use crate::letters::{add_letter, is_mark, joined};

/// The analysis in the index's schema. A change of it needs another name: an index of the old one
/// is then rebuilt.
pub(crate) const ANALYSIS: &str = "unisono_words_4";

/// A longer run of letters and digits is data, not a word; a SHA-512 in hexadecimal still is one.
const LONGEST_BYTES: usize = 129;

/// The analysis: what an index and a query do to text.
pub(crate) fn analyzer() -> TextAnalyzer {
    TextAnalyzer::builder(Words::default())
        .filter(RemoveLongFilter::limit(LONGEST_BYTES))
        // In lower case `İ` is an `i` and an accent, which this filter does not remove.
        .filter(AsciiFoldingFilter)
        .filter(LowerCaser)
        .filter(Stemmer::default())
        .build()
}

/// A word of a text, as the index has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) stem: String,
    /// Its position in bytes.
    pub(crate) at: Range<usize>,
}

pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut analyzer = analyzer();
    let mut stream = analyzer.token_stream(text);
    let mut words = Vec::new();
    stream.process(&mut |token| {
        words.push(Word {
            stem: token.text.clone(),
            at: token.offset_from..token.offset_to,
        });
    });
    words
}

/// A name without the difference of upper and lower case. Without quotation marks too, since a query
/// has them around a name.
pub(crate) fn name_key(name: &str) -> String {
    name.trim().to_lowercase().replace('"', "")
}

/// Whether a word is too common for a question. Such words are searched for only in queries without
/// other words.
pub(crate) fn is_common(word: &str) -> bool {
    const COMMON: &[&str] = &[
        "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been",
        "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have",
        "he", "her", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "me",
        "my", "no", "not", "of", "on", "or", "our", "she", "should", "so", "some", "tell", "than",
        "that", "the", "their", "them", "then", "there", "they", "this", "to", "us", "was", "we",
        "were", "what", "when", "where", "which", "who", "why", "will", "with", "would", "you",
        "your",
    ];
    COMMON.binary_search(&word).is_ok()
}

#[derive(Clone, Default)]
struct Words {
    token: Token,
}

struct Stream<'a> {
    text: &'a str,
    chars: CharIndices<'a>,
    token: &'a mut Token,
}

impl Tokenizer for Words {
    type TokenStream<'a> = Stream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Stream<'a> {
        self.token.reset();
        Stream {
            text,
            chars: text.char_indices(),
            token: &mut self.token,
        }
    }
}

impl TokenStream for Stream<'_> {
    fn advance(&mut self) -> bool {
        let is_letter = |c: char| c.is_alphanumeric() && !is_mark(c);
        let is_word = |(_, c): &(usize, char)| is_letter(*c) || stands_alone(*c);
        let Some((from, first)) = self.chars.find(is_word) else {
            return false;
        };
        let is_single = stands_alone(first);
        let is_end = |c: char| match is_single {
            true => joined(first, c).is_none(),
            false => !(c.is_alphanumeric() || is_mark(c)) || stands_alone(c),
        };
        let rest = from + first.len_utf8();
        let end = self.text[rest..].char_indices().find(|(_, c)| is_end(*c));
        let to = end.map_or(self.text.len(), |(offset, _)| rest + offset);
        // The iterator continues after the word.
        while self.chars.offset() < to {
            self.chars.next();
        }
        self.token.position = self.token.position.wrapping_add(1);
        (self.token.offset_from, self.token.offset_to) = (from, to);
        self.token.text.clear();
        for c in self.text[from..to].chars() {
            add_letter(&mut self.token.text, c);
        }
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

/// Whether a character is a word by itself. Emoji are, and characters of scripts without spaces.
fn stands_alone(c: char) -> bool {
    is_emoji(c) || is_without_spaces(c)
}

fn is_emoji(c: char) -> bool {
    matches!(u32::from(c),
        0x2300..=0x23FF
        | 0x2600..=0x27BF
        | 0x2B00..=0x2BFF
        | 0x1F1E6..=0x1F1FF
        | 0x1F300..=0x1FAFF)
}

/// Whether a character belongs to a script without spaces between words.
pub(crate) fn is_without_spaces(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF // Thai, Lao
        | 0x1000..=0x109F // Myanmar
        | 0x1780..=0x17FF // Khmer
        | 0x3040..=0x30FF // kana
        | 0x31F0..=0x31FF
        | 0x3400..=0x4DBF // Han
        | 0x4E00..=0x9FFF
        | 0xF900..=0xFAFF
        | 0x20000..=0x3134F)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stems(text: &str) -> Vec<String> {
        words(text).into_iter().map(|word| word.stem).collect()
    }

    #[test]
    fn words_are_stemmed_and_names_taken_apart() {
        assert_eq!(stems("The migrations failed"), ["the", "migrat", "fail"]);
        assert_eq!(stems("parse_config()"), ["pars", "config"]);
        assert_eq!(
            stems("src/main.rs E-4032"),
            ["src", "main", "rs", "e", "4032"]
        );
        assert_eq!(stems("Café ÉCOLE"), ["cafe", "ecol"]);
        assert_eq!(
            stems("検索する the 次"),
            ["検", "索", "す", "る", "the", "次"]
        );
        assert_eq!(
            stems("We won🎉👍🏽 → ❤️!"),
            ["we", "won", "🎉", "👍", "🏽", "❤"]
        );
        assert_eq!(stems("⭐ at 7 ⏰"), ["⭐", "at", "7", "⏰"]);
        assert_eq!(stems("fu\u{308}r nai\u{308}ve"), stems("für naïve"));
        assert_eq!(stems("v2検索x"), ["v2", "検", "索", "x"]);
        assert_eq!(stems("… ?! —"), [""; 0]);
        let digest = "a1".repeat(64);
        assert_eq!(stems(&digest), [digest]);
        assert_eq!(stems(&"z".repeat(5_000)), [""; 0]);
    }

    #[test]
    fn all_forms_of_a_word_are_one_word() {
        for (one, other) in [
            ("İstanbul", "istanbul"),
            ("STRAẞE", "straße"),
            ("ΟΔΟΣ", "οδός"),
            ("Καλημέρα", "ΚΑΛΗΜΕΡΑ"),
            ("ещё", "ЕЩЕ"),
            ("новый", "новыи\u{306}"),
            ("їжак", "і\u{308}жак"),
            ("한글", "\u{1112}\u{1161}\u{11AB}\u{1100}\u{1173}\u{11AF}"),
            ("データ", "テ\u{3099}ータ"),
            ("ぱん", "は\u{309A}ん"),
            ("Donaudampf", "Donau\u{AD}dampf"),
            (
                "\u{645}\u{62D}\u{645}\u{62F}",
                "\u{645}\u{64F}\u{62D}\u{64E}\u{645}\u{651}\u{64E}\u{62F}",
            ),
        ] {
            assert_eq!(stems(one), stems(other), "{one}");
        }
        assert_ne!(stems("か"), stems("が"));
        // Marks without a letter before them.
        assert_eq!(stems("\u{64B} \u{345} \u{AD}"), [""; 0]);
    }

    #[test]
    fn a_word_says_where_it_stands() {
        let text = "é: naïve 検索 は\u{309A}ん";
        let at = words(text).into_iter().map(|word| &text[word.at]);
        let expected = ["é", "naïve", "検", "索", "は\u{309A}", "ん"];
        assert_eq!(at.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn common_words_are_sorted_and_in_lower_case() {
        assert!(is_common("the") && is_common("a") && is_common("your"));
        assert!(!is_common("migrat") && !is_common(""));
    }
}
