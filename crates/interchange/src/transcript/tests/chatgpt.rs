//! Content types of ChatGPT's export.

use super::*;

/// A message with this content and these other fields.
fn imported(content: &str, others: &str) -> String {
    let message = format!(r#"{{"content":{content},{others}}}"#);
    let export = format!(r#"{{"mapping":{{"a":{{"message":{message}}}}},"current_node":"a"}}"#);
    outline_of(export.as_bytes(), None)
}

#[test]
fn words_of_people_and_of_the_model_are_read_and_others_reported() {
    let hidden = r#""is_visually_hidden_from_conversation":true"#;
    let framed = r#"{"content_type":"user_editable_context","user_profile":"The user said:\n```I bake.\n```",
        "user_instructions":"Be short"}"#;
    let own = format!(
        r#""author":{{"role":"user"}},"metadata":{{{hidden},"user_context_message_data":
        {{"about_user_message":"I bake ```bread```.","about_model_message":null}}}}"#
    );
    let user = format!(r#""author":{{"role":"user"}},"metadata":{{{hidden}}}"#);
    let assistant = r#""author":{"role":"assistant"}"#;
    let tool = r#""author":{"role":"tool","name":"browser"}"#;
    let older = r#""author":{"role":"system"},"metadata":{"is_user_system_message":true,
        "user_context_message_data":{"about_user_message":"I bake.","about_model_message":"Be short"}}"#;
    let unwritten = format!(
        r#""author":{{"role":"user"}},"metadata":{{{hidden},"user_context_message_data":{{}}}}"#
    );
    let rows: [(&str, &str, &str); 10] = rows! {
        (framed, &user, r#"Text("I bake.")"#),
        (framed, &user, r#"Text("Be short")"#),
        (framed, &own, r#"Text("I bake ```bread```.")"#),
        (framed, &own, r#"Text("Be short")"#),
        (
            r#"{"content_type":"model_editable_context","model_set_context":"Mira bakes."}"#,
            assistant,
            r#"Text("Mira bakes.")"#,
        ),
        (
            r#"{"content_type":"tether_quote","url":"https://e.org","domain":"e.org","title":"Yeast","text":"It rises."}"#,
            tool,
            r#"Text("Yeast: https://e.org\nIt rises.")"#,
        ),
        (
            r#"{"content_type":"citable_code_output","output_str":"Tide at 4"}"#,
            tool,
            "Text(\"Tide at 4\")",
        ),
        (
            r#"{"content_type":"text","parts":[""]}"#,
            older,
            " user\n  Text(\"I bake.\")\n  Text(\"Be short\")\n",
        ),
        (framed, &unwritten, "has no message"),
        (r#"{"content_type":"text","parts":["Seen."]}"#, &user, "has no message"),
    };
    for (content, others, expected) in rows {
        let outline = imported(content, others);
        assert!(outline.contains(expected), "{expected}: {outline}");
        assert!(!outline.contains("custom instruction"), "{outline}");
    }
}

#[test]
fn words_of_markup_stay_and_the_rest_is_counted() {
    let assistant = r#""author":{"role":"assistant"}"#;
    let tool = r#""author":{"role":"tool","name":"dalle.text2im"}"#;
    let cited = r#"{"content_type":"text","parts":["A cat \ue200cite\ue202turn0search0\ue201. Yes.\ue200cite"]}"#;
    let marked = r#"{"content_type":"text","parts":["\ue203It rises.\ue204\ue206 \ue200cite\ue202turn0search0\ue201 \ue203So?\ue204"]}"#;
    let linked = r#"{"content_type":"text","parts":["To \ue200entity\ue202[\"city\",\"Bergen\",\"x\"]\ue201, \ue200entity\ue202Oslo\ue201 \ue200cite\ue202turn0search0\ue201 by \ue200url\ue202boat\ue202https://e.org/\ue201 or \ue200link_title\ue202train\ue202turn0search1\ue201."]}"#;
    let drawn = r#"{"content_type":"multimodal_text","parts":[{"content_type":"image_asset_pointer",
        "asset_pointer":"file-service://f","metadata":{"dalle":{"prompt":"a lighthouse"}}}]}"#;
    let trip = "Text(\"To Bergen, Oslo by boat (https://e.org/) or train.\")";
    for (content, others, expected) in [
        (cited, assistant, "A cat. Yes.cite"),
        (cited, assistant, "left behind 2 citation\n"),
        (marked, assistant, "Text(\"It rises. So?\")"),
        (linked, assistant, trip),
        (linked, assistant, "left behind 1 citation\n"),
        (drawn, tool, "left behind 1 image prompt\n"),
    ] {
        let outline = imported(content, others);
        assert!(outline.contains(expected), "{expected}: {outline}");
    }
}

#[test]
fn a_conversation_has_one_digest_in_all_parts_of_an_export() {
    let one = |title: &str| {
        let said = r#"{"author":{"role":"user"},"content":{"parts":["Hi"]}}"#;
        format!(r#"{{"title":"{title}","mapping":{{"a":{{"message":{said}}}}}}}"#)
    };
    let digests = |titles: [&str; 2], between: &str| -> Vec<_> {
        let all = titles.map(one).join(between);
        let found = list(format!("[{all}]").as_bytes(), &Options::default());
        found.unwrap().iter().map(|found| found.digest).collect()
    };
    let whole = digests(["A", "B"], ",");
    let part = digests(["B", "C"], ",\n  ");
    assert_eq!(whole[1], part[0]);
    assert_ne!(whole[0], part[1]);
}
