//! Files of strangers: complete, truncated, of a wrong type, huge, animated.

use super::*;

fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap().to_be_bytes();
    [&length[..], name, data, &[0; 4]].concat()
}

fn png_of(width: u32, height: u32, more: &[u8]) -> Vec<u8> {
    let header = [
        &width.to_be_bytes()[..],
        &height.to_be_bytes(),
        &[8, 6, 0, 0, 0],
    ]
    .concat();
    [
        &b"\x89PNG\r\n\x1a\n"[..],
        &chunk(b"IHDR", &header),
        more,
        &chunk(b"IDAT", b"pixels"),
        &chunk(b"IEND", b""),
    ]
    .concat()
}

fn jpeg_of(width: u16, height: u16) -> Vec<u8> {
    let frame = [
        &[0, 11, 8][..],
        &height.to_be_bytes(),
        &width.to_be_bytes(),
        &[1, 1, 0x11, 0],
    ];
    [
        &b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc2"[..],
        &frame.concat(),
        b"\xff\xda\x00\x02data\xff\xd9",
    ]
    .concat()
}

fn gif_of(images: usize) -> Vec<u8> {
    let header = b"GIF89a\x20\x00\x10\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff";
    let image = b"\x21\xf9\x04\x00\x00\x00\x00\x00\x2c\x00\x00\x00\x00\x20\x00\x10\x00\x00\x02\x02\x4c\x01\x00";
    [&header[..], &image.repeat(images), b"\x3b"].concat()
}

fn webp_of(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap();
    let all = (length + 12).to_le_bytes();
    [
        &b"RIFF"[..],
        &all,
        b"WEBP",
        name,
        &length.to_le_bytes(),
        body,
    ]
    .concat()
}

fn pdf(body: &str) -> Vec<u8> {
    format!("%PDF-1.7\n{body}\n%%EOF\n").into_bytes()
}

fn checked(bytes: &[u8], said: Option<&str>) -> Result<(Kind, Extent), Error> {
    let (kind, content) = check(Arc::from(bytes), said, MAX_BYTES)?;
    Ok((kind, content.extent))
}

#[test]
fn whole_files_are_taken_with_their_extent() {
    let size = |width, height| Extent::Pixels { width, height };
    let lossless = (99_u32 | 49 << 14).to_le_bytes();
    for (bytes, kind, extent) in rows! {
        (png_of(640, 480, b""), Kind::Png, size(640, 480)),
        (png_of(1, 8_000, b""), Kind::Png, size(1, 8_000)),
        (jpeg_of(4_000, 3_000), Kind::Jpeg, size(4_000, 3_000)),
        ([jpeg_of(4, 3), b"more".to_vec()].concat(), Kind::Jpeg, size(4, 3)),
        (gif_of(1), Kind::Gif, size(32, 16)),
        (webp_of(b"VP8X", &[0, 0, 0, 0, 9, 0, 0, 19, 0, 0]), Kind::Webp, size(10, 20)),
        (webp_of(b"VP8 ", &[0, 0, 0, 0x9d, 1, 0x2a, 0x40, 1, 0xf0, 0]), Kind::Webp, size(320, 240)),
        (webp_of(b"VP8L", &[&[0x2f], &lossless[..]].concat()), Kind::Webp, size(100, 50)),
        (
            pdf("<< /Type /Pages >> << /Type /Page >> <</Type/Page/Parent 1 0 R>>"),
            Kind::Pdf,
            Extent::Pages(2),
        ),
        (pdf(&"stream endstream ".repeat(4)), Kind::Pdf, Extent::Pages(4)),
    } {
        for said in [
            None,
            Some(kind.mime()),
            Some("application/octet-stream"),
            Some("image/*"),
        ] {
            assert_eq!(checked(&bytes, said), Ok((kind, extent)), "{said:?}");
        }
    }
    assert_eq!(Kind::of_mime("image/JPG; q=1"), Some(Kind::Jpeg));
}

#[test]
fn a_file_that_is_cut_short_anywhere_is_refused() {
    for bytes in [
        png_of(640, 480, b""),
        jpeg_of(40, 30),
        gif_of(1),
        pdf("/Type /Page"),
    ] {
        // A newline may be missing at the end of a document.
        for end in 0..bytes.len() - 1 {
            let cut = checked(&bytes[..end], None);
            assert!(cut.is_err(), "{end} of {}: {cut:?}", bytes.len());
        }
    }
    let webp = webp_of(b"VP8X", &[0, 0, 0, 0, 9, 0, 0, 19, 0, 0]);
    assert!(checked(&webp[..webp.len() - 1], None).is_err());
}

#[test]
fn what_is_not_taken_is_refused_with_its_reason() {
    let moving = chunk(b"acTL", &[0, 0, 0, 2, 0, 0, 0, 0]);
    for (bytes, said, reason) in rows! {
        (Vec::new(), None, "is empty"),
        (b"<svg xmlns='x'/>".to_vec(), Some("image/svg+xml"), "is not supported"),
        (b"BM123456".to_vec(), None, "is not supported"),
        (png_of(9, 9, b""), Some("image/jpeg"), "is image/jpeg, but its content is image/png"),
        (png_of(9, 9, b""), Some("text/html"), "is text/html, but"),
        (png_of(30_000, 30_000, b""), None, "30000 x 30000 pixels"),
        (png_of(0, 9, b""), None, "0 x 9 pixels"),
        (jpeg_of(65_535, 9), None, "65535 x 9 pixels"),
        (png_of(9, 9, &moving), None, "an animation"),
        (gif_of(2), None, "an animation"),
        (gif_of(0), None, "damaged or truncated"),
        (webp_of(b"VP8X", &[2, 0, 0, 0, 9, 0, 0, 19, 0, 0]), None, "an animation"),
        (b"%PDF-1.7 no end".to_vec(), None, "damaged or truncated"),
    } {
        let error = checked(&bytes, said).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}: {reason}");
    }
    let large = check(Arc::from(png_of(9, 9, b"")), None, 10).unwrap_err();
    assert!(large.to_string().contains("the limit is 10"), "{large}");
}

#[test]
fn a_file_is_read_from_base64_in_lines() {
    for text in ["AQIDBA==", " AQID\r\nBA==\n", "AQ\tID\nBA\n=="] {
        assert_eq!(decode_base64(text), Some(vec![1, 2, 3, 4]), "{text:?}");
    }
    for text in ["AQIDBA", "AQ-_", "A\u{a0}QID", "%%%"] {
        assert_eq!(decode_base64(text), None, "{text:?}");
    }
    assert_eq!(decode_base64(" \n"), Some(Vec::new()));
}

#[test]
fn a_length_that_is_a_lie_ends_the_walk() {
    let mut lying = png_of(9, 9, b"");
    lying[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(checked(&lying, None), Err(Error::Damaged("image/png")));
}

proptest::proptest! {
    #[test]
    fn no_bytes_are_a_panic(mut bytes: Vec<u8>, kind in 0..5_usize) {
        let marks: [&[u8]; 5] = [
            b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\x20\x00\x00\x00WEBPVP8X", b"%PDF-",
        ];
        bytes.splice(..0, marks[kind].iter().copied());
        let _ = checked(&bytes, None);
    }
}
