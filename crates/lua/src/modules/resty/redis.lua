-- resty.redis: a client of Redis over the sockets of the gateway.
local _, native = ...
local concat, match, setmetatable, sub = table.concat, string.match, setmetatable, string.sub
local rawget, select, tonumber, tostring, type = rawget, select, tonumber, tostring, type
local upper = string.upper

local Redis = { _VERSION = "0.31", null = native.null }

-- Arrays of a reply inside each other, elements of one array, and bytes of one text.
local DEPTH_MAX, ELEMENTS_MAX, TEXT_BYTES_MAX = 8, 100000, 16777216
-- Commands of one pipeline.
local PIPELINE_MAX = 10000

local of_connections = {
    __metatable = false,
    -- Each other name is a command.
    __index = function(self, name)
        local known = Redis[name]
        if known ~= nil or type(name) ~= "string" then
            return known
        end
        local prefix = rawget(self, "_prefixes") and rawget(self, "_prefixes")[name]
        if prefix then
            return setmetatable({}, {
                __index = function(_, command)
                    return function(_, ...) return self:command(upper(name .. "." .. command), ...) end
                end,
            })
        end
        local function call(connection, ...)
            return connection:command(upper(name), ...)
        end
        Redis[name] = call
        return call
    end,
}

function Redis.new()
    local socket, reason = ngx.socket.tcp()
    if not socket then
        return nil, reason
    end
    return setmetatable({ _sock = socket, _subscribed = false }, of_connections)
end

function Redis.register_module_prefix() end

function Redis.add_commands() end

function Redis:set_timeout(ms)
    return self._sock:settimeout(ms)
end

function Redis:set_timeouts(connect_ms, send_ms, read_ms)
    return self._sock:settimeouts(connect_ms, send_ms, read_ms)
end

-- `options`: `pool`, `pool_size`, `backlog`, `ssl`, `ssl_verify`, `server_name`.
function Redis:connect(host, port, options)
    self._subscribed, self._pipeline = false, nil
    options = type(port) == "table" and port or options or {}
    if type(port) == "table" or match(host, "^unix:") then
        return nil, "not available in Weir: sockets of the file system"
    end
    local pool = options.pool
        or (options.ssl and concat({ "redis", host, port, tostring(options.server_name), tostring(options.ssl_verify) }, ":"))
    local ok, reason = self._sock:connect(host, port, { pool = pool, pool_size = options.pool_size, backlog = options.backlog })
    if not ok then
        return nil, reason
    end
    if options.ssl and (self._sock:getreusedtimes() or 0) == 0 then
        local session, fault = self._sock:sslhandshake(nil, options.server_name, options.ssl_verify)
        if not session then
            self._sock:close()
            return nil, "failed to do ssl handshake: " .. tostring(fault)
        end
    end
    return true
end

function Redis:set_keepalive(...)
    if self._subscribed then
        return nil, "subscribed state"
    end
    return self._sock:setkeepalive(...)
end

function Redis:get_reused_times()
    return self._sock:getreusedtimes()
end

function Redis:close()
    self._subscribed = false
    return self._sock:close()
end

local read

local function read_text(socket, size)
    if size < 0 then
        return native.null
    elseif size > TEXT_BYTES_MAX then
        return nil, "reply of " .. size .. " bytes"
    end
    local text, reason = socket:receive(size)
    if not text then
        return nil, reason
    end
    local line_end, fault = socket:receive(2)
    if not line_end then
        return nil, fault
    end
    return text
end

local function read_array(socket, count, depth)
    if count < 0 then
        return native.null
    elseif count > ELEMENTS_MAX or depth >= DEPTH_MAX then
        return nil, "reply too large"
    end
    local values = {}
    for index = 1, count do
        local value, reason = read(socket, depth + 1)
        if value == nil then
            return nil, reason
        elseif value == false then
            value = { false, reason }
        end
        values[index] = value
    end
    return values
end

