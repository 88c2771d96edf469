//! The relevance of units to a question: its words in the unit, in its message, and in the
//! neighbouring messages, and the kinds of facts that it names.

mod expected;
mod messages;
mod missing;

use std::collections::{BTreeSet, HashSet};

use expected::{Expected, asks_for_kind};
use messages::{Messages, named_years, names_speaker};
use missing::missing_words;

use rust_stemmers::{Algorithm, Stemmer};

use super::bm25::{self, Query};
use super::cues::Cues;
use super::days::has_word;
use super::focus::Focus;
use super::pool::{Pool, Unit};
use super::split::unit_texts;
use super::terms::{self, Term, is_common_word, is_stop_word};
use super::weights::question as weights;

/// Words that ask.
pub(super) const INTERROGATIVES: &str = "who whom what when where which why how";

/// Words of tasks about the conversation as a whole ("What happened last week?"). They name no
/// subject.
const GENERAL_WORDS: &str = "summary sum overview status update news new happen discuss discussed talk \
    topic open last week month today yesterday far remain left conversation chat zusammen \
    zusammenfassen zusammenfassung überblick passiert geschehen geschah woche letzte letzten monat heute \
    gestern stand neues neu besprochen beredet offen offene offenen entschieden beschlossen risiken \
    probleme aufgaben gespräch";

/// Verbs of tasks that want a text rather than an answer. They name no subject.
const WRITING_VERBS: &str = "write draft prepare compose create summarise summarize recap schreib \
    schreibe schreiben entwirf entwerfen verfasse erstelle erstellen fass fasse";

/// Verbs with which a question begins that may have such a verb in it: `Did Ben write the report?`
const AUXILIARIES: &str =
    "is are was were did does has had ist sind war waren hat hatte wurde wurden";

/// Words of questions that only an earlier question explains, besides common words and
/// interrogatives.
const FOLLOW_UP_WORDS: &str = "exactly precisely then that else mean genau sonst denn macht meinst";

/// Words that request an answer.
const REQUESTS: &str = "tell say show explain list know remind please";

/// Verbs of questions about what a person said. What that person said rarely has them.
const SAYING: &str = "say says said tell tells told mention mentions mentioned sagen sagt sagte gesagt \
    erzählen erzählt erzählte erwähnt erwähnte";

/// Words that ask, and endings of verbs, in Chinese and Japanese. Their pairs of characters are no
/// subject.
const ASKING_PAIRS: &str = "什么 什麼 什么时候 什麼時候 多少 几点 哪里 哪裡 哪儿 哪个 哪天 哪家 \
    怎么 怎么样 为什么 是谁 はい どこ どこで どこに いつ いつから だれ なに どう どれ いくら いくらで \
    ですか でしたか ますか ましたか";

/// Other verbs with which a sentence begins that asks.
const ASKING_VERBS: &str = "sum give find check compare name describe count help gib nenne zeig zeige \
    sag sage liste erkläre prüfe finde zähle beschreibe vergleiche";

/// The maximum number of units of a short message, and the distance of units that are beside each other.
const SHORT_MESSAGE: usize = 8;
const BESIDE: usize = 2;

/// The letters of a stem with which another word begins, with which it ends (a compound word), and that
/// two words have in common at the beginning.
const STEM_START: usize = 4;
const STEM_END: usize = 5;
const STEMS_COMMON: usize = 6;

/// The common words of the language of a question or another text; `None` for English.
/// The language is the one with the most common words in the text: at least two, and at least as
/// many as English has.
pub(super) fn common_words(task: &str) -> Option<&'static str> {
    let words: Vec<String> = words(task).collect();
    let times = |list: &str| {
        let has = |word: &&String| has_word(list, word);
        words.iter().filter(has).count()
    };
    let english = words.iter().filter(|word| is_stop_word(word)).count();
    let most = terms::common_word_lists()
        .skip(1)
        .max_by_key(|list| times(list))?;
    let found = times(most);
    (found >= 2 && found >= english).then_some(most)
}

/// What a conversation has of a question.
pub(super) struct Relevance {
    /// The relevance of each unit.
    pub(super) units: Vec<f32>,
    /// Words of the question that no message has.
    pub(super) missing: Vec<String>,
}

impl Relevance {
    /// The relevance of the most relevant unit.
    pub(super) fn best(&self) -> f32 {
        self.units.iter().copied().fold(0.0, f32::max)
    }
}

