;; The part of a module that every guest of tests has: its version, its memory and an allocator that gives ever higher addresses.
    (memory (export "memory") 1)
    (global $next (mut i32) (i32.const 4096))
    (func (export "proxy_abi_version_0_2_1"))
    (func (export "proxy_on_memory_allocate") (param $size i32) (result i32)
        (global.get $next)
        (global.set $next (i32.add (global.get $next) (local.get $size))))
