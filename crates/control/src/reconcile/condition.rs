//! The condition of a write: the revision that the object must have, or must not have. It is checked on the
//! reconciling thread with the state that the write meets, so that no other write comes in between. It knows
//! no header.

/// The revisions that a condition names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revisions {
    /// The object exists, at whatever revision.
    Any,
    /// The object was last written at one of these revisions.
    These(Vec<u64>),
}

/// The condition of a write; the default admits every state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteCondition {
    /// The object must be at one of these revisions (`If-Match`).
    pub is_at: Option<Revisions>,
    /// The object must not be at one of these revisions (`If-None-Match`).
    pub is_not_at: Option<Revisions>,
}

impl Revisions {
    /// Whether an object that was last written at `found` is named; none: the object does not exist.
    fn name(&self, found: Option<u64>) -> bool {
        match self {
            Revisions::Any => found.is_some(),
            Revisions::These(listed) => found.is_some_and(|found| listed.contains(&found)),
        }
    }
}

impl WriteCondition {
    /// Whether an object that was last written at `found` meets the condition; none: the object does not
    /// exist.
    pub fn holds(&self, found: Option<u64>) -> bool {
        self.is_at.as_ref().is_none_or(|wanted| wanted.name(found))
            && !self.is_not_at.as_ref().is_some_and(|refused| refused.name(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_holds_by_revision_and_existence() {
        let check = |is_at: Option<Revisions>, is_not_at: Option<Revisions>, expected: [bool; 3]| {
            let condition = WriteCondition { is_at, is_not_at };
            let found = [None, Some(3), Some(4)].map(|found| condition.holds(found));
            assert_eq!(found, expected, "{condition:?}");
        };
        let these = |listed: &[u64]| Some(Revisions::These(listed.to_vec()));
        check(None, None, [true, true, true]);
        check(these(&[3]), None, [false, true, false]);
        check(these(&[]), None, [false, false, false]);
        check(Some(Revisions::Any), None, [false, true, true]);
        check(None, Some(Revisions::Any), [true, false, false]);
        check(None, these(&[4]), [true, true, false]);
        check(these(&[3, 4]), these(&[4]), [false, true, false]);
    }
}
