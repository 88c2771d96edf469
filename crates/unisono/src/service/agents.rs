//! Agents and models.

mod detail;
mod import;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use unisono_api::Code;
use unisono_api::agent::{
    Agent, AgentCheck, AgentDetail, AgentImport, AgentQuery, Calibration, Model, NewAgentFile,
    NewAgentImport, Reload,
};
use unisono_api::service::{self, Agents};
use unisono_api::token::Scope;
use unisono_api::turn::Settings;
use unisono_config::setup::Setup;
use unisono_context::AgentId;
use unisono_model::calibration::Calibrations;
use unisono_model::catalogue::{Entry, Price};

use super::id;
use super::settings::of_request;
use crate::Local;
use crate::agents;
use crate::ask::Ask;
use crate::error::Error;
use crate::local::{self, off_thread};
use crate::models::{self, notices};

#[async_trait]
impl Agents for Local {
    async fn agents(&self, query: &AgentQuery) -> service::Result<Vec<Agent>> {
        let who = (query.lead.as_deref(), query.agents.as_deref());
        let ask = asked_of(who, &query.settings)?;
        let setup = match query.session.as_deref() {
            Some(text) => {
                let session = self.view(id("session", text)?).await?;
                self.setup_for(&session, &ask).await?
            }
            None => self.setup_with(Arc::default(), ask.settings()).await?,
        };
        Ok(agents::list(&setup, &ask).map_err(Error::from)?)
    }

    async fn agent(&self, agent: &str) -> service::Result<AgentDetail> {
        let (setup, name) = (self.setup(), agent.to_owned());
        // Its variables and arguments may be secrets.
        let with_file = self.check_scope(Scope::Admin).is_ok();
        let found = off_thread(move || detail::agent_detail(&setup, &name, with_file)).await;
        found.ok_or_else(|| service::Error::not_found("agent", agent))
    }

    async fn check_agent(&self, agent: &str, new: &NewAgentFile) -> service::Result<AgentCheck> {
        Ok(detail::check(self, agent, new).await?)
    }

    async fn save_agent(&self, agent: &str, new: &NewAgentFile) -> service::Result<Reload> {
        Ok(detail::save(self, agent, new).await?)
    }

    async fn import_agents(&self, new: &NewAgentImport) -> service::Result<AgentImport> {
        Ok(import::import(self, new).await?)
    }

    async fn reload_agents(&self) -> service::Result<Reload> {
        let reload = reload_to_api(&Local::reload_agents(self).await);
        match reload.applied {
            true => Ok(reload),
            false => Err(service::Error::new(
                Code::Refused,
                reload.problems.join("\n"),
            )),
        }
    }

    async fn models(&self) -> service::Result<Vec<Model>> {
        Ok(models(&self.setup(), self.calibrations()))
    }
}

/// An ask for a lead with these agents, separated by commas, with its own settings.
pub(super) fn asked_of(
    (lead, agents): (Option<&str>, Option<&str>),
    own: &Settings,
) -> Result<Ask, Error> {
    let ask = Ask::new("").with_settings(of_request(own)?);
    let ask = match lead {
        Some(lead) => ask.lead(lead),
        None => ask,
    };
    Ok(match agents {
        Some(agents) => {
            let named = agents.split(',').map(str::trim);
            ask.agents(named.filter(|name| !name.is_empty()))
        }
        None => ask,
    })
}

/// The outcome of a reload of agents.
pub fn reload_to_api(reload: &local::Reload) -> Reload {
    let names = |agents: &[AgentId]| agents.iter().map(ToString::to_string).collect();
    let problems = match reload {
        Ok((_, warnings)) => warnings,
        Err(found) => found,
    };
    let difference = reload.as_ref().map(|(difference, _)| difference.clone());
    let difference = difference.unwrap_or_default();
    Reload {
        applied: reload.is_ok(),
        added: names(&difference.added),
        changed: names(&difference.changed),
        removed: names(&difference.removed),
        problems: problems.iter().map(ToString::to_string).collect(),
    }
}

/// The models of the catalogue, then other models that agents name or that were used.
fn models(setup: &Setup, learnt: &Calibrations) -> Vec<Model> {
    let loaded = &setup.loaded;
    let agents = setup.roster.iter().map(|agent| &*agent.definition.model);
    let asked = learnt.all();
    let asked = asked.iter().map(|(name, _)| &**name);
    let named = agents.chain([loaded.default_model.as_str()]).chain(asked);
    let known: Vec<Entry> = loaded.catalogue.entries().collect();
    let mut others: Vec<Entry> = named
        .filter_map(|name| loaded.catalogue.get(None, name).ok())
        .filter(|entry| !known.iter().any(|known| known.model == entry.model))
        .collect();
    others.sort_by(|a, b| a.model.cmp(&b.model));
    others.dedup_by(|a, b| a.model == b.model);
    let notices = notices::of_setup(setup, learnt, notices::today()).into_iter();
    let notices: BTreeMap<String, String> = notices
        .map(|notice| (notice.model.clone(), notice.to_string()))
        .collect();
    let all = known.iter().chain(&others).map(|entry| {
        let model = model(setup, learnt, entry);
        let notice = notices.get(&model.model).cloned();
        Model { notice, ..model }
    });
    all.collect()
}

fn model(setup: &Setup, learnt: &Calibrations, entry: &Entry) -> Model {
    let model = entry.model.to_string();
    let unavailable_reason = models::unavailable_reason(&setup.loaded, entry);
    let learnt = learnt.get(&model);
    let window = learnt.window(entry.window);
    let price = |price: Option<Price>| price.map(|price| price.to_string());
    Model {
        usable: unavailable_reason.is_none(),
        unavailable_reason,
        default: model == setup.loaded.default_model,
        assumed: entry.assumed,
        window_tokens: entry.window.0,
        reported_window_tokens: (window != entry.window).then_some(window.0),
        max_output_tokens: entry.max_output.0,
        encoding: entry.encoding.name().to_owned(),
        estimated: entry.estimated,
        calibration: (learnt.samples() > 0).then(|| Calibration {
            ratio: learnt.ratio(),
            error: learnt.band(),
            replies: u64::from(learnt.samples()),
        }),
        retires: entry.retires.map(|day| day.to_string()),
        successor: entry.successor.as_ref().map(ToString::to_string),
        input_usd_per_million: price(entry.prices.input),
        output_usd_per_million: price(entry.prices.output),
        cache_read_usd_per_million: price(entry.prices.cache_read),
        cache_write_usd_per_million: price(entry.prices.cache_write),
        notice: None,
        model,
    }
}
