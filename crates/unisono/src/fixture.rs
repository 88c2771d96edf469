//! For tests: settings that are in no file.

use unisono_config::paths::Home;
use unisono_config::settings::{Override, Sources};

/// These settings alone. Nothing is read or made in the directories.
pub(crate) fn sources<const N: usize>(settings: [(&str, &str); N]) -> Sources {
    let nowhere = || Some("/nowhere".into());
    Sources {
        directory: "/nowhere".into(),
        home: Home {
            home: nowhere(),
            config: nowhere(),
            data: nowhere(),
        },
        overrides: settings
            .map(|(key, value)| Override::new("set", key, value))
            .into(),
        ..Sources::default()
    }
}
