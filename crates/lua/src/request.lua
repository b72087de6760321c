-- The request of a call as scripts see it. It gets the functions of Rust and the library.
local _, library = ...

local error, rawget, setmetatable, type = error, rawget, setmetatable, type
local gsub, lower, tostring = library.strings.gsub, string.lower, library.basics.tostring

-- The request of the call. `ask` is set while a call runs.
local request = {}
local function ask(kind, name)
    local answer = request.ask
    if not answer then
        error("there is no request here", 0)
    end
    return answer(kind, name)
end

local by_field_name = {
    __metatable = false,
    __index = function(fields, name)
        if type(name) ~= "string" then
            return nil
        end
        return rawget(fields, (gsub(lower(name), "_", "-")))
    end,
}

local function headers()
    return setmetatable(ask("headers"), by_field_name)
end

local function variables()
    return setmetatable({}, {
        __index = function(_, name)
            return ask("variable", tostring(name))
        end,
    })
end

local function context()
    return setmetatable({ var = variables() }, {
        __index = function(_, name)
            if name == "headers" then
                return headers()
            end
            return ask("field", tostring(name))
        end,
    })
end

return { request = request, ask = ask, headers = headers, variables = variables, context = context }
