//! Tests of the modules that need neither a request nor a connection.

use super::check_all;

#[test]
fn digests_and_codes_have_the_published_values() {
    check_all(
        "local str = require('resty.string')",
        &[
            (
                "local s = require('resty.sha1'):new() s:update('a') s:update('bc') return str.to_hex(s:final())",
                "a9993e364706816aba3e25717850c26c9cd0d89d",
            ),
            (
                "local s = require('resty.md5'):new() s:update('abc') return str.to_hex(s:final())",
                "900150983cd24fb0d6963f7d28e17f72",
            ),
            (
                "local s = require('resty.sha256'):new() s:update('x') s:reset() s:update('abc') return str.to_hex(s:final()):sub(1, 8)",
                "ba7816bf",
            ),
            ("local s = require('resty.sha512'):new() s:update('abc') return #s:final()", "64"),
            (
                "local h = require('resty.hmac') return h:new('key', h.ALGOS.MD5):final('The quick brown fox jumps over the lazy dog', true)",
                "80070713463e7749b90c2dc24911e275",
            ),
            (
                "local h = require('resty.hmac') local c = h:new('key', h.ALGOS.SHA1) c:update('The quick brown fox ') return c:final('jumps over the lazy dog', true)",
                "de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9",
            ),
            ("return require('resty.hmac'):new('key', 'no')", "nil"),
            ("return #require('resty.random').bytes(8)", "8"),
            ("return require('resty.random').token(12):match('^%w+$'):len()", "12"),
            (
                "return require('ngx.base64').decode_base64url(require('ngx.base64').encode_base64url('a?>'))",
                "a?>",
            ),
            ("return select(2, require('ngx.base64').decode_base64url('!'))", "invalid input"),
        ],
    );
}

#[test]
fn identifiers_have_their_versions() {
    check_all(
        "local uuid = require('resty.jit-uuid') local n = '6ba7b810-9dad-11d1-80b4-00c04fd430c8'",
        &[
            ("return uuid.is_valid(uuid.generate_v4())", "true"),
            ("return uuid.generate_v4():sub(15, 15)", "4"),
            ("return uuid.generate_v5(n, 'www.example.com')", "2ed6657d-e927-568b-95e1-2665a8aea6a2"),
            ("return uuid.generate_v3(n, 'www.example.com')", "5df41881-3aed-3515-88a7-2f4a814cf09e"),
            ("return uuid.is_valid('x')", "false"),
            ("return #uuid()", "36"),
        ],
    );
}

#[test]
fn lrucache_drops_the_entry_used_longest_ago() {
    check_all(
        "local c = require('resty.lrucache').new(2)",
        &[
            (
                "c:set('a', 1) c:set('b', 2) c:get('a') c:set('c', 3) return tostring(c:get('b')) .. c:get('a') .. c:get('c')",
                "nil13",
            ),
            (
                "c:set('a', 1, 0.001) ngx.sleep(0.005) local v, stale = c:get('a') return tostring(v) .. stale",
                "nil1",
            ),
            ("c:set('a', 1) c:set('b', 2) c:delete('a') return c:count() .. c:get_keys()[1]", "1b"),
            ("c:set('a', 1) c:flush_all() return c:get('a')", "nil"),
            ("return require('resty.lrucache').new(0)", "nil"),
        ],
    );
}

#[test]
fn expression_holds_as_in_routes() {
    let before =
        "local expr = require('resty.expr.v1') local v = {a = '5', b = 'x', ip = '10.1.1.1', l = {'p', 'q'}}
        local function holds(rule) return assert(expr.new(rule)):eval(v) end";
    check_all(
        before,
        &[
            ("return holds({})", "true"),
            ("return holds({{'a', '==', '5'}})", "true"),
            ("return holds({{'a', '==', 5}})", "true"),
            ("return holds({{'a', '>', 4}, {'b', '~=', 'x'}})", "false"),
            ("return holds({'OR', {'a', '>', 9}, {'b', '==', 'x'}})", "true"),
            ("return holds({'!OR', {'a', '>', 9}, {'b', '==', 'x'}})", "false"),
            (
                "return holds({'AND', {'a', '<=', 5}, {'OR', {'b', 'in', {'y', 'x'}}, {'b', '==', 'z'}}})",
                "true",
            ),
            ("return holds({{'b', '!', 'in', {'y', 'x'}}})", "false"),
            ("return holds({{'b', '~~', '^[x-z]$'}})", "true"),
            ("return holds({{'b', '~*', 'X'}})", "true"),
            ("return holds({{'l', 'has', 'q'}})", "true"),
            ("return holds({{'ip', 'ipmatch', {'10.0.0.0/8'}}})", "true"),
            ("return holds({{'none', '==', ngx.null}})", "true"),
            ("return holds({{'none', '>', 1}})", "false"),
            ("return select(2, expr.new({{'a', 'like', 1}})):match('invalid operator') ", "invalid operator"),
        ],
    );
}

#[test]
fn addresses_match_sets() {
    check_all(
        "local m = require('resty.ipmatcher')",
        &[
            ("return m.new({'10.0.0.0/8', '::1'}):match('::1')", "true"),
            ("return m.new({'10.0.0.0/8'}):match('11.0.0.1')", "false"),
            ("return select(2, m.new({'10.0.0.0/8'}):match('x'))", "invalid ip address, not ipv4 and ipv6"),
            ("return m.new_with_value({['10.0.0.0/8'] = 'ten'}):match('10.0.0.1')", "ten"),
            ("return m.new({'x'})", "nil"),
        ],
    );
}

