//! The world in memory keeps its promises: the same seed gives the same run, bytes arrive whole and in order
//! in spite of every fault of the network, and closes and resets hurt as they do in TCP.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use super::*;

const PLACE: &str = "10.0.0.1:80";

fn place() -> SocketAddr {
    PLACE.parse().unwrap()
}

fn rough() -> LinkBehavior {
    LinkBehavior {
        latency_ns: (0, 3_000_000),
        room_bytes: (1, 500),
        pieces_percent: 60,
        lag_percent: 30,
        ..LinkBehavior::default()
    }
}

/// The result of `body` in the world of `seed`.
fn run<T: 'static>(seed: u64, body: impl Future<Output = T> + 'static) -> T {
    let ran = simulate(seed, false, 60_000, body);
    ran.result.unwrap_or_else(|| panic!("seed {seed} is not done in time")).unwrap_or_else(|panic| {
        std::panic::resume_unwind(panic);
    })
}

async fn read(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let mut room = [0; 64];
    let count = poll_fn(|cx| stream.poll_read(cx, &mut room)).await?;
    Ok(room[..count].to_vec())
}

async fn read_to_end(stream: &mut Stream) -> (Vec<u8>, io::Result<()>) {
    let mut all = Vec::new();
    loop {
        match read(stream).await {
            Ok(piece) if piece.is_empty() => return (all, Ok(())),
            Ok(piece) => all.extend(piece),
            Err(error) => return (all, Err(error)),
        }
    }
}

async fn write_all(stream: &mut Stream, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        let count = poll_fn(|cx| stream.poll_write(cx, data)).await?;
        data = &data[count..];
    }
    Ok(())
}

/// Both ends of a connection: the one that asked for it first.
async fn pair(link: LinkBehavior) -> (Stream, Stream) {
    set_link(place(), link);
    let listener = Listener::attach(bind(place(), false).unwrap()).unwrap();
    let client = connect(place()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (client, server)
}

fn text(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 % 251) as u8).collect()
}

#[test]
fn bytes_arrive_whole_and_in_order() {
    for seed in 0..50 {
        let (sent, got) = run(seed, async {
            let (mut client, mut server) = pair(rough()).await;
            let sent = text(5_000);
            let copy = sent.clone();
            spawn(async move {
                write_all(&mut client, &copy).await.unwrap();
                poll_fn(|cx| client.poll_shutdown(cx)).await.unwrap();
                assert_eq!(read_to_end(&mut client).await.0, b"thanks");
            });
            let (got, end) = read_to_end(&mut server).await;
            end.unwrap();
            write_all(&mut server, b"thanks").await.unwrap();
            drop(server);
            sleep_ms(1_000).await;
            (sent, got)
        });
        assert_eq!(sent, got, "seed {seed}");
    }
}

#[test]
fn room_is_waited_for_until_a_third_is_free() {
    run(1, async {
        let (mut client, mut server) =
            pair(LinkBehavior { room_bytes: (300, 300), ..LinkBehavior::default() }).await;
        assert_eq!(client.send_buffer_bytes().unwrap(), 300);
        write_all(&mut client, &text(200)).await.unwrap();
        poll_fn(|cx| client.poll_third_free(cx)).await.unwrap();
        write_all(&mut client, &text(1)).await.unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(client.poll_third_free(&mut cx).is_pending());
        spawn(async move {
            sleep_ms(5).await;
            assert_eq!(read(&mut server).await.unwrap().len(), 64);
            sleep_ms(5).await;
            drop(server);
        });
        poll_fn(|cx| client.poll_third_free(cx)).await.unwrap();
        write_all(&mut client, &text(163)).await.unwrap();
        assert!(client.poll_third_free(&mut cx).is_pending());
        // A write finds the fault.
        poll_fn(|cx| client.poll_third_free(cx)).await.unwrap();
        write_all(&mut client, b"x").await.unwrap_err();
    });
}

