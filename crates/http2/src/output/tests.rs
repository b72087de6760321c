//! Output against a queue of single bytes, and its memory.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[test]
fn written_bytes_leave_and_memory_is_given_back() {
    let mut output = Output::default();
    output.buffer().extend_from_slice(&[7; 2 * COMPACT_BYTES]);
    output.control(1).push(8);
    output.advance(COMPACT_BYTES - 1);
    output.advance(1);
    assert_eq!((output.len(), output.start), (COMPACT_BYTES + 1, 0));
    assert_eq!(output.control_bytes(), 1);
    output.advance(COMPACT_BYTES);
    assert_eq!(output.next_slice(), [8]);
    output.advance(1);
    assert_eq!((output.memory(), output.control_bytes()), (0, 0));
}

#[test]
fn written_answers_do_not_count() {
    let mut output = Output::default();
    for _ in 0..1000 {
        output.control(10).extend_from_slice(&[1; 10]);
        output.buffer().extend_from_slice(&[7; 100]);
        // The output is never empty.
        output.advance(if output.len() > 200 { 110 } else { 0 });
        assert!(output.control_bytes() <= 40, "{}", output.control_bytes());
    }
    (0..5).for_each(|_| output.control(10).extend_from_slice(&[1; 10]));
    assert!(output.control_bytes() >= 50, "unread ones add up");
}

/// A segment of bytes that count up from `first`, in a vector that begins with others.
fn segment(first: u8, count: usize) -> (ByteSegment, Vec<u8>) {
    let bytes: Vec<u8> = (0..count).map(|place| first.wrapping_add(place as u8)).collect();
    let held = [b"--", &bytes[..]].concat();
    (ByteSegment::from_vector(held, 2, drop), bytes)
}

#[test]
fn segments_stand_between_the_frames_around_them() {
    let mut output = Output::default();
    output.buffer().extend_from_slice(b"head");
    output.segment(segment(b'a', 5).0, 2);
    output.buffer().extend_from_slice(b"more");
    output.rest_of_segment(3);
    output.segment(segment(b'0', 2).0, 2);
    output.control(4).extend_from_slice(b"ping");
    let mut slices = [IoSlice::new(&[]); 8];
    let count = output.slices(&mut slices);
    let found: Vec<&[u8]> = slices[..count].iter().map(|slice| &**slice).collect();
    assert_eq!(found, [&b"head"[..], b"ab", b"more", b"cde", b"01", b"ping"]);
    assert_eq!((output.len(), output.slices(&mut [IoSlice::new(&[]); 2])), (19, 2));
    output.advance(5);
    assert_eq!(output.next_slice(), b"b");
    assert!(output.memory() > 0);
    output.advance(14);
    assert_eq!((output.len(), output.memory(), output.next_slice()), (0, 0, &b""[..]));
}

#[test]
fn frames_between_segments_are_compacted() {
    let mut output = Output::default();
    let frame = vec![1; COMPACT_BYTES / 4];
    let mut held = 0;
    for _ in 0..100 {
        output.buffer().extend_from_slice(&frame);
        output.segment(segment(0, 10).0, 10);
        // One segment always waits, so that the output is never empty.
        output.advance(if output.len() > frame.len() + 10 { frame.len() + 10 } else { 0 });
        held = held.max(output.bytes.len());
    }
    assert!(held <= 2 * COMPACT_BYTES, "{held}");
}

/// A change of an output.
#[derive(Clone, Debug)]
enum Step {
    Frame(Vec<u8>),
    Control(Vec<u8>),
    /// A segment of as many parts as there are numbers, with a frame in front of each.
    Segment(u8, Vec<usize>),
    /// So many of a thousand parts of the output are written.
    Write(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        vec(any::<u8>(), 0..20).prop_map(Step::Frame),
        vec(any::<u8>(), 0..20).prop_map(Step::Control),
        (any::<u8>(), vec(1..50_usize, 1..4)).prop_map(|(first, parts)| Step::Segment(first, parts)),
        (0..=1000_usize).prop_map(Step::Write),
    ]
}

/// Joins the slices that the output gives when there is room for `most` of them.
fn joined(output: &Output, most: usize) -> Vec<u8> {
    let mut slices = vec![IoSlice::new(&[]); most];
    let count = output.slices(&mut slices);
    assert!(slices[..count].iter().all(|slice| !slice.is_empty()), "an empty slice");
    slices[..count].iter().flat_map(|slice| slice.to_vec()).collect()
}

proptest! {
    #[test]
    fn bytes_come_out_as_they_went_in(steps in vec(step(), 0..60), most in 1..6_usize) {
        let (mut output, mut expected) = (Output::default(), Vec::new());
        for step in steps {
            match step {
                Step::Frame(bytes) => {
                    output.buffer().extend_from_slice(&bytes);
                    expected.extend(bytes);
                }
                Step::Control(bytes) => {
                    output.control(bytes.len()).extend_from_slice(&bytes);
                    expected.extend(bytes);
                }
                Step::Segment(first, parts) => {
                    let (segment, mut bytes) = segment(first, parts.iter().sum());
                    let mut segment = Some(segment);
                    for count in parts {
                        output.buffer().extend_from_slice(b"head");
                        expected.extend(b"head");
                        match segment.take() {
                            Some(segment) => output.segment(segment, count),
                            None => output.rest_of_segment(count),
                        }
                        expected.extend(bytes.drain(..count));
                    }
                }
                Step::Write(part) => {
                    let count = output.len() * part / 1000;
                    output.advance(count);
                    expected.drain(..count);
                }
            }
            prop_assert_eq!(output.len(), expected.len());
            prop_assert_eq!(&joined(&output, 1000), &expected);
            let some = joined(&output, most);
            prop_assert!(expected.starts_with(&some) && some.is_empty() == expected.is_empty());
            let next = output.next_slice();
            prop_assert!(expected.starts_with(next) && next.is_empty() == expected.is_empty());
        }
        output.advance(expected.len());
        prop_assert_eq!(output.memory(), 0);
    }
}
