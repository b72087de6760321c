-- apisix.core.json: JSON with marked arrays, unescaped slashes and texts that are made only if they are logged.
local _, native = ...
local pairs, setmetatable, tostring, type = pairs, setmetatable, tostring, type
local null = native.null

-- Tables inside each other that are looked through.
local DEPTH_MAX = 128

local M = {
    version = 0.1,
    array_mt = native.array_mt,
    null = null,
    canonical_encode = native.json_canonical,
    stably_encode = native.json_canonical,
}

local function strip_nulls(value, depth)
    depth = depth or 1
    if depth > DEPTH_MAX then
        return value
    end
    for key, item in pairs(value) do
        if item == null then
            value[key] = nil
        elseif type(item) == "table" then
            strip_nulls(item, depth + 1)
        end
    end
    return value
end

function M.strip_nulls(value)
    return strip_nulls(value)
end

function M.decode(text, options)
    if type(text) ~= "string" then
        return nil, "bad argument #1 to 'decode' (string expected, got " .. type(text) .. ")"
    end
    local value, reason = native.json_decode(text)
    if value ~= nil and options and options.null_as_nil then
        if value == null then
            return nil, reason
        elseif type(value) == "table" then
            strip_nulls(value)
        end
    end
    return value, reason
end

local function plain(value)
    local kind = type(value)
    if kind == "function" or kind == "table" or (kind == "userdata" and value ~= null) or kind == "thread" then
        return tostring(value)
    end
    return value
end

-- A copy that JSON can express: functions become texts, and a table that was met before becomes its name.
local function expressible(value, met, depth)
    if type(value) ~= "table" then
        return plain(value)
    end
    if depth > DEPTH_MAX then
        return tostring(value)
    end
    met[value] = true
    local to = setmetatable({}, getmetatable(value) == M.array_mt and M.array_mt or nil)
    for key, item in pairs(value) do
        if type(item) == "table" and met[item] then
            to[plain(key)] = tostring(item)
        else
            to[plain(key)] = expressible(item, met, depth + 1)
        end
    end
    return to
end

function M.encode(value, is_forced)
    if is_forced then
        value = expressible(value, {}, 1)
    end
    return native.json_encode(value)
end

local delayed = {
    __metatable = false,
    __tostring = function(self)
        local text, reason = M.encode(self.data, self.force)
        if not text then
            ngx.log(ngx.WARN, "failed to encode: ", reason, " force: ", self.force)
        end
        return text or ""
    end,
}

-- A value that is written as JSON when the log asks for its text.
function M.delay_encode(value, is_forced)
    return setmetatable({ data = value, force = is_forced }, delayed)
end

return M
