//! `/settings` and `/sessions/{session}/settings`: the settings with their values and origins, and
//! forms that change them while the daemon runs.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use unisono_api::service::Service;
use unisono_api::settings::{Changes, Setting};
use unisono_api::{Code, Problem};

use crate::branch_view::{BranchQuery, BranchView};
use crate::error::PageError;
use crate::extract::{Form, Path, Query};
use crate::layout::{cut_title, layout};
use crate::parts::truncate;
use crate::session_settings::as_written;

/// Maximum shown bytes of a value. A form does not repeat a longer one.
const VALUE: usize = 1_000;

/// The file name in the origin of settings that were changed while the daemon ran.
const STORED: &str = "settings.toml";

/// The addresses and texts of the forms.
struct Forms<'f> {
    /// The address to which the forms are sent.
    action: &'f str,
    /// The origin, or the name of the file, whose settings can be removed.
    own: &'static str,
    /// The label of the button that removes one.
    leave: &'static str,
}

const OF_ALL: Forms<'static> = Forms {
    action: "/settings",
    own: STORED,
    leave: "As in the settings files again",
};

fn of_session(action: &str) -> Forms<'_> {
    Forms {
        action,
        own: "session",
        leave: "As for all sessions again",
    }
}

pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Query(sought): Query<SettingsQuery>,
) -> Result<Response, PageError> {
    let (all, keys) = (service.settings().await?, service.setting_keys().await?);
    let found = all.iter().filter(|setting| sought.finds(setting));
    let (open, fixed): (Vec<_>, Vec<_>) = found.partition(|setting| setting.changeable);
    let body = html! {
        h1 { "Settings" }
        p class="quiet" { "Each value with its origin. The command " code { "unisono config show" } " shows the same." }
        form method="get" action="/settings" role="search" class="search" {
            label for="q" { "Search keys, values and meanings" }
            input id="q" name="q" type="search" value=(sought.q);
            button { "Search" }
        }
        @if !sought.q.trim().is_empty() {
            p role="status" { ((open.len() + fixed.len()).to_string()) " of " (all.len().to_string()) " settings. "
                a href="/settings" { "Show all" } }
        }
        section {
            h2 { "For turns that begin later" }
            (OF_ALL.table("Settings for turns that begin later", &open))
            (OF_ALL.another(&all, &keys.daemon))
            (of_one(OF_ALL.action, &keys.model))
        }
        section {
            h2 { "Read when the daemon starts" }
            p class="quiet" { "Set these in a settings file, a variable or a flag, and start the daemon again." }
            (OF_ALL.table("Settings that are read when the daemon starts", &fixed))
        }
    };
    Ok(layout("Settings", &body))
}

/// The settings of a session. They are shown even if some are invalid.
pub(crate) async fn show_own(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(on): Query<BranchQuery>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &on.branch).await?;
    let action = place.path("/settings");
    let forms = of_session(&action);
    let (all, wrong) = match service.session_settings(&id).await {
        Ok(all) => (all, None),
        Err(error) => {
            let own = place.about.settings.iter().map(|(key, value)| Setting {
                key: key.clone(),
                value: value.clone(),
                about: None,
                origin: forms.own.to_owned(),
                line: None,
                column: None,
                changeable: true,
            });
            (own.collect(), Some(error.to_string()))
        }
    };
    let keys = service.setting_keys().await?;
    let open: Vec<_> = all.iter().filter(|setting| setting.changeable).collect();
    let body = place.page(&html! {
        section {
            h2 { "Settings for turns that begin later" }
            p class="quiet" { "These values apply to this session. They override the "
                a href="/settings" { "settings of all sessions" } ", and are part of its copies." }
            @if let Some(wrong) = wrong {
                p class="warn" role="alert" { "No turn can begin with these: " (wrong) }
            }
            (forms.table("Settings of the session", &open))
            (forms.another(&all, &keys.session))
        }
        @if place.length > 0 {
            section {
                h2 { "Compact now" }
                p class="quiet" { "A summary on request, in numbers before it is written." }
                p { a class="button" data-dialog href=(place.path("/compact")) { "Compact …" } }
            }
        }
    });
    Ok(layout(&place.about.title, &body))
}

