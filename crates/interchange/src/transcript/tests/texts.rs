//! Texts whose lines begin with a speaker.

use unisono_context::message::Part;

use super::*;

#[test]
fn a_text_is_a_conversation_only_if_clearly_one() {
    let other = [
        "Dear all,\nthis is a letter.\n",
        "name: x\nversion: 2\nname: y\n\nfeatures: none\n\nA text.\n\nMore of it.\n\nEnd.",
        "From: a\nTo: b\n\nSubject: c\n\nFrom: d\n",
        "Alice: I am alone.\nAlice: Still.\n",
        "# A page\n\nNote: this is prose.\n\nWarning: so is this.\n",
        "12:30 - lunch\n",
        "apiVersion: v1\nkind: Service\n---\napiVersion: v1\nkind: Pod\n",
    ];
    for text in other {
        let outline = outline_of(text.as_bytes(), None);
        assert_contains(
            &outline,
            "known format: it is not JSON, and no two speakers take turns in it;",
        );
    }
    for alice in ["[10:32] Alice", "5/17/24, 10:32 - Alice", "[Alice]"] {
        let alone = format!("{alice}: I am alone.\n{alice}: Still.\n");
        let outline = outline_of(alone.as_bytes(), None);
        assert_contains(&outline, "no two speakers take turns in it;");
    }
    let forced = |text: &str| outline_of(text.as_bytes(), Some(Format::Text));
    assert!(forced("Alice: I am alone.\n").contains("user Alice"));
    assert!(forced("Dear all").contains("no line begins with a speaker"));
    assert!(forced("\n \n").contains("the file is empty"));
    assert!(outline_of(b"Alice: x\nBob: \xff\nAlice: y", None).contains("2:6: this is not UTF-8"));
    // With more lines it is a text, and only the line is bad.
    let one = outline_of(b"Alice: x\nBob: y\nAlice: caf\xe9\nBob: z\nAlice: w", None);
    assert!(one.contains("3:11: this is not UTF-8"), "{one}");
    assert!(one.ends_with("nothing was imported\n"), "{one}");
    // A text in another encoding is not JSON because of its first line.
    let latin = outline_of(b"Alice: caf\xe9\nBob: y\nAlice: z", None);
    assert!(latin.contains("1:11: this is not UTF-8"), "{latin}");
    assert!(!latin.contains("not JSON"), "{latin}");
    // Nor is one that begins as a list does.
    let stamped = b"[07.05.24, 10:32:07] J\xfcrgen: Ja\n[07.05.24, 10:32:08] Ana: Wann?\n\
        [07.05.24, 10:32:09] Bob: Jetzt.\n[07.05.24, 10:32:10] Ana: Gut.\n";
    let stamped = outline_of(stamped, None);
    assert!(stamped.contains("1:23: this is not UTF-8"), "{stamped}");
    assert!(stamped.contains("iconv -f WINDOWS-1252"), "{stamped}");
    let lines = b"\xff{\n{\"role\":\"user\",\"content\":\"x\"}";
    assert!(outline_of(lines, None).contains("1:1: this is not UTF-8"));
    for (begin, reason) in [
        (&b"PK\x03\x04\x00\xff"[..], "zip archive, unpack it first"),
        (&b"\x1f\x8b\x08\x00\x00"[..], "with gzip, unpack it first"),
        (&b"\x28\xb5\x2f\xfd\x04"[..], "with zstd, unpack it first"),
    ] {
        assert!(outline_of(begin, None).contains(reason), "{reason}");
    }
}

