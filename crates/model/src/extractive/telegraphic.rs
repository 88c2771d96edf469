//! Telegraphic wording: texts without articles and fillers. A filler after a negation stays (`not
//! just`), and so do an article that is part of a number (`a few`, `einer der drei`) and everything
//! between quotation marks or backticks.

use super::days::has_word;

/// The words of a language that telegraphic wording drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DroppedWords {
    articles: &'static str,
    /// Words that an article before them changes: `a few`, `einer der drei`.
    counted: &'static str,
    fillers: &'static str,
    /// Dropped at the beginning of a sentence and before a comma: `Well, it works well.`
    openings: &'static str,
    negations: &'static str,
}

const ENGLISH: DroppedWords = DroppedWords {
    articles: "a an the",
    counted: "few little",
    fillers: "just really very actually basically literally simply honestly definitely totally",
    openings: "well so oh hey yeah ok okay um hmm right anyway look wow haha",
    negations: "not no never cannot",
};
/// Other languages, each with a common word that only this one has.
const OTHERS: [(&str, DroppedWords); 4] = rows! {
    ("und", DroppedWords {
        articles: "der die das den dem des ein eine einen einem einer eines",
        counted: "der von paar wenig bisschen",
        fillers: "halt wirklich eigentlich sehr",
        openings: "also ja na ach ok okay hm naja",
        negations: "nicht kein keine keinen nie",
    }),
    ("avec", DroppedWords {
        articles: "le la les un une des",
        counted: "de des peu",
        fillers: "vraiment très simplement",
        openings: "bon ben alors ah oui ok",
        negations: "pas jamais",
    }),
    ("cuándo", DroppedWords {
        articles: "el la los las un una unos unas",
        counted: "de poco poca pocos pocas",
        fillers: "realmente simplemente muy",
        openings: "bueno pues ah sí ok",
        negations: "no nunca",
    }),
    ("het", DroppedWords {
        articles: "de het een",
        counted: "van paar weinig beetje",
        fillers: "echt heel gewoon eigenlijk",
        openings: "nou ja ok oké ach",
        negations: "niet geen nooit",
    }),
};

/// Words after which `a` is a letter and no article.
const BEFORE_LETTERS: &str = "answer block case class column gate group hall item option part plan point \
    room row section step team type variant version vitamin zone";

impl DroppedWords {
    /// The words of the language with these common words, `None` for English; none for a language
    /// without a list.
    pub(super) fn of_language(common: Option<&str>) -> DroppedWords {
        let Some(common) = common else {
            return ENGLISH;
        };
        let own = OTHERS.iter().find(|(word, _)| has_word(common, word));
        own.map(|(_, words)| *words).unwrap_or_default()
    }

    /// Removes the words from a text. If the first word of a sentence is removed, the next one gets its
    /// capital letter.
    pub(super) fn remove_from(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let (mut literal, mut begins, mut capital, mut negated) = (None, true, false, false);
        let (mut is_before_letter, mut is_counted) = (false, false);
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let lower = word.to_lowercase();
            let is_capital = word.starts_with(char::is_uppercase);
            let is_of_counted = std::mem::take(&mut is_counted);
            is_counted = has_word(self.articles, &lower)
                && words
                    .peek()
                    .is_some_and(|next| has_word(self.counted, next));
            let is_dropped = literal.is_none()
                && match lower.strip_suffix(',') {
                    Some(opening) => begins && has_word(self.openings, opening),
                    None => {
                        let is_letter = is_before_letter && lower == "a";
                        let article = has_word(self.articles, &lower)
                            && (begins || !is_capital)
                            && !(is_letter || is_counted || is_of_counted);
                        article || (!negated && !is_capital && has_word(self.fillers, &lower))
                    }
                };
            if is_dropped {
                capital |= begins && is_capital;
                continue;
            }
            if !out.is_empty() {
                out.push(' ');
            }
            match word.chars().next().filter(|_| capital && is_plain(word)) {
                Some(first) => {
                    out.extend(first.to_uppercase());
                    out.push_str(&word[first.len_utf8()..]);
                }
                None => out.push_str(word),
            }
            is_before_letter = has_word(BEFORE_LETTERS, &lower);
            literal = quotation_after(literal, word);
            negated = has_word(self.negations, &lower)
                || lower.ends_with("n't")
                || lower.ends_with("n’t");
            begins = word.ends_with(['.', '!', '?', ':']);
            capital = false;
        }
        out
    }
}