/// The relevance of each unit to the task; `None` if the task is not a question ([`is_question`]).
/// `asked` has the units that gave the task before: only their neighbours are relevant.
pub(super) fn relevance(
    pool: &mut Pool<'_>,
    task: &str,
    asked: &HashSet<usize>,
) -> Option<Relevance> {
    // Terms that were only looked up are above.
    let spoken = pool.vocabulary.len() as Term;
    let focus_terms = Focus::terms(pool);
    if !has_own_words(pool, task, &focus_terms) {
        return None;
    }
    let requests = pool.known(REQUESTS);
    let known = pool.known(task);
    let repeats: Vec<bool> = (0..pool.units.len())
        .map(|unit| is_repeated(pool, unit, &known, &requests))
        .collect();
    let expected = Expected::from_task(task);
    let query = query(pool, task, spoken, &focus_terms);
    let missing = missing_words(pool, task, &query, &repeats);
    let by_kind = expected::gains(pool, task);
    let messages = Messages::new(pool, task, &query, &by_kind, &repeats);
    let units = bm25::of_units(pool, &query).into_iter().zip(by_kind);
    let units: Vec<f32> = units.map(|(own, gain)| own + gain).collect();
    let most = units.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let near = are_near_words(pool, &units);
    let each = pool.units.iter().zip(&units).enumerate();
    let each = each.map(|(index, (unit, by_words))| {
        let (message, is_same_for_all_units) = messages.relevance(unit.source);
        // In a reply without words of the question no unit is better than another.
        let own = match is_same_for_all_units {
            true => 1.0,
            false if !near[index] => weights::FAR_FROM_WORDS,
            false => 1.0 - weights::UNIT_SHARE + weights::UNIT_SHARE * by_words / most,
        };
        let asks = match unit.cues {
            _ if repeats[index] || asked.contains(&index) => 0.0,
            cues if cues.intersects(Cues::OFFER) => 0.0,
            cues if cues.intersects(Cues::QUESTION) => weights::ASKS_ITSELF,
            _ => 1.0,
        };
        match message * own * asks * messages.worth_factor(unit.source, index) {
            value if value > 0.0 => value * expected.factor(pool, index, &known, by_words / most),
            _ => 0.0,
        }
    });
    Some(Relevance {
        units: each.collect(),
        missing,
    })
}

/// Whether each unit bears on words of the question: it has some (`words` is positive), or is beside such
/// a unit. In a short message, and in one without such words, all units do.
fn are_near_words(pool: &Pool<'_>, words: &[f32]) -> Vec<bool> {
    let mut near = Vec::with_capacity(words.len());
    for message in pool.units.chunk_by(|one, next| one.source == next.source) {
        let words = &words[near.len()..near.len() + message.len()];
        let has_words = |words: &[f32]| words.iter().any(|own| *own > 0.0);
        let are_all = message.len() <= SHORT_MESSAGE || !has_words(words);
        let is_near = |unit: usize| {
            let beside = unit.saturating_sub(BESIDE)..words.len().min(unit + BESIDE + 1);
            are_all || has_words(&words[beside])
        };
        near.extend((0..message.len()).map(is_near));
    }
    near
}

/// The words of a question that say something of its subject, and the terms related to them, all of
/// which are below `spoken`. Names of people who speak are none: they are in most messages. Beside such
/// a name, verbs of saying are none either. The year of a named day, and interrogatives of scripts without
/// spaces, are never any.
fn query(pool: &mut Pool<'_>, task: &str, spoken: Term, focus_terms: &[Term]) -> Query {
    let common = common_words(task);
    let mut others = pool.terms_of(common.unwrap_or_default());
    others.extend(pool.terms_of(ASKING_PAIRS));
    let people = pool.units.iter().filter(|unit| unit.is_named());
    let names: BTreeSet<&str> = people.map(|unit| unit.speaker).collect();
    let asked: Vec<String> = words(task).collect();
    if names.iter().any(|name| names_speaker(&asked, name)) {
        others.extend(pool.terms_of(SAYING));
    }
    let names = names.into_iter().map(str::to_owned);
    for word in names.chain(named_years(task)) {
        others.extend(pool.terms_of(&word));
    }
    let language = common.map_or(Algorithm::English, |_| Algorithm::German);
    let mut terms = related_terms(pool, task, language);
    // A word of the question stands for itself, whatever else it is related to.
    terms.extend(pool.terms_of(task).into_iter().map(|word| (word, word)));
    terms.retain(|(term, word)| *term < spoken && !others.contains(word) && !others.contains(term));
    let share = |term, word| match term == word {
        _ if focus_terms.contains(&word) => weights::FOCUS_WORD,
        true => 1.0,
        false => weights::RELATED,
    };
    let each = terms.into_iter();
    each.map(|(term, word)| (term, (word, share(term, word))))
        .collect()
}

