//! Telegraphic wording: texts without articles and fillers. Everything else stays, and so does a
//! filler after a negation (`not just`), and what is between quotation marks or backticks.

use super::pool::Pool;
use super::question::common_words;

/// The bytes of a conversation from which its language is known.
const SAMPLE_BYTES: usize = 20_000;

/// The words of a language that telegraphic wording leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    articles: &'static str,
    fillers: &'static str,
    /// Left out at the beginning of a sentence and before a comma: `Well, it works well.`
    openings: &'static str,
    negations: &'static str,
}

const ENGLISH: LeftOut = LeftOut {
    articles: "a an the",
    fillers: "just really very quite actually basically literally simply honestly definitely totally",
    openings: "well so oh hey yeah ok okay um hmm right anyway look wow haha",
    negations: "not no never",
};
/// Other languages, each with a common word that only this one has.
const OTHERS: [(&str, LeftOut); 4] = [
    (
        "und",
        LeftOut {
            articles: "der die das den dem des ein eine einen einem einer eines",
            fillers: "halt eben mal wirklich eigentlich sehr ganz",
            openings: "also ja na ach ok okay hm naja",
            negations: "nicht kein keine keinen nie",
        },
    ),
    (
        "avec",
        LeftOut {
            articles: "le la les un une des",
            fillers: "vraiment très simplement",
            openings: "bon ben alors ah oui ok",
            negations: "pas jamais",
        },
    ),
    (
        "cuándo",
        LeftOut {
            articles: "el la los las un una unos unas",
            fillers: "realmente simplemente muy",
            openings: "bueno pues ah sí ok",
            negations: "no nunca",
        },
    ),
    (
        "het",
        LeftOut {
            articles: "de het een",
            fillers: "echt heel gewoon eigenlijk",
            openings: "nou ja ok oké ach",
            negations: "niet geen nooit",
        },
    ),
];

impl LeftOut {
    /// The words of the language of a conversation. A language without a list leaves out nothing.
    pub(super) fn of(pool: &Pool<'_>) -> LeftOut {
        let mut sample = String::new();
        for unit in &pool.units {
            if sample.len() > SAMPLE_BYTES {
                break;
            }
            sample.push_str(unit.text);
            sample.push(' ');
        }
        LeftOut::of_text(&sample)
    }

    fn of_text(text: &str) -> LeftOut {
        let Some(common) = common_words(text) else {
            return ENGLISH;
        };
        let own = OTHERS.iter().find(|(word, _)| has(common, word));
        own.map(|(_, words)| *words).unwrap_or_default()
    }

    /// The text without these words. A sentence whose first word is left out begins with a capital
    /// letter as before.
    pub(super) fn apply(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let (mut literal, mut begins, mut capital, mut negated) = (None, true, false, false);
        for word in text.split_whitespace() {
            let lower = word.to_lowercase();
            let is_capital = word.starts_with(char::is_uppercase);
            let is_left_out = literal.is_none()
                && match lower.strip_suffix(',') {
                    Some(opening) => begins && has(self.openings, opening),
                    None => {
                        let article = has(self.articles, &lower) && (begins || !is_capital);
                        article || (!negated && has(self.fillers, &lower))
                    }
                };
            if is_left_out {
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
            literal = after(literal, word);
            negated =
                has(self.negations, &lower) || lower.ends_with("n't") || lower.ends_with("n’t");
            begins = word.ends_with(['.', '!', '?', ':']);
            capital = false;
        }
        out
    }
}

/// Whether a list has a word.
fn has(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word && !word.is_empty())
}

/// Whether a word is an ordinary one: small letters, and punctuation after them.
fn is_plain(word: &str) -> bool {
    let letters = word.trim_end_matches(|c: char| c.is_ascii_punctuation());
    !letters.is_empty() && letters.chars().all(char::is_lowercase)
}

/// The mark that ends the code or the quotation after a word, if the text is within one.
fn after(literal: Option<char>, word: &str) -> Option<char> {
    word.chars().fold(literal, |literal, c| match (literal, c) {
        (Some(end), c) if c == end => None,
        (None, '`' | '"') => Some(c),
        (None, '“') => Some('”'),
        (None, '„') => Some('“'),
        (None, '«') => Some('»'),
        _ => literal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn articles_and_fillers_are_left_out() {
        let rows = [
            (
                "The ferry to Oslo leaves at a quarter past six.",
                "Ferry to Oslo leaves at quarter past six.",
            ),
            ("Well, it really works well.", "It works well."),
            (
                "It is not just the API. The rest isn't really done.",
                "It is not just API. Rest isn't really done.",
            ),
            (
                "We saw The Hague and “The Matrix is a film”.",
                "We saw The Hague and “The Matrix is a film”.",
            ),
            (
                "Run `cp the file` in a shell.",
                "Run `cp the file` in shell.",
            ),
            ("The VAT_RATE is a constant.", "VAT_RATE is constant."),
            ("The", ""),
            ("Choose plan A, an exit.", "Choose plan A, exit."),
        ];
        for (text, expected) in rows {
            assert_eq!(ENGLISH.apply(text), expected, "{text}");
            assert_eq!(ENGLISH.apply(expected), expected, "a second time");
        }
    }

    #[test]
    fn other_languages_have_their_own_articles() {
        let rows = [
            (
                "Die Fähre ist nicht ganz pünktlich und der Zug ist eigentlich weg.",
                "Fähre ist nicht ganz pünktlich und Zug ist weg.",
            ),
            (
                "Le train est parti avec les valises et nous sommes très en retard.",
                "Train est parti avec valises et nous sommes en retard.",
            ),
            (
                "They were afraid to die in the war, and so were we.",
                "They were afraid to die in war, and so were we.",
            ),
            ("Мы едем в Киев.", "Мы едем в Киев."),
        ];
        for (text, expected) in rows {
            assert_eq!(LeftOut::of_text(text).apply(text), expected);
        }
    }
}
