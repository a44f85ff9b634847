#include "config/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <istream>
#include <optional>
#include <streambuf>
#include <utility>

#include "base/json.h"

namespace falaj::config {
namespace {

// Thrown through yaml-cpp by our handler and caught in parse_yaml(); never leaves this file.
struct Refused {
  Error error;
};

std::string place(const YAML::Mark& mark) {
  return "YAML line " + std::to_string(mark.line + 1) + " column " +
         std::to_string(mark.column + 1) + ": ";
}

[[noreturn]] void refuse(ErrorId id, const YAML::Mark& mark, const std::string& what) {
  throw Refused{Error(id, place(mark) + what)};
}

Value typed_scalar(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  const bool maybe_number =
      !text.empty() && (text.front() == '-' || (text.front() >= '0' && text.front() <= '9'));
  // JSON's own reader decides what a number is, blanks excepted.
  if (maybe_number && text.find_first_not_of("0123456789+-.eE") == std::string::npos) {
    Result<Value> number = parse_json(text);
    if (number.ok()) return std::move(number).value();
  }
  return text;
}

// Builds the documents, one after the other, from the parser's events.
class Builder final : public YAML::EventHandler {
 public:
  Builder(std::string_view text, int depth_max) : depth_max_(depth_max), rest_(text) {}

  Value take() { return std::exchange(root_, Value()); }

  // yaml-cpp begins a new document wherever the old one cannot go on; a slip of indentation would
  // cut a declaration in two, and a stray comma would give empty documents without end. Only "---"
  // separates.
  void OnDocumentStart(const YAML::Mark& mark) override {
    for (; line_ < mark.line; ++line_) rest_.remove_prefix(rest_.find('\n') + 1);
    if (!first_ && (mark.column != 0 || !rest_.starts_with("---"))) {
      refuse(ErrorId::kMalformedYaml, mark,
             "this does not belong to what stands before it: correct the indentation, or begin a "
             "new document with ---");
    }
    first_ = false;
  }
  void OnDocumentEnd() override {}

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(ErrorId::kMalformedYaml, mark, "aliases (*name) are not accepted: write the value out");
  }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override {
    refuse(ErrorId::kMalformedYaml, mark, "anchors (&name) are not accepted: write the value out");
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check_plain(mark, "", anchor);
    if (wants_key()) refuse(ErrorId::kMalformedYaml, mark, "a key must be a text, not null");
    put(mark, Value());
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    const bool plain = tag == "?" || tag.empty();
    if (tag != "!") check_plain(mark, tag, anchor);
    if (tag == "!" && anchor != 0) check_plain(mark, "", anchor);
    if (wants_key()) {
      take_key(mark, text);
    } else {
      put(mark, plain ? typed_scalar(text) : Value(text));
    }
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check_plain(mark, tag, anchor);
    open(mark, Value::array());
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check_plain(mark, tag, anchor);
    open(mark, Value::object());
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  struct Level {
    Value* container;
    std::optional<std::string> key;  // Read, and waiting for its value.
  };

  static void check_plain(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) {
      refuse(ErrorId::kMalformedYaml, mark,
             "anchors (&name) are not accepted: write the value out");
    }
    if (!tag.empty() && tag != "?") {
      refuse(
          ErrorId::kMalformedYaml, mark,
          "tags (" + tag.substr(0, 40) + ") are not accepted: quote a text, leave a number bare");
    }
  }

  bool wants_key() const {
    return !open_.empty() && open_.back().container->is_object() && !open_.back().key;
  }

  void take_key(const YAML::Mark& mark, const std::string& key) {
    if (open_.back().container->as_object().contains(key)) {
      refuse(ErrorId::kDuplicateField, mark, "the key '" + key + "' stands twice: keep one");
    }
    open_.back().key = key;
  }

  // Places a value where the document is being written, and says where it went.
  Value& put(const YAML::Mark& mark, Value value) {
    if (open_.empty()) return root_ = std::move(value);
    Level& level = open_.back();
    if (level.container->is_array()) {
      level.container->push(std::move(value));
      return level.container->as_array().back();
    }
    if (!level.key) refuse(ErrorId::kMalformedYaml, mark, "a key must be a text");
    Value& member = (*level.container)[*level.key];
    level.key.reset();
    return member = std::move(value);
  }

  void open(const YAML::Mark& mark, Value container) {
    if (static_cast<int>(open_.size()) >= depth_max_) {
      refuse(ErrorId::kTooDeep, mark,
             "nested deeper than " + std::to_string(depth_max_) + " levels: flatten it");
    }
    if (wants_key()) refuse(ErrorId::kMalformedYaml, mark, "a key must be a text");
    // The address stays good: a container is not touched while one inside it is open.
    open_.push_back({&put(mark, std::move(container)), std::nullopt});
  }

