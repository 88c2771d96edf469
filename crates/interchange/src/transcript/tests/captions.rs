//! Captions of recordings.

use super::*;

fn cues(texts: &[&str]) -> String {
    let cue = |(at, text): (usize, &&str)| {
        format!("{at}\n00:00:{at:02}.000 --> 00:00:{at:02}.900\n{text}\n\n")
    };
    let cues: String = texts.iter().enumerate().map(cue).collect();
    format!("WEBVTT\n\n{cues}")
}

#[test]
fn a_label_at_the_beginning_of_a_caption_is_a_speaker() {
    let zoom = cues(&[
        "Anna Schmidt: Good morning.",
        "Anna Schmidt: Three points: first, the budget.",
        "and then the hens",
        "Ben (he/him): Fine.",
        "Anna Schmidt: Thanks.",
        "Ben (he/him): Bye.",
    ]);
    let expected = [
        "Anna Schmidt: [00:00:00] Good morning. Three points: first, the budget. and then the hens",
        "Ben (he/him): [00:00:03] Fine.",
        "Anna Schmidt: [00:00:04] Thanks.",
        "Ben (he/him): [00:00:05] Bye.",
    ];
    assert_eq!(authored(&zoom, None), expected);
    // SubRip has no heading, and a comma before the fraction.
    let subrip = zoom
        .replace("WEBVTT\n\n", "")
        .replace(".000", ",000")
        .replace(".900", ",900");
    assert_eq!(authored(&subrip, None), expected);
    let talk = cues(&["Anna: One speaker.", "It goes on.", "Anna: The end."]);
    assert_eq!(
        authored(&talk, None),
        ["Anna: [00:00:00] One speaker. It goes on. The end."]
    );
}

#[test]
fn a_name_may_be_the_first_line_of_each_caption() {
    let text = "0:0:0.0 --> 0:0:2.710\nAnna Schmidt\nGood morning.\n\n\
        0:0:3.0 --> 0:0:4.710\nBen Okafor\nMorning.\nShall we?\n\n\
        0:0:5.0 --> 0:0:6.0\nAnna Schmidt\nYes.\n";
    assert_eq!(
        authored(text, None),
        [
            "Anna Schmidt: [0:0:0] Good morning.",
            "Ben Okafor: [0:0:3] Morning. Shall we?",
            "Anna Schmidt: [0:0:5] Yes.",
        ]
    );
}

#[test]
fn only_voices_are_speakers_if_there_are_any() {
    let text = cues(&[
        "music",
        "<v.loud Anna>Note: 3 < 4 &gt; 2<00:00:01.500> <c>ok</c></v>",
        "Ben: is a name here",
        "<v Ben>a<b",
    ]);
    let outline = outline_of(text.as_bytes(), None);
    assert_contains(&outline, "left behind 1 unattributed caption\n");
    assert_eq!(
        authored(&text, None),
        [
            "Anna: [00:00:01] Note: 3 < 4 > 2 ok Ben: is a name here",
            "Ben: [00:00:03] a<b",
        ]
    );
}

#[test]
fn a_caption_has_several_voices_behind_dashes_and_tags() {
    let text = cues(&[
        "- <v Ann>Do we ship?</v>\n- <v Bob>No, Tuesday.</v>",
        "<v Ann>Fine -</v>",
        "<i><v Bob>I said no.</v></i>",
        "<v Ben>To Tuesday.</v> - <i><v Anna Schmidt>Agreed, 3 -> 2</v></i> <v.loud Ben>Good.",
        "<v Ben>What is <video x>?",
    ]);
    assert_eq!(
        authored(&text, None),
        [
            "Ann: [00:00:00] Do we ship?",
            "Bob: [00:00:00] No, Tuesday.",
            "Ann: [00:00:01] Fine -",
            "Bob: [00:00:02] I said no.",
            "Ben: [00:00:03] To Tuesday.",
            "Anna Schmidt: [00:00:03] Agreed, 3 -> 2",
            "Ben: [00:00:03] Good. What is ?",
        ]
    );
    // A text before a voice continues the caption before.
    let text = cues(&["<v Ann>One", "two - <v Bob>Three"]);
    assert_eq!(
        authored(&text, None),
        ["Ann: [00:00:00] One two -", "Bob: [00:00:01] Three"]
    );
}

#[test]
fn long_speech_has_several_messages_and_captions_without_speakers_are_refused() {
    let word = "word ".repeat(60);
    let texts = vec![word.trim(); 20];
    let text = cues(&texts).replacen("word", "<v Anna>word", 1);
    let messages = authored(&text, None);
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(messages[1].starts_with("Anna: [00:00:07] word"));
    let outline = outline_of(cues(&["Hello.", "It is late."]).as_bytes(), None);
    assert_contains(&outline, "1:1: no caption names a speaker");
    let outline = outline_of(b"WEBVTT\n\n", None);
    assert!(outline.contains("no caption names a speaker"), "{outline}");
    // A text about captions is none.
    let outline = outline_of(b"WEBVTTX\n\nThis --> that\n", None);
    assert!(outline.contains("not a conversation"), "{outline}");
}
