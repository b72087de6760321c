//! Pieces of bodies that go through the pipeline with their memory, and those that are copied.

use stdx::segment::SEGMENT_LEAST_BYTES;

use super::node::{ScriptStep, context_with};
use super::*;

/// A piece of `count` bytes, for a script.
fn piece(count: usize) -> &'static str {
    "x".repeat(count).leak()
}

async fn pass(context: &Rc<WorkerContext>, path: &str, mut downstream: Scripted) -> Scripted {
    let deadline = Deadline::new(&context.local);
    let mut exchange = context.exchanges.checkout();
    request_head(&mut exchange, path);
    let served = run_pipeline(context, &mut exchange, &mut downstream, &deadline).await;
    assert!(matches!(served.outcome, PipelineOutcome::Done));
    assert_eq!(exchange.stats.response_body_bytes, downstream.answer.len() as u64);
    log(context, &mut exchange, served.log);
    downstream
}

#[test]
fn large_pieces_of_responses_are_handed_over() {
    use ScriptStep::{Data, End, Head, Segment};
    const LARGE: usize = SEGMENT_LEAST_BYTES;
    // the piece, whether the client takes segments, those that it gets
    let cases: [(ScriptStep, bool, &[usize]); 4] = [
        (Segment(piece(LARGE)), true, &[LARGE]),
        (Segment(piece(LARGE - 1)), true, &[]),
        (Data(piece(LARGE)), true, &[]),
        (Segment(piece(LARGE)), false, &[]),
    ];
    for (step, takes_segments, expected) in cases {
        let case = format!("{:.20} {takes_segments}", format!("{step:?}"));
        // The piece behind one that was copied is offered anew.
        let steps = [Head(200, true), step, Data("-"), Segment(piece(2 * LARGE)), End("sum")];
        let (context, _) = context_with(1, &[&steps]);
        let client = Scripted { takes_segments, window_bytes: 1 << 20, ..scripted(&[], BodyLength::None) };
        let heard = on_loop(pass(&context, "GET /here", client));
        assert_eq!(heard.calls.join(" "), "start:200:Unknown finish:1", "{case}");
        let last: &[usize] = if takes_segments { &[2 * LARGE] } else { &[] };
        assert_eq!(heard.segments, [expected, last].concat(), "{case}");
        let (before, behind) = heard.answer.split_at(heard.answer.len() - 2 * LARGE);
        assert!(before.ends_with(b"-") && behind.iter().all(|byte| *byte == b'x'), "{case}");
    }
}

#[test]
fn edited_responses_are_not_handed_over() {
    let origin = Origin::start(|_| Reply::ok(piece(100_000)));
    for (plugins, expected) in
        [(json!({}), piece(100_000).into()), (json!({"shouter": {}}), "X".repeat(100_000))]
    {
        let client = Scripted { takes_segments: true, window_bytes: 1 << 20, ..Scripted::default() };
        let is_edited = plugins != json!({});
        let heard =
            on_loop(async { pass(&context(&[origin.address()], &plugins), "GET /here", client).await });
        assert!(heard.answer == expected.as_bytes());
        assert!(!is_edited || heard.segments.is_empty(), "{:?}", heard.segments);
    }
}

#[test]
fn large_pieces_of_requests_are_handed_over() {
    const LARGE: usize = SEGMENT_LEAST_BYTES;
    let handed = format!("POST /here Unknown a segment:{LARGE} b finish over");
    // The node takes two bytes of a copy at once.
    for (gives_segments, expected) in [(true, &*handed), (false, "POST /here Unknown a xx xx ")] {
        let (context, calls) = context_with(1, &[&[ScriptStep::Wait, ScriptStep::Head(204, false)]]);
        let body = scripted(&[Some("a"), Some(piece(LARGE)), Some("b")], BodyLength::Unknown);
        let heard = on_loop(pass(&context, "POST /here", Scripted { gives_segments, ..body }));
        assert_eq!(heard.calls.join(" "), "start:204:None finish:0");
        let heard = &calls.borrow()[0];
        assert_eq!(&heard[..expected.len()], expected);
        assert_eq!(heard.contains("segment"), gives_segments);
    }
}
