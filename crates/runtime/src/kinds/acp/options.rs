//! The options of a session, such as its mode. An agent lists them when it opens the session; a
//! definition sets them before the agent works.

use serde::Deserialize;
use serde_json::{Value, json};

/// The option for the mode. Some agents list the modes of a session apart from its options.
const MODE: &str = "mode";

/// A session with its options, as the agent lists them. Lists that cannot be read are empty.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSession {
    pub(super) session_id: String,
    #[serde(default)]
    config_options: Value,
    #[serde(default)]
    modes: Value,
}

/// A request that sets an option.
#[derive(Debug, PartialEq)]
pub(super) struct SetOption {
    pub(super) method: &'static str,
    pub(super) params: Value,
}

impl NewSession {
    /// The request that sets an option to this value.
    ///
    /// # Errors
    /// The agent offers no such option, or not this value.
    pub(super) fn request(&self, option: &str, value: &str) -> Result<SetOption, String> {
        let session = &self.session_id;
        let (offered, method, params) = match self.listed(option) {
            Some(listed) => (
                values(&listed["options"]),
                "session/set_config_option",
                json!({"sessionId": session, "configId": option, "value": value}),
            ),
            None if option == MODE && self.modes.is_object() => (
                texts(&self.modes["availableModes"], "id"),
                "session/set_mode",
                json!({"sessionId": session, "modeId": value}),
            ),
            None => {
                let offered = names(&texts(&self.config_options, "id"));
                return Err(format!("has no option `{option}`; it has {offered}"));
            }
        };
        match offered.contains(&value) {
            true => Ok(SetOption { method, params }),
            false => Err(format!(
                "has no value `{value}` of the option `{option}`; it has {}",
                names(&offered)
            )),
        }
    }

    /// Takes the result of such a request: values of other options may have changed, too.
    pub(super) fn set(&mut self, request: &SetOption, mut result: Value) {
        match request.params.get("modeId") {
            Some(mode) => self.modes["currentModeId"] = mode.clone(),
            None if result["configOptions"].is_array() => {
                self.config_options = result["configOptions"].take();
            }
            None => {}
        }
    }

    /// The mode in which the agent works, if it has modes.
    pub(super) fn mode(&self) -> Option<&str> {
        match self.listed(MODE) {
            Some(listed) => listed["currentValue"].as_str(),
            None => self.modes["currentModeId"].as_str(),
        }
    }

    fn listed(&self, option: &str) -> Option<&Value> {
        let mut listed = self.config_options.as_array().into_iter().flatten();
        listed.find(|one| one["id"] == option)
    }
}

/// The values of an option, which may be in groups.
fn values(options: &Value) -> Vec<&str> {
    let options = options.as_array().into_iter().flatten();
    let each = options.flat_map(|option| match option["options"].is_array() {
        true => texts(&option["options"], "value"),
        false => option["value"].as_str().into_iter().collect(),
    });
    each.collect()
}

fn texts<'v>(list: &'v Value, field: &str) -> Vec<&'v str> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|item| item[field].as_str()).collect()
}

fn names(all: &[&str]) -> String {
    match all {
        [] => "none".to_owned(),
        all => format!("`{}`", all.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(result: Value) -> NewSession {
        serde_json::from_value(result).unwrap()
    }

    /// As `claude-agent-acp` 0.101.0 opens a session.
    fn claude() -> NewSession {
        session(
            json!({"sessionId": "s", "modes": {"currentModeId": "auto", "availableModes": [
            {"id": "default", "name": "Manual"}, {"id": "auto", "name": "Auto"}]},
            "configOptions": [
                {"id": "mode", "name": "Mode", "category": "mode", "type": "select",
                    "currentValue": "auto", "options": [{"value": "default", "name": "Manual"},
                    {"value": "auto", "name": "Auto"}]},
                {"id": "model", "name": "Model", "type": "select", "currentValue": "opus",
                    "options": [{"group": "all", "name": "All", "options": [
                        {"value": "opus", "name": "Opus"}, {"value": "haiku", "name": "Haiku"}]}]},
            ]}),
        )
    }

    /// As Gemini CLI 0.61.0 does.
    fn gemini() -> NewSession {
        session(
            json!({"sessionId": "s", "modes": {"currentModeId": "default", "availableModes": [
            {"id": "default", "name": "Default"}, {"id": "yolo", "name": "YOLO"}]}}),
        )
    }

    #[test]
    fn an_option_is_set_by_the_method_of_the_list_that_has_it() {
        let set = claude().request("mode", "default").unwrap();
        assert_eq!(set.method, "session/set_config_option");
        let params = json!({"sessionId": "s", "configId": "mode", "value": "default"});
        assert_eq!(set.params, params);
        let set = claude().request("model", "haiku").unwrap();
        assert_eq!(set.params["value"], "haiku");
        let set = gemini().request("mode", "yolo").unwrap();
        assert_eq!(set.method, "session/set_mode");
        assert_eq!(set.params, json!({"sessionId": "s", "modeId": "yolo"}));
    }

    #[test]
    fn what_an_agent_does_not_offer_is_refused_with_what_it_offers() {
        let bare = || session(json!({"sessionId": "s", "configOptions": null, "modes": "some"}));
        for (session, option, value, reason) in [
            (
                claude(),
                "mode",
                "manual",
                "no value `manual` of the option `mode`; it has `default`, `auto`",
            ),
            (claude(), "model", "all", "it has `opus`, `haiku`"),
            (
                claude(),
                "effort",
                "high",
                "no option `effort`; it has `mode`, `model`",
            ),
            (gemini(), "mode", "plan", "it has `default`, `yolo`"),
            (gemini(), "model", "pro", "no option `model`; it has none"),
            (bare(), "mode", "default", "no option `mode`; it has none"),
        ] {
            let refused = session.request(option, value).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn the_mode_is_the_one_that_was_set_last() {
        let mut session = claude();
        assert_eq!(session.mode(), Some("auto"));
        let set = session.request("mode", "default").unwrap();
        let mut changed = session.config_options.clone();
        changed[0]["currentValue"] = "default".into();
        session.set(&set, json!({"configOptions": changed}));
        assert_eq!(session.mode(), Some("default"));
        // Without a list in the result, the known one stays.
        session.set(&set, json!({}));
        assert_eq!(session.mode(), Some("default"));
        let mut session = gemini();
        let set = session.request("mode", "yolo").unwrap();
        session.set(&set, Value::Null);
        assert_eq!(session.mode(), Some("yolo"));
        assert_eq!(self::session(json!({"sessionId": "s"})).mode(), None);
    }
}
