//! Which labels of a text are speakers. Each text stands with the authors of its messages, and with
//! the lines and labels of its warnings.

use super::*;

/// The line of a text that is no conversation.
const NO_CONVERSATION: &str = "no conversation";

/// The authors of a text's messages, and its warnings, in a line.
fn read_line(text: &str) -> String {
    let parsed = match read_as(text.as_bytes(), &talk(None)) {
        Ok(parsed) => parsed,
        Err(Error::Unrecognised { .. }) => return NO_CONVERSATION.to_owned(),
        Err(error) => return error.to_string(),
    };
    let mut words: Vec<String> = Vec::new();
    for (_, message) in &parsed.import.messages {
        let author = message.author.as_ref().map(ToString::to_string);
        words.push(author.unwrap_or_else(|| message.role.to_string()));
    }
    for warning in &parsed.warnings {
        let label = warning.reason.split('`').nth(1).unwrap_or_default();
        words.push(format!("({} {label})", warning.line));
    }
    words.join(" ")
}

#[track_caller]
fn assert_table(table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(read_line(text), *expected, "{text}");
    }
}

#[test]
fn labels_in_messages_are_no_speakers_and_rare_speakers_are() {
    assert_table(&[
        (
            "Anna: Morning all. The workshop moved.\nVenue: Town hall, second floor\nDeadline: Friday\n\
             Tom: Works for me.\nReminder: bring your laptops.\nMrs. Weiss: I am late.\nAnna: No problem.\n\
             Note: parking is limited\nTom: ok\nLena: I come, too.\nAnna: See you.\nTODO: buy cake\n\
             Address: 5 Elm Street\nYes: that one.",
            "Anna Tom Mrs. Weiss Anna Tom Lena Anna",
        ),
        // Behind a usual label a sentence is a message, but may be a part of the one before.
        (
            "Anna: The workshop moved.\nReminder: bring your laptops.\nCarol: I'll be late.\nAnna: Good.\n\
             Tom: Fine.\nAgenda: two points\nZimmer: klein\nTom: See you.",
            "Anna Carol Anna Tom Tom (3 Carol:) (7 Zimmer:)",
        ),
        // A name may begin with a particle.
        (
            "Ann: Hello there, how are you?\nBob: Fine.\nAnn: When do we ship?\n\
             von Alten: I am against it, we need two weeks.\nBob: Noted.\nAnn: Ok",
            "Ann Bob Ann von Alten Bob Ann (4 von Alten:)",
        ),
        (
            "van Dyke: Hello all\nMary Poe: Hi\nvan Dyke: When do we ship it then?\nMary Poe: Tuesday\n\
             de la Cruz: I say no, Wednesday is better.\nMary Poe: Von Alten: not so.\nvon vorn: again.",
            "van Dyke Mary Poe van Dyke Mary Poe de la Cruz Mary Poe (5 de la Cruz:)",
        ),
        // A label that recurs with values may be a person.
        (
            "Anna: I reviewed.\nMood: good\nTom: I wrote tests.\nMood: fair\nLena: Nothing new.\nAnna: Thanks.\n\
             Blockers: none\nTom: That is all.\nBlockers: none",
            "Anna Mood Tom Mood Lena Anna Tom (2 Mood:)",
        ),
        // A list behind a colon.
        (
            "Anna: Shopping:\nMilk: two\nBread: one\nTom: ok\nAnna: And this\nButter: one\nEggs: ten\nTom: ok",
            "Anna Tom Anna Tom (2 Milk:) (3 Bread:) (6 Butter:) (7 Eggs:)",
        ),
    ]);
}

