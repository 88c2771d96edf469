//! What a process holds.

/// Resident memory of this process in bytes: now, and at most so far.
pub fn resident() -> (f64, f64) {
    resident_of("self")
}

/// Resident memory of the process of that id in bytes: now, and at most so far.
pub fn resident_of(process: &str) -> (f64, f64) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("Linux");
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim_end_matches("kB").trim().parse::<f64>().ok());
        kib.unwrap_or_default() * 1024.0
    };
    (of("VmRSS:"), of("VmHWM:"))
}

/// Begins to look for the most anew, and says what is resident now.
pub fn reset_highest() -> f64 {
    // "5" resets the high water mark: proc_pid_clear_refs(5).
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux 4.0 or newer");
    resident().0
}
