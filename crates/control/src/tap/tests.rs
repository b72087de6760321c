//! Readers of a scripted gateway.

use model::report::{SpanGroup, TapCounts, TimelineSpan};
use model::search::TRAFFIC_FIELDS;

use super::*;
use crate::testing::block_on;

/// Gives each batch once, and remembers whether it is open.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) batches: Mutex<Vec<Vec<RequestRecord>>>,
    pub(crate) is_open: Mutex<Option<bool>>,
    pub(crate) failures: Mutex<Vec<RequestRecord>>,
}

impl Script {
    /// A gateway that has kept one failure.
    pub(crate) fn with_a_failure() -> Script {
        Script { failures: Mutex::new(vec![record(502, "/a?k=s3cr3t")]), ..Script::default() }
    }
}

impl Tap for Script {
    fn open(&self, timed: bool) {
        *self.is_open.lock() = Some(timed);
    }

    fn close(&self) {
        *self.is_open.lock() = None;
    }

    fn take(&self, records: &mut Vec<RequestRecord>) -> TapCounts {
        let taken = self.batches.lock().pop().unwrap_or_default();
        let counts = TapCounts { seen: taken.len() as u64 + 1, dropped: 1 };
        if taken.is_empty() {
            return TapCounts::default();
        }
        records.extend(taken);
        counts
    }

    fn failures(&self) -> (Vec<RequestRecord>, u64) {
        (self.failures.lock().clone(), 3)
    }
}

pub(crate) fn record(status: u16, path: &str) -> RequestRecord {
    RequestRecord {
        id: "r".into(),
        t_ms: 1_000,
        worker: 1,
        revision: 4,
        client: [198, 51, 100, 24].into(),
        protocol: "HTTP/2",
        scheme: "https",
        method: "GET".into(),
        host: "shop.example".into(),
        path: path.into(),
        route: Some("shop".into()),
        route_name: Some("shop-read".into()),
        service: None,
        consumer: None,
        upstream: Some("orders".into()),
        endpoint: Some(([10, 0, 4, 18], 8080).into()),
        status,
        cause: (status >= 500).then_some("origin_closed"),
        blame: None,
        phase: None,
        detail: None,
        bytes_in: 10,
        bytes_out: 20,
        total_us: 38_200,
        gateway_us: 200,
        upstream_us: 38_000,
        attempts: 1,
        spans: vec![TimelineSpan {
            name: "wait".into(),
            group: SpanGroup::Attempt(1, ([10, 0, 4, 18], 8080).into()),
            at_us: 5,
            us: 7,
            failed: true,
            detail: None,
        }],
    }
}

fn filter(text: &str) -> SearchFilter {
    SearchFilter::parse(text, &TRAFFIC_FIELDS).unwrap()
}

fn wanted(text: &str, rate: u32) -> TapQuery {
    TapQuery { filter: filter(text), rate, timeline: true, hides_queries: false }
}

async fn events(receiver: &mut mpsc::Receiver<Bytes>) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    // The first counts come after a second.
    while events.last().is_none_or(|(name, _): &(String, Value)| name != "count") {
        let piece = tokio::time::timeout(Duration::from_secs(20), receiver.recv()).await.unwrap().unwrap();
        let text = String::from_utf8(piece.to_vec()).unwrap();
        let (name, data) = text.trim_end().split_once("\ndata: ").unwrap();
        let name = name.strip_prefix("event: ").unwrap().to_owned();
        events.push((name, serde_json::from_str(data).unwrap()));
    }
    events
}

#[test]
fn reader_gets_matching_requests_and_counts() {
    block_on(async {
        let script = Arc::new(Script::default());
        *script.batches.lock() =
            vec![vec![record(200, "/a?b=<script>"), record(502, "/a"), record(200, "/b")]];
        let hub = TapHub::new(Arc::clone(&script) as Arc<dyn Tap>);
        let (sender, mut receiver) = mpsc::channel(QUEUE);
        assert!(hub.follow(wanted("path:/a", 50), sender));
        let events = events(&mut receiver).await;
        assert_eq!(*script.is_open.lock(), Some(true));
        let statuses: Vec<_> = events.iter().map(|(_, data)| data["status"].clone()).collect();
        assert_eq!(statuses[..2], [200, 502]);
        assert_eq!(events[0].1["path"], "/a?b=<script>");
        assert_eq!(events[0].1["spans"][0]["group"], "attempt 1 10.0.4.18:8080");
        let counts = serde_json::json!({"seen": 4, "matched": 2, "sent": 2, "dropped": 1, "sampled": 1});
        assert_eq!(events[2], ("count".to_owned(), counts));
        drop(receiver);
        let closed = async {
            while script.is_open.lock().is_some() {
                tokio::time::sleep(PERIOD).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), closed).await.unwrap();
    });
}

