-- apisix.core.table: the functions of `table`, copies, comparisons and merges of tables.
local _, native = ...
local ipairs, next, pairs = ipairs, next, pairs
local select, setmetatable, tostring, type = select, setmetatable, tostring, type
local sub, byte = string.sub, string.byte
local nkeys, isarray = require("table.nkeys"), require("table.isarray")

-- Tables inside each other that a copy, a merge or a comparison follows.
local DEPTH_MAX = 128

local M = setmetatable({
    version = 0.2,
    new = require("table.new"),
    clear = require("table.clear"),
    nkeys = nkeys,
    insert = table.insert,
    concat = table.concat,
    sort = table.sort,
    clone = require("table.clone"),
    isarray = isarray,
    isempty = require("table.isempty"),
}, { __index = table })

function M.insert_tail(list, ...)
    local length = #list
    for index = 1, select("#", ...) do
        length = length + 1
        list[length] = (select(index, ...))
    end
    return length
end

function M.set(list, ...)
    for index = 1, select("#", ...) do
        list[index] = (select(index, ...))
    end
end

-- The value behind the names `...`, or nothing where one of them is missing.
function M.try_read_attr(value, ...)
    for index = 1, select("#", ...) do
        if type(value) ~= "table" then
            return nil
        end
        value = value[(select(index, ...))]
    end
    return value
end

local function array_find(list, wanted)
    if type(list) ~= "table" then
        return nil
    end
    for index, value in ipairs(list) do
        if value == wanted then
            return index
        end
    end
    return nil
end
M.array_find = array_find

local function is_shallow(options, path)
    if not options then
        return false
    end
    if options.shallows and array_find(options.shallows, path) then
        return true
    end
    local prefix = options.shallow_prefix
    return prefix ~= nil and sub(path, 1, #prefix) == prefix
        and (#path == #prefix or byte(path, #prefix + 1) == 46)
end

local function copy(from, made, path, options, depth)
    if depth > DEPTH_MAX then
        error("excessive depth", 0)
    end
    local to = {}
    made[from] = to
    for key, value in pairs(from) do
        local place = options and (path .. "." .. tostring(key))
        if type(value) == "table" and not is_shallow(options, place) then
            value = made[value] or copy(value, made, place, options, depth + 1)
        end
        to[key] = value
    end
    native.copy_metatable(from, to)
    return to
end

-- A copy of all tables inside `value`; `options.shallows` lists paths such as `self.a.b` that are taken as they are.
function M.deepcopy(value, options)
    if type(value) ~= "table" then
        return value
    end
    return copy(value, {}, "self", options, 1)
end

local function merge(into, from, depth)
    if depth > DEPTH_MAX then
        error("excessive depth", 0)
    end
    for key, value in pairs(from) do
        local known = into[key]
        if value == ngx.null then
            into[key] = nil
        elseif type(value) == "table" and type(known) == "table" and not (isarray(known) or isarray(value)) then
            merge(known, value, depth + 1)
        else
            into[key] = value
        end
    end
    return into
end

function M.merge(into, from)
    return merge(into, from, 1)
end

function M.patch(value, path, change)
    local steps = require("ngx.re").split(path, "/")
    local place = value
    for index = 1, #steps - 1 do
        local step = steps[index]
        if place[step] == nil then
            place[step] = {}
        end
        place = place[step]
        if type(place) ~= "table" then
            return 400, "invalid sub-path: /" .. table.concat(steps, "/", 1, index)
        end
    end
    local last = steps[#steps]
    if last and last ~= "" then
        place[last] = change
    else
        value = change
    end
    return nil, nil, value
end

function M.set_eq(left, right)
    if nkeys(left) ~= nkeys(right) then
        return false
    end
    for key in pairs(left) do
        if right[key] == nil then
            return false
        end
    end
    return true
end

local function deep_eq(left, right, depth)
    if type(left) ~= "table" or type(right) ~= "table" then
        return left == right
    end
    if depth > DEPTH_MAX or nkeys(left) ~= nkeys(right) then
        return false
    end
    for key, value in pairs(left) do
        if not deep_eq(value, right[key], depth + 1) then
            return false
        end
    end
    return true
end

function M.deep_eq(left, right)
    return deep_eq(left, right, 1)
end

function M.pick(from, names)
    local picked = {}
    for key, value in pairs(from) do
        if names[key] ~= nil then
            picked[key] = value
        end
    end
    return picked
end

return M
