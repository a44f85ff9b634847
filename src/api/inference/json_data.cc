#include "api/inference/internal/json_data.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/json.h"
#include "serving/packed_texts.h"

namespace falaj::api {
namespace {

using serving::Datatype;
using serving::Tensor;
using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr std::size_t kJsonBytesMax = 16 << 20;
constexpr std::size_t kKeptBytesMax = 1 << 20;  // A parser grown past this is not kept.

Error invalid(std::string text) { return Error(ErrorId::kInvalidArgument, std::move(text)); }

// Appends JSON elements to a tensor's bytes. One instance a tensor.
class Flattener {
 public:
  Flattener(Datatype type, std::string_view input, std::string& out)
      : type_(type), input_(input), out_(out) {}

  Status append(element value, int depth) {
    if (value.type() != element_type::ARRAY) {
      ++count_;
      return scalar(value);
    }
    if (depth >= kNestingMax) {
      return invalid("data of input " + in_quotes(input_) + " is nested over " +
                     std::to_string(kNestingMax) + " levels");
    }
    for (const element child : simdjson::dom::array(value.get_array().value_unsafe())) {
      FALAJ_TRY(append(child, depth + 1));
    }
    return {};
  }
  std::size_t count() const { return count_; }

 private:
  template <class T>
  void put(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }

  Error wrong(std::string_view expected) const {
    return invalid("data of input " + in_quotes(input_) + ": element " +
                   std::to_string(count_ - 1) + " must be " + std::string(expected) + " for " +
                   std::string(serving::datatype_name(type_)));
  }

  Status scalar(element value) {
    switch (type_) {
      case Datatype::kBool:
        if (value.type() != element_type::BOOL) return wrong("true or false");
        put(static_cast<std::uint8_t>(value.get_bool().value_unsafe() ? 1 : 0));
        return {};
      case Datatype::kUint8:
        return integer<std::uint8_t>(value);
      case Datatype::kUint16:
        return integer<std::uint16_t>(value);
      case Datatype::kUint32:
        return integer<std::uint32_t>(value);
      case Datatype::kUint64:
        return integer<std::uint64_t>(value);
      case Datatype::kInt8:
        return integer<std::int8_t>(value);
      case Datatype::kInt16:
        return integer<std::int16_t>(value);
      case Datatype::kInt32:
        return integer<std::int32_t>(value);
      case Datatype::kInt64:
        return integer<std::int64_t>(value);
      case Datatype::kFp32:
        return real<float>(value);
      case Datatype::kFp64:
        return real<double>(value);
      case Datatype::kBytes:
        return text(value);
      case Datatype::kFp16:
      case Datatype::kBf16:
        break;
    }
    return wrong("sent in the binary data format");
  }

  Status text(element value) {
    if (value.type() != element_type::STRING) return wrong("a text");
    return serving::append_packed(out_, value.get_string().value_unsafe());
  }

  template <class T>
  Status integer(element value) {
    if (value.type() == element_type::INT64) {
      const std::int64_t number = value.get_int64().value_unsafe();
      if (!std::in_range<T>(number)) return wrong("in range");
      put(static_cast<T>(number));
      return {};
    }
    if (value.type() == element_type::UINT64) {
      const std::uint64_t number = value.get_uint64().value_unsafe();
      if (!std::in_range<T>(number)) return wrong("in range");
      put(static_cast<T>(number));
      return {};
    }
    return wrong("an integer");
  }

  template <class T>
  Status real(element value) {
    if (value.type() == element_type::NULL_VALUE) {
      put(std::numeric_limits<T>::quiet_NaN());
      return {};
    }
    double number = 0;
    if (value.type() == element_type::DOUBLE) {
      number = value.get_double().value_unsafe();
    } else if (value.type() == element_type::INT64) {
      number = static_cast<double>(value.get_int64().value_unsafe());
    } else if (value.type() == element_type::UINT64) {
      number = static_cast<double>(value.get_uint64().value_unsafe());
    } else {
      return wrong("a number or null");
    }
    const T narrow = static_cast<T>(number);
    if (!std::isfinite(narrow)) return wrong("in range");
    put(narrow);
    return {};
  }

  Datatype type_;
  std::string_view input_;
  std::string& out_;
  std::size_t count_ = 0;
};

// Keeps its buffers: a parser a thread costs no allocation after the first request.
struct KeptParser {
  simdjson::dom::parser parser;
  std::size_t largest = 0;
};
KeptParser& kept_parser() {
  thread_local KeptParser kept;
  return kept;
}

Error no_json(const Tensor& tensor, std::string_view what) {
  return invalid("output '" + tensor.name + "' " + std::string(what) +
                 ", which JSON cannot carry; ask for it with binary_data");
}

// Writes one element after the other, in any number of lists.
class ListWriter {
 public:
  ListWriter(std::string& out, const Tensor& tensor, Datatype type)
      : out_(out), tensor_(tensor), type_(type) {}