/// Whether a word is an ordinary one: small letters, and punctuation after them.
fn is_plain(word: &str) -> bool {
    let letters = word.trim_end_matches(|c: char| c.is_ascii_punctuation());
    !letters.is_empty() && letters.chars().all(char::is_lowercase)
}

/// The mark that ends the code or the quotation in which a text ends, if it does; `open` is the mark of the
/// one in which it begins.
pub(super) fn quotation_after(open: Option<char>, text: &str) -> Option<char> {
    text.chars().fold(open, |open, c| match (open, c) {
        (Some(end), c) if c == end => None,
        (None, '`' | '"') => Some(c),
        (None, '“') => Some('”'),
        (None, '„') => Some('“'),
        (None, '«') => Some('»'),
        (None, '»') => Some('«'),
        (None, '「') => Some('」'),
        (None, '『') => Some('』'),
        _ => open,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extractive::fixture::{passages_of, pool_of};
    use crate::extractive::question::common_words;

    #[test]
    fn a_language_without_a_list_loses_no_words() {
        let words = |text: &'static str| {
            let passages = passages_of([text]);
            pool_of(&passages).droppable_words()
        };
        assert_eq!(words("Dai 50 euro a Marco."), DroppedWords::default());
        assert_eq!(words("Give the 50 euros to Marco."), ENGLISH);
    }

    #[test]
    fn articles_and_fillers_are_left_out() {
        let rows = rows! {
            ("The ferry to Oslo leaves at a quarter past six.",
             "Ferry to Oslo leaves at quarter past six."),
            ("Well, it really works well.", "It works well."),
            ("It is not just the API. The rest isn't really done.",
             "It is not just API. Rest isn't really done."),
            ("We saw The Hague and “The Matrix is a film”.",
             "We saw The Hague and “The Matrix is a film”."),
            ("Run `cp the file` in a shell.", "Run `cp the file` in shell."),
            ("The VAT_RATE is a constant.", "VAT_RATE is constant."),
            ("We take option a because the other is late.",
             "We take option a because other is late."),
            ("The", ""),
            ("Choose plan A, an exit.", "Choose plan A, exit."),
            ("Quite a few tests failed, a few passed.", "Quite a few tests failed, a few passed."),
            ("I cannot really say that it works.", "I cannot really say that it works."),
        };
        for (text, expected) in rows {
            assert_eq!(ENGLISH.remove_from(text), expected, "{text}");
            assert_eq!(ENGLISH.remove_from(expected), expected, "a second time");
        }
    }

    #[test]
    fn other_languages_have_their_own_articles() {
        let rows = rows! {
            ("Die Fähre ist nicht ganz pünktlich und der Zug ist eigentlich weg.",
             "Fähre ist nicht ganz pünktlich und Zug ist weg."),
            ("Einer der drei Server ist weg, und die Tablette nimmt er 3 mal.",
             "Einer der drei Server ist weg, und Tablette nimmt er 3 mal."),
            ("Der Halt in Bern und der in Thun ist weg.", "Halt in Bern und in Thun ist weg."),
            ("Le train est parti avec les valises et nous sommes très en retard.",
             "Train est parti avec valises et nous sommes en retard."),
            ("They were afraid to die in the war, and so were we.",
             "They were afraid to die in war, and so were we."),
            ("Мы едем в Киев.", "Мы едем в Киев."),
        };
        for (text, expected) in rows {
            let words = DroppedWords::of_language(common_words(text));
            assert_eq!(words.remove_from(text), expected);
        }
    }
}
