// A session of pathways.v1 in C++: `example [NAME]`, with PATHWAYS_ADDRESS (grpc://HOST:PORT) and PATHWAYS_TOKEN or PATHWAYS_STATE_DIR.
//
// The shortest form of a client: with `plain` in the hello it neither numbers nor acknowledges frames. It compiles StableHLO text for
// two devices, runs it, reads a small result in the stream and a large one from the hosts, and (with NAME) runs a program that
// somebody registered under that name. Ends with 0 if all numbers are right.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "pathways/v1/data.grpc.pb.h"
#include "pathways/v1/sessions.grpc.pb.h"

namespace v1 = pathways::v1;
using Numbers = std::vector<float>;

namespace {

constexpr int kF32 = 11;  // element types are numbered as in xla.PrimitiveType
constexpr size_t kChunkBytes = 1 << 20;

void check(bool right, const std::string& what) {
  if (!right) throw std::runtime_error(what);
}

std::string bytes_of(const Numbers& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
}

Numbers numbers_of(const std::string& bytes) {
  Numbers numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

Numbers range(int start, int stop) {
  Numbers numbers(stop - start);
  std::iota(numbers.begin(), numbers.end(), static_cast<float>(start));
  return numbers;
}

// One dimension, cut evenly over the devices: a serialized xla.OpSharding of type OTHER, tile i at position i of the device list.
v1::ArraySpec cut(int64_t size, const std::vector<int>& devices) {
  v1::ArraySpec spec;
  const char count = static_cast<char>(devices.size());
  std::string sharding{0x08, 3, 0x1a, 1, count, 0x22, count};
  for (char position = 0; position < count; ++position) sharding.push_back(position);
  spec.set_dtype(kF32);
  spec.add_shape(size);
  spec.set_sharding(sharding);
  spec.add_shard_shape(size / count);
  for (int device : devices) spec.add_devices(device);
  return spec;
}

std::string add_and_sum(int size) {
  const std::string type = "tensor<" + std::to_string(size) + "xf32>";
  const std::string by_shard = " {sdy.sharding = #sdy.sharding<@mesh, [{\"d\"}]>}";
  return "module @add_and_sum { sdy.mesh @mesh = <[\"d\"=2]>\n"
         "func.func @main(%x: " + type + by_shard + ") -> (" + type + by_shard +
         ", tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}) {\n"
         "  %one = stablehlo.constant dense<1.0> : " + type + "\n"
         "  %zero = stablehlo.constant dense<0.0> : tensor<f32>\n"
         "  %y = stablehlo.add %x, %one : " + type + "\n"
         "  %total = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0] : (" + type +
         ", tensor<f32>) -> tensor<f32>\n"
         "  return %y, %total : " + type + ", tensor<f32>\n}}";
}

class Session {
 public:
  Session(const std::string& address, const std::string& token)
      : stub_(v1::Sessions::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {
    context_.AddMetadata("authorization", "Bearer " + token);
    // One deadline for the whole example, so that nothing waits for ever.
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(3));
    stream_ = stub_->Connect(&context_);
    v1::ClientFrame first;
    first.mutable_hello()->set_client("c++ example");
    first.mutable_hello()->set_plain(true);
    stream_->Write(first);
    v1::ServerFrame frame;
    if (!stream_->Read(&frame)) throw std::runtime_error(stream_->Finish().error_message());
    check(!frame.has_refused(), frame.refused().failure().message());
    welcome = frame.welcome();
  }

  uint64_t new_ids(int count = 1) {
    last_id_ += count;
    return last_id_ - count + 1;
  }

  // Queues an operation; they leave in one frame with the next answer that is waited for.
  v1::ClientOperation& operation() { return *frame_.add_operations(); }

  void flush() {
    check(stream_->Write(frame_), "the session has ended");
    frame_.Clear();
  }

  // The next answer for which `wanted` is true. This client asks one question at a time, so what else comes is only news.
  v1::ServerOperation answer(const std::function<bool(const v1::ServerOperation&)>& wanted) {
    if (frame_.operations_size()) flush();
    while (true) {
      while (!unread_.empty()) {
        const v1::ServerOperation operation = unread_.front();
        unread_.pop_front();
        check(!operation.has_session_lost(), operation.session_lost().failure().message());
        if (wanted(operation)) return operation;
      }
      v1::ServerFrame frame;
      if (!stream_->Read(&frame)) throw std::runtime_error(stream_->Finish().error_message());
      unread_.insert(unread_.end(), frame.operations().begin(), frame.operations().end());
    }
  }

  uint64_t compile(const std::string& program, const std::vector<int>& devices) {
    const uint64_t id = new_ids();
    auto& compile = *operation().mutable_compile();
    compile.set_executable_id(id);
    compile.set_program(program);
    for (int device : devices) compile.add_devices(device);
    const auto compiled = answer([](const auto& each) { return each.has_compiled(); }).compiled();
    check(!compiled.has_failure(), compiled.failure().message());
    return id;
  }

  uint64_t put(const v1::ArraySpec& spec, const std::vector<Numbers>& shards) {
    const uint64_t id = new_ids();
    auto& array = *operation().mutable_make_array();
    array.set_buffer_id(id);
    *array.mutable_spec() = spec;
    std::vector<std::pair<uint64_t, std::string>> uploads;
    for (size_t shard = 0; shard < shards.size(); ++shard) {
      auto& piece = *array.add_pieces();
      const std::string bytes = bytes_of(shards[shard]);
      piece.add_shards(shard);
      piece.set_size_bytes(bytes.size());
      if (static_cast<int64_t>(bytes.size()) <= welcome.inline_bytes_max()) {
        piece.set_inline_(bytes);
      } else {
        piece.set_upload_id(++last_number_);
        uploads.emplace_back(last_number_, bytes);
      }
    }
    for (const auto& [number, bytes] : uploads) {
      const auto granted = answer([](const auto& each) { return each.has_upload_grant() || each.has_upload_withdrawn(); });
      check(granted.has_upload_grant(), granted.upload_withdrawn().failure().message());
      // Grants come in the order of the pieces.
      check(granted.upload_grant().upload_id() == number, "another upload was granted");
      for (const auto& target : granted.upload_grant().targets()) push(target, bytes);
    }
    return id;
  }

  Numbers fetch(uint64_t view, uint32_t shard, uint64_t size_bytes) {
    auto& fetch = *operation().mutable_fetch();
    fetch.set_fetch_id(++last_number_);
    fetch.set_view_id(view);
    fetch.set_shard(shard);
    fetch.set_size_bytes(size_bytes);
    const auto got =
        answer([](const auto& each) { return each.has_fetched() || each.has_fetch_ticket() || each.has_fetch_failed(); });
    check(!got.has_fetch_failed(), got.fetch_failed().failure().message());
    return numbers_of(got.has_fetched() ? got.fetched().data() : pull(got.fetch_ticket().source()));
  }

  void close() {
    operation().mutable_goodbye()->set_reason("done");
    flush();
    stream_->WritesDone();
    v1::ServerFrame frame;
    while (stream_->Read(&frame)) {
    }
    const auto status = stream_->Finish();
    check(status.ok(), status.error_message());
  }

  v1::Welcome welcome;

 private:
  static std::unique_ptr<v1::Data::Stub> data(const std::string& address) {
    return v1::Data::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  }

  static void push(const v1::DataTicket& target, const std::string& bytes) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    v1::PushResponse response;
    auto stub = data(target.address());
    auto writer = stub->Push(&context, &response);
    v1::PushRequest request;
    request.set_ticket(target.ticket());
    for (size_t at = 0; at < bytes.size(); at += kChunkBytes) {
      request.set_data(bytes.substr(at, kChunkBytes));
      writer->Write(request);
      request.clear_ticket();
    }
    writer->WritesDone();
    const auto status = writer->Finish();
    check(status.ok(), status.error_message());
  }

  static std::string pull(const v1::DataTicket& source) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    v1::PullRequest request;
    request.set_ticket(source.ticket());
    auto stub = data(source.address());
    auto reader = stub->Pull(&context, request);
    std::string bytes;
    v1::PullResponse chunk;
    while (reader->Read(&chunk)) bytes += chunk.data();
    const auto status = reader->Finish();
    check(status.ok(), status.error_message());
    return bytes;
  }

