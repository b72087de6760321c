-- resty.http: a client of HTTP/1.1 over the sockets of the gateway.
local http_headers, reader = require("resty.http_headers"), require("weir.http_reader")
local concat, find, format, lower = table.concat, string.find, string.format, string.lower
local match, setmetatable, sub, tonumber = string.match, setmetatable, string.sub, tonumber
local tostring, type, upper = tostring, type, string.upper

local Http = { _VERSION = "0.17.2" }
local of_clients = { __index = Http, __metatable = false }

local PORTS = { http = 80, https = 443 }
local AGENT = "lua-resty-http/" .. Http._VERSION .. " (Lua) Weir"
-- Requests of one pipeline.
local PIPELINE_MAX = 100

function Http.new()
    local socket, reason = ngx.socket.tcp()
    if not socket then
        return nil, reason
    end
    return setmetatable({ sock = socket, keepalive = true }, of_clients)
end

function Http:set_timeout(ms)
    return self.sock:settimeout(ms)
end

function Http:set_timeouts(connect_ms, send_ms, read_ms)
    return self.sock:settimeouts(connect_ms, send_ms, read_ms)
end

-- `connect(options)`, or `connect(host, port, options)` without TLS.
function Http:connect(options, port, more)
    if type(options) ~= "table" then
        more = more or {}
        options = {
            host = options, port = port, pool = more.pool, pool_size = more.pool_size, backlog = more.backlog,
        }
    end
    if options.proxy_opts then
        return nil, "not available in Weir: resty.http through a proxy"
    end
    local scheme = options.scheme and lower(options.scheme)
    if scheme and not PORTS[scheme] then
        return nil, "the scheme must be http or https"
    end
    self.scheme, self.host = scheme, options.host
    self.port = tonumber(options.port) or PORTS[scheme or "http"]
    self.keepalive = true
    local name = options.ssl_server_name or options.host
    local verify = options.ssl_verify ~= false
    local pool = options.pool
        or (scheme and format("%s:%s:%d:%s:%s", scheme, self.host, self.port, scheme == "https" and name or "", tostring(verify)))
    local ok, reason = self.sock:connect(self.host, self.port,
        { pool = pool, pool_size = options.pool_size, backlog = options.backlog })
    if not ok then
        return nil, reason
    end
    if scheme == "https" and (self.sock:getreusedtimes() or 0) == 0 then
        local session, fault = self.sock:sslhandshake(nil, name, verify)
        if not session then
            self.sock:close()
            return nil, fault
        end
        self.ssl = true
    end
    return true
end

function Http:ssl_handshake(...)
    self.ssl, self.scheme = true, "https"
    return self.sock:sslhandshake(...)
end

function Http:get_reused_times()
    return self.sock:getreusedtimes()
end

-- Gives the connection back for later clients. 2 where it cannot be used again, and it is closed then.
function Http:set_keepalive(...)
    if self.keepalive and not self.is_reading then
        return self.sock:setkeepalive(...)
    end
    local ok, reason = self.sock:close()
    if ok then
        return 2, "connection must be closed"
    end
    return nil, reason
end

function Http:close()
    return self.sock:close()
end

-- Scheme, host, port, path and query of `uri`; without `is_apart` the query is a part of the path.
function Http:parse_uri(uri, is_apart)
    local scheme, rest = match(uri, "^([hH][tT][tT][pP][sS]?)://(.*)$")
    if not scheme then
        rest = match(uri, "^//(.*)$")
    end
    if not rest then
        return nil, "bad uri: " .. uri
    end
    local authority, behind = match(rest, "^([^/?#]+)(.*)$")
    if not authority then
        return nil, "bad uri: " .. uri
    end
    local host, port = match(authority, "^(%[[^%]]+%]):?(%d*)$")
    if not host then
        host, port = match(authority, "^([^:%[%]@]+):?(%d*)$")
    end
    if not host then
        return nil, "bad uri: " .. uri
    end
    scheme = scheme and lower(scheme) or ngx.var.scheme or "http"
    behind = match(behind, "^([^#]*)")
    local path, query = match(behind, "^([^?]*)%??(.*)$")
    if path == "" then
        path = "/"
    end
    if is_apart == false then
        return { scheme, host, tonumber(port) or PORTS[scheme], path, query }
    end
    if query ~= "" then
        path = path .. "?" .. query
    end
    return { scheme, host, tonumber(port) or PORTS[scheme], path, "" }
end

-- Whether a text can stand in a line of the head.
local function fits(text)
    return not find(tostring(text), "[\r\n%z]")
end

