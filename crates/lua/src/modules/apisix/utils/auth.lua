-- apisix.utils.auth: facts about the plugin that asks for the credentials.
local M = {}

function M.is_running_under_multi_auth(ctx)
    return ctx._plugin_name == "multi-auth"
end

return M
