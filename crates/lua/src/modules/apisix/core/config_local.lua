-- apisix.core.config_local: the settings of the instance in the form of APISIX's `config.yaml`, without secrets.
local _, native = ...

local settings
local M = { version = 0.1 }

-- The same table until it is read anew; each script sees its own copy.
function M.local_conf(is_forced)
    if is_forced or not settings then
        settings = native.settings()
        settings.apisix = settings.apisix or {}
        settings.plugin_attr = settings.plugin_attr or {}
    end
    return settings
end
native.returns_shared[M.local_conf] = true

return M
