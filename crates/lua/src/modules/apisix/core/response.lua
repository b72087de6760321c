-- apisix.core.response: answers of plugins, headers of the response, and its body in parts.
local _, native = ...
local add_one = require("ngx.resp").add_header
local concat, sub = table.concat, string.sub
local error, pairs, select, tonumber, type = error, pairs, select, tonumber, type

local M = { version = 0.1 }

-- Lets `call` change each answer of this request: it gets and gives the status, the body and the headers.
function M.exit_insert_callback(call, conf)
    local ctx = ngx.ctx
    local calls = ctx.apisix_exit_callback_funcs or {}
    calls[#calls + 1] = { call = call, conf = conf }
    ctx.apisix_exit_callback_funcs = calls
end

local function encoded(value)
    local text, reason = native.json_encode(value)
    if not text then
        error("failed to encode data: " .. reason, 0)
    end
    return text
end

local function finish(code)
    if code then
        local ctx = ngx.ctx.api_ctx
        if ctx and not ctx._resp_source then
            ctx._resp_source = "apisix"
        end
        return ngx.exit(code)
    end
end

local function exit_by(calls, code, body)
    local headers = {}
    for index = 1, #calls do
        code, body, headers = calls[index].call(code, body, headers, calls[index].conf)
    end
    if code then
        ngx.status = code
    end
    for name, value in pairs(headers or {}) do
        ngx.header[name] = value
    end
    if type(body) == "table" then
        ngx.print(encoded(body), "\n")
    elseif body ~= nil then
        ngx.print(body)
    end
    return finish(code)
end

-- Answers with `code` and the parts of a body; a table becomes a line of JSON. Without a status the parts are printed only.
function M.exit(code, ...)
    local parts, count = {}, 0
    if code and type(code) ~= "number" then
        parts[1], count, code = code, 1, nil
    end
    for index = 1, select("#", ...) do
        local part = (select(index, ...))
        if part ~= nil then
            count = count + 1
            parts[count] = part
        end
    end
    local calls = not native.is_session() and ngx.ctx.apisix_exit_callback_funcs
    if calls then
        return exit_by(calls, code, parts[1])
    end
    if code then
        ngx.status = code
    end
    for index = 1, count do
        if type(parts[index]) == "table" then
            parts[index] = encoded(parts[index]) .. "\n"
        else
            parts[index] = tostring(parts[index])
        end
    end
    -- A session of layer 4 is closed without an answer.
    if count > 0 and not native.is_session() then
        ngx.print(concat(parts))
    end
    return finish(code)
end

function M.say(...)
    M.exit(nil, ...)
end

local function set_one(name, value)
    ngx.header[name] = value
end

local function change(set, ...)
    if ngx.headers_sent then
        error("headers have already been sent", 3)
    end
    local count = select("#", ...)
    if count == 1 then
        local headers = (...)
        if type(headers) ~= "table" then
            ngx.header[headers] = nil
            return
        end
        for name, value in pairs(headers) do
            set(name, value)
        end
        return
    end
    for index = 1, count, 2 do
        local name, value = select(index, ...)
        set(name, value)
    end
end

function M.set_header(...)
    change(set_one, ...)
end

function M.add_header(...)
    change(add_one, ...)
end

function M.get_upstream_status(ctx)
    return tonumber(sub(ctx.var.upstream_status or "", -3))
end

function M.set_response_source(ctx, source)
    if ctx then
        ctx._resp_source = source
    end
end

function M.get_last_upstream_token(text)
    local last
    for token in (text or ""):gmatch("[^%s,]+") do
        last = token
    end
    return last
end

-- Where the response comes from: `apisix` for answers of plugins, `upstream`, or `nginx` for failures of the proxy.
function M.get_response_source(ctx)
    if not ctx then
        return "apisix"
    elseif ctx._resp_source then
        return ctx._resp_source
    end
    local last = M.get_last_upstream_token(ngx.var.upstream_header_time)
    if last and last ~= "-" then
        ctx._resp_source = "upstream"
    elseif ngx.var.upstream_addr then
        ctx._resp_source = "nginx"
    else
        return "apisix"
    end
    return ctx._resp_source
end

-- Removes the headers that do not hold for a changed body.
function M.clear_header_as_body_modified()
    ngx.header.content_length = nil
    ngx.header.content_encoding = nil
    ngx.header.last_modified = nil
    ngx.header.etag = nil
end

-- Collects the response body in a body filter. Gives the whole body at its end, or its first `size_max` bytes once they are
-- there, and nothing before. Without `is_copy` the parts are taken away, so that the caller sends the whole body.
function M.hold_body_chunk(ctx, is_copy, size_max, key)
    local chunk, is_end = ngx.arg[1], ngx.arg[2]
    key = key or ctx._plugin_name or "hold_body_chunk"
    local buffers = ctx._body_buffer or {}
    ctx._body_buffer = buffers
    local buffer = buffers[key]
    if type(chunk) == "string" and chunk ~= "" then
        if buffer and buffer.is_done then
            return nil
        end
        if not buffer then
            buffer = { count = 0, bytes = 0 }
            buffers[key] = buffer
        end
        buffer.count, buffer.bytes = buffer.count + 1, buffer.bytes + #chunk
        buffer[buffer.count] = chunk
        if size_max and buffer.bytes >= size_max then
            buffer.is_done = true
            return sub(concat(buffer, "", 1, buffer.count), 1, size_max)
        end
    end
    if is_end then
        if not buffer then
            return chunk
        elseif buffer.is_done then
            return nil
        end
        buffers[key] = nil
        return concat(buffer, "", 1, buffer.count)
    end
    if not is_copy then
        ngx.arg[1] = nil
    end
    return nil
end

return M
