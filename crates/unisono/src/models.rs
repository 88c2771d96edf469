//! The models that agents and summaries ask, each behind the client of its provider.

mod learnt;
pub mod notices;
mod servers;
mod unusable;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use unisono_context::budget::Limits;
use unisono_context::{Ppm, Snapshot, Tokens};
use unisono_model::cache_warming::CacheWarmth;
use unisono_model::calibration::Calibrations;
use unisono_model::catalogue::{Catalogue, EXTRACTIVE};
use unisono_model::client::Client;
use unisono_model::language::remote::Nowhere;
use unisono_model::language::{Extractive, Fallback, LanguageModel, Models, Remote};
use unisono_runtime::{Extensions, measure};
use unisono_session::agent::{Definition, Kind, Team};
use unisono_session::event::Calibration;

use unisono_config::diagnostic::Origin;
use unisono_config::providers::Providers;
use unisono_config::settings::Loaded;
use unisono_config::setup::Setup;
use unusable::Unusable;

pub(crate) use learnt::Learnt;
pub(crate) use servers::Servers;

/// The models of a team are not as they have to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// An agent's model cannot be asked.
    #[error("agent `{agent}` uses model `{model}`, which cannot be asked: {lacks}")]
    Lacks {
        /// The agent.
        agent: String,
        /// Its model.
        model: String,
        /// What is missing, and what to do.
        lacks: String,
    },
    /// A model was chosen for this turn that none of its agents asks.
    #[error("no agent of this turn asks model `{model}`: {agents} ask no language model")]
    Ignored {
        /// The model.
        model: String,
        /// The agents.
        agents: String,
    },
}

/// The cost is capped, and what an agent's model costs is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the price of model `{model}` of agent `{agent}` is not known, and {cap} caps the cost; give \
     it a price in models.toml, or take the cap away"
)]
pub struct Unpriced {
    /// The agent.
    pub agent: String,
    /// Its model, or one that stands in for it.
    pub model: String,
    /// What caps the cost.
    pub cap: String,
}

/// The models, each made when it is first asked for: a turn goes on with the model it was recorded
/// with, whatever is configured now. Models of one provider share its client, and with it
/// connections, limits and cool-downs.
pub(crate) fn build(
    setup: &Setup,
    extensions: &Extensions,
    calibrations: &Calibrations,
    warmth: &CacheWarmth,
) -> Models {
    let loaded = &setup.loaded;
    let workshop = Mutex::new(Workshop {
        catalogue: Arc::new(loaded.catalogue.clone()),
        providers: loaded.providers.clone(),
        fallback: loaded.config.models.fallback.clone(),
        clients: BTreeMap::new(),
        alone: BTreeMap::new(),
        own: extensions.models().clone(),
        chains: BTreeMap::new(),
        calibrations: calibrations.clone(),
        warmth: warmth.clone(),
    });
    Models::default().made_by(move |name| {
        let mut workshop = workshop.lock().unwrap_or_else(PoisonError::into_inner);
        workshop.chain(name)
    })
}

/// Whether the models of a team can be asked, they or those that stand in for them. For a model
/// that was chosen for this turn nothing stands in from the start.
///
/// # Errors
/// One cannot; the error names the first agent and what its model's provider lacks. Or a model was
/// chosen for this turn, and no agent asks it.
pub fn check(setup: &Setup, team: &Team) -> Result<(), Unreachable> {
    let loaded = &setup.loaded;
    let chosen = chosen(loaded);
    if let Some(model) = &chosen {
        check_heeded(team, model)?;
    }
    let lacks = |model: &str| {
        let entry = loaded.catalogue.get(None, model).ok()?;
        loaded.providers.lacks(&entry.model.provider)
    };
    let reachable = |model: &String| lacks(model).is_none();
    if chosen.is_none() && loaded.config.models.fallback.iter().any(reachable) {
        return Ok(());
    }
    let asks = |agent: &&Arc<Definition>| matches!(agent.kind, Kind::Llm);
    for agent in team.definitions().filter(asks) {
        if let Some(lacks) = lacks(&agent.model) {
            return Err(Unreachable::Lacks {
                agent: agent.id.to_string(),
                model: agent.model.to_string(),
                lacks,
            });
        }
    }
    Ok(())
}

/// The model that was chosen for one turn, by a flag or in a request, by its full name.
fn chosen(loaded: &Loaded) -> Option<String> {
    let name = loaded.config.models.instead.as_deref()?;
    let place = loaded.place(&["models", "override"]);
    let entry = matches!(&*place.origin, Origin::Flag(_)).then(|| loaded.catalogue.get(None, name));
    Some(entry?.ok()?.model.to_string())
}

