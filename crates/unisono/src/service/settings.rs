//! Settings in requests.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use async_trait::async_trait;
use serde_json::Value;
use unisono_api::Code;
use unisono_api::service;
use unisono_api::settings::{Changes, Setting, SettingKeys};
use unisono_api::turn::Settings;
use unisono_config::settings::overrides::{self, DEFAULT_MODEL, MODEL_OVERRIDE, is_of_request};
use unisono_config::settings::{
    DEFAULTS, Override, SessionOverrides, changeable, is_changeable, is_settable, scoped, settable,
};
use unisono_config::setup::Setup;
use unisono_session::Input;

use super::id;
use crate::Local;
use crate::error::Error;
use crate::local::{off_thread, session_changes};
use crate::view::{Inspect as _, View};

#[async_trait]
impl service::Settings for Local {
    async fn settings(&self) -> service::Result<Vec<Setting>> {
        Ok(settings(&self.setup()))
    }

    async fn setting_keys(&self) -> service::Result<SettingKeys> {
        Ok(SettingKeys {
            daemon: changeable().collect(),
            session: settable().collect(),
            model: scoped().map(str::to_owned).collect(),
        })
    }

    async fn change_settings(&self, changes: &Changes) -> service::Result<Vec<Setting>> {
        let dry_run = changes.dry_run;
        let each = changes.changes.iter().map(|(key, value)| {
            let value = value.as_ref().map(|value| as_toml(key, value));
            Ok((key.clone(), value.transpose()?))
        });
        let changes = each.collect::<Result<_, Error>>()?;
        Local::change_settings(self, changes, dry_run)
            .await
            .map_err(Error::from)?;
        Ok(settings(&self.setup()))
    }

    async fn session_settings(&self, session: &str) -> service::Result<Vec<Setting>> {
        let session = self.view(id("session", session)?).await?;
        Ok(of_session(&*self.setup_of(&session).await?))
    }

    async fn change_session_settings(
        &self,
        session: &str,
        changes: &Changes,
    ) -> service::Result<Vec<Setting>> {
        let session = self.view(id("session", session)?).await?;
        let each = changes.changes.iter().map(|(key, value)| {
            let text = |value| as_text(value).ok_or_else(|| no_value(key));
            Ok((key.clone(), value.as_ref().map(text).transpose()?))
        });
        let wanted = each.collect::<Result<_, Error>>()?;
        change(self, &session, wanted, changes.dry_run).await?;
        let session = self.view(session.id()).await?;
        Ok(of_session(&*self.setup_for_reading(&session).await?))
    }
}

/// Every setting of all sessions.
pub fn settings(setup: &Setup) -> Vec<Setting> {
    to_api(setup, is_changeable)
}

/// The settings that a session can override. A reader of the session may read no others.
fn of_session(setup: &Setup) -> Vec<Setting> {
    let mut all = to_api(setup, is_settable);
    all.retain(|setting| setting.changeable);
    all
}

fn to_api(setup: &Setup, changeable: fn(&str) -> bool) -> Vec<Setting> {
    let each = setup.loaded.show().into_iter().map(|setting| Setting {
        changeable: changeable(&setting.key),
        about: about(&setting.key).map(str::to_owned),
        origin: setting.place.origin.to_string(),
        line: setting.place.at.map(|(line, _)| line),
        column: setting.place.at.map(|(_, column)| column),
        key: setting.key,
        value: setting.value,
    });
    each.collect()
}

/// The comment of a key in the defaults.
fn about(key: &str) -> Option<&'static str> {
    static ABOUT: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| comments(DEFAULTS));
    ABOUT.get(key).map(String::as_str)
}

/// The comments before each key of a settings file, by dotted key, also of keys that are comments
/// themselves; a comment before several keys is that of the first. Indented lines stay lines.
fn comments(text: &str) -> BTreeMap<String, String> {
    let (mut all, mut section, mut said) = (BTreeMap::new(), String::new(), String::new());
    for line in text.lines() {
        let unset = line.strip_prefix("# ").and_then(key_of);
        // Keys after the head of a table in a comment belong to that example, up to the next section.
        if line.starts_with("# [") {
            section.clear();
            said.clear();
            continue;
        }
        if let Some(comment) = line.strip_prefix('#').filter(|_| unset.is_none()) {
            let is_item = comment.starts_with("   ");
            said.push_str(if is_item { "\n" } else { " " });
            said.push_str(comment.trim());
        } else if let Some(named) = line.strip_prefix('[') {
            section = named.trim_end_matches(']').to_owned();
            said.clear();
        } else {
            let key = unset.or_else(|| key_of(line));
            if let Some(key) = key.filter(|_| !said.is_empty() && !section.is_empty()) {
                all.insert(format!("{section}.{key}"), said.trim().to_owned());
            }
            said.clear();
        }
    }
    all
}

