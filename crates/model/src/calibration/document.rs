//! Calibrations as a JSON document, ratio and band in parts per million:
//!
//! ```text
//! {"version":1,"models":{"openai/gpt-5":{"ratio_ppm":1031000,"band_ppm":20000,"samples":12}}}
//! ```
//!
//! A model whose provider reported another window than the catalogue additionally has
//! `"window":{"instead_of":128000,"found":8192}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use unisono_context::Tokens;

use super::{BANDS, Calibration, RATIOS, Window};

/// The version this program writes, and the only one it reads.
const VERSION: u32 = 1;

/// A document of calibrations that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is not such a document.
    #[error("this is not a calibration file: {0}")]
    Malformed(String),
    /// It was written by another version of this program.
    #[error("calibrations have version {found}, this program reads version {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// A value is out of bounds.
    #[error("calibration of `{model}`: {field} = {value} is out of bounds")]
    OutOfBounds {
        /// The model.
        model: Arc<str>,
        /// The field.
        field: &'static str,
        /// The value.
        value: u32,
    },
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    models: BTreeMap<Arc<str>, Record>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    ratio_ppm: u32,
    band_ppm: u32,
    samples: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    window: Option<WindowRecord>,
}

#[derive(Serialize, Deserialize)]
struct WindowRecord {
    instead_of: u64,
    found: u64,
}

pub(super) fn write(models: &BTreeMap<Arc<str>, Calibration>) -> String {
    let record = |calibration: &Calibration| Record {
        ratio_ppm: ppm(calibration.ratio),
        band_ppm: ppm(calibration.band),
        samples: calibration.samples,
        window: calibration.window.map(|window| WindowRecord {
            instead_of: window.instead_of.0,
            found: window.found.0,
        }),
    };
    let document = Document {
        version: VERSION,
        models: models.iter().map(|(n, c)| (n.clone(), record(c))).collect(),
    };
    // Strings and whole numbers only: this cannot fail.
    serde_json::to_string(&document).unwrap_or_default()
}

pub(super) fn read(text: &str) -> Result<Vec<(Arc<str>, Calibration)>, Error> {
    let malformed = |error: serde_json::Error| Error::Malformed(error.to_string());
    let Versioned { version: found } = serde_json::from_str(text).map_err(malformed)?;
    if found != VERSION {
        return Err(Error::Version { found });
    }
    let document: Document = serde_json::from_str(text).map_err(malformed)?;
    let models = document.models.into_iter();
    models
        .map(|(name, record)| {
            let calibration = Calibration {
                ratio: checked(&name, "ratio_ppm", record.ratio_ppm, RATIOS)?,
                band: checked(&name, "band_ppm", record.band_ppm, BANDS)?,
                samples: record.samples,
                window: record.window.map(|window| Window {
                    instead_of: Tokens(window.instead_of),
                    found: Tokens(window.found),
                }),
            };
            Ok((name, calibration))
        })
        .collect()
}

fn ppm(value: f64) -> u32 {
    (value * 1e6).round() as u32
}

/// The value, checked against its bounds.
fn checked(
    model: &Arc<str>,
    field: &'static str,
    value: u32,
    (least, most): (f64, f64),
) -> Result<f64, Error> {
    if (ppm(least)..=ppm(most)).contains(&value) {
        return Ok(f64::from(value) / 1e6);
    }
    Err(Error::OutOfBounds {
        model: model.clone(),
        field,
        value,
    })
}
