//! `/settings`: what is set, where each value came from, and a form for what can be changed while the
//! daemon runs.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::settings::Setting;

use super::{Trouble, layout};
use crate::config::{STORED, changeable};
use crate::http::extract::Form;
use crate::http::{Shared, settings};

/// All settings.
pub(super) async fn show(State(shared): State<Arc<Shared>>) -> Result<Response, Trouble> {
    let all = settings::all(&shared);
    let (changeable, fixed): (Vec<_>, Vec<_>) = all.iter().partition(|setting| setting.changeable);
    let body = html! {
        h1 { "Settings" }
        p class="quiet" { "Each with where it was written; " code { "unisono config show" } " tells the same." }
        section {
            h2 { "For turns that begin later" }
            (table("Settings for turns that begin later", &changeable))
            (another(&all))
        }
        section {
            h2 { "Read when the daemon starts" }
            p class="quiet" { "Set these in a settings file, a variable or a flag, and start the daemon again." }
            (table("Settings that are read when the daemon starts", &fixed))
        }
    };
    Ok(layout("Settings", &body))
}

fn table(about: &str, settings: &[&Setting]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="group" aria-label=(about) { table {
            thead { tr { th scope="col" { "Key" } th scope="col" { "Value" } th scope="col" { "From" } } }
            tbody { @for setting in settings { tr {
                th scope="row" { code { (setting.key) } }
                td { code { (setting.value) }
                    @if setting.changeable { (change(setting)) } }
                td class="quiet" { (setting.origin) }
            } } }
        } }
    }
}

/// A key that has no value yet.
fn another(all: &[Setting]) -> Markup {
    let unset = |key: &String| all.iter().all(|setting| setting.key != *key);
    html! {
        details class="fork" {
            summary { "Set another key" }
            form method="post" action="/settings" {
                label for="another-key" { "Key" }
                select id="another-key" name="key" {
                    @for key in changeable().filter(unset) { option { (key) } }
                }
                label for="another-value" { "Value, as in a settings file" }
                input id="another-value" name="value" required;
                button class="small" { "Save" }
            }
        }
    }
}

fn change(setting: &Setting) -> Markup {
    let key = &setting.key;
    html! {
        details class="fork" {
            summary aria-label={ "Change " (key) } { "Change" }
            form method="post" action="/settings" {
                input type="hidden" name="key" value=(key);
                label for=(key) { "Value, as in a settings file" }
                input id=(key) name="value" value=(setting.value) required;
                button class="small" { "Save" }
            }
            @if setting.origin.contains(STORED) {
                form method="post" action="/settings" {
                    input type="hidden" name="key" value=(key);
                    button class="small plain" { "As in the settings files again" }
                }
            }
        }
    }
}

/// A setting that is changed; without a value, as in the settings files again.
#[derive(Debug, Deserialize)]
pub(super) struct Change {
    key: String,
    value: Option<String>,
}

/// Changes a setting.
pub(super) async fn save(
    State(shared): State<Arc<Shared>>,
    Form(change): Form<Change>,
) -> Result<Redirect, Trouble> {
    let value = change.value.map(|text| as_written(&text));
    let changes = [(change.key, value)].into();
    shared.daemon.change_settings(changes).await?;
    Ok(Redirect::to("/settings"))
}

/// A value as it is written in a settings file; what is none is a text.
fn as_written(text: &str) -> toml::Value {
    let read: Result<toml::Table, _> = format!("value = {text}").parse();
    let value = read.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| text.into())
}
