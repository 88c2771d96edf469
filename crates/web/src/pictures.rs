//! Drawings of sizes and times, each with a list or table of the same values.
//!
//! They are SVG rectangles and lines with attributes for geometry and classes for colours: the
//! content policy allows no inline style. Screen readers get the table: drawings are hidden from
//! them, and links in drawings are not reachable by keyboard.

pub(crate) mod bars;
pub(crate) mod context;
pub(crate) mod fan;
pub(crate) mod history;
pub(crate) mod timeline;
pub(crate) mod tree;

/// The width of a drawing in its own units.
const WIDTH: f64 = 1000.0;

/// A length of a drawing, of a part of a whole.
pub(crate) fn scaled(part: f64, whole: f64) -> f64 {
    match whole > 0.0 {
        true => (part / whole * WIDTH).clamp(0.0, WIDTH),
        false => 0.0,
    }
}

/// A length as an attribute, rounded to a hundredth.
pub(crate) fn attribute(length: f64) -> String {
    let text = format!("{length:.2}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    short.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_stay_within_the_drawing() {
        for (part, whole, length) in [
            (1.0, 4.0, "250"),
            (1.0, 3.0, "333.33"),
            (5.0, 4.0, "1000"),
            (-1.0, 4.0, "0"),
            (1.0, 0.0, "0"),
        ] {
            assert_eq!(attribute(scaled(part, whole)), length);
        }
    }
}
