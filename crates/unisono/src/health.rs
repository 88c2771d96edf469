//! Health checks of a program and its environment. They change nothing and do not read every record
//! of the store. They connect to the tool servers.

use std::path::Path;

use unisono_api::store::HealthCheck;
use unisono_config::settings::EditAgents;
use unisono_config::setup::Setup;
use unisono_store::private;

use crate::Local;
use crate::local::off_thread;
use crate::models::notices;

/// Maximum number of notices, and of warnings.
const MAX_ENTRIES: usize = 50;

pub(crate) async fn checks(local: &Local) -> Vec<HealthCheck> {
    let setup = local.setup();
    let mut checks = providers(&setup);
    checks.push(model(&setup));
    let today = notices::today();
    if let Some(message) = notices::outdated(&setup.loaded.catalogue, today) {
        checks.push(check("catalogue of models", NOTICE, message));
    }
    let known = notices::of_setup(&setup, local.calibrations(), today);
    let notices = known.iter().take(MAX_ENTRIES);
    checks.extend(notices.map(|notice| check(&notice.model, NOTICE, notice.to_string())));
    let warnings = setup.warnings.iter().chain(setup.loaded.warnings.iter());
    let warnings = warnings.take(MAX_ENTRIES);
    checks.extend(warnings.map(|warning| check("settings", NOTICE, warning.to_string())));
    checks.extend(servers(local, &setup).await);
    checks.push(editing(&setup));
    checks.push(store(local).await);
    let losses = local.losses().len();
    if losses > 0 {
        let message = format!(
            "repairs have lost {losses} ranges of events: acknowledge them by `unisono doctor --acknowledge`"
        );
        checks.push(check("losses", BAD, message));
    }
    checks
}

const GOOD: &str = "good";
const NOTICE: &str = "notice";
const OFF: &str = "off";
const BAD: &str = "bad";

fn check(name: &str, status: &str, message: String) -> HealthCheck {
    HealthCheck {
        name: name.to_owned(),
        status: status.to_owned(),
        message,
    }
}

/// Checks whether providers are usable. A provider without a key is off, not bad.
fn providers(setup: &Setup) -> Vec<HealthCheck> {
    let all = setup.loaded.providers.iter();
    let checks = all.map(|(name, access)| {
        let name = format!("provider {name}");
        match &access.settings {
            Ok(settings) => check(&name, GOOD, format!("usable at {}", settings.address)),
            Err(lacks) => check(&name, OFF, format!("not usable: {lacks}")),
        }
    });
    checks.collect()
}

fn model(setup: &Setup) -> HealthCheck {
    let model = &setup.loaded.default_model;
    let entry = setup.loaded.catalogue.get(None, model);
    let lacks = entry.map_or_else(
        |error| Some(error.to_string()),
        |entry| {
            setup
                .loaded
                .providers
                .unavailable_reason(&entry.model.provider)
        },
    );
    match lacks {
        None => check("default model", GOOD, model.clone()),
        Some(lacks) => check("default model", BAD, format!("{model}: {lacks}")),
    }
}

/// Lists the tools of each server. A server that is not connected is started.
async fn servers(local: &Local, setup: &Setup) -> Vec<HealthCheck> {
    let Ok(runtime) = local.runtime() else {
        return Vec::new();
    };
    let each = setup.loaded.tools.servers.iter().map(|server| async move {
        let name = format!("tools of {}", server.name);
        let limit = server.start_timeout;
        match tokio::time::timeout(limit, runtime.offers(&server.name)).await {
            Ok(Ok(offers)) => {
                let message = match offers.len() {
                    1 => "answers, and offers 1 tool".to_owned(),
                    tools => format!("answers, and offers {tools} tools"),
                };
                check(&name, GOOD, message)
            }
            Ok(Err(fault)) => check(&name, BAD, fault.reason.to_string()),
            Err(_) => {
                let seconds = limit.as_secs_f64();
                check(&name, BAD, format!("did not answer within {seconds:.1} s"))
            }
        }
    });
    futures_util::future::join_all(each).await
}

fn editing(setup: &Setup) -> HealthCheck {
    let how = match (
        setup.loaded.config.web.edit_agents,
        setup.loaded.edits_agents(),
    ) {
        (EditAgents::Auto, true) => {
            "requests can change them, because the daemon listens on this machine only"
        }
        (EditAgents::Auto, false) => {
            "requests cannot change them, because other machines reach the daemon (web.edit_agents)"
        }
        (_, true) => "requests can change them (web.edit_agents)",
        (_, false) => "requests cannot change them (web.edit_agents)",
    };
    check("files of agents", GOOD, how.to_owned())
}

/// Checks that no other user of this machine can access the store.
async fn store(local: &Local) -> HealthCheck {
    let path = local.directory().map(Path::to_owned);
    let Some(path) = path else {
        return check("store", GOOD, "in memory".to_owned());
    };
    let shown = path.display().to_string();
    let looked = off_thread(move || private::exposed(&path)).await;
    match looked {
        Ok(None) => check(
            "store",
            GOOD,
            format!("{shown}; only its owner can access it"),
        ),
        Ok(Some(open)) => {
            let message = format!(
                "other users may read {}: run chmod -R go-rwx {shown}",
                open.display()
            );
            check("store", BAD, message)
        }
        Err(error) => check("store", BAD, format!("{shown}: {error}")),
    }
}
