//! Every limit with an input that reaches it. Peers beyond a rate get GOAWAY with ENHANCE_YOUR_CALM.

use super::wire::*;
use http2::{BodyState, Config, Connection, ErrorCode, Event, Limits, StartError};
use message::ResponseHead;

const CALM: ErrorCode = ErrorCode::ENHANCE_YOUR_CALM;

/// Repeats an input until the connection ends; how many were accepted. The peer reads all answers.
fn accepted_times(connection: &mut Connection, most: usize, input: impl Fn(u32) -> Vec<u8>) -> usize {
    for count in 0..most {
        if let Err(error) = connection.receive(&input(count as u32), 0) {
            assert_eq!((error.code, goaway_code(&sent(connection))), (CALM, Some(CALM)));
            return count;
        }
        events(connection);
        sent(connection);
    }
    panic!("{most} were accepted");
}

/// Repeats a frame on a server with one open stream.
fn check(name: &str, rate: u32, input: impl Fn(u32) -> Vec<u8>) {
    let mut server = server(Config::default());
    accepted(&mut server, &post(1));
    let count = accepted_times(&mut server, 100_000, input) as u32;
    // The handshake had a SETTINGS frame and its acknowledgement.
    assert!((rate - 2..=rate + 20).contains(&count), "{name}: {count} instead of {rate}");
}

