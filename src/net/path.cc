#include "net/path.h"

#include "base/json.h"
#include "net/text.h"

namespace falaj::net {
namespace {

Error refused(std::string_view reason) {
  return Error(Code::kInvalidArgument, "the request's path " + std::string(reason));
}

// The byte that "%41" at text[at] stands for, or -1.
int decode_escape(std::string_view text, std::size_t at) {
  if (at + 2 >= text.size()) return -1;
  const int high = hex_value(text[at + 1]);
  const int low = hex_value(text[at + 2]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

bool is_plain(std::string_view text) {
  bool plain = true;  // Without a branch: nearly all are.
  for (const char c : text) {
    plain &= static_cast<unsigned char>(c) > ' ' && static_cast<unsigned char>(c) < 0x7f &&
             c != '%' && c != '#';
  }
  return plain;
}

Status decode_path(std::string_view raw, std::string& out) {
  if (is_plain(raw)) {
    out = raw;
    return {};
  }
  out.reserve(raw.size());
  bool ascii = true;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    char c = raw[i];
    if (c == '%') {
      const int byte = decode_escape(raw, i);
      if (byte < 0) return refused("has a broken percent encoding: write % as %25");
      if (byte == '/' || byte == '\\') return refused("has an encoded slash: names hold no slash");
      c = static_cast<char>(byte);
      i += 2;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) return refused("has a control character");
    if (c == '#') {
      if (raw[i] == '#') return refused("has a fragment: write # as %23");
    }
    ascii &= byte < 0x80;
    out.push_back(c);
  }
  if (!ascii && !is_valid_utf8(out)) return refused("is not UTF-8");
  return {};
}

bool has_dot_segment(std::string_view path) {
  std::size_t at = 0;
  while ((at = path.find("/.", at)) != std::string_view::npos) {
    const std::string_view rest = path.substr(at + 1);
    const std::string_view segment = rest.substr(0, rest.find('/'));
    if (segment == "." || segment == "..") return true;
    at += 2;
  }
  return false;
}

}  // namespace

Result<RequestTarget> parse_target(std::string_view target) {
  RequestTarget result;
  if (!target.empty() && target.front() != '/') {
    const std::size_t scheme = target.find("://");
    const std::string_view name = target.substr(0, scheme);
    if (scheme == std::string_view::npos ||
        !(equal_ignoring_case(name, "http") || equal_ignoring_case(name, "https"))) {
      return refused("must begin with a slash");
    }
    target.remove_prefix(scheme + 3);
    const std::size_t slash = target.find_first_of("/?");
    if (slash == std::string_view::npos || target[slash] != '/') {
      return refused("must begin with a slash after the host");
    }
    result.authority = target.substr(0, slash);
    if (result.authority.empty()) return refused("has an empty host");
    target.remove_prefix(slash);
  }
  if (target.empty()) return refused("is empty");
  const std::size_t mark = target.find('?');
  if (mark != std::string_view::npos) result.query = target.substr(mark + 1);
  // A parameter that cannot be read must not count as absent: a filter would be dropped.
  if (!is_plain(result.query)) {
    const std::optional<std::string> decoded = decode_query_text(result.query);
    if (!decoded || !is_valid_utf8(*decoded)) return refused("has a query that cannot be decoded");
  }
  FALAJ_TRY(decode_path(target.substr(0, mark), result.path));
  if (has_dot_segment(result.path)) return refused("has a . or .. segment: write the full path");
  return result;
}

std::optional<std::string> decode_query_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      out.push_back(' ');
    } else if (text[i] == '%') {
      const int byte = decode_escape(text, i);
      if (byte <= 0) return std::nullopt;
      out.push_back(static_cast<char>(byte));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

}  // namespace falaj::net
