//! Queues on a real service thread, with a sink that does as it is told.

use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use testkit::{Signal, wait_until};

use super::*;
use crate::plugin::services::Services;
use crate::testing;

const HOUR_MS: u64 = 3_600_000;

/// A queue that sends nothing before it is full.
pub(super) fn settings() -> QueueSettings {
    QueueSettings {
        name: "test logger".into(),
        owner: "/routes/1".into(),
        batch_max_entries: 1_000,
        buffer_duration_ms: HOUR_MS,
        inactive_timeout_ms: HOUR_MS,
        max_retry_count: 0,
        retry_delay_ms: 1,
        max_pending_entries: 100_000,
    }
}

/// Keeps the batches it gets; fails as often as `failures` says, after `accepted` entries of a batch, and
/// holds everything back until the gate is open.
#[derive(Clone, Default)]
struct Recorder {
    accepted: usize,
    left: Option<Vec<usize>>,
    is_final: bool,
    batches: Arc<Mutex<Vec<Vec<String>>>>,
    attempts: Arc<AtomicU32>,
    failures: u32,
    gate: Option<Signal>,
}

impl Sink for Recorder {
    fn deliver<'a>(&'a self, _client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            let attempt = self.attempts.fetch_add(1, Ordering::SeqCst);
            while self.gate.as_ref().is_some_and(|gate| !gate.is_set()) {
                env::sleep_ms(1).await;
            }
            if attempt < self.failures {
                let kept =
                    batch[..self.accepted].iter().map(|entry| String::from_utf8_lossy(entry).into_owned());
                self.batches.lock().push(kept.collect());
                let reason = "the script says so".to_owned();
                let Recorder { accepted: delivered, left, is_final, .. } = self.clone();
                return Err(DeliveryFailure { reason, delivered, left, is_final });
            }
            let texts = batch.iter().map(|entry| String::from_utf8_lossy(entry).into_owned()).collect();
            self.batches.lock().push(texts);
            Ok(())
        })
    }
}

impl Recorder {
    fn sizes(&self) -> Vec<usize> {
        self.batches.lock().iter().map(Vec::len).collect()
    }

    fn entries(&self) -> usize {
        self.sizes().iter().sum()
    }
}