/// The terms of the conversation that are related to each word of a question, with that word:
/// `Kündigungsfrist` to `Frist`, `printer` to `printing`.
fn related_terms(pool: &mut Pool<'_>, task: &str, language: Algorithm) -> Vec<(Term, Term)> {
    let stemmer = Stemmer::create(language);
    let words = words(task).filter(|word| word.len() >= STEM_START);
    let asked: Vec<(Term, String)> = words
        .filter_map(|word| Some((*pool.terms_of(&word).first()?, stemmer.stem(&word).into())))
        .collect();
    let mut related = Vec::new();
    for (word, term) in pool.vocabulary.words() {
        let stem = stemmer.stem(word);
        let found = asked.iter().filter(|(_, asked)| is_related(asked, &stem));
        related.extend(found.map(|(asked, _)| (term, *asked)));
    }
    related.sort_unstable();
    related
}

/// Whether the shorter stem is the beginning or the end of the other, or both begin alike.
fn is_related(one: &str, other: &str) -> bool {
    let (short, long) = match one.len() <= other.len() {
        true => (one, other),
        false => (other, one),
    };
    let alike = short.bytes().zip(long.bytes()).take_while(|(a, b)| a == b);
    let common = alike.count();
    common >= STEMS_COMMON
        || common == short.len() && common >= STEM_START
        || short.len() >= STEM_END && long.ends_with(short)
}

/// Whether a unit is the same question, asked earlier: it has the words of the question and at most
/// one other, or words that request an answer.
fn is_repeated(pool: &Pool<'_>, unit: usize, question: &[Term], requests: &[Term]) -> bool {
    let Unit { text, cues, .. } = &pool.units[unit];
    let is_new = |term: &&Term| !question.contains(term);
    let mut others = pool.terms(unit).iter().filter(is_new);
    if cues.intersects(Cues::QUESTION) {
        return others.count() <= 1;
    }
    let asks = |word: &str| {
        INTERROGATIVES
            .split(' ')
            .any(|one| word.eq_ignore_ascii_case(one))
    };
    text.split_whitespace().any(asks) && others.all(|term| requests.contains(term))
}

/// The sentences of a task that state something: they neither ask nor request anything.
pub(super) fn statements(task: &str) -> Vec<&str> {
    let asks = |sentence: &str| {
        let begins_so = |word: String| {
            let lists = [INTERROGATIVES, WRITING_VERBS, REQUESTS, ASKING_VERBS];
            lists.iter().any(|list| has_word(list, &word))
        };
        sentence.ends_with('?') || words(sentence).next().is_some_and(begins_so)
    };
    unit_texts(task)
        .filter(|sentence| !asks(sentence))
        .collect()
}

/// Whether a task has a subject of its own. "Sum up decisions and risks" has none: it only names
/// categories that agents look for.
pub fn is_question(task: &str) -> bool {
    let mut pool = Pool::new();
    let focus_terms = Focus::terms(&mut pool);
    has_own_words(&mut pool, task, &focus_terms)
}

/// Whether a task has only words that an earlier question explains: "And who does that?", "Why?".
pub(crate) fn is_follow_up(task: &str) -> bool {
    let mut others = words(task).filter(|word| {
        !is_stop_word(word)
            && !has_word(INTERROGATIVES, word)
            && !has_word(FOLLOW_UP_WORDS, word)
            && !is_common_word(word)
    });
    let asks = |word: String| has_word(INTERROGATIVES, &word);
    others.next().is_none() && (task.contains('?') || words(task).any(asks))
}

/// Whether a task asks for a text, such as `Draft a reply to Anna`, but not `Who has the draft?`.
pub(super) fn is_writing_task(task: &str) -> bool {
    let asks = |first: String| asks_for_kind(&first) || has_word(AUXILIARIES, &first);
    unit_texts(task).any(|sentence| {
        !words(sentence).next().is_some_and(asks)
            && words(sentence).any(|word| has_word(WRITING_VERBS, &word))
    })
}

/// The words of a text in lower case.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Whether a task has words of a subject, and at most half of them are keywords of a focus.
fn has_own_words(pool: &mut Pool<'_>, task: &str, focus_terms: &[Term]) -> bool {
    let mut general = pool.terms_of(GENERAL_WORDS);
    general.extend(pool.terms_of(WRITING_VERBS));
    let common = common_words(task).map(|words| pool.terms_of(words));
    let common = common.unwrap_or_default();
    let mut words = pool.terms_of(task);
    words.retain(|term| {
        focus_terms.contains(term) || !general.contains(term) && !common.contains(term)
    });
    let is_of_focus = |term: &&Term| focus_terms.contains(*term);
    let of_focus = words.iter().filter(is_of_focus).count();
    words.len() > of_focus && words.len() >= 2 * of_focus
}
