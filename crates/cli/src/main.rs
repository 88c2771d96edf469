//! The `unisono` program, with the agent kinds that are built in.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A turn's runs allocate little pieces on one thread and free them on another, which the system's
/// allocator is slow at (`benches/README.md`).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    unisono_cli::main(unisono_cli::Extensions::default())
}
