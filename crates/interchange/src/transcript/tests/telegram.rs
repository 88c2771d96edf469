//! Chats of Telegram.

use super::*;

fn chat(messages: &str) -> String {
    format!(r#"{{"name":"Harbour","type":"private_group","id":1,"messages":[{messages}]}}"#)
}

#[test]
fn a_chat_of_telegram_keeps_senders_replies_and_forwarded_messages() {
    let text = chat(
        r#"
        {"id":1,"type":"service","date":"2024-05-12T10:31:00","date_unixtime":"1715509860","actor":"Hana","actor_id":"user1","action":"create_group","text":""},
        {"id":2,"type":"message","date":"2024-05-12T12:32:00","date_unixtime":"1715509920","from":"Hana","from_id":"user1","text":"Hello"},
        {"id":3,"type":"message","date":"2024-05-12T12:33:00","date_unixtime":"1715509980","edited":"2024-05-12T12:40:00","from":"طارق","from_id":"user2","reply_to_message_id":2,
         "text":["see ",{"type":"link","text":"https://a.b"}," and ",{"type":"text_link","text":"here","href":"https://c.d"}],"reactions":[{"type":"emoji","count":2,"emoji":"x"}]},
        {"id":4,"type":"message","date":"2024-05-12T10:34:00","from":null,"from_id":"user3","forwarded_from":"News","text":"Storm"},
        {"id":5,"type":"message","date":"2024-05-12T10:35:00","from":"Hana","from_id":"user4","forwarded_from":null,"text":"Old"},
        {"id":6,"type":"message","date":"2024-05-12T10:36:00","from":"Hana","from_id":"user1","reply_to_message_id":3,"reply_to_peer_id":"channel7","text":"Elsewhere"},
        {"id":7,"type":"message","date":"2024-05-12T10:37:00","from":"Hana","from_id":"user1","text":""},
        {"id":8,"type":"unsupported"}"#,
    );
    let outline = outline_of(text.as_bytes(), None);
    let expected = "telegram \"Harbour\"\n\
        1 after -: 1715509920000 user Hana\n  Text(\"Hello\")\n\
        2 after 1: 1715509980000 user طارق\n  \
        Text(\"[reply to #1 by Hana] see https://a.b and here (https://c.d)\")\n\
        3 after 2: 1715510040000 user user3\n  Text(\"[forwarded from News] Storm\")\n\
        4 after 3: 1715510100000 user Hana (user4)\n  Text(\"[forwarded] Old\")\n\
        5 after 4: 1715510160000 user Hana\n  Text(\"Elsewhere\")\n\
        left behind 1 edit mark\nleft behind 1 empty message\nleft behind 1 notice\nleft behind 1 reaction\n\
        left behind 1 reply link\nleft behind 1 unsupported message\n";
    assert_eq!(outline, expected);
    assert_eq!(
        outline_of(text.as_bytes(), Some(Format::Telegram)),
        expected
    );
}

#[test]
fn a_message_without_an_id_of_its_sender_has_its_own_sender() {
    let message =
        |name: &str| format!(r#"{{"id":1,"type":"message","from":"{name}","text":"Hello"}}"#);
    let text = chat(&[message("Hana"), message("Bob")].join(","));
    let said = authored(&text, Some(Format::Telegram));
    assert_eq!(said, ["Hana: Hello", "Bob: Hello"]);
}

#[test]
fn files_polls_and_places_of_telegram_are_parts() {
    let sent = |rest: &str| {
        let begin = r#"{"id":9,"type":"message","date":"2024-05-12T10:31:00","from":"Hana","from_id":"user1""#;
        authored(&chat(&format!("{begin},{rest}}}")), None)
    };
    let missing = "(File not included. Change data exporting settings to download.)";
    for (rest, expected) in rows! {
        (r#""photo":"photos/one.jpg","photo_file_size":7,"text":"Look""#.to_owned(), "one.jpg"),
        (format!(r#""file":"{missing}","file_name":"plan.pdf","mime_type":"application/pdf","text":"""#), "plan.pdf"),
        (format!(r#""file":"{missing}","media_type":"voice_message","text":"""#), "voice_message"),
        (r#""file":"stickers/s.webp","media_type":"sticker","sticker_emoji":"☔","text":"""#.to_owned(), "sticker ☔"),
        (r#""poll":{"question":"When?","answers":[{"text":"Friday","voters":2}]},"text":"""#.to_owned(), "[poll] When?/- Friday (2)"),
        (r#""location_information":{"latitude":54.3,"longitude":10.1},"place_name":"Pier","text":"""#.to_owned(), "[location 54.3, 10.1, Pier]"),
        (r#""contact_information":{"first_name":"Ada","last_name":"","phone_number":"+49 1"},"text":"""#.to_owned(), "[contact Ada +49 1]"),
    } {
        let said = sent(&rest);
        assert_eq!(said.len(), 1, "{rest}");
        assert!(
            said[0].starts_with("Hana: ") && said[0].contains(expected),
            "{said:?}"
        );
    }
}

#[test]
fn an_export_of_an_account_has_several_chats() {
    let one = chat(
        r#"{"id":1,"type":"message","date":"2024-05-12T10:31:00","from":"Hana","from_id":"user1","text":"Hello"}"#,
    );
    let other = one.replace("Harbour", "Quay");
    let empty = chat("").replace("\"Harbour\"", "null");
    let text = format!(
        r#"{{"about":"x","contacts":{{"list":[{{"first_name":"Ada"}}]}},
        "chats":{{"about":"y","list":[{one},
        {empty}]}},"left_chats":{{"list":[{other}]}}}}"#
    );
    let found = list(text.as_bytes(), &talk(None)).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|chat| (&*chat.title, chat.messages))
        .collect();
    assert_eq!(found, [("Harbour", 1), ("", 0), ("Quay", 1)]);
    let whole = outline_of(text.as_bytes(), None);
    assert_contains(&whole, "the file has 3 conversations");
    let single = format!(r#"{{"chats":{{"list":[{one}]}}}}"#);
    let single = outline_of(single.as_bytes(), None);
    assert_contains(&single, "telegram \"Harbour\"");
    // Only the first object of a file over several lines has a maximum size.
    let large = one.replacen('[', &format!("[\n{}", " ".repeat(64 << 20)), 1);
    let text = format!(r#"{{"chats":{{"list":[{one},{large}]}}}}"#);
    let large = outline_of(text.as_bytes(), None);
    assert_contains(&large, "the file has 2 conversations");
    // Other programs have these keys beside the messages.
    let message = r#"{"role":"user","content":"Hello"}"#;
    for beside in ["3", "\"x\"", "null", "[1]", r#"{"list":[1]}"#] {
        let text = format!(r#"{{"messages":[{message}],"chats":{beside}}}"#);
        assert_eq!(authored(&text, None), ["user: Hello"], "{beside}");
    }
    let text = format!("{{\"chats\":3,\n\"messages\":[{message}]}}");
    assert_eq!(authored(&text, None), ["user: Hello"]);
}
