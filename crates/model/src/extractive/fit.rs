//! Fitting a choice to a cap: as many units as their layout has room for.
//!
//! Layouts of nearly the same units share nearly all their lines, so lines are counted once and
//! summed; only the text that is kept is counted as a whole.

use super::CountTokens;
use super::corrections::CorrectedChoice;
use super::pool::Pool;
use super::terms::FoldedMap;

/// The number of units after the first one that does not fit which are tried in the remaining room.
const FILLERS: usize = 12;
/// A layout that fits.
#[derive(Clone, Debug, Default)]
pub(super) struct Fitted {
    pub(super) units: Vec<usize>,
    pub(super) text: String,
    pub(super) tokens: u64,
}

/// The longest beginning of `chosen` whose layout has at most `cap` tokens, filled up with later
/// units, none of them without its correction. `None` if no unit fits.
pub(super) fn fit(
    pool: &Pool<'_>,
    chosen: &CorrectedChoice,
    cap: u64,
    count: CountTokens<'_>,
    lay_out: &dyn Fn(&[usize]) -> String,
) -> Option<Fitted> {
    // Counts the distinct lines once.
    let mut known: FoldedMap<Box<str>, u64> = FoldedMap::default();
    let mut size = |units: &[usize]| -> u64 {
        let text = lay_out(units);
        // Encodings join an empty line with the end of the line before it.
        let lines = text.split_inclusive('\n').filter(|line| *line != "\n");
        let tokens = lines.map(|line| match known.get(line) {
            Some(&tokens) => tokens,
            None => *known.entry(line.into()).or_insert(count(line)),
        });
        tokens.sum()
    };
    let mut room = cap;
    // The sum of the lines differs from the count of the whole by a few tokens.
    loop {
        let units = beginning(&chosen.units, room, &mut size);
        let units = fill(pool, chosen, units, room, &mut size);
        if units.is_empty() {
            return None;
        }
        let text = lay_out(&units);
        let tokens = count(&text);
        if tokens <= cap {
            return Some(Fitted {
                units,
                text,
                tokens,
            });
        }
        room = room.checked_sub(tokens - cap)?;
    }
}

/// The longest fitting beginning.
fn beginning(chosen: &[usize], room: u64, size: &mut dyn FnMut(&[usize]) -> u64) -> Vec<usize> {
    // The largest number of units known to fit, and the smallest known not to.
    let (mut low, mut high) = (0, chosen.len() + 1);
    while low + 1 < high {
        let at = low.midpoint(high);
        match size(&chosen[..at]) <= room {
            true => low = at,
            false => high = at,
        }
    }
    chosen[..low].to_vec()
}

fn fill(
    pool: &Pool<'_>,
    chosen: &CorrectedChoice,
    mut units: Vec<usize>,
    room: u64,
    size: &mut dyn FnMut(&[usize]) -> u64,
) -> Vec<usize> {
    let later = chosen.units.get(units.len() + 1..).unwrap_or_default();
    let mut used = size(&units);
    for &unit in later.iter().take(FILLERS) {
        let is_too_long = used as f32 + pool.units[unit].tokens > room as f32;
        if is_too_long || chosen.lacks_correction(unit, &units) {
            continue;
        }
        units.push(unit);
        match size(&units) {
            more if more <= room => used = more,
            _ => drop(units.pop()),
        }
    }
    units
}
