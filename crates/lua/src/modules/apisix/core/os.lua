-- apisix.core.os: scripts have no processes and set no variables of the environment.
local _, native = ...

return native.complete("apisix.core.os", {})
