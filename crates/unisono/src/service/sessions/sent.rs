//! Files and authors in messages of a request. A damaged file or a wrong name in a request is an
//! error, while the import of a conversation file skips it.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use unisono_api::Code;
use unisono_interchange::transcript;

use crate::append;
use crate::error::Error;

/// The beginning of a URL with a content.
const SCHEME: &[u8] = b"data:";

/// The fields of a message with its author.
#[derive(Deserialize)]
struct Signed {
    role: String,
    name: Value,
}

impl Signed {
    fn check(&self) -> Result<(), append::Error> {
        if !matches!(&*self.role, "user" | "assistant") || self.name.is_null() {
            return Ok(());
        }
        let name = self.name.as_str().ok_or(append::Error::Author)?;
        append::author(name).map(|_| ())
    }
}

/// Checks the names of OpenAI's chat messages, and the `data:` URLs in their parts.
///
/// # Errors
/// The number of the message, and why its name or its file is not taken.
pub(super) fn check(messages: &[Box<RawValue>]) -> Result<(), Error> {
    let refused = |number: usize, why: String| {
        let detail = format!("messages: message {number}: {why}");
        Error::new(Code::InvalidRequest, detail)
    };
    for (number, message) in (1..).zip(messages) {
        // Messages without a name are read by the import.
        let Ok(signed) = serde_json::from_str::<Signed>(message.get()) else {
            continue;
        };
        let checked = signed.check();
        checked.map_err(|why| refused(number, format!("`name`: {why}")))?;
    }
    let with_files = (1..).zip(messages);
    for (number, message) in with_files.filter(|(_, raw)| has_data_url(raw.get())) {
        let Ok(message) = serde_json::from_str::<Value>(message.get()) else {
            continue;
        };
        let parts = message["content"].as_array().into_iter().flatten();
        for url in parts.filter_map(url) {
            if let Some(why) = transcript::unfit(url) {
                return Err(refused(number, why));
            }
        }
    }
    Ok(())
}

/// Whether a text may have a `data:` URL, whose scheme is of any case.
fn has_data_url(text: &str) -> bool {
    let mut places = text.as_bytes().windows(SCHEME.len());
    places.any(|place| place.eq_ignore_ascii_case(SCHEME))
}

fn url(part: &Value) -> Option<&str> {
    let image = &part["image_url"];
    let file = &part["file"]["file_data"];
    [image, &image["url"], file]
        .into_iter()
        .find_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_cannot_be_an_author_is_told_with_its_message() {
        let long = "x".repeat(201);
        for (role, name, is_valid) in [
            ("user", json!("Ana"), true),
            ("user", Value::Null, true),
            ("user", json!("Ana\u{1b}"), false),
            ("assistant", json!("a\nb"), false),
            ("user", json!("Ana\u{202e}"), false),
            ("assistant", json!("A\u{200f}na"), false),
            ("user", json!("אנה"), true),
            ("user", json!(long), false),
            ("user", json!(7), false),
            ("tool", json!("a\nb"), true),
        ] {
            let message = json!({"role": role, "name": name, "content": "Which day?"});
            let message = serde_json::value::to_raw_value(&message).unwrap();
            let checked = check(&[message]);
            assert_eq!(checked.is_ok(), is_valid, "{name}: {checked:?}");
        }
    }

    #[test]
    fn a_damaged_file_is_told_with_its_message() {
        let message = |part: Value| {
            let text = json!({"type": "text", "text": "See?"});
            let message = json!({"role": "user", "content": [text, part]});
            vec![serde_json::value::to_raw_value(&message).unwrap()]
        };
        let cut = "data:image/png;base64,iVBORw0KGgo=";
        for part in [
            json!({"type": "image_url", "image_url": {"url": cut}}),
            json!({"type": "image_url", "image_url": cut}),
            json!({"type": "file", "file": {"file_data": cut}}),
            json!({"type": "file", "file": {"file_data": cut.replace("data", "DATA")}}),
        ] {
            let error = check(&message(part)).unwrap_err().to_string();
            assert!(error.starts_with("messages: message 1: "), "{error}");
        }
        let address =
            json!({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}});
        let sound = json!({"type": "file", "file": {"file_data": "data:audio/wav;base64,AAAA"}});
        for part in [address, sound] {
            assert!(check(&message(part)).is_ok());
        }
    }
}
