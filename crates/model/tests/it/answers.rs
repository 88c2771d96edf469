//! Tests of the offline model's answers and of the days in its summaries.

use std::fmt::Write as _;

use unisono_context::{Ordinal, Part, Role, Timestamp, Tokens};
use unisono_model::extractive::{
    AnswerInput, DelegateAnswer, Passage, SummaryInput, SummaryLayout, SummaryText, SynthesisInput,
    answer, summarise, synthesise,
};

use crate::rolling::{DAY, START, check, count};

/// A message of a person, so many days after the first.
fn said<'a>(n: u32, days: i64, name: &'a str, text: &'a str) -> Passage<'a> {
    let mut passage = Passage::text(Ordinal(n), Role::User, Timestamp(START + days * DAY), text);
    passage.author = Some(name.into());
    passage
}

fn ask(passages: &[Passage<'_>], task: &str) -> String {
    ask_agent(passages, "", task)
}

fn ask_agent(passages: &[Passage<'_>], persona: &str, task: &str) -> String {
    let input = AnswerInput {
        passages,
        summaries: &[],
        persona,
        task,
        cap: Tokens(900),
        count: &count,
    };
    answer(&input).text
}

#[test]
fn the_message_after_a_question_is_its_answer() {
    let talk = [
        said(1, 0, "Ben", "The train was late again."),
        said(2, 0, "Ben", "My dad is in the hospital since yesterday."),
        said(3, 0, "Ana", "Oh no. Which hospital?"),
        said(4, 0, "Ben", "Saint Mary, ward 23."),
        said(5, 3, "Ana", "I bought a red bicycle."),
    ];
    let text = ask(&talk, "Which hospital is Ben's dad in?");
    check(&text, &["#2 Ben", "ward 23"], &["train", "bicycle"]);
}

#[test]
fn a_question_that_was_asked_before_has_the_answer_of_then() {
    let talk = [
        said(1, 0, "Ana", "How much did the sofa cost?"),
        said(2, 0, "Ben", "640 euros, with delivery."),
        said(3, 1, "Ana", "The kitchen is blue now."),
    ];
    let text = ask(&talk, "How much did the sofa cost?");
    check(&text, &["640 euros"], &["How much", "kitchen"]);
}

#[test]
fn a_question_about_a_month_is_answered_with_what_was_said_then() {
    let talk = [
        said(1, 2, "Ana", "I signed the lease for the flat in Porto."),
        said(
            2,
            60,
            "Ben",
            "I got the job at the planetarium, for 3,150 euros.",
        ),
        said(3, 61, "Ana", "ok"),
        said(4, 120, "Ana", "I passed the exam at the second try."),
    ];
    let text = ask(&talk, "What happened in March 2025?");
    check(&text, &["planetarium"], &["lease", "exam"]);
    let text = ask(&talk, "What did Ana do on 8 January 2025?");
    check(&text, &["lease"], &["exam"]);
}

#[test]
fn the_year_of_a_month_is_not_its_subject() {
    let talk = [
        said(1, 2, "Ana", "The contract for 2025 is signed."),
        said(2, 2, "Ben", "ok"),
        said(3, 60, "Ben", "I got the job at the planetarium."),
    ];
    let text = ask(&talk, "What happened in March 2025?");
    check(&text, &["planetarium"], &["contract"]);
}

#[test]
fn a_long_message_is_quoted_where_it_has_the_words() {
    let lines: Vec<String> = (0..30).map(|n| format!("line {n}: ok")).collect();
    let log = format!("{}\nerror: rounding of 19.99", lines.join("\n"));
    let text = ask(&[said(1, 0, "Ana", &log)], "Which error occurred?");
    check(&text, &["rounding"], &["line 5:"]);
}

#[test]
fn the_id_of_a_question_decides() {
    let talk = [
        said(
            1,
            0,
            "Ana",
            "Flight HAT136 leaves Ghent on Monday at 19:00.",
        ),
        said(2, 0, "Ben", "I take HAT136."),
        said(3, 0, "Ana", "HAT136 is full."),
        said(4, 0, "Ben", "No."),
        said(5, 0, "Ana", "Fine."),
        said(
            6,
            0,
            "Ben",
            "The flight departs on 27 May, and the next flight departs at noon.",
        ),
    ];
    let text = ask(&talk, "When does flight HAT136 depart?");
    let first = text.lines().find(|line| line.starts_with("- "));
    assert!(first.is_some_and(|line| line.contains("#1 ")), "{text}");
}

#[test]
fn a_question_with_a_word_like_those_of_tasks_is_no_task() {
    let talk = [
        said(1, 0, "Ana", "We decided to paint the hall blue."),
        said(2, 0, "Ben", "I will bring the ladder on Friday."),
    ];
    for task in [
        "When was the draft of the contract sent?",
        "Did Zoe write the contract?",
        "When does the plane land?",
        "Wer hat den Vertrag verfasst, und wer soll ihn schreiben?",
    ] {
        let nothing = "No message has the words of this question.";
        assert_eq!(ask(&talk, task), nothing, "{task}");
    }
    let text = ask(&talk, "Write a note to all.");
    check(&text, &["paint the hall"], &["No message has"]);
}

#[test]
fn a_later_correction_stands_beside_what_it_corrects() {
    let talk = [
        said(1, 0, "Ana", "The wedding is on 14 September in Ghent."),
        said(2, 0, "Ben", "I look for a band."),
        said(3, 4, "Ana", "Correction: it moved to 21 September."),
        said(4, 5, "Ben", "The change of plan at work is annoying."),
    ];
    let text = ask(&talk, "When is the wedding?");
    check(&text, &["14 September", "21 September"], &["band", "work"]);
}

#[test]
fn an_answer_of_quotes_is_not_quoted() {
    let mut lead = said(
        3,
        1,
        "lead",
        "# When?\n\n## Answer (lead)\n\n**2025-01-06**\n- #1 Ana: “The launch is on Friday.”",
    );
    lead.role = Role::Assistant;
    let talk = [
        said(1, 0, "Ana", "The launch is on Friday."),
        said(2, 1, "Ben", "Fine with me."),
        lead,
    ];
    let text = ask(&talk, "When is the launch?");
    check(&text, &["#1 Ana"], &["#3"]);
    let summary = summarise(&SummaryInput::new(&talk, Tokens(300), &count));
    assert!(!summary.text.contains("#3"), "{}", summary.text);
}

#[test]
fn a_note_of_an_attachment_is_not_quoted() {
    let part = Part::attachment("harbour plan. final.pdf", "application/pdf", 3_000, None);
    let at = Timestamp(START);
    let attached = Passage::of_part(Ordinal(1), Role::User, Some("Ana"), at, &part);
    let talk = [
        said(1, 0, "Ana", "The harbour plan is approved."),
        attached.unwrap(),
        said(2, 1, "Ben", "The bicycle is red."),
        // As a search finds it.
        said(
            3,
            1,
            "Ben",
            "[attachment harbour.png image/png 70 bytes, 2 x 2 pixels]",
        ),
    ];
    let summary =
        "- Ana #4 [attachment harbour.gif image/gif 70 bytes]\n- Ben #5 The harbour is full.";
    let input = AnswerInput {
        passages: &talk,
        summaries: &[SummaryText {
            first: Ordinal(4),
            last: Ordinal(5),
            text: summary,
        }],
        persona: "",
        task: "What is with the harbour?",
        cap: Tokens(900),
        count: &count,
    };
    let text = answer(&input).text;
    check(&text, &["approved"], &["bytes"]);
    let text = ask(&talk[1..3], "What is with the harbour?");
    assert!(!text.contains("harbour plan"), "{text}");
}

#[test]
fn a_quote_has_no_day_of_another_section() {
    let text =
        "## Answer\n\n**2025-01-06**\n- #1 Ana: “We ship.”\n\n## Risks\n- #2 Ben: “It may rain.”";
    let results = [DelegateAnswer {
        agent: "risks",
        text,
    }];
    let text = synthesise(&SynthesisInput {
        task: "What is left?",
        results: &results,
        cap: Tokens(400),
        count: &count,
    });
    let text = text.text;
    assert!(text.contains("“We ship.” (2025-01-06)"), "{text}");
    assert!(text.ends_with("“It may rain.”"), "{text}");
}

#[test]
fn as_many_days_as_fit_are_above_their_quotes() {
    let texts: Vec<String> = (0..200)
        .map(|n| format!("Parcel K{} went to the harbour of Town{n}.", 1_000 + n))
        .collect();
    let passages: Vec<Passage<'_>> = (1..)
        .zip(&texts)
        .map(|(n, text)| said(n, i64::from(n), "Ana", text))
        .collect();
    let mut prior: Option<String> = None;
    for (generation, part) in passages.chunks(50).enumerate() {
        let draft = summarise(&SummaryInput {
            prior: prior.as_deref(),
            ..SummaryInput::new(part, Tokens(500), &count)
        });
        let (mut days, mut dated, mut quotes) = (0, 0, 0);
        let mut is_dated = false;
        for line in draft.text.lines() {
            is_dated &= !line.starts_with('#');
            if line.ends_with(':') {
                (is_dated, days) = (true, days + 1);
            } else if line.starts_with("- ") {
                quotes += 1;
                dated += usize::from(is_dated);
            }
        }
        let mut text = String::new();
        let _ = write!(text, "generation {generation}:\n{}", draft.text);
        assert!(
            days > 5 && 3 * dated > 2 * quotes,
            "{dated} of {quotes} {text}"
        );
        prior = Some(draft.text);
    }
}

#[test]
fn a_question_about_a_kind_of_facts_is_answered_with_them() {
    let talk = [
        said(1, 0, "Ana", "The date picker has a new colour."),
        said(2, 1, "Ben", "The freeze is on 14 March."),
        said(3, 2, "Ana", "I updated the docs of the exporter."),
        said(4, 3, "Ben", "The freeze is postponed to Friday 21 March."),
        said(5, 4, "Ana", "The exporter is fast now."),
    ];
    let text = ask(&talk, "Which dates changed?");
    check(
        &text,
        &["postponed to Friday 21 March"],
        &["picker", "exporter"],
    );
}

#[test]
fn the_next_message_that_contradicts_stands_beside_its_quote() {
    let talk = [
        said(1, 0, "Ana", "The keys of the shed are only with Anne."),
        said(2, 0, "Ben", "No, I gave them to Kai yesterday."),
        said(3, 1, "Ana", "The fence is green."),
    ];
    let text = ask(&talk, "Who has the keys of the shed?");
    check(&text, &["to Kai"], &["fence"]);
}

#[test]
fn the_best_quote_stands_first_also_beside_quotes_without_a_day() {
    let mut talk = vec![
        said(1, 0, "Ana", "The roof of the shed has 3 holes."),
        said(2, 0, "Ben", "The fence is green."),
        said(3, 5, "Ana", "The roof of the shed costs 410 euros."),
    ];
    talk[0].at = Timestamp::default();
    let text = ask(&talk, "How much does the roof of the shed cost?");
    let best = "- #3 Ana: “The roof of the shed costs 410 euros.” (2025-01-11)\n";
    assert!(text.starts_with(&format!("## Answer\n{best}")), "{text}");
    check(&text, &["- #1 Ana"], &["**"]);
}

#[test]
fn a_number_that_no_message_has_is_named_above_the_nearest_messages() {
    let talk = [
        said(1, 0, "Ana", "The hall in Ghent has room for 120 guests."),
        said(2, 0, "Ben", "The hall of the school is cold."),
        said(3, 1, "Ana", "I paid for the hall."),
        said(4, 1, "Ben", "We decided to meet in the hall."),
        said(5, 2, "Ana", "The bicycle is red."),
    ];
    for persona in ["", "You collect decisions."] {
        let text = ask_agent(&talk, persona, "Which hall had 1299 degrees?");
        let note = "No message has these words of the question: 1299.\n\n## Nearest messages\n";
        assert!(text.starts_with(note), "{text}");
        let quotes = text.lines().filter(|line| line.starts_with("- #")).count();
        assert!((1..=3).contains(&quotes), "{text}");
        check(&text, &[], &["bicycle", "## Decisions"]);
    }
}

#[test]
fn an_agent_quotes_nothing_that_does_not_bear_on_the_question() {
    let talk = [
        said(
            1,
            0,
            "Ana",
            "We decided to rent the hall in Ghent for 900 euros.",
        ),
        said(2, 0, "Ben", "Fine with me."),
        said(3, 1, "Ana", "The cat was ill."),
        said(4, 1, "Ben", "Poor cat."),
        said(5, 2, "Ana", "We decided to sell the boat."),
    ];
    let text = ask_agent(&talk, "You collect decisions.", "What does the hall cost?");
    check(&text, &["hall in Ghent"], &["boat"]);
}

#[test]
fn a_question_whose_words_nobody_said_gets_one_line() {
    let talk = [
        said(1, 0, "Ana", "I quit the choir because of Bernd."),
        said(2, 0, "Ben", "Work was hard, three meetings in a row."),
    ];
    let nothing = "No message has the words of this question.";
    let personas = ["", "You read the notes of all meetings."];
    for task in [
        "Why did the kangaroo escape?",
        "Explain the kangaroo.",
        "Which decision was about the kangaroo?",
    ] {
        for persona in personas {
            assert_eq!(ask_agent(&talk, persona, task), nothing, "{task}");
        }
    }
}

#[test]
fn a_question_in_a_script_without_spaces_is_answered_by_its_subject() {
    let mut talk = vec![
        said(1, 0, "佐藤", "来月から大阪支社に転勤します。"),
        said(2, 0, "鈴木", "了解。"),
        said(3, 1, "佐藤", "大丈夫です。"),
        said(4, 1, "鈴木", "雨。"),
        said(5, 2, "佐藤", "我的护照号码是E12345678。"),
        said(6, 2, "鈴木", "好。"),
        said(7, 3, "佐藤", "多少有点累。"),
    ];
    let text = ask(&talk, "転勤はどこですか？");
    check(&text, &["大阪支社"], &["大丈夫"]);
    let text = ask(&talk, "护照号码是多少？");
    check(&text, &["E12345678"], &["累"]);
    // Pairs of characters are not listed as missing words.
    talk.extend((8..20).map(|n| said(n, 4, "鈴木", "会議は三時からです。")));
    let text = ask(&talk, "会議は何時から？");
    assert!(text.starts_with("## Answer\n"), "{text}");
}

#[test]
fn the_names_of_people_who_talk_decide_little() {
    let talk = [
        said(1, 0, "Mira", "Hi Jonas! Jonas, how are you, Jonas?"),
        said(2, 0, "Jonas", "Hi Mira! I am fine."),
        said(3, 1, "Jonas", "The course in Cremona starts in September."),
        said(4, 2, "Mira", "Jonas, Jonas, you never sleep."),
    ];
    let text = ask(&talk, "Mira, when does the course of Jonas start?");
    let first = text.lines().find(|line| line.starts_with("- "));
    assert!(
        first.is_some_and(|line| line.contains("September")),
        "{text}"
    );
}

#[test]
fn a_question_about_what_a_person_said_is_answered_by_that_person() {
    let talk = [
        said(
            1,
            0,
            "Ines",
            "The doctor says that I drink too much coffee.",
        ),
        said(
            2,
            0,
            "Ben",
            "She told me the same, she says it to everybody.",
        ),
        said(3, 1, "Tom", "Morning!"),
        said(
            4,
            1,
            "Tom",
            "I sold the old Volvo to Mr. Petersen for 3,400 euros.",
        ),
    ];
    for task in ["What did Tom say?", "What did Tom say about the Volvo?"] {
        let text = ask(&talk, task);
        let first = text.lines().find(|line| line.starts_with("- "));
        assert!(first.is_some_and(|line| line.contains("Volvo")), "{text}");
        check(&text, &[], &["doctor", "everybody"]);
    }
}

#[test]
fn a_message_and_its_summary_are_one_quote() {
    let text = "Days (UTC): 3 January 2025, 6 January.\n\n## Key points\n3 January 2025:\n\
        - Tom #21 The claim number is HX-20931.\n\n6 January:\n\
        - Ines #61 Yesterday (5 January 2025) I adopted a dog.\n\n## Key facts\n\
        - Ines: The doctor says that I must not drink coffee. (#70)";
    let summary = SummaryText {
        first: Ordinal(1),
        last: Ordinal(80),
        text,
    };
    let talk = [
        said(21, -3, "Tom", "The claim number is HX-20931."),
        said(61, 0, "Ines", "Yesterday I adopted a dog."),
        said(
            70,
            1,
            "Ines",
            "The doctor says that I must not drink coffee.",
        ),
    ];
    for (passages, task, quote) in rows! {
        (&talk[..], "What is the claim number?", "HX-20931"),
        (&talk[..], "When did Ines adopt the dog?", "adopted a dog"),
        (&talk[..], "What does the doctor say?", "#70 Ines: “The doctor"),
        (&talk[..0], "What does the doctor say?", "#70 Ines: “The doctor"),
    } {
        let input = AnswerInput {
            passages,
            summaries: &[summary],
            persona: "",
            task,
            cap: Tokens(900),
            count: &count,
        };
        let text = answer(&input).text;
        assert_eq!(text.matches(quote).count(), 1, "{task}: {text}");
        assert!(!text.contains("“Ines:"), "{task}: {text}");
    }
}

#[test]
fn a_german_question_finds_compound_words() {
    let talk = [
        said(1, 0, "Lukas", "Ich wechsle im Winter den Anbieter."),
        said(2, 0, "Frieda", "Die Kündigungsfrist beträgt sechs Wochen."),
        said(3, 1, "Lukas", "Die Wohnung ist hell."),
    ];
    let text = ask(&talk, "Wie lange ist die Frist?");
    check(&text, &["sechs Wochen"], &["hell"]);
}

#[test]
fn a_message_without_a_time_has_no_day() {
    let mut talk = vec![
        said(1, 0, "Ana", "The allotment costs 240 euros a year."),
        said(2, 0, "Ben", "The key of the shed is at Jolanda's."),
        said(3, 327, "Ana", "The new pump costs 95 euros."),
    ];
    for passage in &mut talk[..2] {
        passage.at = Timestamp::default();
    }
    let of = |passages: &[Passage<'_>], prior: Option<&str>, layout| {
        let draft = summarise(&SummaryInput {
            prior,
            layout,
            ..SummaryInput::new(passages, Tokens(300), &count)
        });
        draft.text
    };
    let first = of(&talk, None, SummaryLayout::Rolling);
    let later = [said(4, 327, "Ben", "The fence has 12 posts.")];
    let second = of(&later, Some(&first), SummaryLayout::Rolling);
    let rolled = of(
        &talk[2..],
        Some(&of(&talk[..2], None, SummaryLayout::Rolling)),
        SummaryLayout::Rolling,
    );
    for text in [first, second, rolled] {
        assert!(!text.contains("Days (UTC)"), "{text}");
        let (before, after) = text.split_once("29 November 2025:").unwrap();
        check(before, &["240 euros", "Jolanda"], &[]);
        assert!(after.contains("95 euros"), "{text}");
    }
    let paragraph = of(&talk, None, SummaryLayout::Paragraph);
    assert!(!paragraph.contains("2025"), "{paragraph}");
    let dated = of(&talk[2..], None, SummaryLayout::Rolling);
    assert!(
        dated.starts_with("Days (UTC): 29 November 2025."),
        "{dated}"
    );
}
