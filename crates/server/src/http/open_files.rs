//! The limit of open files, and the number of connections that fits in it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use unisono_runtime::reaper;

/// Files that are open without any connection: the store, the index, logs, the listener.
const OWN: u64 = 64;
/// One part of this many is left to programs, to servers of tools and to providers.
const OTHERS: u64 = 4;

/// Raises the soft limit of open files to the hard one and returns the new limit; none if there is
/// no limit.
pub(super) fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return limit.current;
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => {
            // Child processes get the limit with which this process was started.
            limit.current.into_iter().for_each(reaper::set_open_files);
            limit.maximum
        }
        Err(error) => {
            tracing::warn!(%error, "the limit of open files cannot be raised");
            limit.current
        }
    }
}

/// The number of connections, up to `wanted`, that fits in a limit of open files beside `spare`
/// ones.
pub(super) fn max_connections(wanted: usize, spare: usize, files: Option<u64>) -> usize {
    let Some(files) = files else {
        return wanted;
    };
    let left = files - files / OTHERS;
    let left = left.saturating_sub(OWN + spare as u64).max(1);
    wanted.min(usize::try_from(left).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_others() {
        for (files, fit) in [
            (None, 2_048),
            (Some(1 << 20), 2_048),
            (Some(1_024), 672),
            (Some(256), 96),
            (Some(16), 1),
        ] {
            assert_eq!(max_connections(2_048, 32, files), fit, "{files:?}");
        }
        assert_eq!(max_connections(10, 32, Some(1_024)), 10);
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        let raised = raise();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!((limit.current, raised), (limit.maximum, limit.maximum));
    }
}
