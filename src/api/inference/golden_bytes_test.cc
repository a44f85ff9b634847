// The inference protocol to the byte: real requests over a socket, replies compared as they are.
#include <gtest/gtest.h>

#include <cstring>

#include "api/inference/inference_routes.h"
#include "api/testing/caller.h"
#include "api/testing/declared_project.h"
#include "net/compression.h"
#include "net/server.h"
#include "net/testing/raw_socket.h"

namespace falaj::api {
namespace {

using net::testing::body_of;
using net::testing::RawSocket;
using net::testing::status_of;
using namespace std::string_literals;
namespace onnx = serving::testing;

// Models: "fraud" (score = 2a + b + 1), and for each type one that gives back what it gets.
class GoldenBytes : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.apply_customers();
    world_.apply("Deployment", "fraud", R"({"model":"fraud"})");
    world_.promote(world_.register_linear(2, 1));
    for (const auto& [name, type, datatype] :
         std::vector<std::tuple<std::string, std::uint64_t, std::string>>{
             {"floats", onnx::kOnnxFloat, "FP32"},
             {"halves", onnx::kOnnxHalf, "FP16"},
             {"bfloats", onnx::kOnnxBfloat, "BF16"},
             {"truths", onnx::kOnnxBool, "BOOL"},
             {"integers", onnx::kOnnxInt64, "INT64"},
             {"texts", onnx::kOnnxString, "BYTES"}}) {
      const registry::Signature signature{{{"x", datatype, {-1}}}, {{"y", datatype, {-1}}}, {}};
      world_.serve_onnx(name, onnx::identity_onnx(type, {-1}), signature);
    }
    const Status ticked = world_.deployments->tick();
    ASSERT_TRUE(ticked.ok()) << ticked.error().message;
    for (net::Route& route : inference_routes({*world_.deployments, catalog_, "9.9"})) {
      router_.add(std::move(route));
    }
    auto started = net::Server::start(
        {}, router_,
        [](const net::Route&, net::Request& request) -> Status {
          request.caller = testing::developer("pay");
          return {};
        },
        world_.metrics);
    ASSERT_TRUE(started.ok()) << started.error().message;
    server_ = std::move(started).value();
  }

