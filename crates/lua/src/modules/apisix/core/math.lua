-- apisix.core.math: the greatest common divisor.
local M = {}

function M.gcd(left, right)
    while right ~= 0 do
        left, right = right, left % right
    end
    return left
end

return M
