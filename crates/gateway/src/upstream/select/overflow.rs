//! Overflow between priorities: the shares of requests of each tier, so that a tier with few usable nodes is
//! not given more than they can take while lower priorities are idle (Envoy's priority levels with an
//! overprovisioning factor).

use super::share::WHOLE;

/// The share of each tier out of [`WHOLE`], by the part of its weight that is usable, the highest priority
/// first. A tier takes all that is left where at least `percent` of its weight is usable, and proportionately
/// less below. Where all tiers together are too weak, they share in proportion to what they can take.
pub(crate) fn shares(usable: &[f64], percent: u32) -> Vec<u32> {
    let capacity: Vec<f64> =
        usable.iter().map(|part| (part * 100.0 / f64::from(percent.max(1))).min(1.0)).collect();
    let total: f64 = capacity.iter().sum();
    if total <= 0.0 {
        return vec![0; usable.len()];
    }
    let scale = if total < 1.0 { 1.0 / total } else { 1.0 };
    let mut left = WHOLE;
    let mut shares: Vec<u32> = Vec::with_capacity(usable.len());
    for part in &capacity {
        let share = ((part * scale * f64::from(WHOLE)).round() as u32).min(left);
        left -= share;
        shares.push(share);
    }
    // Rounding may leave a rest.
    if let Some(first) = shares.iter_mut().find(|share| **share > 0) {
        *first += left;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_tier_passes_a_part_on() {
        // usable part of each tier → shares, with 70 percent
        let cases: [(&[f64], &[u32]); 7] = [
            (&[1.0, 1.0], &[10_000, 0]),
            (&[0.7, 1.0], &[10_000, 0]),
            (&[0.35, 1.0], &[5_000, 5_000]),
            (&[0.0, 1.0], &[0, 10_000]),
            (&[0.35, 0.14, 1.0], &[5_000, 2_000, 3_000]),
            (&[0.14, 0.07], &[6_667, 3_333]),
            (&[0.0, 0.0], &[0, 0]),
        ];
        for (usable, expected) in cases {
            assert_eq!(shares(usable, 70), expected, "{usable:?}");
        }
    }
}
