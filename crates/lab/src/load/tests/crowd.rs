//! The load generator with many slow or idle clients.

use super::*;

/// Runs such a crowd until its server has counted `wanted`.
fn crowd(plan: &LoadPlan, seen: &AtomicU64, wanted: u64) -> LoadOutcome {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = scope.spawn(|| generate_load(plan, &stop, || {}).unwrap());
        while seen.load(Ordering::SeqCst) < wanted && !running.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::SeqCst);
        running.join().unwrap()
    })
}

#[test]
fn slow_clients_get_through_in_the_end() {
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    let address = server(move |_, stream| {
        while let Some(text) = request(stream) {
            assert!(
                text.contains("X-Slow: sss") || text.ends_with(std::str::from_utf8(&pattern(9)).unwrap())
            );
            let _ = stream.write_all(good("hello").as_bytes());
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let every = Duration::from_millis(1);
    let heads = LoadPlan { manner: LoadMode::Crowd(Habit::Heads { every }), requests: None, ..plan(address) };
    let outcome = crowd(&heads, &seen, 5);
    assert_eq!((outcome.failures.all(), outcome.notes.len()), (0, 1), "{:?}", outcome.notes);
    let bodies = LoadPlan { manner: LoadMode::Crowd(Habit::Bodies { every }), body_bytes: 9, ..heads };
    let outcome = crowd(&bodies, &seen, 50);
    assert_eq!((outcome.failures.all(), outcome.notes.len()), (0, 1), "{:?}", outcome.notes);
}

#[test]
fn idle_clients_request_once_and_reconnect() {
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    // The first connection is cut after its response, the others are kept.
    let address = server(move |number, stream| {
        while request(stream).is_some() {
            let _ = stream.write_all(good("hello").as_bytes());
            count.fetch_add(1, Ordering::SeqCst);
            if number == 0 {
                return;
            }
        }
    });
    let idle = LoadPlan {
        manner: LoadMode::Crowd(Habit::Idle),
        connections: 5,
        requests: None,
        ramp_up: Duration::from_millis(50),
        ..plan(address)
    };
    let outcome = crowd(&idle, &seen, 6);
    assert_eq!(outcome.failures, Failures { broken: 1, ..Failures::default() }, "{:?}", outcome.notes);
    assert!(outcome.requests >= 5, "{outcome:?}");
}
