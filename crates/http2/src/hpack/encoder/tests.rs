//! The encoder against the decoder, its sizes, and its obedience to the peer's table size.

use super::super::{Decoder, Field, FieldVisitor};
use super::*;
use proptest::prelude::*;

type Pair = (Vec<u8>, Vec<u8>);

#[derive(Default)]
struct Pairs {
    fields: Vec<Pair>,
    sensitive: usize,
}

impl FieldVisitor for Pairs {
    fn field(&mut self, field: &Field<'_>) {
        self.fields.push((field.name.to_vec(), field.value.to_vec()));
        self.sensitive += usize::from(field.is_sensitive);
    }
}

/// Encodes the fields as one block.
fn encode(encoder: &mut Encoder, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for (name, value) in fields {
        encoder.field(&mut out, FieldId::of(name.as_bytes()), name.as_bytes(), value.as_bytes(), false);
    }
    out
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Pairs {
    let mut pairs = Pairs::default();
    decoder.decode(block, &mut pairs).unwrap();
    pairs
}

#[test]
fn stable_fields_take_one_byte_when_repeated() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    let fields =
        [("Server", "weir/1"), ("Content-Type", "text/plain"), ("X-Custom", "abc"), ("Via", "1.1 weir")];
    let lengths: Vec<usize> = (0..4)
        .map(|_| {
            let block = encode(&mut encoder, &fields);
            let expected: Vec<Pair> = fields
                .iter()
                .map(|(name, value)| (name.to_ascii_lowercase().into_bytes(), value.as_bytes().to_vec()))
                .collect();
            assert_eq!(decode(&mut decoder, &block).fields, expected);
            block.len()
        })
        .collect();
    assert_eq!(lengths[2..], [4, 4], "unknown names are inserted at their second sight: {lengths:?}");
    assert!(encoder.memory() > 0);
}

#[test]
fn pseudo_fields_use_the_static_table() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    for (pseudo, value, is_kept, first, second) in [
        (Pseudo::Method, "GET", true, 1, 1),
        (Pseudo::Method, "PATCH", true, 7, 1),
        (Pseudo::Scheme, "https", true, 1, 1),
        (Pseudo::Path, "/", false, 1, 1),
        (Pseudo::Path, "/0", false, 4, 4),
        (Pseudo::Path, "/00000000", false, 8, 8),
        (Pseudo::Status, "404", true, 1, 1),
        (Pseudo::Status, "503", true, 5, 1),
        (Pseudo::Authority, "0.example", true, 9, 1),
    ] {
        for length in [first, second] {
            let mut out = Vec::new();
            encoder.pseudo(&mut out, pseudo, value.as_bytes(), is_kept);
            assert_eq!(out.len(), length, "{value}");
            let fields = decode(&mut decoder, &out).fields;
            assert_eq!(fields.len(), 1);
            assert_eq!(fields[0].1, value.as_bytes());
        }
    }
}

#[test]
fn secrets_are_never_indexed() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    for _ in 0..3 {
        let block = encode(&mut encoder, &[("Authorization", "Basic eDp5"), ("Cookie", "a=b")]);
        assert_eq!(decode(&mut decoder, &block).sensitive, 2);
    }
    let mut out = Vec::new();
    encoder.field(&mut out, FieldId::Server, b"server", b"x", true);
    assert_eq!(decode(&mut decoder, &out).sensitive, 1);
    assert_eq!(encoder.memory(), 0);
}

#[test]
fn table_of_size_zero_is_obeyed() {
    let mut encoder = Encoder::new();
    let fields = [("server", "weir"), ("x-a", "1")];
    encode(&mut encoder, &fields);
    encoder.set_peer_limit(0);
    assert_eq!(encoder.memory(), 0);
    let mut decoder = Decoder::new(0);
    for round in 0..3 {
        let block = encode(&mut encoder, &fields);
        assert_eq!(block[0] == 0x20, round == 0, "one update");
        assert_eq!(decode(&mut decoder, &block).fields.len(), 2);
        assert_eq!(decoder.memory(), 0);
    }
}

#[test]
fn smallest_and_last_size_are_announced() {
    let mut encoder = Encoder::new();
    for limit in [4096, 100, 0, 200, 1 << 30, 300] {
        encoder.set_peer_limit(limit);
    }
    let mut out = Vec::new();
    encoder.begin(&mut out);
    assert_eq!(out, [0x20, 0x3f, 0x8d, 0x02]);
    out.clear();
    encoder.begin(&mut out);
    assert!(out.is_empty());
    encoder.set_peer_limit(1 << 30);
    encoder.begin(&mut out);
    assert_eq!(out, [0x3f, 0xe1, 0x1f], "no more than the encoder's own maximum");
}

#[derive(Debug, Clone)]
enum Step {
    Field(String, String),
    Limit(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = prop_oneof!["[a-z]{1,3}", Just("Server".to_owned()), Just("accept-encoding".to_owned())];
    let value = prop_oneof!["[ -~]{0,3}", "[a-c]{0,80}", Just("gzip, deflate".to_owned())];
    let field = (name, value).prop_map(|(name, value)| Step::Field(name, value));
    let limit = prop_oneof![Just(0), 30..300_u32, Just(4096)].prop_map(Step::Limit);
    proptest::collection::vec(prop_oneof![9 => field, 1 => limit], 1..100)
}

proptest! {
    #[test]
    fn decoder_reads_what_the_encoder_wrote(steps in steps()) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for step in steps {
            match step {
                Step::Limit(limit) => {
                    encoder.set_peer_limit(limit);
                    decoder.set_limit(limit as usize);
                }
                Step::Field(name, value) => {
                    let block = encode(&mut encoder, &[(&name, &value)]);
                    let expected = (name.to_ascii_lowercase().into_bytes(), value.into_bytes());
                    prop_assert_eq!(decode(&mut decoder, &block).fields, [expected]);
                }
            }
        }
    }
}
