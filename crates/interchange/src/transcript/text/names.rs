//! Labels before a colon: what has the form of a speaker's name, and what is a usual label of notes.

use super::{has_role, without_emoji};

/// The form of a label, from the least to the most like a speaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// A usual label, such as `Deadline`; never a speaker.
    Usual,
    /// Words in lower case, such as keys of settings.
    Lower,
    /// A capital letter at the beginning alone, or digits: `Speaker 1`, `Second witness`.
    Phrase,
    /// One to four capitalised words: `Lena`, `Tom de Vries`, `von Alten`.
    Name,
    /// A role, a title with a name, or a handle: `User`, `Dr. Weber`, `@lena`, `J. R.`
    Person,
}

/// Whole labels that are no speakers. As a part of a label they may be a name: `Vincent Price`.
const LABELS: &str = "\
    aber after again also an answer antwort außerdem back background bcc beamer because before \
    benutzer benutzername bonus break breakfast bus but call caveat cc code cons context correct \
    d.h. danke dann database denn dienstag dinner doch donnerstag dort drinks drittens edit \
    einfach end ende ergebnis erstens eta exception falls false fazit ferner finally first \
    flight food frage freitag friday from front fyi genau gestern goal grund hallo hello heute \
    hi hier hint home hotel however http https iban id idea idee in instead ip ja jetzt key kurz \
    last leider login lunch maybe meanwhile mfg mind mittagspause mittwoch monday montag morgen \
    nachteil nachteile nb nein no now oder ok okay on ort otherwise out p.p.s p.p.s. p.s. \
    parking part password passwort pause plus port pps preis price problem pros ps question \
    quote raum re regel reply richtig right room rule saal samstag saturday second sent server \
    size so sonntag sonst stand sunday sure tbd teilnehmer thanks then therefore third thursday \
    thus tip tipp tl;dr tldr to today tomorrow train true tuesday und url username value verdict \
    via vielleicht von vorschlag vorteil vorteile vs wait wann warum was weather wednesday weil \
    wenn wer what when where who why wie wifi wlan wo wrong yes yesterday z.b. ziel zitat zuerst \
    zweitens";

/// Words that are no part of a name: a label with one of them is no speaker.
const WORDS: &str = "\
    abgabe abgabetermin ablauf absender absent achtung action actions actual address addresses \
    adresse agenda amount anhang anlage anmerkung anwesend apologies appendix assignee \
    assumption assumptions attachment attachments attendees aufgabe aufgaben balance bedingung \
    beginn beispiel bemerkung benefits bericht beschluss beschlüsse beschreibung bestellung \
    betrag betreff bitte blocker blockers branch budget commit conclusion conclusions contact \
    content contents cost costs criteria date dates datum dauer deadline deadlines decision \
    decisions delivery depends description details discount duration e-mail email empfänger \
    entscheidung entscheidungen ergebnis ergebnisse erinnerung error errors example examples \
    expected fax features feedback fehler file files fragen frist fällig gesamt goals gründe \
    handy hinweis hinweise important info information infos ingredients inhalt input \
    instructions invoice item items jira kontakt kosten lieferung link links location lösung \
    meeting menge minutes motion nachtrag name next note notes notiz notizen number nummer \
    objective objectives offen offene option options order output overview owner owners package \
    paket payment phone place point points present priority product produkt project projekt \
    protokoll punkt punkte purpose qty quantity quelle quellen questions reason reasons rechnung \
    recording reference references reminder reminders repo requirements resolution resolved \
    responsible result results risk risks schedule schritt schritte scope shipping size slides \
    solution sources status step steps subject subtotal suggestion summary summe tagesordnung \
    task tasks teams tel telefon telephone termin termine thema themen ticket time title to-do \
    todo todos top topic topics total traceback tracking treffpunkt uhrzeit update updated \
    updates venue verantwortlich versand version voraussetzung warning warnings warnung website \
    wichtig zahlung zeit zeitplan zeitraum ziele zoom zusammenfassung zuständig zutaten \
    übersicht";

/// The ends of compounds that are labels: `Lieferadresse`, `Bestellnummer`, `TypeError`.
const ENDS: &str = "\
    adresse aufgaben betrag datum ergebnis error exception frist gebühr kosten liste nachweis \
    nummer preis punkte schritte status summe termin zeitraum";

/// First words of labels that are a part of a sentence.
const OPENERS: &str = "\
    a all alle am an any at auf aus bei bis both das dein deine dem den der die dies diese ein \
    eine es for from für her here hier his how if ihr ihre im in is it its mein meine mit my \
    nach neue new no nur nächste ob of on one open other our please sein seine some that their \
    there these this those to two unser unsere vom von vor wann warum was we weitere wenn wer \
    what when where which who why wie wir with wo you your zu zum zur";