#[test]
fn stamps_are_parsed_in_several_notations() {
    for (stamp, at) in [
        ("[2024-05-07 10:32]", 1_715_077_920_000_i64),
        ("[2024-05-07T12:32:00+02:00]", 1_715_077_920_000),
        ("[2024-05-07T10:32:00.000Z]", 1_715_077_920_000),
        ("[Tue 2024-05-07 10:32]", 1_715_077_920_000),
        ("[07.05.24, 10:32:00]", 1_715_077_920_000),
        ("07/05/2024, 10:32 -", 1_715_077_920_000),
        ("5/7/24, 10:32 AM -", 1_715_077_920_000),
        ("5/17/24, 12:32\u{202f}PM -", 1_715_949_120_000),
        ("2024-05-07T10:32Z -", 1_715_077_920_000),
        ("07/05/24 10.32 -", 1_715_077_920_000),
        ("7.5.2024 klo 10.32 -", 1_715_077_920_000),
        ("[07/05/2024 10.32.00]", 1_715_077_920_000),
        ("2024. 05. 07. 10:32 -", 1_715_077_920_000),
        ("2024. 5. 7. 오후 10:32,", 1_715_121_120_000),
        ("[2024/5/7 上午10:32:00]", 1_715_077_920_000),
        ("07.05.24, 10:32 Uhr -", 1_715_077_920_000),
        ("17/5/24 10:32 μ.μ. -", 1_715_985_120_000),
        ("١٧\u{200f}/٥\u{200f}/٢٠٢٤, ١٠:٣٢ ص -", 1_715_941_920_000),
        ("5/7/24, 10:32AM -", 1_715_077_920_000),
        ("7/5/24, 10:32 am -", 1_715_077_920_000),
        ("07/05/24, 10:32 a. m. -", 1_715_077_920_000),
        ("٧\u{200f}/٥\u{200f}/٢٠٢٤, ١٠:٣٢ ص -", 1_715_077_920_000),
        ("[2024-05-07 10:32:00 UTC]", 1_715_077_920_000),
        ("[2024-05-07 10:32:00.250]", 1_715_077_920_000),
        (
            "[5/17/2024 10:32:00 AM | Edited 10:33:00 AM]",
            1_715_941_920_000,
        ),
        ("2024-05-07T10:32:00.250 -", 1_715_077_920_000),
    ] {
        let text = format!("{stamp} Alice: x\n{stamp} Bob: y\n{stamp} Alice: z\n");
        let outline = outline_of(text.as_bytes(), None);
        assert!(
            outline.contains(&format!(" {at} user Alice")),
            "{stamp}: {outline}"
        );
    }
}

#[test]
fn a_recording_goes_on_after_its_first_23_minutes() {
    let forms: [fn(&str, &str, &str) -> String; 4] = [
        |at, name, said| format!("[{at}] {name}: {said}"),
        |at, name, said| format!("{at} - {name}: {said}"),
        |at, name, said| format!("{at} {name}: {said}"),
        |at, name, said| format!("{name} ({at}): {said}"),
    ];
    for form in forms {
        let lines = [
            form("00:03", "Alice", "Shall we?"),
            form("23:59", "Bob", "Yes."),
            form("24:10", "Alice", "When?"),
            form("75:40", "Bob", "On Friday."),
        ];
        let expected = [
            "Alice: [00:03] Shall we?",
            "Bob: [23:59] Yes.",
            "Alice: [24:10] When?",
            "Bob: [75:40] On Friday.",
        ];
        assert_eq!(authored(&lines.join("\n"), None), expected);
    }
}

#[test]
fn a_chat_of_zoom_has_its_senders_with_and_without_a_receiver() {
    let text = "10:32:07\t From  Anna Schmidt : Hello there.\n\
        10:32:09\t From  Ben Okafor  to  Anna Schmidt(Privately) : Hello.\n\
        10:33:09\t From  Anna Schmidt : On Friday.\n";
    let expected = [
        "Anna Schmidt: [10:32:07] Hello there.",
        "Ben Okafor: [10:32:09] Hello.",
        "Anna Schmidt: [10:33:09] On Friday.",
    ];
    assert_eq!(authored(text, None), expected);
}

/// Times, authors and texts of a text's messages.
fn said(text: &str) -> Vec<(i64, String, String)> {
    let parsed = read_as(text.as_bytes(), &talk(None)).unwrap();
    let messages = parsed.import.messages.into_iter().map(|(_, message)| {
        let author = message.author.map(|author| author.to_string());
        let texts: Vec<_> = message.parts.iter().map(Part::countable_text).collect();
        (message.at.0, author.unwrap_or_default(), texts.join("|"))
    });
    messages.collect()
}

#[test]
fn names_may_be_of_any_script() {
    for names in rows! {
        ["محمد", "فاطمة"], ["דוד", "רחל"], ["李明", "王芳"], ["प्रिया", "राज"], ["สมชาย", "สมหญิง"],
        ["Ольга", "Иван"], ["김민수", "이영희"],
    } {
        for colon in [": ", "："] {
            let [one, other] = names;
            let text = format!("{one}{colon}a\n{other}{colon}b: c\nmore\n{one}{colon}d\n");
            let authors: Vec<_> = said(&text)
                .into_iter()
                .map(|(_, author, text)| (author, text))
                .collect();
            let expected = [(one, "a"), (other, "b: c\nmore"), (one, "d")];
            assert_eq!(
                authors,
                expected.map(|(author, text)| (author.to_owned(), text.to_owned())),
                "{text}"
            );
        }
    }
}

