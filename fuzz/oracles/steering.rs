//! Steering bytes: the first bytes of an input, which select how an oracle uses the rest.

/// A parsed input.
pub struct Steering<'a> {
    /// Bits with a meaning of the oracle. `0` to `?` in a seed set the low four bits, so that seeds stay
    /// readable.
    pub switches: u8,
    /// Two offsets in [`Steering::input`], ascending.
    pub cuts: [usize; 2],
    /// The input after the three steering bytes.
    pub input: &'a [u8],
}

/// Reads the steering bytes: switches, and two cuts as fractions of the rest. None if there are fewer than
/// three bytes.
pub fn steering(data: &[u8]) -> Option<Steering<'_>> {
    let [switches, one, other, input @ ..] = data else { return None };
    let place = |byte: u8| usize::from(byte) * input.len() / usize::from(u8::MAX);
    let (one, other) = (place(*one), place(*other));
    Some(Steering { switches: *switches, cuts: [one.min(other), one.max(other)], input })
}
