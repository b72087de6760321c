-- apisix.core.utils: addresses, texts with variables, and checks of configurations.
local _, native = ...
local log = require("apisix.core.log")
local matcher = require("resty.ipmatcher")
local byte, find, format, gsub = string.byte, string.find, string.format, string.gsub
local match, sub = string.match, string.sub
local ipairs, tonumber, tostring, type = ipairs, tonumber, tostring, type
local floor = math.floor

-- Seconds that one step of a sleep takes, so that a sleeping script notices the end of the worker.
local SLEEP_STEP = 1
-- Templates that are kept parsed; all are dropped when there are more.
local TEMPLATES_MAX = 1000

local M = { version = 0.2, parse_ipv4 = matcher.parse_ipv4, parse_ipv6 = matcher.parse_ipv6 }

function M.get_seed_from_urandom()
    local seed = 0
    for index = 1, 8 do
        seed = 256 * seed + byte(native.random(8), index)
    end
    return seed
end

function M.split_uri(uri)
    return require("ngx.re").split(uri, "/")
end

function M.dns_parse(name)
    local address, reason = require("apisix.core.resolver").parse_domain(name)
    if not address then
        return nil, reason
    end
    return { address = address, name = name }
end

local function host_and_port(text)
    local host, port = match(text, "^(.*):([^:]+)$")
    if not host then
        return text, nil
    end
    return host, tonumber(port)
end

-- The host and the port of `HOST:PORT`; addresses of IPv6 have a port only inside brackets.
function M.parse_addr(text)
    if byte(text, 1) == 91 then
        local host, port = match(text, "^(%[.*%]):([^:]+)$")
        if host then
            return host, tonumber(port)
        end
        return text, nil
    end
    local dot, first = find(text, ".", 1, true), find(text, ":", 1, true)
    local second = first and find(text, ":", first + 1, true)
    if second and not (dot and dot < second) then
        return text
    end
    return host_and_port(text)
end

local function percent(char)
    return format("%%%02X", byte(char))
end

function M.uri_safe_encode(uri)
    return (gsub(uri, "[%z\1-\32#%%?\127-\255]", percent))
end

function M.escape_uri_control_chars(uri)
    return (gsub(uri, "[%z\1-\31\127]", percent))
end

function M.validate_header_field(name)
    return find(name, "[^!-9;-~]") == nil
end

function M.validate_header_value(value)
    return type(value) ~= "string" or find(value, "[^ -~]") == nil
end

function M.gethostname()
    return native.hostname
end

-- Sleeps, and returns early when the worker ends.
function M.sleep(seconds)
    while seconds > SLEEP_STEP do
        ngx.sleep(SLEEP_STEP)
        if ngx.worker.exiting() then
            return
        end
        seconds = seconds - SLEEP_STEP
    end
    return ngx.sleep(seconds)
end

-- The place of the next `$NAME` or `${ NAME ?? default }` from `from`: first and last byte, name and default.
local function next_variable(text, from)
    while true do
        local at = find(text, "$", from, true)
        if not at then
            return nil
        end
        if at == 1 or byte(text, at - 1) ~= 92 then
            local _, last, inner = find(text, "^{%s*([^}]-)%s*}", at + 1)
            if not inner then
                _, last, inner = find(text, "^([%w_%.]+)", at + 1)
            end
            if inner and inner ~= "" then
                local name, default = match(inner, "^(.-)%s*%?%?%s*(.*)$")
                return at, last, name or inner, default
            end
        end
        from = at + 1
    end
end

local templates, templates_count = {}, 0

local function parsed(text)
    local parts = templates[text]
    if parts then
        return parts
    end
    parts = {}
    local from = 1
    while true do
        local first, last, name, default = next_variable(text, from)
        if not first then
            break
        end
        parts[#parts + 1] = sub(text, from, first - 1)
        parts[#parts + 1] = { name = name, default = default }
        from = last + 1
    end
    parts[#parts + 1] = sub(text, from)
    if templates_count >= TEMPLATES_MAX then
        templates, templates_count = {}, 0
    end
    templates[text], templates_count = parts, templates_count + 1
    return parts
end

-- `text` with the values of `variables`, an error, and the number of variables that had a value.
function M.resolve_var(text, variables, escape)
    if not text or not find(text, "$", 1, true) then
        return text, nil, 0
    end
    local parts, made, resolved = parsed(text), {}, 0
    for index = 1, #parts do
        local part = parts[index]
        if type(part) == "string" then
            made[index] = part
        else
            local value = variables[part.name]
            if value == nil then
                value = part.default
            end
            if value == nil then
                made[index] = ""
            else
                resolved = resolved + 1
                value = tostring(value)
                made[index] = escape and escape(value) or value
            end
        end
    end
    return table.concat(made), nil, resolved
end

-- `text` with `$1` and `${2}` replaced by captures of a pattern.
function M.resolve_var_with_captures(text, captures)
    if not text or not find(text, "$", 1, true) then
        return text, nil
    end
    captures = captures or {}
    local made, from = {}, 1
    while true do
        local at = find(text, "$", from, true)
        if not at then
            break
        end
        local _, last, number = find(text, "^{?(%d+)}?", at + 1)
        if number and (at == 1 or byte(text, at - 1) ~= 92) then
            made[#made + 1] = sub(text, from, at - 1) .. tostring(captures[tonumber(number)] or "")
            from = last + 1
        else
            made[#made + 1] = sub(text, from, at)
            from = at + 1
        end
    end
    made[#made + 1] = sub(text, from)
    return table.concat(made), nil
end

-- The table and the last name of a path such as `a.b.c`.
local function field_of(path, conf)
    local last
    for name in path:gmatch("[^%.]+") do
        if last then
            conf = conf[last]
            if type(conf) ~= "table" then
                return nil
            end
        end
        last = name
    end
    return conf, last
end

-- Warns of addresses without TLS in the fields `fields` of a configuration.
function M.check_https(fields, conf, plugin)
    for _, field in ipairs(fields) do
        local owner, name = field_of(field, conf)
        local value = owner and owner[name]
        local values = type(value) == "table" and value or { value }
        for _, uri in ipairs(values) do
            if sub(tostring(uri), 1, 5) ~= "https" then
                log.warn("Using ", plugin, " ", field, " with no TLS is a security risk")
            end
        end
    end
end

-- Warns of switched off checks of certificates.
function M.check_tls_bool(fields, conf, plugin)
    for _, field in ipairs(fields) do
        local owner, name = field_of(field, conf)
        if not owner then
            return
        end
        if owner[name] ~= true and owner[name] ~= nil then
            log.warn("Keeping ", field, " disabled in ", plugin, " configuration is a security risk")
        end
    end
end

function M.set_var_rate_limiting_info(ctx, key, limit, remaining, reset)
    if not ctx then
        return
    end
    ctx.var.rate_limiting_info = format(
        '{"rate_limiting_key":"%s","rate_limiting_limit":%d,"rate_limiting_remaining":%d,"rate_limiting_reset":%d}',
        key or "", limit or 0, tonumber(remaining) or 0, reset or 0
    )
end

-- A UUID of version 7: 48 bits of milliseconds, then random bits.
function M.generate_uuid_v7()
    local ms = floor(ngx.now() * 1000)
    local random = native.to_hex(native.random(10))
    return format("%08x-%04x-7%s-%x%s-%s", floor(ms / 65536), ms % 65536, sub(random, 1, 3),
        8 + byte(random, 4) % 4, sub(random, 5, 7), sub(random, 8, 19))
end

return M
