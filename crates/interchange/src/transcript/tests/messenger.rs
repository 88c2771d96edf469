//! Chats of Messenger, Facebook and Instagram.

use super::*;

fn chat(messages: &str) -> String {
    format!(
        r#"{{"participants":[{{"name":"Ida"}},{{"name":"Ren\u00c3\u00a9"}}],"messages":[{messages}],
        "title":"Caf\u00c3\u00a9","is_still_participant":true,"thread_path":"inbox/cafe_1"}}"#
    )
}

#[test]
fn a_chat_of_messenger_is_in_order_and_in_its_own_letters() {
    let text = chat(
        r#"
        {"sender_name":"Ida","timestamp_ms":1715510100000,"content":"You called Ren\u00c3\u00a9.","call_duration":7,"type":"Call"},
        {"sender_name":"Ida","timestamp_ms":1715510040000,"photos":[{"uri":"messages/inbox/cafe_1/photos/one.jpg","creation_timestamp":1}],
         "sticker":{"uri":"stickers/two.png"},"is_geoblocked_for_viewer":false},
        {"sender_name":"Ren\u00c3\u00a9","timestamp_ms":1715509980000,"content":"see","share":{"link":"https://a.b"},"type":"Share"},
        {"sender_name":"Ren\u00c3\u00a9","timestamp_ms":1715509980000,"content":"Gr\u00c3\u00bc\u00c3\u009fe \u00f0\u009f\u0098\u008a",
         "reactions":[{"reaction":"\u00e2\u009d\u00a4","actor":"Ida"}]},
        {"sender_name":"Ida","timestamp_ms":1715509970000,"is_unsent":true},
        {"sender_name":"Ida","timestamp_ms":1715509960000,"content":"naïve","type":"Generic"},
        {"sender_name":"Ida","timestamp_ms":1715509950000},
        {"sender_name":"Ida","timestamp_ms":1715509940000,"content":"Ida created the group.","type":"Subscribe"}"#,
    );
    let outline = outline_of(text.as_bytes(), None);
    assert_contains(
        &outline,
        "messenger \"Café\"\n1 after -: 1715509960000 user Ida\n  Text(\"naïve\")\n\
         2 after 1: 1715509980000 user René\n  Text(\"Grüße 😊\")\n\
         3 after 2: 1715509980000 user René\n  Text(\"see\\nhttps://a.b\")\n\
         4 after 3: 1715510040000 user Ida\n  Attachment { filename: \"two.png\"",
    );
    assert_contains(&outline, "Attachment { filename: \"one.jpg\"");
    assert_contains(
        &outline,
        "left behind 1 deleted message\nleft behind 1 empty message\nleft behind 2 notice\n\
         left behind 1 reaction\n",
    );
    assert_eq!(
        outline_of(text.as_bytes(), Some(Format::Messenger)),
        outline
    );
    let bad = chat(
        r#"{"sender_name":"Ida","timestamp_ms":2,"content":"x"},
        {"timestamp_ms":1,"content":"y"}"#,
    );
    let outline = outline_of(bad.as_bytes(), None);
    assert_contains(&outline, "talk:2:9: `sender_name` is missing");
}

#[test]
fn messages_with_roles_are_not_those_of_messenger() {
    let said = r#"{"sender_name":"Bot","timestamp_ms":1,"role":"assistant","content":"Hi."}"#;
    let outline = outline_of(chat(said).as_bytes(), None);
    assert_contains(&outline, "openai ");
    assert_contains(&outline, "assistant");
}
