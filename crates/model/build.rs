//! Writes the tokens of each encoding into files that are built into the crate.
//!
//! tiktoken-rs holds every token three times and takes half a second and some 100 MB to get there.
//! Done here, it costs the program neither.
//!
//! A file has the number of tokens (32 bits, little-endian), the length of each (a byte), and
//! their bytes, by rank.

use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;
use std::{env, fs};

use tiktoken_rs::CoreBPE;

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::var("OUT_DIR")?;
    let encodings = [
        ("o200k_base", tiktoken_rs::o200k_base()?),
        ("cl100k_base", tiktoken_rs::cl100k_base()?),
    ];
    for (name, tables) in encodings {
        let file = Path::new(&out).join(name).with_extension("tokens");
        fs::write(file, tokens(&tables)?)?;
    }
    writeln!(stdout(), "cargo::rerun-if-changed=build.rs")?;
    Ok(())
}

/// All tokens. Their ranks count up from 0 without a gap; the special ones come after one.
fn tokens(tables: &CoreBPE) -> Result<Vec<u8>, Box<dyn Error>> {
    let (mut lengths, mut bytes) = (Vec::new(), Vec::new());
    for rank in 0.. {
        let Ok(token) = tables.decode_bytes(&[rank]) else {
            break;
        };
        lengths.push(u8::try_from(token.len())?);
        bytes.extend(token);
    }
    let count = u32::try_from(lengths.len())?.to_le_bytes();
    Ok([&count[..], &lengths, &bytes].concat())
}