/// Whether an agent of a team asks that model.
fn check_heeded(team: &Team, model: &str) -> Result<(), Unreachable> {
    let heeds = |agent: &Arc<Definition>| {
        matches!(agent.kind, Kind::Llm | Kind::Custom(_)) && *agent.model == *model
    };
    if team.definitions().any(heeds) {
        return Ok(());
    }
    let agents: Vec<&str> = team.definitions().map(|agent| agent.id.as_str()).collect();
    Err(Unreachable::Ignored {
        model: model.to_owned(),
        agents: agents.join(", "),
    })
}

/// Whether what a team's models cost is known, where a budget caps that.
///
/// # Errors
/// It is not; the error names the first agent and what caps its cost.
pub fn check_prices(setup: &Setup, team: &Team) -> Result<(), Unpriced> {
    let loaded = &setup.loaded;
    let capped = loaded.config.budget.caps_cost();
    let unpriced = |model: &str| {
        let entry = loaded.catalogue.get(None, model).ok()?;
        let free = entry.model.provider == EXTRACTIVE;
        let known = entry.prices.worst(Tokens(1), Tokens(1)).is_some();
        let asked = loaded.providers.lacks(&entry.model.provider).is_none();
        (!free && !known && asked).then(|| model.to_owned())
    };
    // Programs, servers and mere pipelines ask no model of ours; an agent of an author's may.
    let asks = |agent: &&Arc<Definition>| matches!(agent.kind, Kind::Llm | Kind::Custom(_));
    for agent in team.definitions().filter(asks) {
        let own = setup.roster.max_cost(&agent.id);
        let own = own.map(|_| format!("`max_cost_usd` of agent `{}`", agent.id));
        let Some(cap) = own.or(capped.map(|level| format!("`{level}.max_cost_usd`"))) else {
            continue;
        };
        let fallbacks = loaded.config.models.fallback.iter().map(String::as_str);
        let mut all = std::iter::once(&*agent.model).chain(fallbacks);
        if let Some(model) = all.find_map(unpriced) {
            let agent = agent.id.to_string();
            return Err(Unpriced { agent, model, cap });
        }
    }
    Ok(())
}

/// How far the counts of a team's models are off, for those that are only estimated.
pub(crate) fn calibrations(setup: &Setup, team: &Team, learnt: &Calibrations) -> Vec<Calibration> {
    let ppm = |share: f64| Ppm((share * 1e6).round() as u32);
    let mut names: Vec<&Arc<str>> = team.definitions().map(|agent| &agent.model).collect();
    names.sort_unstable();
    names.dedup();
    let estimated = names.into_iter().filter(|name| {
        let entry = setup.loaded.catalogue.get(None, name);
        entry.is_ok_and(|entry| entry.estimated)
    });
    let calibration = |name: &Arc<str>| {
        let known = learnt.of(name);
        Calibration {
            model: name.clone(),
            ratio: ppm(known.ratio()),
            band: ppm(known.band()),
        }
    };
    estimated.map(calibration).collect()
}

/// Has the agents of a team keep within the windows that their models' providers named.
pub(crate) fn within_learnt(team: &mut Team, learnt: &Calibrations) {
    let keep_within = |agent: &mut Arc<Definition>| {
        let known = limits_known(agent, learnt);
        if known != agent.limits {
            Arc::make_mut(agent).limits = known;
        }
    };
    let delegates = team
        .delegates
        .iter_mut()
        .map(|delegate| &mut delegate.agent);
    std::iter::once(&mut team.lead)
        .chain(delegates)
        .chain(&mut team.available)
        .for_each(keep_within);
}

/// What an agent's model takes: as the catalogue has it, or as its provider said.
pub fn limits_known(agent: &Definition, learnt: &Calibrations) -> Limits {
    let window = learnt.of(&agent.model).window(agent.limits.window);
    match window == agent.limits.window {
        true => agent.limits,
        false => agent.limits.of_window(window),
    }
}

/// What the provider of an agent's model counts for a context, with the agent's persona and
/// nothing else.
///
/// # Errors
/// Why that is not known.
pub async fn count(
    setup: &Setup,
    extensions: &Extensions,
    agent: &Definition,
    snapshot: Arc<Snapshot>,
) -> Result<u64, String> {
    let (learnt, warmth) = (Calibrations::default(), CacheWarmth::default());
    let models = build(setup, extensions, &learnt, &warmth);
    let model = models
        .get(&agent.model)
        .map_err(|error| format!("not counted by the provider: {error}"))?;
    let counted = measure::whole(model.as_ref(), agent, snapshot).await;
    let counted = counted.map_err(|error| format!("not counted by the provider: {error}"))?;
    let cannot = || format!("{} cannot be asked how many tokens a text has", agent.model);
    Ok(counted.ok_or_else(cannot)?.0)
}