local function head_of(self, params, headers)
    local method = upper(params.method or "GET")
    local target, query = params.path or "/", params.query
    if type(query) == "table" then
        query = ngx.encode_args(query)
    end
    if query and query ~= "" then
        target = target .. (sub(query, 1, 1) == "?" and "" or "?") .. query
    end
    if not fits(method) or not fits(target) or find(target, " ", 1, true) or find(method, " ", 1, true) then
        return nil, "invalid character in the request line"
    end
    local lines = { format("%s %s HTTP/%.1f\r\n", method, target, params.version or 1.1) }
    for name, value in pairs(headers) do
        for _, one in ipairs(type(value) == "table" and value or { value }) do
            if not fits(name) or not fits(one) then
                return nil, "invalid character in the header " .. tostring(name):gsub("[%c]", "?")
            end
            lines[#lines + 1] = tostring(name) .. ": " .. tostring(one) .. "\r\n"
        end
    end
    lines[#lines + 1] = "\r\n"
    self.method = method
    return concat(lines)
end

local function send_parts(socket, next_part, is_chunked)
    while true do
        local part, reason = next_part()
        if reason then
            return nil, reason
        elseif not part then
            break
        end
        if part ~= "" then
            local ok, fault = socket:send(is_chunked and format("%x\r\n%s\r\n", #part, part) or part)
            if not ok then
                return nil, fault
            end
        end
    end
    if is_chunked then
        return socket:send("0\r\n\r\n")
    end
    return true
end

-- Sends a request; the response is read by `read_response`.
function Http:send_request(params)
    local headers = http_headers.new(params.headers)
    local body, is_chunked = params.body, false
    if type(body) == "table" then
        body = concat(body)
    end
    if type(body) == "function" then
        is_chunked = headers["Content-Length"] == nil
        if is_chunked then
            headers["Transfer-Encoding"] = "chunked"
        end
    elseif body ~= nil then
        body = tostring(body)
        headers["Transfer-Encoding"] = nil
        headers["Content-Length"] = #body
    elseif headers["Content-Length"] == nil and find("POST PUT PATCH", upper(params.method or "GET"), 1, true) then
        headers["Content-Length"] = 0
    end
    if not headers["Host"] and self.host then
        local is_default = self.port == PORTS[(self.ssl or self.scheme == "https") and "https" or "http"]
        headers["Host"] = is_default and self.host or self.host .. ":" .. tostring(self.port)
    end
    headers["User-Agent"] = headers["User-Agent"] or AGENT
    if params.version == 1.0 and not headers["Connection"] then
        headers["Connection"] = "Keep-Alive"
    end
    local head, reason = head_of(self, params, headers)
    if not head then
        return nil, reason
    end
    local wanted = headers["Connection"]
    if type(wanted) == "string" and find(lower(wanted), "close", 1, true) then
        self.keepalive = false
    end
    local is_text = type(body) == "string"
    local ok, fault = self.sock:send(is_text and head .. body or head)
    if not ok then
        return nil, fault
    end
    if type(body) == "function" then
        ok, fault = send_parts(self.sock, body, is_chunked)
        if not ok then
            return nil, fault
        end
    end
    return true
end

local Response = {}
local of_responses = { __index = Response, __metatable = false }

-- The whole body; empty where there is none.
function Response:read_body()
    if not self.body_reader then
        return ""
    end
    return reader.all(self.body_reader)
end

function Response:read_trailers()
    return self.headers
end

-- Reads the head of the response; its body is read by `read_body` or `body_reader`.
function Http:read_response(params)
    self.is_reading = true
    local head, reason = reader.head(self.sock)
    if not head then
        self.keepalive = false
        return nil, reason
    end
    local connection = head.headers["Connection"]
    connection = lower(type(connection) == "table" and concat(connection, ",") or connection or "")
    if find(connection, "close", 1, true) or (head.version < 1.1 and not find(connection, "keep-alive", 1, true)) then
        self.keepalive = false
    end
    if head.status == 101 then
        self.keepalive = false
    end
    local read, fault = reader.body(self.sock, head, self.method or params.method, function() self.is_reading = false end)
    if fault then
        self.keepalive = false
        return nil, fault
    end
    return setmetatable({
        status = head.status, reason = head.reason, headers = head.headers, has_body = read ~= nil, body_reader = read,
    }, of_responses)
end

-- Sends a request over the connection and reads the head of its response.
function Http:request(params)
    local ok, reason = self:send_request(params)
    if not ok then
        self.keepalive = false
        return nil, reason
    end
    return self:read_response(params)
end

-- Sends requests one behind another. Responses are read when a field of them is, in order.
function Http:request_pipeline(requests)
    if #requests > PIPELINE_MAX then
        return nil, "more than " .. PIPELINE_MAX .. " requests"
    end
    local responses = {}
    for index, params in ipairs(requests) do
        local ok, reason = self:send_request(params)
        if not ok then
            return nil, reason
        end
        local method = upper(params.method or "GET")
        responses[index] = setmetatable({}, {
            __index = function(response, name)
                setmetatable(response, of_responses)
                self.method = method
                local read, fault = self:read_response(params)
                for field, value in pairs(read or { err = fault }) do
                    response[field] = value
                end
                return response[name]
            end,
        })
    end
    return responses
end

-- One request to `uri` with a connection of its own or a kept one; the response has its `body`.
function Http:request_uri(uri, options)
    local params = {}
    for name, value in pairs(options or {}) do
        params[name] = value
    end
    local parsed, reason = self:parse_uri(uri, false)
    if not parsed then
        return nil, reason
    end
    local ok, fault = self:connect({
        scheme = parsed[1], host = parsed[2], port = parsed[3], pool = params.keepalive_pool_name,
        ssl_verify = params.ssl_verify, ssl_server_name = params.ssl_server_name, proxy_opts = params.proxy_opts,
    })
    if not ok then
        return nil, fault
    end
    params.path = params.path or parsed[4]
    params.query = params.query or parsed[5]
    if params.keepalive == false then
        params.headers = http_headers.new(params.headers)
        params.headers["Connection"] = params.headers["Connection"] or "close"
    end
    local response, body
    response, reason = self:request(params)
    if response then
        body, reason = response:read_body()
    end
    if not body then
        self:close()
        return nil, reason
    end
    response.body = body
    if params.keepalive == false then
        self:close()
    else
        self:set_keepalive(params.keepalive_timeout, params.keepalive_pool)
    end
    return response
end

-- A reader of the body of the request that is served.
function Http:get_client_body_reader()
    local is_read = false
    return function()
        if is_read then
            return nil
        end
        is_read = true
        ngx.req.read_body()
        return ngx.req.get_body_data()
    end
end

return Http
