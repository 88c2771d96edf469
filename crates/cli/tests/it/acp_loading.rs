//! Sessions that an editor loads: their calls, delegations and images, and their open turns.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, Gate, Script, block_on};

use crate::acp::{Editor, prompt, provider, start_with_key};
use crate::attachments::{base64, png};
use crate::http::Daemon;
use crate::support::Place;

fn open(session: &str) -> Value {
    json!({"sessionId": session, "cwd": "/work/harbour", "mcpServers": []})
}

/// The conversation as it is shown: the kind of each update, and its text, type or title.
fn shown(editor: &Editor) -> Vec<(String, String)> {
    let each = editor.updates.iter().map(|update| &update["update"]);
    let shown = each.filter_map(|update| {
        let kind = update["sessionUpdate"].as_str()?;
        let places = ["/content/text", "/content/mimeType", "/title"];
        let text = places.iter().find_map(|place| update.pointer(place));
        Some((kind.to_owned(), text?.as_str()?.to_owned()))
    });
    shown.collect()
}

#[test]
fn a_loaded_session_shows_calls_delegations_and_images_in_order() {
    // Each agent reads the skill first, then answers.
    let script = Script::by(|request| {
        let body = request.json();
        let messages = body["messages"].as_array().unwrap();
        let last = messages.last().unwrap();
        let is_delegate = last.to_string().contains("Be careful.");
        let skill = || json!({"name": "notes"}).to_string();
        Act::answer(match last["role"] == "tool" {
            true => Answer::text("Well."),
            false if is_delegate => Answer::empty().and_call("skill", skill()),
            false => Answer::text("I look.").and_call("skill", skill()),
        })
    });
    let (_provider, place) = provider(script);
    place.write(
        "agents/risks.md",
        "---\nname: risks\ndescription: Names risks.\ntools: [skill]\n---\nBe careful.\n",
    );
    let settings = place.config();
    let settings = settings.replace("require = [\"skill\"]", "require = []");
    let settings = settings.replace("agents = []", "agents = [\"risks=name the risks\"]");
    place.set_config(settings);
    let mut editor = start_with_key(&place);
    let session = editor.new_session();
    let image = base64(&png(4, 4, b"crane"));
    let params = json!({"sessionId": session, "prompt": [
        {"type": "text", "text": "What could go wrong?"},
        {"type": "image", "data": image, "mimeType": "image/png"},
    ]});
    editor.ask("session/prompt", &params).unwrap();
    editor.leave();

    let mut editor = start_with_key(&place);
    editor.ask("session/load", &open(&session)).unwrap();
    // Nothing of the replay comes after the answer.
    let is_commands =
        |update: &Value| update["update"]["sessionUpdate"] == "available_commands_update";
    assert!(editor.updates.iter().any(is_commands));
    let expected = [
        ("user_message_chunk", "What could go wrong?"),
        ("user_message_chunk", "image/png"),
        ("tool_call", "skill"),
        ("tool_call", "risks"),
        ("agent_message_chunk", "I look."),
        ("tool_call", "skill"),
        ("agent_message_chunk", "Well."),
    ];
    let expected = expected.map(|(kind, text)| (kind.to_owned(), text.to_owned()));
    assert_eq!(shown(&editor), expected, "{:#?}", editor.updates);
    let image_shown = editor.texts_at("user_message_chunk", "/content/data");
    assert_eq!(image_shown, [image]);
    let results = editor.texts_at("tool_call", "/content/0/content/text");
    assert_eq!(results.len(), 3);
    assert!(results[0].contains("Be brief.") && results[2].contains("Be brief."));
    assert!(results[1].contains("Well."), "{results:?}");
    let ids = editor.texts_at("tool_call", "/toolCallId");
    assert!(
        ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2],
        "{ids:?}"
    );
    editor.leave();
}

#[test]
fn the_calls_of_a_turn_without_an_answer_are_shown() {
    let gate = Gate::new();
    let calls = Answer::text("I look.").and_call("skill", json!({"name": "notes"}).to_string());
    let held = Act::from(Answer::text("Too late.")).hold(&gate);
    let after = Act::answer(Answer::text("Yes."));
    let script = Script::sequence([Act::answer(calls), held, after]);
    let (provider, place) = provider(script);
    let mut editor = start_with_key(&place);
    let session = editor.new_session();
    let id = editor.begin("session/prompt", &prompt(&session, "Write."));
    while editor.permissions.is_empty() {
        editor.next();
    }
    block_on(provider.wait_for(2));
    editor.cancel(&session);
    assert_eq!(editor.end(id).unwrap()["stopReason"], "cancelled");
    gate.open();
    editor.prompt(&session, "And now?").unwrap();
    editor.leave();

    let mut editor = start_with_key(&place);
    editor.ask("session/load", &open(&session)).unwrap();
    let expected = [
        ("user_message_chunk", "Write."),
        ("agent_message_chunk", "I look."),
        ("tool_call", "skill"),
        ("user_message_chunk", "And now?"),
        ("agent_message_chunk", "Yes."),
    ];
    let expected = expected.map(|(kind, text)| (kind.to_owned(), text.to_owned()));
    assert_eq!(shown(&editor), expected, "{:#?}", editor.updates);
    editor.leave();
}

/// An editor that is killed while its user is asked, and the session of its prompt.
fn killed_while_asked(place: &Place) -> String {
    let mut editor = start_with_key(place);
    editor.choice = "";
    let session = editor.new_session();
    editor.begin("session/prompt", &prompt(&session, "Write."));
    while editor.permissions.is_empty() {
        editor.next();
    }
    editor.kill();
    session
}

#[test]
fn an_editor_that_restarts_while_its_user_is_asked_can_answer() {
    for (method, has_daemon) in [
        ("session/load", true),
        ("session/resume", true),
        ("session/load", false),
    ] {
        let calls = Answer::text("I look.").and_call("skill", json!({"name": "notes"}).to_string());
        let script = Script::sequence([calls, Answer::text("Brief it is.")]);
        let (_provider, place) = provider(script);
        let daemon = has_daemon.then(|| Daemon::keyed(&place));
        let session = killed_while_asked(&place);
        let mut editor = start_with_key(&place);
        editor.ask(method, &open(&session)).unwrap();
        // The cost comes at the end of the turn.
        let has_cost = |update: &Value| update["update"]["cost"].is_object();
        while !editor.said().contains("Brief it is.") || !editor.updates.iter().any(has_cost) {
            editor.next();
        }
        assert_eq!(editor.permissions.len(), 1, "{method}");
        let about = &editor.permissions[0]["toolCall"];
        assert_eq!(about["rawInput"]["name"], "notes");
        let asked = editor.texts_at("user_message_chunk", "/content/text");
        match method {
            "session/load" => assert_eq!(asked, ["Write."]),
            _ => assert!(asked.is_empty(), "{asked:?}"),
        }
        let results = editor.texts_at("tool_call_update", "/content/0/content/text");
        assert!(results.iter().any(|text| text.contains("Be brief.")));
        // What has ended is not asked again.
        editor.updates.clear();
        editor.ask("session/load", &open(&session)).unwrap();
        assert_eq!(editor.permissions.len(), 1, "{method}");
        let said = editor.said();
        assert!(said.ends_with("I look.Brief it is."), "{said}");
        editor.leave();
        if let Some(daemon) = daemon {
            daemon.stop();
        }
    }
}
