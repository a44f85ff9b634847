// net/internal/cors.h — pages of other origins that may ask for predictions, and nothing else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "net/router.h"

namespace falaj::net {

// Immutable, so thread-safe. Cookies and certificates of a browser never count here: a page brings
// its own token.
class CorsPolicy {
 public:
  explicit CorsPolicy(std::vector<std::string> origins) : origins_(std::move(origins)) {}

  bool lets_in(std::string_view origin) const;
  // Predictions, of rows and by entity, and what a model's metadata says about how to ask for them.
  static bool is_open(const Route& route);
  // 204 with what the page may send to that route.
  static Response preflight(const Route& route);
  // Lets the page that sent the request read the reply, if it is one of ours.
  void add_headers(const Request& request, Response& response) const;

 private:
  const std::vector<std::string> origins_;
};

}  // namespace falaj::net
