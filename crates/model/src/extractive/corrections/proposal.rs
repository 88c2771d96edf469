//! Questions that propose something, and the replies that accept them.

use crate::extractive::cues::Cues;
use crate::extractive::days::has_word;
use crate::extractive::passage::PassageKind;
use crate::extractive::pool::Pool;
use crate::extractive::terms::in_small_letters;

/// Words with which a reply accepts a proposal, and words before a condition.
const ACCEPTING: &str = "yes yeah yep ok okay fine sure perfect agreed works ja gut passt gern \
    gerne prima einverstanden";
const CONDITIONS: [&str; 4] = [" but ", " if ", " aber ", " wenn "];

/// Whether a unit is a question at the end of a message which the next message accepts: `14 April at
/// 11:15?`, `Yes, that's fine.`
pub(super) fn is_accepted(pool: &Pool<'_>, index: usize) -> bool {
    let unit = &pool.units[index];
    let asks = unit.cues.intersects(Cues::QUESTION) && unit.kind == PassageKind::Text;
    asks && pool.units.get(index + 1).is_some_and(|reply| {
        reply.source != unit.source
            && reply.speaker != unit.speaker
            && reply.kind == PassageKind::Text
            && accepts(reply.text)
    })
}

fn accepts(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    let first = in_small_letters(words.next().unwrap_or_default());
    has_word(ACCEPTING, &first) && !CONDITIONS.iter().any(|word| text.contains(word))
}