#[test]
fn minutes_and_support_chats() {
    assert_table(&[
        (
            "Weekly sync, 7 May\nAttendees: Anna, Tom, Lena\n\nAnna: Let's start.\n\n\
             Tom: The tests are not done.\nTODO: fix the flaky one\n\nLena: I can help.\n\n\
             Agenda:\n- release\n- hiring\n\nAnna: Thanks. So, in short:\n\nDeadline: Friday\nOwner: Tom\n\n\
             Tom: Fine.\n\nAction items:\nAnna: write the report\nTom: book the room\n",
            "Anna Tom Lena Anna Tom",
        ),
        (
            "Agent: Hello, how can I help?\nCustomer: My lamp is broken.\nAgent: I found your order:\n\
             Order number: 1234\nItem: Lamp\nColour: red\nTotal: 40 EUR\nShipping address: 5 Elm Street\n\
             Customer: Yes, that one.\nSupervisor: I have approved the refund.\nAgent: Done.",
            "Agent Customer Agent Customer Supervisor Agent (6 Colour:)",
        ),
        (
            "Kunde: Wo bleibt mein Paket?\nSupport: Ihre Daten:\nBestellnummer: 123\nLieferadresse: Hauptstr. 5\n\
             Status: unterwegs\nKunde: Danke!\nSupport: Gern.\nFrau Weber: Es kommt morgen.\nKunde: Super.",
            "Kunde Support Kunde Support Frau Weber Kunde",
        ),
        (
            "Customer: hi\nAgent: Hello!\nCustomer: it is #4471\nAgent: Thanks.\nCarrier: DHL\n\
             Status: In transit\nETA: Friday\nCustomer: great\nAgent: Anything else?\nCustomer: no",
            "Customer Agent Customer Agent Customer Agent Customer (5 Carrier:)",
        ),
        (
            "Moderatorin: Willkommen!\nProf. Dr. Anna Weber: Danke.\nModeratorin: Was ist neu?\n\
             Prof. Dr. Anna Weber: Drei Punkte.\nErstens: die Kosten.\nZweitens: die Zeit.\n\
             Publikum: Lauter bitte!\nModeratorin: Danke.",
            "Moderatorin Prof. Dr. Anna Weber Moderatorin Prof. Dr. Anna Weber Publikum Moderatorin \
             (7 Publikum:)",
        ),
        (
            "Sarah: We need a name.\nJohn: Ideas?\nSarah: Option: Falcon\nMike: It is taken.\n\
             Sarah: Vote:\nSarah: yes\nJohn: yes\nMike: no",
            "Sarah John Sarah Mike Sarah Sarah John Mike",
        ),
        (
            "Anna: Hallo zusammen!\nTom: Hi Anna\nTermin: Montag 10 Uhr\nOrt: Rathaus\nDr. Weber: Ich komme.\n\
             Anna: Alles klar.\nHinweis: Bitte pünktlich sein.\nTom: Super\nWichtig: Ausweis mitbringen!\n\
             Jonas: Bin dabei!\nAnna: Danke.",
            "Anna Tom Dr. Weber Anna Tom Jonas Anna (10 Jonas:)",
        ),
    ]);
}

#[test]
fn headings_and_lists_do_not_matter() {
    assert_table(&[
        (
            "# Sprint review\n\n**Date:** 2024-05-07\n**Attendees:** Anna Schmidt, Tom, Lena\n\n\
             **Anna Schmidt:** Welcome.\n\n**Tom:** Three remarks:\n\n1. It is slow.\n2. **Risk:** memory.\n\n\
             **Lena:** I can profile it.\n\n**Decision:** Lena profiles.\n\n**Anna Schmidt:** Next topic.\n\n\
             **Dr. Weber:** We have two.\n\n## Action items\n\n- **Lena:** profile\n- **Tom:** interview\n",
            "Anna Schmidt Tom Lena Anna Schmidt Dr. Weber",
        ),
        (
            "Name: app\nImage: x\nEnv: prod\n\nName: db\nImage: y\nEnv: prod",
            NO_CONVERSATION,
        ),
    ]);
}

#[test]
fn interviews_and_plays() {
    assert_table(&[
        (
            "Q: How did you start?\nA: By chance.\nAnswer: none.\nQ: And then?\nA: I went on.",
            "Q A Q A",
        ),
        (
            "Frage: Wie war es?\nAntwort: Kurz gesagt: gut.\n\nFrage: Und dann?\nAntwort: Nichts.",
            "Frage Antwort Frage Antwort",
        ),
        (
            "Interviewer: Tell me.\nMaria Kowalski: It began in 1999. Two goals:\nSpeed: twice as fast.\n\
             Price: half.\nInterviewer: Who paid?\nMaria Kowalski: The city.\nSpeaker 2: Smile!\nInterviewer: Bye.",
            "Interviewer Maria Kowalski Interviewer Maria Kowalski Speaker 2 Interviewer (3 Speed:)",
        ),
        (
            "OLGA: Three years.\nMASHA: Yes.\nOLGA: Time passes.\nIRINA: Why remember!\nMASHA: (whistles)\n\
             The Chair: None.\nJ. R.: hm\nMr. Price: Stop.\nOLGA: No.",
            "OLGA MASHA OLGA IRINA MASHA The Chair J. R. Mr. Price OLGA",
        ),
        (
            "Alice:\nHello there.\n\nBob:\nHi.\n\nAlice:\nBye.\n\nCarol:\nI am late.",
            "Alice Bob Alice Carol",
        ),
    ]);
}

