//! The decision whether a request is reported. Pure.

use super::w3c::W3cParent;

/// A sampler without regard to the caller's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootSampler {
    Never,
    Always,
    /// Traces with a lower number than this, of 2^63.
    Below(u64),
}

/// A sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampler {
    Root(RootSampler),
    /// The decision of the caller; without a caller that of the sampler inside.
    ParentOr(RootSampler),
}

/// The numbers of traces are below this: the last eight bytes of the id without the lowest bit, as the SDKs
/// of OpenTelemetry count, so that services with the same ratio report the same traces.
const NUMBERS: f64 = 9_223_372_036_854_775_808.0;

impl RootSampler {
    /// Samples a share of the traces, from 0 to 1; lower is never, higher always.
    pub(crate) fn ratio(fraction: f64) -> RootSampler {
        if fraction >= 1.0 {
            RootSampler::Always
        } else if fraction > 0.0 {
            RootSampler::Below((fraction * NUMBERS) as u64)
        } else {
            RootSampler::Never
        }
    }

    fn samples(self, trace_id: &[u8; 16]) -> bool {
        match self {
            RootSampler::Never => false,
            RootSampler::Always => true,
            RootSampler::Below(bound) => {
                let (_, last) = trace_id.split_last_chunk().expect("16 bytes end in 8");
                u64::from_be_bytes(*last) >> 1 < bound
            }
        }
    }
}

impl Sampler {
    /// Whether a request of this trace is reported.
    pub(crate) fn samples(self, trace_id: &[u8; 16], parent: Option<&W3cParent>) -> bool {
        match (self, parent) {
            (Sampler::ParentOr(_), Some(parent)) => parent.is_sampled,
            (Sampler::ParentOr(root) | Sampler::Root(root), _) => root.samples(trace_id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::new_trace_id;
    use super::*;

    #[test]
    fn ratio_samples_its_share_of_traces() {
        for (fraction, low, high) in
            [(0.0, 0, 0), (-1.0, 0, 0), (0.25, 2_000, 3_000), (1.0, 10_000, 10_000), (7.0, 10_000, 10_000)]
        {
            let sampler = Sampler::Root(RootSampler::ratio(fraction));
            let count = (0..10_000).filter(|_| sampler.samples(&new_trace_id(), None)).count();
            assert!((low..=high).contains(&count), "{fraction}: {count}");
        }
    }

    #[test]
    fn parent_decides_where_there_is_one() {
        let parent = |is_sampled| W3cParent { trace_id: [1; 16], span_id: [1; 8], is_sampled };
        let sampler = Sampler::ParentOr(RootSampler::Never);
        assert!(sampler.samples(&[1; 16], Some(&parent(true))));
        assert!(!Sampler::ParentOr(RootSampler::Always).samples(&[1; 16], Some(&parent(false))));
        assert!(!sampler.samples(&[1; 16], None));
        assert!(!Sampler::Root(RootSampler::Never).samples(&[1; 16], Some(&parent(true))));
    }
}
