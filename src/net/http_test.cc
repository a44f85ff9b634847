#include "net/http.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "net/internal/replies.h"

namespace falaj::net {
namespace {

TEST(FindHeader, ignores_case_and_takes_the_first) {
  const Headers headers{{"Host", "a"}, {"x-id", "1"}, {"X-ID", "2"}};
  EXPECT_EQ(find_header(headers, "X-Id"), "1");
  EXPECT_EQ(find_header(headers, "hos"), "");
}

TEST(QueryParam, decodes_names_and_values) {
  Request request;
  request.query = "a=1&b=x%20y&a=2&flag&e=&%63=3&bad=%zz";
  EXPECT_EQ(request.query_param("a"), "1");
  EXPECT_EQ(request.query_param("b"), "x y");
  EXPECT_EQ(request.query_param("flag"), "");
  EXPECT_EQ(request.query_param("e"), "");
  EXPECT_EQ(request.query_param("c"), "3");
  EXPECT_EQ(request.query_param("bad"), std::nullopt);
  EXPECT_EQ(request.query_param("none"), std::nullopt);
}

TEST(HttpStatus, maps_every_class_there_and_back) {
  for (int i = 1; i <= static_cast<int>(Code::kDeadlineExceeded); ++i) {
    const Code code = static_cast<Code>(i);
    const int status = http_status(code);
    EXPECT_GE(status, 400);
    // Two classes share 500; the wire cannot tell them apart.
    const Code back = code == Code::kDataLoss ? Code::kInternal : code;
    EXPECT_EQ(code_of_http_status(status), back) << status;
  }
  EXPECT_EQ(http_status(Code::kNotFound), 404);
  EXPECT_EQ(http_status(Code::kFailedPrecondition), 422);
  EXPECT_EQ(code_of_http_status(413), Code::kInvalidArgument);
  EXPECT_EQ(code_of_http_status(408), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of_http_status(502), Code::kUnavailable);
  EXPECT_EQ(code_of_http_status(599), Code::kInternal);
}

TEST(Problem, is_rfc_9457_with_our_code) {
  Request request;
  request.request_id = "r-1";
  const Response response =
      problem(Error(ErrorId::kUnknownField, "no field \"colour\"\n"), request);
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.content_type, "application/problem+json");
  const Value body = parse_json(response.body).value();
  EXPECT_EQ(body.text("type"), "urn:falaj:error:FJ-1003");
  EXPECT_EQ(body.text("code"), "FJ-1003");
  EXPECT_EQ(body.text("detail"), "no field \"colour\"\n");
  EXPECT_EQ(body.text("instance"), "r-1");
  EXPECT_EQ(body.integer("status"), 400);
  EXPECT_EQ(body.text("title"), error_info(ErrorId::kUnknownField).title);
  EXPECT_EQ(body.text("next_step"), error_info(ErrorId::kUnknownField).next_step);
  EXPECT_EQ(problem(Error(ErrorId::kBodyTooLarge, "x"), request).status, 413);
  EXPECT_EQ(problem(Error(ErrorId::kDataFolderFull, "x"), request).status, 507);
  EXPECT_EQ(code_of_http_status(507), Code::kResourceExhausted);
}

std::string head_of(const Response& response, Framing framing, AfterReply after) {
  Request request;
  request.request_id = "r";
  request.traceparent = "t";
  request.headers = {{"Traceparent", "t"}};
  std::string out;
  append_reply_head(out, {.response = response,
                          .request = request,
                          .date = "D",
                          .body_bytes = 5,
                          .framing = framing,
                          .after = after});
  return out;
}

TEST(ReplyHead, drops_headers_that_would_split_or_belong_to_the_server) {
  Response response = Response::text("12345");
  response.headers = {
      {"X-Good", "yes"},        {"X-Bad", "a\r\nSet-Cookie: b"}, {"X-Bad\r\nInjected", "1"},
      {"content-length", "99"}, {"Connection", "keep-alive"},    {"A: b", "c"}};
  const std::string head = head_of(response, Framing::kLength, AfterReply::kClose);
  EXPECT_NE(head.find("\r\nX-Good: yes\r\n"), std::string::npos);
  EXPECT_NE(head.find("\r\nContent-Length: 5\r\n"), std::string::npos);
  EXPECT_NE(head.find("\r\nConnection: close\r\n\r\n"), std::string::npos);
  for (const char* text : {"Set-Cookie", "Injected", "99", "keep-alive", "A: b"}) {
    EXPECT_EQ(head.find(text), std::string::npos) << text;
  }
}

TEST(ReplyHead, carries_the_security_headers_always) {
  for (const Framing framing : {Framing::kLength, Framing::kChunked, Framing::kNone}) {
    const std::string head = head_of(Response{}, framing, AfterReply::kKeepAlive);
    EXPECT_NE(head.find("X-Content-Type-Options: nosniff\r\n"), std::string::npos);
    EXPECT_NE(head.find("Cross-Origin-Resource-Policy: same-origin\r\n"), std::string::npos);
    EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  }
}

TEST(ReplyHead, carries_the_headers_of_pages_on_all_but_data) {
  Response response;
  const auto has_page_headers = [&](const char* type) {
    response.content_type = type;
    const std::string head = head_of(response, Framing::kLength, AfterReply::kKeepAlive);
    const bool frame = head.find("X-Frame-Options: DENY\r\n") != std::string::npos;
    EXPECT_EQ(head.find("Referrer-Policy: no-referrer\r\n") != std::string::npos, frame);
    EXPECT_EQ(head.find("Cross-Origin-Opener-Policy: same-origin\r\n") != std::string::npos, frame);
    return frame;
  };
  for (const char* page : {"text/html", "text/html; charset=utf-8", "image/svg+xml", "text/plain",
                           "application/json5", "application/xhtml+xml", ""}) {
    EXPECT_TRUE(has_page_headers(page)) << page;
  }
  for (const char* data : {"application/json", "application/json; charset=utf-8",
                           "application/problem+json", "application/octet-stream"}) {
    EXPECT_FALSE(has_page_headers(data)) << data;
  }
}

TEST(ReplyHead, returns_the_trace_context_to_who_sent_one) {
  EXPECT_NE(
      head_of(Response{}, Framing::kLength, AfterReply::kKeepAlive).find("traceparent: t\r\n"),
      std::string::npos);
  Request request;
  request.traceparent = "made";
  std::string out;
  const Response response;
  append_reply_head(out, {.response = response, .request = request, .date = "D"});
  EXPECT_EQ(out.find("traceparent"), std::string::npos);
}

TEST(HttpDate, is_imf_fixdate) { EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT"); }

}  // namespace
}  // namespace falaj::net
