// A session in Node.js: `node example.js [NAME]`, with PATHWAYS_ADDRESS (grpc://HOST:PORT) and PATHWAYS_TOKEN or PATHWAYS_STATE_DIR.
//
// Runs a program written as StableHLO text on two devices, moves a large array, cancels work, and (with NAME) runs a program that
// somebody registered under that name. Checks every number and says what it did; ends with 0 if all is right.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { PathwaysFailure, Session } = require("./session");

const F32 = 11; // element types are numbered as in xla.PrimitiveType
// A serialized xla.OpSharding: type OTHER, the first dimension cut into this many tiles, tile i at position i of the device list.
const cut = (tiles) => Buffer.from([0x08, 3, 0x1a, 1, tiles, 0x22, tiles, ...Array(tiles).keys()]);

const spec = (size, devices) => ({
  dtype: F32,
  shape: [size],
  sharding: cut(devices.length),
  shard_shape: [size / devices.length],
  devices,
});
const bytesOf = (numbers) => Buffer.from(Float32Array.from(numbers).buffer);
const numbersOf = (bytes) => Array.from(new Float32Array(Uint8Array.from(bytes).buffer));
const range = (start, stop) => Array.from({ length: stop - start }, (_, index) => start + index);

// y = x + 1, each device its half; total is summed over both, and each device holds it.
const addAndSum = (size) => `
module @add_and_sum {
  sdy.mesh @mesh = <["d"=2]>
  func.func @main(%x: tensor<${size}xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}]>})
      -> (tensor<${size}xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}]>}, tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}) {
    %one = stablehlo.constant dense<1.0> : tensor<${size}xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %y = stablehlo.add %x, %one : tensor<${size}xf32>
    %total = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<${size}xf32>, tensor<f32>) -> tensor<f32>
    return %y, %total : tensor<${size}xf32>, tensor<f32>
  }
}`;

async function small(session, devices) {
  const program = await session.compile(addAndSum(8), devices);
  const x = await session.put(spec(8, devices), [bytesOf(range(0, 4)), bytesOf(range(4, 8))]);
  const [y, total] = session.execute(program, [x]);
  await session.wait(y, total);
  const halves = await Promise.all([0, 1].map((shard) => session.fetch(y, shard, 16)));
  assert.deepEqual(halves.flatMap(numbersOf), range(1, 9));
  for (const shard of [0, 1]) assert.deepEqual(numbersOf(await session.fetch(total, shard, 4)), [36]);
  session.release({ views: [x, y, total], executables: [program.id] });
  console.log(`add_and_sum on devices ${devices}: y = 1..8, total = 36 on both`);
}

async function large(session, devices) {
  const size = 65_536; // 128 KiB a shard: above what a frame carries
  const half = size / 2;
  const program = await session.compile(addAndSum(size), devices);
  const x = await session.put(spec(size, devices), [bytesOf(range(0, half)), bytesOf(range(half, size))]);
  const [y, total] = session.execute(program, [x]);
  const halves = await Promise.all([0, 1].map((shard) => session.fetch(y, shard, half * 4)));
  assert.deepEqual(halves.flatMap(numbersOf), range(1, size + 1));
  session.release({ views: [x, y, total], executables: [program.id] });
  console.log(`${size} numbers went to the hosts and came back, straight, under tickets`);
}

async function mistakes(session, devices) {
  const text = "module @broken { func.func @main( }";
  await assert.rejects(session.compile(text, devices), (error) => error instanceof PathwaysFailure && error.reason === "COMPILE_ERROR");
  console.log("text that does not parse is refused, and the session goes on");
}

async function cancelled(session, devices) {
  const program = await session.compile(addAndSum(8), devices);
  // Bytes that are announced and never sent: what needs them cannot begin.
  const x = session.newIds();
  const piece = (shard) => ({ shards: [shard], upload_id: session.newNumber(), size_bytes: 16 });
  session.send({ make_array: { buffer_id: x, spec: spec(8, devices), pieces: [piece(0), piece(1)] } });
  const [y, total] = session.execute(program, [x]);
  session.cancel(y);
  await assert.rejects(session.wait(total), (error) => error instanceof PathwaysFailure && error.reason === "CANCELLED");
  session.release({ views: [x, y, total], executables: [program.id] });
  console.log("work that had not begun was cancelled");
}

/** The program takes x and returns 2 x + 1 (f32), whatever its shape and however it lies. */
async function byName(session, name) {
  const program = await session.openProgram(name);
  const [argument] = program.arguments;
  const size = argument.shard_shape.reduce((product, length) => product * length, 1);
  const shards = argument.devices.map((_, shard) => range(shard * size, (shard + 1) * size));
  const x = await session.put(argument, shards.map(bytesOf));
  const [y] = session.run(program, [x]);
  await session.wait(y);
  const [result] = program.results;
  for (const shard of result.devices.keys()) {
    const got = numbersOf(await session.fetch(y, shard, size * 4));
    assert.deepEqual(got, shards[shard].map((number) => 2 * number + 1));
  }
  session.release({ views: [x, y], programs: [program.id] });
  console.log(`program ${name}, version ${program.version}: 2 x + 1 on ${argument.devices.length} devices`);
}

function credentials() {
  const { PATHWAYS_ADDRESS: address, PATHWAYS_TOKEN: token, PATHWAYS_STATE_DIR: state } = process.env;
  if (!address || !(token || state)) throw new Error("set PATHWAYS_ADDRESS, and PATHWAYS_TOKEN or PATHWAYS_STATE_DIR");
  return [address.replace(/^grpc:\/\//, ""), token || fs.readFileSync(path.join(state, "token"), "utf8").trim()];
}

async function main() {
  const session = await Session.open(...credentials());
  const devices = session.welcome.devices.filter((device) => !device.pool);
  console.log(`session ${session.welcome.session_number}: ${devices.map((device) => device.host).join(" ")} (${session.welcome.platform})`);
  const pair = devices.slice(0, 2).map((device) => device.device_id);
  assert.equal(pair.length, 2, "this example needs two devices");
  await small(session, pair);
  await large(session, pair);
  await mistakes(session, pair);
  await cancelled(session, pair);
  if (process.argv[2]) await byName(session, process.argv[2]);
  await session.close();
  console.log("goodbye");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
