//! The models of agents and summaries, each behind the client of its provider.

mod calibration_file;
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
use unisono_model::catalogue::{Catalogue, EXTRACTIVE, Entry};
use unisono_model::client::{Client, LimitShare};
use unisono_model::language::{Extractive, Fallback, LanguageModel, Models};
use unisono_model::remote::{NoTransport, Remote};
use unisono_runtime::{Extensions, measure};
use unisono_session::agent::{AgentKind, Definition, Team};
use unisono_session::event::Calibration;

use unisono_config::diagnostic::Origin;
use unisono_config::providers::Providers;
use unisono_config::settings::Loaded;
use unisono_config::setup::Setup;
use unusable::UnavailableModel;

pub(crate) use calibration_file::CalibrationFile;
pub(crate) use servers::Servers;

/// Why the models of a team cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelUnavailable {
    /// An agent's model is unavailable.
    #[error("agent `{agent}` uses model `{model}`, which is not usable: {lacks}")]
    Lacks {
        /// The agent.
        agent: String,
        /// Its model.
        model: String,
        /// The reason, and the remedy.
        lacks: String,
    },
    /// No agent of this turn uses the selected model.
    #[error("no agent of this turn uses model `{model}`: {agents} use no language model")]
    Ignored {
        /// The model.
        model: String,
        /// The agents.
        agents: String,
    },
}

/// The cost is capped, and the price of an agent's model is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the price of model `{model}` of agent `{agent}` is unknown, but {cap} limits the cost: set \
      its price in models.toml, or remove the limit"
)]
#[non_exhaustive]
pub struct Unpriced {
    /// The agent.
    pub agent: String,
    /// Its model, or a fallback of it.
    pub model: String,
    /// The level that caps the cost.
    pub cap: String,
}

/// The models, each created on first use: a turn continues with its recorded model, whatever is
/// configured now. Models of one provider share its client, and with it connections, limits and
/// cool-downs.
pub(crate) fn build(
    setup: &Setup,
    extensions: &Extensions,
    calibrations: &Calibrations,
    warmth: &CacheWarmth,
    share: &LimitShare,
) -> Models {
    let loaded = &setup.loaded;
    let factory = Mutex::new(ModelFactory {
        catalogue: Arc::new(loaded.catalogue.clone()),
        providers: loaded.providers.clone(),
        fallback: loaded.config.models.fallback.clone(),
        clients: BTreeMap::new(),
        alone: BTreeMap::new(),
        own: extensions.models().clone(),
        chains: BTreeMap::new(),
        calibrations: calibrations.clone(),
        warmth: warmth.clone(),
        share: share.clone(),
    });
    Models::default().with_factory(move |name| {
        let mut factory = factory.lock().unwrap_or_else(PoisonError::into_inner);
        factory.chain(name)
    })
}

/// Whether the models of a team, or their fallbacks, are available. A model that was selected for
/// this turn has no fallback.
///
/// # Errors
/// One is unavailable; the error names the first agent and the reason. Or no agent uses the model
/// that was selected for this turn.
pub fn check(setup: &Setup, team: &Team) -> Result<(), ModelUnavailable> {
    let loaded = &setup.loaded;
    let chosen = chosen(loaded);
    if let Some(model) = &chosen {
        check_model_applies(team, model)?;
    }
    let lacks = |model: &str| match loaded.catalogue.get(None, model) {
        Ok(entry) => loaded.providers.unavailable_reason(&entry.model.provider),
        // A turn of another program may use a provider that only that program knows.
        Err(unknown) => Some(unknown.to_string()),
    };
    let reachable = |model: &String| lacks(model).is_none();
    if chosen.is_none() && loaded.config.models.fallback.iter().any(reachable) {
        return Ok(());
    }
    let asks = |agent: &&Arc<Definition>| matches!(agent.kind, AgentKind::Llm);
    for agent in team.definitions().filter(asks) {
        if let Some(lacks) = lacks(&agent.model) {
            return Err(ModelUnavailable::Lacks {
                agent: agent.id.to_string(),
                model: agent.model.to_string(),
                lacks,
            });
        }
    }
    Ok(())
}

/// Why a model cannot be used, with the remedy: its provider has no address or no key, or the model
/// was retired. Turns only warn about the latter: a server may still have it.
pub(crate) fn unavailable_reason(loaded: &Loaded, entry: &Entry) -> Option<String> {
    let lacks = loaded.providers.unavailable_reason(&entry.model.provider);
    lacks.or_else(|| {
        let retirement = entry.retirement(notices::today())?;
        let help = retirement.help();
        retirement
            .is_retired
            .then(|| format!("it {retirement}: {help}"))
    })
}

/// The model that was selected for one turn, by a flag or in a request, by its full name.
fn chosen(loaded: &Loaded) -> Option<String> {
    let name = loaded.config.models.instead.as_deref()?;
    let place = loaded.place(&["models", "override"]);
    let entry = matches!(&*place.origin, Origin::Flag(_)).then(|| loaded.catalogue.get(None, name));
    Some(entry?.ok()?.model.to_string())
}

/// Whether an agent of a team uses that model.
fn check_model_applies(team: &Team, model: &str) -> Result<(), ModelUnavailable> {
    let heeds = |agent: &Arc<Definition>| agent.kind.uses_model() && *agent.model == *model;
    if team.definitions().any(heeds) {
        return Ok(());
    }
    let agents: Vec<&str> = team.definitions().map(|agent| agent.id.as_str()).collect();
    Err(ModelUnavailable::Ignored {
        model: model.to_owned(),
        agents: agents.join(", "),
    })
}

