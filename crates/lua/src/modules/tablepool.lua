-- tablepool: tables that are used again, some for each name.
local clear = require("table.clear")

-- Tables of one name that are kept.
local KEPT_MAX = 200

local pools = {}
local M = {}

function M.fetch(name)
    local pool = pools[name]
    local count = pool and #pool or 0
    if count == 0 then
        return {}
    end
    local kept = pool[count]
    pool[count] = nil
    return kept
end

function M.release(name, value, is_kept_full)
    if not value then
        error("object empty", 2)
    end
    local pool = pools[name] or {}
    pools[name] = pool
    if not is_kept_full then
        setmetatable(value, nil)
        clear(value)
    end
    if #pool < KEPT_MAX then
        pool[#pool + 1] = value
    end
end

return M
