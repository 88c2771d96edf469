//! Downloads images and documents that messages name by address, from allowed hosts. Other
//! addresses stay in the messages; they are rejected later or become notes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use unisono::attachments::{AttachmentError, MAX_ADDRESSES};
use unisono_api::Code;
use unisono_context::Part;

use super::FieldError;
use crate::http::Shared;

/// Returns the messages with the downloaded contents in place of their addresses.
///
/// # Errors
///
/// There are too many addresses, or one of them has no accepted file.
pub(super) async fn read(
    shared: &Shared,
    mut messages: Vec<Value>,
    field: &'static str,
) -> Result<Vec<Value>, FieldError> {
    let refused =
        |wrong: AttachmentError| FieldError::field(field, Code::InvalidRequest, wrong.to_string());
    let mut left = MAX_ADDRESSES;
    for message in &mut messages {
        let content = message.get_mut("content").and_then(Value::as_array_mut);
        for part in content.into_iter().flatten() {
            let Some(url) = address(part).filter(|url| shared.local.may_read_address(url)) else {
                continue;
            };
            left = left
                .checked_sub(1)
                .ok_or_else(|| refused(AttachmentError::Addresses))?;
            let name = part["file"]["filename"].as_str().unwrap_or_default();
            let read = shared.local.read_address(name, &url).await;
            if let Some(data) = data_url(&read.map_err(refused)?) {
                insert_data(part, &data);
            }
        }
    }
    Ok(messages)
}

fn address(part: &Value) -> Option<String> {
    let url = match part["type"].as_str()? {
        "image_url" => match &part["image_url"] {
            Value::String(url) => url,
            image => image["url"].as_str()?,
        },
        "file" => part["file"]["file_url"].as_str()?,
        _ => return None,
    };
    let is_address = url.starts_with("https://") || url.starts_with("http://");
    is_address.then(|| url.to_owned())
}

fn data_url(part: &Part) -> Option<String> {
    let (_, mime, content) = part.file()?;
    let bytes = content.loaded.0.as_ref()?;
    Some(format!("data:{mime};base64,{}", STANDARD.encode(bytes)))
}

/// Puts a content in the place of its address.
fn insert_data(part: &mut Value, data: &str) {
    match part["type"].as_str() {
        Some("image_url") => part["image_url"] = json!({"url": data}),
        _ => part["file"]["file_data"] = data.into(),
    }
}
