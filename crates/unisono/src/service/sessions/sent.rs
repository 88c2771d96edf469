//! Files in messages of a request. A damaged file in a request is an error, while the import of a
//! conversation file skips it.

use serde_json::Value;
use serde_json::value::RawValue;
use unisono_api::Code;
use unisono_interchange::transcript;

use crate::error::Error;

/// The beginning of a URL with a content.
const SCHEME: &[u8] = b"data:";

/// Checks the `data:` URLs in the parts of OpenAI's chat messages.
///
/// # Errors
/// The number of the message, and why its file is not taken.
pub(super) fn check(messages: &[Box<RawValue>]) -> Result<(), Error> {
    let with_files = (1..).zip(messages);
    for (number, message) in with_files.filter(|(_, raw)| has_data_url(raw.get())) {
        let Ok(message) = serde_json::from_str::<Value>(message.get()) else {
            continue;
        };
        let parts = message["content"].as_array().into_iter().flatten();
        for url in parts.filter_map(url) {
            if let Some(why) = transcript::unfit(url) {
                let detail = format!("messages: message {number}: {why}");
                return Err(Error::new(Code::InvalidRequest, detail));
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
