//! The level of the log.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::settings::Loaded;

/// The levels, in lower case.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Checks the directives of a log: a level, or `module=level`, separated by commas. A word without
/// `=` that is no level would be a module, and a mistyped level would turn the log off.
///
/// # Errors
/// The reason names the first part without a level.
pub fn check_directives(directives: &str) -> Result<(), String> {
    let parts = directives.split(',').map(str::trim);
    for part in parts.filter(|part| !part.is_empty()) {
        let level = part
            .rsplit_once('=')
            .map_or(part, |(_, level)| level.trim());
        if !LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) {
            return Err(format!("{level:?} is no level"));
        }
    }
    Ok(())
}

/// Reports an invalid level.
pub(crate) fn check(loaded: &Loaded, found: &mut Diagnostics) {
    const PATH: [&str; 2] = ["log", "level"];
    let Err(reason) = check_directives(&loaded.config.log.level) else {
        return;
    };
    let key = PATH.join(".");
    let diagnostic = Diagnostic::error(loaded.place(&PATH), format!("`{key}`: {reason}"))
        .help("write error, warn, info, debug or trace, or module=level, separated by commas");
    found.push(diagnostic.with_key(key));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_has_a_level() {
        for right in [
            "warn",
            "INFO",
            "off",
            "warn, unisono_runtime=debug",
            "a::b=trace,info,",
        ] {
            assert_eq!(check_directives(right), Ok(()), "{right}");
        }
        for (wrong, level) in [
            ("loud", "loud"),
            ("unisono_runtime", "unisono_runtime"),
            ("info,unisono_runtime=debgu", "debgu"),
            ("a=b=c", "c"),
            ("warn,a=", ""),
        ] {
            let reason = format!("{level:?} is no level");
            assert_eq!(check_directives(wrong), Err(reason), "{wrong}");
        }
    }
}
