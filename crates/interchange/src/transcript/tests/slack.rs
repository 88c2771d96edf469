//! Channels of Slack's export.

use super::*;

#[test]
fn days_of_a_channel_are_joined_in_order_of_time() {
    let day = |text: &str, ts: &str| {
        let message = format!(r#"[{{"type":"message","user":"U1","text":"{text}","ts":"{ts}"}}]"#);
        (format!("{text}.json"), message.into_bytes())
    };
    let users = br#"[{"id":"U1","profile":{"real_name":"Ada"}}]"#.to_vec();
    let files = [
        day("later", "1715070060.2"),
        day("first", "1715070060.1"),
        ("users.json".to_owned(), users),
    ];
    let outline = outline_of(&join_channel(&files).unwrap(), None);
    assert_contains(
        &outline,
        "1 after -: 1715070060100 user Ada\n  Text(\"first\")",
    );
    assert_contains(
        &outline,
        "2 after 1: 1715070060200 user Ada\n  Text(\"later\")",
    );
    for bad in ["{}", "[7]", "[{\"role\":\"user\"}]", "[", "\u{1}"] {
        let files = [("bad.json".to_owned(), bad.as_bytes().to_vec())];
        let error = join_channel(&files).unwrap_err().to_string();
        assert!(error.starts_with("bad.json: "), "{error}");
    }
}

#[test]
fn replies_of_a_thread_stand_together_and_name_the_message_that_they_answer() {
    let day = |messages: &[(&str, &str, &str, Option<&str>)]| {
        let one = |(user, text, ts, thread): &(&str, &str, &str, Option<&str>)| {
            let thread = thread.map_or_else(String::new, |ts| format!(r#","thread_ts":"{ts}""#));
            format!(r#"{{"type":"message","user":"{user}","text":"{text}","ts":"{ts}"{thread}}}"#)
        };
        let all: Vec<String> = messages.iter().map(one).collect();
        format!("[{}]", all.join(",")).into_bytes()
    };
    let users = br#"[{"id":"U1","profile":{"real_name":"Ada"}},
        {"id":"U2","profile":{"real_name":"Bo"}}]"#;
    let files = [
        (
            "2.json".to_owned(),
            day(&[
                ("U1", "It is done.", "1715150000.1", Some("1715070000.1")),
                ("U2", "An old one.", "1715150000.2", Some("1714000000.1")),
            ]),
        ),
        (
            "1.json".to_owned(),
            day(&[
                ("U1", "Who signs?", "1715070000.1", Some("1715070000.1")),
                ("U2", "Lunch is at 12.", "1715070010.1", None),
                ("U2", "I do.", "1715070020.1", Some("1715070000.1")),
            ]),
        ),
        ("users.json".to_owned(), users.to_vec()),
    ];
    let outline = outline_of(&join_channel(&files).unwrap(), None);
    let said: Vec<&str> = outline
        .lines()
        .filter(|line| line.contains("Text("))
        .collect();
    let expected = [
        "Text(\"Who signs?\")",
        "Text(\"[reply to #1 by Ada] I do.\")",
        "Text(\"[reply to #1 by Ada] It is done.\")",
        "Text(\"Lunch is at 12.\")",
        // Its first message is not in the files.
        "Text(\"An old one.\")",
    ];
    let trimmed: Vec<&str> = said.iter().map(|line| line.trim()).collect();
    assert_eq!(trimmed, expected, "{outline}");
    assert!(outline.contains("thread link"), "{outline}");
}

#[test]
fn apps_write_in_blocks_and_attachments() {
    let text = r#"[
        {"id":"U2","profile":{"display_name":"bob"}},
        {"type":"message","subtype":"bot_message","username":"GitHub","text":"","ts":"1.1","attachments":[
            {"pretext":"new PR","title":"PR #5","text":"Fix &amp; test","fields":[{"title":"By","value":"<@U2>"}],"fallback":"x"},
            {"fallback":"PR #6 opened"}]},
        {"type":"message","user":"U2","text":"","ts":"2.1","blocks":[
            {"type":"rich_text","elements":[{"type":"rich_text_section","elements":[
                {"type":"text","text":"ask "},{"type":"user","user_id":"U2"},
                {"type":"link","url":"https://a.b","text":"here"},{"type":"emoji","name":"smile"}]}]},
            {"type":"section","text":{"type":"mrkdwn","text":"*Deploy* done"}},{"type":"divider"}]},
        {"type":"message","user":"U2","text":"see","ts":"3.1","attachments":[{"text":"a preview","from_url":"https://a.b"}]},
        {"type":"message","user":"U2","text":"","ts":"4.1","blocks":[{"type":"divider"}]}
    ]"#;
    let parsed = read_as(text.as_bytes(), &Options::default()).unwrap();
    let messages = parsed.import.messages.iter();
    let texts: Vec<_> = messages
        .map(|(_, message)| message.parts[0].countable_text().into_owned())
        .collect();
    let expected = [
        "new PR\nPR #5\nFix & test\nBy: @bob\nPR #6 opened",
        "ask @bobhere (https://a.b):smile:\n*Deploy* done",
        "see",
    ];
    assert_eq!(texts, expected);
    let left: Vec<_> = parsed.dropped_content.into_iter().collect();
    let expected = [("empty message", 1), ("link preview", 1)];
    assert_eq!(left, expected.map(|(what, count)| (what.into(), count)));
}

#[test]
fn texts_of_apps_and_forwarded_messages_stand_behind_the_text() {
    let text = r#"[
        {"type":"message","bot_id":"B1","username":"Tide","text":"A warning:","ts":"1.1","attachments":[
            {"title":"Storm","text":"Water at 4 m","fields":[{"title":"From","value":"18:00"}],"fallback":"x"},
            {"fallback":"[no preview available]"}]},
        {"type":"message","user":"U2","text":"Read this.","ts":"2.1","attachments":[
            {"author_name":"Ada","text":"We move on Friday.","is_msg_unfurl":true,"is_share":true,"from_url":"https://a.b"},
            {"title":"A page","text":"about boats","original_url":"https://c.d"}]},
        {"type":"message","user":"U2","text":"","ts":"3.1","attachments":[
            {"author_name":"Ada","text":"At noon.","is_share":true,"from_url":"https://a.b"}]}
    ]"#;
    let outline = outline_of(text.as_bytes(), None);
    for expected in [
        r#"Text("A warning:\nStorm\nWater at 4 m\nFrom: 18:00")"#,
        r#"Text("Read this.\n[forwarded from Ada]\nWe move on Friday.")"#,
        r#"Text("[forwarded from Ada]\nAt noon.")"#,
        "left behind 1 link preview\n",
    ] {
        assert!(outline.contains(expected), "{expected}: {outline}");
    }
}

#[test]
fn a_person_with_the_name_of_a_model_is_a_person() {
    let said = |who: &str| format!(r#"{{"type":"message",{who},"text":"Hi","ts":"1.1"}}"#);
    let people = r#"{"id":"U1","profile":{"display_name":"Claude"}},
        {"id":"U2","profile":{"display_name":"System"}},{"id":"U3","profile":{"display_name":"Me"}}"#;
    for (who, expected) in [
        (r#""user":"U1""#, "user Claude\n"),
        (r#""user":"U2""#, "user System\n"),
        (r#""user":"U3""#, "user Me\n"),
        (r#""user":"U1","bot_id":"B1""#, "assistant\n"),
        (r#""username":"You","bot_id":"B1""#, "user You\n"),
    ] {
        let outline = outline_of(format!("[{people},{}]", said(who)).as_bytes(), None);
        assert!(outline.contains(expected), "{who}: {outline}");
    }
}

#[test]
fn a_time_that_is_none_is_reported() {
    let list = r#"[{"type":"message","user":"U1","text":"hi","ts":"not a number"},
        {"type":"message","user":"U2","text":"ok","ts":"1717400000.1"}]"#;
    let outline = outline_of(list.as_bytes(), None);
    let warned = outline.lines().filter(|line| line.starts_with("warning"));
    let warned: Vec<&str> = warned.collect();
    assert!(
        warned.len() == 1 && warned[0].contains("`ts` is not a time"),
        "{outline}"
    );
}

#[test]
fn names_are_known_wherever_they_are_and_are_told_apart() {
    let message = |user: &str, text: &str, profile: &str, n: u32| {
        let profile = match profile {
            "" => String::new(),
            profile => format!(r#","user_profile":{profile}"#),
        };
        format!(r#"{{"type":"message","user":"{user}","text":"{text}","ts":"{n}.1"{profile}}}"#)
    };
    let first = message("U1", "<@U2> and <@U3>, see <@U4>", "", 1);
    let second = message(
        "U2",
        "ok",
        r#"{"display_name":"sarah","real_name":"Sarah Lind"}"#,
        2,
    );
    let third = message(
        "U1",
        "ok",
        r#"{"display_name":"sarah","real_name":"Sarah Oka"}"#,
        3,
    );
    let fourth = message(
        "U3",
        "ok",
        r#"{"display_name":"momo","real_name":"Mehmet"}"#,
        4,
    );
    let user = r#"{"id":"U4","profile":{"display_name":"","real_name":"Bo"}}"#;
    let list = format!("[{first},{second},{third},{fourth},{user}]");
    for text in [
        list.clone().into_bytes(),
        join_channel(&[("2024-05-07.json".to_owned(), list.into_bytes())]).unwrap(),
    ] {
        let outline = outline_of(&text, None);
        for expected in [
            "user sarah (Sarah Oka)\n  Text(\"@sarah (Sarah Lind) and @momo, see @Bo\")",
            "user sarah (Sarah Lind)\n",
            "user momo\n",
            "left behind 1 real name\n",
        ] {
            assert!(outline.contains(expected), "{expected}: {outline}");
        }
    }
}
