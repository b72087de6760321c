-- The globals of programs. Each program has its own on top of those that all share, so that a name that one sets by accident
-- does not reach another. Modules share theirs.
local native, library, scheduler, ngx = ...

local error, setmetatable, tostring, type = error, setmetatable, library.basics.tostring, type
local concat, rawset, select = table.concat, rawset, select

local function refused(name)
    return function()
        error("not available in Weir: " .. name .. " (see docs/reference/lua.md)", 2)
    end
end

local shared = library.copy(library.basics)
shared._G = shared
shared.string, shared.table, shared.math, shared.bit = library.strings, library.tables, library.numbers, library.bits
shared.coroutine, shared.ngx = scheduler.coroutines, ngx
shared.os = library.times
for _, name in ipairs({ "execute", "exit", "getenv", "remove", "rename", "setlocale", "tmpname" }) do
    shared.os[name] = refused("os." .. name)
end
for _, name in ipairs({ "dofile", "loadfile", "newproxy", "setfenv", "getfenv", "collectgarbage", "gcinfo" }) do
    shared[name] = refused(name)
end
local absent = {
    __index = function(members, name) error("not available in Weir: " .. members.name .. "." .. tostring(name), 2) end,
}
shared.io, shared.debug = setmetatable({ name = "io" }, absent), setmetatable({ name = "debug" }, absent)

function shared.print(...)
    local parts = { ... }
    for index = 1, select("#", ...) do
        parts[index] = tostring(parts[index])
    end
    native.ngx_log(6, concat(parts, "\t"))
end

-- Compiles a text; byte code is refused.
local function load(chunk, name, _, environment)
    if type(chunk) == "function" then
        local parts = {}
        local part = chunk()
        while part and part ~= "" do
            parts[#parts + 1] = part
            part = chunk()
        end
        chunk = concat(parts)
    end
    return native.load_text(chunk, name, environment or shared)
end
shared.load, shared.loadstring = load, load

local loaded = {
    _G = shared, string = shared.string, table = shared.table, math = shared.math, bit = shared.bit, os = shared.os,
    coroutine = shared.coroutine, ngx = ngx,
}
shared.package = { loaded = loaded, preload = {}, path = "", cpath = "" }
local LOADING = {}

-- Finds a module: loaded ones, those of Weir, then the files of `extra_lua_path`.
function shared.require(name)
    if type(name) ~= "string" then
        error("bad argument #1 to 'require' (string expected, got " .. type(name) .. ")", 2)
    end
    local found = loaded[name]
    if found == LOADING then
        error("loop or previous error loading module '" .. name .. "'", 2)
    elseif found ~= nil then
        return found
    end
    local chunk = shared.package.preload[name] or native.find_module(name, shared)
    if not chunk then
        error(native.missing_module(name), 2)
    end
    loaded[name] = LOADING
    local ok, result = library.basics.pcall(chunk, name, native)
    if not ok then
        loaded[name] = nil
        error(result, 0)
    end
    if result ~= nil then
        loaded[name] = result
    elseif loaded[name] == LOADING then
        loaded[name] = true
    end
    return loaded[name]
end

local warned = 0
local function environment(program)
    return setmetatable({}, {
        __index = shared,
        __newindex = function(own, name, value)
            if warned < 16 then
                warned = warned + 1
                native.ngx_log(5, "writing a global Lua variable ('" .. tostring(name) .. "') in " .. program
                    .. ": it is kept between requests of a worker")
            end
            rawset(own, name, value)
        end,
    })
end

return { environment = environment, shared = shared }