#[test]
fn rates_of_cheap_frames() {
    check("PING", Limits::RATE_PINGS, |_| frame(PING, 0, 0, &[0; 8]));
    check("PING acknowledgement", Limits::RATE_PINGS, |_| frame(PING, ACK, 0, &[0; 8]));
    check("SETTINGS", Limits::RATE_SETTINGS, |_| settings(&[]));
    check("GOAWAY", Limits::RATE_SETTINGS, |_| frame(GOAWAY, 0, 0, &[0; 8]));
    check("PRIORITY", Limits::RATE_PRIORITIES, |count| frame(PRIORITY, 0, 2 * count + 1001, &[0; 5]));
    check("PRIORITY_UPDATE", Limits::RATE_PRIORITIES, |_| frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1"));
    check("WINDOW_UPDATE", Limits::RATE_WINDOW_UPDATES, |_| window_update(1, 1));
    check("connection WINDOW_UPDATE", Limits::RATE_WINDOW_UPDATES, |_| window_update(0, 1));
    check("empty DATA", Limits::RATE_EMPTY_DATA, |_| frame(DATA, 0, 1, &[]));
    check("padding only", Limits::RATE_EMPTY_DATA, |_| frame(DATA, PADDED, 1, &[3, 0, 0, 0]));
    check("unknown", Limits::RATE_UNKNOWN, |_| frame(0x99, 0, 1, b"x"));
}

#[test]
fn rapid_resets_end_the_connection() {
    // Both variants: the gateway sees the request, or not even that.
    check("separate", Limits::RATE_PEER_RESETS, |count| {
        [get(2 * count + 3), reset(2 * count + 3, ErrorCode::CANCEL)].concat()
    });
    let mut server = server(Config::default());
    let both = |count: u32| [get(2 * count + 1), reset(2 * count + 1, ErrorCode::CANCEL)].concat();
    let input: Vec<u8> = (0..1000).flat_map(both).collect();
    assert_eq!(server.receive(&input, 0).unwrap_err().code, CALM);
    assert_eq!((events(&mut server), server.stream_count()), (vec![], 0), "no request became work");
}

#[test]
fn resets_that_the_peer_provokes_are_limited() {
    let id = |count: u32| 2 * count + 3;
    let rate = Limits::RATE_LOCAL_RESETS;
    check("WINDOW_UPDATE of 0", rate, |count| [get(id(count)), window_update(id(count), 0)].concat());
    check("window overflow", rate, |count| [get(id(count)), window_update(id(count), 0x7FFF_FFFF)].concat());
    check("malformed request", rate, |count| headers(id(count), END_STREAM, &[("A", "b")]));
    check("DATA behind the end", rate, |count| [get(id(count)), frame(DATA, 0, id(count), b"x")].concat());
    check("self-dependency", rate, |count| {
        let depends = frame(PRIORITY, 0, id(count), &[&id(count).to_be_bytes()[..], &[0]].concat());
        [get(id(count)), depends].concat()
    });
}

#[test]
fn failing_server_keeps_its_connection() {
    let mut client = client(Config::default());
    for count in 0..1000 {
        let id = 2 * count + 1;
        let key = started(&mut client);
        let malformed = headers(id, 0, &[("a", "b")]);
        let answer = if count % 2 == 0 { reset(id, ErrorCode::INTERNAL_ERROR) } else { malformed };
        feed(&mut client, &answer);
        assert!(events(&mut client).iter().any(|event| matches!(event, Event::Reset(at, _) if *at == key)));
        client.release(key);
        sent(&mut client);
    }
    // Frames behind a reset are counted, because they cost no request. The data of each earns one.
    started(&mut client);
    feed(&mut client, &reset(2001, ErrorCode::CANCEL));
    let count = accepted_times(&mut client, 1_000_000, |_| frame(RST_STREAM, 0, 2001, &[0; 4]));
    let budget = u64::from(Limits::SERVER_RATE * Limits::RATE_LATE_FRAMES);
    assert_eq!(count as u64, Limits::SERVER_BUDGETS * budget);
}

#[test]
fn empty_data_between_data_passes() {
    let message = |end| [frame(DATA, 0, 1, b"x"), frame(DATA, end, 1, &[])].concat();
    let mut server = server(Config::default());
    let key = accepted(&mut server, &post(1));
    (0..50_000).for_each(|_| feed(&mut server, &message(0)));
    feed(&mut server, &message(END_STREAM));
    assert_eq!((server.body_state(key), server.failure()), (BodyState::Data(50_001), None));
    let mut client = client(Config::default());
    let key = started(&mut client);
    feed(&mut client, &headers(1, 0, &[(":status", "200")]));
    (0..50_000).for_each(|_| feed(&mut client, &message(0)));
    feed(&mut client, &message(END_STREAM));
    assert_eq!((client.body_state(key), client.failure()), (BodyState::Data(50_001), None));
}

#[test]
fn empty_data_in_a_row_ends_its_stream() {
    let empty = frame(DATA, 0, 3, &[]);
    let mut server = server(Config::default());
    let beside = accepted(&mut server, &post(1));
    let key = accepted(&mut server, &post(3));
    sent(&mut server);
    (0..Limits::EMPTY_DATA).for_each(|_| feed(&mut server, &empty));
    assert_eq!(resets(&sent(&mut server)), []);
    (0..Limits::EMPTY_DATA).for_each(|_| feed(&mut server, &empty));
    assert_eq!(resets(&sent(&mut server)), [(3, CALM)]);
    assert!(matches!(server.body_state(key), BodyState::Reset(reset) if reset.code == CALM));
    feed(&mut server, &frame(DATA, END_STREAM, 1, b"x"));
    assert_eq!(server.body_state(beside), BodyState::Data(1));

    let mut client = client(Config::default());
    let (beside, key) = (started(&mut client), started(&mut client));
    sent(&mut client);
    feed(&mut client, &headers(1, 0, &[(":status", "200")]));
    feed(&mut client, &headers(3, 0, &[(":status", "200")]));
    (0..Limits::SERVER_EMPTY_DATA).for_each(|_| feed(&mut client, &empty));
    assert_eq!(resets(&sent(&mut client)), []);
    (0..10_000).for_each(|_| feed(&mut client, &empty));
    assert_eq!(resets(&sent(&mut client)), [(3, CALM)], "it is reset once");
    assert!(matches!(client.body_state(key), BodyState::Reset(reset) if reset.code == CALM));
    feed(&mut client, &frame(DATA, END_STREAM, 1, b"x"));
    assert_eq!((client.body_state(beside), client.can_start()), (BodyState::Data(1), Ok(())));
}

#[test]
fn rows_of_empty_data_end_with_the_interval() {
    let mut server = server(Config::default());
    let key = accepted(&mut server, &post(1));
    for second in 0..1_000 {
        server.receive(&frame(DATA, 0, 1, &[]), second * 1_000).unwrap();
    }
    assert_eq!(server.body_state(key), BodyState::Pending);
}

/// Frames of a server inside one stream's life: the stream ends well, whatever they cost.
fn check_server(name: &str, budget: u32, input: &[u8]) {
    let mut client = client(Config::default());
    let key = started(&mut client);
    feed(&mut client, &headers(1, 0, &[(":status", "200")]));
    let send = |client: &mut Connection, count: u32| {
        for _ in 0..count {
            feed(client, input);
            sent(client);
        }
    };
    send(&mut client, budget - 10);
    assert_eq!(client.can_start(), Ok(()), "{name}");
    send(&mut client, 20);
    assert_eq!(client.can_start(), Err(StartError::GoAway), "{name}");
    feed(&mut client, &frame(DATA, END_STREAM, 1, b"x"));
    assert_eq!((client.body_state(key), client.failure()), (BodyState::Data(1), None), "{name}");
    let more = accepted_times(&mut client, 1_000_000, |_| input.to_vec());
    assert!(more > 8 * budget as usize, "{name}: {more}");
}

#[test]
fn floods_of_a_server_spare_its_streams() {
    let rate = Limits::SERVER_RATE;
    check_server("PING", rate * Limits::RATE_PINGS, &frame(PING, 0, 0, &[0; 8]));
    check_server("SETTINGS", rate * Limits::RATE_SETTINGS, &settings(&[]));
    check_server("ALTSVC", rate * Limits::RATE_UNKNOWN, &frame(0x0A, 0, 1, b"\0\0x"));
    check_server("PRIORITY", rate * Limits::RATE_PRIORITIES, &frame(PRIORITY, 0, 3, &[0; 5]));
    check_server("WINDOW_UPDATE", rate * Limits::RATE_WINDOW_UPDATES, &window_update(0, 1));
}

#[test]
fn server_floods_that_come_at_once_are_answered() {
    let mut client = client(Config::default());
    started(&mut client);
    sent(&mut client);
    feed(&mut client, &frame(PING, 0, 0, &[0; 8]).repeat(4_000));
    let answers = sent(&mut client).iter().filter(|frame| frame.kind == PING).count();
    assert_eq!((answers, client.failure()), (4_000, None));
}

#[test]
fn faults_of_a_server_stay_with_their_stream() {
    let status = [(":status", "200")];
    let big = "v".repeat(4_000);
    let fields: Vec<_> = status.into_iter().chain((0..50).map(|_| ("a", &*big))).collect();
    let block = block(&fields);
    let mut large: Vec<Vec<u8>> = vec![frame(HEADERS, 0, 1, &[])];
    large.extend(block.chunks(200).map(|part| frame(CONTINUATION, 0, 1, part)));
    large.push(frame(CONTINUATION, END_HEADERS, 1, &[]));
    let whole = headers(1, END_STREAM, &status);
    let cases: [(&str, Vec<Vec<u8>>); 4] = [
        ("head of 200 KB in 1,000 frames", large),
        ("DATA behind the end", vec![whole.clone(), frame(DATA, 0, 1, b"x"), frame(DATA, 0, 1, b"x")]),
        ("HEADERS behind the end", vec![whole.clone(), whole.clone(), whole.clone()]),
        ("DATA behind a reset", vec![reset(1, ErrorCode::CANCEL), frame(DATA, 0, 1, b"x"), whole.clone()]),
    ];
    for (name, frames) in cases {
        for is_released in [false, true] {
            let mut client = client(Config::default());
            let (faulty, good) = (started(&mut client), started(&mut client));
            if is_released {
                client.release(faulty);
            }
            feed(&mut client, &frames.concat());
            feed(&mut client, &headers(3, END_STREAM, &status));
            let mut head = ResponseHead::new();
            assert!(client.take_response(good, &mut head).is_some(), "{name}");
            assert_eq!((head.status, client.failure()), (200, None), "{name}");
        }
    }
}

#[test]
fn refused_streams_are_limited() {
    let mut server = server(Config { max_streams: 1, ..Config::default() });
    accepted(&mut server, &post(1));
    let count = accepted_times(&mut server, 10_000, |count| get(2 * count + 3));
    assert_eq!(count, Limits::RATE_LOCAL_RESETS as usize);
}

#[test]
fn late_frames_are_limited() {
    let mut server = server(Config::default());
    let key = accepted(&mut server, &post(1));
    server.reset(key, ErrorCode::CANCEL);
    server.release(key);
    let late = headers(1, 0, &[("a", "b")]);
    let count = accepted_times(&mut server, 10_000, |_| late.clone());
    assert_eq!(count, Limits::RATE_LATE_FRAMES as usize);
}

#[test]
fn completed_streams_earn_resets() {
    let mut server = server(Config::default());
    for count in 0..2000 {
        let id = 4 * count + 1;
        let key = accepted(&mut server, &get(id));
        server.start_response(key, 200).unwrap().finish(true);
        server.release(key);
        feed(&mut server, &[get(id + 2), reset(id + 2, ErrorCode::CANCEL)].concat());
        events(&mut server);
        sent(&mut server);
    }
}

#[test]
fn time_forgives() {
    let mut server = server(Config::default());
    for interval in 0..20 {
        for _ in 0..Limits::RATE_PINGS {
            server
                .receive(&frame(PING, 0, 0, &[0; 8]), 100_000 + interval * Limits::RATE_INTERVAL_MS)
                .unwrap();
            sent(&mut server);
        }
    }
}

#[test]
fn continuation_frames_are_limited() {
    for payload in [&b""[..], &[0x82]] {
        let mut server = server(Config::default());
        feed(&mut server, &frame(HEADERS, END_STREAM, 1, &block(&GET)));
        let count = accepted_times(&mut server, 1000, |_| frame(CONTINUATION, 0, 1, payload));
        assert_eq!(count, Limits::CONTINUATION_FRAMES as usize);
    }
}

#[test]
fn header_block_is_limited_before_it_is_decoded() {
    let mut server = server(Config::default());
    feed(&mut server, &frame(HEADERS, END_STREAM, 1, &[0x82; 16_384]));
    let count = accepted_times(&mut server, 100, |_| frame(CONTINUATION, 0, 1, &[0x82; 16_384]));
    assert_eq!(count, Limits::HEAD_BLOCK_BYTES / 16_384 - 1);
}

#[test]
fn header_bomb_is_counted_decoded() {
    let mut server = server(Config::default());
    let name = "a".repeat(10);
    let value = "v".repeat(4000);
    let mut bomb = block(&[GET[0], GET[1], GET[2], GET[3], (&name, &value)]);
    // The last field is inserted into the table, and then named 16,000 times: 64 MB if it was stored.
    let place = bomb.len() - (1 + 1 + name.len() + 3 + value.len()) + 1;
    bomb[place - 1] = 0x40;
    bomb.resize(12_000, 0xBE);
    feed(&mut server, &frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb));
    let events = events(&mut server);
    assert!(matches!(events[..], [Event::HeadTooLarge(_)]), "{events:?}");
    assert!(server.memory() < 30_000, "{}", server.memory());
    // The decoder's table has followed.
    feed(&mut server, &frame(HEADERS, 5, 3, &[&block(&GET)[..], &[0xBE]].concat()));
    head(&mut server);
}

