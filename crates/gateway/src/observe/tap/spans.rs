//! The timeline of one ended request, from the times that the exchange and its attempts keep anyway, and the
//! runs of plugins where they were recorded.

use std::borrow::Cow;

use exchange::Exchange;
use exchange::exchange::Attempt;
use exchange::exchange::timeline::PluginRun;
use exchange::failure::{Cause, FailurePhase};
use exchange::plugin::PluginPhase;
use model::report::{SPANS_MAX, SpanGroup, TimelineSpan};

/// The spans of `exchange`, ordered by begin.
pub(super) fn build_request_spans(exchange: &Exchange) -> Vec<TimelineSpan> {
    let mut spans = Spans { started_ns: exchange.times.started_ns, all: Vec::with_capacity(16) };
    of_client(exchange, &mut spans);
    for (index, attempt) in exchange.attempts.iter().enumerate() {
        of_attempt(index + 1, attempt, &mut spans);
    }
    of_response(exchange, &mut spans);
    for run in exchange.timeline.runs() {
        of_plugin(run, &mut spans);
    }
    spans.all.sort_by_key(|span| span.at_us);
    spans.all
}

struct Spans {
    started_ns: u64,
    all: Vec<TimelineSpan>,
}

impl Spans {
    /// Adds a span between two readings of the monotonic clock, unless there are too many.
    fn add(
        &mut self,
        name: &'static str,
        group: SpanGroup,
        from_ns: u64,
        ns: u64,
    ) -> Option<&mut TimelineSpan> {
        if self.all.len() >= SPANS_MAX {
            return None;
        }
        let at_us = from_ns.saturating_sub(self.started_ns) / 1_000;
        let name = Cow::Borrowed(name);
        self.all.push(TimelineSpan { name, group, at_us, us: ns / 1_000, failed: false, detail: None });
        self.all.last_mut()
    }

    fn add_failed(&mut self, name: &'static str, group: SpanGroup, from_ns: u64, ns: u64, cause: Cause) {
        if let Some(span) = self.add(name, group, from_ns, ns) {
            span.failed = true;
            span.detail = Some(Cow::Borrowed(cause.code()));
        }
    }
}

/// Reading the head, matching, and waiting for the body before an endpoint was chosen.
fn of_client(exchange: &Exchange, spans: &mut Spans) {
    let times = &exchange.times;
    let begun_ns = exchange.timeline.begun_ns();
    let body_read_ns = (times.body_waited_ns != 0).then(|| {
        let ended_ns =
            if times.upstream_started_ns == 0 { times.ended_ns } else { times.upstream_started_ns };
        (ended_ns.saturating_sub(times.body_waited_ns), times.body_waited_ns)
    });
    if begun_ns != 0 {
        spans.add(
            "read head",
            SpanGroup::Client,
            times.started_ns,
            begun_ns - times.started_ns.min(begun_ns),
        );
        // The earliest mark ends the match: with plugins of the log phase alone, the first run is after the
        // upstream.
        let next_ns = [
            exchange.timeline.runs().first().map_or(0, |run| run.started_ns),
            exchange.attempts.first().map_or(0, |attempt| attempt.started_ns),
            times.upstream_started_ns,
            body_read_ns.map_or(0, |(from_ns, _)| from_ns),
            times.ended_ns,
        ];
        let next_ns = next_ns.into_iter().filter(|next_ns| *next_ns > begun_ns).min();
        if let Some(next_ns) = next_ns {
            spans.add("match", SpanGroup::Gateway, begun_ns, next_ns - begun_ns);
        }
    }
    if let Some((from_ns, waited_ns)) = body_read_ns {
        spans.add("read body", SpanGroup::Client, from_ns, waited_ns);
    }
}

/// Connecting, waiting for the head, and receiving the body; a failed attempt ends with the step that failed.
fn of_attempt(number: usize, attempt: &Attempt, spans: &mut Spans) {
    let group = SpanGroup::Attempt(number, attempt.address);
    let ns = |us: u64| us * 1_000;
    let at = |us: u64| attempt.started_ns + ns(us);
    let total_us = attempt.total_us.max(attempt.head_us).max(attempt.connect_us);
    if let Some(cause) = attempt.failed
        && cause.phase() == FailurePhase::Connect
    {
        return spans.add_failed("connect", group, attempt.started_ns, ns(total_us), cause);
    }
    if attempt.connect_us != 0 {
        spans.add("connect", group, attempt.started_ns, ns(attempt.connect_us));
    }
    let waits_us = if attempt.head_us == 0 { total_us } else { attempt.head_us };
    let waited_ns = ns(waits_us.saturating_sub(attempt.connect_us));
    match attempt.failed {
        Some(cause) if attempt.head_us == 0 => {
            let name = if cause.phase() == FailurePhase::Send { "send" } else { "wait" };
            spans.add_failed(name, group, at(attempt.connect_us), waited_ns, cause);
        }
        Some(cause) => {
            spans.add("wait", group, at(attempt.connect_us), waited_ns);
            spans.add_failed("receive", group, at(attempt.head_us), ns(total_us - attempt.head_us), cause);
        }
        None => {
            if let Some(span) = spans.add("wait", group, at(attempt.connect_us), waited_ns)
                && attempt.status >= 500
            {
                span.failed = true;
                span.detail = Some(Cow::Owned(attempt.status.to_string()));
            }
            if total_us > waits_us {
                spans.add("receive", group, at(waits_us), ns(total_us - waits_us));
            }
        }
    }
}

/// Sending the response: from the head of the upstream's response to the end.
fn of_response(exchange: &Exchange, spans: &mut Spans) {
    let times = &exchange.times;
    let from_ns = times.upstream_head_ns;
    if from_ns != 0 && times.ended_ns > from_ns {
        spans.add("send response", SpanGroup::Response, from_ns, times.ended_ns - from_ns);
    }
}

