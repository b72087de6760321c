-- apisix.core.request: the request as plugins of APISIX read and change it.
local _, native = ...
local log, json = require("apisix.core.log"), require("apisix.core.json")
local add_header = require("ngx.req").add_header
local find, format, match = string.find, string.format, string.match
local error, tonumber, type = error, tonumber, type

local M = {}

local function of(ctx)
    return ctx or ngx.ctx.api_ctx
end

local function headers()
    return ngx.req.get_headers()
end

function M.headers()
    return headers()
end

-- The first value of the header `name`.
function M.header(_, name)
    return native.request_header(name)
end

local function change(ctx, name, value, is_replaced)
    if type(ctx) == "string" then
        ctx, name, value = nil, ctx, name
        log.warn("DEPRECATED: use ", is_replaced and "set" or "add", "_header(ctx, header_name, header_value) instead")
    end
    if type(name) ~= "string" then
        error(format("invalid header name %q: got %s, expected string", tostring(name), type(name)), 3)
    end
    if is_replaced then
        ngx.req.set_header(name, value)
    else
        add_header(name, value)
    end
end

function M.set_header(ctx, name, value)
    change(ctx, name, value, true)
end

function M.add_header(ctx, name, value)
    change(ctx, name, value, false)
end

function M.get_ip(ctx)
    local variables = of(ctx).var
    return variables.realip_remote_addr or variables.remote_addr or ""
end

function M.get_remote_client_ip(ctx)
    return of(ctx).var.remote_addr or ""
end

function M.get_remote_client_port(ctx)
    return tonumber(of(ctx).var.remote_port)
end

-- The arguments of the query, kept for the request until they are set.
function M.get_uri_args(ctx)
    ctx = of(ctx)
    if not ctx.req_uri_args then
        ctx.req_uri_args = ngx.req.get_uri_args(0)
    end
    return ctx.req_uri_args
end

function M.set_uri_args(ctx, args)
    of(ctx).req_uri_args = nil
    return ngx.req.set_uri_args(args)
end

-- The fields of an urlencoded form in the body.
function M.get_post_args(ctx)
    ctx = of(ctx)
    if not ctx.req_post_args then
        ngx.req.read_body()
        local args, reason = ngx.req.get_post_args(0)
        if not args then
            log.error("the post form is too large: ", reason)
            args = {}
        end
        ctx.req_post_args = args
    end
    return ctx.req_post_args
end

local function exceeds(size, size_max)
    if size_max and size > size_max then
        return "request size " .. size .. " is greater than the maximum size " .. size_max .. " allowed"
    end
end

-- The whole body, or nothing where there is none; nothing and the reason where it is longer than `size_max` bytes.
function M.get_body(size_max, ctx)
    if size_max then
        local announced = tonumber((ctx and ctx.var or ngx.var).http_content_length)
        local reason = announced and exceeds(announced, size_max)
        if reason then
            return nil, reason
        end
    end
    ngx.req.read_body()
    local body = ngx.req.get_body_data()
    if not body then
        return nil
    end
    local reason = exceeds(#body, size_max)
    if reason then
        return nil, reason
    end
    return body
end

local JSON, FORM, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
-- Parts of one multipart body that are read.
local PARTS_MAX = 1000

-- The fields of a multipart form by name: the text of each part, and a list where a name comes twice.
local function multipart(body, content_type)
    local boundary = match(content_type, 'boundary="([^"]+)"') or match(content_type, "boundary=([^;%s]+)")
    if not boundary then
        return nil
    end
    local mark, fields, count = "--" .. boundary, {}, 0
    local _, from = find(body, mark, 1, true)
    while from and count < PARTS_MAX do
        local first, last = find(body, mark, from + 1, true)
        if not first then
            break
        end
        local part = body:sub(from + 1, first - 1)
        local head_end, text_start = find(part, "\r\n\r\n", 1, true)
        local name = head_end and match(part:sub(1, head_end), '[%s;]name="([^"]*)"')
        if name then
            local text, known = part:sub(text_start + 1, -3), fields[name]
            if known == nil then
                fields[name] = text
            elseif type(known) == "table" then
                known[#known + 1] = text
            else
                fields[name] = { known, text }
            end
        end
        count, from = count + 1, last
    end
    return fields
end

local readers = {
    [JSON] = function(ctx, size_max)
        local body, reason = M.get_body(size_max, ctx)
        if not body then
            return nil, "could not get body: " .. (reason or "request body is empty")
        end
        local value, fault = json.decode(body)
        if not value then
            return nil, "could not parse JSON request body: " .. (fault or "invalid JSON")
        end
        return value
    end,
    [FORM] = function(ctx)
        return M.get_post_args(ctx)
    end,
    [MULTIPART] = function(ctx, size_max, content_type)
        local body, reason = M.get_body(size_max, ctx)
        if not body then
            return nil, "could not get body: " .. (reason or "request body is empty")
        end
        local fields = multipart(body, content_type)
        if not fields then
            return nil, "failed to parse multipart form data"
        end
        return fields
    end,
}

-- The body as a table, by its content type or by `content_type`; kept for the request.
function M.get_request_body_table(ctx, content_type, size_max)
    ctx = of(ctx)
    if ctx._request_body_table ~= nil then
        if content_type and ctx._request_body_type ~= content_type then
            return nil, "request body type mismatch: cached type is " .. (ctx._request_body_type or "unknown")
                .. ", expected " .. content_type
        end
        return ctx._request_body_table
    end
    local written = content_type or M.header(ctx, "Content-Type") or ""
    for _, kind in ipairs({ JSON, FORM, MULTIPART }) do
        if find(written, kind, 1, true) then
            local value, reason = readers[kind](ctx, size_max, written)
            if not value then
                return nil, reason
            end
            ctx._request_body_table, ctx._request_body_type = value, kind
            return value
        end
    end
    return nil, "unsupported content-type: " .. written .. ", supported types are: "
        .. table.concat({ JSON, FORM, MULTIPART }, ", ")
end

function M.get_json_request_body_table(size_max)
    local value, reason = M.get_request_body_table(nil, JSON, size_max)
    if not value then
        return nil, { message = reason }
    end
    return value
end

function M.get_scheme(ctx)
    return of(ctx).var.scheme or ""
end

function M.get_host(ctx)
    return of(ctx).var.host or ""
end

function M.get_port(ctx)
    return tonumber(of(ctx).var.server_port)
end

function M.get_http_version()
    return ngx.req.http_version()
end

function M.get_method()
    return ngx.req.get_method()
end

return M