fn counted(services: &Services, result: &str) -> u64 {
    let mut text = String::new();
    services.write_metrics(&mut text);
    let label = format!("result=\"{result}\"");
    let line = text.lines().find(|line| line.contains(&label)).expect("the series is there");
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn gauge_names_address_of_first_request() {
    let (services, sink) = (testing::services(), Recorder::default());
    let queue = services.queue(settings(), sink).unwrap();
    let labels = || {
        let mut text = String::new();
        services.write_metrics(&mut text);
        let line = text.lines().find(|line| line.starts_with("apisix_batch_process_entries{"));
        line.expect("the series is there").to_owned()
    };
    assert!(labels().contains("server_addr=\"\""), "{}", labels());
    for address in ["127.0.0.1", "127.0.0.2"] {
        queue.push_from(address.parse().unwrap(), b"a".to_vec());
        assert!(labels().contains("server_addr=\"127.0.0.1\""), "{}", labels());
    }
}

#[test]
fn full_batch_is_sent_at_once_rest_with_queue() {
    let services = testing::services();
    let sink = Recorder::default();
    let queue = services.queue(QueueSettings { batch_max_entries: 3, ..settings() }, sink.clone()).unwrap();
    for number in 0..7 {
        assert!(queue.push(number.to_string().into_bytes()));
    }
    wait_until("two full batches are sent", || sink.sizes() == [3, 3]);
    assert_eq!(services.queued_entries(), 1, "one is left and waits for company");
    drop(queue);
    wait_until("the rest is sent", || sink.entries() == 7);
    wait_until("nothing is held", || services.queued_entries() == 0);
    let mut all = sink.batches.lock().concat();
    all.sort();
    assert_eq!(all, ["0", "1", "2", "3", "4", "5", "6"]);
}

#[test]
fn what_is_left_alone_or_gets_old_goes_too() {
    let check = |changed: QueueSettings| {
        let (services, sink) = (testing::services(), Recorder::default());
        let queue = services.queue(changed, sink.clone()).unwrap();
        for round in 1..=2 {
            queue.push(b"a".to_vec());
            wait_until("the entry is sent", || sink.entries() == round);
        }
    };
    check(QueueSettings { inactive_timeout_ms: 10, ..settings() });
    check(QueueSettings { buffer_duration_ms: 10, ..settings() });
}

#[test]
fn queue_keeps_its_limits_and_never_waits() {
    let (services, gate) = (testing::services(), Signal::new());
    let sink = Recorder { gate: Some(gate.clone()), ..Recorder::default() };
    let bounded = QueueSettings { batch_max_entries: 1, max_pending_entries: 30, ..settings() };
    let queue = services.queue(bounded, sink.clone()).unwrap();
    let accepted = (0..50).filter(|number: &i32| queue.push(number.to_string().into_bytes())).count();
    assert_eq!((accepted, counted(&services, "dropped")), (30, 20), "the newest are dropped");
    wait_until("as many as may be are on their way", || {
        sink.attempts.load(Ordering::SeqCst) == DELIVERIES_MAX as u32
    });
    gate.set();
    wait_until("all that was accepted is sent", || counted(&services, "sent") == 30);
    assert!(queue.push(b"room again".to_vec()));
    assert!(!queue.push(vec![0; QUEUE_MAX_BYTES + 1]), "bytes have a limit of their own");
    wait_until("the bytes are given back", || services.queued_entries() == 0);
    assert!(queue.push(b"room again".to_vec()));
}

#[test]
fn failed_batches_are_repeated_and_then_given_up() {
    let check = |failures: u32, max_retry_count: u32, sent: u64, failed: u64, attempts: u32| {
        let (services, sink) = (testing::services(), Recorder { failures, ..Recorder::default() });
        let queue = services
            .queue(QueueSettings { batch_max_entries: 2, max_retry_count, ..settings() }, sink.clone())
            .unwrap();
        queue.push(b"a".to_vec());
        queue.push(b"b".to_vec());
        wait_until("the batch is done with", || services.queued_entries() == 0);
        let got = (counted(&services, "sent"), counted(&services, "failed"));
        assert_eq!((got, sink.attempts.load(Ordering::SeqCst)), ((sent, failed), attempts));
    };
    check(0, 0, 2, 0, 1);
    check(2, 2, 2, 0, 3);
    check(3, 2, 0, 2, 3);
    check(1, 0, 0, 2, 1);
}

#[test]
fn delivered_part_of_batch_renews_its_retries() {
    let sink = Recorder { failures: 3, accepted: 1, ..Recorder::default() };
    let services = testing::services();
    let changed = QueueSettings { batch_max_entries: 5, max_retry_count: 1, ..settings() };
    let queue = services.queue(changed, sink.clone()).unwrap();
    for entry in ["a", "b", "c", "d", "e"] {
        queue.push(entry.into());
    }
    wait_until("the batch is done with", || services.queued_entries() == 0);
    assert_eq!((counted(&services, "sent"), counted(&services, "failed")), (5, 0));
    assert_eq!(sink.sizes(), [1, 1, 1, 2]);
}

#[test]
fn delivered_part_of_batch_is_not_sent_again() {
    let check = |accepted: usize, is_final: bool, max_retry_count: u32, expected: &[&str], failed: u64| {
        let sink = Recorder { failures: 1, accepted, is_final, ..Recorder::default() };
        let services = testing::services();
        let changed = QueueSettings { batch_max_entries: 3, max_retry_count, ..settings() };
        let queue = services.queue(changed, sink.clone()).unwrap();
        for entry in ["a", "b", "c"] {
            queue.push(entry.into());
        }
        wait_until("the batch is done with", || services.queued_entries() == 0);
        wait_until("it is counted", || counted(&services, "failed") == failed);
        assert_eq!(counted(&services, "sent"), 3 - failed, "{accepted} {is_final} {max_retry_count}");
        assert_eq!(sink.batches.lock().concat(), expected, "{accepted} {is_final} {max_retry_count}");
    };
    check(0, false, 1, &["a", "b", "c"], 0);
    check(2, false, 1, &["a", "b", "c"], 0);
    check(2, false, 0, &["a", "b"], 1);
    check(3, false, 0, &["a", "b", "c"], 0);
    check(1, true, 9, &["a"], 2);
}

#[test]
fn only_entries_that_are_left_are_sent_again() {
    let sink = Recorder { failures: 1, accepted: 1, left: Some(vec![1, 3]), ..Recorder::default() };
    let services = testing::services();
    let changed = QueueSettings { batch_max_entries: 4, max_retry_count: 1, ..settings() };
    let queue = services.queue(changed, sink.clone()).unwrap();
    for entry in ["a", "b", "c", "d"] {
        queue.push(entry.into());
    }
    wait_until("the batch is done with", || services.queued_entries() == 0);
    wait_until("it is counted", || counted(&services, "sent") == 3);
    assert_eq!(counted(&services, "failed"), 1, "the third entry was given up");
    assert_eq!(sink.batches.lock().concat(), ["a", "b", "d"]);
}

#[test]
fn concurrent_pushes_lose_and_double_nothing() {
    let (services, sink) = (testing::services(), Recorder::default());
    let queue = services.queue(QueueSettings { batch_max_entries: 64, ..settings() }, sink.clone()).unwrap();
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let queue = &queue;
            scope.spawn(move || {
                for number in 0..5_000 {
                    assert!(queue.push(format!("{worker}/{number}").into_bytes()));
                }
            });
        }
    });
    assert_eq!(services.settle(Instant::now() + Duration::from_secs(60), &|| false), 0);
    let mut all = sink.batches.lock().concat();
    assert_eq!(all.len(), 20_000);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 20_000);
}

#[test]
fn stop_flushes_queues_within_its_time() {
    let (services, gate) = (testing::services(), Signal::new());
    let (quick, stuck) = (Recorder::default(), Recorder { gate: Some(gate.clone()), ..Recorder::default() });
    let queue = services.queue(settings(), quick.clone()).unwrap();
    queue.push(b"early".to_vec());
    assert_eq!(services.settle(Instant::now() + Duration::from_secs(60), &|| false), 0);
    queue.push(b"late".to_vec());
    wait_until("what comes after the end began goes at once", || quick.entries() == 2);
    let other = services.queue(settings(), stuck).unwrap();
    other.push(b"never".to_vec());
    assert_eq!(services.settle(Instant::now() + Duration::from_millis(20), &|| false), 1);
    assert_eq!(services.settle(Instant::now() + Duration::from_secs(60), &|| true), 1);
    gate.set();
    wait_until("it is delivered after all", || services.queued_entries() == 0);
}

#[test]
fn short_memory_drops_and_counts_entries() {
    let services = testing::services();
    let queue = services.queue(settings(), Recorder::default()).unwrap();
    let overload = Arc::new(overload::OverloadState::default());
    services.limit_memory(overload.clone());
    overload.memory.update(50, 100);
    assert!(queue.push(vec![0; 40]), "up to nine tenths of the limit");
    assert!(!queue.push(vec![0; 1]));
    overload.memory.update(50, 100);
    assert!(queue.push(vec![0; 1]), "there is room again");
    assert_eq!(counted(&services, "dropped"), 1);
}
