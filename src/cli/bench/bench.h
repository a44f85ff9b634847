// cli/bench/bench.h — falaj bench URL: how many requests a server answers, and how soon.
#pragma once

#include <cstdint>
#include <string>

#include "cli/commands.h"

namespace falaj::cli::bench {

struct BenchChoice {
  std::string url;
  std::int64_t clients = 8;
  double rate = 0;
  double seconds = 10;
  std::int64_t requests = 0;
  std::int64_t rows = 1;
  std::string file;  // The body.
  std::string content_type = "application/json";
  std::string timeout = "10s";
  std::string html;  // File to write; "": none.
  bool anywhere = false;
};

// FJ-1016 when the address is not of this machine and `anywhere` was not said, and for what does
// not fit together. Nothing is sent before that. Without a body: POST of a made-up request for an
// /infer, GET otherwise. The first request is not counted; its error ends it.
Status run_bench(const Session& session, const BenchChoice& choice);

}  // namespace falaj::cli::bench