  std::unique_ptr<v1::Sessions::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClientFrame, v1::ServerFrame>> stream_;
  v1::ClientFrame frame_;
  std::deque<v1::ServerOperation> unread_;
  uint64_t last_id_ = 0;
  uint64_t last_number_ = 0;
};

void sum(Session& session, const std::vector<int>& devices, int size) {
  const int half = size / 2;
  const uint64_t program = session.compile(add_and_sum(size), devices);
  const uint64_t x = session.put(cut(size, devices), {range(0, half), range(half, size)});
  const uint64_t run = session.new_ids(3);
  auto& execute = *session.operation().mutable_execute();
  execute.set_execution_id(run);
  execute.set_executable_id(program);
  execute.add_arguments(x);
  execute.set_first_result_id(run + 1);
  check(session.fetch(run + 1, 0, half * sizeof(float)) == range(1, half + 1), "the first half is wrong");
  check(session.fetch(run + 1, 1, half * sizeof(float)) == range(half + 1, size + 1), "the second half is wrong");
  if (size == 8) check(session.fetch(run + 2, 1, sizeof(float)) == Numbers{36}, "the sum is wrong");
  auto& release = *session.operation().mutable_release();
  for (uint64_t view : {x, run + 1, run + 2}) release.add_views(view);
  release.add_executables(program);
  std::cout << "add_and_sum of " << size << " numbers on two devices is right\n";
}

