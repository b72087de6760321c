-- The globals of a script and the modules that it may require. It gets the functions of Rust, the library and the request.
local native, library, request = ...

local error, getmetatable, ipairs, next, pairs = error, getmetatable, ipairs, next, pairs
local select, setmetatable, type = select, setmetatable, type
local concat, insert, remove, sort = table.concat, table.insert, table.remove, library.tables.sort
local format, lower, sub = library.strings.format, string.lower, string.sub
local complete, copy, tostring = library.complete, library.copy, library.basics.tostring
local ask, headers, variables, null = request.ask, request.headers, request.variables, native.null

local function logger(level)
    return function(...)
        local parts = { ... }
        for index = 1, select("#", ...) do
            parts[index] = tostring(parts[index])
        end
        native.log(level, concat(parts))
    end
end

local function deep_copy(value, depth)
    if type(value) ~= "table" then
        return value
    end
    if (depth or 0) >= 128 then
        error("excessive depth", 0)
    end
    local to = setmetatable({}, getmetatable(value) or nil)
    for key, item in pairs(value) do
        to[key] = deep_copy(item, (depth or 0) + 1)
    end
    return to
end

local function count(value)
    local number = 0
    for _ in pairs(value) do
        number = number + 1
    end
    return number
end

local modules = {}

function modules.cjson()
    local function strict(call)
        return function(value)
            local result, reason = call(value)
            if result == nil and reason then
                error(reason, 2)
            end
            return result
        end
    end
    return complete("cjson", {
        decode = strict(native.decode), encode = strict(native.encode), null = null, array_mt = native.array,
        empty_array_mt = native.array, empty_array = setmetatable({}, native.array),
    })
end

modules["cjson.safe"] = function()
    return complete("cjson.safe", {
        decode = native.decode, encode = native.encode, null = null, array_mt = native.array,
        empty_array_mt = native.array, empty_array = setmetatable({}, native.array),
    })
end

modules["apisix.core"] = function()
    local log = { error = logger("error"), warn = logger("warn") }
    for _, level in ipairs({ "notice", "info", "debug" }) do
        log[level] = logger(level)
    end
    return complete("apisix.core", {
        json = complete("apisix.core.json", {
            decode = native.decode, encode = native.encode, delay_encode = native.encode,
            stably_encode = native.encode, null = null, array_mt = native.array,
        }),
        log = complete("apisix.core.log", log),
        request = complete("apisix.core.request", {
            headers = headers,
            header = function(_, name) return headers()[name] end,
            get_method = function() return ask("variable", "request_method") end,
            get_host = function() return ask("variable", "host") end,
            get_scheme = function() return ask("variable", "scheme") end,
            get_remote_client_ip = function() return ask("variable", "remote_addr") end,
        }),
        string = complete("apisix.core.string", {
            find = function(text, part, from) return native.find_plain(text, part, from) end,
            has_prefix = function(text, part) return sub(text, 1, #part) == part end,
            has_suffix = function(text, part) return part == "" or sub(text, -#part) == part end,
            format = format, sub = sub, lower = lower, upper = string.upper, len = string.len,
        }),
        table = complete("apisix.core.table", {
            insert = insert, remove = remove, concat = concat, sort = sort, clone = copy, deepcopy = deep_copy,
            new = function() return {} end, nkeys = count,
            isempty = function(value) return next(value) == nil end,
            isarray = function(value) return type(value) == "table" and count(value) == #value end,
            array_find = function(list, wanted)
                for index, value in ipairs(list) do
                    if value == wanted then
                        return index
                    end
                end
            end,
            insert_tail = function(list, ...)
                for index = 1, select("#", ...) do
                    list[#list + 1] = (select(index, ...))
                end
                return #list
            end,
        }),
    })
end

local function ngx()
    return complete("ngx", {
        null = null, var = variables(), now = native.now, time = os.time,
        encode_base64 = native.encode_base64, decode_base64 = native.decode_base64,
        escape_uri = native.escape_uri, unescape_uri = native.unescape_uri,
        log = function(level, ...) logger(level)(...) end,
        STDERR = "error", EMERG = "error", ALERT = "error", CRIT = "error", ERR = "error", WARN = "warn",
        NOTICE = "notice", INFO = "info", DEBUG = "debug",
        req = complete("ngx.req", {
            get_headers = headers,
            get_method = function() return ask("variable", "request_method") end,
        }),
    })
end

-- The globals of one script. No other script sees what this one changes in them.
local function globals()
    local own = copy(library.basics)
    own.string, own.table, own.math = copy(library.strings), copy(library.tables), copy(library.numbers)
    own.bit, own.os, own.ngx = copy(library.bits), copy(library.times), ngx()
    own._G = own
    local loaded = { string = own.string, table = own.table, math = own.math, bit = own.bit, os = own.os }
    function own.require(name)
        if not loaded[name] then
            local make = modules[name] or error("module '" .. tostring(name) .. "' is not available in Weir", 2)
            loaded[name] = make()
        end
        return loaded[name]
    end
    return own
end

return { globals = globals }