  const int depth_max_;
  std::string_view rest_;  // The text from line `line_` on.
  int line_ = 0;
  bool first_ = true;
  Value root_;
  std::vector<Level> open_;
};

// Lets yaml-cpp read a text where it lies.
class TextBuffer final : public std::streambuf {
 public:
  explicit TextBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

Status check_bytes(std::string_view text, const YamlLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return Error(ErrorId::kBodyTooLarge, "YAML of " + std::to_string(text.size()) +
                                             " bytes is over the limit of " +
                                             std::to_string(limits.bytes_max) + ": split it");
  }
  if (!is_valid_utf8(text)) {
    return Error(ErrorId::kInvalidUtf8, "the YAML text is not valid UTF-8: save it as UTF-8");
  }
  const std::size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(nul), '\n');
    return Error(ErrorId::kMalformedYaml,
                 "YAML line " + std::to_string(line) + ": a NUL byte: remove it");
  }
  return {};
}

Result<std::vector<Value>> parse_documents(std::string_view text, const YamlLimits& limits) {
  TextBuffer buffer(text);
  std::istream stream(&buffer);
  YAML::Parser parser(stream);
  std::vector<Value> documents;
  Builder builder(text, limits.depth_max);
  while (true) {
    if (!parser.HandleNextDocument(builder)) return documents;
    Value document = builder.take();
    if (!document.is_null()) documents.push_back(std::move(document));
  }
}

// ---- Writing ----

bool is_bare(std::string_view text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '/';
  };
  if (text.empty() || text.size() > 200 || !letter(text.front()) || text.back() == ' ')
    return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool other = (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '@' || c == '+';
    // "a: b" is a mapping and "a:" ends a key; "user:dev" is neither.
    const bool colon = c == ':' && i + 1 < text.size() && text[i + 1] != ' ';
    const bool blank = c == ' ' && text[i + 1] != ' ';
    if (!letter(c) && !other && !colon && !blank) return false;
  }
  // Words that this or an older reader of YAML takes for something else.
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  static constexpr std::string_view kWords[] = {"true", "false", "null", "yes", "no", "on",
                                                "off",  "y",     "n",    "nan", "inf"};
  return std::find(std::begin(kWords), std::end(kWords), lower) == std::end(kWords);
}

void append_text(std::string& out, std::string_view text) {
  if (is_bare(text)) {
    out.append(text);
  } else {
    append_json_string(out, text);
  }
}

// YAML lets a key stand before its colon only up to 1024 characters; a longer one is announced by
// a question mark.
void append_key(std::string& out, std::string_view key, std::size_t indent) {
  std::string text;
  append_text(text, key);
  if (text.size() <= 1000) {
    out += text + ':';
    return;
  }
  out += "? " + text + '\n';
  out.append(indent, ' ');
  out += ':';
}

bool is_block(const Value& value) {
  return (value.is_array() && !value.as_array().empty()) ||
         (value.is_object() && !value.as_object().empty());
}

// The first line begins where `out` stands; the following ones are indented.
void append_block(std::string& out, const Value& value, std::size_t indent) {
  bool first = true;
  const auto begin_line = [&] {
    if (!first) out.append(indent, ' ');
    first = false;
  };
  if (value.is_array()) {
    for (const Value& element : value.as_array()) {
      begin_line();
      out += "- ";
      append_block(out, element, indent + 2);
    }
    if (!first) return;
    out += "[]\n";
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.as_object()) {
      begin_line();
      append_key(out, key, indent);
      if (is_block(member)) {
        out += '\n';
        out.append(indent + 2, ' ');
      } else {
        out += ' ';
      }
      append_block(out, member, indent + 2);
    }
    if (!first) return;
    out += "{}\n";
  } else if (value.is_string()) {
    append_text(out, value.as_string());
    out += '\n';
  } else {
    out += to_json(value) + '\n';
  }
}

}  // namespace

Result<std::vector<Value>> parse_yaml(std::string_view text, const YamlLimits& limits) {
  FALAJ_TRY(check_bytes(text, limits));
  try {
    return parse_documents(text, limits);
  } catch (const Refused& refused) {
    return refused.error;
  } catch (const YAML::Exception& failure) {
    return Error(ErrorId::kMalformedYaml, place(failure.mark) + failure.msg);
  } catch (const std::exception& failure) {
    return Error(ErrorId::kMalformedYaml, std::string("YAML: ") + failure.what());
  }
}

std::string to_yaml(const Value& value) {
  std::string out;
  append_block(out, value, 0);
  return out;
}

}  // namespace falaj::config
