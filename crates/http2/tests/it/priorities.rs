//! The order of responses (RFC 9218): urgency first, turns for incremental streams, one by one for others.

use super::wire::*;
use http2::{Config, Connection, Event, Limits, Priority, StreamKey};

/// Streams of a server that all have much to write, each with the value of its `priority` field.
fn writers(server: &mut Connection, signals: &[Option<&str>]) -> Vec<StreamKey> {
    feed(server, &[window_update(0, 1 << 28), settings(&[(4, 1 << 28)])].concat());
    let keys = signals.iter().enumerate().map(|(place, signal)| {
        let field = signal.map(|signal| ("priority", signal));
        let fields: Vec<_> = GET.into_iter().chain(field).collect();
        feed(server, &headers(2 * place as u32 + 1, END_STREAM, &fields));
        let key = events(server)
            .into_iter()
            .find_map(|event| if let Event::Head(key) = event { Some(key) } else { None })
            .unwrap();
        server.start_response(key, 200).unwrap().finish(false);
        key
    });
    let keys: Vec<_> = keys.collect();
    // Fills the output, so that all of them wait.
    server.write_data(keys[0], &vec![0; Limits::OUTPUT_BYTES + 1], false);
    keys.iter().for_each(|key| assert_eq!(server.capacity(*key), 0));
    keys
}

/// The identifiers of the next DATA frames of the streams, which write as much as they may.
fn order(server: &mut Connection, frames: usize) -> Vec<u32> {
    let mut order = Vec::new();
    sent(server);
    while order.len() < frames {
        let mut has_written = false;
        while let Some(event) = server.next_event() {
            let Event::Writable(key) = event else { continue };
            // It has more to write than it may.
            let piece = server.capacity(key) + 1;
            server.write_data(key, &vec![0; piece], false);
            has_written = true;
        }
        assert!(has_written, "a stream waits for ever: {order:?}");
        order.extend(sent(server).iter().filter(|frame| frame.kind == DATA).map(|frame| frame.stream));
    }
    order.truncate(frames);
    order
}

fn check(signals: &[Option<&str>], expected: &[u32]) {
    let mut server = server(Config { output_bytes: 4 * Limits::QUANTUM_BYTES, ..Config::default() });
    writers(&mut server, signals);
    assert_eq!(order(&mut server, expected.len()), expected, "{signals:?}");
}

#[test]
fn streams_without_signal_take_turns() {
    let order = {
        let mut server = server(Config::default());
        writers(&mut server, &[None, None, None]);
        order(&mut server, 30)
    };
    for id in [1, 3, 5] {
        assert_eq!(order.iter().filter(|other| **other == id).count(), 10, "{order:?}");
    }
}

#[test]
fn more_urgent_streams_go_first() {
    check(&[Some("u=5, i"), Some("u=1, i"), Some("u=3, i")], &[3; 12]);
    check(&[Some("u=4, i"), None, Some("u=7")], &[3; 12]);
}

#[test]
fn streams_that_are_not_incremental_come_one_by_one() {
    check(&[Some("u=2"), Some("u=2"), Some("u=2")], &[1; 12]);
    check(&[Some("u=2, i"), Some("u=2, i")], &[1, 3, 1, 3, 1, 3, 1, 3]);
}

#[test]
fn next_stream_follows_when_the_first_has_ended() {
    let mut server = server(Config::default());
    let keys = writers(&mut server, &[Some("u=2"), Some("u=2")]);
    assert_eq!(order(&mut server, 4), [1; 4]);
    server.finish(keys[0], None);
    assert_eq!(order(&mut server, 4), [3; 4]);
    server.release(keys[1]);
    assert_eq!(server.next_event(), None);
}

#[test]
fn update_changes_the_order() {
    let mut server = server(Config::default());
    let update = |id: u32, value: &str| {
        frame(PRIORITY_UPDATE, 0, 0, &[&id.to_be_bytes()[..], value.as_bytes()].concat())
    };
    // For a stream that comes later, it counts more than the field.
    feed(&mut server, &update(3, "u=0"));
    let keys = writers(&mut server, &[Some("u=1"), Some("u=5")]);
    assert_eq!(server.priority(keys[1]), Priority { urgency: 0, is_incremental: false });
    assert_eq!(order(&mut server, 4), [3; 4]);
    feed(&mut server, &update(3, "u=6"));
    assert_eq!(order(&mut server, 4), [1; 4]);
}

#[test]
fn unused_grant_goes_to_another_stream() {
    let mut server = server(Config { output_bytes: Limits::QUANTUM_BYTES, ..Config::default() });
    let keys = writers(&mut server, &[None, None]);
    sent(&mut server);
    assert_eq!(server.next_event(), Some(Event::Writable(keys[0])));
    assert_eq!(server.next_event(), None, "all capacity is reserved");
    assert_eq!(server.next_event(), Some(Event::Writable(keys[1])), "the first one did not use it");
    assert_eq!(server.write_data(keys[1], &[0; 100], false), 100);
    assert_eq!(server.next_event(), None);
}

#[test]
fn stream_behind_others_waits_for_its_turn() {
    let mut server = server(Config::default());
    let keys = writers(&mut server, &[None, None]);
    sent(&mut server);
    feed(&mut server, &get(9));
    let Some(Event::Head(late)) = server.next_event() else { panic!("a head") };
    events(&mut server);
    server.start_response(late, 200).unwrap().finish(false);
    let granted: Vec<_> = keys.iter().map(|key| server.capacity(*key)).collect();
    assert!(granted.iter().all(|bytes| *bytes > 0), "they have grants: {granted:?}");
    assert!(server.capacity(late) > 0, "and there is more than they were granted");
}
