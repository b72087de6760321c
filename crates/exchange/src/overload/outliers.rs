//! Which nodes of an upstream may be ejected, and which are slower than their neighbours. Pure.

/// How many of `nodes` may be ejected at once: `percent` of them, at least one, and never the last.
pub fn ejectable(nodes: usize, percent: u32) -> usize {
    (nodes * percent as usize / 100).max(1).min(nodes.saturating_sub(1))
}

/// The indexes of latencies that are at least `factor` times the median of the others, the slowest first.
/// `None` is a node with too few requests to judge; it counts as no neighbour either.
pub fn slow(latencies_us: &[Option<u64>], factor: f64) -> Vec<usize> {
    let mut known: Vec<(u64, usize)> =
        latencies_us.iter().enumerate().filter_map(|(index, latency)| Some(((*latency)?, index))).collect();
    known.sort_unstable();
    let is_slow = |(place, (latency_us, _)): &(usize, &(u64, usize))| {
        median_without(&known, *place)
            .is_some_and(|median_us| *latency_us as f64 >= median_us as f64 * factor)
    };
    known.iter().enumerate().rev().filter(is_slow).map(|(_, (_, index))| *index).collect()
}

/// The lower median of sorted latencies without the one at `place`; `None` if there is no other, or if it is
/// 0.
fn median_without(sorted: &[(u64, usize)], place: usize) -> Option<u64> {
    let middle = sorted.len().checked_sub(2)? / 2;
    let middle = if middle < place { middle } else { middle + 1 };
    Some(sorted[middle].0).filter(|median_us| *median_us > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ejectable_keeps_to_percent_and_last_node() {
        // nodes, percent → ejectable
        let cases = [
            (0, 100, 0),
            (1, 100, 0),
            (2, 10, 1),
            (2, 100, 1),
            (4, 50, 2),
            (10, 10, 1),
            (10, 29, 2),
            (10, 100, 9),
        ];
        for (nodes, percent, want) in cases {
            assert_eq!(ejectable(nodes, percent), want, "{nodes} {percent}");
        }
    }

    #[test]
    fn slow_nodes_exceed_the_median_of_the_others() {
        type Case = (&'static [Option<u64>], f64, &'static [usize]);
        let cases: [Case; 8] = [
            (&[], 2.0, &[]),
            (&[Some(9_000)], 2.0, &[]),
            (&[Some(10), Some(30)], 3.0, &[1]),
            (&[Some(30), Some(10)], 3.1, &[]),
            (&[Some(10), Some(11), Some(12), Some(40)], 3.0, &[3]),
            (&[Some(90), Some(11), Some(12), Some(40)], 3.0, &[0, 3]),
            // Nodes with few requests are neither judged nor a measure.
            (&[Some(10), None, None, Some(40)], 3.0, &[3]),
            (&[None, None, Some(40)], 3.0, &[]),
        ];
        for (latencies_us, factor, want) in cases {
            assert_eq!(slow(latencies_us, factor), want, "{latencies_us:?} {factor}");
        }
    }
}
