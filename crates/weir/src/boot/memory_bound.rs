//! The memory that this process may take before the kernel intervenes, and the share of it that requests may
//! fill. It measures nothing.

use rustix::process::{Resource, getrlimit};

/// The narrowest of the kernel's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryBound {
    /// The bound itself, in bytes.
    pub(crate) bytes: u64,
    /// The part that `memory_limit: auto` takes, in bytes.
    pub(crate) share_bytes: u64,
    /// The bound, as a part of a sentence.
    pub(crate) name: &'static str,
    /// The part, in words.
    pub(crate) share: &'static str,
}

/// The bound with the smallest share; none if there is no bound.
pub(crate) fn memory_bound() -> Option<MemoryBound> {
    narrowest(cgroup_memory_bytes(), getrlimit(Resource::As).current, getrlimit(Resource::Data).current)
}

/// Of the cgroup a fifth stays free for socket buffers of the kernel. Of address space and data segment a
/// half does: both count what is mapped and not resident, such as stacks of threads and memory that the
/// allocator keeps, and an allocation beyond them ends the process.
fn narrowest(cgroup: Option<u64>, address_space: Option<u64>, data: Option<u64>) -> Option<MemoryBound> {
    let bound = |bytes: Option<u64>, (parts, of): (u64, u64), name: &'static str, share: &'static str| {
        bytes.map(|bytes| MemoryBound { bytes, share_bytes: bytes / of * parts, name, share })
    };
    let bounds = [
        bound(cgroup, (4, 5), "the cgroup", "four fifths"),
        bound(address_space, (1, 2), "the address space (RLIMIT_AS, ulimit -v)", "half"),
        bound(data, (1, 2), "the data segment (RLIMIT_DATA, ulimit -d)", "half"),
    ];
    bounds.into_iter().flatten().min_by_key(|bound| bound.share_bytes)
}

/// The memory limit of the cgroup (v2) in bytes, as the process sees it.
fn cgroup_memory_bytes() -> Option<u64> {
    std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowest_bound_decides() {
        let rows = [
            ((None, None, None), None),
            ((Some(1000), None, None), Some((800, "the cgroup"))),
            ((Some(1000), Some(1700), None), Some((800, "the cgroup"))),
            ((Some(1000), Some(1500), None), Some((750, "the address space (RLIMIT_AS, ulimit -v)"))),
            ((None, Some(1500), Some(900)), Some((450, "the data segment (RLIMIT_DATA, ulimit -d)"))),
        ];
        for ((cgroup, address_space, data), expected) in rows {
            let found = narrowest(cgroup, address_space, data).map(|bound| (bound.share_bytes, bound.name));
            assert_eq!(found, expected, "{cgroup:?} {address_space:?} {data:?}");
        }
    }
}
