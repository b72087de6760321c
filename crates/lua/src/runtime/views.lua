-- Tables of the library as one program sees them: tables of its own with the functions of the library, so that a program that
-- changes one changes nothing for others. An entry is taken over when it is read for the first time; after that it is read
-- as fast as in the table of the library.
local native = ...

local error, getmetatable, next, pairs, rawget, rawset = error, getmetatable, next, pairs, rawget, rawset
local setmetatable, type = setmetatable, type

-- The metatable of arrays is compared by its identity, and protected by itself.
local ARRAY = native.array
-- Functions that return tables of the library.
local returns_shared = native.returns_shared

local NONE = {}

local function has_function(members)
    for _, value in next, members do
        if type(value) == "function" then
            return true
        end
    end
    return false
end

-- Keys of a metatable that a view has in another form.
local OWN_KEYS = { __index = true, __newindex = true, __metatable = true, __dynamic = true, __computed = true }

-- `call` with a view in place of the table that it returns.
local function with_view(call, view)
    return function(...)
        local result, reason = call(...)
        if type(result) == "table" then
            result = view(result)
        end
        return result, reason
    end
end

-- The function that reads an entry of the view of `members` for the first time.
local function reader(members, metatable, view)
    local fallback = metatable and metatable.__index
    local dynamic = metatable and metatable.__dynamic or NONE
    return function(own, name)
        local get = dynamic[name]
        if get then
            return get()
        end
        local value = rawget(members, name)
        if value == nil then
            if type(fallback) == "function" then
                return fallback(members, name)
            elseif not fallback then
                return nil
            end
            value = fallback[name]
        end
        if type(value) == "table" then
            value = view(value)
        elseif returns_shared[value] then
            value = with_view(value, view)
        end
        rawset(own, name, value)
        return value
    end
end

local function metatable_of_view(members, metatable, view)
    local of_view = { __metatable = false }
    for name, value in pairs(metatable or NONE) do
        if not OWN_KEYS[name] then
            of_view[name] = value
        end
    end
    of_view.__newindex = metatable and metatable.__newindex
    if metatable and (metatable.__computed or next(members) == nil) then
        -- All its entries are computed, or made for the table that they are read from.
        of_view.__index = metatable.__index
        return of_view
    end
    of_view.__index = reader(members, metatable, view)
    function of_view.__pairs(own)
        for name in next, members do
            local _ = own[name]
        end
        return next, own, nil
    end
    return of_view
end

-- A function that gives the view of a table, the same one each time.
local function views()
    -- Tables that are made anew, such as the settings, go with their views.
    local made = setmetatable({}, { __mode = "k" })
    local function view(members)
        if members == ARRAY then
            return members
        end
        local own = made[members]
        if own then
            return own
        end
        local metatable = getmetatable(members)
        if metatable == false then
            error("an object of the library cannot be seen by programs", 0)
        end
        own = {}
        made[members] = own
        if metatable == ARRAY then
            setmetatable(own, ARRAY)
        elseif metatable or has_function(members) then
            return setmetatable(own, metatable_of_view(members, metatable, view))
        end
        -- Data: functions of Rust read it without asking for entries.
        for name, value in next, members do
            own[name] = type(value) == "table" and view(value) or value
        end
        return own
    end
    return view
end

return { views = views }
