//! The decoder against the examples of RFC 7541 appendix C, faulty blocks, and garbage.

use super::*;
use proptest::prelude::*;

/// Collects fields as `name: value` lines.
#[derive(Default)]
struct Lines(Vec<String>);

impl FieldVisitor for Lines {
    fn field(&mut self, field: &Field<'_>) {
        assert_eq!(field.id, FieldId::of(field.name));
        let mark = if field.is_sensitive { "!" } else { "" };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.0.push(format!("{mark}{}: {}", text(field.name), text(field.value)));
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn decode(decoder: &mut Decoder, hex: &str) -> Result<Vec<String>, HpackError> {
    let mut lines = Lines::default();
    decoder.decode(&bytes(hex), &mut lines).map(|()| lines.0)
}

/// Blocks of one connection in order, each with its fields and the size of the table behind it.
fn check(limit: usize, blocks: &[(&str, &[&str], usize)]) {
    let mut decoder = Decoder::new(limit);
    for (hex, fields, size) in blocks {
        assert_eq!(decode(&mut decoder, hex).unwrap(), *fields);
        let table = &decoder.table;
        let sum = |index: usize| {
            let entry = table.get(index).unwrap();
            entry.name.len() + entry.value.len() + super::super::table::ENTRY_OVERHEAD
        };
        assert_eq!((0..table.len()).map(sum).sum::<usize>(), *size, "{hex}");
    }
}

#[test]
fn single_fields_of_appendix_c2() {
    let name_and_value = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    check(4096, &[(name_and_value, &["custom-key: custom-header"], 55)]);
    check(4096, &[("040c 2f73 616d 706c 652f 7061 7468", &[":path: /sample/path"], 0)]);
    check(4096, &[("1008 7061 7373 776f 7264 0673 6563 7265 74", &["!password: secret"], 0)]);
    check(4096, &[("82", &[":method: GET"], 0)]);
}

#[test]
fn requests_of_appendix_c3_and_c4() {
    let first = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
    let second = [
        ":method: GET",
        ":scheme: http",
        ":path: /",
        ":authority: www.example.com",
        "cache-control: no-cache",
    ];
    let third = [
        ":method: GET",
        ":scheme: https",
        ":path: /index.html",
        ":authority: www.example.com",
        "custom-key: custom-value",
    ];
    check(
        4096,
        &[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", &first, 57),
            ("8286 84be 5808 6e6f 2d63 6163 6865", &second, 110),
            ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", &third, 164),
        ],
    );
    check(
        4096,
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", &first, 57),
            ("8286 84be 5886 a8eb 1064 9cbf", &second, 110),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", &third, 164),
        ],
    );
}

#[test]
fn responses_of_appendix_c5_evict_entries() {
    let date = "date: Mon, 21 Oct 2013 20:13:21 GMT";
    let location = "location: https://www.example.com";
    check(
        256,
        &[
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a \
                 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                &[":status: 302", "cache-control: private", date, location],
                222,
            ),
            ("4803 3330 37c1 c0bf", &[":status: 307", "cache-control: private", date, location], 222),
        ],
    );
}

#[test]
fn faulty_blocks_are_refused() {
    for (hex, error) in [
        ("80", HpackError::Index),
        ("be", HpackError::Index),
        ("ff00", HpackError::Index),
        ("ffffffffff0f", HpackError::Integer),
        ("40", HpackError::Truncated),
        ("4001", HpackError::Truncated),
        ("400161", HpackError::Truncated),
        ("4001610561", HpackError::Truncated),
        ("7f0000", HpackError::Index),
        ("0085f2b24a84ff8449509fff", HpackError::Huffman),
        ("3fe21f", HpackError::TableSize),
        ("202020", HpackError::TableSize),
        ("8220", HpackError::TableSize),
    ] {
        assert_eq!(decode(&mut Decoder::new(4096), hex), Err(error), "{hex}");
    }
}

#[test]
fn lower_limit_requires_an_update() {
    let mut decoder = Decoder::new(4096);
    decoder.set_limit(100);
    assert_eq!(decode(&mut decoder, "82"), Err(HpackError::TableSize));
    assert_eq!(decode(&mut decoder, "3f4682"), Err(HpackError::TableSize), "101 bytes");
    assert_eq!(decode(&mut decoder, "3f4582").unwrap(), [":method: GET"]);
    decoder.set_limit(4096);
    assert_eq!(decode(&mut decoder, "82").unwrap(), [":method: GET"]);
}

#[test]
fn validity_of_names_and_values() {
    struct Valid(Vec<bool>);
    impl FieldVisitor for Valid {
        fn field(&mut self, field: &Field<'_>) {
            self.0.push(field.is_valid);
        }
    }
    let table: [(&[u8], &[u8], bool); 12] = [
        (b"a", b"1", true),
        (b"x-y", b"", true),
        (b":path", b"/", true),
        (b"A", b"1", false),
        (b"", b"1", false),
        (b"a b", b"1", false),
        (b"a:", b"1", false),
        (b"a", b" 1", false),
        (b"a", b"1\t", false),
        (b"a", b"1\r\n", false),
        (b"a", b"\0", false),
        (b"a", b"\xC3\xA9 \t.", true),
    ];
    for (name, value, expected) in table {
        let mut block = vec![0x40, name.len() as u8];
        block.extend_from_slice(name);
        block.push(value.len() as u8);
        block.extend_from_slice(value);
        // The second time the field comes from the table.
        block.push(0xBE);
        let mut valid = Valid(Vec::new());
        Decoder::new(4096).decode(&block, &mut valid).unwrap();
        assert_eq!(valid.0, [expected; 2], "{}: {}", name.escape_ascii(), value.escape_ascii());
    }
}

proptest! {
    #[test]
    fn garbage_never_panics(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..64), 1..8)) {
        let mut decoder = Decoder::new(200);
        for block in blocks {
            let mut lines = Lines::default();
            let _ = decoder.decode(&block, &mut lines);
            prop_assert!(lines.0.len() <= block.len());
        }
    }
}