impl Forms<'_> {
    fn table(&self, about: &str, settings: &[&Setting]) -> Markup {
        if settings.is_empty() {
            return html! { p class="quiet" { "None." } };
        }
        html! {
            div class="scroll" tabindex="0" role="group" aria-label=(about) { table {
                thead { tr { th scope="col" { "Key" } th scope="col" { "Value" } th scope="col" { "From" } } }
                tbody { @for setting in settings { tr {
                    th scope="row" id={ "key-" (setting.key) } { code { (setting.key) } }
                    @let (shown, left) = truncate(&setting.value, VALUE);
                    td { code { (shown) @if left > 0 { "…" } }
                        @if let Some(about) = &setting.about { p class="quiet lines" { (about) } }
                        @if setting.changeable { (self.change(setting)) } }
                    td class="quiet" { (setting.place()) }
                } } }
            } }
        }
    }

    /// A key that has no value yet.
    fn another(&self, all: &[Setting], keys: &[String]) -> Markup {
        let unset = |key: &&String| all.iter().all(|setting| setting.key != **key);
        html! {
            details class="fork" {
                summary { "Set another key" }
                form method="post" action=(self.action) {
                    label for="another-key" { "Key without a value" }
                    select id="another-key" name="key" {
                        @for key in keys.iter().filter(unset) { option { (key) } }
                    }
                    label for="another-value" { "Value, as in a settings file" }
                    input id="another-value" name="value" required;
                    button class="small" { "Change …" }
                }
            }
        }
    }

    fn change(&self, setting: &Setting) -> Markup {
        let key = &setting.key;
        html! {
            details class="fork" {
                summary aria-label={ "Change " (key) } { "Change" }
                form method="post" action=(self.action) {
                    input type="hidden" name="key" value=(key);
                    label for=(key) { "Value, as in a settings file" }
                    input id=(key) name="value" value=[(setting.value.len() <= VALUE).then_some(&setting.value)] required;
                    button class="small" { "Change …" }
                }
                @if setting.origin.rsplit('/').next() == Some(self.own) {
                    form method="post" action=(self.action) {
                        input type="hidden" name="key" value=(key);
                        input type="hidden" name="confirmed" value="true";
                        button class="small plain" { (self.leave) }
                    }
                }
            }
        }
    }
}

/// A key of compaction for one provider or one model.
fn of_one(action: &str, keys: &[String]) -> Markup {
    html! {
        details class="fork" {
            summary { "Set a key of compaction for one provider or one model" }
            form method="post" action=(action) {
                label for="one-of" { "Provider, or provider/model" }
                input id="one-of" name="of" required;
                label for="one-key" { "Key of compaction" }
                select id="one-key" name="key" {
                    @for key in keys { option { (key) } }
                }
                label for="one-value" { "Value, as in a settings file" }
                input id="one-value" name="value" required;
                button class="small" { "Change …" }
            }
        }
    }
}

/// Words that settings are searched for.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct SettingsQuery {
    #[serde(default)]
    q: String,
}

impl SettingsQuery {
    /// Whether all words are in a setting.
    fn finds(&self, setting: &Setting) -> bool {
        let about = setting.about.as_deref().unwrap_or("");
        let text = format!(
            "{} {} {about} {}",
            setting.key, setting.value, setting.origin
        );
        let text = text.to_lowercase();
        let mut words = self.q.split_whitespace();
        words.all(|word| text.contains(&word.to_lowercase()))
    }
}

/// A change of a setting; without a value the setting of the files applies again.
#[derive(Debug, Deserialize)]
pub(crate) struct Change {
    key: String,
    value: Option<String>,
    /// The provider, or the model as `provider/model`; empty: all models.
    #[serde(default)]
    of: String,
    /// Whether the person has seen what the change does.
    #[serde(default)]
    confirmed: bool,
}

impl Change {
    /// The whole key.
    fn key(&self) -> String {
        match self.of.trim() {
            "" => self.key.clone(),
            model if model.contains('/') => format!("compaction.models.{model}.{}", self.key),
            provider => format!("compaction.providers.{provider}.{}", self.key),
        }
    }
}

impl Change {
    /// The change of a setting to a value in the syntax of settings files; it is only checked until the
    /// person confirms it.
    fn changes(&self) -> Changes {
        let value = self.value.as_deref().map(as_written);
        let value = value.map(|value| serde_json::to_value(value).unwrap_or(Value::Null));
        Changes {
            changes: [(self.key(), value)].into(),
            dry_run: !self.confirmed,
        }
    }

    /// Checks whether there is such a setting.
    async fn check(&self, service: &dyn Service) -> Result<(), PageError> {
        let keys = service.setting_keys().await?;
        let is_known = match self.of.trim() {
            "" => {
                let is_of_one = is_of_one(&self.key, &keys.model);
                is_of_one || [keys.daemon, keys.session].concat().contains(&self.key)
            }
            _ => keys.model.contains(&self.key),
        };
        if is_known {
            return Ok(());
        }
        let detail = format!("`{}` is no setting that can be changed here", self.key());
        Err(Problem::new(Code::Refused, detail).into())
    }
}

/// Whether a key is one of the known keys of compaction for one provider or one model.
fn is_of_one(key: &str, known: &[String]) -> bool {
    let mut scopes = ["compaction.providers.", "compaction.models."].into_iter();
    let last = scopes
        .find_map(|scope| key.strip_prefix(scope))
        .and_then(|rest| Some(rest.rsplit_once('.')?.1));
    last.is_some_and(|last| known.iter().any(|known| known == last))
}