#[test]
fn fields_of_trailers_are_limited() {
    let mut server = server(Config::default());
    let key = accepted(&mut server, &post(1));
    let many = vec![("a", "b"); 101];
    feed(&mut server, &headers(1, END_STREAM, &many));
    assert_eq!(resets(&sent(&mut server)), [(1, CALM)]);
    assert!(matches!(server.body_state(key), BodyState::Reset(reset) if reset.code == CALM));
}

#[test]
fn interim_responses_are_limited() {
    let mut client = client(Config::default());
    let key = started(&mut client);
    sent(&mut client);
    let interim = headers(1, 0, &[(":status", "103")]);
    (0..Limits::INTERIM_HEADS).for_each(|_| feed(&mut client, &interim));
    assert_eq!(resets(&sent(&mut client)), []);
    feed(&mut client, &interim);
    assert_eq!(resets(&sent(&mut client)), [(1, CALM)]);
    assert_eq!(events(&mut client), [Event::Reset(key, CALM)]);
}

#[test]
fn waiting_interim_heads_are_limited() {
    let mut client = client(Config::default());
    let key = started(&mut client);
    let sent = Limits::WAITING_INTERIM_HEADS + 5;
    (0..sent).for_each(|_| feed(&mut client, &headers(1, 0, &[(":status", "103")])));
    feed(&mut client, &headers(1, END_STREAM, &[(":status", "200")]));
    let mut head = ResponseHead::new();
    let statuses: Vec<u16> =
        std::iter::from_fn(|| client.take_response(key, &mut head).map(|_| head.status)).collect();
    assert_eq!(statuses.len(), 1 + Limits::WAITING_INTERIM_HEADS + 1);
    assert_eq!(statuses.last(), Some(&200));
}

