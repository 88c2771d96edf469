//! The team of a turn in this process.

use std::sync::Arc;

use unisono::Local;
use unisono::models::{self, notices};
use unisono::service::requests;
use unisono_api::turn::NewTurn;
use unisono_config::settings::AUTO;
use unisono_config::setup::Setup;
use unisono_model::catalogue::EXTRACTIVE;
use unisono_session::agent::Team;

use crate::output::Out;
use crate::problem::Result;
use crate::show;

/// Columns before the text of a message with a label.
const BEHIND: usize = 11;

/// The team of a turn; all its models are available.
pub(crate) fn team(setup: &Setup, new: &NewTurn) -> Result<Team> {
    let team = requests::task(new)?.team(setup)?;
    models::check(setup, &team)?;
    models::check_prices(setup, &team)?;
    Ok(team)
}

/// Reports once which model answers if nobody selected one, and how to change it, with notices
/// about the models.
pub(crate) async fn announce_model(out: &Out, setup: &Setup, team: &Team, local: &Local) {
    let loaded = &setup.loaded;
    local.ask_servers(setup, team).await;
    for notice in notices::of_team(setup, team, local.calibrations(), notices::today()) {
        out.warn(notice);
    }
    if loaded.config.models.instead.is_some() {
        let asks = team.definitions().filter(|agent| agent.kind.uses_model());
        let mut models: Vec<&str> = asks.map(|agent| &*agent.model).collect();
        models.sort_unstable();
        models.dedup();
        if models.is_empty() {
            return;
        }
        let said = format!("model      {}, as chosen", models.join(", "));
        return out.message(out.paint_messages.dim(show::wrap(&said, BEHIND)));
    }
    let default = loaded.default_model.as_str();
    let answers = |agent: &Arc<unisono_session::Definition>| {
        agent.kind == unisono_session::agent::AgentKind::Llm && &*agent.model == default
    };
    if !team.definitions().any(answers) || loaded.config.models.default != AUTO {
        return;
    }
    let said = if default == EXTRACTIVE {
        "model      extractive: offline, quotes the conversation; for a language model set \
         ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or a provider in config/unisono.toml"
            .to_owned()
    } else {
        let provider = default.split('/').next().unwrap_or_default();
        let key = loaded.providers.key_of(provider).unwrap_or_default();
        format!("model      {default}{key}; --model extractive stays offline")
    };
    out.message(out.paint_messages.dim(show::wrap(&said, BEHIND)));
}
