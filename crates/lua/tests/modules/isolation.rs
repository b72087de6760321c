//! Programs of one interpreter see nothing that another one has changed in the library, its modules or their
//! objects.

use lua::modules::names;
use lua::testing::Engine;

/// Functions that find every table within reach of a program: `walk(visit)`.
const WALK: &str = "
    local roots = { 'string', 'table', 'math', 'bit', 'os', 'coroutine', 'io', 'debug', 'package', 'ngx' }
    local makers = {
        'ngx.socket.tcp()', 'ngx.socket.udp()', 'ngx.shared.d', 'ngx.thread.spawn(function() end)', 'ngx.var', 'ngx.header',
        'ngx.arg', 'require(\"resty.http\").new()', 'require(\"resty.redis\"):new()', 'require(\"resty.sha256\"):new()',
        'require(\"resty.md5\"):new()', 'require(\"resty.lrucache\").new(2)', 'require(\"resty.lock\"):new(\"d\")',
        'require(\"resty.hmac\"):new(\"k\")', 'require(\"resty.ipmatcher\").new({\"10.0.0.0/8\"})',
        'require(\"resty.expr.v1\").new({{\"a\", \"==\", \"b\"}})', 'require(\"net.url\").parse(\"http://a/b?c=d\")',
        'require(\"resty.http_headers\").new()', 'require(\"apisix.core\").log.delay_exec(type, 1)',
        'require(\"apisix.core\").json.delay_encode({})', 'require(\"cjson\").decode(\"[]\")', '\"text\"', 'function() end',
    }
    local function walk(visit)
        local seen = {}
        local function step(value)
            if type(value) ~= 'table' then
                return
            end
            local metatable = getmetatable(value)
            if type(metatable) == 'table' then
                step(metatable)
            end
            if seen[value] then
                return
            end
            seen[value] = true
            for _, item in pairs(value) do
                step(item)
            end
            pcall(function() step(value.__index) end)
            visit(value)
        end
        for _, name in ipairs(roots) do
            step(_G[name])
        end
        for _, name in ipairs(modules) do
            step(require(name))
        end
        for _, maker in ipairs(makers) do
            local ok, object = pcall(load('return ' .. maker, '=maker', 't', _G))
            step(ok and object)
            local metatable = getmetatable(object)
            step(metatable)
        end
    end
";

fn walk(rest: &str) -> String {
    let names: Vec<String> = names().map(|name| format!("'{name}'")).collect();
    format!("local modules = {{ {} }} {WALK} {rest}", names.join(", "))
}

#[test]
fn no_table_of_one_program_is_seen_by_another() {
    let engine = Engine::open().unwrap();
    let mark = "local count = 0 walk(function(table) if pcall(rawset, table, 'mark', 1) then count = count + 1 end end) \
        return tostring(count > 150) .. ' ' .. tostring(string.mark)";
    assert_eq!(engine.run(&walk(mark)).as_deref(), Ok("true 1"));
    let look = "local found = 0 walk(function(table) if rawget(table, 'mark') then found = found + 1 end end) return found";
    assert_eq!(engine.run(&walk(look)).as_deref(), Ok("0"));
}

/// The functions of the library are called in so many runs, so that each run is far within its limit of time
/// on a busy machine as well.
const PARTS: usize = 12;