// The program takes x and returns 2 x + 1 (f32), whatever its shape and however it lies.
void by_name(Session& session, const std::string& name) {
  const uint64_t id = session.new_ids();
  auto& open = *session.operation().mutable_open_program();
  open.set_program_id(id);
  open.set_name(name);
  const auto program = session.answer([](const auto& each) { return each.has_program_defined(); }).program_defined();
  check(!program.has_failure(), program.failure().message());
  const auto& spec = program.arguments(0);
  int size = 1;
  for (auto length : spec.shard_shape()) size *= static_cast<int>(length);
  std::vector<Numbers> shards;
  for (int shard = 0; shard < spec.devices_size(); ++shard) shards.push_back(range(shard * size, (shard + 1) * size));
  const uint64_t x = session.put(spec, shards);
  const uint64_t run = session.new_ids(2);
  auto& run_program = *session.operation().mutable_run_program();
  run_program.set_run_id(run);
  run_program.set_program_id(id);
  run_program.add_arguments(x);
  run_program.set_first_result_id(run + 1);
  for (int shard = 0; shard < spec.devices_size(); ++shard) {
    Numbers expected = shards[shard];
    for (float& number : expected) number = 2 * number + 1;
    check(session.fetch(run + 1, shard, size * sizeof(float)) == expected, "2 x + 1 is wrong");
  }
  std::cout << "program " << name << ", version " << program.version() << ": 2 x + 1 on " << spec.devices_size() << " devices\n";
}

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

int main(int count, char** words) try {
  std::string address = setting("PATHWAYS_ADDRESS"), token = setting("PATHWAYS_TOKEN");
  if (token.empty()) std::ifstream(setting("PATHWAYS_STATE_DIR") + "/token") >> token;
  check(!address.empty() && !token.empty(), "set PATHWAYS_ADDRESS, and PATHWAYS_TOKEN or PATHWAYS_STATE_DIR");
  if (address.rfind("grpc://", 0) == 0) address = address.substr(7);
  Session session(address, token);
  std::cout << "session " << session.welcome.session_number() << " on " << session.welcome.platform() << "\n";
  const std::vector<int> devices{0, 1};
  sum(session, devices, 8);
  sum(session, devices, 65536);  // 128 KiB a shard: above what a frame carries
  if (count > 1) by_name(session, words[1]);
  session.close();
  std::cout << "goodbye\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