#[test]
fn too_large_response_head_resets_its_stream() {
    let mut client = client(Config::default());
    started(&mut client);
    sent(&mut client);
    let many: Vec<_> = [(":status", "200")].into_iter().chain(vec![("a", "b"); 101]).collect();
    feed(&mut client, &headers(1, 0, &many));
    assert_eq!(resets(&sent(&mut client)), [(1, CALM)]);
}

#[test]
fn unread_answers_are_bounded() {
    let mut server = server(Config::default());
    accepted(&mut server, &post(1));
    let mut most = 0;
    // The rates alone would allow it, because time passes.
    let error = (0..100_000_u64)
        .find_map(|count| {
            let result = server.receive(&frame(PING, 0, 0, &[0; 8]), count * Limits::RATE_INTERVAL_MS);
            most = most.max(server.output().len());
            result.err()
        })
        .unwrap();
    assert_eq!(error.code, CALM);
    assert!(most <= Limits::CONTROL_OUTPUT_BYTES + 200, "{most}");
}

#[test]
fn answers_within_a_large_body_do_not_add_up() {
    let mut server = server(Config::default());
    let key = accepted(&mut server, &get(1));
    feed(&mut server, &[window_update(0, 1 << 30), window_update(1, 1 << 30)].concat());
    server.start_response(key, 200).unwrap().finish(false);
    for count in 0..10_000_u64 {
        while events(&mut server).contains(&Event::Writable(key)) || server.capacity(key) > 0 {
            server.write_data(key, &[0; 40_000], false);
        }
        // The output is never empty, because the body is endless.
        server.advance(server.output().len() / 2);
        server.receive(&frame(PING, 0, 0, &[0; 8]), count * 100).unwrap();
    }
}

#[test]
fn flood_of_streams_is_refused() {
    let mut server = server(Config::default());
    let input: Vec<u8> = (0..Limits::STREAMS + 10).flat_map(|count| post(2 * count + 1)).collect();
    feed(&mut server, &input);
    assert_eq!(events(&mut server).len(), Limits::STREAMS as usize);
    let refused = resets(&sent(&mut server));
    assert_eq!(refused.len(), 10);
    assert!(refused.iter().all(|(_, code)| *code == ErrorCode::REFUSED_STREAM));
}
