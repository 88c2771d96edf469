//! What this process has used so far.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of all its threads, in the system included.
pub fn processor() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(spent.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(spent.tv_nsec).unwrap_or_default())
}

/// Bytes it had the system write to disk, in whole pages: a page that is written again before
/// it is on disk counts once.
pub fn written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("Linux");
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok())
        .expect("a kernel that counts what a process writes")
}
