//! Core dumps of this process, which would hold private keys and requests. It changes the soft limit of
//! RLIMIT_CORE alone. The process stays dumpable (PR_SET_DUMPABLE): otherwise its user could neither profile
//! it nor read its `/proc` files, and a process of the same user can read the data folder anyway.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets the kernel write core dumps of this process and its children, or not. It is called at each start,
/// because a successor of a binary upgrade inherits the limit of its predecessor.
pub(super) fn allow(allowed: bool) {
    let limit = limit_for(allowed, getrlimit(Resource::Core));
    if let Err(error) = setrlimit(Resource::Core, limit) {
        tracing::warn!(%error, "the limit of core dumps (RLIMIT_CORE) cannot be set");
    }
}

/// The limits to set. The hard limit stays, so that a later start can allow core dumps again.
fn limit_for(allowed: bool, inherited: Rlimit) -> Rlimit {
    Rlimit { current: if allowed { inherited.maximum } else { Some(0) }, maximum: inherited.maximum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limit_follows_the_setting() {
        let check = |allowed: bool, current: Option<u64>, maximum: Option<u64>, expected: Option<u64>| {
            let limit = limit_for(allowed, Rlimit { current, maximum });
            assert_eq!((limit.current, limit.maximum), (expected, maximum));
        };
        check(false, None, None, Some(0));
        check(false, Some(5), Some(9), Some(0));
        check(false, Some(0), Some(0), Some(0));
        check(true, Some(0), None, None);
        check(true, Some(0), Some(9), Some(9));
        check(true, Some(0), Some(0), Some(0));
    }
}
