//! Tests of calibrations: how fast they adapt, which replies they ignore, and that they can be
//! saved and loaded.

use proptest::prelude::*;

use super::*;

/// One recorded reply: the local estimate of its input, and what its provider reported.
type Recorded = (u64, u64);

/// Replies of a model whose tokens are 1.2 times the estimate, made by the formula
/// `reported = floor(estimated × (1.2 + noise))` with noise going round
/// `+0.021, −0.017, +0.008, −0.030, +0.026, −0.004, +0.015, −0.019`.
const REPLIES: [Recorded; 12] = [
    (80_412, 98_183),
    (81_077, 95_914),
    (82_930, 100_179),
    (4_310, 5_042),
    (83_388, 102_233),
    (1_204, 1_439),
    (84_951, 103_215),
    (12_066, 14_249),
    (85_500, 104_395),
    (640, 757),
    (86_222, 104_156),
    (86_790, 101_544),
];

fn learnt(replies: &[Recorded]) -> Calibration {
    let mut calibration = Calibration::NEW;
    for (estimated, reported) in replies {
        calibration.observe(Tokens(*estimated), Tokens(*reported));
    }
    calibration
}

/// The difference between the adjusted estimate of a reply and the reported value.
fn error(calibration: &Calibration, (estimated, reported): Recorded) -> f64 {
    let adjusted = calibration.adjust(Count::exact(estimated)).tokens.0 as f64;
    (adjusted - reported as f64).abs() / reported as f64
}

#[test]
fn three_replies_correct_an_error_of_a_fifth_to_five_percent() {
    let before = error(&Calibration::NEW, REPLIES[0]);
    assert!(before > 0.15, "{before}");
    let calibration = learnt(&REPLIES[..3]);
    for reply in &REPLIES[3..] {
        let off = error(&calibration, *reply);
        assert!(off <= 0.05, "{reply:?}: {off}");
    }
    // The same holds after each later reply.
    for known in 3..REPLIES.len() {
        let off = error(&learnt(&REPLIES[..known]), REPLIES[known]);
        assert!(off <= 0.05, "after {known}: {off}");
    }
}

#[test]
fn the_band_is_wide_at_first_and_then_what_was_measured() {
    let bands: Vec<f64> = (0..=REPLIES.len())
        .map(|known| learnt(&REPLIES[..known]).band())
        .collect();
    assert_eq!(bands[0], 0.20);
    assert!(bands[3] < 0.13 && bands[12] < 0.04, "{bands:?}");
    let steady = learnt(&[(80_000, 80_000); 100]);
    assert_eq!(steady.band(), 0.01);
}

#[test]
fn an_adjusted_estimate_has_an_upper_bound() {
    let new = Calibration::NEW.adjust(Count::exact(1_000));
    assert_eq!((new.tokens, new.at_most), (Tokens(1_000), Tokens(1_200)));
    let calibration = learnt(&[(80_000, 96_000); 100]);
    let known = calibration.adjust(Count::exact(1_000));
    assert_eq!(
        (known.tokens, known.at_most),
        (Tokens(1_200), Tokens(1_212))
    );
    // The estimate of a text that could not be tokenized is limited by its bytes.
    let guessed = calibration.adjust(Count::approximate(4_000));
    assert_eq!(
        (guessed.tokens, guessed.at_most),
        (Tokens(1_200), Tokens(4_800))
    );
}

#[test]
fn uninformative_amounts_are_ignored() {
    for (estimated, reported) in [(0, 0), (0, 500), (63, 400), (80_000, 0)] {
        let calibration = learnt(&[(estimated, reported)]);
        assert_eq!(calibration, Calibration::NEW, "{estimated} {reported}");
    }
}

#[test]
fn an_outlier_moves_a_settled_ratio_little() {
    // A reply that was read from a cache reports all of its input like any other.
    let settled = learnt(&REPLIES);
    for exception in [
        (80_000, 800_000),
        (80_000, 1),
        (u64::MAX, 1),
        (64, u64::MAX),
    ] {
        let mut after = settled;
        after.observe(Tokens(exception.0), Tokens(exception.1));
        let moved = (after.ratio() / settled.ratio() - 1.0).abs();
        assert!(moved <= 0.05 + 1e-9, "{exception:?}: {moved}");
        assert!(after.band() > settled.band(), "{exception:?}");
        for reply in &REPLIES[..6] {
            after.observe(Tokens(reply.0), Tokens(reply.1));
        }
        assert!(error(&after, REPLIES[6]) <= 0.05, "{exception:?}");
    }
}

#[test]
fn a_changed_tokenizer_is_learnt_again() {
    let mut calibration = learnt(&[(80_000, 80_000); 50]);
    for _ in 0..12 {
        calibration.observe(Tokens(80_000), Tokens(104_000));
    }
    assert!(error(&calibration, (80_000, 104_000)) <= 0.05);
}