#[test]
fn texts_are_split_by_patterns() {
    check_all(
        "local re = require('ngx.re') local function s(...) return table.concat(re.split(...), '|') end",
        &[
            ("return s('a,b,c', ',')", "a|b|c"),
            ("return s('a,b,', ',')", "a|b|"),
            ("return s('/a/b', '/')", "|a|b"),
            ("return s('a,b,c', ',', nil, nil, 2)", "a|b,c"),
            ("return s('a1b2c', '([0-9])')", "a|1|b|2|c"),
            ("return s('abc', '')", "a|b|c"),
            ("return s('', ',')", ""),
            ("return s('abc', 'x*')", "abc"),
        ],
    );
}

#[test]
fn urls_are_parsed_and_built() {
    check_all(
        "local url = require('net.url') local s = require('socket.url')",
        &[
            (
                "local u = url.parse('http://u:p@h.x:8080/a/b?c=1&d#f') return u.scheme .. u.host .. u.port .. u.path .. u.query.c .. u.fragment .. u.user",
                "httph.x8080/a/b1fu",
            ),
            ("return tostring(url.parse('https://h/x?a=1&b=2'))", "https://h/x?a=1&b=2"),
            ("return url.parse('https://[::1]:9/').host", "[::1]"),
            ("return url.parse('/only/path').path", "/only/path"),
            // A path keeps the encoding that it needs, and no other.
            ("return url.parse('args=%40%23%24%25%5E%26').path", "args=@%23$%25%5E&"),
            ("return url.parse('/a%2Fb/c d+e').path", "/a%2Fb/c%20d%2Be"),
            ("return tostring(url.parse('http://h/a%2Fb%3F?c=1'))", "http://h/a%2Fb%3F?c=1"),
            ("return url.parse('http://h/a'):addSegment('b/c').path", "/a/b%2Fc"),
            ("return s.parse('http://u:p@h:8/p?q#f').port .. s.parse('http://u:p@h:8/p?q#f').query", "8q"),
            ("return s.build(s.parse('http://u:p@h:8/p?q#f'))", "http://u:p@h:8/p?q#f"),
            ("return s.unescape(s.escape('a b/'))", "a b/"),
        ],
    );
}

#[test]
fn tokens_are_signed_and_verified() {
    let before = "local jwt = require('resty.jwt')
        local token = jwt:sign('secret', {header = {alg = 'HS256'}, payload = {sub = 'x', exp = ngx.time() + 60}})";
    check_all(
        before,
        &[
            ("local o = jwt:verify('secret', token) return tostring(o.verified) .. o.payload.sub", "truex"),
            ("return jwt:verify('other', token).verified", "false"),
            ("local o = jwt:verify('secret', token .. 'x') return o.verified", "false"),
            ("return jwt:verify('secret', 'x.y').reason", "invalid jwt string"),
            (
                "local old = jwt:sign('k', {header = {alg = 'HS512'}, payload = {exp = 5}}) return jwt:verify('k', old).reason:sub(1, 26)",
                "'exp' claim expired at Thu",
            ),
            (
                "local t = jwt:sign('-----BEGIN PUBLIC KEY-----', {header = {alg = 'HS256'}, payload = {}})
              return jwt:verify('-----BEGIN PUBLIC KEY-----', t).reason",
                "the key does not fit the algorithm",
            ),
            (
                "local n = ngx.encode_base64url('{\"alg\":\"none\"}') .. '.' .. ngx.encode_base64url('{}') .. '.' return jwt:verify('secret', n).verified",
                "false",
            ),
        ],
    );
}

#[test]
fn small_libraries_work_on_texts() {
    check_all(
        "local x = require('pl.stringx') local p = require('pl.path') local inspect = require('inspect')",
        &[
            ("return x.strip('  a b ') .. x.rstrip('xx--', '-') .. x.lstrip('--x', '-')", "a bxxx"),
            ("return table.concat(x.split('a,b,c', ',', 1), '|')", "a|b,c"),
            ("return x.replace('a.b.c', '.', '-') .. x.count('a.b.c', '.')", "a-b-c2"),
            (
                "return p.join('/a', 'b', 'c.txt') .. p.extension('c.txt') .. p.basename('/a/b') .. p.normpath('/a/../b/./c')",
                "/a/b/c.txt.txtb/b/c",
            ),
            ("return pcall(function() return p.exists end)", "false"),
            ("return inspect({1, 2})", "{ 1, 2 }"),
            ("return (inspect({a = 'x'}):gsub('%s+', ' '))", "{ a = \"x\" }"),
            (
                "local l = require('resty.lock'):new('locks') local w = l:lock('k') return w .. tostring(require('resty.lock'):new('locks', {timeout = 0}):lock('k'))",
                "0nil",
            ),
            (
                "local l = require('resty.lock'):new('locks2') l:lock('k') l:unlock() return require('resty.lock'):new('locks2'):lock('k')",
                "0",
            ),
        ],
    );
}
