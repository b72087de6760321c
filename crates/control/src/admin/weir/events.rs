//! `weir/events`: a stream of what happens at the instance, for pages that stay open: revisions, the figures
//! of each second, the number of faults, and nodes that become usable or unusable.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{MissedTickBehavior, interval};

use super::attention::attention_now;
use super::marks::revision_marks;
use super::overview::now_value;
use crate::admin::call::{AdminParts, Call};
use crate::admin::live::Attention;
use crate::serve::respond::{self, bad};
use crate::serve::role::Role;
use crate::serve::streamed::Streamed;

/// Answers `weir/events`.
pub(super) fn answer_events(parts: &Arc<AdminParts>, call: &Call) -> Response<Bytes> {
    let topics = match Topics::read(call.query.get("topics")) {
        Ok(topics) => topics,
        Err(name) => {
            let names = Topics::NAMES.join(", ");
            return bad(format!("unknown topic: {name}; the topics are {names}"));
        }
    };
    let places = &parts.live.events;
    let is_kept = call.role == Role::Viewer && places.available_permits() <= PLACES_OF_ADMINISTRATORS;
    let place = if is_kept { None } else { Arc::clone(places).try_acquire_owned().ok() };
    let Some(place) = place else {
        let reason =
            "too many event streams are open; close a page of this instance, or ask weir/overview instead";
        return respond::error_response(StatusCode::TOO_MANY_REQUESTS, reason);
    };
    let (sender, streamed) = Streamed::channel(QUEUE);
    tokio::spawn(send_events(Arc::clone(parts), topics, Outlet { sender, lost: 0 }, place));
    event_stream(streamed)
}

/// The head of an event stream (WHATWG HTML, server-sent events).
pub(super) fn event_stream(streamed: Streamed) -> Response<Bytes> {
    let mut response = respond::empty(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.extensions_mut().insert(streamed);
    response
}

/// One event in the form of the stream.
pub(super) fn format_event(name: &str, data: &Value) -> Bytes {
    // JSON has no line ends, which would end the field.
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// The events that a reader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Topics {
    sample: bool,
    revision: bool,
    fault: bool,
    health: bool,
}

impl Topics {
    const NAMES: [&str; 4] = ["sample", "revision", "fault", "health"];

    /// All of them without the argument. The error is the unknown name.
    fn read(names: Option<&str>) -> Result<Topics, String> {
        let Some(names) = names else {
            return Ok(Topics { sample: true, revision: true, fault: true, health: true });
        };
        let mut topics = Topics { sample: false, revision: false, fault: false, health: false };
        for name in names.split(',').map(str::trim) {
            match name {
                "sample" => topics.sample = true,
                "revision" => topics.revision = true,
                "fault" => topics.fault = true,
                "health" => topics.health = true,
                _ => return Err(name.to_owned()),
            }
        }
        Ok(topics)
    }
}

/// The reader's end of the stream is gone.
struct Gone;

/// The queue of one reader. Events that do not fit are dropped and counted; the next one that fits is
/// `lagged` with their number.
struct Outlet {
    sender: Sender<Bytes>,
    lost: u64,
}

impl Outlet {
    fn send(&mut self, name: &str, data: &Value) -> Result<(), Gone> {
        if self.lost > 0 {
            if !self.offer(format_event("lagged", &json!({ "lost": self.lost })))? {
                self.lost += 1;
                return Ok(());
            }
            self.lost = 0;
        }
        let was_sent = self.offer(format_event(name, data))?;
        self.lost += u64::from(!was_sent);
        Ok(())
    }

    /// Whether the piece was taken; a full queue takes none.
    fn offer(&mut self, piece: Bytes) -> Result<bool, Gone> {
        match self.sender.try_send(piece) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Closed(_)) => Err(Gone),
        }
    }
}

/// Sends events until the reader is gone.
async fn send_events(
    parts: Arc<AdminParts>,
    topics: Topics,
    mut outlet: Outlet,
    _place: OwnedSemaphorePermit,
) {
    let mut seen = Seen::default();
    let mut turns = interval(TURN);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let closed = outlet.sender.clone();
    for turn in 0_u64.. {
        tokio::select! {
            _ = turns.tick() => {}
            () = closed.closed() => return,
        }
        if one_turn(&parts, topics, &mut outlet, &mut seen, turn).await.is_err() {
            return;
        }
    }
}

/// The state that a reader knows.
#[derive(Default)]
struct Seen {
    revision: Option<u64>,
    seq: u64,
    faults: Option<usize>,
    nodes: Option<UnusedNodes>,
}

/// The nodes that are not used, by upstream and address, with their state.
type UnusedNodes = BTreeMap<(Arc<str>, SocketAddr), &'static str>;

async fn one_turn(
    parts: &Arc<AdminParts>,
    topics: Topics,
    outlet: &mut Outlet,
    seen: &mut Seen,
    turn: u64,
) -> Result<(), Gone> {
    let revision = parts.view.load().revision();
    if topics.revision && seen.revision != Some(revision) {
        seen.revision = Some(revision);
        outlet.send("revision", &revision_value(parts, revision).await)?;
    }
    if !turn.is_multiple_of(TURNS_A_SECOND) {
        return Ok(());
    }
    if turn > 0 && turn.is_multiple_of(TURNS_A_SECOND * COMMENT_SECONDS) {
        outlet.offer(Bytes::from_static(b": still here\n\n"))?;
    }
    if topics.sample
        && let Some(now) = parts.reports.traffic.as_ref().and_then(|traffic| traffic.now())
        && now.point.seq != seen.seq
    {
        seen.seq = now.point.seq;
        let sample =
            json!({ "seq": now.point.seq, "end_ms": now.point.end_ms, "now": now_value(Some(&now)) });
        outlet.send("sample", &sample)?;
    }
    if topics.fault || topics.health {
        let asked = Arc::clone(parts);
        let Ok(attention) = respond::blocking(move || attention_now(&asked)).await else {
            return Ok(());
        };
        if topics.fault && seen.faults != Some(attention.faults) {
            seen.faults = Some(attention.faults);
            outlet.send("fault", &json!({ "count": attention.faults }))?;
        }
        if topics.health {
            send_health(&attention, outlet, seen)?;
        }
    }
    Ok(())
}

