//! The ratio of a provider's tokens to the local estimate, learnt per model from the usage in
//! replies, and the window of a model whose provider reports another one than the catalogue.
//!
//! A [`Calibration`] is a moving average of reported over estimated tokens (an EWMA, whose first
//! values have full weight so that three replies suffice), with the average of its error.
//! [`Calibrations`] has one for each model and can be written to a small document and read back.

mod document;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unisono_context::Tokens;
use unisono_context::tokens::Count;

pub use document::Error as DocumentError;

/// The band of a model that has not replied yet.
const FIRST_BAND: f64 = 0.20;
/// The narrowest and the widest band.
const BANDS: (f64, f64) = (0.01, 1.0);
/// The smallest and the largest ratio that is believed.
const RATIOS: (f64, f64) = (0.25, 4.0);
/// The weight of a new reply, once there are enough of them.
const WEIGHT: f64 = 0.2;
/// The weight of a new error.
const BAND_WEIGHT: f64 = 0.3;
/// From then on, a reply far from the others is taken for an exception.
const SETTLED: u32 = 3;
/// How far from the ratio such a reply is believed to be.
const EXCEPTION: f64 = 0.25;
/// Estimates of fewer tokens say more about what surrounds a request than about its text.
const FEWEST: Tokens = Tokens(64);
/// More models than any program uses.
const MOST_MODELS: usize = 1_024;

/// How one model's tokens relate to the local estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    ratio: f64,
    band: f64,
    samples: u32,
    window: Option<Window>,
}

/// A window that a provider named, asked for it or when it refused a request as too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    /// What it was taken for.
    instead_of: Tokens,
    /// What it is.
    found: Tokens,
}

impl Calibration {
    /// Nothing is known yet: estimates stand as they are.
    pub const NEW: Calibration = Calibration {
        ratio: 1.0,
        band: FIRST_BAND,
        samples: 0,
        window: None,
    };

    /// Learns from a reply: what was estimated for its input, before any calibration, and what
    /// its provider reported. Amounts that say nothing are left out.
    pub fn observe(&mut self, estimated: Tokens, reported: Tokens) {
        if estimated < FEWEST || reported == Tokens::ZERO {
            return;
        }
        let seen = (reported.0 as f64 / estimated.0 as f64).clamp(RATIOS.0, RATIOS.1);
        let error = (seen - self.ratio).abs() / seen;
        let believed = match self.samples {
            0..SETTLED => seen,
            _ => seen.clamp(
                self.ratio * (1.0 - EXCEPTION),
                self.ratio * (1.0 + EXCEPTION),
            ),
        };
        self.samples = self.samples.saturating_add(1);
        let weight = WEIGHT.max(1.0 / f64::from(self.samples));
        self.ratio += weight * (believed - self.ratio);
        let band = self.band + BAND_WEIGHT * (error - self.band);
        self.band = band.clamp(BANDS.0, BANDS.1);
    }

    /// The provider's tokens for a local estimate: what is likely, and what it is at most as far
    /// as the band can tell.
    pub fn adjust(&self, estimate: Count) -> Count {
        let tokens = scaled(estimate.tokens, self.ratio);
        let band = scaled(tokens, 1.0 + self.band);
        Count {
            tokens,
            at_most: band.max(scaled(estimate.at_most, self.ratio)),
        }
    }

    /// Reported over estimated tokens.
    pub fn ratio(&self) -> f64 {
        self.ratio
    }

    /// How far off an adjusted estimate is, as a share of it: 20 % at first, then what was
    /// measured, at least 1 %.
    pub fn band(&self) -> f64 {
        self.band
    }

    /// The window of the model, which the catalogue says has that: another, where its provider named
    /// one. That is forgotten when the catalogue says something else.
    pub fn window(&self, catalogue: Tokens) -> Tokens {
        let known = self.window.filter(|w| w.instead_of == catalogue);
        known.map_or(catalogue, |window| window.found)
    }

    /// Whether its provider said what its window is, which the catalogue says is that.
    pub fn has_window(&self, catalogue: Tokens) -> bool {
        self.window.is_some_and(|w| w.instead_of == catalogue)
    }

    /// The replies it was learnt from.
    pub fn samples(&self) -> u32 {
        self.samples
    }
}

impl Default for Calibration {
    fn default() -> Calibration {
        Calibration::NEW
    }
}

/// A product, rounded up. A float that is too large becomes the largest amount.
fn scaled(tokens: Tokens, factor: f64) -> Tokens {
    Tokens((tokens.0 as f64 * factor).ceil() as u64)
}

/// The calibrations of all models, by the names definitions give them. Cheap to clone; clones
/// share what is learnt.
#[derive(Clone, Debug, Default)]
pub struct Calibrations(Arc<Mutex<BTreeMap<Arc<str>, Calibration>>>);

impl Calibrations {
    /// What is known of a model.
    pub fn of(&self, model: &str) -> Calibration {
        self.models().get(model).copied().unwrap_or_default()
    }

    /// Learns from a model's reply.
    pub fn observe(&self, model: &Arc<str>, estimated: Tokens, reported: Tokens) {
        self.learn(model, |calibration| {
            calibration.observe(estimated, reported)
        });
    }

    /// Learns from a refusal that a model's window is smaller than the catalogue says.
    pub fn refused(&self, model: &Arc<str>, catalogue: Tokens, found: Tokens) {
        if Tokens::ZERO < found && found < catalogue {
            let instead_of = catalogue;
            self.learn(model, |known| {
                known.window = Some(Window { instead_of, found });
            });
        }
    }

    /// Takes what a server said when it was asked for the window of a model that is not in the
    /// catalogue, and for which that was assumed.
    pub fn stated(&self, model: &Arc<str>, assumed: Tokens, found: Tokens) {
        let instead_of = assumed;
        self.learn(model, |known| {
            known.window = Some(Window { instead_of, found });
        });
    }

    fn learn(&self, model: &Arc<str>, from: impl FnOnce(&mut Calibration)) {
        let mut models = self.models();
        let before = models.get(model).copied().unwrap_or_default();
        let mut calibration = before;
        from(&mut calibration);
        let known = models.contains_key(model);
        if calibration != before && (known || models.len() < MOST_MODELS) {
            models.insert(model.clone(), calibration);
        }
    }

    /// All that was learnt, by model.
    pub fn all(&self) -> Vec<(Arc<str>, Calibration)> {
        let models = self.models();
        models.iter().map(|(name, c)| (name.clone(), *c)).collect()
    }

    /// All that was learnt as a JSON document.
    pub fn export(&self) -> String {
        document::write(&self.models())
    }

    /// Takes what a document says, in place of what was learnt of the same models.
    ///
    /// # Errors
    /// It is not a document of this version; nothing is taken then.
    pub fn import(&self, document: &str) -> Result<(), DocumentError> {
        let read = document::read(document)?;
        let mut models = self.models();
        models.extend(read.into_iter().take(MOST_MODELS));
        Ok(())
    }

    fn models(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Calibration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