-- The next reply; false and the message for an error of Redis, nothing and the reason for one of the connection.
function read(socket, depth)
    local line, reason = socket:receive("*l")
    if not line then
        if reason == "timeout" then
            socket:close()
        end
        return nil, reason
    end
    local kind, rest = sub(line, 1, 1), sub(line, 2)
    if kind == "+" then
        return rest
    elseif kind == "-" then
        return false, rest
    elseif kind ~= ":" and kind ~= "$" and kind ~= "*" then
        return nil, "unknown prefix: \"" .. kind .. "\""
    end
    local number = tonumber(rest)
    if not number then
        return nil, "malformed reply"
    elseif kind == ":" then
        return number
    elseif kind == "$" then
        return read_text(socket, number)
    end
    return read_array(socket, number, depth)
end

local function append(parts, value)
    value = type(value) == "string" and value or tostring(value)
    parts[#parts + 1] = "$" .. #value .. "\r\n"
    parts[#parts + 1] = value
    parts[#parts + 1] = "\r\n"
end

local function written(name, ...)
    local count, parts = select("#", ...), {}
    if count == 1 and type((...)) == "table" then
        -- A list of arguments.
        local list = (...)
        parts[1] = "*" .. #list + 1 .. "\r\n"
        append(parts, name)
        for index = 1, #list do
            append(parts, list[index])
        end
        return concat(parts)
    end
    parts[1] = "*" .. count + 1 .. "\r\n"
    append(parts, name)
    for index = 1, count do
        append(parts, (select(index, ...)))
    end
    return concat(parts)
end

-- Sends a command and reads its reply, or adds it to the pipeline.
function Redis:command(name, ...)
    local text = written(name, ...)
    local pipeline = rawget(self, "_pipeline")
    if pipeline then
        if #pipeline >= PIPELINE_MAX then
            return nil, "more than " .. PIPELINE_MAX .. " commands in a pipeline"
        end
        pipeline[#pipeline + 1] = text
        return
    end
    local ok, reason = self._sock:send(text)
    if not ok then
        return nil, reason
    end
    return read(self._sock, 0)
end

-- `hmset(key, table)` or `hmset(key, field, value, ...)`.
function Redis:hmset(key, ...)
    if select("#", ...) ~= 1 then
        return self:command("HMSET", key, ...)
    end
    local list = { key }
    for name, value in pairs((...)) do
        list[#list + 1], list[#list + 2] = name, value
    end
    return self:command("HMSET", list)
end

function Redis:array_to_hash(list)
    local fields = {}
    for index = 1, #list, 2 do
        fields[list[index]] = list[index + 1]
    end
    return fields
end

function Redis:init_pipeline()
    self._pipeline = {}
end

function Redis:cancel_pipeline()
    self._pipeline = nil
end

-- Sends the commands of the pipeline; the list of their replies, each error as `{ false, MESSAGE }`.
function Redis:commit_pipeline()
    local pipeline = rawget(self, "_pipeline")
    if not pipeline then
        return nil, "no pipeline"
    end
    self._pipeline = nil
    local ok, reason = self._sock:send(concat(pipeline))
    if not ok then
        return nil, reason
    end
    local replies = {}
    for index = 1, #pipeline do
        local value, fault = read(self._sock, 0)
        if value == nil then
            return nil, fault
        end
        replies[index] = value == false and { false, fault } or value
    end
    return replies
end

local function subscribing(name)
    return function(self, ...)
        self._subscribed = true
        return self:command(name, ...)
    end
end
Redis.subscribe, Redis.psubscribe = subscribing("SUBSCRIBE"), subscribing("PSUBSCRIBE")

function Redis:unsubscribe(...)
    local reply, reason = self:command("UNSUBSCRIBE", ...)
    self._subscribed = false
    return reply, reason
end

-- The next message of a subscription.
function Redis:read_reply()
    if not self._subscribed then
        return nil, "not subscribed"
    end
    return read(self._sock, 0)
end

return Redis
