// app/restart.h — a running server gives way to the program that now lies where its own lay: the
// same process, words, environment and listening sockets, so that nobody who connects is refused.
//
// SIGUSR2 asks for it (app/serve.cc). The successor is first asked whether it would start
// (--check); if not, nothing happens. Then the old one tells its clients to connect anew, finishes
// what runs, closes its stores and becomes the successor. Secrets come from where they came from
// before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace falaj::app {

// Sockets that go on listening from one program to the next.
struct Listeners {
  Descriptor http;
  Descriptor grpc;  // Not valid: gRPC is not served.
};

// "4711 http=12 grpc=13": for the process of that number only, so that no child takes them for its
// own.
struct ListenerNumbers {
  int http = -1;
  int grpc = -1;
  bool operator==(const ListenerNumbers&) const = default;
};
std::string to_text(std::int64_t pid, const ListenerNumbers& numbers);
// Nothing when it is for another process or damaged.
std::optional<ListenerNumbers> parse_listeners(std::string_view text, std::int64_t pid);

// What the program before this one left; taken out of the environment and kept from children. Call
// once, before there are threads.
Listeners take_listeners();

struct Successor {
  std::string program;             // The path that this process was started by, made absolute.
  std::vector<std::string> words;  // Its command line, the program's name first.
};
Result<Successor> successor();

// How many changes of the metadata a program knows, from what it says to --check: an older one than
// this could not open them. The error says what it said instead.
Result<std::size_t> schema_of(std::string_view output);
// Runs it with --check, for ten seconds at most. The error says why it would not start.
Status check(const Successor& next, std::size_t schema);

// Becomes it. Returns only when that cannot be; then everything is as before.
Error become(const Successor& next, const Listeners& listeners);

}  // namespace falaj::app
