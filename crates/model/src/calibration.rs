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
/// The smallest and the largest plausible ratio.
const RATIOS: (f64, f64) = (0.25, 4.0);
/// The weight of a new reply, once there are enough of them.
const WEIGHT: f64 = 0.2;
/// The weight of a new error.
const BAND_WEIGHT: f64 = 0.3;
/// From this number of samples on, a reply far from the average counts as an exception.
const SETTLED: u32 = 3;
/// The maximum relative distance of an exception from the ratio.
const EXCEPTION: f64 = 0.25;
/// Smaller estimates are ignored: the overhead of a request dominates them.
const FEWEST: Tokens = Tokens(64);
/// The maximum number of models; no program uses as many.
const MOST_MODELS: usize = 1_024;

/// The ratio of one model's tokens to the local estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    ratio: f64,
    band: f64,
    samples: u32,
    window: Option<Window>,
}

/// A window that a provider reported, on request or when it refused a request as too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    /// The window according to the catalogue.
    instead_of: Tokens,
    /// The window according to the provider.
    found: Tokens,
}

impl Calibration {
    /// The initial value: estimates are not changed.
    pub const NEW: Calibration = Calibration {
        ratio: 1.0,
        band: FIRST_BAND,
        samples: 0,
        window: None,
    };

    /// Learns from a reply: the estimated tokens of its input, before any calibration, and the
    /// reported ones. Values that are too small are ignored.
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

    /// The provider's tokens for a local estimate: the likely number, and the maximum according to
    /// the band.
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

    /// The relative error of an adjusted estimate: 20 % at first, then as measured, at least 1 %.
    pub fn band(&self) -> f64 {
        self.band
    }

    /// The window of the model: the provider's, if it reported one while the catalogue had this
    /// value, else `catalogue`.
    pub fn window(&self, catalogue: Tokens) -> Tokens {
        let known = self.window.filter(|w| w.instead_of == catalogue);
        known.map_or(catalogue, |window| window.found)
    }

    /// Whether the provider reported a window while the catalogue had this value.
    pub fn has_window(&self, catalogue: Tokens) -> bool {
        self.window.is_some_and(|w| w.instead_of == catalogue)
    }

    /// The number of replies it was learnt from.
    pub fn samples(&self) -> u32 {
        self.samples
    }
}

impl Default for Calibration {
    fn default() -> Calibration {
        Calibration::NEW
    }
}

/// The product, rounded up. A value that is too large becomes the maximum.
fn scaled(tokens: Tokens, factor: f64) -> Tokens {
    Tokens((tokens.0 as f64 * factor).ceil() as u64)
}

/// The calibrations of all models, by their names in definitions. Cheap to clone; clones share
/// their state.
#[derive(Clone, Debug, Default)]
pub struct Calibrations(Arc<Mutex<BTreeMap<Arc<str>, Calibration>>>);

impl Calibrations {
    /// The calibration of a model; the initial value for an unknown one.
    pub fn get(&self, model: &str) -> Calibration {
        self.models().get(model).copied().unwrap_or_default()
    }

    /// Learns from a model's reply.
    pub fn observe(&self, model: &Arc<str>, estimated: Tokens, reported: Tokens) {
        self.learn(model, |calibration| {
            calibration.observe(estimated, reported)
        });
    }

    /// Records the window that a provider named when it refused a request, if it is smaller than
    /// the catalogue's.
    pub fn record_window_refusal(&self, model: &Arc<str>, catalogue: Tokens, found: Tokens) {
        if Tokens::ZERO < found && found < catalogue {
            let instead_of = catalogue;
            self.learn(model, |known| {
                known.window = Some(Window { instead_of, found });
            });
        }
    }

    /// Records the window that a server reported for a model without one in the catalogue, where
    /// `assumed` was used.
    pub fn record_stated_window(&self, model: &Arc<str>, assumed: Tokens, found: Tokens) {
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

    /// All calibrations, by model.
    pub fn all(&self) -> Vec<(Arc<str>, Calibration)> {
        let models = self.models();
        models.iter().map(|(name, c)| (name.clone(), *c)).collect()
    }

    /// All calibrations as a JSON document.
    pub fn export(&self) -> String {
        document::write(&self.models())
    }

    /// Imports a document. It replaces the calibrations of the models it contains.
    ///
    /// # Errors
    /// It is not a document of this version; then nothing is changed.
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