/// The key of a line such as `lead = "lead"`.
fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.split_once(" = ")?;
    let is_key = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (!key.is_empty() && key.chars().all(is_key)).then_some(key)
}

/// Sets dotted keys for a session, or removes them if there is no value. They apply to turns that
/// begin later. They are on disk when this returns.
async fn change(
    local: &Local,
    session: &View,
    wanted: BTreeMap<String, Option<String>>,
    dry_run: bool,
) -> Result<(), Error> {
    let before = session.inspect(|state| state.settings().clone()).await?;
    let setup = local.setup();
    let changes = off_thread(move || session_changes(&setup, &before, wanted)).await?;
    if dry_run {
        return Ok(());
    }
    local.apply_input(session, Input::Set { changes }).await
}

fn as_toml(key: &str, value: &Value) -> Result<toml::Value, Error> {
    match value {
        Value::String(text) => Ok(text.as_str().into()),
        Value::Bool(flag) => Ok((*flag).into()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Ok(whole.into()),
            (None, Some(fraction)) => Ok(fraction.into()),
            (None, None) => Err(no_value(key)),
        },
        Value::Array(items) => {
            let items = items.iter().map(|item| as_toml(key, item));
            Ok(toml::Value::Array(items.collect::<Result<_, _>>()?))
        }
        Value::Null | Value::Object(_) => Err(no_value(key)),
    }
}

/// The initial settings of a session.
pub fn of_new(settings: &Settings) -> Result<SessionOverrides, Error> {
    let each = settings.iter().map(|(key, value)| {
        let text = as_text(value).ok_or_else(|| no_value(key))?;
        Ok((key.as_str().into(), text.into()))
    });
    each.collect()
}

/// The settings of a single request.
///
/// # Errors
/// One cannot be set for a request, or its value is invalid.
pub fn of_request(settings: &Settings) -> Result<Vec<Override>, Error> {
    let each = settings.iter().map(|(key, value)| {
        if !is_of_request(key) {
            let meant = overrides::similar(key).map(|key| format!(", did you mean `{key}`?"));
            let meant = meant.unwrap_or_default();
            let detail = format!(
                "`{key}` cannot be set for one request{meant}; keys of `turn`, `delegation`, \
                 `agent_defaults`, of the policy in `compaction`, `budget.turn.max_cost_usd`, \
                 `budget.turn.max_tokens`, `{DEFAULT_MODEL}` and `{MODEL_OVERRIDE}` can"
            );
            return Err(Error::new(Code::Refused, detail));
        }
        let value = as_text(value).ok_or_else(|| no_value(key))?;
        Ok(Override::new("the request", key, value))
    });
    each.collect()
}

/// A value in the format of the command line, the items of a list separated by commas.
pub fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(as_text).collect();
            // A comma would end an item.
            let items = items.filter(|items| !items.iter().any(|item| item.contains(',')));
            Some(items?.join(","))
        }
        Value::Null | Value::Object(_) => None,
    }
}

/// The error for an invalid value of a setting.
pub fn no_value(key: &str) -> Error {
    let detail = format!(
        "`{key}`: a value is a text, a number, true or false, or a list of texts without commas"
    );
    Error::new(Code::Refused, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meaning_of_a_setting_is_the_comment_before_it() {
        let all = comments(
            "# Top.\n\n[turn]\n# Who answers.\n# One:\n#   a  b\nlead = \"a\"\nagents = []\n\
             # How long.\n# time = \"8h\"\n# More.\nmore = 1\n\
             # Of one:\n# [turn.one]\n# Its lead.\n# lead = \"b\"\n",
        );
        let expected = [
            ("turn.lead", "Who answers. One:\na  b"),
            ("turn.time", "How long."),
            ("turn.more", "More."),
        ];
        assert_eq!(
            all,
            expected
                .map(|(key, text)| (key.to_owned(), text.to_owned()))
                .into()
        );
        let search = about("store.search_index").unwrap();
        assert!(!search.contains("postgres"), "{search}");
        for (key, says) in rows! {
            ("compaction.preset", "off          never"),
            ("compaction.trigger_tokens", "Starts above this number of tokens"),
            ("approvals.timeout", "Time after which a waiting call is denied"),
        } {
            assert!(
                about(key).is_some_and(|text| text.contains(says)),
                "{key}: {:?}",
                about(key)
            );
        }
        assert!(about("turn.lead").is_some_and(|text| text.len() > 10));
        assert_eq!(about("no.key"), None);
    }
}
