-- apisix.core.id: the identity of the instance.
local _, native = ...

return { version = 0.1, get = native.instance_id, gen_uuid_v4 = require("resty.jit-uuid").generate_v4 }
