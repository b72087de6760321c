-- apisix.consumer: names the consumer of a request to the plugins behind and to the service.
local _, native = ...
local core = require("apisix.core")

local M = {}

-- Makes `consumer` the one of this request.
function M.attach_consumer(ctx, consumer, conf)
    ctx.consumer = consumer
    ctx.consumer_name = consumer.consumer_name
    ctx.consumer_group_id = consumer.group_id
    ctx.consumer_ver = conf and conf.conf_version
    core.request.set_header(ctx, "X-Consumer-Username", consumer.username)
    core.request.set_header(ctx, "X-Credential-Identifier", consumer.credential_id)
    core.request.set_header(ctx, "X-Consumer-Custom-ID", consumer.custom_id)
end

return native.complete("apisix.consumer", M)