fn of_plugin(run: &PluginRun, spans: &mut Spans) {
    let group = match run.phase {
        PluginPhase::BeforeLog | PluginPhase::Log => SpanGroup::Log,
        PluginPhase::UpstreamResponse
        | PluginPhase::ResponseHead
        | PluginPhase::ResponseBody
        | PluginPhase::Encode
        | PluginPhase::Informational => SpanGroup::Response,
        PluginPhase::Preflight
        | PluginPhase::Rewrite
        | PluginPhase::RequestBody
        | PluginPhase::Access
        | PluginPhase::BeforeProxy
        | PluginPhase::Attempt => SpanGroup::Gateway,
    };
    if let Some(span) = spans.add(run.plugin, group, run.started_ns, run.taken_ns) {
        span.detail = Some(Cow::Borrowed(run.phase.name()));
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use exchange::exchange::Attempt;
    use exchange::testing::Scene;

    use super::*;

    fn attempt(failed: Option<Cause>, connect_us: u64, head_us: u64, total_us: u64) -> Attempt {
        Attempt {
            address: SocketAddr::from(([127, 0, 0, 1], 80)),
            endpoint_id: 1,
            scheme: "http",
            upstream: 0,
            status: 0,
            failed,
            started_ns: 5_000_000,
            connect_us,
            head_us,
            total_us,
        }
    }

    fn names(attempt: &Attempt) -> Vec<(String, u64, u64, bool)> {
        let mut spans = Spans { started_ns: 1_000_000, all: Vec::new() };
        of_attempt(1, attempt, &mut spans);
        spans.all.iter().map(|span| (span.name.to_string(), span.at_us, span.us, span.failed)).collect()
    }

    #[test]
    fn attempt_ends_with_the_step_that_failed() {
        let name = str::to_owned;
        let refused = attempt(Some(Cause::ConnectFailed), 0, 0, 70);
        assert_eq!(names(&refused), [(name("connect"), 4_000, 70, true)]);
        let silent = attempt(Some(Cause::ReadTimeout), 20, 0, 100);
        assert_eq!(names(&silent), [(name("connect"), 4_000, 20, false), (name("wait"), 4_020, 80, true)]);
        let cut = attempt(Some(Cause::BodyCut), 0, 50, 90);
        assert_eq!(names(&cut), [(name("wait"), 4_000, 50, false), (name("receive"), 4_050, 40, true)]);
        let good = attempt(None, 0, 50, 90);
        assert_eq!(names(&good), [(name("wait"), 4_000, 50, false), (name("receive"), 4_050, 40, false)]);
    }

    /// Times of one exchange in microseconds: plugin runs, start of the upstream, start of the attempt, wait
    /// for the body, end. The time of the span "match" is expected, which begins at 2.
    #[test]
    fn match_ends_at_the_earliest_mark() {
        type Row<'r> = (&'r [(u64, PluginPhase)], u64, u64, u64, u64, u64);
        let rows: [Row<'_>; 7] = [
            (&[(900, PluginPhase::Log)], 10, 11, 0, 900, 8),
            (&[(400, PluginPhase::ResponseHead), (900, PluginPhase::Log)], 10, 11, 0, 900, 8),
            (&[(5, PluginPhase::Rewrite), (900, PluginPhase::Log)], 10, 11, 0, 900, 3),
            (&[(900, PluginPhase::Log)], 500, 501, 300, 900, 198),
            (&[], 10, 11, 0, 900, 8),
            (&[(40, PluginPhase::Log)], 0, 0, 0, 30, 28),
            (&[(900, PluginPhase::Log)], 0, 11, 0, 900, 9),
        ];
        for (runs, upstream_us, attempt_us, waited_us, ended_us, expected_us) in rows {
            let mut scene = Scene::new();
            let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            exchange.times.started_ns = 1_000;
            exchange.timeline.switch_on_at(2_000);
            exchange.times.upstream_started_ns = upstream_us * 1_000;
            exchange.times.body_waited_ns = waited_us * 1_000;
            exchange.times.ended_ns = ended_us * 1_000;
            if attempt_us != 0 {
                let started_ns = attempt_us * 1_000;
                exchange.attempts.push(Attempt { started_ns, ..attempt(None, 0, 300, 350) });
            }
            for (at_us, phase) in runs {
                exchange.timeline.record("a", 1, *phase, at_us * 1_000, at_us * 1_000 + 500);
            }
            let spans = build_request_spans(&exchange);
            let matched = spans.iter().find(|span| span.name == "match").expect("each request is matched");
            assert_eq!(matched.us, expected_us, "{runs:?} {upstream_us} {attempt_us} {waited_us} {ended_us}");
            let overlaps = |span: &&TimelineSpan| {
                matches!(span.group, SpanGroup::Attempt(..)) && span.at_us < matched.at_us + matched.us
            };
            assert_eq!(spans.iter().find(overlaps).map(|span| &span.name), None);
        }
    }

    #[test]
    fn spans_are_bounded_and_ordered() {
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        exchange.times.started_ns = 1_000;
        exchange.timeline.switch_on_at(2_000);
        for number in 0..90 {
            exchange.timeline.record("a", 1, PluginPhase::Rewrite, 5_000 + number, 6_000 + number);
        }
        let spans = build_request_spans(&exchange);
        assert_eq!(spans.len(), SPANS_MAX);
        assert!(spans.is_sorted_by_key(|span| span.at_us));
        assert_eq!(
            (&*spans[0].name, spans[0].us, &*spans[1].name, spans[1].us),
            ("read head", 1, "match", 3)
        );
    }
}
