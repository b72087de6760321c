-- apisix.utils.log-util: entries of plugins that log requests.
local _, native = ...
local core = require("apisix.core")
local plugin = require("apisix.plugin")
local expressions = require("resty.expr.v1")
local dispatch_decoder = require("apisix.utils.content-decode").dispatch_decoder
local ipairs, next, pairs, tostring, type = ipairs, next, pairs, tostring, type
local sub = string.sub

-- Bytes of a body that an entry holds where the plugin sets no other number.
local BODY_BYTES_MAX = 524288
-- Tables inside each other in a log format.
local FORMAT_DEPTH_MAX = 5

local M = {}

local function request_body(bytes_max)
    local body = ngx.req.get_body_data()
    if body and bytes_max and #body > bytes_max then
        return sub(body, 1, bytes_max)
    end
    return body
end

local function compile(format, depth)
    local fields = {}
    for name, value in pairs(format) do
        if type(value) == "table" then
            if depth >= FORMAT_DEPTH_MAX then
                core.log.warn("log_format nesting exceeds max depth ", FORMAT_DEPTH_MAX, ", truncating")
                fields[name] = { inner = {} }
            else
                fields[name] = { inner = compile(value, depth + 1) }
            end
        elseif type(value) == "string" and sub(value, 1, 1) == "$" then
            fields[name] = { variable = sub(value, 2) }
        else
            fields[name] = { value = value }
        end
    end
    return fields
end

local function fill(fields, ctx, bytes_max)
    local entry = {}
    for name, field in pairs(fields) do
        if field.inner then
            entry[name] = fill(field.inner, ctx, bytes_max)
        elseif field.variable == "request_body" then
            entry[name] = request_body(bytes_max or BODY_BYTES_MAX)
        elseif field.variable then
            entry[name] = ctx.var[field.variable]
        else
            entry[name] = field.value
        end
    end
    return entry
end

-- Compiled formats; an entry goes with its format.
local compiled = setmetatable({}, { __mode = "k" })

function M.get_custom_format_log(ctx, format, bytes_max)
    local fields = compiled[format]
    if not fields then
        fields = compile(format, 1)
        compiled[format] = fields
    end
    local entry = fill(fields, ctx, bytes_max)
    local route = ctx.matched_route and ctx.matched_route.value
    if route then
        entry.service_id, entry.route_id = route.service_id, route.id
    elseif native.is_session() then
        entry.service_id, entry.route_id = ctx.service_id, ctx.route_id
    end
    return entry
end

-- Milliseconds of the request, of the service (none without one), and of the gateway.
function M.latency_details_in_ms(ctx)
    local latency = (ngx.now() - ngx.req.start_time()) * 1000
    local of_service = tonumber(ctx.var.upstream_response_time)
    if not of_service then
        return latency, nil, latency
    end
    of_service = of_service * 1000
    return latency, of_service, math.max(latency - of_service, 0)
end

-- The compiled expression `conf[field]`, kept in `conf[key]`; nothing and the reason where it is faulty.
local function expression_of(conf, field, key)
    if not conf[key] then
        local expression, reason = expressions.new(conf[field])
        if not expression then
            return nil, reason
        end
        conf[key] = expression
    end
    return conf[key]
end

local function takes_request_body(conf, ctx)
    if not conf.include_req_body then
        return false
    elseif not conf.include_req_body_expr then
        return true
    end
    local expression, reason = expression_of(conf, "include_req_body_expr", "request_expr")
    if not expression then
        core.log.error("generate request expr err ", reason)
        return false
    end
    return expression:eval(ctx.var) and true or false
end

function M.get_full_log(_, conf)
    local ctx = ngx.ctx.api_ctx
    local variables = ctx.var
    local route = ctx.matched_route and ctx.matched_route.value
    local latency, of_service, of_gateway = M.latency_details_in_ms(ctx)
    local entry = {
        request = {
            url = tostring(variables.scheme) .. "://" .. tostring(variables.host) .. ":"
                .. tostring(variables.server_port) .. tostring(variables.request_uri),
            uri = variables.request_uri,
            method = ngx.req.get_method(),
            headers = ctx.data_mask_headers or ngx.req.get_headers(),
            querystring = ngx.req.get_uri_args(),
            size = variables.request_length,
        },
        response = { status = ngx.status, headers = ngx.resp.get_headers(), size = variables.bytes_sent },
        server = { hostname = core.utils.gethostname(), version = core.version.VERSION },
        upstream = variables.upstream_addr,
        service_id = route and (route.service_id or "") or variables.host,
        route_id = route and route.id,
        consumer = ctx.consumer and { username = ctx.consumer.username } or nil,
        client_ip = core.request.get_remote_client_ip(ctx),
        start_time = ngx.req.start_time() * 1000,
        latency = latency, upstream_latency = of_service, apisix_latency = of_gateway,
    }
    if conf.include_resp_body then
        entry.response.body = ctx.resp_body
    end
    if takes_request_body(conf, ctx) then
        entry.request.body = request_body(conf.max_req_body_bytes or BODY_BYTES_MAX)
    end
    return entry