/// Roles of people.
const ROLES: &str = "\
    agent anrufer anruferin applicant arzt befragte befragter berater beraterin bewerber \
    bewerberin caller candidate client customer doctor facilitator gast guest interviewee \
    interviewer interviewerin judge kunde kundin lawyer lehrer lehrerin mitarbeiter \
    mitarbeiterin moderator moderatorin narrator operator participant patient patientin person \
    presenter redner rednerin reporter representative respondent richter richterin speaker \
    sprecher sprecherin student support teacher teilnehmerin therapist tool witness zeuge zeugin \
    ärztin";

/// Labels that take turns in interviews; each is a role only beside the other.
pub(super) const PAIRS: [[&str; 2]; 4] = [
    ["q", "a"],
    ["question", "answer"],
    ["frage", "antwort"],
    ["f", "a"],
];

const TITLES: &str = "\
    capt dame dipl dr fr frau herr hon hr ing lady lord mag miss mr mrs ms mx prof rep rev sen \
    sgt sir";

/// Words in lower case within names.
const PARTICLES: &str = "\
    al bin da de del della den der di do dos du el ibn la le ten ter van vom von y zu zum";

/// Particles with which a name may begin. Other capitalised ones are words of a name without this list,
/// but `Von` begins sentences.
const LEADING_PARTICLES: &str = "\
    al bin da de del della di dos du ibn la le ten ter van von Von";

pub(super) fn form_of(label: &str) -> Form {
    let label = without_emoji(label);
    let label = without_note(&label);
    let lower = label.to_lowercase();
    let words: Vec<&str> = label.split_whitespace().collect();
    let plain = lower
        .split_whitespace()
        .map(|word| word.trim_matches(PUNCTUATION));
    let mut rest = plain.clone();
    let first = rest.next().unwrap_or_default();
    let is_number = |word: &str| word.parse::<u32>().is_ok();
    let is_role = has_role(label) || has(ROLES, first) && rest.clone().all(is_number);
    let is_titled = words.len() > 1 && has(TITLES, first);
    let is_initial = |word: &&str| word.ends_with('.') && word.chars().count() <= 3;
    let is_initials = words.iter().all(is_initial) && is_upper(label);
    if is_role || is_titled || is_initials || lower.starts_with('@') {
        return Form::Person;
    }
    let is_particled = has_leading_particle(label);
    let is_opened = words.len() > 1 && has(OPENERS, first) && !is_particled;
    if is_opened || has(LABELS, &lower) || plain.clone().any(is_usual) {
        return Form::Usual;
    }
    if !is_upper(label) && !is_particled {
        return Form::Lower;
    }
    let has_digit = label.contains(|c: char| c.is_ascii_digit());
    match words.iter().all(|word| is_named(word)) && !has_digit {
        true => Form::Name,
        false => Form::Phrase,
    }
}

/// A label without the note at its end, such as `(she/her)`.
pub(super) fn without_note(label: &str) -> &str {
    let inner = label.strip_suffix(')');
    let name = inner.and_then(|inner| inner.rsplit_once('('));
    let name = name.map(|(name, _)| name.trim_end());
    name.filter(|name| !name.is_empty()).unwrap_or(label)
}

/// Whether a label is a name behind a particle, such as `von Alten` and `de la Cruz`. It may also be
/// the beginning of a sentence.
pub(super) fn has_leading_particle(label: &str) -> bool {
    let mut words = label.split_whitespace();
    let is_led = words
        .next()
        .is_some_and(|first| has(LEADING_PARTICLES, first));
    is_led && words.clone().all(is_named) && words.next_back().is_some_and(is_upper)
}

fn is_named(word: &str) -> bool {
    is_upper(word) || has(PARTICLES, word)
}

/// Whether a word begins with a capital letter, or one of a script without capitals.
fn is_upper(word: &str) -> bool {
    let word = word.trim_start_matches(PUNCTUATION).trim_start();
    word.starts_with(|c: char| c.is_alphabetic() && !c.is_lowercase())
}

const PUNCTUATION: [char; 5] = ['.', '(', ')', '\'', '’'];

fn has(list: &str, wanted: &str) -> bool {
    list.split_whitespace().any(|word| word == wanted)
}

fn is_usual(word: &str) -> bool {
    has(WORDS, word)
        || ENDS
            .split_whitespace()
            .any(|end| word.len() > end.len() && word.ends_with(end))
}
