// One session of pathways.v1 over @grpc/grpc-js: the .proto files are loaded at run time, nothing is generated.
//
// Frames are numbered from 1 in each direction and acknowledged with `received`; the controller sends at most two frames that were not.
// Every question has a number of ours (a fetch, a wait, an executable) and its answer names it. Nothing is waited for without a
// deadline. A client that wants less sends `plain: true` in its hello and leaves numbers and acknowledgements out: see ../cpp.
"use strict";

const path = require("node:path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const PROTO = path.join(__dirname, "..", "..", "proto");
const ANSWER_MS = 60_000;
const CHUNK_BYTES = 1 << 20;
const FAILURE_KEY = "pathways-failure-bin";
// The field that names what an answer belongs to.
const NUMBER_OF = {
  compiled: "executable_id",
  ready: "wait_id",
  fetched: "fetch_id",
  fetch_ticket: "fetch_id",
  fetch_failed: "fetch_id",
  upload_grant: "upload_id",
  upload_withdrawn: "upload_id",
  program_defined: "program_id",
  fence_reached: "fence_id",
};
// Several operations may answer one question.
const KIND_OF = { fetch_ticket: "fetched", fetch_failed: "fetched", upload_withdrawn: "upload_grant" };

const definition = loader.loadSync(["sessions", "data", "cluster"].map((name) => `pathways/v1/${name}.proto`), {
  includeDirs: [PROTO],
  keepCase: true,
  longs: Number,
  enums: String,
  defaults: true,
  oneofs: true,
});
const api = grpc.loadPackageDefinition(definition).pathways.v1;

/** A failure of the cluster: `reason` is for programs, `message` for people. */
class PathwaysFailure extends Error {
  constructor(failure) {
    super(failure.message);
    this.name = "PathwaysFailure";
    Object.assign(this, { reason: failure.reason, host: failure.host, metadata: failure.metadata, retryable: failure.retryable });
  }
}

class Session {
  /** Resolves to an open session; rejects with the reason if it is refused. `address` is HOST:PORT. */
  static async open(address, token, hello = {}) {
    const session = new Session(address, token);
    session.stream.write({ hello: { client: `node ${path.basename(process.argv[1])}`, ...hello } });
    session.welcome = await session._expect("welcome", 0);
    return session;
  }

  constructor(address, token) {
    this.metadata = new grpc.Metadata();
    this.metadata.set("authorization", `Bearer ${token}`);
    this.client = new api.Sessions(address, grpc.credentials.createInsecure());
    this.dataClients = new Map(); // by address of a worker
    this.waiting = new Map(); // "kind number" -> {resolve, reject, timer}
    this.sent = 0; // our last frame
    this.received = 0; // the controller's last frame
    this.lastId = 0;
    this.lastNumber = 0;
    this.stream = this.client.Connect(this.metadata);
    this.stream.on("data", (frame) => this._take(frame));
    this.stream.on("error", (error) => this._lose(error));
    this.stream.on("end", () => this._lose(new Error("the controller ended the session")));
  }

  /** Ids of buffers, views, executables, programs and runs share one counter. */
  newIds(count = 1) {
    const first = this.lastId + 1;
    this.lastId += count;
    return first;
  }

  /** Fetches, waits, uploads and fences have numbers of their own. */
  newNumber() {
    return ++this.lastNumber;
  }

  // ---- frames ------------------------------------------------------------------------------------------------------

  /** Sends operations in one frame; they are carried out in their order. */
  send(...operations) {
    this.stream.write({ sequence: ++this.sent, received: this.received, operations });
  }

  _take(frame) {
    if (frame.welcome) this._answer("welcome", 0, frame.welcome);
    if (frame.refused) this._lose(new PathwaysFailure(frame.refused.failure));
    if (frame.sequence === 0) return; // an acknowledgement alone
    if (frame.sequence !== this.received + 1) {
      this._lose(new Error(`frame ${frame.sequence} came after frame ${this.received}`));
      return;
    }
    this.received = frame.sequence;
    for (const operation of frame.operations) this._dispatch(operation.operation, operation[operation.operation]);
    this.stream.write({ sequence: 0, received: this.received }); // without it the controller falls silent
  }

  _dispatch(kind, message) {
    if (kind === "session_lost") this._lose(new PathwaysFailure(message.failure));
    else if (kind === "notice") console.error(`notice from ${message.host}: ${message.text}`);
    else if (kind in NUMBER_OF) this._answer(KIND_OF[kind] ?? kind, message[NUMBER_OF[kind]], message);
  }

  // ---- questions ---------------------------------------------------------------------------------------------------

  _expect(kind, number) {
    if (this.lost) return Promise.reject(this.lost);
    return new Promise((resolve, reject) => {
      const late = () => {
        this.waiting.delete(`${kind} ${number}`);
        reject(new Error(`no ${kind} ${number} within ${ANSWER_MS / 1000} s`));
      };
      this.waiting.set(`${kind} ${number}`, { resolve, reject, timer: setTimeout(late, ANSWER_MS) });
    });
  }

  _answer(kind, number, message) {
    const asked = this.waiting.get(`${kind} ${number}`);
    if (!asked) return;
    this.waiting.delete(`${kind} ${number}`);
    clearTimeout(asked.timer);
    if (message.failure) asked.reject(new PathwaysFailure(message.failure));
    else asked.resolve(message);
  }

  _lose(error) {
    this.lost ??= error;
    for (const { reject, timer } of this.waiting.values()) {
      clearTimeout(timer);
      reject(this.lost);
    }
    this.waiting.clear();
  }

  _ask(kind, number, operation) {
    const answer = this._expect(kind, number);
    this.send(operation);
    return answer;
  }

  // ---- programs ----------------------------------------------------------------------------------------------------

  /** Compiles StableHLO (text or bytes) or a jax.export artifact for these devices: {id, info}. */
  async compile(program, devices) {
    const id = this.newIds();
    const answer = await this._ask("compiled", id, { compile: { executable_id: id, program: Buffer.from(program), devices } });
    return { id, info: answer.info };
  }

  /** Runs an executable; returns the ids of its results at once. */
  execute(executable, argumentIds) {
    const count = executable.info.outputs.length;
    const id = this.newIds(1 + count);
    this.send({ execute: { execution_id: id, executable_id: executable.id, arguments: argumentIds, first_result_id: id + 1 } });
    return Array.from({ length: count }, (_, index) => id + 1 + index);
  }

  /** Compiles a program that somebody registered, for these devices (none = the first ones): {id, arguments, results, version}. */
  async openProgram(name, { version = 0, devices = [] } = {}) {
    const id = this.newIds();
    const answer = await this._ask("program_defined", id, { open_program: { program_id: id, name, version, devices } });
    return { id, arguments: answer.arguments, results: answer.results, version: answer.version };
  }

  /** Runs a program; returns the ids of its results at once. */
  run(program, argumentIds) {
    const count = program.results.length;
    const id = this.newIds(1 + count);
    this.send({ run_program: { run_id: id, program_id: program.id, arguments: argumentIds, first_result_id: id + 1 } });
    return Array.from({ length: count }, (_, index) => id + 1 + index);
  }

  // ---- values ------------------------------------------------------------------------------------------------------

  /** An array of this spec from one Buffer per shard. Large shards go straight to the hosts that will hold them. */
  async put(spec, shards) {
    const id = this.newIds();
    const uploads = [];
    const pieces = shards.map((data, shard) => {
      if (data.length <= this.welcome.inline_bytes_max) return { shards: [shard], inline: data };
      const upload_id = this.newNumber();
      uploads.push([this._expect("upload_grant", upload_id), data]);
      return { shards: [shard], upload_id, size_bytes: data.length };
    });
    this.send({ make_array: { buffer_id: id, spec, pieces } });
    await Promise.all(uploads.map(async ([grant, data]) => {
      await Promise.all((await grant).targets.map((target) => this._push(target, data)));
    }));
    return id;
  }

  /** The bytes of one shard, once it is computed. */
  async fetch(viewId, shard, sizeBytes) {
    const fetch_id = this.newNumber();
    const answer = await this._ask("fetched", fetch_id, { fetch: { fetch_id, view_id: viewId, shard, size_bytes: sizeBytes } });
    return answer.source ? this._pull(answer.source) : answer.data;
  }

  /** Resolves once all values are computed; rejects with the first cause if one has failed. */
  async wait(...views) {
    const wait_id = this.newNumber();
    await this._ask("ready", wait_id, { wait: { wait_id, views } });
  }

  /** Ends what makes these values, as far as it has not begun. */
  cancel(...views) {
    this.send({ cancel: { views } });
  }

  release({ views = [], executables = [], programs = [] }) {
    this.send({ release: { views, executables, programs } });
  }

  async close() {
    const ended = new Promise((resolve) => this.stream.once("end", resolve));
    this.send({ goodbye: { reason: "done" } }); // the controller ends the stream behind it
    await ended;
    this.stream.end();
    this.client.close();
    for (const client of this.dataClients.values()) client.close();
  }

  // ---- bulk bytes --------------------------------------------------------------------------------------------------

  _data(address) {
    if (!this.dataClients.has(address)) this.dataClients.set(address, new api.Data(address, grpc.credentials.createInsecure()));
    return this.dataClients.get(address);
  }

  _push(target, data) {
    return new Promise((resolve, reject) => {
      const done = (error, response) => (error ? reject(failureOf(error)) : resolve(response));
      const call = this._data(target.address).Push({ deadline: Date.now() + ANSWER_MS }, done);
      call.write({ ticket: target.ticket, data: data.subarray(0, CHUNK_BYTES) });
      for (let at = CHUNK_BYTES; at < data.length; at += CHUNK_BYTES) call.write({ data: data.subarray(at, at + CHUNK_BYTES) });
      call.end();
    });
  }

  _pull(source) {
    return new Promise((resolve, reject) => {
      const chunks = [];
      const call = this._data(source.address).Pull({ ticket: source.ticket }, { deadline: Date.now() + ANSWER_MS });
      call.on("data", (chunk) => chunks.push(chunk.data));
      call.on("error", (error) => reject(failureOf(error)));
      call.on("end", () => resolve(Buffer.concat(chunks)));
    });
  }
}

/** What a call of Data failed with: the failure of the array if it carries one. */
function failureOf(error) {
  const [carried] = error.metadata?.get(FAILURE_KEY) ?? [];
  return carried ? new Error(`${error.details}`) : error;
}

module.exports = { Session, PathwaysFailure, api, grpc };