  // The bytes as given, and the whole reply.
  std::string exchange(const std::string& bytes) {
    RawSocket socket(server_->port());
    EXPECT_TRUE(socket.write(bytes));
    return socket.reply();
  }
  std::string post(const std::string& model, const std::string& headers, const std::string& body) {
    return exchange("POST /v2/models/" + model + "/infer HTTP/1.1\r\nHost: localhost\r\n" +
                    headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  static std::string header_of(const std::string& reply, const std::string& name) {
    const std::size_t at = reply.find("\r\n" + name + ": ");
    if (at == std::string::npos || at > reply.find("\r\n\r\n")) return "";
    const std::size_t begin = at + name.size() + 4;
    return reply.substr(begin, reply.find("\r\n", begin) - begin);
  }
  // One binary input "x" and, unless told otherwise, all outputs in binary.
  static std::string head_of(const std::string& type, const std::string& shape, std::size_t bytes) {
    return R"({"inputs":[{"name":"x","shape":)" + shape + R"(,"datatype":")" + type +
           R"(","parameters":{"binary_data_size":)" + std::to_string(bytes) +
           R"(}}],"parameters":{"binary_data_output":true}})";
  }
  static std::string length_header(std::size_t bytes) {
    return "Inference-Header-Content-Length: " + std::to_string(bytes) + "\r\n";
  }
  std::string post_binary(const std::string& model, const std::string& type,
                          const std::string& shape, const std::string& tensor) {
    const std::string head = head_of(type, shape, tensor.size());
    return post(model, length_header(head.size()), head + tensor);
  }

  serving::testing::ServingWorld world_;
  catalog::Catalog catalog_{*world_.sql, world_.audit, world_.clock,
                            testing::declare_project(world_), [] {}};
  net::Router router_;
  std::unique_ptr<net::Server> server_;
};

std::string error_of(const std::string& reply) {
  const auto value = parse_json(body_of(reply));
  return value.ok() ? value->text("error") : "no JSON: " + reply;
}

TEST_F(GoldenBytes, a_json_request_gets_a_json_reply_with_its_id_and_a_flat_list) {
  const std::string reply =
      post("fraud", "",
           R"({"id":"a b","model_name":"x","inputs":[{"name":"input","shape":[2,2],)"
           R"("datatype":"FP32","data":[[1,2],[3,4]]}]})");
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 200 OK\r\n")) << reply;
  EXPECT_EQ(header_of(reply, "Content-Type"), "application/json");
  EXPECT_EQ(header_of(reply, "Inference-Header-Content-Length"), "");
  EXPECT_EQ(body_of(reply), R"({"id":"a b","model_name":"fraud","model_version":"1","outputs":[)"
                            R"({"name":"score","datatype":"FP32","shape":[2,1],"data":[5,11]}]})");
}

TEST_F(GoldenBytes, a_missing_length_header_means_json_even_when_binary_is_asked_for) {
  const std::string reply =
      post("integers", "",
           R"({"inputs":[{"name":"x","shape":[1],"datatype":"INT64","data":[7]}],)"
           R"("outputs":[{"name":"y","parameters":{"binary_data":true}}]})");
  const std::string json =
      R"({"model_name":"integers","model_version":"1","outputs":[{"name":"y","datatype":"INT64",)"
      R"("shape":[1],"parameters":{"binary_data_size":8}}]})";
  EXPECT_EQ(status_of(reply), 200) << reply;
  EXPECT_EQ(header_of(reply, "Content-Type"), "application/octet-stream");
  EXPECT_EQ(header_of(reply, "Inference-Header-Content-Length"), std::to_string(json.size()));
  EXPECT_EQ(body_of(reply), json + "\7\0\0\0\0\0\0\0"s);
}

TEST_F(GoldenBytes, the_length_header_may_cover_a_body_that_is_all_json) {
  const std::string json = R"({"inputs":[{"name":"x","shape":[1],"datatype":"INT64","data":[7]}]})";
  const std::string reply = post("integers", length_header(json.size()), json);
  EXPECT_EQ(status_of(reply), 200) << reply;
  EXPECT_EQ(header_of(reply, "Content-Type"), "application/json");
}

TEST_F(GoldenBytes, half_precision_and_truths_go_through_bit_for_bit) {
  for (const auto& [model, type, tensor] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"halves", "FP16", "\x00\x3C\x00\x7E"s},   // 1 and a NaN.
           {"bfloats", "BF16", "\x80\x3F\xC0\x7F"s},  // The same.
           {"truths", "BOOL", "\1\0"s}}) {
    const std::string reply = post_binary(model, type, "[2]", tensor);
    EXPECT_EQ(status_of(reply), 200) << reply;
    EXPECT_TRUE(reply.ends_with("}" + tensor)) << type;
    // As JSON the halves have no form, in either direction.
    if (type == "BOOL") continue;
    const std::string json =
        R"({"inputs":[{"name":"x","shape":[1],"datatype":")" + type + R"(","data":[1]}]})";
    const std::string refused = post(model, "", json);
    EXPECT_EQ(status_of(refused), 400);
    EXPECT_NE(error_of(refused).find("use the binary data format"), std::string::npos);
    const std::string head = R"({"inputs":[{"name":"x","shape":[2],"datatype":")" + type +
                             R"(","parameters":{"binary_data_size":4}}]})";
    const std::string unwritable = post(model, length_header(head.size()), head + tensor);
    EXPECT_EQ(status_of(unwritable), 400);
    EXPECT_NE(error_of(unwritable).find("binary_data"), std::string::npos);
  }
}

TEST_F(GoldenBytes, texts_keep_nul_and_bytes_that_are_no_utf8) {
  const std::string tensor = "\3\0\0\0a\0b\0\0\0\0\1\0\0\0\xFF"s;
  const std::string reply = post_binary("texts", "BYTES", "[3]", tensor);
  EXPECT_EQ(status_of(reply), 200) << reply;
  EXPECT_TRUE(reply.ends_with("}" + tensor));
  const std::string json = post("texts", "",
                                R"({"inputs":[{"name":"x","shape":[2],"datatype":"BYTES",)"
                                R"("data":["é","a\u0000b"]}]})");
  EXPECT_TRUE(body_of(json).ends_with(R"("shape":[2],"data":["é","a\u0000b"]}]})")) << json;
  const std::string head = R"({"inputs":[{"name":"x","shape":[1],"datatype":"BYTES",)"
                           R"("parameters":{"binary_data_size":5}}]})";
  const std::string refused = post("texts", length_header(head.size()), head + "\1\0\0\0\xFF"s);
  EXPECT_EQ(status_of(refused), 400);
  EXPECT_NE(error_of(refused).find("no UTF-8"), std::string::npos) << refused;
}

