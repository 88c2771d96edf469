//! What a request says of the form of its answer. An agent's definition decides that: a request
//! that wants another form is refused, instead of being answered as if it had said nothing.

use serde_json::Value;
use unisono_api::Code;
use unisono_session::Definition;

use super::Refused;

/// What is said of it.
#[derive(Debug, Default)]
pub(super) struct Form {
    /// How many answers.
    pub(super) answers: Option<u64>,
    /// The format, and the field that says it.
    pub(super) format: Option<(&'static str, Value)>,
    /// The most tokens of a reply, and the field that says it.
    pub(super) most: Option<(&'static str, u64)>,
}

impl Form {
    /// Whether the agent answers in that form.
    pub(super) fn fits(&self, agent: &Definition) -> Result<(), Refused> {
        let refused = |field, detail: String| Refused::field(field, Code::InvalidRequest, detail);
        if let Some(answers) = self.answers.filter(|answers| *answers != 1) {
            let detail = format!("{answers} answers are wanted: an agent gives one");
            return Err(refused("n", detail));
        }
        if let Some((field, format)) = &self.format {
            let id = &agent.id;
            has_format(format, agent.output_schema.as_deref()).map_err(|why| {
                let help = "its definition says in which form it answers (`output_schema`)";
                refused(field, format!("agent {id} {why}: {help}"))
            })?;
        }
        let own = agent.limits.max_output.0;
        match self.most {
            Some((field, most)) if most < own => {
                let detail = format!(
                    "a reply of agent {} may have {own} tokens, as its model is defined, and a \
                     request cannot bound it further: leave it out, or bound the turn by \
                     `budget.turn.max_tokens`",
                    agent.id
                );
                Err(refused(field, detail))
            }
            _ => Ok(()),
        }
    }
}

/// Whether an agent with that schema, or none, answers in a format.
fn has_format(format: &Value, own: Option<&str>) -> Result<(), String> {
    let own: Option<Value> = own.and_then(|own| serde_json::from_str(own).ok());
    match (format["type"].as_str(), own) {
        (Some("text"), None) | (Some("json_object"), Some(_)) => Ok(()),
        (Some("text"), Some(_)) => Err("answers with JSON of its own schema".to_owned()),
        (Some("json_object" | "json_schema"), None) => Err("answers with text".to_owned()),
        (Some("json_schema"), Some(own)) => {
            // Chat completions have it one level deeper.
            let said = format.get("json_schema").unwrap_or(format);
            match said["schema"] == own {
                true => Ok(()),
                false => Err("answers with JSON of another schema".to_owned()),
            }
        }
        (kind, _) => Err(format!("knows no format of type {:?}", kind.unwrap_or(""))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_format_is_the_agents_own_or_refused() {
        let schema = json!({"type": "object", "properties": {"day": {"type": "string"}}});
        let own = schema.to_string();
        let other = json!({"type": "object"});
        let text = json!({"type": "text"});
        let object = json!({"type": "json_object"});
        let chat = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}});
        let response = json!({"type": "json_schema", "name": "a", "schema": schema});
        let wrong = json!({"type": "json_schema", "json_schema": {"schema": other}});
        for (format, plain, structured) in [
            (&text, true, false),
            (&object, false, true),
            (&chat, false, true),
            (&response, false, true),
            (&wrong, false, false),
            (&json!({"type": "grammar"}), false, false),
            (&json!("text"), false, false),
        ] {
            assert_eq!(has_format(format, None).is_ok(), plain, "{format}");
            assert_eq!(
                has_format(format, Some(&own)).is_ok(),
                structured,
                "{format}"
            );
        }
    }
}
