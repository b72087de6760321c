//! The first bytes of an input, which say how the rest is used. It refuses to know what the rest is.

/// How an input is to be used.
pub struct Steering<'a> {
    /// Bits that an oracle gives a meaning; `0` to `?` in a seed set the low four bits, so that seeds stay readable.
    pub switches: u8,
    /// Two places in [`Steering::input`], ascending.
    pub cuts: [usize; 2],
    /// What the three steering bytes left.
    pub input: &'a [u8],
}

/// Reads the steering bytes: switches, and two cuts as fractions of the rest; none when they are not all there.
pub fn steering(data: &[u8]) -> Option<Steering<'_>> {
    let [switches, one, other, input @ ..] = data else { return None };
    let place = |byte: u8| usize::from(byte) * input.len() / usize::from(u8::MAX);
    let (one, other) = (place(*one), place(*other));
    Some(Steering { switches: *switches, cuts: [one.min(other), one.max(other)], input })
}