TEST_F(GoldenBytes, a_zero_size_output_still_carries_its_size_in_plain_json) {
  const std::string reply = post_binary("floats", "FP32", "[0]", "");
  EXPECT_EQ(status_of(reply), 200) << reply;
  EXPECT_EQ(header_of(reply, "Content-Type"), "application/json");
  EXPECT_EQ(header_of(reply, "Inference-Header-Content-Length"), "");
  EXPECT_TRUE(body_of(reply).ends_with(
      R"({"name":"y","datatype":"FP32","shape":[0],"parameters":{"binary_data_size":0}}]})"))
      << reply;
}

TEST_F(GoldenBytes, a_length_of_zero_means_a_raw_row) {
  const std::string reply = post("fraud", length_header(0), "\0\0\x80\x3F\0\0\0\x40"s);
  EXPECT_EQ(status_of(reply), 200) << reply;
  EXPECT_TRUE(reply.ends_with("\0\0\xA0\x40"s));  // 2·1 + 2 + 1
  const std::string text = post("texts", length_header(0), "raw\0text"s);
  EXPECT_TRUE(text.ends_with("}\x8\0\0\0raw\0text"s)) << text;
  EXPECT_NE(error_of(post("fraud", length_header(0), "123")).find("unexpected size for input"),
            std::string::npos);
}

TEST_F(GoldenBytes, chunks_without_a_content_length_are_one_body) {
  const std::string head = head_of("INT64", "[1]", 8);
  const std::string body = head + "\7\0\0\0\0\0\0\0"s;
  std::string chunked = "POST /v2/models/integers/infer HTTP/1.1\r\nHost: localhost\r\n" +
                        length_header(head.size()) + "Transfer-Encoding: chunked\r\n\r\n";
  for (const char byte : body) chunked += "1\r\n"s + byte + "\r\n";
  const std::string reply = exchange(chunked + "0\r\n\r\n");
  EXPECT_EQ(status_of(reply), 200) << reply;
  EXPECT_TRUE(reply.ends_with("\7\0\0\0\0\0\0\0"s));
  // And without the length header too: JSON, not raw bytes.
  const std::string json = R"({"inputs":[{"name":"x","shape":[1],"datatype":"INT64","data":[7]}]})";
  char size[8];
  std::snprintf(size, sizeof size, "%zx", json.size());
  EXPECT_EQ(status_of(exchange("POST /v2/models/integers/infer HTTP/1.1\r\nHost: localhost\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n" +
                               std::string(size) + "\r\n" + json + "\r\n0\r\n\r\n")),
            200);
}

TEST_F(GoldenBytes, a_million_chunks_are_refused_before_they_are_all_read) {
  std::string chunked =
      "POST /v2/models/integers/infer HTTP/1.1\r\nHost: localhost\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  chunked.reserve(7'000'000);
  for (int i = 0; i < 1'000'000; ++i) chunked += "1\r\n \r\n";
  RawSocket socket(server_->port());
  socket.write(chunked + "0\r\n\r\n");  // It may close before all is written.
  EXPECT_EQ(status_of(socket.reply()), 413);
}

TEST_F(GoldenBytes, packed_requests_are_read_and_their_length_header_counts_unpacked_bytes) {
  const std::string head = head_of("INT64", "[1]", 8);
  const std::string body = head + "\7\0\0\0\0\0\0\0"s;
  for (const net::Coding coding : {net::Coding::kGzip, net::Coding::kDeflate}) {
    const std::string headers = length_header(head.size()) +
                                "Content-Encoding: " + std::string(net::coding_name(coding)) +
                                "\r\n";
    const std::string reply = post("integers", headers, net::deflate(body, coding).value());
    EXPECT_EQ(status_of(reply), 200) << reply;
    EXPECT_TRUE(reply.ends_with("\7\0\0\0\0\0\0\0"s));
    EXPECT_EQ(status_of(post("integers", headers, "no such thing")), 400);
    EXPECT_EQ(status_of(post("integers", headers, net::deflate(body, coding)->substr(0, 40))), 400);
  }
  const std::string other = post("integers", "Content-Encoding: br\r\n", "x");
  EXPECT_EQ(status_of(other), 501);
  EXPECT_EQ(header_of(other, "Accept-Encoding"), "gzip, deflate");
}

