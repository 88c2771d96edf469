//! Files in objects of the Agent2Agent protocol, as the protocol's types read them.

use serde_json::Value;

/// Rewrites the contents of files (`raw`) in all parts of a message, an artifact or a task to the
/// standard alphabet with padding. JSON of protocol buffers has either alphabet, with or without
/// padding. What is no base64 stays as it is.
pub fn to_standard_base64(object: &mut Value) {
    match object {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("parts", Value::Array(parts)) => parts.iter_mut().for_each(rewrite_file),
                    ("metadata", _) => {}
                    (_, value) => to_standard_base64(value),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(to_standard_base64),
        _ => {}
    }
}

fn rewrite_file(part: &mut Value) {
    if let Some(Value::String(raw)) = part.get_mut("raw")
        && let Some(standard) = standard_base64(raw)
    {
        *raw = standard;
    }
}

/// The text in the standard alphabet with padding; none if it has that form, or is no base64.
fn standard_base64(text: &str) -> Option<String> {
    let digits = text.trim_end_matches('=');
    let padding = match digits.len() % 4 {
        0 => "",
        2 => "==",
        3 => "=",
        _ => return None,
    };
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte);
    if !digits.bytes().all(is_digit) {
        return None;
    }
    let is_url_safe = digits.bytes().any(|byte| b"-_".contains(&byte));
    let (is_bare, is_padded) = (
        text.len() == digits.len(),
        text.len() == digits.len() + padding.len(),
    );
    if (is_padded && !is_url_safe) || !(is_padded || is_bare) {
        return None;
    }
    Some(digits.replace('-', "+").replace('_', "/") + padding)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_are_rewritten_in_parts_only() {
        let object = |raw: &str| {
            json!({"task": {"history": [{"parts": [{"raw": raw}, {"text": "-_8"}]}],
                "artifacts": [{"parts": [{"raw": raw}], "metadata": {"parts": [{"raw": "-_8"}]}}],
                "status": {"message": {"parts": [{"data": {"raw": "-_8"}}]}}, "raw": "-_8"}})
        };
        let mut task = object("-_8");
        to_standard_base64(&mut task);
        assert_eq!(task, object("+/8="));
        for raw in ["+/8=", "", "-", "_w=x", "a b-"] {
            let mut task = object(raw);
            to_standard_base64(&mut task);
            assert_eq!(task, object(raw));
        }
    }
}