#[test]
fn models_are_calibrated_separately() {
    let calibrations = Calibrations::default();
    let [one, other]: [Arc<str>; 2] = ["anthropic/a".into(), "gemini/b".into()];
    for _ in 0..3 {
        calibrations.observe(&one, Tokens(1_000), Tokens(1_300));
        calibrations.observe(&other, Tokens(1_000), Tokens(900));
        calibrations.observe(&"nothing/said".into(), Tokens(1_000), Tokens::ZERO);
    }
    assert!((calibrations.get("anthropic/a").ratio() - 1.3).abs() < 1e-9);
    assert!((calibrations.clone().get("gemini/b").ratio() - 0.9).abs() < 1e-9);
    assert_eq!(calibrations.get("nothing/said"), Calibration::NEW);
    assert_eq!(calibrations.all().len(), 2);
}

#[test]
fn calibrations_survive_a_document() {
    let calibrations = Calibrations::default();
    for (estimated, reported) in REPLIES {
        calibrations.observe(&"anthropic/a".into(), Tokens(estimated), Tokens(reported));
        calibrations.observe(&"x/\"y\"".into(), Tokens(reported), Tokens(estimated));
    }
    let read = Calibrations::default();
    read.import(&calibrations.export()).unwrap();
    assert_eq!(read.export(), calibrations.export());
    for ((_, read), (name, learnt)) in read.all().into_iter().zip(calibrations.all()) {
        assert!((read.ratio() - learnt.ratio()).abs() < 1e-6, "{name}");
        assert!((read.band() - learnt.band()).abs() < 1e-6, "{name}");
        assert_eq!(read.samples(), learnt.samples(), "{name}");
    }
    assert_eq!(
        Calibrations::default().export(),
        r#"{"version":1,"models":{}}"#
    );
}

#[test]
fn a_bad_document_changes_nothing() {
    let calibrations = Calibrations::default();
    calibrations.observe(&"a/b".into(), Tokens(1_000), Tokens(1_100));
    let before = calibrations.all();
    for (document, said) in rows! {
        ("", "this is not a calibration file: EOF"),
        ("{\"version\":1}", "this is not a calibration file: missing field `models`"),
        (
            "{\"version\":2,\"models\":[]}",
            "calibrations have version 2, this program reads version 1",
        ),
        (
            "{\"version\":1,\"models\":{\"a/b\":{\"ratio_ppm\":0,\"band_ppm\":1,\"samples\":1}}}",
            "calibration of `a/b`: ratio_ppm = 0 is out of bounds",
        ),
        (
            "{\"version\":1,\"models\":{\"a/b\":{\"ratio_ppm\":1000000,\"band_ppm\":9,\"samples\":1}}}",
            "calibration of `a/b`: band_ppm = 9 is out of bounds",
        ),
        (
            "{\"version\":1,\"models\":{\"a/b\":{\"ratio_ppm\":1000000,\"band_ppm\":10000,\"samples\":-1}}}",
            "this is not a calibration file: invalid value",
        ),
    } {
        let error = calibrations.import(document).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
        assert_eq!(calibrations.all(), before);
    }
}

proptest! {
    /// Whatever is reported, the values stay within their limits and no arithmetic overflows.
    #[test]
    fn values_stay_in_their_bounds(replies in proptest::collection::vec(any::<Recorded>(), 0..40)) {
        let calibration = learnt(&replies);
        prop_assert!((RATIOS.0..=RATIOS.1).contains(&calibration.ratio()));
        prop_assert!((BANDS.0..=BANDS.1).contains(&calibration.band()));
        for tokens in [0, 1, u64::MAX] {
            let count = calibration.adjust(Count::approximate(tokens));
            prop_assert!(count.at_most >= count.tokens);
        }
    }
}

#[test]
fn a_reported_window_is_used_until_the_catalogue_changes() {
    let calibrations = Calibrations::default();
    let model: Arc<str> = "openai-compatible/qwen3".into();
    let window = |all: &Calibrations, catalogue| all.get(&model).window(Tokens(catalogue)).0;
    for nothing in [0, 128_000, 200_000] {
        calibrations.record_window_refusal(&model, Tokens(128_000), Tokens(nothing));
    }
    assert!(calibrations.all().is_empty(), "that says nothing");
    calibrations.record_window_refusal(&model, Tokens(128_000), Tokens(8_192));
    calibrations.observe(&model, Tokens(1_000), Tokens(1_200));
    assert_eq!(window(&calibrations, 128_000), 8_192);
    assert_eq!(window(&calibrations, 32_000), 32_000);

    let again = Calibrations::default();
    again.import(&calibrations.export()).unwrap();
    assert_eq!(again.all(), calibrations.all());
    assert_eq!(window(&again, 128_000), 8_192);
    // A document written before windows were recorded.
    let before = r#"{"version":1,"models":{"openai-compatible/qwen3":{"ratio_ppm":1000000,"band_ppm":200000,"samples":3}}}"#;
    again.import(before).unwrap();
    assert_eq!(window(&again, 128_000), 128_000);
}