#[test]
fn markdown_code_and_models() {
    assert_table(&[
        (
            "**Anna:** Shall we?\n\n**Note:** this is a note.\n\n**Tom:** Yes.\n\n**Summary:** none\n\n\
             **Dr. Weber:** I agree.\n\n**Anna:** Good.",
            "Anna Tom Dr. Weber Anna",
        ),
        (
            "Bob: here is the config\nserver: a\nport: 80\nLena: Thanks, that works.\nAnna: Try\n```yaml\n\
             Host: x\nUser: root\n```\nBob: ok\nAnna: so\nport: 81\nserver: b\nBob: great\nport: 82",
            "Bob Lena Anna Bob Anna Bob (4 Lena:)",
        ),
        (
            "Alice: ```sh\ncurl\nBob: in code\n```\nBob: ```one``` line\nAlice: ok\n```\nBob: in code\n```\n\
             Bob: bye",
            "Alice Bob Alice Bob",
        ),
        // The last fence is not closed.
        (
            "Alice: one\nBob: two\nAlice: ```\nx\n```\nBob: three\nAlice: ```\nBob: four\nAlice: five",
            "Alice Bob Alice Bob Alice Bob Alice",
        ),
        (
            "User: Compare them.\n\nAssistant: Sure!\n\nSpeed: A is faster.\n\nWeight: B is lighter.\n\n\
             User: And C?\n\nAssistant: Like so.\n\nSpeed: fast.\n\nUser: Thanks!",
            "user assistant user assistant user (5 Speed:) (7 Weight:)",
        ),
        (
            "You: Hello all.\nBot: Welcome!\nAnna: Thanks.\nYou: Who is next?\nAnna: Me.\nBot: Anna is.",
            "user assistant Anna user Anna assistant",
        ),
        // Beside a model and its user, a name that never follows the user is a part of an answer.
        (
            "User: How do I bake bread?\n\nAssistant: Like so.\n\nIngredients: flour\n\n\
             Preparation: Mix them all well.\n\nUser: Thanks\n\nAssistant: Sure.",
            "user assistant user assistant (7 Preparation:)",
        ),
        (
            "Lena: Error: connection refused\nMax: https://example.org\nLena: TypeError: x is undefined\n\
             at foo.js:10\nTraceback: none\nMax: ok",
            "Lena Max Lena Max",
        ),
    ]);
}

#[test]
fn handles_and_times() {
    assert_table(&[
        ("@anna: hi\n@tom: hello\n@anna: bye", "@anna @tom @anna"),
        (
            "Anna: hi\nbob92: hey\nTom: hello\nbob92: what's up\nAnna: nothing\nbob92: ok\nTom: bye",
            "Anna bob92 Tom bob92 Anna bob92 Tom",
        ),
        (
            "09:00 Anna: Welcome.\n09:01 Tom: Morning\nPause: kurz\n09:05 Anna: First: budget.\n\
             09:06 Break: coffee\n09:07 Dr. Weber: I'm in.",
            "Anna Tom Anna Dr. Weber",
        ),
        (
            "Anna (10:30): Hi\nTom [10:31]: Hello there\nAnna (10:35): bye",
            "Anna Tom Anna",
        ),
        (
            "07.05.24, 10:32 - Anna: Kommst du?\nOrt: Rathaus\n07.05.24, 10:33 - Tom: ja\n\
             07.05.24, 10:34 - Lena: ich auch\n07.05.24, 10:35 - Anna: gut",
            "Anna Tom Lena Anna",
        ),
        (
            "[5/7/24, 10:32:07 AM] Anna: Coming?\nVenue: Town hall\n[5/7/24, 10:33:00 AM] Tom: yes\n\
             [5/7/24, 10:34:00 AM] Anna: good",
            "Anna Tom Anna",
        ),
    ]);
    let text =
        "2024-05-07 10:32 Anna: Welcome.\n2024-05-07 10:33 Tom: Hi\n2024-05-07 10:34 Anna: So";
    let outline = outline_of(text.as_bytes(), None);
    assert_contains(&outline, " 1715077920000 user Anna\n  Text(\"Welcome.\")");
    let text = "10:32 AM Anna: Welcome.\n10:33 AM Tom: Hi\n10:34 AM Anna: So";
    let outline = outline_of(text.as_bytes(), None);
    assert_contains(&outline, "Text(\"[10:32 AM] Welcome.\")");
}