#[test]
fn a_notice_is_no_part_of_the_message_before_it() {
    for text in [
        "--- Log opened Sun Apr 27 04:46:00 2008\n04:46 < alice> hi\n\
         04:46 -!- carl [n=carl@host] has joined #x\n04:46 <@bob> yo\n04:47  * alice waves: bye\n\
         --- Day changed Mon Apr 28 2008\n00:01 < alice> bye\n",
        "2008-04-27 04:46:12 <+alice> hi\n2008-04-27 04:46:20 * bob waves\n\
         2008-04-27 04:46:30 -!- carl has joined #x: hello\n2008-04-27 04:47:20 <@bob> yo\n\
         2008-04-27 04:47:30 *** carl has left\n2008-04-27 04:48:20 <alice> bye\n",
        "2008-04-27 04:46:12\t+alice\thi\n2008-04-27 04:46:20\t *\tbob waves: x\n\
         2008-04-27 04:46:30\t-->\tcarl has joined #x\n2008-04-27 04:47:20\t@bob\tyo\n\
         2008-04-27 04:48:20\talice\tbye\n",
        "[04:46] <alice> hi\n[04:46] * carl says: x\n[04:47] <bob> yo\n[04:48] *** carl: y\n\
         [04:49] <alice> bye\n",
    ] {
        let messages = said(text)
            .into_iter()
            .map(|(_, author, text)| format!("{author}: {text}"));
        let messages: Vec<_> = messages.collect();
        let expected = match text.starts_with('[') {
            true => ["alice: [04:46] hi", "bob: [04:47] yo", "alice: [04:49] bye"],
            false => ["alice: hi", "bob: yo", "alice: bye"],
        };
        assert_eq!(messages, expected, "{text}");
    }
}

#[test]
fn a_name_between_tabs_may_have_spaces() {
    let text = "2024-05-07 10:32:00\tAnna Schmidt\thi\n2024-05-07 10:32:10\tbob\tyo\n\
                2024-05-07 10:32:20\t--\tdan is away\n2024-05-07 10:32:30\tAnna Schmidt\tbye\n";
    let expected = ["Anna Schmidt: hi", "bob: yo", "Anna Schmidt: bye"];
    assert_eq!(authored(text, None), expected);
}

#[test]
fn all_dates_of_a_file_have_their_day_at_the_same_place() {
    let day = |text: &str| (said(text)[1].0, said(text)[2].0);
    let (fifth_of_february, second_of_may) = (1_707_170_520_000, 1_714_687_320_000);
    let thirteenth = 1_705_183_320_000;
    for (first, other, at) in rows! {
        // A 12-hour clock beside days first, as in India and Great Britain.
        ("13/01/2024, 10:02 pm -", "05/02/2024, 10:02 pm -", fifth_of_february),
        ("1/13/24, 22:02 -", "5/2/24, 22:02 -", second_of_may),
        ("13/01/2024 10:02 pm", "05/02/2024 10:02 pm", fifth_of_february),
        ("1/13/24 22:02", "5/2/24 22:02", second_of_may),
        ("[1/13/24, 22:02:00]", "[5/2/24, 22:02:00]", second_of_may),
        // Spanish, and Arabic with its marks of direction.
        ("13/1/24, 10:02 p. m. -", "5/2/24, 10:02 p. m. -", fifth_of_february),
        ("\u{200f}13\u{200f}/1\u{200f}/2024، 10:02 م -",
         "\u{200f}5\u{200f}/2\u{200f}/2024، 10:02 م -", fifth_of_february),
        ("13/01/2024 à 22:02 -", "05/02/2024 à 22:02 -", fifth_of_february),
    } {
        let text = format!("{other} Ana: x\n{other} Ben: y\n{first} Ana: z\n");
        assert_eq!(day(&text), (at, thirteenth), "{text}");
    }
}