/// Sends the nodes with another state than the reader knows. The first call only notes the states.
fn send_health(attention: &Attention, outlet: &mut Outlet, seen: &mut Seen) -> Result<(), Gone> {
    let mut nodes = UnusedNodes::new();
    for upstream in &attention.unusable {
        for (address, state, _) in &upstream.nodes {
            nodes.insert((Arc::clone(&upstream.name), *address), state);
        }
    }
    let Some(before) = seen.nodes.replace(nodes) else { return Ok(()) };
    let nodes = seen.nodes.as_ref().unwrap_or(&before);
    let changed = nodes.iter().filter(|(node, state)| before.get(node) != Some(state));
    let usable = before.keys().filter(|node| !nodes.contains_key(node)).map(|node| (node, "usable"));
    let all = changed.map(|(node, state)| (node, *state)).chain(usable);
    for ((upstream, node), state) in all.take(HEALTH_MAX) {
        let data = json!({ "upstream": &**upstream, "node": node.to_string(), "state": state });
        outlet.send("health", &data)?;
    }
    Ok(())
}

/// The revision with its author and time, as far as the source keeps them.
async fn revision_value(parts: &AdminParts, revision: u64) -> Value {
    let marks = revision_marks(parts).await;
    if let Some(mark) = marks.iter().find(|mark| mark["revision"].as_u64() == Some(revision)) {
        return mark.clone();
    }
    let changed = parts.view.load().changed.filter(|(changed, _)| *changed == revision);
    json!({ "revision": revision, "by": null, "source": null, "at_ms": changed.map(|(_, at_ms)| at_ms) })
}

/// Places for readers of events that viewers leave to administrators, because an incident needs them.
const PLACES_OF_ADMINISTRATORS: usize = 4;
/// How often the revision is looked at: a page shows it at once, and a look is one load.
const TURN: Duration = Duration::from_millis(250);
const TURNS_A_SECOND: u64 = 4;
/// Seconds between two comments, which keep proxies from closing a quiet stream.
const COMMENT_SECONDS: u64 = 15;
/// Events that wait for one reader.
const QUEUE: usize = 256;
/// Changes of nodes in one second that are sent one by one; a page reads the upstreams again anyway.
const HEALTH_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use model::report::{NodeTransition, UnusableNodes};

    fn texts(streamed: &mut tokio::sync::mpsc::Receiver<Bytes>) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(piece) = streamed.try_recv() {
            all.push(String::from_utf8(piece.to_vec()).unwrap());
        }
        all
    }

    #[test]
    fn unknown_topic_is_named() {
        assert_eq!(Topics::read(Some("sample,helth")), Err("helth".to_owned()));
        let topics = Topics::read(Some("health, fault")).unwrap();
        assert_eq!((topics.health, topics.fault, topics.sample), (true, true, false));
    }

    #[test]
    fn full_queue_drops_and_says_so() {
        let (sender, streamed) = Streamed::channel(2);
        let (mut outlet, mut pieces) = (Outlet { sender, lost: 0 }, streamed.take().unwrap());
        for number in 0..5 {
            assert!(outlet.send("sample", &json!(number)).is_ok());
        }
        assert_eq!(texts(&mut pieces), ["event: sample\ndata: 0\n\n", "event: sample\ndata: 1\n\n"]);
        assert!(outlet.send("sample", &json!(5)).is_ok());
        assert_eq!(
            texts(&mut pieces),
            ["event: lagged\ndata: {\"lost\":3}\n\n", "event: sample\ndata: 5\n\n"]
        );
        drop(pieces);
        assert!(outlet.send("sample", &json!(6)).is_err());
    }

    #[test]
    fn changes_of_nodes_are_sent() {
        let (sender, streamed) = Streamed::channel(9);
        let (mut outlet, mut pieces) = (Outlet { sender, lost: 0 }, streamed.take().unwrap());
        let mut seen = Seen::default();
        let mut turn = |down: &[u16]| {
            let node = |port: &u16| {
                let transition = NodeTransition { at_ms: 1, cause: "a test".into() };
                (SocketAddr::from(([127, 0, 0, 1], *port)), "unhealthy", transition)
            };
            let nodes: Vec<_> = down.iter().map(node).collect();
            let unusable = vec![UnusableNodes { name: "/upstreams/a".into(), total: 9, nodes }];
            let attention = Attention { unusable, ..Attention::default() };
            assert!(send_health(&attention, &mut outlet, &mut seen).is_ok());
            texts(&mut pieces)
        };
        assert_eq!(turn(&[1]), [""; 0], "the states at the begin are in the overview");
        let event = |port: u16, state: &str| {
            format!(
                "event: health\ndata: {{\"upstream\":\"/upstreams/a\",\"node\":\"127.0.0.1:{port}\",\"state\":\"{state}\"}}\n\n"
            )
        };
        assert_eq!(turn(&[1, 2]), [event(2, "unhealthy")]);
        assert_eq!(turn(&[2]), [event(1, "usable")]);
    }
}
