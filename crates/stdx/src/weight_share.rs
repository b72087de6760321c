//! The weight of a node, shared by the addresses of its name: whole numbers in the written proportions. Pure
//! arithmetic.

/// The largest factor by which all weights are multiplied so that shares are whole numbers. With more, the
/// ring of a consistent hash would grow without use: shares are then rounded to a thousandth of the smallest
/// weight.
const FACTOR_MAX: u64 = 1_000;

/// The weight of one address of each entry, of which `entries` has the weight and the number of addresses.
/// All are multiplied by the least factor that makes them whole, and no weight becomes more than `most` by
/// it. An entry without addresses counts as one of one; a weight of 0 stays 0, and no other becomes 0.
pub fn weights_of_addresses(entries: &[(u32, usize)], most: u32) -> Vec<u32> {
    let largest = entries.iter().map(|(weight, _)| u64::from(*weight)).max().unwrap_or(0).max(1);
    let factor_max = FACTOR_MAX.min(u64::from(most) / largest).max(1);
    let mut factor = 1;
    for (weight, addresses) in entries.iter().filter(|(weight, _)| *weight > 0) {
        let (weight, addresses) = (u64::from(*weight), *addresses as u64);
        let needed = addresses.max(1) / greatest_common_divisor(addresses.max(1), weight);
        factor = factor / greatest_common_divisor(factor, needed) * needed;
        if factor > factor_max {
            factor = factor_max;
            break;
        }
    }
    let share = |(weight, addresses): &(u32, usize)| {
        let addresses = (*addresses).max(1) as u64;
        let weight = u64::from(*weight) * factor;
        let rounded = ((weight + addresses / 2) / addresses).max(u64::from(weight > 0));
        u32::try_from(rounded).unwrap_or(u32::MAX)
    };
    entries.iter().map(share).collect()
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_name_share_its_weight() {
        let check = |entries: &[(u32, usize)], expected: &[u32]| {
            assert_eq!(weights_of_addresses(entries, u32::MAX), expected, "{entries:?}");
        };
        check(&[], &[]);
        check(&[(2, 1), (1, 1)], &[2, 1]);
        check(&[(1, 3)], &[1]);
        check(&[(6, 3)], &[2]);
        check(&[(2, 2), (1, 1)], &[1, 1]);
        check(&[(60, 1), (20, 2)], &[60, 10]);
        check(&[(1, 2), (1, 1)], &[1, 2]);
        check(&[(1, 2), (1, 3), (0, 5)], &[3, 2, 0]);
        check(&[(100, 1), (5, 0)], &[100, 5]);
        // Beyond the factor: rounded, and never 0.
        check(&[(1, 7), (1, 11), (1, 13), (1, 17)], &[143, 91, 77, 59]);
        check(&[(1, 5_000), (1, 1)], &[1, 1_000]);
        check(&[(u32::MAX, 2), (1, 1)], &[2_147_483_648, 1]);
        assert_eq!(weights_of_addresses(&[(65_535, 7), (1, 1)], 1_000_000), [65_535, 7]);
    }
}
