//! Tests that counts equal those of tiktoken-rs for any text, length and number of threads.

use proptest::prelude::*;
use tiktoken_rs::CoreBPE;

use super::*;

fn o200k() -> Tokenizer {
    Tokenizer::load(Encoding::O200kBase).unwrap()
}

fn reference(encoding: Encoding) -> &'static CoreBPE {
    match encoding {
        Encoding::O200kBase => tiktoken_rs::o200k_base_singleton(),
        Encoding::Cl100kBase => tiktoken_rs::cl100k_base_singleton(),
    }
}

fn expected(encoding: Encoding, text: &str) -> Count {
    Count::exact(reference(encoding).count_ordinary(text) as u64)
}

/// Text of the character classes that the patterns distinguish, in all combinations.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        " ",
        "  ",
        "   ",
        "\t",
        "\n",
        "\r\n",
        "\n\n",
        "\u{a0}",
        "\u{3000}",
        "\u{85}",
        "\u{2028}",
        "\u{b}",
        "a",
        "I",
        "word",
        "Word",
        "WORD",
        "wORD",
        "'s",
        "'S",
        "'ll",
        "'LL",
        "'\u{17f}",
        "'",
        "1",
        "12",
        "1234",
        "٣",
        "Ⅷ",
        "½",
        "é",
        "e\u{301}",
        "\u{301}",
        "日本",
        "Ǆ",
        "ǅ",
        "ǆ",
        "ʰ",
        "ß",
        "_",
        "/",
        "//",
        "...",
        "!?",
        "-",
        "🦀",
        "👩\u{200d}🔬",
        "<|endoftext|>",
        "\0",
        "naïve",
        "don't",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Pieces, any text, and long pieces.
fn texts() -> impl Strategy<Value = String> {
    let long = "[a-zA-Z]{60,400}|[é日ñ]{20,90}|[!?/=+*-]{50,200}";
    prop_oneof![pieces(), any::<String>(), long]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(768))]
    #[test]
    fn any_text_counts_like_the_reference(text in texts()) {
        for encoding in Encoding::ALL {
            let tokenizer = Tokenizer::load(encoding).unwrap();
            prop_assert_eq!(tokenizer.count(&text), expected(encoding, &text), "{:?}", text);
        }
    }
}

/// The sources of this crate: prose, code, other scripts.
#[test]
fn real_texts_count_like_the_reference() {
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tokenizer");
    let files = std::fs::read_dir(sources).unwrap();
    let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let texts: Vec<String> = texts.collect();
    assert!(texts.len() > 3);
    for encoding in Encoding::ALL {
        let tokenizer = Tokenizer::load(encoding).unwrap();
        let one_by_one: Vec<Count> = texts.iter().map(|text| expected(encoding, text)).collect();
        assert_eq!(tokenizer.count_many(&texts), one_by_one);
    }
}

#[test]
fn counts_like_the_reference() {
    for encoding in Encoding::ALL {
        let tokenizer = Tokenizer::load(encoding).unwrap();
        for text in [
            "",
            "hello world",
            "naïve café 日本語 🦀",
            "<|endoftext|>",
            "a\r\n\tb  c",
        ] {
            assert_eq!(tokenizer.count(text), expected(encoding, text), "{text:?}");
        }
    }
    assert_eq!(o200k().count("hello world"), Count::exact(2));
}

#[test]
fn a_long_text_counts_like_its_whole() {
    let paragraph = "The billing job (v2.3) runs at 02:30 UTC; it wrote 1,204 rows.\n\
                     - retry: 3x\n\n    let total = rows.iter().sum::<u64>();\n";
    let text = paragraph.repeat(3_000);
    assert!(text.len() > 5 * chunk::MAX_BYTES / 2);
    assert_eq!(o200k().count(&text), expected(Encoding::O200kBase, &text));
}

#[test]
fn many_texts_keep_their_order() {
    let texts: Vec<String> = (0..2_000)
        .map(|i| format!("message {i} {}", "x ".repeat(i % 90)))
        .collect();
    let expected: Vec<Count> = texts.iter().map(|text| o200k().count_here(text)).collect();
    assert_eq!(o200k().count_many(&texts), expected);
    assert_eq!(o200k().count_on(2, &texts), expected);
}

#[test]
fn hostile_texts_are_bounded() {
    let hostile = rows! {
        " ".repeat(1_000_000), "a".repeat(1_000_000), "A".repeat(300_000), "\n".repeat(300_000),
        "\u{3000}".repeat(200_000), "é".repeat(300_000), "🦀".repeat(100_000), "!".repeat(300_000),
        "7".repeat(300_000), " a".repeat(100_000),
    };
    for text in hostile {
        let count = o200k().count(&text);
        assert!(count.tokens.0 > 0 && count.at_most.0 <= text.len() as u64);
        assert!(!count.is_approximate(), "{:?}", text.chars().next());
    }
}

#[test]
fn a_panic_becomes_an_estimate() {
    let count = catching_panics("nine byte", |_| std::panic::resume_unwind(Box::new("boom")));
    assert_eq!(count, Count::approximate(9));
}
