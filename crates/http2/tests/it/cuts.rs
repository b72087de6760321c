//! Any cut of the input gives the same events and the same output, and garbage never panics.

use super::wire::*;
use http2::{BodyState, Config, Connection, ConnectionError, Event};
use message::{Headers, RequestHead, ResponseHead};
use proptest::prelude::*;

/// Everything that a driver saw of a connection.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    lines: Vec<String>,
    error: Option<ConnectionError>,
    output: Vec<u8>,
}

/// Feeds the input in pieces that end at the cuts. Each head is answered, data is consumed at the end only,
/// so that the output does not depend on the cuts.
fn run(mut connection: Connection, input: &[u8], cuts: &[usize]) -> Seen {
    let mut seen = Seen::default();
    let (mut at, mut keys) = (0, Vec::new());
    for cut in cuts.iter().copied().chain([input.len()]) {
        if let Err(error) = connection.receive(&input[at..cut], 7) {
            seen.error = Some(error);
            break;
        }
        at = cut;
    }
    while let Some(event) = connection.next_event() {
        if let Event::Head(key) | Event::HeadTooLarge(key) = event {
            keys.push(key);
        }
        seen.lines.push(format!("{event:?}"));
    }
    for key in keys {
        let (mut request, mut response, mut body) = (RequestHead::new(), ResponseHead::new(), Vec::new());
        seen.lines.push(format!("{:?}", connection.take_request(key, &mut request)));
        seen.lines.push(format!("{:?}", connection.take_response(key, &mut response)));
        seen.lines.push(lines(&request.headers) + &lines(&response.headers));
        let taken = connection.take_data(key, &mut body);
        assert_eq!(taken, body.len());
        seen.lines.push(format!("{body:?} {:?}", connection.body_state(key)));
        connection.consume(key, taken);
        if let Some(writer) = connection.start_response(key, 200) {
            writer.finish(false);
        }
        connection.write_data(key, b"answer", true);
        connection.release(key);
        assert!(matches!(connection.body_state(key), BodyState::Reset(_)));
    }
    frames(connection.output());
    seen.output = connection.output().to_vec();
    seen
}

fn lines(headers: &Headers) -> String {
    headers
        .iter()
        .map(|field| format!("{}={};", field.name.escape_ascii(), field.value.escape_ascii()))
        .collect()
}

/// A frame that is often good, on one of a few streams.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let id = prop_oneof![Just(0_u32), Just(1), Just(3), Just(5), Just(7), Just(2)];
    let payload = proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        6 => id.clone().prop_map(get),
        6 => id.clone().prop_map(post),
        2 => (id.clone(), any::<u8>()).prop_map(|(id, flags)| frame(HEADERS, flags & 0x25, id, &block(&POST))),
        3 => (id.clone(), any::<u8>()).prop_map(|(id, flags)| frame(CONTINUATION, flags & 4, id, &block(&GET[..1]))),
        8 => (id.clone(), any::<bool>(), payload.clone())
            .prop_map(|(id, end, payload)| frame(DATA, u8::from(end), id, &payload)),
        2 => (id.clone(), 0..50_u8, payload.clone())
            .prop_map(|(id, padding, payload)| frame(DATA, PADDED, id, &[&[padding][..], &payload].concat())),
        2 => id.clone().prop_map(|id| reset(id, http2::ErrorCode::CANCEL)),
        2 => (id.clone(), any::<u32>()).prop_map(|(id, increment)| window_update(id, increment)),
        1 => (0..10_u16, any::<u32>()).prop_map(|(name, value)| settings(&[(name, value)])),
        1 => payload.clone().prop_map(|payload| frame(PING, 0, 0, &payload)),
        1 => (any::<u8>(), any::<u8>(), id, payload).prop_map(|(kind, flags, id, payload)| frame(kind, flags, id, &payload)),
    ]
}

/// The handshake of a client, then frames.
fn session() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any_frame(), 0..14)
        .prop_map(|frames| [PREFACE.to_vec(), settings(&[]), frames.concat()].concat())
}

fn responses() -> impl Strategy<Value = Vec<u8>> {
    let head = (
        prop_oneof![Just(1_u32), Just(3)],
        any::<bool>(),
        prop_oneof![Just("200"), Just("100"), Just("304")],
    )
        .prop_map(|(id, end, status)| headers(id, u8::from(end), &[(":status", status)]));
    proptest::collection::vec(prop_oneof![3 => head, 2 => any_frame()], 0..14)
        .prop_map(|frames| [settings(&[]), frames.concat()].concat())
}

fn asking() -> Connection {
    let mut client = Connection::client(Config::default());
    for _ in 0..2 {
        started(&mut client);
    }
    client
}

fn places() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    proptest::collection::vec(any::<prop::sample::Index>(), 0..8)
}

fn cuts(places: &[prop::sample::Index], length: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = places.iter().map(|place| place.index(length + 1)).collect();
    cuts.sort_unstable();
    cuts
}

proptest! {
    #[test]
    fn cuts_do_not_change_a_server(input in session(), places in places()) {
        let whole = run(Connection::server(Config::default()), &input, &[]);
        let cut = run(Connection::server(Config::default()), &input, &cuts(&places, input.len()));
        prop_assert_eq!(&cut, &whole);
        let bytes: Vec<usize> = (0..input.len()).collect();
        prop_assert_eq!(run(Connection::server(Config::default()), &input, &bytes), whole);
    }

    #[test]
    fn cuts_do_not_change_a_client(input in responses(), places in places()) {
        let whole = run(asking(), &input, &[]);
        prop_assert_eq!(run(asking(), &input, &cuts(&places, input.len())), whole);
    }

    #[test]
    fn garbage_never_panics(garbage in proptest::collection::vec(any::<u8>(), 0..300), with_preface in any::<bool>()) {
        let start = if with_preface { [PREFACE, &settings(&[])].concat() } else { Vec::new() };
        run(Connection::server(Config::default()), &[start, garbage.clone()].concat(), &[]);
        run(asking(), &[settings(&[]), garbage].concat(), &[]);
    }
}
