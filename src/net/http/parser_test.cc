#include "net/http/parser.h"

#include <gtest/gtest.h>

namespace falaj::net {
namespace {

struct Parsed {
  ParseState state = ParseState::kNeedMore;
  Request request;
  RequestHead head;
  std::size_t consumed = 0;
};

// Feeds `bytes` in pieces of `step`, as a connection would, until the parser has decided.
Parsed parse(std::string_view bytes, std::size_t step, std::uint64_t body_max = 1 << 20) {
  Parsed parsed;
  RequestParser parser(1024);
  parser.begin(parsed.request);
  std::string pending;
  bool in_body = false;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    pending += bytes.substr(at, step);
    while (true) {
      const ParseStep now = in_body ? parser.put_body(pending, body_max) : parser.put_head(pending);
      pending.erase(0, now.consumed);
      parsed.consumed += now.consumed;
      parsed.state = now.state;
      if (now.state != ParseState::kHeadDone) break;
      in_body = true;
    }
    if (parsed.state != ParseState::kNeedMore) break;
  }
  parsed.head = parser.head();
  return parsed;
}

TEST(RequestParser, gives_the_same_message_however_the_bytes_are_cut) {
  constexpr std::string_view kBytes =
      "POST /a?b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\n\r\n"
      "4\r\nfour\r\n3;x=\"y\"\r\nabc\r\n0\r\nX-Trailer: t\r\n\r\nGET";
  for (std::size_t step = 1; step <= kBytes.size(); ++step) {
    SCOPED_TRACE(step);
    const Parsed parsed = parse(kBytes, step);
    ASSERT_EQ(parsed.state, ParseState::kDone);
    EXPECT_EQ(parsed.consumed, kBytes.size() - 3);  // The next request is left alone.
    EXPECT_EQ(parsed.request.body, "fourabc");
    EXPECT_EQ(parsed.head.target, "/a?b");
    EXPECT_EQ(find_header(parsed.request.headers, "X-A"), "1");
    EXPECT_EQ(find_header(parsed.request.headers, "X-Trailer"), "");
    EXPECT_TRUE(parsed.head.chunked);
    EXPECT_TRUE(parsed.head.keep_alive);
  }
}

TEST(RequestParser, reads_an_empty_chunked_body_byte_by_byte) {
  for (std::size_t step = 1; step <= 5; ++step) {
    const Parsed parsed =
        parse("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET", step);
    EXPECT_EQ(parsed.state, ParseState::kDone) << step;
    EXPECT_EQ(parsed.request.body, "");
  }
}

class MalformedRequest : public ::testing::TestWithParam<const char*> {};

TEST_P(MalformedRequest, is_refused_however_the_bytes_are_cut) {
  const std::string_view bytes = GetParam();
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    EXPECT_EQ(parse(bytes, step).state, ParseState::kMalformed) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Smuggling, MalformedRequest,
    ::testing::Values(
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4, 4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length : 4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
        "Transfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        "fffffffffffffffff\r\nabc\r\n"));

INSTANTIATE_TEST_SUITE_P(
    Syntax, MalformedRequest,
    ::testing::Values("GET\r\n\r\n", "GET /\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n",
                      "GET / HTTP/1.1 \r\n\r\n", "GET / HTTPS/1.1\r\n\r\n",
                      "G@T / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nNo colon\r\n\r\n",
                      "GET / HTTP/1.1\r\n: empty\r\n\r\n", "GET / HTTP/1.1\r\nA\x01: b\r\n\r\n",
                      "GET / HTTP/1.1\r\nA: b\x01\r\n\r\n", "GET /\x7f HTTP/1.1\r\n\r\n",
                      "\x16\x03\x01\x02\x01\x01\x01", "GET / HTTP/1.1\nHost: h\n\n\r\n\r\n"));

TEST(RequestParser, bounds_the_head) {
  const std::string long_line = "GET /" + std::string(2000, 'a') + " HTTP/1.1\r\n\r\n";
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 200; ++i) many += "X-Header: value\r\n";
  for (const std::string& bytes : {long_line, many + "\r\n"}) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{100}, bytes.size()}) {
      EXPECT_EQ(parse(bytes, step).state, ParseState::kHeadTooLarge) << step;
    }
  }
}

TEST(RequestParser, bounds_the_body_before_it_comes) {
  EXPECT_EQ(parse("POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n1", 1000, 10).state,
            ParseState::kBodyTooLarge);
  EXPECT_EQ(
      parse("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n123456\r\n5\r\n", 1, 10)
          .state,
      ParseState::kBodyTooLarge);
  EXPECT_EQ(parse("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123456789", 3, 10).state,
            ParseState::kDone);
}

TEST(RequestParser, bounds_chunk_extensions_and_trailers) {
  const std::string head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(parse(head + "1;" + std::string(4000, 'x'), 64).state, ParseState::kMalformed);
  EXPECT_EQ(parse(head + "0\r\nX: " + std::string(4000, 'x'), 64).state, ParseState::kMalformed);
}

TEST(RequestParser, tells_what_the_head_says) {
  const Parsed old = parse("GET / HTTP/1.0\r\n\r\n", 100);
  EXPECT_EQ(old.head.version, 10);
  EXPECT_FALSE(old.head.keep_alive);
  const Parsed closing =
      parse("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n", 9);
  EXPECT_FALSE(closing.head.keep_alive);
  EXPECT_EQ(closing.head.host_headers, 2);
  EXPECT_FALSE(parse("BREW / HTTP/1.1\r\n\r\n", 100).head.method_known);
  EXPECT_TRUE(parse("PUT / HTTP/1.1\r\nExpect: 100-Continue\r\n\r\n", 100).head.expects_continue);
  EXPECT_TRUE(parse("PUT / HTTP/1.1\r\nExpect: x\r\n\r\n", 100).head.expects_other);
}

struct ParsedReply {
  ParseState state = ParseState::kNeedMore;
  ClientReply reply;
};

ParsedReply parse_reply(std::string_view bytes, std::size_t step, ReplyParser::Body body) {
  ParsedReply parsed;
  ReplyParser parser;
  parser.begin(parsed.reply, body);
  std::string pending;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    pending += bytes.substr(at, step);
    do {
      const ParseStep now = parser.put(pending, 1000);
      pending.erase(0, now.consumed);
      parsed.state = now.state;
    } while (parsed.state == ParseState::kHeadDone);
    if (parsed.state != ParseState::kNeedMore) return parsed;
  }
  parsed.state = parser.end();
  return parsed;
}

TEST(ReplyParser, reads_lengths_chunks_and_the_end_of_the_connection) {
  const auto expected = ReplyParser::Body::kExpected;
  for (const char* text :
       {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nbody"}) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{1000}}) {
      const ParsedReply parsed = parse_reply(text, step, expected);
      EXPECT_EQ(parsed.state, ParseState::kDone) << text;
      EXPECT_EQ(parsed.reply.body, "body") << text;
    }
  }
  EXPECT_EQ(parse_reply("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody", 5, expected).state,
            ParseState::kMalformed);
  EXPECT_EQ(parse_reply("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", 99, expected).state,
            ParseState::kBodyTooLarge);
  EXPECT_EQ(parse_reply("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 5, ReplyParser::Body::kNone)
                .state,
            ParseState::kDone);
  EXPECT_EQ(parse_reply("SSH-2.0-x\r\n", 100, expected).state, ParseState::kMalformed);
}

}  // namespace
}  // namespace falaj::net
