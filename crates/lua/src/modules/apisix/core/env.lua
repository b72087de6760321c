-- apisix.core.env: references to variables of the environment are resolved in configurations, before a script sees them.
local M = { PREFIX = "$ENV://" }

function M.fetch_by_uri()
    return nil, "not available in Weir: variables of the environment in scripts; a reference in a configuration is resolved"
end

return M
