//! Programs with LuaJIT's compiler and without it: the same limits end them, whatever was compiled.
#![allow(clippy::unwrap_used)]

use lua::testing::Engine;

const STOPPED: &str = "the script was stopped after";

/// Loops without an end, each of a kind that LuaJIT compiles.
const ENDLESS: &[&str] = &[
    "while true do end",
    "repeat until false",
    "::again:: goto again",
    "for i = 1, math.huge do end",
    "local x = 0 for i = 1, 1e15 do x = x + i * 2 - x / 3 end return x",
    "local x = 0 while true do for i = 1, 10 do for j = 1, 10 do x = x + i * j end end end",
    "local function add(a, b) return a + b end local x = 0 while true do x = add(x, add(1, 2)) end",
    "local function down(n) if n > 0 then return down(n - 1) end end while true do down(100) end",
    "local function f() return f() end return f()",
    "local s = 'abc' while true do s = s:sub(2) .. s:sub(1, 1) end",
    "local s while true do s = ('x'):byte() + #tostring(1) end",
    "local t = {} while true do for i = 1, 100 do t[i] = (t[i] or 0) + 1 end end",
    "local t = {a = 1, b = 2} while true do for k, v in pairs(t) do t[k] = v end end",
    "while true do local t = {} t.x = {1, 2, 3} end",
    "while true do ngx.time() end",
    "local t = setmetatable({}, {__index = function(t, k) return k end}) while true do local _ = t[1] end",
    // Inside a protected call, once and again and again.
    "return pcall(function() while true do end end)",
    "while true do pcall(function() while true do end end) end",
    "while true do pcall(error, 'x') end",
    "local ok = pcall(function() while true do end end) while true do ok = not ok end",
    "return xpcall(function() while true do end end, function(e) while true do end end)",
    // In coroutines and light threads.
    "return coroutine.wrap(function() while true do end end)()",
    "coroutine.resume(coroutine.create(function() while true do end end)) return 1",
    "local co = coroutine.wrap(function() while true do coroutine.yield(1) end end) while true do co() end",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "local t = ngx.thread.spawn(function() while true do end end) assert(ngx.thread.wait(t)) return 1",
    // Behind a wait, where another part of the call begins, and in many short parts.
    "ngx.sleep(0.001) while true do end",
    "while true do for i = 1, 2e6 do end ngx.sleep(0) end",
    // Where native code calls.
    "table.sort({3, 2, 1, 5, 4}, function(a, b) while true do end end)",
    "return (('x'):gsub('x', function() while true do end end))",
    "return tostring(setmetatable({}, {__tostring = function() while true do end end}))",
];

fn check_endless(engine: &Engine) {
    for source in ENDLESS {
        let reason = engine.run(source).expect_err(source);
        assert!(reason.contains(STOPPED), "{source}: {reason}");
        assert_eq!(engine.run("return 7").as_deref(), Ok("7"), "behind {source}");
    }
}

#[test]
fn endless_loops_end_with_the_compiler() {
    let engine = Engine::open().unwrap();
    assert_eq!(engine.compiler(), Ok(()));
    check_endless(&engine);
}

#[test]
fn endless_loops_end_without_the_compiler() {
    let engine = Engine::open_without_compiler().unwrap();
    assert!(engine.compiler().is_err());
    check_endless(&engine);
    assert_eq!(engine.compiled_traces(), Ok(0));
}

#[test]
fn hot_loops_are_compiled_before_and_after_an_end() {
    let engine = Engine::open().unwrap();
    assert_eq!(engine.compiler(), Ok(()));
    let compiles = |source: &str| {
        let before = engine.compiled_traces().unwrap();
        engine.run(source).unwrap();
        assert!(engine.compiled_traces().unwrap() > before, "{source}");
    };
    compiles("local x = 0 for i = 1, 1000 do x = x + i end return x");
    assert!(engine.run("while true do end").unwrap_err().contains(STOPPED));
    compiles("local x = 1 for i = 1, 1000 do x = x * 2 - i end return x");
    // The loop in which the hook was set is compiled again once it is gone.
    assert!(engine.run("f = function(n) while n > 0 do n = n - 1 end end f(1e15)").is_err());
    compiles("local s = '' for i = 1, 1000 do s = s:sub(1, 5) .. 'x' end return s");
}

#[test]
fn compiled_code_that_lacks_memory_ends_its_call_only() {
    let engine = Engine::open().unwrap();
    let greedy = [
        "local t = {} for i = 1, 1e9 do t[i] = {i} end",
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(100) .. i end",
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(50000 + i) end",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 1e9 do \
         pcall(function() for j = 1, 1e6 do t[#t + 1] = {j} end end) end",
    ];
    for source in greedy {
        let reason = engine.run(source).expect_err(source);
        assert!(reason.contains("not enough memory") || reason.contains(STOPPED), "{source}: {reason}");
        assert_eq!(engine.run("return 7").as_deref(), Ok("7"), "behind {source}");
    }
}

#[test]
fn programs_do_not_reach_the_compiler() {
    let engine = Engine::open().unwrap();
    for source in
        ["return jit", "return _G.jit", "return package.loaded.jit", "return package.preload['jit.util']"]
    {
        assert_eq!(engine.run(source).as_deref(), Ok("nil"), "{source}");
    }
    for name in ["jit", "jit.opt", "jit.util", "jit.profile", "ffi"] {
        let reason = engine.run(&format!("return require('{name}')")).unwrap_err();
        assert!(reason.contains("not available in Weir") || reason.contains("not found"), "{name}: {reason}");
    }
}
