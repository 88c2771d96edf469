//! The condition of a program and of what it needs, without a change and without reading every
//! record of its store.

use std::path::{Path, PathBuf};

use unisono_api::store::HealthCheck;
use unisono_config::settings::EditAgents;
use unisono_config::setup::Setup;
use unisono_runtime::mcp::ServerTransport;
use unisono_store::private;

use crate::Local;
use crate::local::off_thread;
use crate::models::notices;

/// Notices and warnings that are told of each kind.
const MOST: usize = 50;

/// Looks at everything.
pub(crate) async fn checks(local: &Local) -> Vec<HealthCheck> {
    let setup = local.setup();
    let mut checks = providers(&setup);
    checks.push(model(&setup));
    let today = notices::today();
    if let Some(days) = setup.loaded.catalogue.outdated_days(today) {
        let says = format!(
            "it is {days} days old: prices and dates may have changed; take a newer version, or set \
             models.catalogue"
        );
        checks.push(check("catalogue of models", NOTICE, says));
    }
    let known = notices::of_setup(&setup, local.calibrations(), today);
    let told = known.iter().take(MOST);
    checks.extend(told.map(|notice| check(&notice.model, NOTICE, notice.to_string())));
    let warnings = setup.warnings.iter().chain(setup.loaded.warnings.iter());
    let warnings = warnings.take(MOST);
    checks.extend(warnings.map(|warning| check("settings", NOTICE, warning.to_string())));
    checks.extend(servers(&setup));
    checks.push(editing(&setup));
    checks.push(store(local).await);
    let losses = local.losses().len();
    if losses > 0 {
        let says = format!(
            "repairs have lost {losses} ranges of events; `unisono doctor --acknowledge` takes note"
        );
        checks.push(check("losses", BAD, says));
    }
    checks
}

const GOOD: &str = "good";
const NOTICE: &str = "notice";
const OFF: &str = "off";
const BAD: &str = "bad";

fn check(what: &str, condition: &str, says: String) -> HealthCheck {
    HealthCheck {
        what: what.to_owned(),
        condition: condition.to_owned(),
        says,
    }
}

/// Providers that can be asked; those without a key are no fault.
fn providers(setup: &Setup) -> Vec<HealthCheck> {
    let all = setup.loaded.providers.iter();
    let checks = all.map(|(name, access)| {
        let what = format!("provider {name}");
        match &access.settings {
            Ok(settings) => check(&what, GOOD, format!("usable at {}", settings.address)),
            Err(lacks) => check(&what, OFF, format!("not usable: {lacks}")),
        }
    });
    checks.collect()
}

fn model(setup: &Setup) -> HealthCheck {
    let model = &setup.loaded.default_model;
    let entry = setup.loaded.catalogue.get(None, model);
    let lacks = entry.map_or_else(
        |error| Some(error.to_string()),
        |entry| setup.loaded.providers.lacks(&entry.model.provider),
    );
    match lacks {
        None => check("default model", GOOD, model.clone()),
        Some(lacks) => check("default model", BAD, format!("{model}: {lacks}")),
    }
}

/// Tool servers whose programs can be found; addresses are not asked.
fn servers(setup: &Setup) -> Vec<HealthCheck> {
    let servers = setup.loaded.tools.servers.iter();
    let checks = servers.map(|server| {
        let what = format!("tools of {}", server.name);
        match &server.transport {
            ServerTransport::Program(command) => match program(&command.program) {
                Some(path) => check(&what, GOOD, path.display().to_string()),
                None => check(
                    &what,
                    BAD,
                    format!("there is no program {:?}", command.program),
                ),
            },
            ServerTransport::Address { url, .. } => {
                check(&what, GOOD, format!("at {url}, not asked"))
            }
        }
    });
    checks.collect()
}

/// Where a program is, as a shell would find it.
fn program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        let path = PathBuf::from(name);
        return path.is_file().then_some(path);
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut each = std::env::split_paths(&paths).map(|path| path.join(name));
    each.find(|path| path.is_file())
}

fn editing(setup: &Setup) -> HealthCheck {
    let how = match (
        setup.loaded.config.web.edit_agents,
        setup.loaded.edits_agents(),
    ) {
        (EditAgents::Auto, true) => {
            "can be changed by requests: the daemon listens on this machine only"
        }
        (EditAgents::Auto, false) => {
            "cannot be changed by requests: other machines reach the daemon"
        }
        (_, true) => "can be changed by requests (web.edit_agents)",
        (_, false) => "cannot be changed by requests (web.edit_agents)",
    };
    check("files of agents", GOOD, how.to_owned())
}

/// Whether other users of this machine have rights to anything of the store.
async fn store(local: &Local) -> HealthCheck {
    let path = local.directory().map(Path::to_owned);
    let Some(path) = path else {
        return check("store", GOOD, "in memory".to_owned());
    };
    let shown = path.display().to_string();
    let looked = off_thread(move || private::exposed(&path)).await;
    match looked {
        Ok(None) => check("store", GOOD, format!("{shown}, for its owner only")),
        Ok(Some(open)) => {
            let says = format!(
                "other users may read {}: run chmod -R go-rwx {shown}",
                open.display()
            );
            check("store", BAD, says)
        }
        Err(error) => check("store", BAD, format!("{shown}: {error}")),
    }
}
