-- resty.random: random bytes.
local _, native = ...

local M = { _VERSION = "0.16", bytes = native.random }

-- A whole number from `first` to `last`.
function M.number(first, last)
    return math.random(first, last)
end

-- Letters and digits.
function M.token(length)
    local alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    local letters = {}
    while #letters < length do
        -- Bytes from 248 on would favour some letters.
        local value = native.random(1):byte()
        if value < 248 then
            letters[#letters + 1] = alphabet:sub(value % 62 + 1, value % 62 + 1)
        end
    end
    return table.concat(letters)
end

return M
