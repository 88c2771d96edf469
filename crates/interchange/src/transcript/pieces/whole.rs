//! Conversations that are a text, which is in memory as a whole; and files in UTF-16.

use std::io::{self, BufRead, Read};

use super::{Text, read};
use crate::transcript::detect::Reader;
use crate::transcript::encoding;
use crate::transcript::source::{Place, not_utf8, valid_lines};

/// The maximum size of a conversation as a text.
const TEXT_BYTES: u64 = 64 << 20;

/// Reads a conversation that is a text. `read` is the part that was read already.
pub(super) fn whole_text(
    text: Text<'_>,
    mut read: Vec<u8>,
    (at, offset): (Place, u64),
    reader: &mut Reader<'_>,
) -> io::Result<()> {
    text.input.take(TEXT_BYTES + 1).read_to_end(&mut read)?;
    if read.len() as u64 > TEXT_BYTES {
        reader.refuse("it is not JSON, and longer than a text may be".to_owned());
        return Ok(());
    }
    end_lines(&mut read);
    match std::str::from_utf8(&read) {
        Ok(all) if reader.text(all, at) => {}
        Ok(all) if all.trim().is_empty() => {}
        Ok(_) => reader.refuse("it is not JSON, and no two speakers take turns in it".to_owned()),
        Err(error) => {
            let mut advice = encoding::advice(&read);
            let (text, broken) = valid_lines(&read, (at, offset));
            if reader.text(&text, at) {
                for (at, mut reason) in broken {
                    // The first one has the advice.
                    reason.push_str(&std::mem::take(&mut advice));
                    reader.push_undecoded(at, reason);
                }
                return Ok(());
            }
            let reason = not_utf8(&read, offset, &error);
            let at = at.after_bytes(&read[..error.valid_up_to()]);
            reader.refuse(format!("{}:{}: {reason}{advice}", at.line, at.column));
        }
    }
    Ok(())
}

/// Makes carriage returns the ends of lines in a text without other ends of lines.
fn end_lines(text: &mut [u8]) {
    if text.contains(&b'\n') {
        return;
    }
    for byte in text.iter_mut().filter(|byte| **byte == b'\r') {
        *byte = b'\n';
    }
}

/// Reads a file in UTF-16, whose conversation is in memory as a whole. Positions in its text are not
/// positions in the file, so that no conversation can be picked from it.
pub(super) fn utf_16(
    input: &mut dyn BufRead,
    place: Place,
    reader: &mut Reader<'_>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    input.take(TEXT_BYTES + 1).read_to_end(&mut bytes)?;
    let conversion = encoding::conversion(Some("UTF-16"));
    if bytes.len() as u64 > TEXT_BYTES {
        let reason =
            format!("the file is UTF-16, and longer than such a file may be; {conversion}");
        reader.push_undecoded(Place::FIRST, reason);
        return Ok(());
    }
    let Some(text) = encoding::from_utf16(&bytes) else {
        let reason = "the file is UTF-16, but damaged or cut off; save it again, in UTF-8";
        reader.push_undecoded(Place::FIRST, reason);
        return Ok(());
    };
    if reader.on_piece.is_some() {
        return Ok(());
    }
    read(&mut text.as_bytes(), place, reader)?;
    if reader.conversations > 1 {
        reader.conversations = 0;
        reader.refuse(format!(
            "it is UTF-16 and has several conversations; {conversion}"
        ));
    }
    Ok(())
}
