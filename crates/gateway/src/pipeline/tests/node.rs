//! An endpoint that speaks no HTTP/1: many exchanges at once on one connection, played by a script, so that
//! the pipeline is shown to know an endpoint only as an [`UpstreamStream`] from a pool.

use std::cell::RefCell;
use std::collections::VecDeque;

use stdx::segment::ByteSegment;

use super::*;
use crate::body::{AttemptProgress, Capacity, PollCapacity, UpstreamStream};
use exchange::failure::Sent;

/// The next action of an endpoint on a stream.
#[derive(Clone, Debug)]
pub(super) enum ScriptStep {
    /// Answers with this status; `true` says that a body of unknown length follows.
    Head(u16, bool),
    /// Sends a piece of the body.
    Data(&'static str),
    /// Sends a piece of the body that it hands over if it is asked to.
    Segment(&'static str),
    /// Ends the body with this trailer.
    End(&'static str),
    /// Resets the stream.
    Reset(Cause),
    /// Waits: the caller has to poll again.
    Wait,
}

/// The calls that the streams of the played connection received, one line per stream in the order of their
/// beginning.
pub(super) type StreamCalls = Rc<RefCell<Vec<String>>>;

struct NodeStreamScript {
    steps: VecDeque<ScriptStep>,
    calls: StreamCalls,
    number: usize,
    piece: &'static str,
    is_segment: bool,
    trailers: Headers,
    length: BodyLength,
    sent: Sent,
}

impl NodeStreamScript {
    fn tell(&self, word: &str) {
        let mut calls = self.calls.borrow_mut();
        let line = &mut calls[self.number];
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }

    /// Whether the script waits at this point; counts the wait.
    fn must_wait(&mut self, cx: &Context<'_>) -> bool {
        let waits = matches!(self.steps.front(), Some(ScriptStep::Wait));
        if waits {
            self.steps.pop_front();
            cx.waker().wake_by_ref();
        }
        waits
    }
}

impl UpstreamStream for NodeStreamScript {
    fn start_request(&mut self, exchange: &Exchange, length: BodyLength) {
        let method = String::from_utf8_lossy(exchange.request.method_text()).into_owned();
        let path = String::from_utf8_lossy(exchange.forward_path()).into_owned();
        self.tell(&format!("{method} {path} {length:?}"));
    }

    fn poll_write(&mut self, _: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.sent = Sent::Unanswered;
        let count = data.len().min(2);
        self.tell(std::str::from_utf8(&data[..count]).unwrap());
        Poll::Ready(Ok(count))
    }

    fn takes_segment(&mut self, _: usize) -> bool {
        true
    }

    fn write_segment(&mut self, segment: ByteSegment) -> io::Result<()> {
        self.sent = Sent::Unanswered;
        self.tell(&format!("segment:{}", segment.len()));
        Ok(())
    }

    fn finish(&mut self, _: Option<&Headers>) {
        self.tell("finish");
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut ResponseHead,
        _: Capacity,
    ) -> Poll<Result<(), ExchangeFailure>> {
        if self.must_wait(cx) {
            return Poll::Pending;
        }
        match self.steps.pop_front() {
            Some(ScriptStep::Head(status, has_body)) => {
                self.sent = Sent::Answered;
                head.clear();
                head.status = status;
                self.length = if has_body { BodyLength::Unknown } else { BodyLength::None };
                Poll::Ready(Ok(()))
            }
            Some(ScriptStep::Reset(cause)) => {
                Poll::Ready(Err(ExchangeFailure::new(cause, "the script says so")))
            }
            other => panic!("no head: {other:?}"),
        }
    }

    fn poll_body<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
        capacity: &mut PollCapacity<'_>,
    ) -> Poll<BodyEvent<'a>> {
        if self.piece.is_empty() {
            // A piece is as long as the script says, if there is any capacity.
            if capacity(cx).is_pending() {
                return Poll::Pending;
            }
            if self.must_wait(cx) {
                return Poll::Pending;
            }
            match self.steps.front().cloned() {
                Some(ScriptStep::Data(piece)) => (self.piece, self.is_segment) = (piece, false),
                Some(ScriptStep::Segment(piece)) => (self.piece, self.is_segment) = (piece, true),
                Some(ScriptStep::End(trailer)) => {
                    self.trailers.set("X-Trailer", trailer.as_bytes()).unwrap();
                    return Poll::Ready(BodyEvent::End(Some(&self.trailers)));
                }
                Some(ScriptStep::Reset(cause)) => {
                    return Poll::Ready(BodyEvent::Reset(ExchangeFailure::new(cause, "the script says so")));
                }
                None => return Poll::Ready(BodyEvent::End(None)),
                other => panic!("no body: {other:?}"),
            }
            self.steps.pop_front();
        }
        Poll::Ready(BodyEvent::Data(self.piece.as_bytes()))
    }

    fn pause(&mut self) -> Result<(), ExchangeFailure> {
        Ok(())
    }

    fn consume(&mut self, count: usize) {
        self.piece = &self.piece[count..];
    }

    fn take_segment(&mut self, count: usize) -> Option<ByteSegment> {
        let whole =
            (self.is_segment && self.piece.len() == count).then(|| std::mem::take(&mut self.piece))?;
        Some(ByteSegment::from_vector(whole.into(), 0, drop))
    }

    fn body_length(&self) -> BodyLength {
        self.length
    }

    fn progress(&self) -> AttemptProgress {
        AttemptProgress { sent: self.sent, is_reused: false }
    }
}

impl Drop for NodeStreamScript {
    fn drop(&mut self) {
        self.tell("over");
    }
}

/// A context with one route to `count` nodes. A connection to each plays the next of `scripts` as a stream;
/// no socket listens at their addresses.
pub(super) fn context_with(count: u16, scripts: &[&[ScriptStep]]) -> (Rc<WorkerContext>, StreamCalls) {
    // No connection to these addresses is opened, because every stream is checked out of the pool.
    let nobody: Vec<_> = (1..=count).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
    let context = context(&nobody, &json!({}));
    let calls = StreamCalls::default();
    let scripts: VecDeque<VecDeque<ScriptStep>> =
        scripts.iter().map(|steps| steps.iter().cloned().collect()).collect();
    let scripts = Rc::new(RefCell::new(scripts));
    let generation = context.generation();
    for node in &generation.upstreams.get(0).unwrap().nodes.load().nodes {
        let (scripts, calls) = (scripts.clone(), calls.clone());
        let script = move || -> Box<dyn UpstreamStream> {
            calls.borrow_mut().push(String::new());
            Box::new(NodeStreamScript {
                steps: scripts.borrow_mut().pop_front().expect("a script for each stream"),
                calls: calls.clone(),
                number: calls.borrow().len() - 1,
                piece: "",
                is_segment: false,
                trailers: Headers::new(),
                length: BodyLength::None,
                sent: Sent::Nothing,
            })
        };
        context.upstreams.pools().borrow_mut().play(node.endpoint.id, Box::new(script));
    }
    (context, calls)
}

/// Runs an exchange and returns the calls that the client received, and the body.
async fn exchange_on(
    context: &Rc<WorkerContext>,
    method_and_path: &str,
    downstream: Scripted,
) -> (String, String) {
    let (mut downstream, deadline) = (downstream, Deadline::new(&context.local));
    let mut exchange = context.exchanges.checkout();
    request_head(&mut exchange, method_and_path);
    let served = run_pipeline(context, &mut exchange, &mut downstream, &deadline).await;
    assert!(matches!(served.outcome, PipelineOutcome::Done));
    log(context, &mut exchange, served.log);
    (downstream.calls.join(" "), String::from_utf8(downstream.answer).unwrap())
}

#[test]
fn scripted_protocols_pass_bodies_and_trailers() {
    use ScriptStep::{Data, End, Head, Wait};
    let script = [Wait, Head(103, false), Head(200, true), Data("hello"), Wait, Data("!"), End("sum")];
    let (context, calls) = context_with(1, &[&script]);
    let client = scripted(&[Some("abc"), Some("d")], BodyLength::Unknown);
    let (heard, answer) = on_loop(exchange_on(&context, "POST /here", client));
    assert_eq!((heard.as_str(), answer.as_str()), ("interim:103 start:200:Unknown finish:1", "hello!"));
    assert_eq!(*calls.borrow(), ["POST /here Unknown ab c d finish over"]);
}

#[test]
fn one_connection_carries_many_exchanges_at_once() {
    use ScriptStep::{Data, End, Head, Wait};
    let slow = [Wait, Wait, Wait, Wait, Head(200, true), Data("slow"), End("1")];
    let quick = [Head(201, true), Data("quick"), End("2")];
    let (context, calls) = context_with(1, &[&slow, &quick]);
    let order = RefCell::new(Vec::new());
    let one = |path: &'static str| {
        let (context, order) = (&context, &order);
        async move {
            let answer = exchange_on(context, path, scripted(&[], BodyLength::None)).await;
            order.borrow_mut().push(answer);
        }
    };
    on_loop(async { tokio::join!(one("GET /here"), one("DELETE /here")) });
    let heard: Vec<String> =
        order.into_inner().into_iter().map(|(client_calls, body)| format!("{client_calls} {body}")).collect();
    assert_eq!(heard, ["start:201:Unknown finish:1 quick", "start:200:Unknown finish:1 slow"]);
    assert_eq!(*calls.borrow(), ["GET /here None finish over", "DELETE /here None finish over"]);
}