#[test]
fn an_export_from_right_to_left_has_its_marks_anywhere() {
    let arabic = "\u{200f}[١٢/٠٣/٢٠٢٤، ٩:١٥:٠٢ ص] العائلة: \u{200f}الرسائل والمكالمات مشفرة تمامًا.\n\
        \u{200f}[١٣/٠٣/٢٠٢٤، ٩:١٥:٠٣ ص] العائلة: \u{200f}أضافتك فاطمة\n\
        \u{200f}[١٣/٠٣/٢٠٢٤، ٩:١٥:٠٤ ص] فاطمة: متى نلتقي؟\n\
        \u{200f}[١٣/٠٣/٢٠٢٤، ٩:١٥:٠٥ م] \u{200f}محمد: \u{200f}<تم استبعاد الوسائط>\n\
        \u{200f}[١٣/٠٣/٢٠٢٤، ٩:١٥:٠٦ م] فاطمة: غدًا\n";
    let said = said(arabic);
    assert_eq!(said.len(), 3, "{said:?}");
    let first = (
        1_710_321_304_000,
        "فاطمة".to_owned(),
        "متى نلتقي؟".to_owned(),
    );
    assert_eq!(said[0], first);
    assert_eq!((said[1].0, &*said[1].1), (1_710_364_505_000, "محمد"));
    let hebrew = "\u{200f}[13.3.2024, 9:15:04 אחה\"צ] ד\"ר כהן: \u{200f}מתי?\n\
        [13.3.2024, 9:15:05 אחה״צ] רחל: מחר\n[13.3.2024, 9:15:06 אחה״צ] ד\"ר כהן: טוב\n";
    let expected = ["ד\"ר כהן: מתי?", "רחל: מחר", "ד\"ר כהן: טוב"];
    assert_eq!(authored(hebrew, None), expected);
    assert_contains(
        &outline_of(hebrew.as_bytes(), None),
        " 1710364504000 user ד\"ר כהן",
    );
}

#[test]
fn the_name_of_a_chat_says_nothing() {
    let text = "[12.03.24, 09:15:02] Haus: \u{200e}Nachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt.\n\
        [12.03.24, 09:15:03] Ida: Kommst du?\n[12.03.24, 09:16:44] Rolf: Ja.\n\
        [12.03.24, 09:17:00] Ida: Messages and calls are end-to-end encrypted?\n";
    let expected = [
        "Ida: Kommst du?",
        "Rolf: Ja.",
        "Ida: Messages and calls are end-to-end encrypted?",
    ];
    assert_eq!(authored(text, None), expected);
    let outline = outline_of(text.as_bytes(), None);
    assert_contains(&outline, "left behind 1 unnamed notice\n");
    for notice in [
        "メッセージと通話はエンドツーエンド暗号化されています。",
        "Сообщения и звонки защищены сквозным шифрованием.",
        "الرسائل والمكالمات مشفرة تمامًا.",
        "ההודעות והשיחות מוצפנות מקצה לקצה.",
        "Wiadomości i połączenia są w pełni zaszyfrowane.",
        "Mesajlar ve aramalar uçtan uca şifrelidir.",
        "메시지 및 전화는 종단간 암호화되어 안전합니다.",
        "मैसेजेस और कॉल्स एंड-टू-एंड एन्क्रिप्टेड हैं.",
    ] {
        let german = "Nachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt.";
        let text = text.replace(german, notice);
        assert_eq!(authored(&text, None), expected, "{text}");
    }
}

#[test]
fn a_colon_in_a_quotation_ends_no_name() {
    let text = "5/17/24, 10:31 - Rolf „Ro“ Ott: Hallo.\n5/17/24, 10:32 - Ida \"Dee\" Lund: Hi.\n\
        5/17/24, 10:33 - Tom changed the name from \"Trip\" to \"Trip: May\"\n\
        5/17/24, 10:34 - Tom: Done.\n5/17/24, 10:35 - Tom named it “Trip: June”\n\
        5/17/24, 10:35 - Иван изменил тему на «Поход: май»\n\
        5/17/24, 10:35 - 太郎がグループ名を「旅: 五月」に変更しました\n\
        5/17/24, 10:35 - Jan „Jaś” Nowak: Tak.\n\
        5/17/24, 10:36 - Ida \"Dee\" Lund: Good.\n";
    let expected = [
        "Rolf „Ro“ Ott: Hallo.",
        "Ida \"Dee\" Lund: Hi.",
        "Tom: Done.",
        "Jan „Jaś” Nowak: Tak.",
        "Ida \"Dee\" Lund: Good.",
    ];
    assert_eq!(authored(text, None), expected);
}

#[test]
fn a_schedule_or_a_heading_in_a_message_is_a_part_of_it() {
    for stamp in ["5/17/24, 10:31 -", "[17.05.24, 10:31:02]"] {
        let text = format!(
            "{stamp} Ida: The plan:\n=== Day 1\n10:45 - the boat\n11:30 - Lunch: soup\n\
             {stamp} Tom: Good.\n{stamp} Ida: Then at 10.\n"
        );
        let expected = [
            "Ida: The plan:/=== Day 1/10:45 - the boat/11:30 - Lunch: soup",
            "Tom: Good.",
            "Ida: Then at 10.",
        ];
        assert_eq!(authored(&text, None), expected);
    }
}

