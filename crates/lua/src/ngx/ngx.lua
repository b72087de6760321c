-- The table `ngx`, put together from the functions of Rust.
local native, library, scheduler = ...

local error, ipairs, pairs, rawget, rawset = error, ipairs, pairs, rawget, rawset
local select, setmetatable, type, unpack = select, setmetatable, type, unpack
local byte, concat, lower, sub = string.byte, table.concat, string.lower, string.sub
local gsub, tostring = library.strings.gsub, library.basics.tostring
local waiting = scheduler.waiting

local function absent(name)
    error("not available in Weir: " .. name .. " (see docs/reference/lua.md)", 3)
end

-- A table of which other members than these are errors that name them.
local function complete(what, members)
    return setmetatable(members, { __index = function(_, name) absent(what .. "." .. tostring(name)) end })
end

-- Repeated texts and joined lists count by their bytes, because each is one instruction.
local raw_rep, raw_concat = string.rep, table.concat
function library.strings.rep(text, count, separator)
    if type(text) == "string" and type(count) == "number" and count > 0 then
        local between = type(separator) == "string" and #separator or 0
        native.charge_bytes((#text + between) * count)
    end
    return raw_rep(text, count, separator)
end
function library.tables.concat(list, ...)
    local text = raw_concat(list, ...)
    native.charge_bytes(#text)
    return text
end

local ngx = {
    null = native.null,
    now = native.now, time = native.time, http_time = native.http_time, parse_http_time = native.parse_http_time,
    update_time = function() end,
    today = function() return library.times.date("!%Y-%m-%d") end,
    localtime = function() return library.times.date("!%Y-%m-%d %H:%M:%S") end,
    utctime = function() return library.times.date("!%Y-%m-%d %H:%M:%S") end,
    cookie_time = function(seconds) return library.times.date("!%a, %d-%b-%y %H:%M:%S GMT", seconds) end,
    sleep = waiting(native.start_sleep),
    escape_uri = function(text) return native.escape_uri(tostring(text)) end,
    unescape_uri = function(text) return native.unescape_uri(tostring(text)) end,
    encode_args = native.encode_args, decode_args = native.decode_args,
    encode_base64 = function(text, no_padding)
        text = tostring(text)
        return (no_padding and native.encode_base64_unpadded or native.encode_base64)(text)
    end,
    decode_base64 = native.decode_base64,
    encode_base64url = native.encode_base64url, decode_base64url = native.decode_base64url,
    md5 = native.md5, md5_bin = native.md5_bin, sha1_bin = native.sha1_bin, hmac_sha1 = native.hmac_sha1,
    crc32_short = native.crc32, crc32_long = native.crc32,
    quote_sql_str = function(text)
        local quoted = gsub(text, "[%z\b\n\r\t\26\"'\\]", {
            ["\0"] = "\\0", ["\b"] = "\\b", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\26"] = "\\Z",
            ['"'] = '\\"', ["'"] = "\\'", ["\\"] = "\\\\",
        })
        return "'" .. quoted .. "'"
    end,
    get_phase = native.get_phase,
    print = function(...) native.print(...) return 1 end,
    say = function(...) native.print(...) native.print("\n") return 1 end,
    flush = function() return 1 end,
    eof = function() return 1 end,
    send_headers = function() return 1 end,
    exit = native.start_exit,
    on_abort = function() return 1 end,
    OK = 0, ERROR = -1, AGAIN = -2, DONE = -4, DECLINED = -5,
    STDERR = 0, EMERG = 1, ALERT = 2, CRIT = 3, ERR = 4, WARN = 5, NOTICE = 6, INFO = 7, DEBUG = 8,
    HTTP_GET = 2, HTTP_HEAD = 4, HTTP_POST = 8, HTTP_PUT = 16, HTTP_DELETE = 32, HTTP_MKCOL = 64, HTTP_COPY = 128,
    HTTP_MOVE = 256, HTTP_OPTIONS = 512, HTTP_PROPFIND = 1024, HTTP_PROPPATCH = 2048, HTTP_LOCK = 4096,
    HTTP_UNLOCK = 8192, HTTP_PATCH = 16384, HTTP_TRACE = 32768,
    HTTP_CONTINUE = 100, HTTP_SWITCHING_PROTOCOLS = 101, HTTP_OK = 200, HTTP_CREATED = 201, HTTP_ACCEPTED = 202,
    HTTP_NO_CONTENT = 204, HTTP_PARTIAL_CONTENT = 206, HTTP_SPECIAL_RESPONSE = 300, HTTP_MOVED_PERMANENTLY = 301,
    HTTP_MOVED_TEMPORARILY = 302, HTTP_SEE_OTHER = 303, HTTP_NOT_MODIFIED = 304, HTTP_TEMPORARY_REDIRECT = 307,
    HTTP_PERMANENT_REDIRECT = 308, HTTP_BAD_REQUEST = 400, HTTP_UNAUTHORIZED = 401, HTTP_PAYMENT_REQUIRED = 402,
    HTTP_FORBIDDEN = 403, HTTP_NOT_FOUND = 404, HTTP_NOT_ALLOWED = 405, HTTP_NOT_ACCEPTABLE = 406,
    HTTP_REQUEST_TIMEOUT = 408, HTTP_CONFLICT = 409, HTTP_GONE = 410, HTTP_UPGRADE_REQUIRED = 426,
    HTTP_TOO_MANY_REQUESTS = 429, HTTP_CLOSE = 444, HTTP_ILLEGAL = 451, HTTP_INTERNAL_SERVER_ERROR = 500,
    HTTP_NOT_IMPLEMENTED = 501, HTTP_METHOD_NOT_IMPLEMENTED = 501, HTTP_BAD_GATEWAY = 502,
    HTTP_SERVICE_UNAVAILABLE = 503, HTTP_GATEWAY_TIMEOUT = 504, HTTP_VERSION_NOT_SUPPORTED = 505,
    HTTP_INSUFFICIENT_STORAGE = 507,
}

function ngx.log(level, ...)
    local parts = { ... }
    for index = 1, select("#", ...) do
        parts[index] = tostring(parts[index])
    end
    native.ngx_log(level, raw_concat(parts))
end

function ngx.redirect(uri, status)
    if status ~= nil and (status < 301 or status > 308) then
        error("only ngx.HTTP_MOVED_TEMPORARILY, ngx.HTTP_MOVED_PERMANENTLY, ngx.HTTP_PERMANENT_REDIRECT, "
            .. "ngx.HTTP_SEE_OTHER, and ngx.HTTP_TEMPORARY_REDIRECT are allowed", 2)
    end
    if native.headers_sent() then
        error("attempt to call ngx.redirect after sending out the headers", 2)
    end
    native.set_header("Location", uri)
    return native.start_exit(status or 302)
end

-- Variables: those of Weir, then those that programs have set for the request.
ngx.var = setmetatable({}, {
    __index = function(_, name)
        local value = native.get_variable(name)
        if value == nil then
            -- Values of other types than text are known to scripts alone.
            local own = native.own_variables()
            local kept = own and rawget(own, "_own")
            value = kept and kept[name] or nil
        end
        return value
    end,
    __newindex = function(_, name, value)
        local own = native.own_variables()
        if own then
            own[name] = value
        else
            native.set_variable(name, value)
        end
    end,
})

ngx.header = setmetatable({}, {
    __index = function(_, name) return native.get_header(name) end,
    __newindex = function(_, name, value) native.set_header(name, value) end,
})
ngx.arg = setmetatable({}, {
    __index = function(_, index) return native.get_chunk(index) end,
    __newindex = function(_, index, value) native.set_chunk(index, value) end,
})

-- Fields by name in any case, and with `_` for `-`.
local by_field_name = {
    __metatable = false,
    __index = function(fields, name)
        if type(name) == "string" then
            return rawget(fields, (gsub(lower(name), "_", "-")))
        end
    end,
}

local start_read_body = waiting(native.start_read_body)
-- The first bytes of a session of layer 4. They are only looked at: the node gets them all the same.
local start_peek = waiting(native.start_peek)
local function first_bytes()
    return complete("ngx.req.socket()", {
        peek = function(_, size)
            start_peek(size)
            return native.first_bytes(size)
        end,
        settimeout = function() end, settimeouts = function() end,
    })
end

ngx.req = complete("ngx.req", {
    socket = function()
        if not native.may_peek() then
            error("not available in Weir: ngx.req.socket in requests (see docs/reference/lua.md)", 2)
        end
        return first_bytes()
    end,
    get_headers = function(_, is_raw)
        if is_raw then
            return native.request_headers(true)
        end
        return setmetatable(native.request_headers(false), by_field_name)
    end,
    set_header = native.set_request_header, add_header = native.add_request_header,
    clear_header = function(name) native.set_request_header(name, nil) end,
    raw_header = native.raw_header,
    get_method = native.get_method, set_method = native.set_method,
    set_uri = function(uri, jump)
        if jump then
            error("ngx.req.set_uri: a jump is not available in Weir", 2)
        end
        native.set_uri(uri)
    end,
    get_uri_args = native.get_uri_args, set_uri_args = native.set_uri_args,
    get_post_args = native.get_post_args,
    read_body = function()
        if not native.has_body() then
            start_read_body()
            native.keep_body()
        end
    end,
    discard_body = function() end,
    get_body_data = native.get_body_data, set_body_data = native.set_body_data,
    get_body_file = function() end,
    start_time = native.start_time, http_version = native.http_version,
    is_internal = function() return false end,
})

ngx.resp = complete("ngx.resp", {
    get_headers = function(_, is_raw)
        if is_raw then
            return native.response_headers(true)
        end
        return setmetatable(native.response_headers(false), by_field_name)
    end,
    add_header = native.add_header,
})

-- Searches.
local groups = native.re_groups

local function found_groups(text, pattern, options, context, into)
    local from = context and context.pos or 1
    local first, last, found = groups(text, pattern, options, from)
    if not first then
        return nil, last
    end
    if context then
        context.pos = last + 1
    end
    if into then
        for name, value in pairs(found) do
            into[name] = value
        end
        found = into
    end
    return found
end

local function find(text, pattern, options, context, group)
    local first, last, _, places = groups(tostring(text), pattern, options, context and context.pos or 1)
    if not first then
        return nil, nil, last
    end
    if context then
        context.pos = last + 1
    end
    group = group or 0
    return places[group * 2], places[group * 2 + 1]
end

local function gmatch(text, pattern, options)
    text = tostring(text)
    local from = 1
    return function()
        if from > #text + 1 then
            return nil
        end
        local first, last, found = groups(text, pattern, options, from)
        if not first then
            from = #text + 2
            return nil, last
        end
        from = last >= first and last + 1 or last + 2
        return found
    end
end

-- The text that replaces a match: `$1`, `${1}`, `$name` stand for groups, `$$` for a dollar sign.
local function expand(form, found)
    return (gsub(form, "%$(%{?)([%w_%$]+)(%}?)", function(open, name, close)
        if name == "$" then
            return "$" .. close
        end
        if open == "" then
            local digits = library.strings.match(name, "^%d+")
            if digits then
                return (found[tonumber(digits)] or "") .. sub(name, #digits + 1) .. close
            end
            return (found[name] or "") .. close
        end
        return found[tonumber(name) or name] or ""
    end))
end

local function replace(text, pattern, form, options, most)
    text = tostring(text)
    local parts, size, from, count = {}, 0, 1, 0
    local at = 1
    while count < most and at <= #text + 1 do
        local first, last, found = groups(text, pattern, options, at)
        if not first then
            if last then
                return nil, nil, last
            end
            break
        end
        count = count + 1
        local value = type(form) == "function" and form(found) or nil
        if type(form) ~= "function" then
            value = expand(tostring(form), found)
        end
        parts[size + 1], parts[size + 2] = sub(text, from, first - 1), tostring(value or "")
        size, from = size + 2, last + 1
        at = last >= first and last + 1 or last + 2
    end
    parts[size + 1] = sub(text, from)
    return concat(parts), count
end

ngx.re = complete("ngx.re", {
    match = function(text, pattern, options, context, into)
        return found_groups(tostring(text), pattern, options, context, into)
    end,
    find = find, gmatch = gmatch,
    sub = function(text, pattern, form, options) return replace(text, pattern, form, options, 1) end,
    gsub = function(text, pattern, form, options) return replace(text, pattern, form, options, math.huge) end,
})

-- Dictionaries.
local of_dictionary = {}
local function dictionary_method(name, call)
    of_dictionary[name] = function(own, ...) return call(own.name, ...) end
end
dictionary_method("get", native.shared_get)
dictionary_method("get_stale", native.shared_get)
for _, name in ipairs({ "set", "safe_set", "add", "safe_add", "replace" }) do
    local store = native["shared_" .. name]
    of_dictionary[name] = function(own, key, value, seconds, flags)
        if key == nil then
            return nil, "nil key"
        end
        return store(own.name, tostring(key), value, seconds, flags)
    end
end
function of_dictionary.incr(own, key, step, first, seconds)
    return native.shared_incr(own.name, tostring(key), step, first, seconds)
end
dictionary_method("delete", native.shared_delete)
dictionary_method("ttl", native.shared_ttl)
dictionary_method("expire", native.shared_expire)
dictionary_method("llen", native.shared_length)
dictionary_method("get_keys", native.shared_keys)
function of_dictionary.lpush(own, key, value) return native.shared_push(own.name, key, value, true) end
function of_dictionary.rpush(own, key, value) return native.shared_push(own.name, key, value, false) end
function of_dictionary.lpop(own, key) return native.shared_pop(own.name, key, true) end
function of_dictionary.rpop(own, key) return native.shared_pop(own.name, key, false) end
function of_dictionary.flush_all(own) native.shared_flush(own.name, false) end
function of_dictionary.flush_expired(own) return native.shared_flush(own.name, true) end
function of_dictionary.capacity(own) return native.shared_size(own.name, false) end
function of_dictionary.free_space(own) return native.shared_size(own.name, true) end
local dictionary_metatable = { __index = of_dictionary, __metatable = false }
ngx.shared = setmetatable({}, {
    __computed = true,
    __index = function(own, name)
        local dictionary = setmetatable({ name = tostring(name) }, dictionary_metatable)
        rawset(own, name, dictionary)
        return dictionary
    end,
})

ngx.timer = complete("ngx.timer", {
    at = function(delay, call, ...) return native.timer(delay, false, call, ...) end,
    every = function(delay, call, ...) return native.timer(delay, true, call, ...) end,
    running_count = native.timer_count, pending_count = native.timer_count,
})

-- Light threads.
local of_thread = { __metatable = false }
local wait_threads = waiting(native.start_wait_threads)
ngx.thread = complete("ngx.thread", {
    spawn = function(call, ...)
        return setmetatable({ number = native.spawn(call, ...) }, of_thread)
    end,
    wait = function(...)
        local numbers = {}
        for index = 1, select("#", ...) do
            numbers[index] = (select(index, ...)).number
        end
        return wait_threads(unpack(numbers))
    end,
    kill = function(thread) return native.kill(thread.number) end,
})

-- Sockets.
local start_connect, start_handshake = waiting(native.start_connect), waiting(native.start_handshake)
local start_send, start_receive = waiting(native.start_send), waiting(native.start_receive)
local start_receive_any = waiting(native.start_receive_any)
local start_receive_until = waiting(native.start_receive_until)

local of_tcp = {}
local tcp_metatable = { __index = of_tcp, __metatable = false }
function of_tcp.connect(own, host, port, options)
    if type(port) == "table" then
        port, options = nil, port
    end
    return start_connect(own.handle, tostring(host), port, options and options.pool)
end
function of_tcp.sslhandshake(own, session, name, verifies)
    local ok, reason = start_handshake(own.handle, name, verifies and true or false)
    if ok and session == false then
        return true
    end
    return ok, reason
end
function of_tcp.send(own, data) return start_send(own.handle, data) end
function of_tcp.receive(own, pattern) return start_receive(own.handle, pattern) end
function of_tcp.receiveany(own, most) return start_receive_any(own.handle, most) end
function of_tcp.receiveuntil(own, pattern, options)
    local is_inclusive = options and options.inclusive or false
    return function(size)
        if size ~= nil then
            error("receiveuntil: a size is not available in Weir", 2)
        end
        return start_receive_until(own.handle, pattern, is_inclusive)
    end
end
function of_tcp.settimeout(own, milliseconds)
    native.tcp_timeouts(own.handle, milliseconds, milliseconds, milliseconds)
end
function of_tcp.settimeouts(own, connect, send, read) native.tcp_timeouts(own.handle, connect, send, read) end
function of_tcp.setkeepalive(own, idle, size) return native.tcp_keep(own.handle, idle, size) end
function of_tcp.getreusedtimes(own) return native.tcp_reused(own.handle) end
function of_tcp.close(own) return native.tcp_close(own.handle) end
function of_tcp.setoption() return 1 end

local of_udp = {}
local udp_metatable = { __index = of_udp, __metatable = false }
function of_udp.setpeername(own, host, port)
    local handle, reason = native.udp_open(tostring(host), port)
    own.handle = handle
    if not handle then
        return nil, reason
    end
    return 1
end
function of_udp.send(own, data)
    if not own.handle then
        return nil, "closed"
    end
    return native.udp_send(own.handle, data)
end
function of_udp.close(own)
    own.handle = nil
    return 1
end
function of_udp.settimeout() end
function of_udp.receive() absent("ngx.socket.udp:receive") end

local function tcp() return setmetatable({ handle = native.tcp_new() }, tcp_metatable) end
ngx.socket = complete("ngx.socket", {
    tcp = tcp, stream = tcp,
    connect = function(host, port, options)
        local socket = tcp()
        local ok, reason = socket:connect(host, port, options)
        if not ok then
            return nil, reason
        end
        return socket
    end,
    udp = function() return setmetatable({}, udp_metatable) end,
})

ngx.worker = complete("ngx.worker", {
    id = native.worker_id, pid = native.worker_pid, pids = function() return { native.worker_pid() } end,
    count = native.worker_count, exiting = function() return false end,
})
ngx.config = complete("ngx.config", {
    subsystem = "http", debug = false, prefix = function() return "" end, nginx_version = 1027001,
    ngx_lua_version = 10028, nginx_configure = function() return "" end,
})

local read = {
    status = native.get_status,
    ctx = native.get_ctx,
    headers_sent = native.headers_sent,
    is_subrequest = function() return false end,
}
local write = { status = native.set_status, ctx = native.set_ctx }
setmetatable(ngx, {
    __dynamic = read,
    __index = function(_, name)
        local get = read[name]
        if get then
            return get()
        end
        absent("ngx." .. tostring(name))
    end,
    __newindex = function(own, name, value)
        local set = write[name]
        if set then
            return set(value)
        end
        rawset(own, name, value)
    end,
})

return ngx