/// Models of these names, to render and word requests again: no key is looked at and no client is
/// made. Models that neither the catalogue nor the program has any more are left out.
pub fn on_paper<'d>(
    setup: &Setup,
    extensions: &Extensions,
    names: impl Iterator<Item = &'d Arc<str>>,
) -> Models {
    let catalogue = Arc::new(setup.loaded.catalogue.clone());
    let mut names: Vec<&Arc<str>> = names.collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().fold(Models::default(), |all, name| {
        if let Some(own) = extensions.models().get(name) {
            return all.with_shared(name.clone(), own.clone());
        }
        let entry = catalogue.get(None, name).ok();
        let Some(entry) = entry.filter(|entry| entry.model.provider != EXTRACTIVE) else {
            return all;
        };
        let provider = setup.loaded.providers.get(&entry.model.provider);
        match entry.dialect.or(provider.map(|access| access.dialect)) {
            Some(dialect) => {
                let model = Remote::new(entry, Nowhere(dialect), catalogue.clone());
                all.with(name.clone(), model)
            }
            None => all,
        }
    })
}

/// What was learnt of models' tokens by those who used that store.
pub fn learnt(store: &Path) -> Calibrations {
    Learnt::open(Some(store)).calibrations
}

/// What models are made with, and those that were.
struct Workshop {
    catalogue: Arc<Catalogue>,
    providers: Providers,
    fallback: Vec<String>,
    /// One for each provider, or why there is none.
    clients: BTreeMap<String, Result<Arc<Client>, String>>,
    alone: BTreeMap<String, Arc<dyn LanguageModel>>,
    /// Those of the program itself.
    own: BTreeMap<Arc<str>, Arc<dyn LanguageModel>>,
    chains: BTreeMap<String, Arc<dyn LanguageModel>>,
    calibrations: Calibrations,
    warmth: CacheWarmth,
}

impl Workshop {
    /// The model, with those that stand in for it behind it.
    fn chain(&mut self, name: &str) -> Arc<dyn LanguageModel> {
        if let Some(known) = self.chains.get(name) {
            return known.clone();
        }
        let others = self.fallback.clone();
        let mut chain = Fallback::new(name, self.model(name));
        for other in others.iter().filter(|other| *other != name) {
            chain = chain.or(other.as_str(), self.model(other));
        }
        let chain: Arc<dyn LanguageModel> = Arc::new(chain);
        self.chains.insert(name.to_owned(), chain.clone());
        chain
    }

    fn model(&mut self, name: &str) -> Arc<dyn LanguageModel> {
        if let Some(known) = self.alone.get(name) {
            return known.clone();
        }
        let made = self.make(name);
        self.alone.insert(name.to_owned(), made.clone());
        made
    }

    fn make(&mut self, name: &str) -> Arc<dyn LanguageModel> {
        if let Some(own) = self.own.get(name) {
            return own.clone();
        }
        let entry = match self.catalogue.get(None, name) {
            Ok(entry) if entry.model.provider == EXTRACTIVE => return Arc::new(Extractive),
            Ok(entry) => entry,
            Err(error) => return Arc::new(Unusable::new(name, error.to_string())),
        };
        let client = match self.client(&entry.model.provider) {
            Ok(client) => client,
            Err(lacks) => return Arc::new(Unusable::new(name, lacks)),
        };
        // A model may be asked in another dialect than its provider's other models.
        let client = match entry.dialect {
            Some(dialect) if dialect != client.settings().dialect => {
                Arc::new(client.speaking(dialect))
            }
            _ => client,
        };
        let remote = Remote::new(entry, client, self.catalogue.clone());
        let remote = remote.calibrated_by(self.calibrations.clone());
        Arc::new(remote.warmed_by(self.warmth.clone()))
    }

    fn client(&mut self, provider: &str) -> Result<Arc<Client>, String> {
        if let Some(known) = self.clients.get(provider) {
            return known.clone();
        }
        let access = self.providers.get(provider);
        let made = match access.map(|access| &access.settings) {
            Some(Ok(settings)) => Client::new(settings.clone()).map_err(|error| error.to_string()),
            Some(Err(lacks)) => Err(format!("provider `{provider}`: {lacks}")),
            None => Err(format!("provider `{provider}` cannot be called")),
        };
        let made = made.map(Arc::new);
        self.clients.insert(provider.to_owned(), made.clone());
        made
    }
}
