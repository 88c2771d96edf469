//! Pictures: drawings of sizes and times, each beside a list or a table that says the same.
//!
//! They are SVG of rectangles and lines whose forms are attributes and whose colours are classes: the
//! content policy allows no style beside the style sheet. Who hears a page instead of seeing it is
//! given the table: drawings are hidden from them, and their links are no stops of the keyboard.

pub(crate) mod bars;
pub(crate) mod context;
pub(crate) mod fan;
pub(crate) mod history;
pub(crate) mod timeline;
pub(crate) mod tree;

/// How wide a drawing is in its own units.
const WIDTH: f64 = 1000.0;

/// A length of a drawing, of a part of a whole.
pub(crate) fn scaled(part: f64, whole: f64) -> f64 {
    match whole > 0.0 {
        true => (part / whole * WIDTH).clamp(0.0, WIDTH),
        false => 0.0,
    }
}

/// A length as an attribute: to a hundredth, which no screen shows.
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
