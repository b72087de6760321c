-- The globals of programs. Each program has its own, and views of the tables of the library, so that nothing that one sets
-- reaches another. Modules of the library share theirs, and so do modules of files.
local native, library, scheduler, ngx, views = ...

local error, setmetatable, tostring, type = error, setmetatable, library.basics.tostring, type
local concat, ipairs, rawset, select = table.concat, ipairs, rawset, select

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

local function text_of_chunk(chunk)
    if type(chunk) ~= "function" then
        return chunk
    end
    local parts = {}
    local part = chunk()
    while part and part ~= "" do
        parts[#parts + 1] = part
        part = chunk()
    end
    return concat(parts)
end

-- Compiles texts, in `globals` where no other table is given; byte code is refused.
local function loader(globals)
    return function(chunk, name, _, environment)
        return native.load_text(text_of_chunk(chunk), name, environment or globals)
    end
end

local LOADING = {}

-- A function that loads modules: those in `loaded`, then those of which `find` gives the chunk and its second argument.
local function requirer(loaded, find)
    return function(name)
        if type(name) ~= "string" then
            error("bad argument #1 to 'require' (string expected, got " .. type(name) .. ")", 2)
        end
        local found = loaded[name]
        if found == LOADING then
            error("loop or previous error loading module '" .. name .. "'", 2)
        elseif found ~= nil then
            return found
        end
        local chunk, argument = find(name)
        if not chunk then
            error(native.missing_module(name), 2)
        end
        loaded[name] = LOADING
        local ok, result = library.basics.pcall(chunk, name, argument)
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
end

-- The modules of the library, as they see each other. Only they get the functions of Rust.
local own_modules = {
    string = shared.string, table = shared.table, math = shared.math, bit = shared.bit, os = shared.os,
    coroutine = shared.coroutine, ngx = ngx,
}
shared.require = requirer(own_modules, function(name) return native.find_own_module(name, shared), native end)

-- The globals of one program: `own`, with the functions of the library and views of its tables. `find` gives the chunks of
-- modules that are not of the library.
local function globals(own, find)
    local view = views()
    local preloaded = {}
    local loaded = setmetatable({ _G = own }, {
        __index = function(modules, name)
            local found = own_modules[name]
            if found == nil and type(name) == "string" and native.is_own_module(name) then
                found = shared.require(name)
            end
            if type(found) == "table" then
                found = view(found)
            end
            rawset(modules, name, found)
            return found
        end,
    })
    local special = {
        _G = own, load = loader(own), require = requirer(loaded, function(name) return preloaded[name] or find(name) end),
        package = { loaded = loaded, preload = preloaded, path = "", cpath = "" },
    }
    special.loadstring = special.load
    return function(_, name)
        local value = special[name]
        if value == nil then
            value = shared[name]
            if type(value) == "table" then
                value = view(value)
            end
        end
        rawset(own, name, value)
        return value
    end
end

-- Modules of files are loaded once for all programs, which share what they keep in them.
local files = {}
setmetatable(files, { __index = globals(files, function(name) return native.find_file(name, files) end) })
local function find_in_files(name)
    if not native.is_file(name) then
        return nil
    end
    return function() return files.require(name) end
end

local warned = 0
local function environment(program)
    local own = {}
    return setmetatable(own, {
        __index = globals(own, find_in_files),
        __newindex = function(_, name, value)
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
