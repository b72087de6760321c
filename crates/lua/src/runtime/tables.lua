-- Makes the tables of a request.
local native = ...

local rawset, setmetatable, select = rawset, setmetatable, select
local get_variable, set_variable, context_field = native.get_variable, native.set_variable, native.context_field

local of_variables = {
    __index = function(_, name) return get_variable(name) end,
    -- A variable that Weir does not have is kept for the request.
    __newindex = function(own, name, value)
        if not set_variable(name, value) then
            rawset(own, name, value)
        end
    end,
}
local of_context = {
    __index = function(own, name)
        local value, is_kept = context_field(name)
        if is_kept then
            rawset(own, name, value)
        end
        return value
    end,
}

local function context()
    local variables = setmetatable({}, of_variables)
    return setmetatable({ var = variables }, of_context), variables
end

local function in_turn(functions)
    return function(config, ctx)
        for index = 1, #functions do
            local code, body = functions[index](config, ctx)
            if code or body then
                return code, body
            end
        end
    end
end

return { context = context, in_turn = in_turn }
