-- The library of scripts, written in Lua where its functions call others: calls between Lua functions need no native stack, which
-- a script could exhaust otherwise. It gets the functions of Rust.
local native = ...

local error, ipairs, next, pairs, rawget, rawset = error, ipairs, next, pairs, rawget, rawset
local select, setfenv, setmetatable, type, unpack = select, setfenv, setmetatable, type, unpack
local getmetatable, raw_pcall, raw_tostring, tonumber = getmetatable, pcall, tostring, tonumber
local concat, insert, remove, raw_sort = table.concat, table.insert, table.remove, table.sort
local byte, raw_format, lower, sub = string.byte, string.format, string.lower, string.sub
local null = native.null

-- All scripts of a worker share the metatable of arrays, so that none may change it.
setmetatable(native.array, {
    __metatable = false,
    __newindex = function() error("the metatable of arrays cannot be changed", 2) end,
})
local function set_raw(into, key, value)
    if into == native.array then
        error("the metatable of arrays cannot be changed", 2)
    end
    return rawset(into, key, value)
end

-- Comparisons of tables inside comparisons: each takes native stack.
local SORT_DEPTH_MAX = 16

local function tostring(value)
    local metatable = getmetatable(value)
    local own = type(metatable) == "table" and rawget(metatable, "__tostring")
    if own then
        return own(value)
    end
    return raw_tostring(value)
end

-- Lets no script catch the error that stops it.
local function settle(ok, ...)
    if not ok then
        native.check()
    end
    return ok, ...
end

local function pcall(call, ...)
    return settle(raw_pcall(call, ...))
end

local function handled(handler, ok, ...)
    if ok then
        return true, ...
    end
    native.check()
    return false, handler((...))
end

local function xpcall(call, handler, ...)
    return handled(handler, raw_pcall(call, ...))
end

local sort_depth = 0
local function sort(list, compare)
    if sort_depth >= SORT_DEPTH_MAX then
        error("too many sorts inside each other", 2)
    end
    sort_depth = sort_depth + 1
    local ok, reason = raw_pcall(raw_sort, list, compare)
    sort_depth = sort_depth - 1
    if not ok then
        error(reason, 0)
    end
end

local function format(form, ...)
    local values = { ... }
    for index = 1, select("#", ...) do
        local kind = type(values[index])
        if kind == "table" or kind == "userdata" then
            values[index] = tostring(values[index])
        end
    end
    return raw_format(form, unpack(values, 1, select("#", ...)))
end

local function text_of(value, place, name)
    if type(value) == "number" then
        return raw_tostring(value)
    elseif type(value) ~= "string" then
        error("bad argument #" .. place .. " to '" .. name .. "' (string expected, got " .. type(value) .. ")", 3)
    end
    return value
end

local function found(text, first, last, ...)
    if first and select("#", ...) == 0 then
        return sub(text, first, last)
    end
    return ...
end

local function match(text, pattern, from)
    return found(text, native.find(text, pattern, from))
end

local function gmatch(text, pattern)
    text = text_of(text, 1, "gmatch")
    local from = 1
    local function step(first, last, ...)
        if not first then
            return nil
        end
        from = last < first and first + 1 or last + 1
        return found(text, first, last, ...)
    end
    return function()
        if from > #text + 1 then
            return nil
        end
        return step(native.find(text, pattern, from))
    end
end

-- The text that replaces a match: `%0` to `%9` in `form` stand for the match and its captures.
local function expand(form, whole, ...)
    local captures = { ... }
    if #captures == 0 then
        captures[1] = whole
    end
    local parts, count, from, length = {}, 0, 1, #form
    while true do
        local at = native.find_plain(form, "%", from)
        count = count + 1
        if not at or at == length then
            parts[count] = sub(form, from, at and at - 1)
            return concat(parts)
        end
        parts[count] = sub(form, from, at - 1)
        local digit = byte(form, at + 1) - 48
        count = count + 1
        if digit == 0 then
            parts[count] = whole
        elseif digit >= 1 and digit <= 9 then
            parts[count] = captures[digit] or error("invalid capture index", 0)
        else
            parts[count] = sub(form, at + 1, at + 1)
        end
        from = at + 2
    end
end

local function replaced(form, kind, text, first, last, ...)
    if not first then
        return nil
    end
    local whole, value = sub(text, first, last), nil
    if kind == "string" then
        value = expand(form, whole, ...)
    else
        local key = select("#", ...) == 0 and whole or (...)
        if kind == "table" then
            value = form[key]
        elseif select("#", ...) == 0 then
            value = form(whole)
        else
            value = form(...)
        end
        if not value then
            value = whole
        elseif type(value) ~= "string" and type(value) ~= "number" then
            error("invalid replacement value (a " .. type(value) .. ")", 0)
        end
    end
    return value, first, last
end

local function gsub(text, pattern, form, most)
    text, pattern = text_of(text, 1, "gsub"), text_of(pattern, 2, "gsub")
    local kind = type(form)
    if kind == "number" then
        form, kind = raw_tostring(form), "string"
    elseif kind ~= "string" and kind ~= "table" and kind ~= "function" then
        error("bad argument #3 to 'gsub' (string/function/table expected, got " .. kind .. ")", 2)
    end
    local is_anchored = byte(pattern) == 94
    local parts, size, from, count = {}, 0, 1, 0
    while not most or count < most do
        local value, first, last = replaced(form, kind, text, native.find(text, pattern, from))
        if not value then
            break
        end
        count = count + 1
        parts[size + 1], parts[size + 2] = sub(text, from, first - 1), value
        size, from = size + 2, last + 1
        if last < first then
            size = size + 1
            parts[size] = sub(text, first, first)
            from = first + 1
            if first > #text then
                break
            end
        end
        if is_anchored then
            break
        end
    end
    parts[size + 1] = sub(text, from)
    return concat(parts), count
end

local strings = {
    byte = byte, char = string.char, find = nil, format = format, gmatch = gmatch, gsub = gsub, len = string.len,
    lower = lower, match = match, rep = string.rep, reverse = string.reverse, sub = sub, upper = string.upper,
}
function strings.find(text, pattern, from, is_plain)
    return (is_plain and native.find_plain or native.find)(text, pattern, from)
end

-- Methods of strings find these functions, and no script reaches the table that they lie in.
local of_strings = getmetatable("")
of_strings.__index = strings
of_strings.__metatable = false

local tables = {
    concat = concat, insert = insert, maxn = table.maxn, pack = table.pack, remove = remove, sort = sort, unpack = unpack,
}
local times = { clock = os.clock, date = os.date, difftime = os.difftime, time = os.time }
local numbers = {}
for name, value in pairs(math) do
    numbers[name] = value
end
local bits = {}
for name, value in pairs(bit) do
    bits[name] = value
end

local function copy(from)
    local to = {}
    for name, value in pairs(from) do
        to[name] = value
    end
    return to
end

-- Says of functions that are not there that they are not there.
local function complete(what, members)
    return setmetatable(members, {
        __index = function(_, name)
            error("not available in Weir: " .. what .. "." .. tostring(name), 2)
        end,
    })
end

local basics = {
    assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next, pairs = pairs,
    pcall = pcall, rawequal = rawequal, rawget = rawget, rawlen = rawlen, rawset = set_raw, select = select,
    setmetatable = setmetatable, tonumber = tonumber, tostring = tostring, type = type, unpack = unpack,
    xpcall = xpcall, _VERSION = _VERSION,
}

return {
    basics = basics, strings = strings, tables = tables, times = times, numbers = numbers, bits = bits,
    copy = copy, complete = complete,
}
