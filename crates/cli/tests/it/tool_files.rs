//! Images in the results of tools: in the request to the model, in the store, and in nothing else.

use std::fs;

use serde_json::{Value, json};

use crate::attachments::{base64, png};
use crate::tools::{Scene, program};

fn image(mime: &str, bytes: &[u8]) -> Value {
    json!({"type": "image", "data": base64(bytes), "mimeType": mime})
}

fn shows(parts: &Value) -> Value {
    json!({"text": "the screen", "parts": parts})
}

/// Two replies that call the tool with these parts, and one that answers.
fn scene(first: &Value, second: &Value, more: &str) -> Scene {
    let calls = [
        [("files__show", shows(first))],
        [("files__show", shows(second))],
    ];
    let replies: Vec<&[(&str, Value)]> = calls.iter().map(|calls| &calls[..]).collect();
    Scene::new(&replies, &program(""), more)
}

/// The messages of the nth request.
fn messages(scene: &Scene, n: usize) -> Vec<Value> {
    let body = scene.provider.requests()[n].json();
    body["messages"].as_array().unwrap().clone()
}

#[test]
fn an_image_of_a_tool_reaches_the_model_and_is_stored_once() {
    let (shot, plan) = (png(64, 48, b"shot"), b"%PDF-1.7\n/Type /Page\n%%EOF\n");
    let first = json!([image("image/png", &shot)]);
    let blob = json!({"uri": "file:///plans/plan.pdf", "blob": base64(plan)});
    let second = json!([image("image/png", &shot), {"type": "resource", "resource": blob}]);
    let scene = scene(&first, &second, "");
    scene.answer();
    let data = base64(&shot);
    let said = messages(&scene, 1);
    let [.., result, files] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!(result["role"], "tool");
    let text = result["content"].as_str().unwrap();
    assert!(text.contains("[attachment file-1 image/png"), "{text}");
    assert!(text.contains("64 x 48 pixels]"), "{text}");
    assert_eq!(files["role"], "user");
    let url = format!("data:image/png;base64,{data}");
    assert_eq!(files["content"][1]["image_url"]["url"], url.as_str());
    let last = messages(&scene, 2);
    let all = Value::from(last.clone()).to_string();
    assert_eq!(all.matches(&url).count(), 2, "the first stays: {all}");
    assert!(
        all.contains("file:///plans/plan.pdf: [attachment plan.pdf"),
        "{all}"
    );
    let document = format!("data:application/pdf;base64,{}", base64(plan));
    assert!(all.contains(&document), "{all}");
    // It is rebuilt byte for byte from the journal and the store.
    let raw = scene
        .call(&["why", "clerk", "--request", "3", "--raw"])
        .expect(0);
    let rebuilt: Value = serde_json::from_str(&raw.stdout).unwrap();
    assert_eq!(rebuilt, scene.provider.requests()[2].json());
    assert_eq!(scene.json(&["replay"])["mismatches"], 0);
    // The steps name it by its digest; the journal has no bytes of it.
    let run = scene.json(&["why", "clerk"])["run"]
        .as_str()
        .unwrap()
        .to_owned();
    let steps = scene.json(&["runs", "show", &run])["steps"].clone();
    let file = &steps[1]["results"][0]["files"][0];
    assert_eq!(
        (&file["filename"], &file["width"]),
        (&json!("file-1"), &json!(64))
    );
    let again = &steps[3]["results"][0]["files"][0];
    assert_eq!(file["digest"], again["digest"], "{steps:#}");
    let results = [&steps[1], &steps[3]].map(|step| step["results"].to_string());
    assert!(!results.concat().contains(&data), "{results:?}");
    scene.call(&["doctor"]).expect(0);
    // An archive has it, and it goes with its session.
    let archived_image = |name: &str| {
        let archive = scene.place.path(name);
        let path = archive.to_str().unwrap();
        scene.call(&["export", "--all", path]).expect(0);
        let bytes = fs::read(&archive).unwrap();
        bytes.windows(shot.len()).any(|window| window == shot)
    };
    let before = archived_image("before.unisono");
    let sessions = scene.json(&["sessions", "list"]);
    let session = sessions[0]["session"].as_str().unwrap();
    scene
        .call(&["sessions", "delete", session, "--yes"])
        .expect(0);
    let after = archived_image("after.unisono");
    assert_eq!((before, after), (true, false));
}

#[test]
fn a_damaged_or_huge_image_of_a_tool_is_a_note_and_the_run_goes_on() {
    let whole = png(9, 9, b"x");
    let first = json!([
        image("image/png", &whole[..40]),
        image("image/jpeg", &whole)
    ]);
    let second = json!([
        image("image/png", &png(10_000, 10_000, b"")),
        image("image/png", &png(9, 9, &[0; 5_000])),
    ]);
    let bounds = "[attachments]\nmax_bytes = 4096\n";
    let scene = scene(&first, &second, bounds);
    scene.answer();
    let all = Value::from(messages(&scene, 2)).to_string();
    assert!(!all.contains("image_url"), "{all}");
    for reason in [
        "damaged or truncated",
        "is image/jpeg, but its content is image/png",
        "10000 x 10000 pixels",
        "the limit is 4096",
    ] {
        assert!(all.contains(reason), "{reason}: {all}");
    }
}

#[test]
fn a_session_that_is_full_keeps_the_text_of_a_result() {
    let shot = png(9, 9, &[7; 3_000]);
    let first = json!([image("image/png", &shot)]);
    let other = json!([image("image/png", &png(9, 9, &[8; 3_000]))]);
    let bounds = "[attachments]\nmax_bytes = 4096\nsession_bytes = 4096\n";
    let scene = scene(&first, &other, bounds);
    scene.answer();
    let all = Value::from(messages(&scene, 2)).to_string();
    assert_eq!(all.matches("image_url").count(), 2, "one image: {all}");
    assert!(all.contains("its attachments are not kept"), "{all}");
}