#[test]
fn reset_stream_fails_attempt_cut_body_stays_cut() {
    use ScriptStep::{Data, Head, Reset};
    let cases: &[(&str, &[ScriptStep], &str)] = &[
        ("GET /here", &[Reset(Cause::NoResponse)], "start:502:"),
        ("GET /here", &[Reset(Cause::ReadTimeout)], "start:504:"),
        ("GET /here", &[Head(200, true), Data("cut"), Reset(Cause::BodyCut)], "start:200:Unknown abort"),
        // A connection that other exchanges use cannot become a tunnel.
        ("GET /here", &[Head(101, false)], "start:502:"),
    ];
    for (request, script, want) in cases {
        let (context, _) = context_with(1, &[script]);
        let (heard, _) = on_loop(exchange_on(&context, request, scripted(&[], BodyLength::None)));
        assert!(heard.starts_with(want), "{script:?}: {heard}");
    }
}

#[test]
fn only_unstarted_stream_is_retried_elsewhere() {
    use ScriptStep::{Head, Reset};
    let cases: &[(Option<&'static str>, &str, usize)] =
        &[(None, "start:204:None finish:0", 2), (Some("abc"), "start:502:", 1)];
    for (piece, want, streams) in cases {
        let (context, calls) = context_with(2, &[&[Reset(Cause::NoResponse)], &[Head(204, false)]]);
        let length = piece.map_or(BodyLength::None, |piece| BodyLength::Known(piece.len() as u64));
        let body: Vec<_> = piece.iter().map(|piece| Some(*piece)).collect();
        let (heard, _) = on_loop(exchange_on(&context, "POST /here", scripted(&body, length)));
        assert!(heard.starts_with(want), "{piece:?}: {heard}");
        assert_eq!(calls.borrow().len(), *streams, "{piece:?}: {calls:?}");
    }
}
