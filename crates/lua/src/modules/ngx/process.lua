-- ngx.process: each interpreter belongs to a worker.
local _, native = ...

return native.complete("ngx.process", {
    version = "0.1.29",
    type = function() return "worker" end,
    get_master_pid = function() return ngx.worker.pid() end,
    enable_privileged_agent = function() return nil, "not available in Weir: a privileged agent" end,
})
