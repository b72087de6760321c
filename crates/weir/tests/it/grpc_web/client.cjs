// Calls through the gateway with the npm package grpc-web, as a browser would make them: the first argument is the base URL.
"use strict";

const assert = require("node:assert");
global.XMLHttpRequest = require("xhr2");
const { GrpcWebClientBase, MethodDescriptor } = require("grpc-web");

const base = process.argv[2];
const text = (bytes) => Buffer.from(bytes).toString();

/** Makes a call: the messages of the response, and its status. */
function call(format, method, type, message, metadata) {
  const descriptor = new MethodDescriptor(`/test.Echo/${method}`, type, Object, Object, (bytes) => bytes, text);
  const client = new GrpcWebClientBase({ format });
  const [url, request] = [`${base}/test.Echo/${method}`, new Uint8Array(Buffer.from(message))];
  return new Promise((resolve) => {
    const [messages, seen] = [[], { code: null, details: null, metadata: {} }];
    const ended = () => setImmediate(() => resolve({ messages, status: seen }));
    const stream =
      type === "unary"
        ? client.rpcCall(url, request, metadata, descriptor, (error, response) => {
            if (error) [seen.code, seen.details] = [error.code, error.message];
            else messages.push(response);
            ended();
          })
        : client.serverStreaming(url, request, metadata, descriptor);
    stream.on("status", (status) => Object.assign(seen, status));
    if (type === "unary") return;
    stream.on("data", (response) => messages.push(response));
    stream.on("error", (error) => {
      [seen.code, seen.details] = [error.code, error.message];
      ended();
    });
    stream.on("end", ended);
  });
}

async function main() {
  for (const format of ["binary", "text"]) {
    const long = "x".repeat(100_000);
    for (const message of ["hello", "", long]) {
      const { messages, status } = await call(format, "Unary", "unary", message, { "echo-trailing-a": "b" });
      assert.deepStrictEqual(messages, [message], `${format}: the response of ${message.length} bytes`);
      assert.strictEqual(status.code, 0, format);
      assert.strictEqual(status.metadata["echo-trailing-a"], "b", format);
    }
    const failed = await call(format, "Unary", "unary", "hello", { "fail-code": "5" });
    assert.deepStrictEqual([failed.messages, failed.status.code], [[], 5], `${format}: a failed call`);
    assert.match(failed.status.details, /why: 100 % ü/);
    const late = await call(format, "Unary", "unary", "hello", { "sleep-ms": "20000", "grpc-timeout": "200m" });
    assert.deepStrictEqual([late.messages, late.status.code], [[], 4], `${format}: a call beyond its deadline`);
    const stream = await call(format, "ServerStream", "server_streaming", "n", { count: "4" });
    assert.deepStrictEqual([stream.messages, stream.status.code], [["n0", "n1", "n2", "n3"], 0], format);
    const broken = await call(format, "ServerStream", "server_streaming", "n", { count: "1", "fail-after": "1" });
    assert.deepStrictEqual([broken.messages, broken.status.code], [["n0"], 15], format);
  }
  console.log("done");
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
