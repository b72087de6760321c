//! Any cut of the input gives the same events, and garbage never panics.

use super::wire::*;
use http3::{Config, Connection, RequestReader, RequestTarget, UniState, UniStream};
use proptest::prelude::*;

/// A frame that is often good.
fn any_frame(heads: &'static [&'static [(&'static str, &'static str)]]) -> impl Strategy<Value = Vec<u8>> {
    let payload = proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        6 => proptest::sample::select(heads).prop_map(headers),
        8 => payload.clone().prop_map(|payload| frame(DATA, &payload)),
        2 => payload.clone().prop_map(|payload| frame(UNKNOWN, &payload)),
        1 => payload.clone().prop_map(|payload| frame(HEADERS, &payload)),
        1 => (0..20_u64, payload.clone()).prop_map(|(kind, payload)| frame(kind, &payload)),
        1 => payload,
    ]
}

const REQUESTS: &[&[(&str, &str)]] =
    &[&GET, &POST, &CONNECT, &[("x-trailer", "1")], &[("content-length", "3")]];
const RESPONSES: &[&[(&str, &str)]] =
    &[&[(":status", "200")], &[(":status", "103")], &[(":status", "304")], &[("x-trailer", "1")]];

/// The bytes of a request stream: a good head, then frames.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    (any::<bool>(), proptest::collection::vec(any_frame(REQUESTS), 0..6))
        .prop_map(|(starts, frames)| [if starts { headers(&POST) } else { vec![] }, frames.concat()].concat())
}

fn responses() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any_frame(RESPONSES), 0..7).prop_map(|frames| frames.concat())
}

/// The bytes of a unidirectional stream.
fn uni_bytes() -> impl Strategy<Value = Vec<u8>> {
    let control_frame = prop_oneof![
        4 => (0..20_u64, any::<u16>()).prop_map(|(kind, id)| frame(kind, &integer(u64::from(id)))),
        4 => (0..20_u64).prop_map(|id| frame(PRIORITY_UPDATE, &[&integer(4 * id)[..], b"u=1"].concat())),
        2 => Just(frame(UNKNOWN, b"abc")),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ];
    let frames = proptest::collection::vec(control_frame, 0..10);
    prop_oneof![
        4 => frames.prop_map(|frames| [control(&[(6, 100), (8, 1)]), frames.concat()].concat()),
        1 => proptest::collection::vec(0x40..0x80_u8, 0..50).prop_map(|bytes| [vec![3], bytes].concat()),
        1 => proptest::collection::vec(any::<u8>(), 0..50),
    ]
}

fn server_reader() -> (Connection, RequestReader) {
    let mut connection = Connection::server(Config::default());
    let reader = connection.open_request(0).unwrap();
    (connection, reader)
}

fn client_reader() -> (Connection, RequestReader) {
    let mut connection = Connection::client(Config::default());
    let target = RequestTarget {
        method: b"GET",
        scheme: "https",
        authority: b"h",
        path: b"/",
        query: None,
        protocol: None,
    };
    let reader = connection.start_request(0, &target).unwrap();
    (connection, reader)
}

fn run(
    start: (Connection, RequestReader),
    input: &[u8],
    cuts: impl Iterator<Item = usize>,
) -> (Read, Connection) {
    let (mut connection, mut reader) = start;
    let read = read(&mut connection, &mut reader, input, cuts, true);
    (read, connection)
}

/// Everything that a driver sees of a unidirectional stream.
fn run_uni(mut connection: Connection, input: &[u8], cuts: impl Iterator<Item = usize>) -> Vec<String> {
    let (mut uni, mut at, mut lines) = (UniStream::new(), 0, Vec::new());
    for cut in cuts.chain([input.len()]) {
        match connection.receive_uni(&mut uni, &input[at..cut]) {
            Ok(UniState::Open) => at = cut,
            Ok(UniState::Unwanted) => {
                lines.push("unwanted".into());
                break;
            }
            Err(error) => {
                lines.push(error.to_string());
                break;
            }
        }
    }
    lines.push(format!("{:?}", connection.end_uni(&uni)));
    lines.extend(std::iter::from_fn(|| connection.next_event()).map(|event| format!("{event:?}")));
    lines.push(format!("{:?} {:?}", connection.peer_settings(), connection.failure()));
    lines
}

fn places() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    proptest::collection::vec(any::<prop::sample::Index>(), 0..8)
}

fn cuts(places: &[prop::sample::Index], length: usize) -> std::vec::IntoIter<usize> {
    let mut cuts: Vec<usize> = places.iter().map(|place| place.index(length + 1)).collect();
    cuts.sort_unstable();
    cuts.into_iter()
}

proptest! {
    #[test]
    fn cuts_do_not_change_a_request(input in requests(), places in places()) {
        let (whole, connection) = run(server_reader(), &input, [].into_iter());
        prop_assert_eq!(&run(server_reader(), &input, cuts(&places, input.len())).0, &whole);
        let (bytes, other) = run(server_reader(), &input, 0..input.len());
        prop_assert_eq!(bytes, whole);
        prop_assert_eq!(connection.failure(), other.failure());
    }

    #[test]
    fn cuts_do_not_change_a_response(input in responses(), places in places()) {
        let (whole, _) = run(client_reader(), &input, [].into_iter());
        prop_assert_eq!(&run(client_reader(), &input, cuts(&places, input.len())).0, &whole);
        prop_assert_eq!(run(client_reader(), &input, 0..input.len()).0, whole);
    }

    #[test]
    fn cuts_do_not_change_a_unidirectional_stream(input in uni_bytes(), places in places(), is_server in any::<bool>()) {
        let connection = || {
            let config = Config::default();
            if is_server { Connection::server(config) } else { Connection::client(config) }
        };
        let whole = run_uni(connection(), &input, [].into_iter());
        prop_assert_eq!(&run_uni(connection(), &input, cuts(&places, input.len())), &whole);
        prop_assert_eq!(run_uni(connection(), &input, 0..input.len()), whole);
    }

    #[test]
    fn garbage_never_panics(garbage in proptest::collection::vec(any::<u8>(), 0..300)) {
        run(server_reader(), &[headers(&POST), garbage.clone()].concat(), [].into_iter());
        run(client_reader(), &garbage, [].into_iter());
        run_uni(Connection::server(Config::default()), &garbage, [].into_iter());
    }
}
