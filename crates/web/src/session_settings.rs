//! The settings of a session that its page uses.

use unisono_api::Code;
use unisono_api::service::{Result, Service};
use unisono_api::settings::Setting;

/// The settings of a session that its page uses.
pub(crate) struct SessionSettings {
    /// The agent that answers.
    pub(crate) lead: String,
    /// The agents that work before it, without the stages of its pipeline.
    pub(crate) agents: Vec<String>,
    /// Whether a turn names its automatic summaries.
    pub(crate) notifies: bool,
    pub(crate) models: Vec<String>,
}

impl SessionSettings {
    /// Reads the settings of a session. If its own are not valid any more, it reads those of all
    /// sessions: the page is shown, and its context says what is wrong.
    pub(crate) async fn read(service: &dyn Service, session: &str) -> Result<SessionSettings> {
        let usable = service.models().await?.into_iter();
        let usable = usable.filter(|model| model.usable);
        let settings = match service.session_settings(session).await {
            Err(error) if error.code() == Code::Refused => service.settings().await?,
            settings => settings?,
        };
        let mut read = SessionSettings {
            models: usable.map(|model| model.model).collect(),
            ..SessionSettings::from_settings(&settings)
        };
        // A lead with a pipeline works only with its stages.
        let lead = service.agent(&read.lead).await;
        if lead.is_ok_and(|lead| !lead.pipeline.is_empty()) {
            read.agents.clear();
        }
        Ok(read)
    }

    fn from_settings(settings: &[Setting]) -> SessionSettings {
        let value = |key: &str| {
            let found = settings.iter().find(|setting| setting.key == key);
            found.map(|setting| as_written(&setting.value))
        };
        let lead = value("turn.lead");
        let agents = value("turn.agents");
        let agents = agents.as_ref().and_then(toml::Value::as_array);
        let agents = agents.into_iter().flatten();
        let notice = value("compaction.notice");
        SessionSettings {
            lead: text(lead.as_ref()).unwrap_or_default().to_owned(),
            agents: agents
                .filter_map(|agent| Some(agent.as_str()?.to_owned()))
                .collect(),
            notifies: text(notice.as_ref()) != Some("off"),
            models: Vec::new(),
        }
    }
}

fn text(value: Option<&toml::Value>) -> Option<&str> {
    value.and_then(toml::Value::as_str)
}

/// Parses a value of a settings file; an unparsable text is a string.
pub(crate) fn as_written(text: &str) -> toml::Value {
    let read: Result<toml::Table, _> = format!("value = {text}").parse();
    let value = read.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(key: &str, value: &str) -> Setting {
        Setting {
            key: key.to_owned(),
            value: value.to_owned(),
            about: None,
            origin: "defaults".to_owned(),
            line: None,
            column: None,
            changeable: true,
        }
    }

    #[test]
    fn settings_are_read_as_they_are_written_in_a_file() {
        let all = [
            setting("turn.lead", "\"lead\""),
            setting("turn.agents", "[\"risks\", \"facts=Find = signs.\"]"),
            setting("compaction.notice", "\"off\""),
        ];
        let read = SessionSettings::from_settings(&all);
        assert_eq!(read.lead, "lead");
        assert_eq!(read.agents, ["risks", "facts=Find = signs."]);
        assert!(!read.notifies);
        assert!(SessionSettings::from_settings(&all[..2]).notifies);
        assert_eq!(as_written("no value"), toml::Value::from("no value"));
    }
}