#[test]
fn a_name_may_have_brackets_or_emoji() {
    assert_table(&[
        (
            "[SPEAKER_00]: Shall we?\n[SPEAKER_01]: Yes.\n[SPEAKER_00]: Good.\n[SPEAKER_01]: Bye.",
            "SPEAKER_00 SPEAKER_01 SPEAKER_00 SPEAKER_01",
        ),
        (
            "[Ann]: Shall we?\n[Bob]: https://x.example\n[Ann]: Good.\n[Bob]: https://y.example",
            "Ann Bob Ann Bob",
        ),
        (
            "Anna: See [1].\n[1]: https://x.example/a\nTom: Fine.\nAnna: Good.\nTom: Bye.",
            "Anna Tom Anna Tom",
        ),
        (
            "User: Who?\n\nAssistant: See [Claude].\n\n[Claude]: https://x.example\n\nUser: Thanks.",
            "user assistant user",
        ),
        (
            "Bob: Shall we?\nAnna 🌸: Yes.\nCarl: Ok.\nBob: Good.\nAnna 🌸: Bye.",
            "Bob Anna 🌸 Carl Bob Anna 🌸",
        ),
        (
            "**Bob:** Shall we?\n\n**Anna 🌸:** Yes.\n\n**Bob:** Good.\n\n**Anna 🌸:** Bye.",
            "Bob Anna 🌸 Bob Anna 🌸",
        ),
        (
            "Anna (she/her): Shall we?\nBob (he/him): Yes.\nAnna (she/her): Good.\nBob (he/him): Bye.",
            "Anna (she/her) Bob (he/him) Anna (she/her) Bob (he/him)",
        ),
        (
            "Anna: Shall we?\nTrue/False: yes\nBob: Yes.\nTrue/False: no\nAnna: Good.\nBob: Bye.",
            "Anna Bob Anna Bob",
        ),
        (
            "🌸 Anna — Today at 10:32\nShall we?\n\nBob 👩\u{200d}💻 — Today at 10:33\nYes.\n\n\
             🌸 Anna — Today at 10:34\nGreat 👍\n",
            "🌸 Anna Bob 👩\u{200d}💻 🌸 Anna",
        ),
        (
            "User: How?\n\nAssistant 🤖: So.\n\nUser: Why?\n\nAssistant 🤖: Because.",
            "user assistant user assistant",
        ),
        (
            "**👤 User:** How?\n\n**🤖 Claude:** So:\n\n**🔑 Key:** 7\n\n**👤 User:** Why?",
            "user assistant user",
        ),
        (
            "Anna: The plan.\nNote 📝: bring cake\nTom: Fine.\nAnna: Good.\nTom: Bye.",
            "Anna Tom Anna Tom",
        ),
    ]);
}

#[test]
fn many_labels_of_which_each_depends_on_the_one_before_are_read() {
    let letter = |n: u32| char::from(b'a' + u8::try_from(n % 26).unwrap());
    let label = |n: u32| format!("X{}{}{}: x", letter(n / 676), letter(n / 26), letter(n));
    let labels: Vec<String> = (0..1_000).map(label).collect();
    let block = format!("Notes:\n{}\n", labels.join("\n"));
    let text = format!("{block}{block}");
    assert!(read_as(text.as_bytes(), &talk(Some(Format::Text))).is_ok());
}

#[test]
fn a_warning_names_the_label_and_a_text_has_few() {
    let lines: Vec<String> = (0..14)
        .map(|number| {
            let label = char::from(b'A' + number);
            format!("Anna: This is it:\nLabel{label}: unclear\nTom: Fine.\n")
        })
        .collect();
    let outline = outline_of(lines.concat().as_bytes(), None);
    let warnings: Vec<&str> = outline
        .lines()
        .filter(|line| line.contains("warning"))
        .collect();
    assert_eq!(warnings.len(), 10, "{outline}");
    assert_eq!(
        warnings[0],
        "warning 2:1: `LabelA:` occurs once and was read as text, not as a speaker"
    );
    assert!(
        warnings[9].ends_with("; 4 more labels are as unclear"),
        "{outline}"
    );
}

#[test]
fn headings_of_exports_are_roles_and_rules_between_messages_are_no_text() {
    let expected = ["user: Is it open?", "assistant: Yes.", "user: Tomorrow?"];
    for (user, model) in [
        ("## 👤 User", "## 🤖 Claude"),
        ("### 🧑\u{200d}💻 You", "### ChatGPT 🤖"),
        ("## Prompt:", "## Response:"),
        ("# **User:**", "# **Assistant:**"),
        ("**You:**", "**GitHub Copilot:**"),
    ] {
        let texts = [user, "Is it open?", model, "Yes.", user, "Tomorrow?"];
        let plain = texts.join("\n\n");
        assert_eq!(authored(&plain, None), expected, "{plain}");
        let ruled = [&texts[..2], &texts[2..4], &texts[4..]].map(|said| said.join("\n\n"));
        let ruled = ruled.join("\n\n---\n\n");
        assert_eq!(authored(&ruled, None), expected, "{ruled}");
    }
    let manual = "# Requests\n\nSend it.\n\n## Response\n\nIt has a body.\n";
    assert!(authored(manual, None).is_empty());
    let about_http = "## User\n\nHow?\n\n## Assistant\n\nSend it.\n\n### Response\n\nA body.\n";
    assert_eq!(
        authored(about_http, None),
        ["user: How?", "assistant: Send it.//### Response//A body."]
    );
}