TEST_F(GoldenBytes, a_gzip_bomb_is_refused) {
  const std::string bomb = net::deflate(std::string(48 << 20, ' '), net::Coding::kGzip).value();
  ASSERT_LT(bomb.size(), 256U << 10);
  const std::string reply = post("integers", "Content-Encoding: gzip\r\n", bomb);
  EXPECT_EQ(status_of(reply), 413) << reply.substr(0, 300);
}

TEST_F(GoldenBytes, large_replies_are_packed_for_who_takes_them_so_and_small_ones_never) {
  const std::string zeros(16'000 * 4, '\0');
  const std::string head = head_of("FP32", "[16000]", zeros.size());
  const std::string headers = length_header(head.size()) + "Accept-Encoding: gzip, deflate\r\n";
  const std::string packed = post("floats", headers, head + zeros);
  EXPECT_EQ(status_of(packed), 200);
  EXPECT_EQ(header_of(packed, "Content-Encoding"), "gzip");
  const std::string plain = net::inflate(body_of(packed), net::Coding::kGzip, 1 << 20).value();
  const std::size_t json = std::stoul(header_of(packed, "Inference-Header-Content-Length"));
  EXPECT_EQ(plain.substr(json), zeros);
  const std::string small = post_binary("floats", "FP32", "[0]", "");
  EXPECT_EQ(header_of(small, "Content-Encoding"), "");
  EXPECT_EQ(header_of(post("floats", length_header(head.size()), head + zeros), "Content-Encoding"),
            "");
}

TEST_F(GoldenBytes, outputs_are_chosen_and_classes_are_texts) {
  const std::string reply = post("floats", "",
                                 R"({"inputs":[{"name":"x","shape":[3],"datatype":"FP32",)"
                                 R"("data":[0.5,2,1]}],"outputs":[{"name":"y",)"
                                 R"("parameters":{"classification":1}}]})");
  // Its one dimension is the rows: one class each.
  EXPECT_TRUE(body_of(reply).ends_with(
      R"({"name":"y","datatype":"BYTES","shape":[3,1],"data":["0.500000:0","2.000000:0",)"
      R"("1.000000:0"]}]})"))
      << reply;
  const std::string unknown =
      post("floats", "",
           R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],)"
           R"("outputs":[{"name":"z"}]})");
  EXPECT_EQ(error_of(unknown), "unexpected inference output 'z' for model 'floats'");
}

