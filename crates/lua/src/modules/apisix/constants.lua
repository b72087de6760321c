-- apisix.constants: numbers of the messages to plugin runners.
return {
    RPC_ERROR = 0, RPC_PREPARE_CONF = 1, RPC_HTTP_REQ_CALL = 2, RPC_EXTRA_INFO = 3, RPC_HTTP_RESP_CALL = 4,
}
