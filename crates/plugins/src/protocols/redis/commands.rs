//! Which arguments of a command are keys, by its name, as `COMMAND` of Redis 7 tells of commands with fixed
//! places. The keys of others, such as scripts, are not found.

/// The places of keys among the arguments, the name of the command being argument 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// There are none, or none at a fixed place.
    None,
    /// From `first` to `last`, every `step`th; `last` counts from the end if it is negative.
    Range { first: usize, last: isize, step: usize },
}

impl Keys {
    /// Whether the argument `index` of `count`, the name among them, is a key.
    pub(super) fn contains(self, index: usize, count: usize) -> bool {
        let Keys::Range { first, last, step } = self else { return false };
        let last = match usize::try_from(last) {
            Ok(last) => last,
            Err(_) => count.saturating_sub(last.unsigned_abs()),
        };
        index >= first && index <= last && (index - first).is_multiple_of(step)
    }
}

const ALL: Keys = Keys::Range { first: 1, last: -1, step: 1 };
const ONE: Keys = Keys::Range { first: 1, last: 1, step: 1 };
const TWO: Keys = Keys::Range { first: 1, last: 2, step: 1 };

/// Commands with keys at other places than the first argument alone, in lower case and sorted.
const OTHERS: &[(&str, Keys)] = &[
    ("acl", Keys::None),
    ("asking", Keys::None),
    ("auth", Keys::None),
    ("bgrewriteaof", Keys::None),
    ("bgsave", Keys::None),
    ("bitop", Keys::Range { first: 2, last: -1, step: 1 }),
    ("blmove", TWO),
    ("blmpop", Keys::None),
    ("blpop", Keys::Range { first: 1, last: -2, step: 1 }),
    ("brpop", Keys::Range { first: 1, last: -2, step: 1 }),
    ("brpoplpush", TWO),
    ("bzmpop", Keys::None),
    ("bzpopmax", Keys::Range { first: 1, last: -2, step: 1 }),
    ("bzpopmin", Keys::Range { first: 1, last: -2, step: 1 }),
    ("client", Keys::None),
    ("cluster", Keys::None),
    ("command", Keys::None),
    ("config", Keys::None),
    ("copy", TWO),
    ("dbsize", Keys::None),
    ("debug", Keys::None),
    ("del", ALL),
    ("discard", Keys::None),
    ("echo", Keys::None),
    ("eval", Keys::None),
    ("eval_ro", Keys::None),
    ("evalsha", Keys::None),
    ("evalsha_ro", Keys::None),
    ("exec", Keys::None),
    ("exists", ALL),
    ("failover", Keys::None),
    ("fcall", Keys::None),
    ("fcall_ro", Keys::None),
    ("flushall", Keys::None),
    ("flushdb", Keys::None),
    ("function", Keys::None),
    ("geosearchstore", TWO),
    ("hello", Keys::None),
    ("info", Keys::None),
    ("keys", Keys::None),
    ("lastsave", Keys::None),
    ("latency", Keys::None),
    ("lcs", TWO),
    ("lmove", TWO),
    ("lmpop", Keys::None),
    ("lolwut", Keys::None),
    ("memory", Keys::None),
    ("mget", ALL),
    ("migrate", Keys::Range { first: 3, last: 3, step: 1 }),
    ("module", Keys::None),
    ("monitor", Keys::None),
    ("mset", Keys::Range { first: 1, last: -1, step: 2 }),
    ("msetnx", Keys::Range { first: 1, last: -1, step: 2 }),
    ("multi", Keys::None),
    ("object", Keys::None),
    ("pfcount", ALL),
    ("pfdebug", Keys::Range { first: 2, last: 2, step: 1 }),
    ("pfmerge", ALL),
    ("pfselftest", Keys::None),
    ("ping", Keys::None),
    ("psubscribe", Keys::None),
    ("psync", Keys::None),
    ("publish", Keys::None),
    ("pubsub", Keys::None),
    ("punsubscribe", Keys::None),
    ("quit", Keys::None),
    ("randomkey", Keys::None),
    ("readonly", Keys::None),
    ("readwrite", Keys::None),
    ("rename", TWO),
    ("renamenx", TWO),
    ("replconf", Keys::None),
    ("replicaof", Keys::None),
    ("reset", Keys::None),
    ("role", Keys::None),
    ("rpoplpush", TWO),
    ("save", Keys::None),
    ("scan", Keys::None),
    ("script", Keys::None),
    ("sdiff", ALL),
    ("sdiffstore", ALL),
    ("select", Keys::None),
    ("shutdown", Keys::None),
    ("sinter", ALL),
    ("sintercard", Keys::None),
    ("sinterstore", ALL),
    ("slaveof", Keys::None),
    ("slowlog", Keys::None),
    ("smove", TWO),
    ("ssubscribe", ALL),
    ("subscribe", Keys::None),
    ("sunion", ALL),
    ("sunionstore", ALL),
    ("sunsubscribe", ALL),
    ("swapdb", Keys::None),
    ("sync", Keys::None),
    ("time", Keys::None),
    ("touch", ALL),
    ("unlink", ALL),
    ("unsubscribe", Keys::None),
    ("unwatch", Keys::None),
    ("wait", Keys::None),
    ("watch", ALL),
    ("xgroup", Keys::None),
    ("xinfo", Keys::None),
    ("xread", Keys::None),
    ("xreadgroup", Keys::None),
    ("zdiff", Keys::None),
    ("zinter", Keys::None),
    ("zintercard", Keys::None),
    ("zmpop", Keys::None),
    ("zrangestore", TWO),
    ("zunion", Keys::None),
];

/// The places of keys of the command with this name in lower case; an unknown one has its key first.
pub(super) fn keys_of(command: &str) -> Keys {
    OTHERS.binary_search_by_key(&command, |(name, _)| name).map_or(ONE, |index| OTHERS[index].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_sorted_so_that_names_are_found() {
        assert!(OTHERS.is_sorted_by_key(|(name, _)| name));
        assert_eq!((keys_of("get"), keys_of("ping"), keys_of("mget")), (ONE, Keys::None, ALL));
    }

    #[test]
    fn keys_stand_at_the_places_of_their_command() {
        let places = |command: &str, count: usize| -> Vec<usize> {
            (0..count).filter(|index| keys_of(command).contains(*index, count)).collect()
        };
        assert_eq!(places("get", 2), [1]);
        assert_eq!(places("set", 5), [1]);
        assert_eq!(places("mget", 4), [1, 2, 3]);
        assert_eq!(places("mset", 5), [1, 3]);
        assert_eq!(places("blpop", 4), [1, 2]);
        assert_eq!(places("rename", 3), [1, 2]);
        assert_eq!(places("bitop", 5), [2, 3, 4]);
        assert_eq!(places("migrate", 6), [3]);
        assert_eq!(places("eval", 4), [0; 0]);
        assert_eq!(places("blpop", 1), [0; 0]);
    }
}
