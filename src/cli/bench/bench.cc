#include "cli/bench/bench.h"

#include "base/json.h"
#include "base/units.h"
#include "cli/bench/report.h"
#include "cli/bench/request.h"
#include "cli/client_options.h"
#include "cli/internal/tree.h"
#include "cli/local_file.h"
#include "net/address.h"

namespace falaj::cli::bench {
namespace {

constexpr std::size_t kBodyBytesMax = 64u << 20;

struct Request {
  net::Method method = net::Method::kGet;
  std::string target;
  std::string body;
  std::string content_type;
};

// A load on somebody else's machine is an attack unless it was agreed upon.
Status check_reach(const BenchChoice& choice) {
  const std::string host = FALAJ_TRY(net::host_of_url(choice.url));
  if (choice.anywhere || host == "localhost" || net::is_loopback_address(host)) return {};
  return Error{ErrorId::kUsage, "'" + host +
                                    "' is not this machine; say --anywhere if its owner agrees to "
                                    "the load"};
}

Result<Request> request_of(const BenchChoice& choice, const std::string& target,
                           net::Client& client) {
  Request request{net::Method::kGet, target, "", choice.content_type};
  if (!choice.file.empty()) {
    request.method = net::Method::kPost;
    request.body = FALAJ_TRY(read_text(choice.file, kBodyBytesMax));
    return request;
  }
  const std::string metadata = metadata_target(target);
  if (metadata.empty()) return request;
  const net::ClientReply reply = FALAJ_TRY(client.send(net::Method::kGet, metadata, ""));
  if (reply.status != 200) return error_of_reply(reply);
  request.method = net::Method::kPost;
  request.body = FALAJ_TRY(infer_body(FALAJ_TRY(parse_json(reply.body)), choice.rows));
  return request;
}

Result<net::ClientReply> send(net::Client& client, const Request& request) {
  return client.send(request.method, request.target, request.body, request.content_type);
}

}  // namespace

Status run_bench(const Session& session, const BenchChoice& choice) {
  const Result<Address> address = split_address(choice.url);
  if (!address.ok()) return Error{ErrorId::kUsage, address.error().message};
  FALAJ_TRY(check_reach(choice));
  Target target = session.target;
  target.server = address->server;
  net::ClientOptions options = FALAJ_TRY(client_options(target));
  options.request_timeout = FALAJ_TRY(parse_duration(choice.timeout));
  const std::unique_ptr<net::Client> first = FALAJ_TRY(net::Client::create(options));
  const Request request = FALAJ_TRY(request_of(choice, address->target, *first));
  const net::ClientReply reply = FALAJ_TRY(send(*first, request));
  if (reply.status < 200 || reply.status > 299) return error_of_reply(reply);

  const MakeSend make = [&]() -> Result<Send> {
    const std::shared_ptr<net::Client> client = FALAJ_TRY(net::Client::create(options));
    return Send([client, &request]() -> Answered {
      const Result<net::ClientReply> got = send(*client, request);
      if (got.ok()) return {got->status, ""};
      return {0, to_string(got.error().id)};
    });
  };
  Ran ran{choice.url, {}, {}};
  ran.options.clients = static_cast<std::size_t>(choice.clients);
  ran.options.rate = choice.rate;
  ran.options.length = Duration{static_cast<std::int64_t>(choice.seconds * 1e9)};
  ran.options.requests_max = static_cast<std::uint64_t>(choice.requests);
  ran.result = FALAJ_TRY(run_load(ran.options, make, steady_clock()));
  if (!choice.html.empty()) FALAJ_TRY(write_private(choice.html, to_html(ran)));
  print(session.format, to_value(ran), to_text(ran));
  if (ran.result.answered == 0) {
    return Error{ErrorId::kUnavailable, "none of the requests was answered with success"};
  }
  return {};
}

}  // namespace falaj::cli::bench

namespace falaj::cli {

void Tree::add_bench() {
  CLI::App* command =
      local(root_, "bench", "Send requests to an address and tell how many were answered, how soon",
            [this] {
              if (bench_.url.starts_with("/")) bench_.url = words_.server + bench_.url;
              const Result<bench::Address> address = bench::split_address(bench_.url);
              if (address.ok()) words_.server = address->server;  // Whose credential is shown.
              return signed_in([this](const Session& s) { return bench::run_bench(s, bench_); });
            });
  command
      ->add_option("url", bench_.url,
                   "http://127.0.0.1:7070/v2/models/fraud/infer, or its path on FALAJ_SERVER")
      ->required();
  command->add_option("--clients", bench_.clients, "Connections that send at once")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--rate", bench_.rate,
                   "Open loop: so many requests a second are due, and latency counts from then "
                   "(default: closed loop, each client sends when it has its answer)")
      ->check(CLI::Range(0.001, 1e6));
  command->add_option("--seconds", bench_.seconds, "How long")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_option("--requests", bench_.requests, "End after so many, if that is sooner")
      ->check(CLI::Range(1, 1'000'000'000));
  command->add_option("-f,--file", bench_.file,
                      "Body to send, - for standard input (default: made from the model's metadata "
                      "for an /infer, otherwise a GET)");
  command->add_option("--content-type", bench_.content_type, "Of that body")->capture_default_str();
  command->add_option("--rows", bench_.rows, "Rows of a body that is made")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--timeout", bench_.timeout, "Of one request")->capture_default_str();
  command->add_option("--html", bench_.html, "Report to write as well, one file with a plot");
  command->add_flag("--anywhere", bench_.anywhere, "Also to another machine, whose owner agrees");
  add_authority(*command);
  add_output(*command);
}

}  // namespace falaj::cli