end

local function matches_one(rules, ctx)
    for _, rule in ipairs(rules) do
        local expression = expressions.new(rule)
        if expression and expression:eval(ctx.var) then
            return true
        end
    end
    return false
end

-- The entry of this request, whether its format is the user's, and the fields of `log_format_extra`; nothing where `match`
-- of the configuration does not hold.
function M.get_log_entry(name, conf, ctx)
    if conf.match and not matches_one(conf.match, ctx) then
        return
    end
    local metadata = plugin.plugin_metadata(name)
    local common = metadata and metadata.value or {}
    local format = conf.log_format
    if not format and common.log_format and next(common.log_format) ~= nil then
        format = common.log_format
    end
    if format then
        return M.get_custom_format_log(ctx, format, conf.max_req_body_bytes), true, nil
    end
    if native.is_session() then
        core.log.error(name, "'s log_format is not set: a session of layer 4 has no other entry")
        return
    end
    local entry, own = M.get_full_log(ngx, conf), nil
    local extra = conf.log_format_extra
    if extra == nil then
        extra = common.log_format_extra
    end
    if extra and next(extra) ~= nil then
        local filled = M.get_custom_format_log(ctx, extra, conf.max_req_body_bytes)
        own = {}
        for field in pairs(extra) do
            own[field] = filled[field]
            if entry[field] == nil then
                entry[field] = filled[field]
            end
        end
    end
    return entry, false, own
end

-- The request as text: its first line, its headers and, if wanted, its body.
function M.get_req_original(ctx, conf)
    local parts = { ctx.var.request, "\r\n" }
    for name, value in pairs(ctx.data_mask_headers or ngx.req.get_headers()) do
        core.table.insert_tail(parts, name, ": ", type(value) == "table" and table.concat(value, ", ") or value, "\r\n")
    end
    parts[#parts + 1] = "\r\n"
    if conf.include_req_body then
        parts[#parts + 1] = request_body(conf.max_req_body_bytes or BODY_BYTES_MAX)
    end
    return table.concat(parts)
end

function M.check_log_schema(conf)
    for _, field in ipairs({ "include_req_body_expr", "include_resp_body_expr" }) do
        if conf[field] then
            local expression, reason = expressions.new(conf[field])
            if not expression then
                return nil, "failed to validate the '" .. field .. "' expression: " .. reason
            end
        end
    end
    return true, nil
end

-- The text of a body in the coding of the response, and the body itself where that cannot be read.
local function decoded(body)
    local coding = ngx.header["Content-Encoding"]
    if type(coding) == "table" then
        -- Several fields are one list, which has no decoder.
        coding = table.concat(coding, ", ")
    end
    if not coding or body == "" then
        return body
    end
    local decode = dispatch_decoder(coding)
    if not decode then
        core.log.warn("unsupported compression encoding type: ", coding)
        return body
    end
    local text, reason = decode(body)
    if not text then
        core.log.warn("try decode compressed data err: ", reason)
        return body
    end
    return text
end

-- Collects the response body into `ctx.resp_body`, in a body filter.
function M.collect_body(conf, ctx)
    if not conf.include_resp_body then
        return
    end
    if conf.include_resp_body_expr then
        local expression, reason = expression_of(conf, "include_resp_body_expr", "response_expr")
        if not expression then
            core.log.error("generate response expr err ", reason)
            return
        end
        if ctx.res_expr_eval_result == nil then
            ctx.res_expr_eval_result = expression:eval(ctx.var) and true or false
        end
        if not ctx.res_expr_eval_result then
            return
        end
    end
    local body = core.response.hold_body_chunk(ctx, true, conf.max_resp_body_bytes or BODY_BYTES_MAX, conf)
    if body then
        ctx.resp_body = decoded(body)
    end
end

-- Reads the request body in a phase that may wait, so that the log phase has it.
function M.check_and_read_req_body(conf, ctx)
    if takes_request_body(conf, ctx) then
        ngx.req.read_body()
    end
end

function M.get_rfc3339_zulu_timestamp(seconds)
    local time = seconds or ngx.now()
    local whole = math.floor(time)
    return os.date("!%Y-%m-%dT%H:%M:%S.", whole) .. string.format("%03dZ", math.floor((time - whole) * 1000))
end

return M
