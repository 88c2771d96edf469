//! The size of a JPEG (ITU-T T.81, annex B).

/// Width and height, if the file has a frame and ends as it should.
pub(super) fn size(bytes: &[u8]) -> Option<(u32, u32)> {
    // Some programs append bytes of their own.
    memchr::memmem::rfind(bytes, b"\xff\xd9").filter(|end| *end > 2)?;
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        // Any number of these may stand before a marker.
        while *bytes.get(at)? == 0xff {
            at += 1;
        }
        let marker = *bytes.get(at)?;
        at += 1;
        match marker {
            // A frame: its length, precision, height and width.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                let frame = bytes.get(at..)?;
                let number = |at: usize| {
                    let two = frame.get(at..)?.first_chunk::<2>()?;
                    Some(u32::from(u16::from_be_bytes(*two)))
                };
                return Some((number(5)?, number(3)?));
            }
            // Without a segment.
            0x01 | 0xd0..=0xd8 => {}
            // A scan or the end before any frame.
            0xd9 | 0xda => return None,
            _ => {
                let two = bytes.get(at..)?.first_chunk::<2>()?;
                let length = usize::from(u16::from_be_bytes(*two));
                at += length.max(2);
            }
        }
    }
}