#[test]
fn rate_limits_and_says_so() {
    block_on(async {
        let script = Arc::new(Script::default());
        *script.batches.lock() = vec![(0..100).map(|_| record(200, "/")).collect()];
        let hub = TapHub::new(script);
        let (sender, mut receiver) = mpsc::channel(QUEUE);
        assert!(hub.follow(wanted("", 5), sender));
        let events = events(&mut receiver).await;
        let (_, counts) = events.last().unwrap();
        assert_eq!(
            (&counts["matched"], &counts["sent"], &counts["sampled"]),
            (&100.into(), &5.into(), &20.into())
        );
        assert_eq!(events.len(), 6);
    });
}

#[test]
fn fifth_reader_is_refused_until_one_leaves() {
    block_on(async {
        let hub = TapHub::new(Arc::new(Script::default()));
        let follow = || {
            let (sender, receiver) = mpsc::channel(QUEUE);
            hub.follow(wanted("", 5), sender).then_some(receiver)
        };
        let mut receivers: Vec<_> = (0..READERS_MAX).map(|_| follow().unwrap()).collect();
        assert!(follow().is_none());
        receivers.pop();
        assert!(follow().is_some());
    });
}

/// A gateway that panics when its records are read.
#[derive(Default)]
struct Broken {
    is_open: std::sync::atomic::AtomicBool,
}

impl Tap for Broken {
    fn open(&self, _timed: bool) {
        self.is_open.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    fn close(&self) {
        self.is_open.store(false, std::sync::atomic::Ordering::Relaxed);
    }

    fn take(&self, _records: &mut Vec<RequestRecord>) -> TapCounts {
        panic!("a fault of the test")
    }

    fn failures(&self) -> (Vec<RequestRecord>, u64) {
        (Vec::new(), 0)
    }
}

#[test]
fn panic_of_the_reading_task_closes_the_tap() {
    block_on(async {
        let gateway = Arc::new(Broken::default());
        let hub = TapHub::new(Arc::clone(&gateway) as Arc<dyn Tap>);
        let (sender, mut receiver) = mpsc::channel(QUEUE);
        assert!(hub.follow(wanted("", 5), sender));
        assert!(receiver.recv().await.is_none(), "the reader is let go");
        assert!(!gateway.is_open.load(std::sync::atomic::Ordering::Relaxed));
    });
}

#[test]
fn viewers_leave_a_place_to_administrators() {
    block_on(async {
        let hub = TapHub::new(Arc::new(Script::default()));
        let follow = |hides_queries| {
            let (sender, receiver) = mpsc::channel(QUEUE);
            hub.follow(TapQuery { hides_queries, ..wanted("", 5) }, sender).then_some(receiver)
        };
        let _receivers: Vec<_> = (1..READERS_MAX).map(|_| follow(true).unwrap()).collect();
        assert!(follow(true).is_none(), "a viewer");
        assert!(follow(false).is_some(), "an administrator");
    });
}

#[test]
fn every_field_of_the_grammar_is_answered() {
    let record = record(502, "/checkout/7?x=1");
    let holds = |text: &str| filter(text).matches(&Searched { record: &record, hides_queries: false });
    for text in [
        "checkout",
        "shop-read",
        "status:>=500",
        "method:get",
        "host:*.example",
        "path:/checkout/7",
        "path:*x=1",
        "route:shop",
        "route:shop-read",
        "upstream:orders",
        "endpoint:10.0.4.18",
        "endpoint:10.0.4.18:8080",
        "cause:origin_*",
        "client:198.51.100.24",
        "took:>30ms",
        "total:<1s",
        "bytes:20",
        "protocol:HTTP/2",
        "worker:1",
        "-service:x",
        "-consumer:x",
    ] {
        assert!(holds(text), "{text}");
    }
    for text in ["method:post", "took:>1s", "service:x", "other"] {
        assert!(!holds(text), "{text}");
    }
}

#[test]
fn failures_are_filtered_and_limited() {
    let script = Script::default();
    *script.failures.lock() = vec![record(502, "/b?k=1"), record(504, "/a"), record(502, "/a")];
    let hub = TapHub::new(Arc::new(script));
    let (list, lost) = hub.failures(&filter("status:502"), true, 1);
    assert_eq!((list.len(), list[0]["path"].as_str().unwrap(), lost), (1, "/b?…", 3));
    assert_eq!(list[0]["spans"][0]["failed"], true);
    for (text, of_viewer, of_admin) in [("path:*k=1*", 0, 1), ("k=1", 0, 1), ("path:/b", 1, 1), ("/b", 1, 1)]
    {
        let found = [true, false].map(|hides| hub.failures(&filter(text), hides, 9).0.len());
        assert_eq!(found, [of_viewer, of_admin], "a hidden query is not found by guessing: {text}");
    }
}
