//! Texts in which names stand above what was said.

use super::*;

#[test]
fn a_name_and_a_time_stand_above_the_text() {
    for (one, other, clock) in rows! {
        ("Anna Schmidt  10:32", "Ben Okafor  10:33", "10:32"),
        ("Anna Schmidt 10:32 AM", "Ben Okafor 10:33 AM", "10:32 AM"),
        ("[Anna Schmidt] 10:32:07", "[Ben Okafor] 10:33:00", "10:32:07"),
        ("[10:32] Anna Schmidt", "[10:33] Ben Okafor", "10:32"),
        ("10:32 - Anna Schmidt", "10:33 - Ben Okafor", "10:32"),
        ("**Anna Schmidt** (10:32)", "**Ben Okafor** (10:33)", "10:32"),
        ("### Anna Schmidt | 00:12", "### Ben Okafor | 00:19", "00:12"),
        ("Anna Schmidt — Today at 10:32", "Ben Okafor — Today at 10:33", "10:32"),
        ("Anna Schmidt, 1:02:03", "Ben Okafor, 1:02:09", "1:02:03"),
        ("Anna Schmidt\n10:32", "Ben Okafor\n10:33", "10:32"),
    } {
        for gap in ["\n", "\n\n"] {
            let text =
                format!("{one}\nTwo things:\nNote: x{gap}{other}\nFine.{gap}{one}\nPerfect\n");
            let expected = [
                format!("Anna Schmidt: [{clock}] Two things:/Note: x"),
                "Ben Okafor: ".to_owned(),
                format!("Anna Schmidt: [{clock}] Perfect"),
            ];
            let said = authored(&text, None);
            assert_eq!(said.len(), 3, "{text}: {said:?}");
            assert_eq!(said[0], expected[0], "{text}");
            assert!(said[1].starts_with(&expected[1]) && said[1].ends_with("] Fine."));
            assert_eq!(said[2], expected[2], "{text}");
        }
    }
}

#[test]
fn a_name_has_the_company_behind_it() {
    let lines = ["10:32", "10:33"].map(|at| {
        format!("Schmidt, Anna | ACME  {at}\nShall we?\n\nBen Okafor | Tide Ltd  {at}\nYes.\n\n")
    });
    let said = authored(&lines.concat(), None);
    let expected = [
        "Schmidt, Anna | ACME: [10:32] Shall we?",
        "Ben Okafor | Tide Ltd: [10:32] Yes.",
    ];
    assert_eq!(said[..2], expected);
    assert_eq!(said.len(), 4);
}

#[test]
fn any_name_beside_a_date_in_brackets_is_a_speaker() {
    // As programs export chats of Discord, and as Telegram copies them.
    let forms: [fn(&str, &str) -> String; 2] = [
        |name, time| format!("[2024-05-07 {time}] {name}"),
        |name, time| format!("{name}, [07.05.2024 {time}]"),
    ];
    for header in forms {
        let (anna, bob) = (header("anna", "10:32"), header("bob#1234", "10:33"));
        let (dan, none) = (header("Dan 77", "10:34"), header("no name", "10:34"));
        let pinned = header("anna (pinned)", "10:35");
        let text = format!(
            "Channel: general\n\n{anna}\nhello\n\n{bob}\nhi\nthere\n\n{dan}\nyo\n{none}\n\n{pinned}\nbye\n"
        );
        let expected = [
            "anna: hello".to_owned(),
            "bob#1234: hi/there".to_owned(),
            format!("Dan 77: yo/{none}"),
            "anna: bye".to_owned(),
        ];
        assert_eq!(authored(&text, None), expected);
    }
}

#[test]
fn a_person_with_a_note_behind_the_name_may_speak_once() {
    let (anna, ben) = ("Anna Schmidt (she/her)", "Ben (on phone)");
    let text = format!("{anna}  0:03\nShall we?\n\n{ben}  0:07\nYes.\n\n{anna}  0:12\nGood.\n");
    let expected = [
        format!("{anna}: [0:03] Shall we?"),
        format!("{ben}: [0:07] Yes."),
        format!("{anna}: [0:12] Good."),
    ];
    assert_eq!(authored(&text, None), expected);
}

#[test]
fn the_sender_of_a_chat_in_zoom_is_the_speaker() {
    let chat = "10:32:14 From Anna Schmidt to Everyone:\n\tHello all\n\
        10:33:02 From Ben to Everyone:\n\tHi all\n\
        10:34:02 From  Anna Schmidt  to  Ben (Direct Message):\n\tBye\n";
    let expected = [
        "Anna Schmidt: [10:32:14] Hello all",
        "Ben: [10:33:02] Hi all",
        "Anna Schmidt: [10:34:02] Bye",
    ];
    assert_eq!(authored(chat, None), expected);
    let one_line = chat.replace(":\n\t", ": ");
    assert_eq!(authored(&one_line, None), expected);
    let german = chat.replace("From", "Von").replace(" to ", " an ");
    assert_eq!(authored(&german, None), expected);
}

