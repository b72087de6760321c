-- resty.expr.v1: conditions over variables, in the notation of `vars` of routes.
local _, native = ...
local matcher = require("resty.ipmatcher")
local ipairs, lower, setmetatable, tonumber, tostring, type = ipairs, string.lower, setmetatable, tonumber, tostring, type
local upper = string.upper

local Expression = {}
local of_expressions = { __index = Expression, __metatable = false }

local function compared(left, right, holds)
    left, right = tonumber(left), tonumber(right)
    return left ~= nil and right ~= nil and holds(left, right)
end

local function equal(left, right)
    if type(left) == "number" and type(right) == "string" then
        return tostring(left) == right
    elseif type(right) == "number" then
        return tonumber(left) == right
    end
    return left == right or (right == native.null and left == nil)
end

local function matches(options)
    return function(left, right)
        if type(left) == "table" then
            for _, item in ipairs(left) do
                if ngx.re.find(tostring(item), right, options) then
                    return true
                end
            end
            return false
        end
        return left ~= nil and ngx.re.find(tostring(left), tostring(right), options) ~= nil
    end
end

local function is_in(left, right)
    if type(right) ~= "table" then
        return false
    end
    for _, item in ipairs(right) do
        if equal(left, item) then
            return true
        end
    end
    return false
end

local tests = {
    ["=="] = equal,
    ["~="] = function(left, right) return not equal(left, right) end,
    [">"] = function(left, right) return compared(left, right, function(a, b) return a > b end) end,
    [">="] = function(left, right) return compared(left, right, function(a, b) return a >= b end) end,
    ["<"] = function(left, right) return compared(left, right, function(a, b) return a < b end) end,
    ["<="] = function(left, right) return compared(left, right, function(a, b) return a <= b end) end,
    ["~~"] = matches("jo"),
    ["~*"] = matches("joi"),
    ["in"] = is_in,
    ["has"] = function(left, right) return type(left) == "table" and is_in(right, left) end,
    ["ipmatch"] = function(left, networks) return left ~= nil and networks:match(tostring(left)) and true or false end,
}

local function logic(word)
    if type(word) ~= "string" then
        return nil
    end
    local name = upper(word):gsub("^!", "")
    if name == "AND" or name == "OR" then
        return name, word:sub(1, 1) == "!"
    end
end

local compile

local function group(rules, first, is_any, is_negated)
    local parts = {}
    for index = first, #rules do
        parts[#parts + 1] = compile(rules[index])
    end
    return { parts = parts, is_any = is_any, is_negated = is_negated }
end

-- The rules were checked before, so that each has a known form.
function compile(rules)
    if type(rules[1]) == "table" then
        return group(rules, 1, false, false)
    end
    local word, is_negated = logic(rules[1])
    if word then
        return group(rules, 2, word == "OR", is_negated)
    end
    local variable, operator, value = rules[1], rules[2], rules[3]
    is_negated = false
    if #rules == 4 then
        is_negated, operator, value = true, rules[3], rules[4]
    elseif #rules == 2 and not tests[lower(tostring(operator))] then
        operator, value = "==", operator
    end
    operator = lower(operator)
    if operator == "ipmatch" then
        value = matcher.new(type(value) == "table" and value or { value })
    end
    return { variable = variable, test = tests[operator], value = value, is_negated = is_negated }
end

local function holds(node, variables)
    local result
    if node.parts then
        result = not node.is_any
        for index = 1, #node.parts do
            if holds(node.parts[index], variables) == node.is_any then
                result = node.is_any
                break
            end
        end
    else
        result = node.test(variables[node.variable], node.value)
    end
    return result ~= node.is_negated
end

-- A compiled expression, or nothing and the first fault of `rules`.
function Expression.new(rules)
    if type(rules) ~= "table" then
        return nil, "expression must be an array"
    end
    if #rules > 0 then
        local ok, reason = native.check_expression(rules)
        if not ok then
            return nil, reason
        end
    end
    return setmetatable({ rule = rules, node = #rules == 0 and group({}, 1, false, false) or compile(rules) }, of_expressions)
end

function Expression:eval(variables)
    return holds(self.node, variables or ngx.var)
end

return Expression