#[test]
fn a_tab_stands_for_a_space() {
    for text in [
        "10:32:02\tAnn Lee: Hello all\n10:32:09\tBob Ray: Hi\n10:33:09\tAnn Lee: See x.example\n",
        "10:32:02\tAnn Lee:\tHello all\n10:32:09\tBob Ray:\tHi\n10:33:09\tAnn Lee:\tSee x.example\n",
        "Ann Lee (10:32:02):\tHello all\nBob Ray (10:32:09):\tHi\nAnn Lee (10:33:09):\tSee x.example\n",
        "[10:32:02]\tAnn Lee:\tHello all\n[10:32:09]\tBob Ray:\tHi\n[10:33:09]\tAnn Lee:\tSee x.example\n",
    ] {
        let expected = [
            "Ann Lee: [10:32:02] Hello all",
            "Bob Ray: [10:32:09] Hi",
            "Ann Lee: [10:33:09] See x.example",
        ];
        assert_eq!(authored(text, None), expected, "{text}");
    }
    let text = "[10:32]\t<ann> hi\n[10:33]\t<bob> yo\n[10:34]\t<ann> bye\n";
    assert_eq!(
        authored(text, None),
        ["ann: [10:32] hi", "bob: [10:33] yo", "ann: [10:34] bye"]
    );
}

#[test]
fn a_time_of_day_without_a_date_stays_in_the_text() {
    let text = "[10:32] <ali> moin\n[10:33] <zoe> the disk is dying\n[10:34] <ali> replace it\n";
    let outline = outline_of(text.as_bytes(), None);
    assert_contains(&outline, "user zoe\n  Text(\"[10:33] the disk is dying\")");
    let lines = text.replace(['[', ']'], "");
    let opened = format!("--- Log opened Sun Apr 27 04:46:00 2008\n{lines}");
    assert_eq!(
        said(&opened)[1],
        (
            1_209_292_380_000,
            "zoe".to_owned(),
            "the disk is dying".to_owned()
        )
    );
}

#[test]
fn chinese_names_need_no_space_behind_the_colon() {
    let text = "小明:会议几点开始\n小红:十点\n小明:好\n";
    let outline = outline_of(text.as_bytes(), Some(Format::Text));
    assert!(outline.contains("user 小红\n  Text(\"十点\")"), "{outline}");
}

#[test]
fn other_ends_of_lines_and_utf16_are_read() {
    let outline = |text: &[u8]| outline_of(text, None);
    for text in [
        "Alice: Grüße 🎉\nBob: y\nAlice: z\n",
        "[10:32] Alice: x\n[10:33] Bob: y\n[10:34] Alice: z",
    ] {
        let expected = outline(text.as_bytes());
        assert!(expected.starts_with("text"), "{expected}");
        let returns = text.replace('\n', "\r");
        assert_eq!(outline(returns.as_bytes()), expected);
        let behind_empty_lines = format!("\r\n \n{text}");
        assert_eq!(outline(behind_empty_lines.as_bytes()), expected);
        let marked = format!("\u{feff}{text}");
        let units = || marked.encode_utf16();
        let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
        assert_eq!(outline(&little), expected);
        assert_eq!(outline(&big), expected);
        let unmarked = outline(&little[2..]);
        assert_contains(
            &unmarked,
            "convert it with `iconv -f UTF-16LE -t UTF-8 FILE`",
        );
    }
    let one = r#"{"messages":[{"role":"user","content":"é"}]}"#;
    let utf16 =
        |text: String| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let read = outline(&utf16(format!("\u{feff}{one}")));
    assert_eq!(read, outline(one.as_bytes()));
    let several = utf16(format!("\u{feff}{one}\n{one}\n"));
    let refused = outline(&several);
    assert_contains(
        &refused,
        "it is UTF-16 and has several conversations; convert it",
    );
    assert_eq!(list(&several[..], &Options::default()), Ok(Vec::new()));
}

#[test]
fn a_text_that_is_too_long_is_refused_and_not_cut() {
    for begin in ["[10:32] Alice: x\n", "Alice: x\n"] {
        let mut text = begin.as_bytes().to_vec();
        text.resize((64 << 20) + 1, b'x');
        let outline = outline_of(&text, None);
        assert_contains(&outline, "it is not JSON, and longer than a text may be");
    }
}

#[test]
fn a_text_in_another_encoding_is_refused_with_advice() {
    let advice = "of the file; it looks like Windows-1252: convert it with \
                  `iconv -f WINDOWS-1252 -t UTF-8 FILE`";
    for text in [
        &b"Alice: caf\xe9\nBob: y\nAlice: z"[..],
        &b"Alice: x\nBob: y\nAlice: caf\xe9\nBob: \xe9\nAlice: w"[..],
    ] {
        let outline = outline_of(text, None);
        assert_eq!(outline.matches(advice).count(), 1, "{outline}");
    }
}
