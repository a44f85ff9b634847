// A server with three routes for a load generator; runs until its standard input closes.
//
//   build/release/src/net/net_server_bench &   # prints: ready http://127.0.0.1:PORT
//   wrk -t1 -c16 -d5 --latency http://127.0.0.1:PORT/loop
//
// /loop answers on the event loop, /pool on the pool, /echo returns the body it was sent.
#include <cstdio>
#include <cstdlib>

#include "net/server.h"

int main() {
  using namespace falaj::net;
  Router router;
  const std::string body = R"({"outputs":[{"name":"score","datatype":"FP64","data":[0.125]}]})";
  const SyncHandler fixed = [&](const Request&) { return Response::json(body); };
  Route on_loop(Method::kGet, "/loop", Permission::anyone(), Target::nothing(),
                "Fixed, on the loop.", fixed);
  on_loop.runs_on = RunsOn::kLoop;
  router.add(std::move(on_loop));
  router.add(Route(Method::kGet, "/pool", Permission::anyone(), Target::nothing(),
                   "Fixed, on the pool.", fixed));
  Route echo(Method::kPost, "/echo/{name}:predict", Permission::anyone(), Target::nothing(),
             "Echo, on the loop.",
             [](const Request& request) { return Response::json(request.body); });
  echo.runs_on = RunsOn::kLoop;
  router.add(std::move(echo));

  falaj::telemetry::Metrics metrics;
  const auto server = Server::start({}, router, nullptr, metrics);
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.error().message.c_str());
    return EXIT_FAILURE;
  }
  std::printf("ready http://127.0.0.1:%u\n", unsigned{server.value()->port()});
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return EXIT_SUCCESS;
}