TEST_F(GoldenBytes, errors_are_one_json_object_with_the_words_that_tools_look_for) {
  const auto refused = [&](const std::string& body, const std::string& model = "fraud",
                           const std::string& headers = "") {
    const std::string reply = post(model, headers, body);
    EXPECT_EQ(header_of(reply, "Content-Type"), "application/json");
    return std::to_string(status_of(reply)) + " " + error_of(reply);
  };
  const auto with = [](const std::string& members) {
    return R"({"inputs":[{"name":"input",)" + members + "}]}";
  };
  EXPECT_EQ(refused("{}", "nobody"), "404 Request for unknown model: 'nobody' is not found");
  EXPECT_EQ(refused(with(R"("shape":[1,3],"datatype":"FP32","data":[1,2,3])")),
            "400 unexpected shape for input 'input' for model 'fraud'. Expected [-1,2], got [1,3]");
  EXPECT_EQ(refused(with(R"("shape":[1,2],"datatype":"FP64","data":[1,2])")),
            "400 inference input 'input' data-type is 'FP64', but model 'fraud' expects 'FP32'");
  EXPECT_EQ(refused(with(R"("shape":[9223372036854775807,9223372036854775807],)"
                         R"("datatype":"FP32","data":[1])")),
            "400 shape [9223372036854775807,9223372036854775807] has over 2^31 elements");
  EXPECT_EQ(refused(with(R"("shape":[1,2],"datatype":"FP32","data":[NaN,1])")).substr(0, 46),
            "400 failed to parse the request JSON buffer: T");
  EXPECT_EQ(refused(with(R"("shape":[1,2],"datatype":"FP32","data":[1e999,1])")).substr(0, 4),
            "400 ");
  const std::string one = R"({"name":"input","shape":[1,2],"datatype":"FP32","data":[1,2]})";
  EXPECT_EQ(refused(R"({"inputs":[)" + one + "," + one + "]}"),
            "400 expected 1 inputs but got 2 inputs for model 'fraud'");
  const std::string head = head_of("FP32", "[2]", 8);
  EXPECT_NE(refused(head + "1234", "floats", length_header(head.size()))
                .find("400 unexpected size for input 'x'"),
            std::string::npos);
  EXPECT_NE(refused(head + "123456789", "floats", length_header(head.size()))
                .find("400 unexpected additional input data for model"),
            std::string::npos);
  EXPECT_NE(refused("{}", "fraud", length_header(3)).find("400 Inference-Header-Content-Length"),
            std::string::npos);
  EXPECT_EQ(refused(std::string(200'000, '[')).substr(0, 4), "400 ");
  EXPECT_EQ(refused(with(R"("shape":[1,2],"datatype":"FP32",)"
                         R"("parameters":{"shared_memory_region":"r"})"))
                .substr(0, 4),
            "400 ");
  EXPECT_EQ(refused(R"({"inputs":[],"parameters":{"sequence_id":1}})").substr(0, 4), "501 ");
}

TEST_F(GoldenBytes, paths_are_matched_whole) {
  const auto get = [&](const std::string& path, const std::string& verb = "GET") {
    const std::string reply = exchange(verb + " " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return std::to_string(status_of(reply)) + " " + body_of(reply);
  };
  EXPECT_EQ(get("/v2/"), R"(404 {"error":"Not Found"})");
  EXPECT_EQ(get("/v2/models/fraud/"), R"(404 {"error":"Not Found"})");
  EXPECT_EQ(get("/v2/models/fraud/infer"), R"(405 {"error":"Method Not Allowed"})");
  EXPECT_EQ(get("/v2/health/live"), R"(200 {"live":true})");
  EXPECT_EQ(get("/v2/health/ready"), R"(200 {"live":true,"ready":true})");
  EXPECT_EQ(get("/v2/models/fra%75d/ready"), R"(200 {"name":"fraud","ready":true})");
}

TEST_F(GoldenBytes, too_large_a_body_is_refused_by_its_length_alone) {
  const std::string reply =
      exchange("POST /v2/models/fraud/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
               std::to_string((64 << 20) + 1) + "\r\n\r\n");
  EXPECT_EQ(status_of(reply), 413);
  // JSON alone may have less: it costs more to read.
  EXPECT_EQ(status_of(post("fraud", "", std::string((16 << 20) + 1, ' '))), 413);
}

TEST_F(GoldenBytes, a_client_that_leaves_in_the_middle_of_a_body_hurts_nobody) {
  for (int i = 0; i < 20; ++i) {
    RawSocket socket(server_->port());
    socket.write(
        "POST /v2/models/fraud/infer HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Length: 100000\r\n\r\n{\"inputs\":[");
  }
  EXPECT_EQ(status_of(exchange("GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")), 200);
}

TEST_F(GoldenBytes, waits_for_permission_to_send_and_answers_pipelined_requests_in_order) {
  const std::string body = R"({"inputs":[{"name":"x","shape":[1],"datatype":"INT64","data":[7]}]})";
  const std::string head = "POST /v2/models/integers/infer HTTP/1.1\r\nHost: localhost\r\n";
  const std::string length = "Content-Length: " + std::to_string(body.size()) + "\r\n";
  RawSocket waits(server_->port());
  waits.write(head + length + "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(waits.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  waits.write(body);
  EXPECT_EQ(status_of(waits.reply()), 200);
  RawSocket pipelined(server_->port());
  std::string all;
  for (int i = 0; i < 5; ++i) {
    const std::string each = R"({"id":")" + std::to_string(i) + R"(",)" + body.substr(1);
    all += head + "Content-Length: " + std::to_string(each.size()) + "\r\n\r\n" + each;
  }
  pipelined.write(all);
  for (int i = 0; i < 5; ++i) {
    EXPECT_NE(pipelined.reply().find(R"({"id":")" + std::to_string(i) + "\""), std::string::npos);
  }
}

}  // namespace
}  // namespace falaj::api