/// What a change does: the old and the new value, the meaning of the key, and when it applies.
fn review(change: &Change, known: &[Setting], forms: &Forms<'_>) -> Markup {
    let key = change.key();
    let setting = known.iter().find(|setting| setting.key == key);
    // What a key of one model means, it means for all.
    let general = format!("compaction.{}", change.key);
    let about = setting.or_else(|| known.iter().find(|setting| setting.key == general));
    html! {
        section class="card dialog" aria-labelledby="change" {
            h2 id="change" { "Change " code { (key) } }
            dl class="facts" {
                dt { "Now" } dd { @match setting {
                    Some(setting) => { code { (setting.value) } " " span class="quiet" { (setting.place()) } },
                    None => "no value",
                } }
                dt { "Then" } dd { code { (change.value.as_deref().unwrap_or("")) } }
                @if let Some(about) = about.and_then(|setting| setting.about.as_deref()) { dt { "Meaning" } dd class="lines" { (about) } }
                dt { "Applies" } dd { "to turns that begin after the change; open turns keep the old value" }
            }
            form method="post" action=(forms.action) {
                input type="hidden" name="key" value=(change.key);
                input type="hidden" name="of" value=(change.of);
                input type="hidden" name="value" value=(change.value.as_deref().unwrap_or(""));
                input type="hidden" name="confirmed" value="true";
                button { "Save" }
            }
            p { a href=(forms.action) { "Leave it as it is" } }
        }
    }
}

/// Changes a setting, after the person has seen what that does.
pub(crate) async fn save(
    State(service): State<Arc<dyn Service>>,
    Form(change): Form<Change>,
) -> Result<Response, PageError> {
    change.check(&*service).await?;
    let changes = change.changes();
    if !change.confirmed {
        let known = service.settings().await?;
        service.change_settings(&changes).await?;
        return Ok(layout("Change", &review(&change, &known, &OF_ALL)));
    }
    service.change_settings(&changes).await?;
    Ok(Redirect::to("/settings").into_response())
}

pub(crate) async fn save_own(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(on): Query<BranchQuery>,
    Form(change): Form<Change>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &on.branch).await?;
    let action = place.path("/settings");
    change.check(&*service).await?;
    let changes = change.changes();
    if !change.confirmed {
        // Its settings may be wrong: this change may correct them.
        let known = match service.session_settings(&id).await {
            Ok(known) => known,
            Err(_) => service.settings().await?,
        };
        service.change_session_settings(&id, &changes).await?;
        // The address shows the settings: a page that followed the session would become those.
        let body = html! {
            h1 { a href=(place.path("")) { (cut_title(&place.about.title)) } }
            (review(&change, &known, &of_session(&action)))
        };
        return Ok(layout(&place.about.title, &body));
    }
    service.change_session_settings(&id, &changes).await?;
    Ok(Redirect::to(&action).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_one_provider_or_model_is_known_by_its_end() {
        let known = ["preset".to_owned()];
        for (key, is_known) in [
            ("compaction.providers.openai.preset", true),
            ("compaction.models.\"openai/gpt-4.1\".preset", true),
            ("compaction.models.\"openai/gpt-4.1\".prompt", false),
            ("compaction.providers.preset", false),
            ("compaction.preset", false),
        ] {
            assert_eq!(is_of_one(key, &known), is_known, "{key}");
        }
    }

    #[test]
    fn only_what_was_set_here_can_be_removed_here() {
        let forms = of_session("/sessions/s/settings");
        for (forms, origin, can_remove) in [
            (&forms, "session", true),
            (&forms, "/home/ada/sessions/config/unisono.toml", false),
            (&forms, "defaults", false),
            (&OF_ALL, "/data/unisono/settings.toml", true),
            (&OF_ALL, "settings.toml", true),
            (&OF_ALL, "/home/ada/my-settings.toml", false),
        ] {
            let setting = Setting {
                key: "turn.lead".to_owned(),
                value: "\"lead\"".to_owned(),
                about: None,
                origin: origin.to_owned(),
                line: None,
                column: None,
                changeable: true,
            };
            let shown = forms.change(&setting).into_string();
            assert_eq!(shown.contains(forms.leave), can_remove, "{origin}");
        }
    }

    #[test]
    fn settings_are_found_by_words_of_key_value_and_meaning() {
        let setting = Setting {
            key: "turn.lead".to_owned(),
            value: "\"lead\"".to_owned(),
            about: Some("The agent that answers.".to_owned()),
            origin: "defaults".to_owned(),
            line: None,
            column: None,
            changeable: true,
        };
        for (q, found) in [
            ("", true),
            ("LEAD answers", true),
            ("turn. defaults", true),
            ("budget", false),
        ] {
            let q = q.to_owned();
            assert_eq!(SettingsQuery { q }.finds(&setting), found);
        }
    }
}