  // `count` elements from `at` on, with commas between them.
  Status run(std::size_t at, std::size_t count) {
    switch (type_) {
      case Datatype::kBool:
        for (std::size_t i = 0; i < count; ++i) {
          if (i > 0) out_ += ',';
          out_ += tensor_.bytes[at + i] != 0 ? "true" : "false";
        }
        return {};
      case Datatype::kUint8:
        return numbers<std::uint8_t>(at, count);
      case Datatype::kUint16:
        return numbers<std::uint16_t>(at, count);
      case Datatype::kUint32:
        return numbers<std::uint32_t>(at, count);
      case Datatype::kUint64:
        return numbers<std::uint64_t>(at, count);
      case Datatype::kInt8:
        return numbers<std::int8_t>(at, count);
      case Datatype::kInt16:
        return numbers<std::int16_t>(at, count);
      case Datatype::kInt32:
        return numbers<std::int32_t>(at, count);
      case Datatype::kInt64:
        return numbers<std::int64_t>(at, count);
      case Datatype::kFp32:
        return numbers<float>(at, count);
      case Datatype::kFp64:
        return numbers<double>(at, count);
      case Datatype::kBytes:
        return texts(at, count);
      case Datatype::kFp16:
      case Datatype::kBf16:
        break;
    }
    return no_json(tensor_, "is " + tensor_.datatype);
  }

  // Opens and checks what elements of varying length need.
  Status begin(std::size_t elements) {
    if (type_ != Datatype::kBytes) return {};
    texts_ = FALAJ_TRY(serving::unpack_texts(tensor_.bytes, elements));
    return {};
  }

 private:
  template <class T>
  Status numbers(std::size_t at, std::size_t count) {
    for (std::size_t i = at; i < at + count; ++i) {
      T number;
      std::memcpy(&number, tensor_.bytes.data() + i * sizeof(T), sizeof(T));
      if (i > at) out_ += ',';
      if constexpr (std::is_floating_point_v<T>) {
        if (!std::isfinite(number)) {
          return no_json(tensor_, "has a value (NaN or infinity) at element " + std::to_string(i));
        }
        // Readers take "-0" for the integer 0.
        if (number == 0 && std::signbit(number)) {
          out_ += "-0.0";
          continue;
        }
      }
      char digits[40];
      out_.append(digits, std::to_chars(digits, digits + sizeof(digits), number).ptr);
    }
    return {};
  }

  Status texts(std::size_t at, std::size_t count) {
    for (std::size_t i = at; i < at + count; ++i) {
      if (i > at) out_ += ',';
      if (!is_valid_utf8(texts_[i])) {
        return no_json(tensor_, "has bytes that are no UTF-8 at element " + std::to_string(i));
      }
      append_json_string(out_, texts_[i]);
    }
    return {};
  }

  std::string& out_;
  const Tensor& tensor_;
  Datatype type_;
  std::vector<std::string_view> texts_;
};

// The list of dimension `dim`, whose elements begin at `at`.
Status append_nested(std::string& out, ListWriter& writer, const std::vector<std::int64_t>& shape,
                     std::size_t dim, std::size_t at) {
  if (dim + 1 >= shape.size()) {
    const std::size_t count = shape.empty() ? 1 : static_cast<std::size_t>(shape[dim]);
    if (!shape.empty()) out += '[';
    FALAJ_TRY(writer.run(at, count));
    if (!shape.empty()) out += ']';
    return {};
  }
  std::size_t stride = 1;
  for (std::size_t i = dim + 1; i < shape.size(); ++i) stride *= static_cast<std::size_t>(shape[i]);
  out += '[';
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape[dim]); ++i) {
    if (i > 0) out += ',';
    FALAJ_TRY(append_nested(out, writer, shape, dim + 1, at + i * stride));
  }
  out += ']';
  return {};
}

}  // namespace

std::string in_quotes(std::string_view text) {
  return "'" + std::string(text.substr(0, 128)) + "'";
}

Result<std::size_t> append_json_data(element data, Datatype type, std::string_view input,
                                     std::string& out) {
  Flattener flattener(type, input, out);
  FALAJ_TRY(flattener.append(data, 0));
  return flattener.count();
}

Status append_json_list(std::string& out, const Tensor& tensor, ListForm form) {
  const Datatype type = FALAJ_TRY(serving::parse_datatype(tensor.datatype));
  const std::size_t elements = FALAJ_TRY(serving::element_count(tensor.shape));
  ListWriter writer(out, tensor, type);
  FALAJ_TRY(writer.begin(elements));
  if (form == ListForm::kNested) return append_nested(out, writer, tensor.shape, 0, 0);
  out += '[';
  FALAJ_TRY(writer.run(0, elements));
  out += ']';
  return {};
}

Result<simdjson::dom::object> parse_object(std::string_view json) {
  if (json.size() > kJsonBytesMax) {
    return Error(ErrorId::kBodyTooLarge, "the request's JSON has " + std::to_string(json.size()) +
                                             " bytes, at most " + std::to_string(kJsonBytesMax) +
                                             " are read; use the binary data format");
  }
  if (json.empty()) json = "";  // of no bytes from nowhere the parser would still copy
  KeptParser& kept = kept_parser();
  kept.largest = std::max(kept.largest, json.size());
  element document;
  // The parser copies the text once, to read past its end safely.
  const auto failure =
      kept.parser.parse(reinterpret_cast<const std::uint8_t*>(json.data()), json.size(), true)
          .get(document);
  if (failure != simdjson::SUCCESS) {
    forget_object();
    return Error(ErrorId::kMalformedJson, std::string("failed to parse the request JSON buffer: ") +
                                              simdjson::error_message(failure));
  }
  simdjson::dom::object object;
  if (document.get_object().get(object) != simdjson::SUCCESS) {
    forget_object();
    return invalid("the request must be a JSON object");
  }
  return object;
}

void forget_object() {
  KeptParser& kept = kept_parser();
  if (kept.largest > kKeptBytesMax) kept = KeptParser();
}

std::size_t kept_json_bytes() { return kept_parser().parser.capacity(); }

}  // namespace falaj::api
