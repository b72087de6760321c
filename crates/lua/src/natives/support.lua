-- Functions of Lua that modules share. It gets the table of the functions of Rust and adds to it.
local native = ...
local error, setmetatable, tostring = error, setmetatable, tostring

local PAGE = "; the page docs/reference/lua.md lists what is there"

-- Says of functions that are not in `members` that they are not there.
function native.complete(name, members)
    return setmetatable(members, {
        __index = function(_, member)
            error("not available in Weir: " .. name .. "." .. tostring(member) .. PAGE, 2)
        end,
    })
end

-- Lua plugins by name, as `apisix.plugin.get` gives them, and variables that scripts have added.
native.plugins, native.variables = native.plugins or {}, native.variables or {}
-- Functions that return tables of the library: programs get views of those tables (`views.lua`).
native.returns_shared = {}