/// Calls the functions of one part of the library with arguments of several kinds and visits the tables that
/// they return: `results(visit)`.
const RESULTS: &str = "
    local skipped = {}
    local waiting = 'exit sleep yield wrap error wait kill every at lock connect spawn print say redirect'
    for name in waiting:gmatch('%a+') do
        skipped[name] = true
    end
    local function results(visit)
        local functions, seen = {}, {}
        walk(function(library)
            for name, value in next, library do
                if type(value) == 'function' and not skipped[name] and #name % parts == part then
                    functions[#functions + 1] = value
                end
            end
        end)
        local function step(value)
            if type(value) ~= 'table' or seen[value] then
                return
            end
            seen[value] = true
            visit(value)
            for _, item in next, value do
                step(item)
            end
            step(getmetatable(value))
        end
        for _, call in ipairs(functions) do
            for texts in ('/[[a]]/{}/[[a]], [[b]]/{}, [[a]]/{}, {}/1/nil, [[a]]/true'):gmatch('[^/]*') do
                local made = table.pack(pcall(call, load('return ' .. texts)()))
                for index = 2, made.n do
                    step(made[index])
                end
            end
        end
    end
";

#[test]
fn no_function_returns_a_table_of_the_library() {
    let engine = Engine::open().unwrap();
    let run_parts = |then: &str| -> Vec<usize> {
        let part = |part| walk(&format!("local part, parts = {part}, {PARTS} {RESULTS} {then}"));
        (0..PARTS).map(|number| engine.run(&part(number)).unwrap().parse().unwrap()).collect()
    };
    let mark = "local count = 0 \
        results(function(table) if pcall(rawset, table, 'mark', 1) then count = count + 1 end end) return count";
    assert!(run_parts(mark).iter().sum::<usize>() > 300);
    let look = "local found = 0 \
        results(function(table) if rawget(table, 'mark') then found = found + 1 end end) return found";
    assert_eq!(run_parts(look), [0; PARTS]);
}

#[test]
fn changed_library_is_changed_for_its_program_alone() {
    let engine = Engine::open().unwrap();
    let evil = "local evil = function() return 'evil' end ";
    // A change by a program, and a text that reads it.
    for (change, read) in [
        ("string.rep = evil", "return ('x'):rep(2) .. string.rep('x', 2)"),
        ("getmetatable('').__index = { rep = evil }", "return ('x'):rep(2)"),
        ("_G.string = { rep = evil }", "return string.rep('x', 2)"),
        ("load('string.rep = ...')(evil)", "return string.rep('x', 2)"),
        ("table.concat = evil", "return table.concat({ 'x', 'x' })"),
        ("math.floor = evil", "return math.floor(1.5)"),
        ("ngx.encode_base64 = evil", "return ngx.encode_base64('x')"),
        ("ngx.re.gsub = evil", "return (ngx.re.gsub('a', 'a', 'xx'))"),
        ("rawset(ngx.config, 'subsystem', 'evil')", "return ngx.config.subsystem"),
        ("ngx.shared.d.get = evil", "return tostring(ngx.shared.d:get('none'))"),
        ("getmetatable(ngx.shared.d).__index.get = evil", "return tostring(ngx.shared.d:get('none'))"),
        ("require('cjson').encode = evil", "return require('cjson').encode({ 1 })"),
        ("require('cjson.safe').decode = evil", "return require('cjson.safe').decode('1')"),
        ("require('resty.jwt').verify = evil", "return type(require('resty.jwt').verify)"),
        ("require('resty.sha256').new = evil", "return type(require('resty.sha256'):new())"),
        (
            "getmetatable(require('resty.sha256'):new()).__index.final = evil",
            "return #require('resty.sha256'):new():final()",
        ),
        (
            "require('apisix.core').string.has_prefix = evil",
            "return tostring(require('apisix.core').string.has_prefix('ab', 'a'))",
        ),
        (
            "require('apisix.core.string').has_prefix = evil",
            "return tostring(require('apisix.core').string.has_prefix('ab', 'a'))",
        ),
        (
            "require('apisix.core').empty_tab.x = 'evil'",
            "return tostring(require('apisix.core').empty_tab.x)",
        ),
        ("require('cjson').new().encode = evil", "return require('cjson').encode({ 1 })"),
        ("require('cjson.safe').new().encode = evil", "return require('cjson.safe').new().encode({ 1 })"),
        (
            "require('resty.lock'):new('d').dictionary.add = evil",
            "local lock = require('resty.lock'):new('d') return tostring(lock:lock('key')) .. lock:unlock()",
        ),
        (
            "require('apisix.core').config.local_conf().apisix.evil = 'evil'",
            "return tostring(require('apisix.core').config.local_conf().apisix.evil)",
        ),
        (
            "require('apisix.core').config.local_conf().plugin_attr.a = { evil = true }",
            "return tostring(require('apisix.plugin').plugin_attr('a'))",
        ),
        ("package.loaded.cjson = { encode = evil }", "return require('cjson').encode({ 1 })"),
        ("package.loaded.string.rep = evil", "return string.rep('x', 2)"),
        ("package.preload['no.such'] = evil", "return tostring(pcall(require, 'no.such'))"),
        ("some_global = 'evil'", "return tostring(some_global)"),
    ] {
        let before = engine.run(read).unwrap();
        let changed = engine.run(&format!("{evil} return tostring(pcall(function() {change} end))"));
        assert!(changed.is_ok(), "{change}: {changed:?}");
        assert_eq!(engine.run(read), Ok(before), "{change}");
    }
}

#[test]
fn program_sees_its_own_changes() {
    let engine = Engine::open().unwrap();
    for code in [
        "string.rep = function() return 'own' end return string.rep('x', 2)",
        "string.added = 'own' return string.added",
        "local core = require('apisix.core') core.added = 'own' return require('apisix.core').added",
        "local text = require('cjson') text.added = 'own' return package.loaded.cjson.added",
        "ngx.added = 'own' return ngx.added",
        "some_global = 'own' return _G.some_global",
        "_G.some_global = 'own' return some_global",
        "package.preload['a.b'] = function(name, native) return { value = native == nil and 'own' } end return require('a.b').value",
    ] {
        assert_eq!(engine.run(code).as_deref(), Ok("own"), "{code}");
    }
}

#[test]
fn views_have_all_that_the_library_has() {
    let engine = Engine::open().unwrap();
    for (code, expected) in [
        (
            "local names = {} for name in pairs(math) do names[#names + 1] = name end return #names > 20",
            "true",
        ),
        ("return require('string') == string and package.loaded.string == string", "true"),
        ("return require('ngx') == ngx and _G._G == _G", "true"),
        ("return require('apisix.core').json == require('apisix.core.json')", "true"),
        ("return tostring(require('cjson').array_mt == require('cjson.safe').array_mt)", "true"),
        ("return require('cjson').encode(require('cjson').empty_array)", "[]"),
        ("return require('cjson').encode(setmetatable({}, require('cjson').array_mt))", "[]"),
        ("return #require('resty.jit-uuid')()", "36"),
        (
            "return tostring(require('apisix.core').schema.check(require('apisix.schema_def').id_schema, 'a b'))",
            "false",
        ),
        ("return tostring(ngx.null == require('cjson').null)", "true"),
        (
            "local matcher = require('resty.ipmatcher').new({ '10.0.0.0/8' })
            return require('apisix.core').table.deepcopy({ matcher = matcher }).matcher:match('10.1.1.1')",
            "true",
        ),
        ("return require('apisix.core').table.deepcopy(string).rep('x', 2)", "xx"),
        (
            "local core = require('apisix.core')
            return core.json.encode(core.table.deepcopy(core.json.decode('[]')))",
            "[]",
        ),
        (
            "return select(2, pcall(function() return ngx.no_such end))",
            "script:1: not available in Weir: ngx.no_such (see docs/reference/lua.md)",
        ),
        (
            "return tostring(getmetatable(string)) .. tostring(getmetatable('')) .. tostring(getmetatable(ngx))",
            "falsefalsefalse",
        ),
    ] {
        assert_eq!(engine.run(code).as_deref(), Ok(expected), "{code}");
    }
}

/// The parts of Lua 5.2 that the LuaJIT of OpenResty has.
#[test]
fn additions_of_lua_52_are_there() {
    let engine = Engine::open().unwrap();
    for (code, expected) in [
        ("local a = 1;; return a", "1"),
        ("; return 1", "1"),
        ("local f = function(value) return value end\nlocal called = f\n(2) return called", "2"),
        ("local t = table.pack(1, nil, 3) return t.n", "3"),
        ("return table.unpack({ 4, 5 }, 2)", "5"),
        ("return string.rep('a', 3, ',')", "a,a,a"),
        ("return ('a'):rep(2, '--')", "a--a"),
        ("return #setmetatable({}, { __len = function() return 7 end })", "7"),
        (
            "for k in pairs(setmetatable({}, { __pairs = function() return next, { own = 1 } end })) do return k end",
            "own",
        ),
        ("return rawlen({ 1, 2 })", "2"),
        ("return math.log(8, 2)", "3"),
        ("for i = 1, 2 do if i == 1 then goto skip end do return i end ::skip:: end", "2"),
    ] {
        assert_eq!(engine.run(code).as_deref(), Ok(expected), "{code}");
    }
    let long = engine.run("return #string.rep('', 1e9, ('x'):rep(1000))");
    assert!(long.is_err(), "a repeated separator counts: {long:?}");
}