#[test]
fn a_day_without_a_year_stays_in_the_text() {
    let chat = "[\u{200e}5/\u{200e}7 10:32 AM] Schmidt, Anna\nShall we?\n\
        [Yesterday 9:15 PM] Okafor, Ben\nTo Tuesday.\n[10:43 AM] Schmidt, Anna\nFine.\n";
    let expected = [
        "Schmidt, Anna: [\u{200e}5/\u{200e}7 10:32 AM] Shall we?",
        "Okafor, Ben: [Yesterday 9:15 PM] To Tuesday.",
        "Schmidt, Anna: [10:43 AM] Fine.",
    ];
    assert_eq!(authored(chat, None), expected);
    let one_line = "[07.05. 10:32] Anna: Shall we?\n[Gestern 21:15] Ben: To Tuesday.\n\
        [10:43] Anna: Fine.\n";
    let expected = [
        "Anna: [07.05. 10:32] Shall we?",
        "Ben: [Gestern 21:15] To Tuesday.",
        "Anna: [10:43] Fine.",
    ];
    assert_eq!(authored(one_line, None), expected);
}

#[test]
fn a_date_above_the_text_is_the_time_of_the_message() {
    for stamp in [
        "13/01/2024 10:02 pm",
        "2024-01-13 22:02",
        "(13.01.2024 22:02)",
    ] {
        let text = format!("Anna {stamp}\nx\n\nSchmidt, Ben {stamp}\ny\n\nAnna {stamp}\nz\n");
        let outline = outline_of(text.as_bytes(), None);
        assert!(
            outline.contains(" 1705183320000 user Schmidt, Ben\n  Text(\"y\")"),
            "{stamp}: {outline}"
        );
    }
}

#[test]
fn a_name_alone_stands_above_the_text() {
    for text in [
        "Anna\nGood morning.\n\nBen\nMorning.\nShall we?\n\nAnna\nYes.\n",
        "**Anna**\nGood morning.\n\n**Ben**\nMorning.\nShall we?\n\n**Anna**\nYes.",
    ] {
        assert_eq!(
            authored(text, None),
            [
                "Anna: Good morning.",
                "Ben: Morning./Shall we?",
                "Anna: Yes."
            ],
            "{text}"
        );
    }
    let apart =
        "Anna\n\nGood morning.\n\nBen\n\nPerfect\n\nAnna\n\nOne.\n\nTwo.\n\nBen\n\nPerfect\n";
    assert_eq!(
        authored(apart, None),
        [
            "Anna: Good morning.",
            "Ben: Perfect",
            "Anna: One.//Two.",
            "Ben: Perfect"
        ]
    );
    let dense = "Anna\nGood morning.\nBen\nPerfect\nAnna\nShall we?\nBen\nPerfect";
    assert_eq!(
        authored(dense, None),
        [
            "Anna: Good morning.",
            "Ben: Perfect",
            "Anna: Shall we?",
            "Ben: Perfect"
        ]
    );
    let copied = "You\nHow long do hens live?\n\nChatGPT\nUp to ten years.\n\nYou\nThanks\n";
    assert_eq!(
        authored(copied, None),
        [
            "user: How long do hens live?",
            "assistant: Up to ten years.",
            "user: Thanks"
        ]
    );
}

#[test]
fn other_texts_have_no_names_above() {
    for text in [
        "Anna Schmidt\nHauptstr. 5\n\nBen Okafor\nElm Street 4\n",
        "Bus 10:32\nBus 10:40\nTrain 10:50\nBus 11:02\n",
        "Opening 9:00\nWelcome by the chair\n\nCoffee 10:30\nIn the hall\n",
        "Introduction\nWe keep hens.\n\nMethods\nWe counted them.\n\nResults\nThere are nine.\n",
        "Zutaten\nMehl\n\nZubereitung\nMischen.\n\nZutaten\nEier\n",
        "We meet at 10:32\nor later\n\nWe eat at 12:30\nor never\n",
        "Anna\nGood morning.\n\nShe said so.\n\nIt rained.\n\nAnna\nLate.\n\nIt stopped.\n",
    ] {
        assert_eq!(authored(text, None), [""; 0], "{text}");
    }
    // A person alone is read on request.
    let alone = "Anna 10:32\nGood morning.\n\nAnna 10:35\nAnyone?\n";
    assert_eq!(authored(alone, None), [""; 0]);
    assert_eq!(
        authored(alone, Some(Format::Text)),
        ["Anna: [10:32] Good morning.", "Anna: [10:35] Anyone?"]
    );
}