/// Whether the prices of a team's models are known, if a budget caps the cost.
///
/// # Errors
/// One is unknown; the error names the first agent and the level that caps its cost.
pub fn check_prices(setup: &Setup, team: &Team) -> Result<(), Unpriced> {
    let loaded = &setup.loaded;
    let capped = loaded.config.budget.caps_cost();
    let unpriced = |model: &str| {
        let entry = loaded.catalogue.get(None, model).ok()?;
        let free = entry.model.provider == EXTRACTIVE;
        let known = entry.prices.worst(Tokens(1), Tokens(1)).is_some();
        let asked = loaded
            .providers
            .unavailable_reason(&entry.model.provider)
            .is_none();
        (!free && !known && asked).then(|| model.to_owned())
    };
    // Programs, servers and agents with only a pipeline use no model of ours; an agent in Rust may.
    let asks = |agent: &&Arc<Definition>| agent.kind.uses_model();
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

/// The calibrations of a team's models, for models with estimated token counts. They never make a
/// window larger: some servers report only the tokens that were not in their cache, and a context
/// that is larger than the window would be refused.
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
        let known = learnt.get(name);
        let least = Ppm((1e6 / (1.0 + known.band())).ceil() as u32);
        Calibration {
            model: name.clone(),
            ratio: ppm(known.ratio()).max(least),
            band: ppm(known.band()),
        }
    };
    estimated.map(calibration).collect()
}

/// Limits the agents of a team to the windows that their models' providers reported.
pub(crate) fn limit_to_reported_windows(team: &mut Team, learnt: &Calibrations) {
    let keep_within = |agent: &mut Arc<Definition>| {
        let known = effective_limits(agent, learnt);
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

/// The limits of an agent's model: from the catalogue, or as its provider reported.
pub fn effective_limits(agent: &Definition, learnt: &Calibrations) -> Limits {
    let window = learnt.get(&agent.model).window(agent.limits.window);
    match window == agent.limits.window {
        true => agent.limits,
        false => agent.limits.of_window(window),
    }
}

/// The provider's token count of a context, with the agent's persona and nothing else.
///
/// # Errors
/// Why it is unknown.
pub async fn count(
    setup: &Setup,
    extensions: &Extensions,
    agent: &Definition,
    snapshot: Arc<Snapshot>,
) -> Result<u64, String> {
    let (learnt, warmth) = (Calibrations::default(), CacheWarmth::default());
    let models = build(setup, extensions, &learnt, &warmth, &LimitShare::default());
    let model = models
        .get(&agent.model)
        .map_err(|error| format!("not counted by the provider: {error}"))?;
    let counted = measure::measure_all(model.as_ref(), agent, snapshot).await;
    let counted = counted.map_err(|error| format!("not counted by the provider: {error}"))?;
    let cannot = || format!("{} cannot count the tokens of a text", agent.model);
    Ok(counted.ok_or_else(cannot)?.0)
}

/// Models of these names, for rendering requests again: no API key is read and no client is
/// created. Models that are in neither the catalogue nor the program any more are omitted.
pub fn models_for_replay<'d>(
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
                let model = Remote::new(entry, NoTransport(dialect), catalogue.clone());
                all.with(name.clone(), model)
            }
            None => all,
        }
    })
}

/// The calibrations of models' tokens in that store.
pub fn read_calibrations(store: &Path) -> Calibrations {
    CalibrationFile::open(Some(store)).calibrations
}

/// The inputs for creating models, and the created ones.
struct ModelFactory {
    catalogue: Arc<Catalogue>,
    providers: Providers,
    fallback: Vec<String>,
    /// One per provider, or the reason why there is none.
    clients: BTreeMap<String, Result<Arc<Client>, String>>,
    alone: BTreeMap<String, Arc<dyn LanguageModel>>,
    /// Models of the program itself.
    own: BTreeMap<Arc<str>, Arc<dyn LanguageModel>>,
    chains: BTreeMap<String, Arc<dyn LanguageModel>>,
    calibrations: Calibrations,
    warmth: CacheWarmth,
    share: LimitShare,
}

impl ModelFactory {
    /// The model, with its fallbacks behind it.
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
            Err(error) => return Arc::new(UnavailableModel::new(name, error.to_string())),
        };
        let client = match self.client(&entry.model.provider) {
            Ok(client) => client,
            Err(lacks) => return Arc::new(UnavailableModel::new(name, lacks)),
        };
        // A model may use another dialect than its provider's other models.
        let client = match entry.dialect {
            Some(dialect) if dialect != client.settings().dialect => {
                Arc::new(client.with_dialect(dialect))
            }
            _ => client,
        };
        let remote = Remote::new(entry, client, self.catalogue.clone());
        let remote = remote.with_calibrations(self.calibrations.clone());
        Arc::new(remote.with_cache_warmth(self.warmth.clone()))
    }

    fn client(&mut self, provider: &str) -> Result<Arc<Client>, String> {
        if let Some(known) = self.clients.get(provider) {
            return known.clone();
        }
        let access = self.providers.get(provider);
        let made = match access.map(|access| &access.settings) {
            Some(Ok(settings)) => {
                let client = Client::with_share(settings.clone(), self.share.clone());
                client.map_err(|error| error.to_string())
            }
            Some(Err(lacks)) => Err(format!("provider `{provider}`: {lacks}")),
            None => Err(format!("provider `{provider}` cannot be called")),
        };
        let made = made.map(Arc::new);
        self.clients.insert(provider.to_owned(), made.clone());
        made
    }
}
