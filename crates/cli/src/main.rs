//! The `unisono` program, with the built-in agent kinds.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// The runs of a turn allocate small objects on one thread and free them on another. The system's
/// allocator is slow at this (`benches/README.md`).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    unisono_cli::main(unisono_cli::Extensions::default())
}