#[test]
fn what_was_looked_at_is_still_there() {
    run(1, async {
        let (mut client, mut server) = pair(LinkBehavior::default()).await;
        write_all(&mut client, b"twice").await.unwrap();
        let mut seen = [0; 64];
        let count = poll_fn(|cx| server.poll_peek(cx, &mut seen)).await.unwrap();
        assert_eq!(&seen[..count], b"twice");
        assert_eq!(poll_fn(|cx| server.poll_peek(cx, &mut seen[..2])).await.unwrap(), 2);
        assert_eq!(server.drop_seen(&mut seen[..2], false), 2);
        assert_eq!(read(&mut server).await.unwrap(), b"ice");
        drop(client);
        assert_eq!(poll_fn(|cx| server.poll_peek(cx, &mut seen)).await.unwrap(), 0);
    });
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_not() {
    let digest = |seed| {
        let ran = simulate(seed, false, 60_000, async {
            let (mut client, mut server) = pair(rough()).await;
            spawn(async move { write_all(&mut client, &text(2_000)).await.unwrap() });
            read_to_end(&mut server).await.0
        });
        assert_eq!(ran.result.unwrap().unwrap(), text(2_000));
        ran.digest
    };
    assert_eq!(digest(7), digest(7));
    assert_ne!(digest(7), digest(8));
}

#[test]
fn time_jumps_where_everybody_waits() {
    let order = run(1, async {
        let order: Rc<RefCell<Vec<u64>>> = Rc::default();
        for hours in [3, 1, 2] {
            let order = order.clone();
            spawn(async move {
                sleep_ms(hours * 10_000).await;
                order.borrow_mut().push(hours);
            });
        }
        sleep_ms(40_000).await;
        order.take()
    });
    assert_eq!(order, [1, 2, 3]);
}

#[test]
fn close_with_unread_data_resets() {
    let mut lost = 0;
    for seed in 0..200 {
        let (got, end) = run(seed, async {
            let (mut client, mut server) = pair(LinkBehavior::default()).await;
            write_all(&mut client, b"one request, and another").await.unwrap();
            sleep_ms(1).await;
            let mut room = [0; 4];
            poll_fn(|cx| server.poll_read(cx, &mut room)).await.unwrap();
            write_all(&mut server, b"answer").await.unwrap();
            drop(server);
            sleep_ms(1).await;
            read_to_end(&mut client).await
        });
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset, "seed {seed}");
        lost += usize::from(got.is_empty());
    }
    assert!((1..200).contains(&lost), "{lost} of 200 answers were lost");
}

#[test]
fn orderly_close_loses_nothing_late_write_is_reset() {
    let (got, write, late) = run(1, async {
        let (mut client, mut server) = pair(LinkBehavior::default()).await;
        write_all(&mut server, b"answer").await.unwrap();
        drop(server);
        sleep_ms(1).await;
        let (got, end) = read_to_end(&mut client).await;
        end.unwrap();
        let write = write_all(&mut client, b"too late").await;
        sleep_ms(1).await;
        (got, write, write_all(&mut client, b"later still").await)
    });
    assert_eq!(got, b"answer");
    write.unwrap();
    assert_eq!(late.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn connect_fails_without_listener_else_spreads() {
    let spread = run(1, async {
        let refused = connect(place()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let one = bind(place(), true).unwrap();
        let two = Listener::attach(bind(place(), true).unwrap()).unwrap();
        assert_eq!(bind(place(), false).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let mut clients = Vec::new();
        for _ in 0..40 {
            clients.push(connect(place()).await.unwrap());
        }
        let held = Rc::new(RefCell::new(Vec::new()));
        let accepted = held.clone();
        spawn(async move {
            loop {
                let (stream, _) = two.accept().await.unwrap();
                accepted.borrow_mut().push(stream);
            }
        });
        sleep_ms(10).await;
        // A connection that waits at a closed socket is reset.
        drop(one);
        sleep_ms(10).await;
        let mut reset = 0;
        for client in &mut clients {
            let mut room = [0; 1];
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            reset += usize::from(matches!(client.poll_read(&mut cx, &mut room), Poll::Ready(Err(_))));
        }
        let accepted = held.borrow().len();
        held.borrow_mut().clear();
        (accepted, reset)
    });
    assert!(spread.0 > 5 && spread.1 > 5 && spread.0 + spread.1 == 40, "{spread:?}");
}

#[test]
fn planted_panic_ends_only_its_task() {
    run(1, async {
        let held = Rc::new(());
        let inner = held.clone();
        let group = spawn_worker(async move {
            spawn(async move {
                let _held = inner;
                std::future::pending::<()>().await;
            });
            spawn(async { std::panic::resume_unwind(Box::new(Planted)) });
            sleep_ms(5).await;
        });
        sleep_ms(2).await;
        assert_eq!((tasks_of(group), Rc::strong_count(&held)), (2, 2));
        sleep_ms(10).await;
        assert_eq!((tasks_of(group), Rc::strong_count(&held)), (0, 1));
    });
}

#[test]
fn whoever_blocks_lets_the_others_go_on() {
    run(1, async {
        let value = Rc::new(Mutex::new(0));
        let other = value.clone();
        spawn(async move {
            sleep_ms(300).await;
            *other.lock() = 1;
        });
        let before = monotonic_ns();
        wait_while(&value, &Condvar::new(), Duration::from_secs(1), |value| *value == 0);
        let waited_ms = (monotonic_ns() - before) / 1_000_000;
        assert!((300..310).contains(&waited_ms), "{waited_ms} ms");
        wait_while(&value, &Condvar::new(), Duration::from_secs(1), |value| *value == 1);
        assert!((monotonic_ns() - before) / 1_000_000 >= 1_300, "at most the timeout");
    });
}
