#include "scheduler/internal/xml.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace falaj::scheduler {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == ':';
}

class Reader {
 public:
  Reader(std::string_view document, const XmlHandler& handler, const XmlLimits& limits)
      : whole_(document), rest_(document), handler_(handler), limits_(limits) {}

  Status run() {
    if (whole_.size() > limits_.bytes_max) return wrong("it is too large");
    while (!rest_.empty()) {
      if (rest_.front() == '<') {
        FALAJ_TRY(markup());
      } else {
        FALAJ_TRY(characters());
      }
    }
    if (!open_.empty()) return wrong("'" + open_.back() + "' is not closed");
    return elements_ == 0 ? wrong("there is no element") : Status{};
  }

 private:
  Error wrong(const std::string& what) const {
    const auto at = whole_.begin() + static_cast<std::ptrdiff_t>(whole_.size() - rest_.size());
    const auto line = 1 + std::count(whole_.begin(), at, '\n');
    return {Code::kInvalidArgument, "line " + std::to_string(line) + ": " + what};
  }

  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  void skip_blank() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlank), rest_.size()));
  }

  Status skip_past(std::string_view end) {
    const std::size_t at = rest_.find(end);
    if (at == std::string_view::npos) return wrong("'" + std::string(end) + "' is missing");
    rest_.remove_prefix(at + end.size());
    return {};
  }

  Status markup() {
    if (take("<?")) return skip_past("?>");
    if (take("<!--")) return skip_past("-->");
    if (take("<!DOCTYPE")) {
      const std::string_view own = rest_.substr(0, rest_.find('>'));
      if (own.find('[') != std::string_view::npos) return wrong("a DOCTYPE defines something");
      return skip_past(">");
    }
    if (take("</")) return close();
    take("<");
    return element();
  }

  Result<std::string> name() {
    std::size_t length = 0;
    while (length < rest_.size() && is_name_char(rest_[length])) ++length;
    if (length == 0 || length > 128) return wrong("a name is expected");
    std::string found(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return found;
  }

  Status element() {
    const std::string own = FALAJ_TRY(name());
    if (++elements_ > limits_.elements_max) return wrong("there are too many elements");
    if (open_.empty() && elements_ > 1) return wrong("there is a second root");
    XmlAttributes attributes;
    while (true) {
      skip_blank();
      const bool empty = take("/>");
      if (empty || take(">")) {
        FALAJ_TRY(handler_.begin(own, attributes));
        if (empty) return handler_.end(own);
        if (open_.size() >= limits_.depth_max) return wrong("elements are too deep");
        open_.push_back(own);
        return {};
      }
      FALAJ_TRY(attribute(attributes));
    }
  }

  Status attribute(XmlAttributes& attributes) {
    const std::string key = FALAJ_TRY(name());
    skip_blank();
    if (!take("=")) return wrong("'" + key + "' has no value");
    skip_blank();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '"' && quote != '\'') return wrong("the value of '" + key + "' has no quotes");
    rest_.remove_prefix(1);
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) return wrong("the value of '" + key + "' does not end");
    std::string value = FALAJ_TRY(resolved(rest_.substr(0, end)));
    rest_.remove_prefix(end + 1);
    if (attributes.size() >= limits_.attributes_max) return wrong("too many attributes");
    if (!attributes.emplace(key, std::move(value)).second)
      return wrong("'" + key + "' is there twice");
    return {};
  }

  Status close() {
    const std::string own = FALAJ_TRY(name());
    skip_blank();
    if (!take(">")) return wrong("'</" + own + "' does not end");
    if (open_.empty() || open_.back() != own) return wrong("'" + own + "' is not open");
    open_.pop_back();
    return handler_.end(own);
  }

  Status characters() {
    const std::string_view raw = rest_.substr(0, rest_.find('<'));
    const bool blank = raw.find_first_not_of(kBlank) == std::string_view::npos;
    if (!blank && open_.empty()) return wrong("there is text outside");
    const std::string text = FALAJ_TRY(resolved(raw));
    rest_.remove_prefix(raw.size());
    return blank ? Status{} : handler_.text(text);
  }

  Result<std::string> resolved(std::string_view raw) const {
    std::string out;
    while (!raw.empty()) {
      const std::size_t at = std::min(raw.find('&'), raw.size());
      out.append(raw.substr(0, at));
      raw.remove_prefix(at);
      if (raw.empty()) break;
      const std::size_t end = raw.find(';');
      if (end == std::string_view::npos || end > 10) return wrong("an '&' begins no entity");
      out += FALAJ_TRY(entity(raw.substr(1, end - 1)));
      raw.remove_prefix(end + 1);
    }
    return out;
  }

  Result<char> entity(std::string_view text) const {
    static const std::map<std::string_view, char> kNamed = {
        {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    const auto named = kNamed.find(text);
    if (named != kNamed.end()) return named->second;
    // Machines are described in ASCII.
    const bool hex = text.starts_with("#x");
    const std::string_view digits = text.substr(std::min<std::size_t>(hex ? 2 : 1, text.size()));
    int code = 0;
    const auto read =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
    const bool good = text.starts_with("#") && read.ec == std::errc{} &&
                      read.ptr == digits.data() + digits.size() && code > 0 && code < 128;
    if (!good) return wrong("an entity is not known");
    return static_cast<char>(code);
  }

  const std::string_view whole_;
  std::string_view rest_;
  const XmlHandler& handler_;
  const XmlLimits& limits_;
  std::vector<std::string> open_;
  std::size_t elements_ = 0;
};

}  // namespace

Status read_xml(std::string_view document, const XmlHandler& handler, const XmlLimits& limits) {
  return Reader(document, handler, limits).run();
}

}  // namespace falaj::scheduler
